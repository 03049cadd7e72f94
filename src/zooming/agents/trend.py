"""How the returns of a run develop, in memory that does not grow with the episodes.

Window i has the episodes 2^i to 2^(i+1) - 1, counted from 1. Each keeps number, mean and variance
of its returns. From the last two windows follows an extrapolation: if the mean return is
a - c / sqrt(k), as for a regret that grows with the root of the episodes, then c is the difference
of the means over that of 1 / sqrt(k).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

N_WINDOWS = 64
LEAST = 8  # episodes of a window from which its mean is used


class Trend:
    """Returns by windows of growing length."""

    def __init__(self) -> None:
        self.windows: NDArray[np.float64] = np.zeros((N_WINDOWS, 3))  # number, mean, variance

    @property
    def n_episodes(self) -> int:
        """Episodes seen."""
        return int(self.windows[:, 0].sum())

    def add(self, returns: list[float]) -> None:
        """Add the returns of episodes."""
        k = self.n_episodes
        for return_ in returns:
            k += 1
            row = self.windows[k.bit_length() - 1]
            n, mean, variance = row.tolist()
            share, away = 1.0 / (n + 1.0), return_ - mean
            row[:] = (
                n + 1.0, mean + share * away, (1.0 - share) * (variance + share * away * away)
            )  # fmt: skip

    def latest(self) -> tuple[float, float] | None:
        """Return mean return and standard error of about the last half of the episodes."""
        used = self._long_windows()
        if not used:
            return None
        is_short = self.windows[used[-1], 0] < 2 ** (used[-1] - 1)
        return self._pool(used[-2:] if is_short else used[-1:])

    def expected_gain(self, n_more: int) -> tuple[float, float] | None:
        """Return the expected rise of the mean return over `n_more` episodes, and its error.

        It is an extrapolation, at least 0. None if there are too few episodes.
        """
        used = self._long_windows()
        if len(used) < 2:
            return None
        before, last = used[-2:]
        k = self.n_episodes
        (old, old_error), (new, new_error) = self._mean(before), self._mean(last)
        fall = self._mean_root(before) - self._mean_root(last)
        reach = k**-0.5 - 2.0 * (math.sqrt(k + n_more) - math.sqrt(k)) / n_more
        factor = reach / fall
        return max(0.0, (new - old) * factor), math.hypot(old_error, new_error) * factor

    def has_improved(self) -> bool:
        """Return whether late returns exceed those of episodes 8 to 31; True if it is too early."""
        used, latest = self._long_windows(), self.latest()
        if len(used) < 4 or latest is None:
            return True
        return latest[0] > self._pool(used[:2])[0]

    def _long_windows(self) -> list[int]:
        """Return the numbers of the windows with enough episodes."""
        return [int(i) for i in np.flatnonzero(self.windows[:, 0] >= LEAST)]

    def _pool(self, windows: list[int]) -> tuple[float, float]:
        """Return mean and standard error of the returns of some windows, pooled."""
        n, mean, variance = self.windows[windows].T
        total = float(n.sum())
        middle = float((n * mean).sum()) / total
        spread = float((n * (variance + (mean - middle) ** 2)).sum()) / total
        return middle, math.sqrt(spread / total)

    def _mean(self, i: int) -> tuple[float, float]:
        n, mean, variance = self.windows[i].tolist()
        return mean, math.sqrt(variance / n)

    def _mean_root(self, i: int) -> float:
        """Return the mean of 1 / sqrt(k) over the episodes of a window."""
        n, first = float(self.windows[i, 0]), float(2**i)
        return 2.0 * (math.sqrt(first + n) - math.sqrt(first)) / n

    def restore(self, windows: NDArray[Any]) -> None:
        """Restore saved `windows`; ValueError if they are invalid."""
        if windows.dtype != np.float64 or windows.shape != self.windows.shape:
            raise ValueError("the windows of the returns have the wrong shape or type")
        full = 2.0 ** np.arange(N_WINDOWS)
        n = windows[:, 0]
        if not np.isfinite(windows).all() or (n < 0).any() or (n > full).any():
            raise ValueError("the windows of the returns are invalid")
        self.windows = windows.copy()
