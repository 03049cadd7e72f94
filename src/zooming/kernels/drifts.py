"""The drift of an episode: the expected next state, as a linear function of state and action.

The drift of each state axis is fitted by least squares to all samples. Of a stock, it is about
stock + order - mean demand. Next values depend on state and action mostly through it. The planner
uses it twice:

- The value of the drift is an estimate of the next value. The regression of next values has only
  the difference to explain, which is 0 for a linear law without noise.
- Functions of the drift are features of the trend, see `features`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.cholesky import decompose, solve
from zooming.kernels.grids import interpolation, place_of
from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.plan_layout import CATEGORIES, ENDED, MOST_FITTED, RIDGE, WEIGHT


class Drifts(NamedTuple):
    """The drift of every state axis, and where the samples and the cells drift to."""

    coefficients: Any  # [n_state, 1 + n_axes]: of 1 and the coordinates
    strengths: Any  # [n_state]: F statistic of the fit; 0 on an axis of categories
    samples: Any  # (nexts, neighbors, shares) of the drift of each sample, as those of `Sorted`
    cells: Any  # the same, of each cell's center


@jit_inline
def coordinate(grid, axis, x):
    """Return x of the unit interval as a number from -1 to 1; 0 on an axis of categories."""
    return 0.0 if grid.kinds[axis] == CATEGORIES else 2.0 * x - 1.0


@jit_kernel
def find_drifts(samples, n_samples, rows, grid, centers):
    """Return the drifts. `centers` [n_cells, n_axes] are coordinates; `rows` are sorted samples."""
    n_axes = centers.shape[1]
    free, points = rows.first.copy(), np.zeros((n_samples, n_axes))
    for k in range(n_samples):
        i = free[samples.steps[k]]
        free[samples.steps[k]] += 1
        for j in range(n_axes):
            points[i, j] = coordinate(grid, j, (samples.places[k, j] + 0.5) / grid.units[j])
    coefficients, strengths = fit_drifts(samples, n_samples, grid, rows.shares.shape[1])
    return Drifts(
        coefficients, strengths, follow(coefficients, points, grid),
        follow(coefficients, centers, grid),
    )  # fmt: skip


@jit_kernel
def fit_drifts(samples, n_samples, grid, n_state):
    """Return (coefficients, strengths) of `Drifts`, from MOST_FITTED samples if there are more."""
    n_axes = grid.bins.shape[0]
    p = 1 + n_axes
    matrix, x, right = np.zeros((p, p)), np.ones(p), np.zeros((n_state, p))
    sums, squares, weight = np.zeros(n_state), np.zeros(n_state), 1e-9
    for k in range(0, n_samples, 1 + n_samples // MOST_FITTED):
        if samples.places[k, n_axes] == ENDED:
            continue
        w = samples.numbers[k, WEIGHT]
        weight += w
        for j in range(n_axes):
            x[1 + j] = coordinate(grid, j, (samples.places[k, j] + 0.5) / grid.units[j])
        for i in range(p):
            for m in range(i + 1):
                matrix[i, m] += w * x[i] * x[m]
        for j in range(n_state):
            y = coordinate(grid, j, (samples.places[k, n_axes + j] + 0.5) / grid.units[j])
            sums[j] += w * y
            squares[j] += w * y * y
            for i in range(p):
                right[j, i] += w * x[i] * y
    for i in range(p):
        matrix[i, i] += RIDGE
    decompose(matrix)
    coefficients, strengths = right.copy(), np.zeros(n_state)
    for j in range(n_state):
        solve(matrix, coefficients[j])
        rest = squares[j] - np.sum(right[j] * coefficients[j])
        explained = squares[j] - sums[j] ** 2 / weight - rest
        rest = max(rest, 1e-9 * squares[j] + 1e-99)  # of a law without noise it is rounding
        strengths[j] = max(0.0, explained) / n_axes / rest * weight
    return coefficients, strengths


@jit_kernel
def follow(coefficients, points, grid):
    """Return (nexts, neighbors, shares) of the drift of each point, as those of `Sorted`."""
    n, n_state = points.shape[0], coefficients.shape[0]
    nexts, neighbors = np.zeros(n, np.int64), np.zeros((n, n_state), np.int64)
    shares, places = np.zeros((n, n_state)), np.zeros(n_state, np.int64)
    for i in range(n):
        for j in range(n_state):
            y = coefficients[j, 0]
            for k in range(points.shape[1]):
                y += coefficients[j, 1 + k] * points[i, k]
            places[j] = place_of(0.5 * (y + 1.0), grid.units[j])
        interpolation(grid, places, nexts, neighbors, shares, i)
    return nexts, neighbors, shares


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
