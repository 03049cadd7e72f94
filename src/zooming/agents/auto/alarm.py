"""An alarm for a law that has changed: returns of the agent that leads have fallen.

For each lag m = FIRST_LAG, 2 FIRST_LAG, ..., the last m returns (after) are compared with the later
half of those before them (before). With n returns in all, n_b of them before, and means of returns
that are clipped to CLIP standard deviations s around the mean before,

    alarm if  n_b m / (n_b + m) (before - after)^2 / (2 s^2) >= log(n^1.5 / DELTA)

This is a generalized likelihood ratio. The variance s^2 of a return is half the mean squared
difference of successive returns before. At least, s is the share LOST of what was gained since the
start: without noise, a small fall would be clear at once. A law that gets better is not seen.

A bad plan makes returns fall, too. So the first alarm only lets the agent plan again. If the
returns since then are still low, by the same test, the law has changed.
"""

from __future__ import annotations

import math

import numpy as np

from zooming.agents.auto.constants import CLIP, DELTA, FIRST_LAG, LOST, WARM
from zooming.validation import Floats


def has_fallen(returns: Floats, start: float, lag: int | None = None) -> bool:
    """Return whether the last `lag` returns are clearly lower than those before.

    By default several lags are tried. `start` is the mean of the first returns.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=500)
    >>> has_fallen(5.0 + noise, 0.0), has_fallen(np.append(5.0 + noise, 2.0 + noise[:32]), 0.0)
    (False, True)
    """
    n = len(returns)
    if n < WARM:
        return False
    lags = [FIRST_LAG * 2**i for i in range(n.bit_length())] if lag is None else [lag]
    for m in lags:
        if m > n // 2:
            break
        before, after = returns[(n - m) // 2 : n - m], returns[n - m :]
        middle = float(before.mean())
        square = max(0.5 * float(np.mean(np.diff(before) ** 2)), (LOST * (middle - start)) ** 2)
        ends = middle - CLIP * math.sqrt(square), middle + CLIP * math.sqrt(square)
        fall = float(before.clip(*ends).mean() - after.clip(*ends).mean())
        weight = len(before) * m / (len(before) + m)
        if fall > 0.0 and weight * fall**2 >= 2.0 * square * math.log(n**1.5 / DELTA):
            return True
    return False
