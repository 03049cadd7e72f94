"""Confidence intervals of means by Student's t distribution, without a statistics library."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from zooming.errors import ConfigurationError


@dataclass(frozen=True)
class Interval:
    """A sample mean with its confidence interval.

    For independent samples, the interval contains the true mean with probability `level`.
    """

    mean: float
    low: float
    high: float
    level: float = 0.95

    def __str__(self) -> str:
        return f"{self.mean:.4g} ({self.level:.0%} interval {self.low:.4g} to {self.high:.4g})"


def mean_interval(samples: ArrayLike, level: float = 0.95) -> Interval:
    """Return the confidence interval of a mean: mean +- t sd / sqrt(n).

    >>> print(mean_interval([1.0, 2.0, 3.0]))  # t with 2 degrees of freedom is 4.303
    2 (95% interval -0.4841 to 4.484)
    """
    values = np.asarray(samples, np.float64).ravel()
    if len(values) < 2:
        raise ConfigurationError(
            f"{len(values)} samples have no interval: give at least two (more seeds, more episodes)"
        )
    half = (
        t_quantile((1 + level) / 2, len(values) - 1)
        * float(values.std(ddof=1))
        / math.sqrt(len(values))
    )
    mean = float(values.mean())
    return Interval(mean, mean - half, mean + half, level)


@functools.cache
def t_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution, by bisection of its distribution function.

    >>> round(t_quantile(0.975, 4), 3), round(t_quantile(0.975, 199), 3)
    (2.776, 1.972)
    """
    low, high = 0.0, 1.0
    while _t_cdf(high, freedom) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def _t_cdf(t: float, freedom: int) -> float:
    """Return P(T <= t) for t >= 0: 1 - I_x(n/2, 1/2) / 2 with x = n / (n + t^2)."""
    return 1 - _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), by its continued fraction."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast only on this side
        return 1 - _incomplete_beta(1 - x, b, a)
    front = (
        math.exp(
            math.lgamma(a + b)
            - math.lgamma(a)
            - math.lgamma(b)
            + a * math.log(x)
            + b * math.log1p(-x)
        )
        / a
    )
    fraction = 0.0
    for m in range(200, 0, -1):  # from the inside out: d_2m+1, then d_2m
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        fraction = even / (1 + odd / (1 + fraction))
    return front / (1 - (a + b) * x / (a + 1) / (1 + fraction))
