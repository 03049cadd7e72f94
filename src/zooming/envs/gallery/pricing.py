"""Dynamic pricing of perishable stock: seats that are worthless once the plane has left.

The state is the number of seats x. The action is the price p. The number of customers of a day is
Poisson with mean m_h. Each is willing to pay an exponential amount with mean w. So the demand D is
Poisson with mean m_h exp(-p / w). [Gallego and van Ryzin 1994]

    x' = x - min(x, D),    r = p min(x, D).

There is no closed form. If demand always equaled its mean, one price would be best, and its return
bounds V* from above. With M = sum m_h,

    p = max(w, w ln(M / x_0)),    V* <= p min(x_0, M exp(-p / w)).

The rule computes this price again every day, for the seats and days that are left.
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
    """Numbers of the problem; see `Pricing`."""

    customers: float | Sequence[float] = problem.profile(8.0, "the mean number of customers a day")
    worth: float = amount(100.0, "what a seat is worth to a customer on average", 1e-6)
    lowest_price: float = amount(0.0, "the lowest price")
    highest_price: float = amount(400.0, "the highest price")
    seats: int = count(20, "seats at the start", 1, 1000)
    horizon: int = count(8, "days until departure")

    def check(self) -> None:
        problem.require(
            self.lowest_price < self.highest_price,
            f"lowest_price={self.lowest_price:g} is not below "
            f"highest_price={self.highest_price:g}: there is nothing to decide",
        )


AT = problem.places(Settings)


def sell(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for the demand `outcome[0]` and return the reward."""
    sold = min(state[0], outcome[0])
    next_state[0] = state[0] - sold
    return action[0] * sold


def law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the Poisson law of the demand at the price, cut off at the number of seats."""
    mean = params[AT.customers + step] * math.exp(-action[0] / params[AT.worth])
    fill_poisson(mean, weights)


class Pricing(GalleryEnv):
    """The environment `zooming/Pricing-v0`: seats that are worthless once the plane has left.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Pricing-v0")
    >>> optimal = zooming.solve(env)
    >>> round(optimal.return_, 1), round(env.unwrapped.bound(), 1)
    (2214.8, 2326.3)
    >>> optimal.action(0, [20.0]).round(1), env.unwrapped.rule.act(0, [20.0]).round(1)
    (array([129.4]), array([116.3]))
    """

    model = Model(Settings, AT, sell, law)

    def _layout(self, s: Any) -> Layout:
        return Layout(
            problem.box(0.0, s.seats), problem.box(s.lowest_price, s.highest_price),
            start=[float(s.seats)], values=range(s.seats + 1),
            reward_range=(0.0, s.seats * s.highest_price),
            resolution=problem.align_cells(s.seats, 100),
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        s = self.settings

        def price(step: int, states: Any, numbers: Any) -> Any:
            coming = max(sum(s.customers[step:]), 1e-9)
            return np.maximum(
                numbers[0], numbers[1] * np.log(coming / np.maximum(states[:, 0], 1e-9))
            )

        low, high = s.lowest_price, s.highest_price
        numbers = {"floor": (s.worth, low, high), "scale": (s.worth, 0.0, 3 * s.worth)}
        return "price for the mean demand", price, numbers

    def bound(self) -> float:
        """Return an upper bound of V*: the return of the best price if demand equals its mean."""
        s = self.settings
        coming = sum(s.customers)
        if coming == 0.0:
            return 0.0
        best = max(s.worth, s.worth * math.log(coming / s.seats))
        price = min(max(best, s.lowest_price), s.highest_price)
        return float(price * min(s.seats, coming * math.exp(-price / s.worth)))
