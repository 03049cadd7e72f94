"""Features of the trend: a quadratic of the coordinates, and functions of the drift.

Next values often depend on state and action through the drift alone (see `drifts`), and so do many
rewards. A function of one number needs far fewer samples than a function of all coordinates. The
features of a cell are

    1, coordinates, their pairwise products
    of each drift: hats, max(0, 1 - |place - i|) for i = 0, ..., n_hats - 1

Here `place` is (n_hats - 1) times the mean of two shares: where the drift lies in its range, and
how many samples have a smaller drift. So knots are dense where samples are, and a few samples far
away do not take all of them. The number of knots grows with the samples. At most two hats of a
drift are positive: features are stored as pairs of a column and an entry.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.loop.jit import jit_kernel
from zooming.kernels.plans.drifts import coordinate
from zooming.kernels.plans.layout import STRONG


class Features(NamedTuple):
    """The features of every cell."""

    columns: Any  # [n_cells, n_pairs] int64, increasing
    entries: Any  # [n_cells, n_pairs]
    n_quadratic: Any  # int: columns of the quadratic
    n_columns: Any  # int: the same, and the hats of all drifts


@jit_kernel
def cell_centers(grid, n_cells):
    """Return the coordinates of each cell's center, scaled to [-1, 1]; 0 for a category."""
    n_axes = grid.bins.shape[0]
    centers = np.zeros((n_cells, n_axes))
    for c in range(n_cells):
        rest = c
        for j in range(n_axes - 1, -1, -1):
            centers[c, j] = coordinate(grid, j, grid.centers[j, rest % grid.bins[j]])
            rest //= grid.bins[j]
    return centers


@jit_kernel
def make_features(grid, centers, counts, drifts, n_hats):
    """Return the features of each cell. `counts` has the number of samples of each cell."""
    n_cells, n_axes = centers.shape
    n_quadratic, n_pairs = 1 + n_axes + n_axes * (n_axes + 1) // 2, 0
    for j in range(drifts.strengths.shape[0]):
        n_pairs += 2 if has_hats(grid, drifts, j) else 0
    n_pairs += n_quadratic
    columns, entries = np.zeros((n_cells, n_pairs), np.int64), np.ones((n_cells, n_pairs))
    for c in range(n_cells):
        k = 1 + n_axes
        for i in range(n_axes):
            entries[c, 1 + i] = centers[c, i]
            for j in range(i, n_axes):
                entries[c, k] = centers[c, i] * centers[c, j]
                k += 1
        for k in range(n_quadratic):
            columns[c, k] = k
    pair, column = n_quadratic, n_quadratic
    for j in range(drifts.strengths.shape[0]):
        if has_hats(grid, drifts, j):
            drift = find_drift(centers, drifts.coefficients[j])
            write_hats(entries, columns, drift, counts, n_hats, pair, column)
            pair, column = pair + 2, column + n_hats
    return Features(columns, entries, n_quadratic, column)


@jit_kernel
def has_hats(grid, drifts, axis):
    """Return whether functions of the drift of this axis are features.

    The drift must be significant, and the axis must have three bins.
    """
    return grid.bins[axis] >= 3 and drifts.strengths[axis] > STRONG


@jit_kernel
def find_drift(centers, coefficients):
    """Return the drift of every cell along one axis."""
    drift = np.full(centers.shape[0], coefficients[0])
    for c in range(centers.shape[0]):
        for j in range(centers.shape[1]):
            drift[c] += coefficients[1 + j] * centers[c, j]
    return drift


@jit_kernel
def write_hats(entries, columns, drift, counts, n_hats, pair, column):
    """Write the hats of one drift into the pairs `pair` and `pair` + 1 of each cell."""
    shares = shares_below(drift, counts)
    low, high = np.inf, -np.inf
    for c in range(drift.shape[0]):
        if counts[c] > 0.0:
            low, high = min(low, drift[c]), max(high, drift[c])
    for c in range(drift.shape[0]):
        place = 0.5 * ((drift[c] - low) / max(1e-9, high - low) + shares[c]) * (n_hats - 1)
        place = min(n_hats - 1.0, max(0.0, place))
        knot = min(n_hats - 2, np.int64(place))
        columns[c, pair], columns[c, pair + 1] = column + knot, column + knot + 1
        entries[c, pair], entries[c, pair + 1] = 1.0 - (place - knot), place - knot


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
