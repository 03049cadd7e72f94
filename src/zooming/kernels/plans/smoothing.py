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

from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.layout import (
    CATEGORIES,
    COUNT,
    EMPTY,
    FIRST_WIDTH,
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


@jit_kernel
def set_decay(grid, widths, decay):
    """Fill `decay` with the kernel's weights: axis j has the bandwidth 2^widths[j]."""
    for j in range(grid.bins.shape[0]):
        for i in range(grid.bins[j] - 1):
            gap = grid.centers[j, i + 1] - grid.centers[j, i]
            if grid.kinds[j] == CATEGORIES:
                gap = 1.0
            decay[j, i] = 1.0 if widths[j] >= FLAT else np.exp(-gap * 2.0 ** -widths[j])


@jit_kernel
def smooth(values, grid, decay, buffer):
    """Replace `values` by their kernel-weighted sums, in place, axis by axis, in linear time.

    `buffer` has room for two blocks of cells.
    """
    n_values, inner = values.shape[0], 1
    for j in range(grid.bins.shape[0] - 1, -1, -1):
        n = grid.bins[j]
        size = n * inner
        for start in range(0, n_values if n > 1 else 0, size):
            if grid.kinds[j] == CATEGORIES:
                smooth_categories(values[start : start + size], inner, decay[j, 0], buffer)
            elif inner == 1:
                smooth_line(values[start : start + size], decay[j], buffer)
            else:
                smooth_lines(values[start : start + size], inner, decay[j], buffer)
        inner = size


@jit_inline
def smooth_line(values, decay, buffer):
    """Smooth along one axis: out_i = sum_k x_k prod of the decays between i and k."""
    n = values.shape[0]
    after = 0.0
    for i in range(n - 1, 0, -1):
        buffer[i] = after
        after = (after + values[i]) * decay[i - 1]
    buffer[0] = after
    before = 0.0
    for i in range(n - 1):
        here = values[i]
        values[i] = here + before + buffer[i]
        before = (before + here) * decay[i]
    values[n - 1] += before


@jit_inline
def smooth_lines(values, inner, decay, buffer):
    """Smooth `inner` interleaved lines at once, as `smooth_line` does."""
    size = values.shape[0]
    n = size // inner
    for k in range(inner):
        buffer[size - inner + k] = 0.0
        buffer[size + k] = 0.0  # weighted sum of the values before
    for i in range(n - 1, 0, -1):
        d, here = decay[i - 1], i * inner
        for k in range(inner):
            buffer[here - inner + k] = (buffer[here + k] + values[here + k]) * d
    for i in range(n):
        d, here = decay[min(i, n - 2)], i * inner
        for k in range(inner):
            x, before = values[here + k], buffer[size + k]
            values[here + k] = x + before + buffer[here + k]
            buffer[size + k] = (before + x) * d


@jit_inline
def smooth_categories(values, inner, weight, buffer):
    """Add the sum of all other categories, times `weight`, to each category."""
    for k in range(inner):
        buffer[k] = 0.0
    for i in range(0, values.shape[0], inner):
        for k in range(inner):
            buffer[k] += values[i + k]
    for i in range(0, values.shape[0], inner):
        for k in range(inner):
            values[i + k] += weight * (buffer[k] - values[i + k])


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
def leave_one_out(work, errors):
    """Return (index of the best share in SHARES, its mean squared leave-one-out error)."""
    n_samples, n_shares = 0.0, SHARES.shape[0]
    for i in range(n_shares):
        errors[i] = 0.0
    for c in range(work.shape[1]):
        n = work[COUNT, c]
        if n > 0:
            mean = work[MEAN, c]
            rest = work[TOTAL, c] - n * mean
            square = max(0.0, work[SQUARE, c] - mean * (work[TOTAL, c] + rest))
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
def regress(work, grid, decay, has_mass, buffer, errors):
    """Write SUM, MASS and MEAN of the residuals under the kernel; return `leave_one_out`."""
    work[SUM] = work[TOTAL]
    smooth(work[SUM], grid, decay, buffer)
    if not has_mass:
        work[MASS] = work[COUNT]
        smooth(work[MASS], grid, decay, buffer)
    for c in range(work.shape[1]):
        work[MEAN, c] = work[SUM, c] / (work[MASS, c] + PRIOR)
    return leave_one_out(work, errors)


@jit_kernel
def tune(work, grid, widths, is_search, has_mass, decay, buffer, errors):
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
        share, error = regress(work, grid, decay, has_mass and not is_search, buffer, errors)
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
        return FIRST_WIDTH
    if n_bins == 1 or move < 0 or move > 2:
        return width
    if move == 2:
        return FLAT
    return min(FLAT, width + 1.0) if move == 0 else width - 1.0


@jit_kernel
def predict_cells(work, share):
    """Write the prediction of every cell into the row MEAN."""
    for c in range(work.shape[1]):
        n, mean = work[COUNT, c], work[MEAN, c]
        work[MEAN, c] = work[TREND, c] + mean + (work[TOTAL, c] - n * mean) / (n + share)


@jit_kernel
def measure_gaps(work, grid, decay, has_near, noise, buffer):
    """Write NEAR, the kernel weight of visited cells; return the mean leave-one-cell-out error.

    Each visited cell is predicted from all others. Its squared error, minus the part that noise
    explains, is multiplied by the kernel weight of the other visited cells. The mean of these
    products, divided by NEAR of an unvisited cell, estimates the squared error there. NEAR is not
    computed again if `has_near`.
    """
    if not has_near:
        mark_visited(work, NEAR)
        smooth(work[NEAR], grid, decay, buffer)
    total, n_visited = 0.0, 0
    for c in range(work.shape[1]):
        n = work[COUNT, c]
        if n > 0:
            others = max(0.0, work[MASS, c] - n) + PRIOR
            error = work[TOTAL, c] / n - (work[SUM, c] - work[TOTAL, c]) / others
            excess = max(0.0, error * error - noise * (1.0 / n + 1.0 / (others + 1.0)))
            total += excess * min(2.0, max(0.0, work[NEAR, c] - 1.0) + EMPTY)
            n_visited += 1
    return total / max(1, n_visited)


@jit_inline
def mark_visited(work, row):
    """Write 1 into a row of `work` where a cell has samples, else 0."""
    for c in range(work.shape[1]):
        work[row, c] = 1.0 if work[COUNT, c] > 0 else 0.0
