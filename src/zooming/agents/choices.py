"""The choice between the agents of a portfolio: a bandit on the returns of the episodes played."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.validation import Floats

# docs/research.md has the experiments behind these constants.
BLOCK = 0.05  # share of the episodes so far that the chosen agent plays before the next choice
FORCED = 0.3  # every agent has at least this number times the root of the episodes
WIDTH = 0.3  # square of the confidence interval, in log(episodes) variances / plays


class Choice:
    """Statistics of the agents' returns; who plays next, and who is recommended.

    Attributes
    ----------
    numbers : array [n_agents, 3]
        Episodes played, mean return, and variance of the returns of each agent.
    """

    def __init__(self, n_agents: int) -> None:
        self.numbers: Floats = np.zeros((n_agents, 3))

    def next(self, n_episodes: int) -> tuple[int, int]:
        """Return who plays next, and how many episodes.

        An agent with too few plays makes up for them. Otherwise the largest index plays a block.
        """
        plays = self.numbers[:, 0]
        least, wanted = int(plays.argmin()), FORCED * math.sqrt(n_episodes + 1.0)
        if plays[least] < wanted:
            return least, math.ceil(wanted - plays[least])
        return int(self.indices(n_episodes).argmax()), max(1, int(BLOCK * n_episodes))

    def indices(self, n_episodes: int) -> Floats:
        """Return mean return + sqrt(WIDTH log(episodes) variance / plays) of each agent."""
        plays, mean, variance = self.numbers.T
        width = WIDTH * math.log(n_episodes + 2.0) * variance / np.maximum(1.0, plays)
        found: Floats = mean + np.sqrt(width)
        return found

    def credit(self, agent: int, returns: list[float]) -> None:
        """Add the returns of episodes to the statistics of the agent that played them."""
        plays, mean, variance = self.numbers[agent].tolist()
        for return_ in returns:
            plays += 1.0
            share, away = 1.0 / plays, return_ - mean
            mean += share * away
            variance = (1.0 - share) * (variance + share * away * away)
        self.numbers[agent] = plays, mean, variance

    def recommended(self) -> int:
        """Return the first agent, or the one that exceeds it most if any does so clearly.

        Clearly is by more than the standard error of the difference of the mean returns.
        """
        plays, mean, variance = self.numbers.T
        error = np.sqrt(variance[0] / max(1.0, plays[0]) + variance / np.maximum(1.0, plays))
        lead = np.where((plays > 1) & (plays[0] > 0), mean - mean[0] - error, -np.inf)
        lead[0] = 0.0
        return int(lead.argmax())

    # --- words ------------------------------------------------------------------------------------

    def words(self, agent: int) -> str:
        """Return what an agent has played and earned, in words."""
        plays, mean, variance = self.numbers[agent].tolist()
        if not plays:
            return "has not played"
        error = math.sqrt(variance / plays)
        return f"played {int(plays):,}, mean return {mean:.4g} ± {error:.2g}"

    def reason(self, player: int, names: list[str]) -> str:
        """Return why an agent plays, in words."""
        plays, mean, _ = self.numbers.T
        if len(plays) == 1:
            return "it is the only agent so far"
        if plays[player] < FORCED * math.sqrt(plays.sum() + 1.0) + 1.0:
            return "every agent is tried now and then, and it had the fewest episodes"
        played = np.where(plays > 0, mean, -np.inf)
        if int(played.argmax()) == player:
            return "it has the highest mean return"
        best = names[int(played.argmax())]
        return f"its mean return may be above that of {best}: it has played less, or less evenly"

    # --- files ------------------------------------------------------------------------------------

    def restore(self, numbers: NDArray[Any]) -> None:
        """Take back `numbers`; ValueError if they are invalid."""
        if numbers.dtype != np.float64 or numbers.shape != self.numbers.shape:
            raise ValueError("the statistics of the agents have another form")
        if not np.isfinite(numbers).all() or (numbers[:, [0, 2]] < 0).any():
            raise ValueError("the statistics of an agent are invalid")
        self.numbers = numbers.copy()
