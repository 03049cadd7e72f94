"""Compute distance matrices: shortest paths, norms."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from zooming.kernels.loop.jit import jit_kernel


@jit_kernel
def shortest_paths(lengths):
    """Replace the lengths of edges by the lengths of shortest paths, in place (Floyd-Warshall).

    The length of a missing edge is infinite.
    """
    n = lengths.shape[0]
    for k in range(n):
        for i in range(n):
            first = lengths[i, k]
            if first == np.inf:
                continue
            for j in range(n):
                lengths[i, j] = min(lengths[i, j], first + lengths[k, j])


def norms(points: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """Return the p-norms of the differences of all pairs of points [n, n_axes].

    The differences of a pair are divided by their maximum before the power is taken. So
    neither a large scale nor a large p overflows in between. A norm beyond floating point is
    infinite.
    """
    largest = np.zeros((len(points), len(points)))
    for along in points.T:
        np.maximum(largest, np.abs(along[:, None] - along[None, :]), out=largest)
    if math.isinf(power) or points.shape[1] == 1:
        return largest
    if power == 1.0:
        largest[:] = 1.0  # a sum cannot overflow early, and without the division it is more exact
    apart = np.where(largest > 0.0, largest, 1.0)
    found = np.zeros_like(largest)
    with np.errstate(over="ignore", under="ignore"):
        for along in points.T:
            share = np.abs(along[:, None] - along[None, :])
            share /= apart
            share **= power
            found += share
        found **= 1.0 / power
        found *= largest
    return found
