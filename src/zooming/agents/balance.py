"""Regret balancing: free agents play as long as they cost no more than a proved bound allows.

The agent with the bound is the safe agent. All others are free agents. `docs/guarantee.md` has the
theorem and its proof. This file uses the lemma numbers of that page.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from zooming import theory
from zooming.bonuses import number_of_phase

FREE, SAFE = range(2)
SHARE = 0.5  # of delta, for the safe agent's own bound; Lemmas 1 and 2 have a quarter each


def doubling_bound(
    horizon: int, dimension: int, delta: float, lipschitz: float
) -> Callable[[int], float]:
    """Return a function R(n) that bounds the regret of `Doubling(Theory(delta))` after n episodes.

    R(n) is the sum of `theory.regret_bound` over the phases begun so far, for rewards that span 1.

    Examples
    --------
    >>> bound = doubling_bound(horizon=5, dimension=2, delta=0.025, lipschitz=1.0)
    >>> bound(0), bound(4) == bound(7), bound(7) < bound(8)
    (0.0, True, True)
    """

    @functools.cache
    def of_phases(n_phases: int) -> float:
        if n_phases == 0:
            return 0.0
        j = n_phases - 1
        share = delta / ((j + 1) * (j + 2))
        own = theory.regret_bound(horizon, 2**j, dimension, delta=share, lipschitz=lipschitz)
        return of_phases(j) + own

    return lambda n: of_phases(number_of_phase(n) + 1) if n else 0.0


class RegretBalance:
    """Decide who plays next: the free agents or the safe agent.

    Parameters
    ----------
    delta : float
        The probability with which the guarantee may fail.
    horizon : int
        The number of steps H of an episode.
    reward_range : pair of floats
        The least and the largest reward of a step.
    bound : function of int
        R(n): the regret of the safe agent after n episodes of its own is at most R(n) times the
        span of the rewards. R must not decrease.

    Examples
    --------
    >>> balance = RegretBalance(0.05, 5, (0.0, 1.0), bound=lambda n: 2.0 * n)
    >>> balance.n_allowed()  # the free agents begin
    1
    >>> balance.credit(FREE, [4.0])
    >>> balance.estimated_cost(), balance.n_allowed()  # 1 above R(0) = 0: the safe agent's turn
    (1.0, 0)
    >>> balance.credit(SAFE, [1.0])
    >>> balance.n_allowed()  # R(1) + beta(1) is 17.9
    4
    """

    def __init__(
        self,
        delta: float,
        horizon: int,
        reward_range: tuple[float, float],
        bound: Callable[[int], float],
    ) -> None:
        low, high = reward_range
        self.delta, self.bound = delta, bound
        self.span = high - low
        self.width = horizon * self.span  # width of the range of returns
        self.best = horizon * high  # largest possible return
        self.n_played = np.zeros(2, np.int64)  # episodes of FREE and SAFE
        self.totals = np.zeros(2)  # sums of their returns

    def credit(self, who: int, returns: Iterable[float]) -> None:
        """Add the returns of episodes played by one side. `who` is FREE or SAFE."""
        for return_ in returns:
            self.n_played[who] += 1
            self.totals[who] += return_

    def deviation(self, n: int) -> float:
        """Return beta(n), a bound on how far the sum of n returns is from its expectation.

        The bound on each side holds for all n together with probability 1 - delta/4.
        """
        if n == 0:
            return 0.0
        return self.width * math.sqrt(2 * n * math.log(4 * n * (n + 1) / self.delta))

    def allowed_cost(self) -> float:
        """Return R(n) + beta(n) for the n episodes of the safe agent, in units of the reward."""
        n = int(self.n_played[SAFE])
        return self.span * self.bound(n) + self.deviation(n)

    def upper_value(self) -> float:
        """Return U, an upper confidence bound of the optimal value (Lemma 1)."""
        n = int(self.n_played[SAFE])
        if n == 0:
            return self.best
        return min(self.best, (float(self.totals[SAFE]) + self.allowed_cost()) / n)

    def estimated_cost(self) -> float:
        """Return m U - S for the m episodes of the free agents, whose returns sum to S.

        Up to beta(m), it is an upper bound of their regret (Lemma 2).
        """
        return float(self.n_played[FREE] * self.upper_value() - self.totals[FREE])

    def n_allowed(self) -> int:
        """Return how many episodes the free agents may play next, 0 if the safe agent must play.

        The free agents may begin an episode while their estimated cost is at most the allowed cost.
        Each episode adds at most `width` to the estimated cost.
        """
        room = self.allowed_cost() - self.estimated_cost()
        return 0 if room < 0 else 1 + int(min(room / self.width, 1e9))

    def regret_bound(self) -> float:
        """Return the bound on the regret of all episodes so far: 2 R(n) + H + beta(n) + beta(m)."""
        n_free, n_safe = (int(n) for n in self.n_played)
        own = self.span * self.bound(n_safe)
        return own + self.allowed_cost() + self.width + self.deviation(n_free)

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays to save, by name."""
        return {"balance_played": self.n_played, "balance_totals": self.totals}

    def restore(self, arrays: dict[str, NDArray[np.generic]]) -> None:
        """Restore the arrays of `state`. Raise ValueError if they are invalid."""
        played, totals = arrays["balance_played"], arrays["balance_totals"]
        if played.dtype != np.int64 or played.shape != (2,) or (played < 0).any():  # type: ignore[operator]
            raise ValueError("the episodes of the guarantee are invalid")
        if totals.dtype != np.float64 or totals.shape != (2,) or not np.isfinite(totals).all():
            raise ValueError("the returns of the guarantee are invalid")
        self.n_played, self.totals = played.copy(), totals.copy()  # type: ignore[assignment]
