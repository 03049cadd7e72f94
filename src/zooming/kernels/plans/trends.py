"""The trend of a target over the cells of a grid: a ridge regression on `features`.

With few samples the trend is the mean, with more a quadratic, and then a quadratic with functions
of the drift. Each needs ENOUGH samples for each coefficient. Kernel regression (`smoothing`)
predicts what the trend leaves.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.loop.jit import jit_kernel
from zooming.kernels.plans.layout import COUNT, ENOUGH, RIDGE, SQUARE, TOTAL, TREND


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


@jit_kernel
def remove_trend(work, features, factor, has_factor, center):
    """Fit the trend, write it into TREND, and subtract it from TOTAL and SQUARE.

    TOTAL and SQUARE are sums of targets minus `center`, to avoid rounding errors; TREND includes
    `center`. The trend is clipped to the range of the cells' means. `factor` is the factor of the
    normal equations, which depends on the counts only; it is computed unless `has_factor`. Return
    the number by which squared leave-one-out errors must be multiplied because the coefficients
    were fitted to the same samples.
    """
    n_cells, n_pairs = features.columns.shape
    n_samples, mean, low, high = 0.0, 0.0, np.inf, -np.inf
    for c in range(n_cells):
        n = work[COUNT, c]
        if n > 0:
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
    coefficients = np.zeros(p)
    if p > 0:
        if not has_factor:
            factor_counts(work, features, factor)
        fit_trend(work, features, factor[:p, :p], n_pairs, mean, coefficients)
    for c in range(n_cells):
        trend = mean
        for i in range(n_pairs):
            trend += coefficients[features.columns[c, i]] * features.entries[c, i]
        trend = min(high, max(low, trend)) if p > 0 else trend
        n = work[COUNT, c]
        work[TREND, c] = center + trend
        work[SQUARE, c] += trend * (n * trend - 2.0 * work[TOTAL, c])
        work[TOTAL, c] -= n * trend
    left = max(n_samples - max(1, p), 0.5 * n_samples)
    return (n_samples / left) ** 2 if n_samples > 0.0 else 1.0


@jit_kernel
def factor_counts(work, features, factor):
    """Write the Cholesky factor of the normal equations of the ridge regression.

    A cell counts as often as it has samples.
    """
    columns, entries = features.columns, features.entries
    factor[:] = 0.0
    for i in range(features.n_columns):
        factor[i, i] = RIDGE
    for c in range(columns.shape[0]):
        n = work[COUNT, c]
        if n > 0:
            for i in range(columns.shape[1]):
                weighted, row = n * entries[c, i], columns[c, i]
                for k in range(i + 1):
                    factor[row, columns[c, k]] += weighted * entries[c, k]
    decompose(factor)


@jit_kernel
def fit_trend(work, features, factor, n_pairs, mean, coefficients):
    """Write the coefficients of the trend, fitted to targets minus their mean."""
    for c in range(features.columns.shape[0]):
        n = work[COUNT, c]
        if n > 0:
            rest = work[TOTAL, c] - n * mean
            for i in range(n_pairs):
                coefficients[features.columns[c, i]] += rest * features.entries[c, i]
    solve(factor, coefficients)
