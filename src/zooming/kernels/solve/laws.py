"""Weights of random outcomes: fill them from a law, normalize them, and draw by them.

The weights of n outcomes are a vector of numbers >= 0. They need not sum to 1, so a truncated law
can be written without its constant. Dynamics and solver use the same weights. So the simulated law
is the law that is solved.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numba import float64, void

from zooming.kernels.loop.jit import jit_no_refcount, jit_with_signature

STIFFNESSES, NEWTON_STEPS = 15, 30  # of the fit of a smooth law


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


def _fit_smooth(counts, exposures, law):
    """Write rates p = exp(g) on the points of a line that are likely and smooth, given counts.

    A count c_i is Poisson with the mean e_i p_i. For a stiffness s, g maximizes

        sum (c_i g_i - e_i exp(g_i)) - s/2 sum (g_i - 2 g_i+1 + g_i+2)^2.

    If the exposures e_i are all n = sum c_i, then sum p = 1, and p has the mean of the counts. Very
    stiff, it is a geometric law; not stiff, the empirical one. The result is the mean over the
    stiffnesses n m^3 / 2 e^-2k, weighted by the probability of the counts in Laplace's
    approximation (Good and Gaskins 1971; Silverman 1982).
    """
    m, n = counts.shape[0], counts.sum()
    g, best, total = np.full(m, math.log(n / exposures.sum())), -np.inf, 0.0
    law[:] = 0.0
    gradient, diagonal, first, second = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    stiffness = 0.5 * n * m**3.0
    for _ in range(STIFFNESSES):
        for _ in range(NEWTON_STEPS):
            likelihood, log_det, size = 0.0, 0.0, 0.0
            for i in range(m):
                p = math.exp(g[i])
                likelihood += counts[i] * g[i] - exposures[i] * p
                gradient[i] = counts[i] - exposures[i] * p
                diagonal[i] = max(exposures[i] * p, 1e-12 * n)
                first[i], second[i] = 0.0, 0.0
            for i in range(m - 2):
                bend = stiffness * (g[i] - 2.0 * g[i + 1] + g[i + 2])
                likelihood -= 0.5 * bend * bend / stiffness
                gradient[i] -= bend
                gradient[i + 1] += 2.0 * bend
                gradient[i + 2] -= bend
                diagonal[i] += stiffness
                diagonal[i + 1] += 4.0 * stiffness
                diagonal[i + 2] += stiffness
                first[i] -= 2.0 * stiffness
                first[i + 1] -= 2.0 * stiffness
                second[i] += stiffness
            for i in range(m):  # L D L' of the five diagonals, and L x = gradient
                log_det += math.log(diagonal[i])
                for j, above in ((1, first[i]), (2, second[i])):
                    if i + j < m:
                        gradient[i + j] -= above / diagonal[i] * gradient[i]
                        diagonal[i + j] -= above * above / diagonal[i]
                if i + 1 < m:
                    first[i + 1] -= first[i] * second[i] / diagonal[i]
            for i in range(m - 1, -1, -1):
                gradient[i] /= diagonal[i]
                if i + 1 < m:
                    gradient[i] -= first[i] / diagonal[i] * gradient[i + 1]
                if i + 2 < m:
                    gradient[i] -= second[i] / diagonal[i] * gradient[i + 2]
                size = max(size, abs(gradient[i]))
            if size < 1e-4:
                break
            for i in range(m):
                g[i] += gradient[i] * min(1.0, 1.0 / size)
        evidence = likelihood + 0.5 * ((m - 2) * math.log(stiffness) - log_det)
        if evidence > best:
            fade = math.exp(best - evidence)
            best, total = evidence, total * fade
            for i in range(m):
                law[i] *= fade
        share = math.exp(evidence - best)
        total += share
        for i in range(m):
            law[i] += share * math.exp(g[i])
        stiffness *= math.exp(-2.0)
    law /= total


@functools.cache
def fit_smooth() -> Callable[..., None]:
    """Return `_fit_smooth`, compiled on first use."""
    return jit_with_signature(
        _fit_smooth, float64[::1], float64[::1], float64[::1], returns=void, name="fit_smooth"
    )
