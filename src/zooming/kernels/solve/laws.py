"""Weights of random outcomes: fill them from a law, normalize them, and draw by them.

The weights of n outcomes are a vector of numbers >= 0. They need not sum to 1, so a truncated law
can be written without its constant. Dynamics and solver use the same weights. So the simulated law
is the law that is solved.
"""

from __future__ import annotations

import math

import numpy as np

from zooming.kernels.loop.jit import jit_no_refcount


@jit_no_refcount
def normalize(weights):
    """Divide the weights by their sum.

    If a weight is negative or infinite, or all are 0, all become NaN.
    """
    total = 0.0
    for i in range(weights.shape[0]):
        if not weights[i] >= 0.0:
            total = np.nan
        total += weights[i]
    scale = 1.0 / total if total > 0.0 and total < np.inf else np.nan
    for i in range(weights.shape[0]):
        weights[i] *= scale


@jit_no_refcount
def draw_index(weights, rng):
    """Return i with probability weights[i] / sum(weights), or -1 if the weights are invalid."""
    total = 0.0
    for i in range(weights.shape[0]):
        if not weights[i] >= 0.0:
            return -1
        total += weights[i]
    if not (total > 0.0 and total < np.inf):
        return -1
    share = rng.random() * total
    found = 0
    for i in range(weights.shape[0]):
        if weights[i] > 0.0:
            found = i  # rounding may leave a rest: it belongs to the last outcome that can happen
            if share < weights[i]:
                break
            share -= weights[i]
    return found


@jit_no_refcount
def fill_poisson(mean, weights):
    """Fill in the probabilities of min(N, n - 1), where N is Poisson and n = len(weights)."""
    last = weights.shape[0] - 1
    rest = 1.0
    chance = math.exp(-mean)
    for i in range(last):
        weights[i] = min(chance, rest)
        rest -= weights[i]
        chance *= mean / (i + 1.0)
    weights[last] = rest
