"""The choice between the agents of a portfolio: a bandit on the returns of the episodes played."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 0.05  # share of the episodes so far that the chosen agent plays before the next choice
FORCED = 0.3  # every agent has at least this number times the root of the episodes
WIDTH = 0.3  # of the confidence interval, in log(episodes) variances / plays


class Choice:
    """Statistics of the agents' returns, and who plays next.

    Attributes
    ----------
    numbers : array [n_agents, 3]
        Episodes played, mean return, and variance of the returns of each agent.
    """

    def __init__(self, n_agents: int) -> None:
        self.numbers: NDArray[np.float64] = np.zeros((n_agents, 3))

    def next(self, n_episodes: int) -> tuple[int, int]:
        """Return who plays next, and how many episodes."""
        plays = self.numbers[:, 0]
        block = max(1, int(BLOCK * n_episodes))
        least = int(plays.argmin())
        if plays[least] < FORCED * math.sqrt(n_episodes + 1.0):
            return least, block
        return int(self.indices(n_episodes).argmax()), block

    def indices(self, n_episodes: int) -> NDArray[np.float64]:
        plays, mean, variance = self.numbers.T
        width = WIDTH * math.log(n_episodes + 2.0) * variance / np.maximum(1.0, plays)
        found: NDArray[np.float64] = mean + np.sqrt(width)
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
        """Return the agent with the highest mean return; the first one before any play."""
        plays, mean, _ = self.numbers.T
        return int(np.where(plays > 0, mean, -np.inf).argmax()) if plays.any() else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the statistics."""
        return int(self.numbers.nbytes)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the statistics."""
        return {"numbers": self.numbers}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `state` returned; ValueError if it is invalid."""
        numbers = arrays["numbers"]
        if numbers.dtype != np.float64 or numbers.shape != self.numbers.shape:
            raise ValueError("the statistics of the agents have another form")
        if not np.isfinite(numbers).all() or (numbers[:, [0, 2]] < 0).any():
            raise ValueError("the statistics of an agent are invalid")
        self.numbers = numbers.copy()
