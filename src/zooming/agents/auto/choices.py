"""The choice between the agents of a portfolio, by the returns of the episodes played."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.auto.constants import BLOCK, FORCED, MOST_BLOCK
from zooming.agents.auto.trend import N_WINDOWS, Trend
from zooming.agents.base.status import plain, plus_minus
from zooming.validation import Floats


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
    """

    def __init__(self, n_agents: int) -> None:
        self.windows: Floats = np.zeros((n_agents, N_WINDOWS, 3))

    @property
    def plays(self) -> list[int]:
        """Number of episodes that each agent has played."""
        return [int(n) for n in self.windows[:, :, 0].sum(axis=1)]

    def next(self, leader: int) -> tuple[int, int]:
        """Return (agent that plays next, number of episodes).

        If some agents have too few episodes, the agent that lacks most plays what it lacks.
        Otherwise the leader plays a block.
        """
        plays = self.plays
        n_episodes, least = sum(plays), min(plays)
        wanted = FORCED * math.sqrt(n_episodes + 1.0)
        if least < wanted:
            return plays.index(least), math.ceil(wanted - least)
        return leader, min(MOST_BLOCK, max(1, int(BLOCK * n_episodes)))

    def leader(self, n_agents: int | None = None) -> int:
        """Return the agent with the largest lead; the first agent if no lead is positive.

        By default all agents are compared, otherwise the first `n_agents`.
        """
        means = [self.late(k) for k in range(len(self.windows))][:n_agents]
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
        """Return which of the first `n_agents` has the highest mean return plus standard error."""
        means = [self.late(k) for k in range(n_agents)]
        hopes = [math.inf if one is None else sum(one) for one in means]
        return hopes.index(max(hopes))

    def late(self, agent: int) -> tuple[float, float] | None:
        """Return (mean, standard error) of the last half of an agent's returns, None if few."""
        return Trend(self.windows[agent]).late()

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

    def restore(self, windows: NDArray[Any]) -> None:
        """Restore saved `windows`. Raise ValueError if they are invalid."""
        if windows.dtype != np.float64 or windows.shape != self.windows.shape:
            raise ValueError("the statistics of the agents have the wrong shape or type")
        for one in windows:
            Trend().restore(one)
        self.windows = windows.copy()
