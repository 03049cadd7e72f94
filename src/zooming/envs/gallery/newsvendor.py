"""Newsvendor with carried stock: order each morning, sell all day, keep what is left.

The state is the stock x in units. The order q raises it to y = min(x + q, capacity). The demand D
is Poisson, and demand that cannot be served is lost:

    x' = (y - D)+,    r = price min(y, D) - cost (y - x) - holding (y - D)+.

After the last day, the remaining stock is sold for `salvage` a unit.

If all days are alike and salvage = cost, a unit left is worth its cost tomorrow. The best level y*
is then the same every day: the smallest y with P(D <= y) >= (price - cost) / (price - cost +
holding). With G(y) = price E min(y, D) - cost y + (cost - holding) E (y - D)+,

    V* = cost x_0 + H G(y*)    from every start x_0 <= y*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count
from zooming.kernels.solve.laws import fill_poisson


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Newsvendor`."""

    demand: float | Sequence[float] = problem.profile(5.0, "the mean demand of a day")
    price: float = amount(3.0, "the price of a unit")
    cost: float = amount(1.0, "the cost of a unit")
    holding: float = amount(0.2, "the cost of keeping a unit overnight")
    salvage: float | None = amount(None, "the value of a unit left at the end; by default its cost")
    capacity: float = amount(20.0, "the room for stock; orders above it are cut", 1.0, 1000.0)
    start: float = amount(0.0, "the stock before the first day", high=lambda s: s.capacity)
    horizon: int = count(7, "days of an episode")

    def __post_init__(self) -> None:
        if self.salvage is None:
            object.__setattr__(self, "salvage", self.cost)
        super().__post_init__()


AT = problem.places(Settings)


def trade(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for the demand `outcome[0]` and return the reward."""
    level = min(state[0] + action[0], params[AT.capacity])
    sold = min(level, outcome[0])
    left = level - sold
    next_state[0] = left
    bought = level - state[0]
    earned = params[AT.price] * sold - params[AT.cost] * bought - params[AT.holding] * left
    if step == int(params[AT.horizon]) - 1:
        earned += params[AT.salvage] * left
    return earned


def law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the Poisson law of the demand, cut off at the capacity."""
    fill_poisson(params[AT.demand + step], weights)


class Newsvendor(GalleryEnv):
    """The environment `zooming/Newsvendor-v0`: order each morning and keep what is left.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Newsvendor-v0")
    >>> round(env.unwrapped.closed_form(), 3), round(zooming.solve(env).return_, 3)
    (63.92, 63.92)
    >>> env.unwrapped.rule
    Rule(order up to a level: level=8)
    """

    model = Model(Settings, AT, trade, law)

    def _layout(self, s: Any) -> Layout:
        low = -s.capacity * (s.cost + s.holding)
        high = s.capacity * max(s.price, s.salvage - s.holding)
        stock = problem.box(0.0, s.capacity)
        return Layout(
            stock, stock, start=[s.start], values=range(math.ceil(s.capacity) + 1),
            reward_range=(low, max(high, low + 1.0)),
            resolution=problem.align_cells(s.capacity, 100),
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        def order_up_to(step: int, states: Any, numbers: Any) -> Any:
            return np.maximum(0.0, numbers[0] - states)

        numbers = {"level": (self.level(), 0.0, self.settings.capacity)}
        return "order up to a level", order_up_to, numbers

    def level(self) -> float:
        """Return the order-up-to level y*, for a demand that has the mean of all days every day."""
        s = self.settings
        chances = problem.poisson(float(np.mean(s.demand)), math.ceil(s.capacity))
        gain = s.price - s.cost
        if gain <= 0.0:
            return 0.0
        covered = np.cumsum(chances) >= gain / (gain + s.holding) - 1e-12
        return float(min(s.capacity, np.argmax(covered) if covered.any() else s.capacity))

    def closed_form(self) -> float | None:
        """Return cost x_0 + H G(y*) if all days are alike and salvage = cost, else None."""
        s, best = self.settings, self.level()
        if s.salvage != s.cost or len(set(s.demand)) > 1 or s.start > best:
            return None
        demand = np.arange(math.ceil(s.capacity) + 1.0)
        chances = problem.poisson(s.demand[0], len(demand) - 1)
        sold = float(chances @ np.minimum(best, demand))
        left = best - sold
        gain = s.price * sold - s.cost * best + (s.cost - s.holding) * left
        return float(s.cost * s.start + s.horizon * gain)
