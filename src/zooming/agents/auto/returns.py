"""Statistics of the returns of agents: who leads, whether they rise, whether they have fallen.

Window i has the episodes 2^i to 2^(i+1) - 1, counted from 1. Each window keeps number, mean and
variance of its returns, so memory does not grow with the episodes.

`fall` compares returns before and after by their ranks, so neither their scale nor a few extreme
ones matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.auto.constants import BLOCK, DOUBTFUL, FORCED, LEAST_RECALLS, MOST_BLOCK
from zooming.agents.base.status import plain, plus_minus
from zooming.kernels.plans.layout import CLEAR
from zooming.validation import LARGEST_REWARD, Floats

N_WINDOWS = 64
LEAST = 8  # episodes of a window from which its mean is used
STUCK = (  # warning if the returns have not improved
    "the mean return of the last half is not above that of episodes 8 to 31: nothing was "
    "learned, or there is nothing to learn"
)


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
        return None if self.n_episodes < 2 else self._pool(self._late_windows())

    @property
    def n_late(self) -> int:
        """Number of the returns that `late` pools."""
        return int(self.windows[self._late_windows(), 0].sum())

    def _late_windows(self) -> list[int]:
        """Return the indices of the windows with the last half of at least two returns."""
        last = self.n_episodes.bit_length() - 1
        is_short = self.windows[last, 0] < 2 ** (last - 1)
        return [last - 1, last] if is_short else [last]

    def has_improved(self) -> bool:
        """Return whether late returns exceed those of episodes 8 to 31.

        Return True if there are too few episodes to tell.
        """
        used, latest = self._long_windows(), self.late()
        return len(used) < 4 or latest is None or latest[0] > self.early()

    def early(self) -> float:
        """Return the mean of the first returns, those of episodes 8 to 31."""
        return self._pool(self._long_windows()[:2])[0]

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
        full, largest = 2.0 ** np.arange(N_WINDOWS), LARGEST_REWARD ** np.array([1.0, 1.5, 2.5])
        is_few = (windows[:, 0] <= full).all()
        if not is_few or not (np.abs(windows) < largest).all() or windows[:, ::2].min() < 0.0:
            raise ValueError("the windows of the returns are invalid")
        self.windows = windows.copy()


class Choice:
    """Choose by the agents' returns who plays next.

    The mean return of an agent is that of the last half of its episodes. The first agent leads,
    unless the mean of another one is higher by more than the standard error of the difference.

    Parameters
    ----------
    n_agents : int
        Number of agents.

    Attributes
    ----------
    windows : array [n_agents, N_WINDOWS, 3]
        The `Trend.windows` of each agent.
    begun : array [n_agents]
        Number of episodes that each agent has begun by `Agent.begin`, with those that it had played
        before. Fewer than `plays` if all of them have ended.
    """

    def __init__(self, n_agents: int) -> None:
        self.windows: Floats = np.zeros((n_agents, N_WINDOWS, 3))
        self.begun: NDArray[np.int64] = np.zeros(n_agents, np.int64)

    @property
    def plays(self) -> list[int]:
        """Number of episodes that each agent has played."""
        return [int(n) for n in self.windows[:, :, 0].sum(axis=1)]

    def next(self, leader: int, free: int | None = None) -> tuple[int, int]:
        """Return (agent that plays next, number of episodes).

        If some agents have too few episodes, the agent that lacks most plays what it lacks. Agent
        `free` never lacks any. Otherwise the leader plays a block. Episodes that have begun count,
        so that not all of those that begin before the first return are played by the same agent.
        """
        plays = [max(*pair) for pair in zip(self.plays, self.begun.tolist(), strict=True)]
        n_episodes = sum(plays)
        wanted = FORCED * math.sqrt(n_episodes + 1.0)
        last = min((k for k in range(len(plays)) if k != free), key=plays.__getitem__)
        if plays[last] < wanted:
            return last, math.ceil(wanted - plays[last])
        return leader, min(MOST_BLOCK, max(1, int(BLOCK * n_episodes)))

    def leader(self) -> int:
        """Return the agent with the largest lead; the first agent if no lead is positive."""
        means = [self.late(k) for k in range(len(self.windows))]
        if means[0] is None:
            return 0
        mean, error = means[0]
        leads = [
            -math.inf if one is None else one[0] - mean - math.hypot(one[1], error)
            for one in means[1:]
        ]
        best = max(leads, default=-math.inf)
        return 1 + leads.index(best) if best > 0.0 else 0

    def hope(self, n_agents: int) -> int:
        """Return which of the first `n_agents` has the highest mean + CLEAR standard errors.

        Few returns may be alike by chance, so each agent's spread is at least that of the first.
        """
        hopes, least = [math.inf] * n_agents, 0.0
        for k in range(n_agents):
            late = self.late(k)
            if late is None:
                continue
            root = math.sqrt(Trend(self.windows[k]).n_late)
            spread = max(least, late[1] * root)
            hopes[k] = late[0] + CLEAR * spread / root
            if k == 0:
                least = spread
        return hopes.index(max(hopes))

    def late(self, agent: int) -> tuple[float, float] | None:
        """Return (mean, standard error) of the last half of an agent's returns, None if few."""
        return Trend(self.windows[agent]).late()

    def begin(self, agent: int) -> None:
        """Count an episode that an agent begins; its return comes later."""
        self.begun[agent] = max(self.plays[agent], int(self.begun[agent])) + 1

    def abandon(self, agent: int) -> None:
        """Take back an episode that an agent began, because it will have no return."""
        self.begun[agent] = max(self.plays[agent], int(self.begun[agent]) - 1)

    def credit(self, agent: int, returns: list[float]) -> None:
        """Add the returns of episodes to the statistics of the agent that played them."""
        Trend(self.windows[agent]).add(returns)

    # --- words ------------------------------------------------------------------------------------

    def words(self, agent: int) -> str:
        """Return what an agent has played and earned, in words."""
        n, found = self.plays[agent], self.late(agent)
        if not n:
            return "has not played"
        if found is None:
            return f"played {n:,}, last return {plain(float(self.windows[agent, 0, 1]))}"
        return f"played {n:,}, mean return of the last half {plus_minus(*found)}"

    def reason(self, player: int, leader: int, names: list[str]) -> str:
        """Return why an agent plays, in words."""
        if len(names) == 1:
            return "it is the only agent so far"
        if player != leader:
            return "every agent is tried now and then, and it had too few episodes"
        found = [self.late(k) for k in range(len(names))]
        means = [-math.inf if one is None else one[0] for one in found]
        best = means.index(max(means))
        if best == player:
            return "it has the highest mean return over the last half of its episodes"
        return f"it plays in doubt: the mean return of {names[best]} is not clearly higher"

    # --- files ------------------------------------------------------------------------------------

    def restore(self, windows: NDArray[Any], begun: NDArray[Any]) -> None:
        """Restore saved `windows` and `begun`. Raise ValueError if they are invalid."""
        if windows.dtype != np.float64 or windows.shape != self.windows.shape:
            raise ValueError("the statistics of the agents have the wrong shape or type")
        if begun.dtype != np.int64 or begun.shape != self.begun.shape or (begun < 0).any():
            raise ValueError("the numbers of episodes begun are invalid")
        for one in windows:
            Trend().restore(one)
        self.windows, self.begun = windows.copy(), begun.copy()


def fall(before: Floats, after: Floats) -> float:
    """Return by how many standard deviations the ranks of `after` are lower: Mann and Whitney's U.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=60)
    >>> round(fall(noise[:40], noise[40:]), 1), round(fall(noise[:40], noise[40:] - 2.0), 1)
    (-1.6, 4.8)
    """
    n, m = len(before), len(after)
    together = np.concatenate([before, after])
    _, place, ties = np.unique(together, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - 0.5 * (ties - 1.0))[place]
    pairs = float(ranks[:n].sum()) - 0.5 * n * (n + 1.0)  # with a higher return before
    tied = float((ties**3 - ties).sum()) / (n + m)
    variance = n * m * ((n + m) ** 2 - 1.0 - tied) / (12.0 * (n + m - 1.0))
    return (pairs - 0.5 * n * m) / math.sqrt(variance) if variance > 0.0 else 0.0


def seems_fallen(returns: Floats) -> bool:
    """Return whether the last m returns seem lower than the 4 m before, for an m = 16, 32, ..."""
    n, m = len(returns), LEAST_RECALLS
    while 2 * m <= n:
        if fall(returns[max(0, n - 5 * m) : n - m], returns[n - m :]) > DOUBTFUL:
            return True
        m *= 2
    return False
