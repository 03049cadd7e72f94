"""Values on a grid of states, and one step of backward induction, for `zooming.solve`."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import float64, int64, types
from numpy.typing import NDArray

from zooming.envs.compiled import CompiledEnv
from zooming.envs.starts import FUNCTION, N_STARTS, UNIFORM
from zooming.errors import ConfigurationError
from zooming.kernels import GIVEN, WEIGH, compile_kernel, jit_no_refcount
from zooming.kernels.jit import NO_REFCOUNT
from zooming.kernels.laws import normalize
from zooming.kernels.layout import BOUND_TOLERANCE
from zooming.validation import clip_rounding, n_cores

Floats = NDArray[np.float64]
HALVINGS = 10  # how often the action search halves its step
GIVEN_ACTIONS = -1  # no search: state i plays row i of the actions
DEVIATIONS = 1.96  # standard errors in the half-width of a 95 % interval


@jit_no_refcount
def missed_peak(best, behind, near, far, to_behind, to_near, to_far):  # type: ignore[no-untyped-def]
    """Return how far a peak between the best point and its neighbor may exceed the best value.

    The slopes on both sides of that gap are extended into it; the peak is where they meet.
    `behind`, `near` and `far` are Q before the best point, at the neighbor and beyond the neighbor.
    `to_behind`, `to_near`, `to_far` are the distances between consecutive points; 0 at the border.
    """
    if to_behind <= 0.0 or to_near <= 0.0 or best <= behind:
        return 0.0
    rise = (best - behind) / to_behind
    if to_far <= 0.0:
        return rise * to_near
    fall = (near - far) / to_far
    above = near + fall * to_near - best  # of the far slope, extended to the best point
    if rise + fall <= 0.0:
        return rise * to_near if above >= 0.0 else 0.0
    return rise * min(max(above / (rise + fall), 0.0), to_near)


@jit_no_refcount
def interpolate(values, first, n_cells, is_whole, low, scale, point):  # type: ignore[no-untyped-def]
    """Return the multilinear interpolation at `point` of the grid that starts at values[first].

    The grid has n_cells + 1 points per axis. Return NaN for a point outside the grid by more than
    rounding and, if `is_whole`, for a point between grid points.
    """
    n_axes = point.shape[0]
    last = float(n_cells)
    slack = BOUND_TOLERANCE * last
    if is_whole:
        place = point[0] - low[0]
        nearest = np.rint(place)
        if not (abs(place - nearest) <= BOUND_TOLERANCE and nearest >= 0.0 and nearest <= last):
            return np.nan
        return values[first + int(nearest)]
    if n_axes == 1:  # the common case, four times as fast as the loop below
        place = (point[0] - low[0]) * scale[0]
        if not (place >= -slack and place <= last + slack):
            return np.nan
        place = min(max(place, 0.0), last)
        cell = min(int(place), n_cells - 1)
        share = place - cell
        return (1.0 - share) * values[first + cell] + share * values[first + cell + 1]
    for axis in range(n_axes):
        place = (point[axis] - low[axis]) * scale[axis]
        if not (place >= -slack and place <= last + slack):
            return np.nan
    total = 0.0
    for corner in range(1 << n_axes):
        weight = 1.0
        index = 0
        for axis in range(n_axes):
            place = min(max((point[axis] - low[axis]) * scale[axis], 0.0), last)
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
    given, weigh, params, step, outcomes, weights, grid, next_values, first, states, actions,
    search, values, best, missed, next_state, trial,
):  # fmt: skip
    """Write the largest Q of each state to `values` and its action to `best`.

    The search tries all rows of `actions`, and then points around the best one with a step that is
    halved `search` times. With GIVEN_ACTIONS there is no search: state i plays row i. The rows of
    `grid`, padded, are low and scale of the states; low, high and step of the actions; n_cells; 1
    if states are integers; and 1 if `weigh` fills in the weights of each pair. `missed` gets the
    height that a peak beside the best action may have above it, estimated from two more points on
    either side along each axis.

    Return the number of states. If a Q is not finite, return the index of its state instead, with
    the action in `trial`.
    """
    n_state = states.shape[1]
    n_action = actions.shape[1]
    n_cells = int(grid[5, 0])
    is_whole = grid[6, 0] == 1.0
    is_weighed = grid[7, 0] == 1.0
    low, scale = grid[0, :n_state], grid[1, :n_state]
    n_trials = actions.shape[0] if search >= 0 else 1
    n_directions = 2 * n_action + (1 << n_action)  # along axes and diagonals, for oblique ridges
    n_searched = n_trials + max(search, 0) * n_directions
    for i in range(states.shape[0]):
        state = states[i]
        best_value = -np.inf
        missed[i] = 0.0
        far_below, near_below, near_above = 0.0, 0.0, 0.0
        for j in range(n_searched + (4 * n_action if search > 0 else 0)):
            if j < n_trials:
                row = j if search >= 0 else i
                for axis in range(n_action):
                    trial[axis] = actions[row, axis]
            elif j < n_searched:
                around = j - n_trials
                direction = around % n_directions
                for axis in range(n_action):
                    sign = 0.0
                    if direction >= 2 * n_action:
                        sign = 1.0 if (direction - 2 * n_action) >> axis & 1 else -1.0
                    elif direction // 2 == axis:
                        sign = 1.0 if direction % 2 else -1.0
                    trial[axis] = best[i, axis] + sign * grid[4, axis] * 0.5 ** (
                        1 + around // n_directions
                    )
                    trial[axis] = min(grid[3, axis], max(grid[2, axis], trial[axis]))
            else:
                beside = j - n_searched
                for axis in range(n_action):
                    trial[axis] = best[i, axis]
                axis = beside // 4
                place = beside % 4  # two steps below, one below, one above, two above
                last_step = grid[4, axis] * 0.5**search
                trial[axis] = best[i, axis] + last_step * (
                    place - 2.0 if place < 2 else place - 1.0
                )
                trial[axis] = min(grid[3, axis], max(grid[2, axis], trial[axis]))
            total = 0.0
            if is_weighed:
                weigh(state, trial, step, params, outcomes, weights)
                normalize(weights)
            for w in range(weights.shape[0]):
                if weights[w] == 0.0:  # it cannot happen here, so it may lead anywhere
                    continue
                for axis in range(n_state):
                    next_state[axis] = np.nan  # detects a coordinate that the dynamics do not write
                reward = given(state, trial, step, params, outcomes[w], next_state)
                total += weights[w] * (
                    reward
                    + interpolate(next_values, first, n_cells, is_whole, low, scale, next_state)
                )
            if not np.isfinite(total):
                return i
            if j >= n_searched:
                axis, place = (j - n_searched) // 4, (j - n_searched) % 4
                if place == 0:
                    far_below = total
                elif place == 1:
                    near_below = total
                elif place == 2:
                    near_above = total
                else:
                    last_step = grid[4, axis] * 0.5**search
                    below = min(2.0 * last_step, best[i, axis] - grid[2, axis])
                    above = min(2.0 * last_step, grid[3, axis] - best[i, axis])
                    to_below, to_above = min(last_step, below), min(last_step, above)
                    upwards = missed_peak(
                        best_value,
                        near_below,
                        near_above,
                        total,
                        to_below,
                        to_above,
                        above - to_above,
                    )
                    downwards = missed_peak(
                        best_value,
                        near_above,
                        near_below,
                        far_below,
                        to_above,
                        to_below,
                        below - to_below,
                    )
                    missed[i] += max(upwards, downwards)
            elif total > best_value:
                best_value = total
                for axis in range(n_action):
                    best[i, axis] = trial[axis]
        values[i] = best_value
    return states.shape[0]


@functools.cache
def _backup() -> Callable[..., int]:
    """Return `_backups`, compiled on first use for any dynamics and without reference counting."""
    row, matrix = float64[::1], float64[:, ::1]
    functions = types.FunctionType(GIVEN), types.FunctionType(WEIGH)
    signature = int64(
        *functions,
        row,
        int64,
        matrix,
        row,
        matrix,
        row,
        int64,
        matrix,
        matrix,
        int64,
        row,
        matrix,
        row,
        row,
        row,
    )
    kernel: Callable[..., int] = compile_kernel(_backups, signature, **NO_REFCOUNT)
    return kernel


def keep_weights(
    state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any
) -> None:
    """Leave the weights as they are: the law depends on nothing."""


def weigher(env: CompiledEnv) -> Callable[..., None]:
    """Return the environment's `weigh`, or a function that leaves the weights as they are."""
    return env.weigh or _keep()


@functools.cache
def _keep() -> Callable[..., None]:
    kernel: Callable[..., None] = compile_kernel(keep_weights, WEIGH)
    return kernel


class Grid:
    """A grid of states with the values of all steps, and the backups on it.

    A box has `resolution` cells per axis. The grid of a Discrete space is all its values.
    """

    def __init__(self, env: CompiledEnv, resolution: int, n_outcomes: int | None = None) -> None:
        self.env, self.resolution = env, resolution
        states, actions = env.state_box, env.action_box
        self.n_state, self.n_action = states.shape[0], actions.shape[0]
        self.n_cells = n_cells(states) if env.has_whole_states else resolution
        self.states = points(states, self.n_cells)
        self.actions = points(actions, n_cells(actions) if env.has_whole_actions else resolution)
        self.search = 0 if env.has_whole_actions else HALVINGS
        self.table = np.zeros((8, max(self.n_state, self.n_action)))
        self.table[0, : self.n_state] = states.low
        self.table[1, : self.n_state] = (
            1.0 if env.has_whole_states else self.n_cells / (states.high - states.low)
        )
        self.table[2, : self.n_action], self.table[3, : self.n_action] = actions.low, actions.high
        self.table[4, : self.n_action] = (actions.high - actions.low) / resolution
        self.table[5, 0], self.table[6, 0] = self.n_cells, env.has_whole_states
        self.table[7, 0] = env.weigh is not None
        self.outcomes = [
            env.outcomes(step, n_outcomes or resolution) for step in range(env.horizon)
        ]
        self.values = np.zeros((env.horizon + 1, len(self.states)))
        self.search_error = 0.0  # sum over the steps

    def backup(
        self, step: int, states: Floats, actions: Floats, search: int
    ) -> tuple[Floats, Floats, Floats]:
        """Return the largest Q and its action for each state, computed on all cores.

        The third array estimates how much of Q the search missed.
        """
        outcomes, weights = self.outcomes[step]
        values, best, missed = (
            np.empty(len(states)),
            np.empty((len(states), self.n_action)),
            np.empty(len(states)),
        )
        n_parts = min(n_cores() * 4, len(states)) if len(states) > 16 else 1
        kernel, flat = _backup(), self.values.reshape(-1)

        def part(k: int) -> None:
            chosen, trial = (
                slice(len(states) * k // n_parts, len(states) * (k + 1) // n_parts),
                np.empty(self.n_action),
            )
            mine = states[chosen]
            reached = kernel(
                self.env.given, weigher(self.env), self.env.params, step, outcomes, weights.copy(),
                self.table, flat, (step + 1) * self.values.shape[1],
                mine, actions[chosen] if search == GIVEN_ACTIONS else actions, search,
                values[chosen], best[chosen],
                missed[chosen], np.empty(self.n_state), trial,
            )  # fmt: skip
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
        first, low, scale = (
            step * self.values.shape[1],
            self.table[0, : self.n_state],
            self.table[1, : self.n_state],
        )
        is_whole = self.env.has_whole_states
        return float(
            interpolate(self.values.reshape(-1), first, self.n_cells, is_whole, low, scale, state)
        )

    def start_value(self) -> tuple[float, float]:
        """Return the mean value over the start distribution, and the error of that mean."""
        mean, spread, n = self._mean_value(N_STARTS)
        if self.env.start_kind == FUNCTION and n > 1:
            return mean, DEVIATIONS * spread / math.sqrt(n - 1)
        if self.env.start_kind == UNIFORM:  # half as many points along each axis
            return mean, abs(mean - self._mean_value(N_STARTS >> self.n_state)[0])
        return mean, 0.0

    def _mean_value(self, n: int) -> tuple[float, float, int]:
        """Return mean and standard deviation of V over about n start states, and their number."""
        states, weights = self.env.start_states(n)
        values = np.array([self.value(0, state) for state in states])
        mean = float(sum(weight * value for weight, value in zip(weights, values, strict=True)))
        return mean, float(np.sqrt(weights @ (values - mean) ** 2)), len(states)


def bad_transition(
    env: CompiledEnv, step: int, outcomes: Floats, state: Floats, action: Floats
) -> ConfigurationError | None:
    """Return an error for the first outcome of a pair with an invalid reward or next state.

    Return None if all outcomes are valid.
    """
    assert env.given is not None
    low, high = env.state_box.low, env.state_box.high
    where = f"{env.name}, step {step}: in state {state.tolist()}, action {action.tolist()}"
    if env.weigh is not None:
        fault = env.weights_fault(step, state, action)
        if fault:
            return ConfigurationError(f"{env.name}, step {step}: {fault}")
        weights = np.empty(len(outcomes))
        env.weigh(state, action, step, env.params, outcomes, weights)
        outcomes = outcomes[weights > 0]
    for outcome in outcomes:
        after = np.full((1, len(low)), np.nan)
        reward = env.given(state, action, step, env.params, outcome, after[0])
        if not np.isfinite(reward):
            return ConfigurationError(f"{where}, the reward is {reward}; check the dynamics")
        if env.are_states(after)[0]:
            continue
        if env.has_whole_states:
            fault = f"not a whole number from {low[0]:g} to {high[0]:g}"
            return ConfigurationError(
                f"{where}, the next state is {after[0, 0]}, {fault}; check the dynamics, or round "
                "it there"
            )
        _, i = clip_rounding(after[0], low, high)
        fault = f"outside [{low[i]:g}, {high[i]:g}]"
        return ConfigurationError(
            f"{where}, next_state[{i}] is {after[0, i]}, {fault}; check the dynamics, or clip it "
            "there"
        )
    return None


def n_cells(box: Any) -> int:
    """Return the number of cells of a Discrete space: one less than its values."""
    return int(box.high[0] - box.low[0])


def points(box: Any, n_cells: int) -> Floats:
    """Return the points of a grid with `n_cells` cells per axis, one row each."""
    axes = [
        np.linspace(low, high, n_cells + 1) for low, high in zip(box.low, box.high, strict=True)
    ]
    return np.array(list(itertools.product(*axes)))
