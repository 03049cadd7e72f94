"""Kernel regression on a grid.

Each cell has the number of its samples, and the sum and the sum of squares of their targets. The
prediction of a cell is

    trend + mean + (total - n mean) / (n + share)

`trend` is that of `trends`. `mean` is the kernel-weighted mean of the residuals. `n` and `total`
are the cell's own count and sum of residuals. The last term gives the cell's own samples more
weight; a smaller `share` means more weight. The kernel is the product over the axes of
exp(-distance / bandwidth). On an axis of categories, all other values have the same weight.
Bandwidths and `share` minimize the leave-one-out error.

The statistics of a target are rows of one array, `work`, see `plan_layout`.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_kernel, jit_no_refcount
from zooming.kernels.plans.layout import (
    CATEGORIES,
    COUNT,
    EMPTY,
    FLAT,
    MASS,
    MEAN,
    NEAR,
    PRIOR,
    SHARES,
    SQUARE,
    SUM,
    TOTAL,
    TREND,
)

FEW_LINES = 8  # with fewer lines side by side, a vector instruction has too little to do


@jit_kernel
def set_decay(grid, widths, decay):
    """Fill `decay` with the kernel's weights: axis j has the bandwidth 2^widths[j]."""
    for j in range(grid.bins.shape[0]):
        scale = 2.0 ** -widths[j]
        for i in range(grid.bins[j] - 1):
            gap = grid.centers[j, i + 1] - grid.centers[j, i]
            if grid.kinds[j] == CATEGORIES:
                gap = 1.0
            decay[j, i] = 1.0 if widths[j] >= FLAT else np.exp(-gap * scale)


@jit_no_refcount
def smooth(values, grid, decay, buffer):
    """Replace `values` by their kernel-weighted sums, in place, axis by axis, in linear time.

    Lines along an axis are smoothed side by side: the compiler then uses vector instructions. Where
    few are side by side in memory, the axis is brought to the front and back again. `buffer` has
    room for three blocks of cells.
    """
    n_values, inner = values.shape[0], 1
    for j in range(grid.bins.shape[0] - 1, -1, -1):
        n, kind = grid.bins[j], grid.kinds[j]
        size = n * inner
        if n > 1 and size < n_values and inner < FEW_LINES:
            front = buffer[2 * n_values : 3 * n_values]
            swap(values, n_values // size, n, inner, front)
            smooth_lines(front, n, kind, decay[j], buffer)
            swap(front, n, n_values // size, inner, values)
        else:
            for start in range(0, n_values if n > 1 else 0, size):
                smooth_lines(values[start : start + size], n, kind, decay[j], buffer)
        inner = size


@jit_no_refcount
def swap(values, n_first, n_second, inner, out):
    """Write entry [i, j, k] of `values` to [j, i, k] of `out`; k goes to `inner`."""
    for i in range(n_first):
        block = values[i * n_second * inner : (i + 1) * n_second * inner]
        for j in range(n_second if inner == 1 else 0):  # most often: twice as fast as below
            out[j * n_first + i] = block[j]
        for j in range(n_second if inner > 1 else 0):
            for k in range(inner):
                out[(j * n_first + i) * inner + k] = block[j * inner + k]


@jit_no_refcount
def smooth_lines(values, n, kind, decay, buffer):
    """Smooth interleaved lines of n values: out_i = sum_k x_k prod of the decays between i and k.

    On an axis of categories, add the sum of all others, times the decay, to each value.
    """
    inner = values.shape[0] // n
    before = buffer[values.shape[0] : values.shape[0] + inner]  # weighted sums of the values before
    before[:] = 0.0
    if kind == CATEGORIES:
        for i in range(n):
            here = values[i * inner : (i + 1) * inner]
            for k in range(inner):
                before[k] += here[k]
        for i in range(n):
            here = values[i * inner : (i + 1) * inner]
            for k in range(inner):
                here[k] += decay[0] * (before[k] - here[k])
        return
    buffer[(n - 1) * inner : n * inner] = 0.0
    for i in range(n - 1, 0, -1):
        d, here = decay[i - 1], values[i * inner : (i + 1) * inner]
        after = buffer[i * inner : (i + 1) * inner]
        nearer = buffer[(i - 1) * inner : i * inner]
        for k in range(inner):
            nearer[k] = (after[k] + here[k]) * d
    for i in range(n):
        d, here = decay[min(i, n - 2)], values[i * inner : (i + 1) * inner]
        after = buffer[i * inner : (i + 1) * inner]
        for k in range(inner):
            x, sum_before = here[k], before[k]
            here[k] = x + sum_before + after[k]
            before[k] = (sum_before + x) * d


@jit_inline
def without_one(n, mass, share):
    """Return (g, w) of the leave-one-out error of a sample y of a cell with n samples:

        y - prediction without y = g (y - mean) - w (total - n mean)

    Here y is a residual of the trend. The trend is not fitted again without y. n, mass, mean and
    total include y.
    """
    a = 1.0 / (mass + PRIOR - 1.0)
    w = 1.0 / (n - 1.0 + share)
    return 1.0 + a + w * (1.0 - a * (n - 1.0)), w


@jit_kernel
def leave_one_out(work, visited, errors):
    """Write MEAN of visited cells; return (index of the best share, its mean squared error)."""
    n_samples, n_shares = 0.0, SHARES.shape[0]
    errors[:] = 0.0
    for c in visited:
        n, total = work[COUNT, c], work[TOTAL, c]
        mean = work[SUM, c] / (work[MASS, c] + PRIOR)
        work[MEAN, c] = mean
        rest = total - n * mean
        square = max(0.0, work[SQUARE, c] - mean * (total + rest))
        a = 1.0 / (work[MASS, c] + PRIOR - 1.0)
        slope = 1.0 - a * (n - 1.0)
        squared = rest * rest
        flat = (1.0 + a) * (1.0 + a) * square
        linear = 2.0 * (1.0 + a) * (slope * square - squared)
        quadratic = slope * slope * square + (n - 2.0 * slope) * squared
        n_samples += n
        for i in range(n_shares):
            w = 1.0 / (n - 1.0 + SHARES[i])
            errors[i] += max(0.0, flat + w * (linear + w * quadratic))
    best = 0
    for i in range(n_shares):
        best = i if errors[i] < errors[best] else best
    return best, errors[best] / max(1.0, n_samples)


@jit_kernel
def regress(work, visited, grid, decay, has_mass, buffer):
    """Write SUM and MASS of the residuals under the kernel; return `leave_one_out`."""
    work[SUM] = work[TOTAL]
    smooth(work[SUM], grid, decay, buffer)
    if not has_mass:
        work[MASS] = work[COUNT]
        smooth(work[MASS], grid, decay, buffer)
    return leave_one_out(work, visited, np.zeros(SHARES.shape[0]))


@jit_kernel
def tune(work, visited, grid, widths, is_search, has_mass, decay, buffer):
    """Regress; if `is_search`, first tune the bandwidths by leave-one-out error.

    For each axis, try to double its bandwidth, to halve it, and to ignore the axis. Finally try to
    reset all bandwidths. A move is kept if it lowers the error. `has_mass` tells
    that MASS has these bandwidths already. Return `leave_one_out` of the chosen kernel, which is
    left in `decay`.
    """
    n_axes = widths.shape[0]
    n_moves = 3 * n_axes + 1
    before = np.empty(n_axes)
    least = np.inf
    for move in range(-1 if is_search else n_moves, n_moves + 1):  # -1: as is; n_moves: final fit
        has_changed = False
        for j in range(n_axes):
            before[j] = widths[j]
            if 0 <= move < n_moves:
                widths[j] = move_width(widths[j], move - 3 * j, move == n_moves - 1, grid.bins[j])
                has_changed = has_changed or widths[j] != before[j]
        if 0 <= move < n_moves and not has_changed:
            continue
        set_decay(grid, widths, decay)
        share, error = regress(work, visited, grid, decay, has_mass and not is_search, buffer)
        if move == n_moves:
            return share, error
        if error < least:
            least = error
        else:
            for j in range(n_axes):
                widths[j] = before[j]
    return 0, least


@jit_inline
def move_width(width, move, begins_anew, n_bins):
    """Return the bandwidth of an axis after its move 0 (double), 1 (halve) or 2 (ignore)."""
    if begins_anew:
        return -FLAT
    if n_bins == 1 or move < 0 or move > 2:
        return width
    if move == 2:
        return FLAT
    return min(FLAT, width + 1.0) if move == 0 else width - 1.0


@jit_kernel
def predict_cells(work, share):
    """Write the prediction of every cell into the row MEAN."""
    counts, totals, sums, masses = work[COUNT], work[TOTAL], work[SUM], work[MASS]
    trends, predictions = work[TREND], work[MEAN]
    for c in range(work.shape[1]):
        n, mean = counts[c], sums[c] / (masses[c] + PRIOR)
        predictions[c] = trends[c] + mean + (totals[c] - n * mean) / (n + share)


@jit_kernel
def measure_gaps(work, visited, grid, decay, has_near, noise, buffer):
    """Write NEAR, the kernel weight of visited cells; return the mean leave-one-cell-out error.

    Each visited cell is predicted from all others. Its squared error, minus the part that noise
    explains, is multiplied by the kernel weight of the other visited cells. The mean of these
    products, divided by NEAR of an unvisited cell, estimates the squared error there. NEAR is not
    computed again if `has_near`.
    """
    if not has_near:
        mark(work[NEAR], visited)
        smooth(work[NEAR], grid, decay, buffer)
    total = 0.0
    for c in visited:
        n = work[COUNT, c]
        others = max(0.0, work[MASS, c] - n) + PRIOR
        error = work[TOTAL, c] / n - (work[SUM, c] - work[TOTAL, c]) / others
        excess = max(0.0, error * error - noise * (1.0 / n + 1.0 / (others + 1.0)))
        total += excess * min(2.0, max(0.0, work[NEAR, c] - 1.0) + EMPTY)
    return total / max(1, visited.shape[0])


@jit_inline
def mark(row, visited):
    """Write 1 into a row where a cell has samples, else 0."""
    row[:] = 0.0
    for c in visited:
        row[c] = 1.0
