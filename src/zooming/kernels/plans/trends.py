"""Ridge regressions of a planner: the drift of the next state, and the trend of a target.

The drift of a state axis is the expected next state, linear in state and action. Of a stock, it is
about stock + order - mean demand. Next values, and many rewards, depend on state and action mostly
through it. The planner uses it twice: the value of the drift is an estimate of the next value, so
that the regression of next values has only the difference to explain; and functions of the drift
are features of the trend. The features of a cell are

    1, coordinates, their pairwise products
    of each drift: hats, max(0, 1 - |place - i|) for i = 0, ..., n_hats - 1

Here `place` is (n_hats - 1) times the mean of two shares: where the drift lies in its range, and
how many samples have a smaller drift. So knots are dense where samples are. At most two hats of a
drift are positive: features are stored as pairs of a column and an entry.

With few samples the trend is the mean, with more a quadratic, and then a quadratic with hats. Each
needs ENOUGH samples for each coefficient. Kernel regression (`smoothing`) predicts what it leaves.

Rewards may change slowly from step to step. Their slope in the time of the step, a quadratic of the
coordinates, is fitted to the differences among the samples of each cell. So whatever depends on the
cell alone cannot pass for a change in time. Samples of other steps are carried along this slope.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.grids import interpolation, place_of
from zooming.kernels.plans.layout import (
    ALIKE,
    CATEGORIES,
    COUNT,
    ENDED,
    ENOUGH,
    LEAST_FREEDOM,
    RIDGE,
    SQUARE,
    STRONG,
    TOTAL,
    TREND,
    WEIGHT,
)

ROUNDING = 1e-9  # share of the squares that may be due to rounding: all samples of a cell agree


class Drifts(NamedTuple):
    """A linear function of state and action for every state axis: the expected next state."""

    coefficients: Any  # [n_state, 1 + n_axes]: of 1 and the coordinates
    strengths: Any  # [n_state]: about the F statistic of the fit; 0 on an axis of categories


class Features(NamedTuple):
    """The features of every cell: first those of the quadratic, whose pairs are columns."""

    entries: Any  # [n_pairs, n_cells]
    columns: Any  # [n_pairs - n_quadratic, n_cells] int64: of the hats, increasing
    n_quadratic: Any  # int: columns of the quadratic
    n_columns: Any  # int: the same, and the hats of all drifts


@jit_kernel
def decompose(matrix):
    """Replace the lower half of a positive definite matrix by its Cholesky factor."""
    for i in range(matrix.shape[0]):
        for k in range(i + 1):
            entry = matrix[i, k]
            for m in range(k):
                entry -= matrix[i, m] * matrix[k, m]
            matrix[i, k] = np.sqrt(max(entry, 1e-12)) if i == k else entry / matrix[k, k]


@jit_kernel
def solve(factor, x):
    """Replace x by the solution y of `factor factor' y = x`."""
    p = x.shape[0]
    for i in range(p):
        for m in range(i):
            x[i] -= factor[i, m] * x[m]
        x[i] /= factor[i, i]
    for i in range(p - 1, -1, -1):
        for m in range(i + 1, p):
            x[i] -= factor[m, i] * x[m]
        x[i] /= factor[i, i]


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
def sample_points(samples, n_samples, rows, grid):
    """Return the coordinates of state and action of the samples, in the order of `rows`."""
    free, x = rows.first.copy(), np.zeros((n_samples, grid.bins.shape[0]))
    for k in range(n_samples):
        i = free[samples.steps[k]]
        free[samples.steps[k]] += 1
        for j in range(x.shape[1]):
            x[i, j] = coordinate_at(grid, j, samples.places[k, j])
    return x


@jit_kernel
def follow(drifts, points, grid):
    """Return (nexts, neighbors, shares), as those of `Sorted`, of the drift of each point."""
    n, n_state = points.shape[0], drifts.strengths.shape[0]
    nexts, neighbors = np.zeros(n, np.int64), np.zeros((n, n_state), np.int64)
    shares, places = np.zeros((n, n_state)), np.zeros(n_state, np.int64)
    for i in range(n):
        for j in range(n_state):
            y = drift_at(drifts.coefficients[j], points[i])
            places[j] = place_of(0.5 * (y + 1.0), grid.units[j])
        interpolation(grid, places, nexts, neighbors, shares, i)
    return nexts, neighbors, shares


@jit_inline
def drift_at(coefficients, x):
    """Return the drift along one axis of the point x."""
    y = coefficients[0]
    for k in range(x.shape[0]):
        y += coefficients[1 + k] * x[k]
    return y


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


@jit_kernel
def cell_centers(grid, n_cells):
    """Return the coordinates of each cell's center, scaled to [-1, 1]; 0 for a category."""
    n_axes = grid.bins.shape[0]
    centers = np.zeros((n_cells, n_axes))
    inner = 1
    for j in range(n_axes - 1, -1, -1):
        size = inner * grid.bins[j]
        for i in range(grid.bins[j]):
            center = coordinate(grid, j, grid.centers[j, i])
            for start in range(i * inner, n_cells, size):
                centers[start : start + inner, j] = center
        inner = size
    return centers


@jit_kernel
def make_features(grid, centers, counts, drifts, n_hats):
    """Return the features of each cell. `counts` has the number of samples of each cell."""
    n_cells, n_axes = centers.shape
    n_quadratic, n_pairs = 1 + n_axes + n_axes * (n_axes + 1) // 2, 0
    for j in range(drifts.strengths.shape[0]):
        n_pairs += 2 if has_hats(grid, drifts, j) else 0
    columns = np.zeros((n_pairs, n_cells), np.int64)
    entries = np.ones((n_quadratic + n_pairs, n_cells))
    k = 1 + n_axes
    for i in range(n_axes):
        entries[1 + i] = centers[:, i]
        for j in range(i, n_axes):
            for c in range(n_cells):
                entries[k, c] = centers[c, i] * centers[c, j]
            k += 1
    pair, column = 0, n_quadratic
    for j in range(drifts.strengths.shape[0]):
        if has_hats(grid, drifts, j):
            drift = np.zeros(n_cells)
            for c in range(n_cells):
                drift[c] = drift_at(drifts.coefficients[j], centers[c])
            hats = entries[n_quadratic + pair : n_quadratic + pair + 2]
            write_hats(hats, columns[pair : pair + 2], drift, counts, n_hats, column)
            pair, column = pair + 2, column + n_hats
    return Features(entries, columns, n_quadratic, column)


@jit_kernel
def has_hats(grid, drifts, axis):
    """Return whether functions of the drift of this axis are features."""
    return grid.bins[axis] >= 3 and drifts.strengths[axis] > STRONG


@jit_kernel
def write_hats(entries, columns, drift, counts, n_hats, column):
    """Write the hats of one drift, from `column` on, as two pairs of each cell."""
    shares = shares_below(drift, counts)
    low, high = np.inf, -np.inf
    for c in range(drift.shape[0]):
        if counts[c] > 0.0:
            low, high = min(low, drift[c]), max(high, drift[c])
    for c in range(drift.shape[0]):
        place = 0.5 * ((drift[c] - low) / max(1e-9, high - low) + shares[c]) * (n_hats - 1)
        place = min(n_hats - 1.0, max(0.0, place))
        knot = min(n_hats - 2, np.int64(place))
        columns[0, c], columns[1, c] = column + knot, column + knot + 1
        entries[0, c], entries[1, c] = 1.0 - (place - knot), place - knot


@jit_kernel
def shares_below(drift, counts):
    """Return, for each cell, the share of samples with a smaller drift; equal ones count half."""
    order, shares = np.argsort(drift), np.zeros(drift.shape[0])
    below, first = 0.0, 0
    while first < order.shape[0]:
        last, equal = first, 0.0
        while last < order.shape[0] and drift[order[last]] == drift[order[first]]:
            equal += counts[order[last]]
            last += 1
        for i in range(first, last):
            shares[order[i]] = below + 0.5 * equal
        below += equal
        first = last
    return shares / max(1e-9, below)


@jit_inline
def time_of(step, horizon):
    """Return the time of a step: from -0.5 at the first to 0.5 at the last."""
    return step / max(1.0, horizon - 1.0) - 0.5


@jit_kernel
def find_slopes(rows, targets, center, apart, features):
    """Return the slope of the targets in time in each cell, from the steps that are alike.

    It is 0 unless its F statistic exceeds STRONG.
    """
    n_cells, horizon, p = features.entries.shape[1], apart.shape[0], features.n_quadratic
    slopes, sums, entries = np.zeros(n_cells), np.zeros((6, n_cells)), features.entries
    counts, times, squares, totals, products, errors = sums
    for h in range(horizon):
        time = time_of(h, horizon)
        for i in range(rows.first[h], rows.first[h + 1] if apart[h] == ALIKE else rows.first[h]):
            c, w, y = rows.cells[i], rows.weights[i], targets[i] - center
            counts[c] += w
            times[c] += w * time
            squares[c] += w * time * time
            totals[c] += w * y
            products[c] += w * time * y
            errors[c] += w * y * y + rows.spreads[i]
    matrix, right, total, freedom, whole = np.zeros((p, p)), np.zeros(p), 0.0, -1.0 * p, 0.0
    for c in range(n_cells):
        n = counts[c]
        if n > 0.0:
            times[c] /= n
            squares[c] -= n * times[c] ** 2
            products[c] -= times[c] * totals[c]
            total += errors[c] - totals[c] ** 2 / n
            freedom += n - 1.0
            whole += errors[c]
            for i in range(p if n > 1.0 else 0):
                right[i] += products[c] * entries[i, c]
                for k in range(i + 1):
                    matrix[i, k] += squares[c] * entries[i, c] * entries[k, c]
    if horizon < 3 or freedom < LEAST_FREEDOM or total <= ROUNDING * whole:
        return slopes
    for i in range(p):
        matrix[i, i] += RIDGE
    decompose(matrix)
    coefficients, explained = right.copy(), 0.0
    solve(matrix, coefficients)
    for i in range(p):
        explained += right[i] * coefficients[i]
    if explained * freedom <= STRONG * p * max(0.0, total - explained):
        return slopes
    low, high = np.inf, -np.inf
    for c in range(n_cells):
        for i in range(p):
            slopes[c] += coefficients[i] * entries[i, c]
        if squares[c] > 1e-9:
            low, high = min(low, slopes[c]), max(high, slopes[c])
    for c in range(n_cells):
        slopes[c] = min(high, max(low, slopes[c]))
    return slopes


@jit_kernel
def remove_trend(work, visited, features, factor, has_factor, center):
    """Fit the trend, write it into TREND, and subtract it from TOTAL and SQUARE.

    TOTAL and SQUARE are sums of targets minus `center`, to avoid rounding errors; TREND includes
    `center`. The trend is clipped to the range of the cells' means. `factor` is the factor of the
    normal equations, which depends on the counts only; it is computed unless `has_factor`. Return
    the number by which squared leave-one-out errors must be multiplied because the coefficients
    were fitted to the same samples.
    """
    n_pairs, n_samples, mean, low, high = features.entries.shape[0], 0.0, 0.0, np.inf, -np.inf
    for c in visited:
        n = work[COUNT, c]
        n_samples += n
        mean += work[TOTAL, c]
        low, high = min(low, work[TOTAL, c] / n), max(high, work[TOTAL, c] / n)
    mean /= max(n_samples, 1e-9)
    center = center if n_samples > 0.0 else 0.0  # without samples, nothing is known
    p = features.n_columns
    if n_samples < ENOUGH * p:
        p, n_pairs = features.n_quadratic, features.n_quadratic
    if n_samples < ENOUGH * p:
        p, n_pairs = 0, 0
    trends = work[TREND]
    trends[:] = mean
    if p > 0:
        if not has_factor:
            factor_counts(work, visited, features, factor)
        coefficients = np.zeros(p)
        fit_trend(work, visited, features, factor[:p, :p], n_pairs, mean, coefficients)
        add_features(features, n_pairs, coefficients, trends)
        for c in range(trends.shape[0]):
            trends[c] = min(high, max(low, trends[c]))
    for c in visited:
        n, trend = work[COUNT, c], trends[c]
        work[SQUARE, c] += trend * (n * trend - 2.0 * work[TOTAL, c])
        work[TOTAL, c] -= n * trend
    trends += center
    left = max(n_samples - max(1, p), 0.5 * n_samples)
    return (n_samples / left) ** 2 if n_samples > 0.0 else 1.0


@jit_kernel
def factor_counts(work, visited, features, factor):
    """Write the Cholesky factor of the normal equations of the ridge regression."""
    n_pairs, n_quadratic = features.entries.shape[0], features.n_quadratic
    entries, columns = np.zeros(n_pairs), np.arange(n_pairs)
    factor[:] = 0.0
    for i in range(features.n_columns):
        factor[i, i] = RIDGE
    for c in visited:
        for i in range(n_pairs):
            entries[i] = features.entries[i, c]
        for i in range(n_quadratic, n_pairs):
            columns[i] = features.columns[i - n_quadratic, c]
        for i in range(n_pairs):
            weighted, row = work[COUNT, c] * entries[i], factor[columns[i]]
            for k in range(min(i + 1, n_quadratic)):
                row[k] += weighted * entries[k]
            for k in range(n_quadratic, i + 1):
                row[columns[k]] += weighted * entries[k]
    decompose(factor)


@jit_kernel
def fit_trend(work, visited, features, factor, n_pairs, mean, coefficients):
    """Write the coefficients of the trend, fitted to targets minus their mean."""
    entries, n_quadratic = features.entries, features.n_quadratic
    for c in visited:
        rest = work[TOTAL, c] - work[COUNT, c] * mean
        for i in range(n_quadratic):
            coefficients[i] += rest * entries[i, c]
        for i in range(n_quadratic, n_pairs):
            coefficients[features.columns[i - n_quadratic, c]] += rest * entries[i, c]
    solve(factor, coefficients)


@jit_kernel
def add_features(features, n_pairs, coefficients, sums):
    """Add the first `n_pairs` features of every cell, times their coefficients."""
    n_quadratic = features.n_quadratic
    for i in range(n_pairs):
        entries = features.entries[i]
        if i < n_quadratic:
            coefficient = coefficients[i]
            for c in range(sums.shape[0]):
                sums[c] += coefficient * entries[c]
        else:
            columns = features.columns[i - n_quadratic]
            for c in range(sums.shape[0]):
                sums[c] += coefficients[columns[c]] * entries[c]
