"""A policy on a grid of states, solved for known dynamics and a law of the noise.

`Resolver` and `zooming.plan` share it: one solver, one policy. `kernels.solve.policies` says how
the action of a state comes from those of grid points.

An action is mixed with that of a neighbor if, halfway between both points, the mixed action is at
least as good as either. So an order-up-to level is exact between grid points, and the jump of an
(s, S) rule stays a jump.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.envs.compiled import CompiledEnv, Outcomes
from zooming.envs.functions import is_python
from zooming.envs.state_grid import Grid, n_cells
from zooming.errors import ConfigurationError
from zooming.kernels.loop.jit import call_in_thread
from zooming.kernels.solve.backups import GIVEN_ACTIONS, interpolate
from zooming.kernels.solve.policies import ACTION_HIGH, ACTION_LOW, LOW, WIDTH, choose_all
from zooming.validation import Floats

MOST_AXES = 3  # of states: beyond, a grid takes too long
# Least and most cells per state axis, and steps of the dynamics for one solution, by the number of
# state axes: about 10 ms for one, 100 ms for two.
CELLS = {1: (64, 256, 1.2e5), 2: (16, 48, 2e6), 3: (6, 12, 1e7)}
# Cells per action axis, and halvings of the search after them, by the number of action axes.
SEARCH = {1: (8, 5), 2: (4, 4), 3: (3, 4)}
TRIALS = 20  # actions that are tried in a state, about
USUAL = 16  # outcomes of a step, before any is seen


class GridPolicy:
    """A policy on a grid of states, with its values.

    Before it is solved, it plays the middle of the actions.

    Parameters
    ----------
    state_box, action_box : gymnasium.spaces.Box
        The boxes of a compiled environment.
    is_whole : (bool, bool)
        Whether states, and whether actions, are integers.
    horizon, resolution : int
        Steps of an episode, and cells per state axis.

    Attributes
    ----------
    frame, cells, best, mixes
        See `kernels.solve.policies.choose`.
    values : array [horizon + 1, n_points]
        V of each grid point.
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
            n_actions = _aligned(model.action_box, n_actions, 2 * n_actions)
        return Grid(model, self.resolution, laws=laws, n_actions=n_actions, search=search)

    def solve(self, model: CompiledEnv, laws: Sequence[Outcomes]) -> None:
        """Replace the policy by the best one for a law of the noise of each step."""
        grid = self.grid(model, laws)
        best, mixes = call_in_thread(lambda: _solve(grid, self.best))
        self.best, self.mixes, self.values, self.is_solved = best, mixes, grid.values, True

    def actions(self, steps: NDArray[np.int64], states: Floats) -> Floats:
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
        first = step * self.values.shape[1]
        flat = self.values.reshape(-1)
        return float(interpolate(flat, first, n, self.is_whole[0], low, scale, state))

    @property
    def n_points(self) -> int:
        """Number of grid points, summed over all steps."""
        return int(self.best.shape[0] * self.best.shape[1])

    @property
    def nbytes(self) -> int:
        return self.best.nbytes + self.mixes.nbytes + self.values.nbytes

    # --- files ------------------------------------------------------------------------------------

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
        low, high = (
            self.frame[ACTION_LOW, : self.n_action],
            self.frame[ACTION_HIGH, : self.n_action],
        )
        if not ((arrays["best"] >= low) & (arrays["best"] <= high)).all():
            raise ValueError("an action of the policy is outside of the action space")
        if (arrays["mixes"] & ~_neighbors(self.cells)).any():
            raise ValueError("the policy mixes in a neighbor that is not there")
        self.best, self.mixes, self.values = (
            np.ascontiguousarray(arrays[name]) for name in ("best", "mixes", "values")
        )
        self.is_solved = bool(is_solved)


def usual_cells(model: CompiledEnv, n_outcomes: int) -> int:
    """Return the number of cells per state axis, such that whole numbers are grid points.

    `n_outcomes` is the number of outcomes, summed over the steps: the more, the fewer cells.
    """
    n_state = model.state_box.shape[0]
    least, most, work = CELLS[n_state]
    if is_python(model.given):
        least, work = max(4, least // 4), work / 50
    wanted = int((work / (TRIALS * n_outcomes)) ** (1 / n_state))
    least = min(max(wanted, least), most)
    return _aligned(model.state_box, least, 2 * least)


def _aligned(box: Any, least: int, most: int) -> int:
    """Return a number of cells from `least` to `most`, with a point at each whole unit if it can.

    Otherwise two units, or more, are one cell: if they are as many on each axis, or a divisor.
    """
    spans = np.asarray(box.high - box.low, float)
    if (spans == np.rint(spans)).all() and (spans <= 1e6).all():
        common = math.lcm(*(int(span) for span in spans))
        if common <= most:
            return common * max(1, math.ceil(least / common))
        for cells in range(least, most + 1):
            if all(int(span) % cells == 0 for span in spans):
                return cells
    return least


def _solve(grid: Grid, warm: Floats) -> tuple[Floats, NDArray[np.uint8]]:
    """Return the best actions, and with which neighbors they are mixed.

    The search also tries the actions `warm`, those of the last plan.
    """
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


def _neighbors(cells: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return [n_points, 2 n_state]: whether a grid point has a neighbor on each side."""
    places = np.array(np.unravel_index(np.arange(int(np.prod(cells + 1))), cells + 1))
    sides = [side for j, n in enumerate(cells) for side in (places[j] > 0, places[j] < n)]
    return np.stack(sides, axis=1).astype(np.uint8)
