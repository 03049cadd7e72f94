"""The optimum of a compiled environment, by backward induction on a grid of states.

    V_H = 0,    Q_h(x, a) = sum_w p_w (r_h(x, a, w) + V_{h+1}(x'(x, a, w))),    V_h(x) = max_a Q_h(x, a)

The sum runs over the environment's weighted outcomes (exact for finite sets, slices of a density otherwise). Between grid
points V is interpolated linearly. The maximum is looked for on a grid of actions and then, around the best one, with steps
halved until they are a thousandth of the grid's.

The reported error is an estimate, the larger of two: the largest difference, over all steps and states, to the solution at
half the resolution (which sees the outcomes and the search), and the sum over the steps of what interpolation can lose in a
cell, given the slopes of the cells beside it (which sees a kink of V that both grids miss). Something narrower than a cell
can fool both. Given a Lipschitz constant L of Q* on the unit cube it is a bound: a step loses at most L h by interpolation,
L h / 2 by the search and L h / 2 by the outcomes, h the spacing.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import float64, int64, types, void
from numpy.typing import ArrayLike, NDArray

from zooming.checks import n_cores, real
from zooming.envs.compiled import CompiledEnv, compiled_inside
from zooming.errors import SpaceError
from zooming.kernels import GIVEN, cached, lean

Floats = NDArray[np.float64]
DEFAULT_RESOLUTION = {1: 200, 2: 20, 3: 8}  # cells per axis that take seconds
DETERMINISTIC_RESOLUTION = {1: 1000, 2: 40, 3: 12}  # the same where each action has one outcome
MOST_BACKUPS = 2e8  # that a default resolution may take
HALVINGS = 10  # of the step of the action search
_ROUNDING = 1e-9  # no error is reported smaller than what adding up floating-point numbers may lose


@lean
def interpolate(values, first, n_cells, low, scale, point):  # type: ignore[no-untyped-def]
    """Multilinear interpolation of values on a grid of n_cells + 1 points per axis, from values[first] on."""
    n_axes = point.shape[0]
    if n_axes == 1:  # most problems; the loop below takes four times as long
        place = min(max((point[0] - low[0]) * scale[0], 0.0), float(n_cells))
        cell = min(int(place), n_cells - 1)
        share = place - cell
        return (1.0 - share) * values[first + cell] + share * values[first + cell + 1]
    total = 0.0
    for corner in range(1 << n_axes):
        weight = 1.0
        index = 0
        for axis in range(n_axes):
            place = min(max((point[axis] - low[axis]) * scale[axis], 0.0), float(n_cells))
            cell = min(int(place), n_cells - 1)
            share = place - cell
            if corner >> axis & 1:
                weight *= share
                cell += 1
            else:
                weight *= 1.0 - share
            index = index * (n_cells + 1) + cell
        if weight != 0.0:
            total += weight * values[first + index]
    return total


def _backups(  # type: ignore[no-untyped-def]
    given, params, step, outcomes, weights, grid, next_values, first, states, actions, search, values, best, next_state, trial
):
    """Writes the best Q and its action for each state, over all rows of `actions` and then around the best of them.

    `grid` has rows low, scale (of the states), low, high, step (of the actions), each padded; its last entry is n_cells. With
    `search` = 0 the actions are a policy: state i plays row i.
    """
    n_state = states.shape[1]
    n_action = actions.shape[1]
    n_cells = int(grid[5, 0])
    low, scale = grid[0, :n_state], grid[1, :n_state]
    for i in range(states.shape[0]):
        state = states[i]
        best_value = -np.inf
        n_trials = actions.shape[0] if search > 0 else 1
        n_directions = 2 * n_action + (1 << n_action)  # along the axes, and diagonally: a ridge may run between the axes
        for j in range(n_trials + search * n_directions):
            if j < n_trials:
                row = j if search > 0 else i
                for axis in range(n_action):
                    trial[axis] = actions[row, axis]
            else:
                around = j - n_trials
                direction = around % n_directions
                for axis in range(n_action):
                    sign = 0.0
                    if direction >= 2 * n_action:
                        sign = 1.0 if (direction - 2 * n_action) >> axis & 1 else -1.0
                    elif direction // 2 == axis:
                        sign = 1.0 if direction % 2 else -1.0
                    trial[axis] = best[i, axis] + sign * grid[4, axis] * 0.5 ** (1 + around // n_directions)
                    trial[axis] = min(grid[3, axis], max(grid[2, axis], trial[axis]))
            total = 0.0
            for w in range(weights.shape[0]):
                reward = given(state, trial, step, params, outcomes[w], next_state)
                total += weights[w] * (reward + interpolate(next_values, first, n_cells, low, scale, next_state))
            if total > best_value:
                best_value = total
                for axis in range(n_action):
                    best[i, axis] = trial[axis]
        values[i] = best_value


@functools.cache
def _backup() -> Callable[..., None]:
    """The kernel above, compiled on first use for any environment's dynamics; it allocates nothing, see `kernels.lean`."""
    row, matrix = float64[::1], float64[:, ::1]
    given = types.FunctionType(GIVEN)
    signature = void(given, row, int64, matrix, row, matrix, row, int64, matrix, matrix, int64, row, matrix, row, row)
    kernel: Callable[..., None] = cached(_backups, signature, _nrt=False)
    return kernel


class Grid:
    """A grid of states on which values of all steps are kept, and the backups on it.

    For finitely many states and actions the grid is all of them, and nothing is interpolated or searched for in between.
    """

    def __init__(self, env: CompiledEnv, resolution: int, n_outcomes: int | None = None) -> None:
        self.env, self.resolution = env, resolution
        states, actions = env.observation_space, env.action_space
        self.n_state, self.n_action = states.shape[0], actions.shape[0]
        self.states = _points(states, resolution)
        self.actions = _points(actions, int(actions.high[0] - actions.low[0]) if env.is_finite else resolution)
        self.table = np.zeros((6, max(self.n_state, self.n_action)))
        self.table[0, : self.n_state], self.table[1, : self.n_state] = states.low, resolution / (states.high - states.low)
        self.table[2, : self.n_action], self.table[3, : self.n_action] = actions.low, actions.high
        self.table[4, : self.n_action] = 0.0 if env.is_finite else (actions.high - actions.low) / resolution
        self.table[5, 0] = resolution
        self.outcomes = [env.outcomes(step, n_outcomes or resolution) for step in range(env.horizon)]
        self.values = np.zeros((env.horizon + 1, len(self.states)))

    def backup(self, step: int, states: Floats, actions: Floats, search: int) -> tuple[Floats, Floats]:
        """Best Q and action of each state, all cores at work."""
        outcomes, weights = self.outcomes[step]
        values, best = np.empty(len(states)), np.empty((len(states), self.n_action))
        n_parts = min(n_cores() * 4, len(states)) if len(states) > 16 else 1
        kernel, flat = _backup(), self.values.reshape(-1)

        def part(k: int) -> None:
            chosen = slice(len(states) * k // n_parts, len(states) * (k + 1) // n_parts)
            kernel(
                self.env.given, self.env.params, step, outcomes, weights, self.table, flat, (step + 1) * self.values.shape[1],
                states[chosen], actions if search else actions[chosen], search, values[chosen], best[chosen],
                np.empty(self.n_state), np.empty(self.n_action),
            )  # fmt: skip

        if n_parts == 1:
            part(0)
        else:
            with ThreadPoolExecutor(n_cores()) as pool:
                list(pool.map(part, range(n_parts)))
        return values, best

    def value(self, step: int, state: Floats) -> float:
        first, low, scale = step * self.values.shape[1], self.table[0, : self.n_state], self.table[1, : self.n_state]
        return float(interpolate(self.values.reshape(-1), first, self.resolution, low, scale, state))

    def mean_start_value(self) -> float:
        states, weights = self.env.start_states(4096)
        return float(sum(weight * self.value(0, state) for state, weight in zip(states, weights, strict=True)))


@dataclass(frozen=True)
class Optimal:
    """The optimum: values of every step and state, within `error`. Steps are counted from 0.

    >>> import gymnasium as gym, zooming
    >>> optimal = zooming.solve(gym.make("zooming/Oil-v0", survey="quadratic", sharpness=1.0))
    >>> round(optimal.return_, 4), round(optimal.value(0, [0.0]), 4)
    (4.8, 4.3)
    >>> optimal.action(0, [0.5]).round(3)  # it stops 1/(2 H lam) = 0.1 short of the oil at 0.75
    array([0.65])
    """

    grid: Grid = field(repr=False)
    resolution: int
    return_: float  # the expected return of the optimal policy from the start
    error: float  # of every value: an estimate, or with `lipschitz` a bound; see above
    seconds: float = field(compare=False)

    def __repr__(self) -> str:
        return f"Optimal(return {self.return_:.4f} within {self.error:.1e}, resolution {self.resolution}, {self.seconds:.1f} s)"

    @property
    def horizon(self) -> int:
        """Number of steps."""
        return self.grid.env.horizon

    def value(self, step: int, state: ArrayLike) -> float:
        """V*_h(x)."""
        return self.grid.value(self._step(step), self._point(state, self.grid.env.observation_space, "state"))

    def values(self, step: int, states: ArrayLike) -> Floats:
        """V*_h of many states [n, n_state]."""
        return np.array([self.value(step, state) for state in np.atleast_2d(np.asarray(states, np.float64))])

    def q_value(self, step: int, state: ArrayLike, action: ArrayLike) -> float:
        """Q*_h(x, a)."""
        return float(self.q_values(step, np.array([state]), np.array([action]))[0])

    def q_values(self, step: int, states: ArrayLike, actions: ArrayLike) -> Floats:
        """Q*_h of many pairs: states [n, n_state] and actions [n, n_action]."""
        env = self.grid.env
        x = self._points(states, env.observation_space, "state")
        a = self._points(actions, env.action_space, "action")
        if len(x) != len(a) or not len(x):
            raise SpaceError(f"{len(x)} states and {len(a)} actions: give as many of each, at least one")
        return self.grid.backup(self._step(step), x, a, search=0)[0]

    def action(self, step: int, state: ArrayLike) -> Floats:
        """A best action in a state."""
        x = self._point(state, self.grid.env.observation_space, "state")[None]
        best: Floats = self.grid.backup(self._step(step), x, self.grid.actions, search=HALVINGS)[1][0]
        return best

    def _step(self, step: int) -> int:
        if not 0 <= step < self.horizon:
            raise SpaceError(f"step {step} is outside the episode: steps run from 0 to {self.horizon - 1}")
        return int(step)

    @classmethod
    def _points(cls, values: ArrayLike, space: Any, what: str) -> Floats:
        points = np.asarray(values, np.float64)
        if points.ndim != 2 or space.shape != points.shape[1:] or not _inside(points, space).all():
            return np.array([cls._point(point, space, what) for point in points])  # which says what is wrong
        return np.ascontiguousarray(points)

    @staticmethod
    def _point(values: ArrayLike, space: Any, what: str) -> Floats:
        point = np.array(values, np.float64).reshape(-1)
        if point.shape != space.shape or not _inside(point, space).all():
            raise SpaceError(f"{what} {values!r} is not a point of {space}")
        return point


def _inside(points: Floats, space: Any) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (space.low - 1e-9 <= points) & (points <= space.high + 1e-9)
    return inside


def solve(
    env: Any, resolution: int | None = None, *, tolerance: float | None = None, lipschitz: float | None = None
) -> Optimal:
    """The optimum of a compiled environment with 1 to 3 state axes, on a grid of `resolution` cells per axis.

    With `lipschitz`, a Lipschitz constant of Q* on the unit cube, the reported error is a bound. With `tolerance` the error
    must not be larger: an exception says which resolution to try otherwise. With finitely many states and actions the
    optimum is exact, and `resolution` is not asked for.
    """
    inner = solvable(env)
    if inner.is_finite:
        return _exact(inner, resolution)
    n_state, default = inner.observation_space.shape[0], default_resolution(inner)
    resolution = default if resolution is None else resolution
    if isinstance(resolution, bool) or not isinstance(resolution, (int, np.integer)) or resolution < 4 or resolution % 2:
        raise SpaceError(
            f"resolution={resolution!r} is too small to certify anything: give an even number of cells per axis, at least 4 "
            f"(by default {default} here)"
        )
    began = time.perf_counter()
    coarse, fine = (_solved(Grid(inner, n)) for n in (int(resolution) // 2, int(resolution)))
    shape = (inner.horizon + 1, *[int(resolution) + 1] * n_state)
    shared = fine.values.reshape(shape)[(slice(None), *[slice(None, None, 2)] * n_state)].reshape(inner.horizon + 1, -1)
    difference = float(np.abs(shared - coarse.values).max())
    error = max(difference, _interpolation_error(fine.values.reshape(shape)), _ROUNDING)
    if lipschitz is not None:
        error = max(error, 2 * inner.horizon * real(lipschitz, "lipschitz", 0.0, np.inf) / int(resolution))
    if tolerance is not None and not error <= tolerance:
        raise SpaceError(
            f"resolution={resolution} certifies the optimum of {inner.name} only to {error:.2g}, not to {tolerance:g}. "
            f"Try resolution={2 * int(resolution)}, or accept tolerance={error:.2g}"
        )
    return Optimal(fine, int(resolution), fine.mean_start_value(), error, time.perf_counter() - began)


def _exact(env: CompiledEnv, resolution: int | None) -> Optimal:
    """The optimum over all states and actions."""
    began, space = time.perf_counter(), env.observation_space
    n_cells = int(space.high[0] - space.low[0])
    if resolution not in (None, n_cells) or n_cells < 1:
        raise SpaceError(f"{env.name} has {n_cells + 1} states, at least 2 are needed; all are used, so give no resolution")
    grid = _solved(Grid(env, n_cells))
    return Optimal(grid, n_cells, grid.mean_start_value(), _ROUNDING, time.perf_counter() - began)


def default_resolution(env: CompiledEnv) -> int:
    """Cells per axis that take seconds."""
    n_state = env.observation_space.shape[0]
    is_deterministic = all(len(env.outcomes(step, 2)[1]) == 1 for step in range(env.horizon))
    default = (DETERMINISTIC_RESOLUTION if is_deterministic else DEFAULT_RESOLUTION)[n_state]
    n_axes = n_state + env.action_space.shape[0] + (0 if is_deterministic else 1)
    while default > 4 and env.horizon * (default + 1) ** n_axes > MOST_BACKUPS:
        default -= 2
    return default


def solvable(env: Any) -> CompiledEnv:
    """The compiled environment inside, if it can be solved; an error that says what is missing otherwise."""
    inner = compiled_inside(env)
    if inner is None and isinstance(getattr(env, "unwrapped", env), CompiledEnv):
        raise SpaceError(f"{env} has wrappers that change the problem; give the environment inside, or its horizon as horizon=")
    if inner is None:
        raise SpaceError(
            f"{env} is not a compiled environment, so its law is unknown. Write its dynamics as one function: "
            f"zooming.compiled_env"
        )
    inner.outcomes(0, 1)
    if inner.given is None:
        raise SpaceError(f"{inner.name} declares outcomes but no dynamics for a given outcome")
    if inner.observation_space.shape[0] not in DEFAULT_RESOLUTION:
        raise SpaceError(f"{inner.name} has {inner.observation_space.shape[0]} state axes; grids are feasible for 1 to 3")
    return inner


def _solved(grid: Grid) -> Grid:
    for step in reversed(range(grid.env.horizon)):
        grid.values[step], _ = grid.backup(step, grid.states, grid.actions, search=HALVINGS)
        if not np.isfinite(grid.values[step]).all():
            bad = grid.states[np.flatnonzero(~np.isfinite(grid.values[step]))[0]].tolist()
            raise SpaceError(
                f"{grid.env.name}, step {step}: the value of state {bad} is not finite; check the dynamics' reward"
            )
    return grid


def _interpolation_error(values: Floats) -> float:
    """The sum over the steps of the most that linear interpolation loses in a cell that has one kink.

    With rises l, m, r of V over three cells in a row, a kink in the middle one, of slopes l and r, loses (l-m)(m-r)/(l-r).
    """
    total = np.zeros(len(values))
    for axis in range(1, values.ndim):
        rise = np.moveaxis(np.diff(values, axis=axis), axis, 1).reshape(len(values), values.shape[axis] - 1, -1)
        left, middle, right = rise[:, :-2], rise[:, 1:-1], rise[:, 2:]
        product, bend = (left - middle) * (middle - right), np.abs(left - right)
        one_kink = np.divide(product, bend, out=np.zeros_like(bend), where=bend > 1e-12)
        # A rise that is not between its neighbors comes from more kinks than one; a cell at the border has one neighbor.
        more = np.maximum(np.abs(left - middle), np.abs(middle - right)) / 4
        inside = np.where(product >= 0, np.abs(one_kink), more)
        border = np.abs(np.stack([rise[:, 0] - rise[:, 1], rise[:, -1] - rise[:, -2]])).max(axis=(0, 2)) / 4
        total += np.maximum(inside.max(axis=(1, 2)), border)
    return float(total.sum())


def _points(space: Any, resolution: int) -> Floats:
    axes = [np.linspace(low, high, resolution + 1) for low, high in zip(space.low, space.high, strict=True)]
    return np.array(list(itertools.product(*axes)))
