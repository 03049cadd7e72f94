"""A grid of states with the values of all steps, and a policy on it.

`zooming.solve`, `zooming.plan` and `Resolver` share them: one solver, one policy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.envs.compiled import CompiledEnv, Outcomes
from zooming.envs.declared import weights_fault
from zooming.envs.functions import error_of, is_python
from zooming.envs.starts import FUNCTION, N_STARTS, UNIFORM
from zooming.errors import ConfigurationError
from zooming.kernels.loop.jit import call_in_thread
from zooming.kernels.solve.backups import (
    GIVEN_ACTIONS,
    HALVINGS,
    backups,
    interpolate,
    keep_weights,
)
from zooming.kernels.solve.policies import ACTION_HIGH, ACTION_LOW, LOW, WIDTH, choose_all
from zooming.validation import Floats, Ints, clip_rounding, n_cores

LITTLE = 300_000  # backups for which threads take longer than the work
DEVIATIONS = 1.96  # standard errors in the half-width of a 95 % interval
MOST_AXES = 3  # of states: beyond, a grid takes too long
# Least and most cells per state axis, and steps of the dynamics for one solution, by the number of
# state axes: about 10 ms for one, 100 ms for two.
CELLS = {1: (64, 256, 1.2e5), 2: (16, 48, 2e6), 3: (6, 12, 1e7)}
# Cells per action axis, and halvings of the search after them, by the number of action axes.
SEARCH = {1: (8, 5), 2: (4, 4), 3: (3, 4)}
TRIALS = 20  # actions that are tried in a state, about
USUAL = 16  # outcomes of a step, before any is seen


def weigher(env: CompiledEnv) -> Callable[..., None]:
    """Return the environment's `weigh`, or a function that leaves all weights unchanged."""
    return env.weigh or keep_weights()


class Grid:
    """A grid of states with the values of all steps, and the backups on it.

    A box has `resolution` cells per axis. The grid of a Discrete space is all its values.

    The law of each step is the environment's, or one of `laws`. With `laws`, the declared law is
    not read. `n_actions` is the number of cells per action axis at which the search of actions
    begins; by default the resolution. The search halves its step `search` times.
    """

    def __init__(
        self,
        env: CompiledEnv,
        resolution: int,
        *,
        laws: Sequence[Outcomes] | None = None,
        n_actions: int | None = None,
        search: int = HALVINGS,
    ) -> None:
        self.env, self.resolution = env, resolution
        n_actions = n_actions or resolution
        states, actions = env.state_box, env.action_box
        self.n_state, self.n_action = states.shape[0], actions.shape[0]
        self.n_cells = n_cells(states) if env.has_whole_states else resolution
        self.states = points(states, self.n_cells)
        self.actions = points(actions, n_cells(actions) if env.has_whole_actions else n_actions)
        self.search = 0 if env.has_whole_actions else search
        self.table = np.zeros((9, max(self.n_state, self.n_action)))
        self.table[0, : self.n_state] = states.low
        self.table[1, : self.n_state] = (
            1.0 if env.has_whole_states else self.n_cells / (states.high - states.low)
        )
        self.table[2, : self.n_action], self.table[3, : self.n_action] = actions.low, actions.high
        self.table[4, : self.n_action] = (actions.high - actions.low) / n_actions
        self.table[5, 0], self.table[6, 0] = self.n_cells, env.has_whole_states
        self.weigh = keep_weights() if laws is not None else weigher(env)
        self.table[7, 0] = env.weigh is not None and laws is None
        self.outcomes = (
            [env.outcomes(step, resolution) for step in range(env.horizon)]
            if laws is None
            else list(laws)
        )
        self.horizon = len(self.outcomes)  # given laws may be those of fewer steps
        self.values = np.zeros((self.horizon + 1, len(self.states)))
        self.search_error = 0.0  # sum over the steps

    def solve(self, warm: Floats | None = None) -> Floats:
        """Fill in the values from the last step to the first. Return the best actions [H, n, k].

        `warm` are actions [H, n, k] that the search tries, too; no `search_error` is computed then.
        """
        best = np.empty((self.horizon, len(self.states), self.n_action))
        self.search_error = 0.0
        for step in reversed(range(self.horizon)):
            self.values[step], best[step], missed = self.backup(
                step, self.states, self.actions, self.search, None if warm is None else warm[step]
            )
            self.search_error += float(missed.max(initial=0.0))
        return best

    def backup(
        self, step: int, states: Floats, actions: Floats, search: int, warm: Floats | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return the largest Q found in each state, its action, and how much larger Q may be.

        The action search tries all rows of `actions`, then points around the best one with a step
        that is halved `search` times. With `search=GIVEN_ACTIONS`, state i plays row i. With
        `warm`, one action per state, it tries this one, too, and the last array is empty. All cores
        are used, unless there is little to do.
        """
        outcomes, weights = self.outcomes[step]
        values, missed = np.empty(len(states)), np.empty(len(states) if warm is None else 0)
        best = np.empty((len(states), self.n_action)) if warm is None else warm.copy()
        self.table[8, 0] = warm is not None
        work = len(states) * (len(actions) if search != GIVEN_ACTIONS else 1) * len(weights)
        n_parts = min(n_cores() * 4, len(states)) if work > LITTLE else 1
        kernel, flat = backups(), self.values.reshape(-1)

        def part(k: int) -> None:
            chosen = slice(len(states) * k // n_parts, len(states) * (k + 1) // n_parts)
            mine, trial = states[chosen], np.empty(self.n_action)
            arguments = (
                self.env.given, self.weigh, self.env.params, step, outcomes, weights.copy(),
                self.table, flat, (step + 1) * self.values.shape[1],
                mine, actions[chosen] if search == GIVEN_ACTIONS else actions, search,
                values[chosen], best[chosen],
                missed[chosen], np.empty(self.n_state), trial, np.empty(self.n_action),
            )  # fmt: skip
            reached = call_in_thread(lambda: kernel(*arguments))  # functions cross
            if reached < len(mine):
                fault = bad_transition(self.env, step, outcomes, mine[reached], trial)
                raise fault or ConfigurationError(
                    f"{self.env.name}, step {step}: values are beyond floating point; rescale "
                    "rewards"
                )

        if n_parts == 1:
            part(0)
        else:
            with ThreadPoolExecutor(n_cores()) as pool:
                list(pool.map(part, range(n_parts)))
        return values, best, missed

    def value(self, step: int, state: Floats) -> float:
        """Return V_h(x), interpolated between grid points."""
        low, scale = self.table[0, : self.n_state], self.table[1, : self.n_state]
        is_whole = self.env.has_whole_states
        return _value_at(self.values, step, self.n_cells, is_whole, low, scale, state)

    def start_value(self) -> tuple[float, float]:
        """Return the mean value over the start distribution, and the error of that mean."""
        mean, spread, n = self._mean_value(N_STARTS)
        if self.env.start_kind == FUNCTION and n > 1:
            return mean, DEVIATIONS * spread / math.sqrt(n - 1)
        if self.env.start_kind == UNIFORM:  # half as many points along each axis
            return mean, abs(mean - self._mean_value(N_STARTS >> self.n_state)[0])
        return mean, 0.0

    def _mean_value(self, n: int) -> tuple[float, float, int]:
        """Return (mean of V, standard deviation, number of states) over about n start states."""
        states, weights = self.env.start_states(n)
        values = np.array([self.value(0, state) for state in states])
        mean = float(sum(weight * value for weight, value in zip(weights, values, strict=True)))
        return mean, float(np.sqrt(weights @ (values - mean) ** 2)), len(states)


def _value_at(values: Floats, step: int, *where: Any) -> float:
    """Return the interpolation of values[step]; for `where` see `interpolate`."""
    return float(interpolate(values.reshape(-1), step * values.shape[1], *where))


def bad_transition(
    env: CompiledEnv, step: int, outcomes: Floats, state: Floats, action: Floats
) -> ConfigurationError | None:
    """Return an error for the first outcome with an invalid reward or next state, or None."""
    assert env.given is not None
    low, high = env.state_box.low, env.state_box.high
    where = f"{env.name}, step {step}: in state {state.tolist()}, action {action.tolist()}"
    if env.weigh is not None:
        fault = weights_fault(env, step, state, action)
        if fault:
            return ConfigurationError(f"{env.name}, step {step}: {fault}")
        weights = np.empty(len(outcomes))
        env.weigh(state, action, step, env.params, outcomes, weights)
        outcomes = outcomes[weights > 0]
    for outcome in outcomes:
        after = np.full((1, len(low)), np.nan)
        reward = env.given(state, action, step, env.params, outcome, after[0])
        seen = env.where_recorded(outcome, step)
        if not np.isfinite(reward):
            raised = error_of(env.given)
            missing = np.flatnonzero(np.isnan(env.params))
            why = f" (params[{missing[0]}] is nan)" if len(missing) else ""
            why = f" ({type(raised).__name__}: {raised})" if raised is not None else why
            return ConfigurationError(
                f"{where}, the reward is {reward}{seen}{why}; check the dynamics"
            )
        if env.are_states(after)[0]:
            continue
        if env.has_whole_states:
            fault = f"not a whole number from {low[0]:g} to {high[0]:g}"
            return ConfigurationError(
                f"{where}, the next state is {after[0, 0]}{seen}, {fault}; check the dynamics, or "
                "round it there"
            )
        _, i = clip_rounding(after[0], low, high)
        fault = f"outside [{low[i]:g}, {high[i]:g}]"
        return ConfigurationError(
            f"{where}, next_state[{i}] is {after[0, i]}{seen}, {fault}; check the dynamics, or "
            "clip it there"
        )
    return None


def n_cells(box: Any) -> int:
    """Return the number of cells of a Discrete space: the number of its values minus one."""
    return int(box.high[0] - box.low[0])


def points(box: Any, n_cells: int) -> Floats:
    """Return the points of a grid with `n_cells` cells per axis as an array [n, n_axes]."""
    axes = [
        np.linspace(low, high, n_cells + 1) for low, high in zip(box.low, box.high, strict=True)
    ]
    return np.array(list(itertools.product(*axes)))


class GridPolicy:
    """A policy on a grid of states, solved for known dynamics and a law of the noise.

    `Resolver` and `zooming.plan` play it. Before it is solved, it plays the middle of the actions.
    `is_whole` says whether states, and whether actions, are integers. For `frame`, `cells`, `best`
    and `mixes` see `kernels.solve.policies.choose`. `values` are V of each step and grid point.

    An action is mixed with that of a neighbor if, halfway between both points, the mixed action is
    at least as good as either. So an order-up-to level is exact between grid points, and the jump
    of an (s, S) rule stays a jump.
    """

    def __init__(
        self,
        state_box: Any,
        action_box: Any,
        is_whole: tuple[bool, bool],
        horizon: int,
        resolution: int,
    ) -> None:
        self.n_state, self.n_action = state_box.shape[0], action_box.shape[0]
        self.is_whole, self.horizon, self.resolution = is_whole, horizon, resolution
        n = n_cells(state_box) if is_whole[0] else resolution
        self.cells = np.full(self.n_state, n, np.int64)
        n_points = (n + 1) ** self.n_state
        self.frame = np.zeros((4, max(self.n_state, self.n_action)))
        self.frame[LOW, : self.n_state] = state_box.low
        self.frame[WIDTH, : self.n_state] = np.maximum(state_box.high - state_box.low, 1e-300)
        if is_whole[0] and n == 0:
            self.frame[WIDTH, 0] = 1.0
        self.frame[ACTION_LOW, : self.n_action] = action_box.low
        self.frame[ACTION_HIGH, : self.n_action] = action_box.high
        middle = (action_box.low + action_box.high) / 2
        self.best = np.empty((horizon, n_points, self.n_action))
        self.best[:] = np.floor(middle) if is_whole[1] else middle
        self.mixes = np.zeros((horizon, n_points, 2 * self.n_state), np.uint8)
        self.values = np.zeros((horizon + 1, n_points))
        self.is_solved = False

    @classmethod
    def of(cls, model: CompiledEnv, horizon: int, resolution: int | None = None) -> GridPolicy:
        """Return an unsolved policy for a model. Raise ConfigurationError if it is too large."""
        n_state, n_action = model.state_box.shape[0], model.action_box.shape[0]
        if n_state > MOST_AXES or n_action > MOST_AXES:
            raise ConfigurationError(
                f"{model.name} has {n_state} state axes and {n_action} action axes; a grid is "
                f"feasible for 1 to {MOST_AXES} of each. Leave out axes that do not matter, or "
                "learn: zooming.Auto(env)"
            )
        whole = model.has_whole_states, model.has_whole_actions
        found = usual_cells(model, USUAL * horizon) if resolution is None else resolution
        return cls(model.state_box, model.action_box, whole, horizon, found)

    def grid(self, model: CompiledEnv, laws: Sequence[Outcomes]) -> Grid:
        """Return the grid on which this policy is solved, without values."""
        n_actions, search = SEARCH[self.n_action]
        if not model.has_whole_actions:
            least = n_actions
            n_actions = _aligned(model.action_box, least, 2 * least)
            while n_actions % 2 == 0 and n_actions >= 2 * least:  # halved, the search meets units
                n_actions //= 2
        return Grid(model, self.resolution, laws=laws, n_actions=n_actions, search=search)

    def solve(self, model: CompiledEnv, laws: Sequence[Outcomes]) -> None:
        """Replace the policy by the best one for a law of the noise of each step."""
        grid = self.grid(model, laws)
        best, mixes = call_in_thread(lambda: _solve(grid, self.best))
        self.best, self.mixes, self.values, self.is_solved = best, mixes, grid.values, True

    def actions(self, steps: Ints, states: Floats) -> Floats:
        """Return one action per (step, state)."""
        found = np.empty((len(states), self.n_action))
        choose_all()(
            np.ascontiguousarray(steps, np.int64), np.ascontiguousarray(states, np.float64),
            self.frame, self.cells, self.best, self.mixes, found,
        )  # fmt: skip
        return found

    def value(self, step: int, state: Floats) -> float:
        """Return V_h(x), interpolated between grid points."""
        n = int(self.cells[0])
        low, width = self.frame[LOW, : self.n_state], self.frame[WIDTH, : self.n_state]
        scale = np.ones(self.n_state) if self.is_whole[0] else n / width
        return _value_at(self.values, step, n, self.is_whole[0], low, scale, state)

    @property
    def n_points(self) -> int:
        """Number of grid points, summed over all steps."""
        return int(self.best.shape[0] * self.best.shape[1])

    @property
    def nbytes(self) -> int:
        return self.best.nbytes + self.mixes.nbytes + self.values.nbytes

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save."""
        return {"best": self.best, "mixes": self.mixes, "values": self.values}

    def restore(self, arrays: dict[str, NDArray[Any]], is_solved: bool) -> None:
        """Restore what `state` returned. Raise ValueError if it does not fit."""
        for name, own in self.state().items():
            given = arrays[name]
            if given.dtype != own.dtype or given.shape != own.shape:
                raise ValueError(f"{name} is {given.dtype} of shape {given.shape}")
            if own.dtype == np.float64 and not np.isfinite(given).all():
                raise ValueError(f"{name} holds values that are not finite")
        low, high = self.frame[[ACTION_LOW, ACTION_HIGH], : self.n_action]
        if not ((arrays["best"] >= low) & (arrays["best"] <= high)).all():
            raise ValueError("an action of the policy is outside of the action space")
        if (arrays["mixes"] & ~_neighbors(self.cells)).any():
            raise ValueError("the policy mixes in a neighbor that is not there")
        self.best, self.mixes, self.values = (
            np.ascontiguousarray(arrays[name]) for name in ("best", "mixes", "values")
        )
        self.is_solved = bool(is_solved)


def usual_cells(model: CompiledEnv, n_outcomes: int) -> int:
    """Return the number of cells per state axis, such that whole numbers are grid points."""
    n_state = model.state_box.shape[0]
    least, most, work = CELLS[n_state]
    if is_python(model.given):
        least, work = max(4, least // 4), work / 50
    wanted = int((work / (TRIALS * n_outcomes)) ** (1 / n_state))
    least = min(max(wanted, least), most)
    if n_state == MOST_AXES:  # twice as many would take eight times as long
        return _aligned(model.state_box, (least + 1) // 2, least)
    return _aligned(model.state_box, least, 2 * least)


def _aligned(box: Any, least: int, most: int) -> int:
    """Return a number of cells from `least` to `most`, with a point at each whole unit if it can.

    Otherwise it fits as many axes as possible: an axis of n units fits n / k and n k cells.
    """
    spans = np.asarray(box.high - box.low, float)
    if (spans == np.rint(spans)).all() and (spans <= 1e6).all():
        units = [int(span) for span in spans]
        common = math.lcm(*units)
        if common <= most:
            return common * max(1, math.ceil(least / common))
        fits = {
            cells: sum(n % cells == 0 or cells % n == 0 for n in units)
            for cells in range(least, most + 1)
        }
        return max(fits, key=lambda cells: (fits[cells], -cells))
    return least


def _solve(grid: Grid, warm: Floats) -> tuple[Floats, NDArray[np.uint8]]:
    """Return the best actions, and with which neighbors they are mixed."""
    best = grid.solve(warm)
    mixes = np.zeros((*best.shape[:2], 2 * grid.n_state), np.uint8)
    env = grid.env
    if env.has_whole_states or env.has_whole_actions:
        return best, mixes
    n = grid.n_cells
    places = np.array(np.unravel_index(np.arange(len(grid.states)), [n + 1] * grid.n_state))
    for j in range(grid.n_state):
        stride = (n + 1) ** (grid.n_state - 1 - j)
        below = np.flatnonzero(places[j] < n)
        above = below + stride
        middle = np.ascontiguousarray((grid.states[below] + grid.states[above]) / 2)
        for step in range(grid.horizon):
            low, high = best[step, below], best[step, above]
            differ = np.flatnonzero((low != high).any(axis=1))
            if not len(differ):
                continue
            trials = np.vstack([(low + high)[differ] / 2, low[differ], high[differ]])
            states = np.vstack([middle[differ]] * 3)
            mixed, first, second = np.split(
                grid.backup(step, states, np.ascontiguousarray(trials), GIVEN_ACTIONS)[0], 3
            )
            slack = 1e-12 * np.maximum(1.0, np.abs(mixed))
            good = differ[mixed >= np.maximum(first, second) - slack]
            mixes[step, below[good], 2 * j + 1] = 1
            mixes[step, above[good], 2 * j] = 1
    return best, mixes


def _neighbors(cells: Ints) -> NDArray[np.uint8]:
    """Return [n_points, 2 n_state]: whether a grid point has a neighbor on each side."""
    places = np.array(np.unravel_index(np.arange(int(np.prod(cells + 1))), cells + 1))
    sides = [side for j, n in enumerate(cells) for side in (places[j] > 0, places[j] < n)]
    return np.stack(sides, axis=1).astype(np.uint8)
