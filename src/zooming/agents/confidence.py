"""Confidence sequences of means: intervals that hold for all sample sizes at once.

`NORMAL`. For n independent normal samples with unknown mean mu and variance, the likelihood ratio
of "the mean is mu + sigma d, d normal with variance 1/C" against "the mean is mu" is

    E_n(mu) = sqrt(C / (n + C)) (V / (V - S^2 / (n + C)))^(n/2),

with S the sum and V the sum of squares of the samples minus mu, and the scale integrated out by its
invariant measure. E_n is a martingale that begins at 1, so it exceeds 1/alpha at some n with
probability at most alpha (Ville). The means with E_n < 1/alpha are the interval.

`RANGE`. The samples X_i have a known range, scaled to [0, 1]. The weights L_i <= 1/2 and the
guesses m_i of X_i may depend on the earlier samples. With probability 1 - alpha, for all n at once,
the weighted mean of the samples differs from the weighted mean of their conditional means by at
most

    (log(2/alpha) + sum_i (X_i - m_i)^2 (-log(1 - L_i) - L_i)) / sum_i L_i.

The samples may have any distribution on that range. [Waudby-Smith and Ramdas, Estimating means of
bounded random variables by betting, 2024, Theorem 2]
"""

from __future__ import annotations

import math

from zooming.validation import Floats

NORMAL, RANGE = "normal", "range"
BOUNDS = NORMAL, RANGE
PRIOR = 20.0  # C: the interval is narrowest, relative to its best, at about 10 C samples
# Statistics of samples: their number, mean and sum of squared deviations. For RANGE also the sums
# of the weights, of the weighted scaled samples, and of the variance terms.
N, MEAN, SQUARES, WEIGHTS, WEIGHTED, SPENT = range(6)
N_NUMBERS = 6


def half_width(n: float, deviation: float, alpha: float) -> float:
    """Return half the width of the NORMAL interval after n samples; infinite for the first few.

    `deviation` is the standard deviation of the samples, with the divisor n.

    >>> [round(half_width(n, 1.0, 0.05), 3) for n in (5, 50, 500, 5000)]
    [inf, 0.482, 0.139, 0.048]
    """
    if n < 2:
        return math.inf
    ratio = math.exp(math.log((n + PRIOR) / (PRIOR * alpha * alpha)) / n)
    room = 1.0 - ratio * PRIOR / (n + PRIOR)
    return deviation * math.sqrt((ratio - 1.0) / room) if room > 0 else math.inf


def add_sample(numbers: Floats, value: float, alpha: float, ends: tuple[float, float]) -> None:
    """Add a sample to `numbers`, which holds the statistics N, MEAN, SQUARES, ...

    `ends` is the range of the samples.
    """
    n, mean, squares = numbers[:WEIGHTS].tolist()
    width = ends[1] - ends[0]
    if 0 < width < math.inf:
        scaled = (value - ends[0]) / width
        guess = (0.5 + n * (mean - ends[0]) / width) / (n + 1.0)
        variance = (0.25 + squares / width**2) / (n + 1.0)
        bet = math.sqrt(2.0 * math.log(2.0 / alpha) / (variance * (n + 1.0) * math.log(n + 2.0)))
        weight = min(0.5, bet)
        cost = (scaled - guess) ** 2 * (-math.log1p(-weight) - weight)
        numbers[WEIGHTS:] += weight, weight * scaled, cost
    away = value - mean
    mean += away / (n + 1.0)
    numbers[:WEIGHTS] = n + 1.0, mean, squares + away * (value - mean)


def interval(
    numbers: Floats, alpha: float, ends: tuple[float, float], bound: str
) -> tuple[float, float]:
    """Return (low, high), the confidence interval of the mean. `bound` is NORMAL or RANGE."""
    n = float(numbers[N])
    if bound == NORMAL:
        deviation = math.sqrt(float(numbers[SQUARES]) / n) if n else 0.0
        half, mean = half_width(n, deviation, alpha), float(numbers[MEAN])
        return mean - half, mean + half
    if not n:
        return ends
    low, high = ends
    total, weighted, spent = numbers[WEIGHTS:].tolist()
    half = (math.log(2.0 / alpha) + spent) / total
    scaled = weighted / total
    return (
        max(low, low + (high - low) * (scaled - half)),
        min(high, low + (high - low) * (scaled + half)),
    )
