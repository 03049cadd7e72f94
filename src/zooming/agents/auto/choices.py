"""The choice between the agents of a portfolio: a bandit on the returns of the episodes played."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.status import plain, plus_minus
from zooming.validation import Floats

# docs/lab/research.md says what the experiments behind these constants taught.
BLOCK = 0.05  # share of the episodes so far that the chosen agent plays before the next choice
FORCED = 0.3  # every agent plays at least FORCED sqrt(episodes) episodes
FIRST = 0.5  # the first agent at least FIRST sqrt(episodes): it is stuck less often than others
WORSE, SPARED = 3.0, 1 / 3  # others, if worse by WORSE standard errors: SPARED times as many
LEAST_PLAYS = 5  # plays before an agent is judged to be worse
LATE = 3.0  # the j-th return of an agent has a weight proportional to j^(LATE - 1): agents improve
PRIOR = 3.0  # `prior` of `leads` for a recommendation


class Choice:
    """Choose by the agents' returns who plays next, and whose policy is recommended.

    Late returns have more weight than early ones. The first agent is preferred, unless another one
    leads clearly.

    Parameters
    ----------
    n_agents : int
        Number of agents.
    doubt : float, default 0.0
        Standard deviations of a return by which another agent must be better than the first.

    Attributes
    ----------
    numbers : array [n_agents, 3]
        Episodes played, weighted mean of the returns, and their variance, of each agent.
    """

    def __init__(self, n_agents: int, doubt: float = 0.0) -> None:
        self.numbers: Floats = np.zeros((n_agents, 3))
        self.doubt = doubt

    def next(self, n_episodes: int) -> tuple[int, int]:
        """Return (agent that plays next, number of episodes).

        If some agents have too few episodes, the agent that lacks most plays what it lacks.
        Otherwise the agent with the largest lead plays a block.
        """
        plays = self.numbers[:, 0].tolist()
        missing = [w - n for w, n in zip(self._wanted(n_episodes), plays, strict=True)]
        needy = missing.index(max(missing))
        if missing[needy] > 0.0:
            return needy, math.ceil(missing[needy])
        return self.leader(), max(1, int(BLOCK * n_episodes))

    def _wanted(self, n_episodes: float) -> list[float]:
        """Return the least number of plays of each agent after `n_episodes`."""
        root = math.sqrt(n_episodes + 1.0)
        wanted = [FORCED * (SPARED if worse else 1.0) * root for worse in self._are_worse()]
        return [FIRST * root, *wanted[1:]]

    def _are_worse(self) -> list[bool]:
        """Return, for each agent, whether its returns are clearly lower than the best agent's."""
        judged = [(mean, square) for plays, mean, square in self._errors() if plays >= LEAST_PLAYS]
        if not judged:
            return [False] * len(self.numbers)
        best, best_square = max(judged, key=lambda one: one[0])
        slack = 1e-9 * (1.0 + abs(best))  # rounding is no difference
        return [
            plays >= LEAST_PLAYS and mean + WORSE * math.sqrt(square + best_square) + slack < best
            for plays, mean, square in self._errors()
        ]

    def _errors(self) -> list[tuple[float, float, float]]:
        """Return (plays, mean return, its squared standard error) of each agent."""
        return [
            (plays, mean, variance / _equal_weights(plays))
            for plays, mean, variance in self.numbers.tolist()
        ]

    def leads(self, prior: float = 0.0) -> list[float]:
        """Return the lead of each agent over the first one, whose own lead is 0.

        The lead is the difference of the mean returns minus a margin. The margin is the standard
        error of the difference, or `doubt` standard deviations of a return if that is more. The
        variance of each agent is estimated as if it had `prior` more plays with the variance of the
        first agent.
        """
        rows = self.numbers.tolist()  # a few numbers: NumPy would take ten times as long
        first_plays, first_mean, first_variance = rows[0]
        first_square = first_variance / _equal_weights(first_plays)
        found = [0.0]
        for plays, mean, variance in rows[1:]:
            if plays <= 1.0 or first_plays <= 0.0:
                found.append(-math.inf)
                continue
            n = _equal_weights(plays)
            spread = (n * variance + prior * first_variance) / (n + prior)
            error = math.sqrt(spread / n + first_square)
            found.append(mean - first_mean - max(error, self.doubt * math.sqrt(spread)))
        return found

    def leader(self, prior: float = 0.0) -> int:
        """Return the agent with the largest lead; the first agent if no lead is positive."""
        leads = self.leads(prior)
        return leads.index(max(leads))

    def credit(self, agent: int, returns: list[float]) -> None:
        """Add the returns of episodes to the statistics of the agent that played them."""
        plays, mean, variance = self.numbers[agent].tolist()
        for return_ in returns:
            plays += 1.0
            share, away = min(1.0, LATE / plays), return_ - mean
            mean += share * away
            variance = (1.0 - share) * (variance + share * away * away)
        self.numbers[agent] = plays, mean, variance

    def forget(self, agent: int) -> None:
        """Forget the returns of an agent, because another one takes its place."""
        self.numbers[agent] = 0.0

    def shorten(self, agent: int, plays: int) -> None:
        """Let the returns of an agent count as at most `plays` episodes.

        Their mean stays, but new returns change it faster, and the agent is forced to play sooner.
        """
        self.numbers[agent, 0] = min(self.numbers[agent, 0], plays)

    def recommend(self) -> int:
        """Return the agent whose policy is recommended: the leader, if few plays count less."""
        return self.leader(PRIOR)

    def expected(self, agent: int) -> tuple[float, float] | None:
        """Return (mean return, standard error) of an agent; None after few episodes."""
        plays, mean, square = self._errors()[agent]
        return None if plays <= LATE else (mean, math.sqrt(square))

    # --- words ------------------------------------------------------------------------------------

    def words(self, agent: int) -> str:
        """Return what an agent has played and earned, in words."""
        plays, mean, variance = self.numbers[agent].tolist()
        if not plays:
            return "has not played"
        if plays <= LATE:
            return f"played {int(plays):,}, last return {plain(mean)}"
        error = math.sqrt(variance / _equal_weights(plays))
        return f"played {int(plays):,}, mean return {plus_minus(mean, error)}"

    def reason(self, player: int, names: list[str]) -> str:
        """Return why an agent plays, in words."""
        plays, mean, _ = self.numbers.T
        if len(plays) == 1:
            return "it is the only agent so far"
        if plays[player] < self._wanted(plays.sum())[player] + 1.0:
            return "every agent is tried now and then, and it had too few episodes"
        played = np.where(plays > 0, mean, -np.inf)
        if int(played.argmax()) == player:
            return "it has the highest mean return, with more weight on late episodes"
        best = names[int(played.argmax())]
        return f"it plays in doubt: the mean return of {best} is not clearly higher"

    # --- files ------------------------------------------------------------------------------------

    def restore(self, numbers: NDArray[Any]) -> None:
        """Restore saved `numbers`. Raise ValueError if they are invalid."""
        if numbers.dtype != np.float64 or numbers.shape != self.numbers.shape:
            raise ValueError("the statistics of the agents have the wrong shape or type")
        if not np.isfinite(numbers).all() or (numbers[:, [0, 2]] < 0).any():
            raise ValueError("the statistics of an agent are invalid")
        self.numbers = numbers.copy()


def _equal_weights(plays: float) -> float:
    """Return how many equally weighted returns have a mean of the same variance."""
    return max(1.0, plays * (2.0 * LATE - 1.0) / LATE**2)
