"""The trend of a target over the cells of a grid, fitted by ridge regression.

The trend is a quadratic of the coordinates, or the mean while samples are few. Kernel regression
(`smoothing`) predicts the residuals.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_kernel
from zooming.kernels.plan_layout import CATEGORIES, COUNT, ENOUGH, RIDGE, SQUARE, TOTAL, TREND


@jit_kernel
def make_features(grid, n_cells):
    """Return the features of each cell's center: 1, its coordinates, and their pairwise products.

    Coordinates are scaled to [-1, 1]. On an axis of categories they are 0.
    """
    n_axes = grid.bins.shape[0]
    features = np.ones((n_cells, 1 + n_axes + n_axes * (n_axes + 1) // 2))
    for c in range(n_cells):
        rest = c
        for j in range(n_axes - 1, -1, -1):
            x = 2.0 * grid.centers[j, rest % grid.bins[j]] - 1.0
            features[c, 1 + j] = 0.0 if grid.kinds[j] == CATEGORIES else x
            rest //= grid.bins[j]
        k = 1 + n_axes
        for i in range(n_axes):
            for j in range(i, n_axes):
                features[c, k] = features[c, 1 + i] * features[c, 1 + j]
                k += 1
    return features


@jit_kernel
def remove_trend(work, features, center):
    """Fit the trend of each block, write it into TREND, and subtract it from TOTAL and SQUARE.

    TOTAL and SQUARE are sums of targets minus `center`, to avoid rounding errors; TREND includes
    `center`. The trend is clipped to the range of the cells' means. With few samples it is the mean
    of all. Return the factor by which squared leave-one-out errors grow because the coefficients
    were fitted to the same samples.
    """
    n_cells, p = features.shape
    n_samples, n_coefficients = 0.0, 0.0
    for start in range(0, work.shape[1], n_cells):
        n_block, mean = 0.0, 0.0
        low, high = np.inf, -np.inf
        for c in range(start, start + n_cells):
            n = work[COUNT, c]
            if n > 0:
                n_block += n
                mean += work[TOTAL, c]
                low, high = min(low, work[TOTAL, c] / n), max(high, work[TOTAL, c] / n)
        mean /= max(n_block, 1e-9)
        coefficients = np.zeros(p)
        has_trend = n_block >= ENOUGH * p
        if has_trend:
            fit_trend(work, features, start, mean, coefficients)
        n_samples += n_block
        n_coefficients += p if has_trend else 1
        for c in range(n_cells):
            trend = mean
            if has_trend:
                for i in range(p):
                    trend += coefficients[i] * features[c, i]
                trend = min(high, max(low, trend))
            n = work[COUNT, start + c]
            work[TREND, start + c] = center + trend
            work[SQUARE, start + c] += trend * (n * trend - 2.0 * work[TOTAL, start + c])
            work[TOTAL, start + c] -= n * trend
    left = max(n_samples - n_coefficients, 0.5 * n_samples)
    return (n_samples / left) ** 2 if n_samples > 0.0 else 1.0


@jit_kernel
def fit_trend(work, features, start, mean, coefficients):
    """Write the coefficients of the trend of one block, fitted to targets minus their mean."""
    n_cells, p = features.shape
    normal = np.zeros((p, p))
    for c in range(n_cells):
        n = work[COUNT, start + c]
        if n > 0:
            rest = work[TOTAL, start + c] - n * mean
            for i in range(p):
                coefficients[i] += rest * features[c, i]
                weighted = n * features[c, i]
                for k in range(i + 1):
                    normal[i, k] += weighted * features[c, k]
    for i in range(p):
        normal[i, i] += RIDGE
    solve(normal, coefficients)


@jit_kernel
def solve(matrix, right):
    """Solve a positive definite system by Cholesky factorization, in place.

    `right` becomes the solution, and `matrix` the factor.
    """
    p = right.shape[0]
    for i in range(p):
        for k in range(i + 1):
            entry = matrix[i, k]
            for m in range(k):
                entry -= matrix[i, m] * matrix[k, m]
            matrix[i, k] = np.sqrt(max(entry, 1e-12)) if i == k else entry / matrix[k, k]
        for m in range(i):
            right[i] -= matrix[i, m] * right[m]
        right[i] /= matrix[i, i]
    for i in range(p - 1, -1, -1):
        for m in range(i + 1, p):
            right[i] -= matrix[m, i] * right[m]
        right[i] /= matrix[i, i]
