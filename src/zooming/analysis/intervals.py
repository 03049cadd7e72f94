"""Confidence intervals of means by Student's t distribution."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from zooming.agents.base.status import plain_ends
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
        mean, low, high = plain_ends(self.mean, self.low, self.high)
        return f"{mean} ({self.level:.0%} interval {low} to {high})"


def mean_interval(samples: ArrayLike, level: float = 0.95) -> Interval:
    """Return the confidence interval of a mean: mean +- t sd / sqrt(n).

    >>> print(mean_interval([1.0, 2.0, 3.0]))  # t with 2 degrees of freedom is 4.303
    2.0 (95% interval -0.5 to 4.5)
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

    P(T <= t) is a finite sum for a whole number of degrees of freedom n, with tan(u) = t / sqrt(n)
    (Abramowitz and Stegun, 26.7.3 and 26.7.4).

    >>> round(t_quantile(0.975, 4), 3), round(t_quantile(0.975, 199), 3)
    (2.776, 1.972)
    """
    is_odd = freedom % 2 == 1
    first = np.arange(1 + is_odd, freedom - 2, 2)

    def is_below(t: float) -> bool:
        sine, cosine = t / math.hypot(t, math.sqrt(freedom)), math.sqrt(freedom / (freedom + t * t))
        series = 1.0 + float(np.cumprod(first / (first + 1) * cosine**2).sum())
        if is_odd:
            turn = sine * cosine * series if freedom > 1 else 0.0
            return 0.5 + (math.atan2(sine, cosine) + turn) / math.pi < probability
        return 0.5 + sine * series / 2 < probability

    low, high = 0.0, 1.0
    while is_below(high):
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2
