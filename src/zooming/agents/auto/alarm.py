"""An alarm for a law that has changed: returns of the agent that leads have fallen.

For each lag m = FIRST_LAG, 2 FIRST_LAG, ..., the last m returns (after) are compared with the later
half of those before them (before). With n returns in all, n_b of them before, the variance s^2 of a
return estimated by half the mean squared difference of successive returns before, and means of
returns that are clipped to CLIP standard deviations around the mean before,

    alarm if  n_b m / (n_b + m) (before - after)^2 / (2 s^2) >= log(n^1.5 / DELTA)

This is a generalized likelihood ratio. A law that gets better is not seen. The agent starts anew
after an alarm, so a fall must also cost the share LOST of what has been gained since the start.
"""

from __future__ import annotations

import math

import numpy as np

from zooming.agents.auto.constants import CLIP, DELTA, FIRST_LAG, LOST, WARM
from zooming.validation import Floats


def has_fallen(returns: Floats, start: float) -> bool:
    """Return whether the latest returns are clearly lower than those before.

    `start` is the mean of the first returns.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=500)
    >>> has_fallen(5.0 + noise, 0.0), has_fallen(np.append(5.0 + noise, 2.0 + noise[:32]), 0.0)
    (False, True)
    """
    n, lag = len(returns), FIRST_LAG
    while n >= WARM and lag <= n // 2:
        before, after = returns[(n - lag) // 2 : n - lag], returns[n - lag :]
        middle, square = float(before.mean()), 0.5 * float(np.mean(np.diff(before) ** 2))
        ends = middle - CLIP * math.sqrt(square), middle + CLIP * math.sqrt(square)
        fall = float(before.clip(*ends).mean() - after.clip(*ends).mean())
        weight = len(before) * lag / (len(before) + lag)
        is_clear = weight * fall**2 >= 2.0 * square * math.log(n**1.5 / DELTA)
        if fall > 0.0 and is_clear and middle - after.mean() > LOST * (middle - start):
            return True
        lag *= 2
    return False
