"""Follow how the returns of a run develop, in memory that does not grow with the episodes.

Window i has the episodes 2^i to 2^(i+1) - 1, counted from 1. Each window keeps number, mean and
variance of its returns. The curve a - c / k is fitted to the last three windows and extrapolated.
On twelve problems of `benchmarks/problem_sets.py`, two seeds, 100 to 2,000 episodes, returns rose
by half of what this curve predicted (median). They rose by a third to a fifth of what a - c /
sqrt(k) predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.agent import Agent
from zooming.agents.base.status import plain, plus_minus
from zooming.agents.planner.planner import Planner
from zooming.validation import ANY_REWARD


def ceiling(
    reward_range: tuple[float, float], horizon: int, agents: Sequence[Agent], reached: float
) -> float:
    """Return an estimate of the highest possible mean return, infinity if nothing is known.

    It is the return with the highest reward at every step, or the optimistic value of a planner if
    that is lower. A planner rounds off narrow peaks. Therefore an optimistic value that is not
    above `reached`, the mean return reached so far, is ignored.
    """
    highest = float("inf") if reward_range == ANY_REWARD else reward_range[1]
    found = [max(highest, horizon * highest)]  # an episode may end after one step
    planners = [agent for agent in agents if isinstance(agent, Planner)]
    found += [value for value in map(optimistic_value, planners) if value > reached]
    return float(min(found))


def optimistic_value(planner: Planner) -> float:
    """Return the planner's mean value of the start states, plus a bonus for its uncertainty.

    The bonus is the square root of the sum, over the steps, of the squared mean bonus of a step.
    Squares are added because the errors of different steps are nearly independent.
    """
    table = planner.table
    mean, bonus = table.start_value(table.grid, table.plan, int(table.core["n_planned"][0]))
    return mean + bonus


N_WINDOWS = 64
LEAST = 8  # episodes of a window from which its mean is used
FITTED = 3  # windows to which the law is fitted
VISIBLE = 2.0  # standard errors by which c must exceed 0
STUCK = (  # warning if the returns have not improved
    "the mean return of the last half is not above that of episodes 8 to 31: nothing was "
    "learned, or there is nothing to learn"
)


class Gain(NamedTuple):
    """An estimate of how much the mean return may still rise."""

    rise: float  # at least 0
    error: float  # its standard error
    is_visible: bool  # whether the rise, so far and in future, exceeds the noise
    is_capped: bool  # whether the fitted curve predicted more than is possible

    def words(self) -> str:
        """Return the gain as text.

        Examples
        --------
        >>> Gain(0.25, 0.1, True, False).words()
        '+0.25 ± 0.10'
        """
        if not self.is_visible:
            return f"no visible trend, {plus_minus(0.0, self.error).split(' ', 1)[1]}"
        if self.is_capped:
            return f"up to +{plain(self.rise)}, the most that seems possible"
        return f"+{plus_minus(self.rise, self.error)}"


class Trend:
    """Statistics of the returns in windows of growing length."""

    def __init__(self, windows: NDArray[np.float64] | None = None) -> None:
        empty = np.zeros((N_WINDOWS, 3))  # number, mean, variance
        self.windows: NDArray[np.float64] = empty if windows is None else windows

    @property
    def n_episodes(self) -> int:
        """Number of episodes added."""
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

    def late(self) -> tuple[float, float] | None:
        """Return (mean, standard error) of the last half of the returns; None of one return.

        More exactly, of the last half to three quarters.
        """
        n = self.n_episodes
        if n < 2:
            return None
        last = n.bit_length() - 1
        is_short = self.windows[last, 0] < 2 ** (last - 1)
        return self._pool([last - 1, last] if is_short else [last])

    def expected_gain(self, n_more: int, ceiling: float = math.inf) -> Gain | None:
        """Estimate how much more the next `n_more` episodes return than the last half so far.

        The curve a - c / k is fitted by least squares to the means of the last three windows, each
        weighted by its number of episodes. The variance of a return is estimated in two ways:
        within the windows, and from the residuals of the fit. The larger estimate is used. The
        predicted mean return is at most `ceiling`. Return None if there are too few episodes.
        """
        used, latest = self._long_windows()[-FITTED:], self.late()
        if len(used) < FITTED or latest is None:
            return None
        n, mean, variance = self.windows[used].T
        first, k = 2.0 ** np.array(used), float(self.n_episodes)
        x = np.log1p(n / first) / n  # the mean of 1 / k over the episodes of a window
        total = n.sum()
        middle, height = (n * x).sum() / total, (n * mean).sum() / total
        spread = (n * (x - middle) ** 2).sum()
        slope = (n * (x - middle) * (mean - height)).sum() / spread
        left = (n * (mean - height - slope * (x - middle)) ** 2).sum()  # with one degree of freedom
        noise = max(float((n * variance).sum() / total), float(left))
        away = math.log1p(n_more / k) / n_more - middle
        hoped = float(height + slope * away)
        error = math.sqrt(noise * (1.0 / total + away**2 / spread))
        is_steep = bool(-slope > VISIBLE * math.sqrt(noise / spread))
        return Gain(
            rise=max(0.0, min(hoped, ceiling) - latest[0]),
            error=error,
            is_visible=is_steep and hoped - latest[0] > error,
            is_capped=hoped > ceiling,
        )

    def has_improved(self) -> bool:
        """Return whether late returns exceed those of episodes 8 to 31.

        Return True if there are too few episodes to tell.
        """
        used, latest = self._long_windows(), self.late()
        if len(used) < 4 or latest is None:
            return True
        return latest[0] > self._pool(used[:2])[0]

    def _long_windows(self) -> list[int]:
        """Return the indices of the windows with enough episodes."""
        return [int(i) for i in np.flatnonzero(self.windows[:, 0] >= LEAST)]

    def _pool(self, windows: list[int]) -> tuple[float, float]:
        """Return (mean, standard error) of the returns of some windows, pooled."""
        n, mean, variance = self.windows[windows].T
        total = float(n.sum())
        middle = float((n * mean).sum()) / total
        spread = float((n * (variance + (mean - middle) ** 2)).sum()) / total
        return middle, math.sqrt(spread / total)

    def restore(self, windows: NDArray[Any]) -> None:
        """Restore saved `windows`. Raise ValueError if they are invalid."""
        if windows.dtype != np.float64 or windows.shape != self.windows.shape:
            raise ValueError("the windows of the returns have the wrong shape or type")
        full = 2.0 ** np.arange(N_WINDOWS)
        n = windows[:, 0]
        if not np.isfinite(windows).all() or (n < 0).any() or (n > full).any():
            raise ValueError("the windows of the returns are invalid")
        self.windows = windows.copy()
