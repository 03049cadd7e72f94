"""A guarantee for a portfolio: the safe agent, and the rule that decides when it plays."""

from __future__ import annotations

from typing import Any

from zooming.agents import seeds
from zooming.agents.adaptive_q import AdaptiveQ
from zooming.agents.agent import Agent
from zooming.agents.balance import SHARE, RegretBalance, doubling_bound
from zooming.agents.planner import ANY_REWARD
from zooming.bonuses import Doubling, Theory
from zooming.errors import ConfigurationError
from zooming.spaces.flatten import CATEGORICAL
from zooming.validation import check_float


class Guarantee:
    """Hold the safe agent of a portfolio, and the balance that decides who plays.

    Parameters
    ----------
    portfolio : Agent
        The portfolio; its range of rewards, horizon, axes and seed are used.
    delta : float
        The probability with which the guarantee may fail, between 0 and 1.
    lipschitz : float
        Lipschitz constant of Q*, for rewards and axes scaled to [0, 1].

    Raises
    ------
    ConfigurationError
        If the range of the rewards is not known, rewards are clipped, an axis has categories
        without an order, or a number is out of range.
    """

    def __init__(self, portfolio: Agent, delta: float, lipschitz: float) -> None:
        delta = check_float(delta, "guarantee", 0.0, 1.0)
        if not 0 < delta < 1:
            raise ConfigurationError(
                f"guarantee={delta}: give the probability with which it may fail, between 0 and 1, "
                "for example 0.05"
            )
        lipschitz = check_float(lipschitz, "lipschitz", 0.0, float("inf"))
        if portfolio.reward_range == ANY_REWARD or portfolio.rewards != "refuse":
            raise ConfigurationError(
                "guarantee= needs the range of the rewards: give reward_range=(low, high), and "
                'leave rewards="refuse" as it is'
            )
        loose = [
            name
            for name, kind in zip(portfolio.axes.names, portfolio.axes.kinds, strict=True)
            if kind == CATEGORICAL
        ]
        if loose:
            raise ConfigurationError(
                f"guarantee= needs ordered axes, but {', '.join(loose)} has categories; give "
                "ordered=True if neighboring values are similar"
            )
        share = SHARE * delta
        low, high = portfolio.reward_range
        extended = min(low, 0.0), max(high, 0.0)  # an episode that ends early earns 0 from there on
        options = {**portfolio.problem.options, "reward_range": extended}
        bonus = Doubling(Theory(delta=share, lipschitz=lipschitz))
        seed = seeds.derive_seed(portfolio.seed, "safe")
        self.delta, self.lipschitz = delta, lipschitz
        self.agent = AdaptiveQ(portfolio.env, bonus=bonus, seed=seed, **options)
        bound = doubling_bound(portfolio.horizon, len(portfolio.axes), share, lipschitz)
        self.balance = RegretBalance(delta, portfolio.horizon, extended, bound)

    def words(self) -> str:
        """Return a sentence on the regret bound that is guaranteed after the episodes so far."""
        n_free, n_safe = (int(n) for n in self.balance.n_played)
        bound, worst = self.balance.regret_bound(), self.balance.width * (n_free + n_safe)
        empty = "; it says nothing yet, since no policy can lose more than" if bound > worst else ""
        return (
            f"with probability {1 - self.delta:g}, the regret is at most {bound:.3g}"
            f"{f'{empty} {worst:.3g}' if empty else ''}; the safe agent played {n_safe:,}"
        )

    def options(self) -> dict[str, Any]:
        """Return the options of `Portfolio` that rebuild this guarantee."""
        return {"guarantee": self.delta, "lipschitz": self.lipschitz}


def make_guarantee(portfolio: Agent, delta: float | None, lipschitz: float) -> Guarantee | None:
    """Return the guarantee of a portfolio, or None if `delta` is None."""
    if delta is not None:
        return Guarantee(portfolio, delta, lipschitz)
    if lipschitz != 1.0:
        raise ConfigurationError(
            f"lipschitz={lipschitz} matters only to a guarantee: give guarantee= too, or leave it "
            "out"
        )
    return None
