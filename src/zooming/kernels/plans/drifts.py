"""The drift of an episode: the expected next state, as a linear function of state and action.

The drift of each state axis is a ridge regression. Of a stock, it is about stock + order - mean
demand. Next values depend on state and action mostly through it. The
planner uses it twice:

- The value of the drift is an estimate of the next value. The regression of next values has only
  the difference to explain, which is 0 for a linear law without noise.
- Functions of the drift are features of the trend, see `features`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.grids import interpolation, place_of
from zooming.kernels.plans.layout import CATEGORIES, ENDED, RIDGE, WEIGHT
from zooming.kernels.plans.trends import decompose, solve


class Drifts(NamedTuple):
    """A linear function of state and action for every state axis: the expected next state."""

    coefficients: Any  # [n_state, 1 + n_axes]: of 1 and the coordinates
    strengths: Any  # [n_state]: about the F statistic of the fit; 0 on an axis of categories


@jit_inline
def coordinate(grid, axis, x):
    """Return x of the unit interval as a number from -1 to 1; 0 on an axis of categories."""
    return 0.0 if grid.kinds[axis] == CATEGORIES else 2.0 * x - 1.0


@jit_inline
def coordinate_at(grid, axis, place):
    """Return the coordinate of the middle of a place."""
    return coordinate(grid, axis, (place + 0.5) / grid.units[axis])


@jit_kernel
def find_drifts(samples, n_samples, grid, n_state):
    """Return the drifts."""
    n_axes = grid.bins.shape[0]
    p = 1 + n_axes
    matrix, x, right = np.zeros((p, p)), np.ones(p), np.zeros((n_state, p))
    sums, squares, weight = np.zeros(n_state), np.zeros(n_state), 1e-9
    for k in range(n_samples):
        if samples.places[k, n_axes] == ENDED:
            continue
        w = samples.numbers[k, WEIGHT]
        weight += w
        for j in range(n_axes):
            x[1 + j] = coordinate_at(grid, j, samples.places[k, j])
        for i_row in range(p):
            for m in range(i_row + 1):
                matrix[i_row, m] += w * x[i_row] * x[m]
        for j in range(n_state):
            y = coordinate_at(grid, j, samples.places[k, n_axes + j])
            sums[j] += w * y
            squares[j] += w * y * y
            for m in range(p):
                right[j, m] += w * x[m] * y
    for m in range(p):
        matrix[m, m] += RIDGE
    decompose(matrix)
    coefficients, strengths = right.copy(), np.zeros(n_state)
    for j in range(n_state):
        solve(matrix, coefficients[j])
        rest = squares[j]
        for m in range(p):
            rest -= right[j, m] * coefficients[j, m]
        explained = max(0.0, squares[j] - sums[j] ** 2 / weight - rest)
        # The ridge keeps the rest above 0, unless all next states are 0.
        strengths[j] = explained / n_axes * weight / rest if rest > 0.0 else 0.0
    return Drifts(coefficients, strengths)


@jit_kernel
def follow_samples(drifts, samples, n_samples, rows, grid):
    """Return (nexts, neighbors, shares) of the drift of each sample, as those of `Sorted`."""
    n_axes, n_state = grid.bins.shape[0], drifts.strengths.shape[0]
    nexts, neighbors, shares = new_points(n_samples, n_state)
    free, x, places = rows.first.copy(), np.zeros(n_axes), np.zeros(n_state, np.int64)
    for k in range(n_samples):
        i = free[samples.steps[k]]
        free[samples.steps[k]] += 1
        for j in range(n_axes):
            x[j] = coordinate_at(grid, j, samples.places[k, j])
        follow(drifts, x, grid, places)
        interpolation(grid, places, nexts, neighbors, shares, i)
    return nexts, neighbors, shares


@jit_kernel
def follow_cells(drifts, centers, grid):
    """Return (nexts, neighbors, shares) of the drift of each cell's center."""
    n_cells, n_state = centers.shape[0], drifts.strengths.shape[0]
    nexts, neighbors, shares = new_points(n_cells, n_state)
    places = np.zeros(n_state, np.int64)
    for c in range(n_cells):
        follow(drifts, centers[c], grid, places)
        interpolation(grid, places, nexts, neighbors, shares, c)
    return nexts, neighbors, shares


@jit_kernel
def new_points(n, n_state):
    """Return empty (nexts, neighbors, shares) of n points."""
    return np.zeros(n, np.int64), np.zeros((n, n_state), np.int64), np.zeros((n, n_state))


@jit_inline
def follow(drifts, x, grid, places):
    """Write the place along each state axis to which the point x drifts."""
    for j in range(places.shape[0]):
        y = drifts.coefficients[j, 0]
        for k in range(x.shape[0]):
            y += drifts.coefficients[j, 1 + k] * x[k]
        places[j] = place_of(0.5 * (y + 1.0), grid.units[j])


@jit_kernel
def add_values(points, values, sign, targets):
    """Add the interpolated `values` of states at (nexts, neighbors, shares), times `sign`."""
    nexts, neighbors, shares = points
    for i in range(targets.shape[0]):
        here = values[nexts[i]]
        target = here
        for j in range(shares.shape[1]):
            target += shares[i, j] * (values[neighbors[i, j]] - here)
        targets[i] += sign * target
