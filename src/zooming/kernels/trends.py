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
def remove_trend(work, features, factor, has_factor, center):
    """Fit the trend, write it into TREND, and subtract it from TOTAL and SQUARE.

    TOTAL and SQUARE are sums of targets minus `center`, to avoid rounding errors; TREND includes
    `center`. The trend is clipped to the range of the cells' means. With few samples it is the mean
    of all targets. `factor` is the factor of the normal equations, which depends on the counts
    only; it is computed unless `has_factor`. Return the number by which squared leave-one-out
    errors must be multiplied because the coefficients were fitted to the same samples.
    """
    n_cells, p = features.shape
    n_samples, mean, low, high = 0.0, 0.0, np.inf, -np.inf
    for c in range(n_cells):
        n = work[COUNT, c]
        if n > 0:
            n_samples += n
            mean += work[TOTAL, c]
            low, high = min(low, work[TOTAL, c] / n), max(high, work[TOTAL, c] / n)
    mean /= max(n_samples, 1e-9)
    center = center if n_samples > 0.0 else 0.0  # without samples, nothing is known
    coefficients = np.zeros(p)
    has_trend = n_samples >= ENOUGH * p
    if has_trend:
        if not has_factor:
            factor_counts(work, features, factor)
        fit_trend(work, features, factor, mean, coefficients)
    for c in range(n_cells):
        trend = mean
        if has_trend:
            for i in range(p):
                trend += coefficients[i] * features[c, i]
            trend = min(high, max(low, trend))
        n = work[COUNT, c]
        work[TREND, c] = center + trend
        work[SQUARE, c] += trend * (n * trend - 2.0 * work[TOTAL, c])
        work[TOTAL, c] -= n * trend
    left = max(n_samples - (p if has_trend else 1), 0.5 * n_samples)
    return (n_samples / left) ** 2 if n_samples > 0.0 else 1.0


@jit_kernel
def factor_counts(work, features, factor):
    """Write the Cholesky factor of the matrix features' N features + RIDGE; N are the counts."""
    n_cells, p = features.shape
    for i in range(p):
        for k in range(i + 1):
            factor[i, k] = RIDGE if i == k else 0.0
    for c in range(n_cells):
        n = work[COUNT, c]
        if n > 0:
            for i in range(p):
                weighted = n * features[c, i]
                for k in range(i + 1):
                    factor[i, k] += weighted * features[c, k]
    for i in range(p):
        for k in range(i + 1):
            entry = factor[i, k]
            for m in range(k):
                entry -= factor[i, m] * factor[k, m]
            factor[i, k] = np.sqrt(max(entry, 1e-12)) if i == k else entry / factor[k, k]


@jit_kernel
def fit_trend(work, features, factor, mean, coefficients):
    """Write the coefficients of the trend, fitted to targets minus their mean."""
    n_cells, p = features.shape
    for c in range(n_cells):
        n = work[COUNT, c]
        if n > 0:
            rest = work[TOTAL, c] - n * mean
            for i in range(p):
                coefficients[i] += rest * features[c, i]
    for i in range(p):
        for m in range(i):
            coefficients[i] -= factor[i, m] * coefficients[m]
        coefficients[i] /= factor[i, i]
    for i in range(p - 1, -1, -1):
        for m in range(i + 1, p):
            coefficients[i] -= factor[m, i] * coefficients[m]
        coefficients[i] /= factor[i, i]
