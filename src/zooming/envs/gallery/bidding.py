"""Bidding given a value: one auction, one bid, against the highest of several other bids.

An episode is one step. The state is the value v of the item, uniform. The action is the bid b. The
others bid independently and uniformly on the ticks 0, t, 2t, ..., n t. So their highest bid M has
F(i t) = P(M <= i t) = ((i + 1) / (n + 1))^k. A tie is won:

    first price:   r = (v - b) 1{b >= M}
    second price:  r = (v - M) 1{b >= M}.

Only bids on ticks are needed. With a first price V*(v) = max_i (v - i t) F(i t), and the best bid
is close to v k / (k + 1). With a second price the best bid is v, and V*(v) = E (v - M)+.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count
from zooming.validation import short_repr

AUCTIONS = ("first", "second")
N_VALUES = 200_000  # midpoints of the integral over the value


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Bidding`."""

    auction: str = problem.option(
        "first",
        '{"first", "second"}',
        "whether the winner pays the own bid or the highest other bid",
    )
    rivals: int = count(3, "k, the number of other bidders", 1, 1000)
    highest_value: float = amount(10.0, "the highest value of an item; values are uniform", 1e-6)
    highest_rival: float = amount(10.0, "the highest bid of a rival", 1e-6)
    tick: float = amount(0.5, "the step between bids", 1e-6)

    def check(self) -> None:
        problem.require(
            self.auction in AUCTIONS,
            f"auction={short_repr(self.auction)}: choose one of {AUCTIONS}",
        )
        n = self.highest_rival / self.tick
        problem.require(
            abs(n - round(n)) < 1e-9 and 1 <= round(n) <= 10_000,
            f"highest_rival={self.highest_rival:g} is not a whole number of ticks, "
            f"1 to 10,000 of tick={self.tick:g}",
        )


AT = problem.places(Settings, "auction", tail="law")  # the law of M


def settle(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Return the reward against the highest rival bid `outcome[0]`. The value stays the same."""
    next_state[0] = state[0]
    if action[0] < outcome[0]:
        return 0.0
    return state[0] - (action[0] if params[AT.auction] == 0.0 else outcome[0])


def law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of the highest rival bids."""
    for i in range(weights.shape[0]):
        weights[i] = params[AT.law + i]


class Bidding(GalleryEnv):
    """The environment `zooming/Bidding-v0`: one bid for an item of known value.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Bidding-v0")
    >>> optimal = zooming.solve(env)
    >>> round(env.unwrapped.closed_form(), 4), round(optimal.return_, 4)
    (0.2318, 0.2318)
    >>> optimal.action(0, [8.0]), env.unwrapped.rule.act(0, [8.0])
    (array([6.]), array([6.]))
    """

    model = Model(Settings, AT, settle, law)

    def _layout(self, s: Any) -> Layout:
        n, most = round(s.highest_rival / s.tick), s.highest_value
        loss = most if s.auction == "first" else min(most, s.highest_rival)
        money = problem.box(0.0, most)
        return Layout(
            money, money, start="uniform", values=s.tick * np.arange(n + 1.0),
            reward_range=(-loss, most), resolution=problem.align_cells(most / s.tick, 200),
            horizon=1, name=f"bidding {s.auction} price", further=[AUCTIONS.index(s.auction)],
            tail=np.diff((np.arange(n + 2.0) / (n + 1)) ** s.rivals).tolist(),
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        s = self.settings

        def shade(step: int, states: Any, numbers: Any) -> Any:
            return numbers[0] * states

        usual = s.rivals / (s.rivals + 1.0) if s.auction == "first" else 1.0
        return "bid a share of the value", shade, {"share": (usual, 0.0, 1.0)}

    def closed_form(self) -> float | None:
        """Return the optimal return: the mean of V*(v) over the values v."""
        s = self.settings
        ticks = s.tick * np.arange(round(s.highest_rival / s.tick) + 1.0)
        shares = (np.arange(1.0, len(ticks) + 1) / len(ticks)) ** s.rivals
        if s.auction == "second":
            above = np.maximum(0.0, s.highest_value - ticks)
            return float(np.diff(shares, prepend=0.0) @ above**2 / (2 * s.highest_value))
        values, best = s.highest_value * (np.arange(N_VALUES) + 0.5) / N_VALUES, np.zeros(N_VALUES)
        for tick, share in zip(ticks, shares, strict=True):
            best = np.maximum(best, (values - tick) * share)
        return float(best.mean())
