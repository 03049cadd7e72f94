"""Solve linear equations with a positive definite matrix, by its Cholesky factor.

Numba's own functions need SciPy, which zooming does not.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_kernel


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
