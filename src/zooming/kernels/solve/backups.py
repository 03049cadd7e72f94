"""One step backward for `zooming.solve`, and one step forward for `evaluate(..., exact=True)`.

The backward step interpolates values between the points of a grid. The forward step spreads the
distribution of states over all outcomes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import boolean, float64, int64, types

from zooming.kernels.boxes.layout import BOUND_TOLERANCE
from zooming.kernels.loop.jit import GIVEN, WEIGH, compile_kernel, jit_no_refcount
from zooming.kernels.loop.numba_parts import NO_REFCOUNT
from zooming.kernels.solve.laws import normalize

HALVINGS = 10  # how often the action search halves its step
GIVEN_ACTIONS = -1  # no search: state i plays row i of the actions


@jit_no_refcount
def missed_peak(best, before, near, far, to_before, to_near, to_far):
    """Return how far a peak between the best point and its neighbor may exceed the best value.

    The slopes on both sides of that gap are extended into it. The peak is where they meet.
    `before`, `near` and `far` are Q before the best point, at the neighbor and beyond the neighbor.
    `to_before`, `to_near`, `to_far` are the distances between consecutive points, 0 at the border.
    """
    if to_before <= 0.0 or to_near <= 0.0 or best <= before:
        return 0.0
    rise = (best - before) / to_before
    if to_far <= 0.0:
        return rise * to_near
    fall = (near - far) / to_far
    above = near + fall * to_near - best  # of the far slope, extended to the best point
    if rise + fall <= 0.0:
        return rise * to_near if above >= 0.0 else 0.0
    return rise * min(max(above / (rise + fall), 0.0), to_near)


@jit_no_refcount
def interpolate(values, first, n_cells, is_whole, low, scale, point):
    """Return the multilinear interpolation at `point` of the grid that starts at values[first].

    The grid has n_cells + 1 points per axis. Return NaN for a point that is outside the grid by
    more than rounding. If `is_whole`, also return NaN for a point between grid points.
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
    if n_axes == 2:  # three times as fast as the loop below
        place = min(max((point[0] - low[0]) * scale[0], 0.0), last)
        other = min(max((point[1] - low[1]) * scale[1], 0.0), last)
        cell, next_cell = min(int(place), n_cells - 1), min(int(other), n_cells - 1)
        share, rest = place - cell, other - next_cell
        k = first + cell * (n_cells + 1) + next_cell
        below = (1.0 - rest) * values[k] + rest * values[k + 1]
        above = (1.0 - rest) * values[k + n_cells + 1] + rest * values[k + n_cells + 2]
        return (1.0 - share) * below + share * above
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


def _backups(
    given, weigh, params, step, outcomes, weights, grid, next_values, first, states, actions,
    search, values, best, missed, next_state, trial, before,
):  # fmt: skip
    """Write the largest Q of each state to `values` and its action to `best`.

    The search tries all rows of `actions`, and then points around the best one with a step that is
    halved `search` times. With GIVEN_ACTIONS there is no search: state i plays row i. The rows of
    `grid`, padded, are low and scale of the states; low, high and step of the actions; n_cells; 1
    if states are integers; 1 if `weigh` fills in the weights of each pair; and 1 if the search also
    tries the action that `best` holds before. `missed`, if it is not empty, gets an estimate of how
    far Q at a peak beside the best action exceeds the largest Q found. The estimate uses two more
    points on either side along each axis.

    Return the number of states. If a Q is not finite, return the index of its state instead, with
    the action in `trial`.
    """
    n_state = states.shape[1]
    n_action = actions.shape[1]
    n_cells = int(grid[5, 0])
    is_whole = grid[6, 0] == 1.0
    is_weighed = grid[7, 0] == 1.0
    low, scale = grid[0, :n_state], grid[1, :n_state]
    n_rows = actions.shape[0] if search >= 0 else 1
    n_trials = n_rows + (1 if search >= 0 and grid[8, 0] == 1.0 else 0)
    n_beside = 4 * n_action if search > 0 and missed.shape[0] > 0 else 0
    # Along axes and, if there are several, along diagonals, for oblique ridges.
    n_directions = 2 * n_action + ((1 << n_action) if n_action > 1 else 0)
    n_searched = n_trials + max(search, 0) * n_directions
    for i in range(states.shape[0]):
        state = states[i]
        best_value = -np.inf
        if missed.shape[0] > 0:
            missed[i] = 0.0
        if n_trials > n_rows:
            for axis in range(n_action):
                before[axis] = best[i, axis]
        far_below, near_below, near_above = 0.0, 0.0, 0.0
        for j in range(n_searched + n_beside):
            if j < n_rows:
                row = j if search >= 0 else i
                for axis in range(n_action):
                    trial[axis] = actions[row, axis]
            elif j < n_trials:
                for axis in range(n_action):
                    trial[axis] = before[axis]
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
def backups() -> Callable[..., int]:
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
        row,
    )
    kernel: Callable[..., int] = compile_kernel(_backups, signature, **NO_REFCOUNT)
    return kernel


def _spread_states(
    given, weigh, is_weighed, params, step, outcomes, chances, states, weights, actions, after,
    spread,
):  # fmt: skip
    """Write every next state and its weight, and return the expected reward.

    The next state of an outcome that cannot happen is the state itself, with weight 0.
    """
    total = 0.0
    k = 0
    for i in range(states.shape[0]):
        if is_weighed:
            weigh(states[i], actions[i], step, params, outcomes, chances)
            normalize(chances)
        for w in range(chances.shape[0]):
            spread[k] = weights[i] * chances[w]
            if chances[w] == 0.0:
                after[k] = states[i]
                k += 1
                continue
            total += spread[k] * given(states[i], actions[i], step, params, outcomes[w], after[k])
            k += 1
    return total


@functools.cache
def spread_states() -> Callable[..., float]:
    """Return `_spread_states`, compiled on first use for the dynamics of any environment."""
    row, matrix = float64[::1], float64[:, ::1]
    functions = types.FunctionType(GIVEN), types.FunctionType(WEIGH), boolean
    signature = float64(*functions, row, int64, matrix, row, matrix, row, matrix, matrix, row)
    kernel: Callable[..., float] = compile_kernel(_spread_states, signature)
    return kernel


def _keep_weights(state, action, step, params, values, weights):
    """Leave the weights unchanged: the law of the outcomes is the same for every pair."""


@functools.cache
def keep_weights() -> Callable[..., None]:
    """Return `_keep_weights`, compiled on first use. It is used if there is no `weigh`."""
    kernel: Callable[..., None] = compile_kernel(_keep_weights, WEIGH)
    return kernel
