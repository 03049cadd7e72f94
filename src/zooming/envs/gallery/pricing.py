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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import (
    MOST_MEAN,
    Decide,
    GalleryEnv,
    amount,
    count,
    profile,
    require,
)
from zooming.kernels import jit_inline, jit_kernel
from zooming.kernels.solve.laws import draw_index, fill_poisson

_WORTH, _SEATS, _MEANS = 0, 1, 2  # places in params


@dataclass(frozen=True)
class Settings:
    """Numbers of the problem; see `Pricing`."""

    customers: float | Sequence[float] = 8.0
    worth: float = 100.0
    lowest_price: float = 0.0
    highest_price: float = 400.0
    seats: int = 20
    horizon: int = 8

    def __post_init__(self) -> None:
        count(self, "horizon")
        profile(self, "customers", "the mean number of customers a day", 0.0, MOST_MEAN)
        amount(self, "worth", "what a seat is worth to a customer on average", 1e-6)
        amount(self, "lowest_price", "the lowest price")
        amount(self, "highest_price", "the highest price")
        require(
            self.lowest_price < self.highest_price,
            f"lowest_price={self.lowest_price:g} is not below "
            f"highest_price={self.highest_price:g}: there is nothing to decide",
        )
        count(self, "seats", 1, 1000)


def pricing(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw the demand at the asked price, write the next state and return the reward."""
    return sell(state, action, draw_demand(action, step, params, rng), next_state)


def pricing_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw the demand at the asked price into `outcome[0]`."""
    outcome[0] = draw_demand(action, step, params, rng)
    return 0.0


@jit_kernel
def draw_demand(action: Any, step: Any, params: Any, rng: Any) -> Any:
    """Return the demand at the asked price, cut off at the number of seats."""
    weights = np.empty(int(params[_SEATS]) + 1)
    fill_poisson(demand_at(action[0], step, params), weights)
    return draw_index(weights, rng)


def pricing_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for the demand `outcome[0]` and return the reward."""
    return sell(state, action, outcome[0], next_state)


def pricing_law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the Poisson law of the demand, cut off at the number of seats."""
    fill_poisson(demand_at(action[0], step, params), weights)


@jit_inline
def demand_at(price: Any, step: Any, params: Any) -> Any:
    """Return the mean demand of a day at a price."""
    return params[_MEANS + step] * math.exp(-price / params[_WORTH])


@jit_inline
def sell(state: Any, action: Any, demand: Any, next_state: Any) -> Any:
    """Write the next state for a given demand and return the reward."""
    sold = min(state[0], demand)
    next_state[0] = state[0] - sold
    return action[0] * sold


class Pricing(GalleryEnv):
    """The environment `zooming/Pricing-v0`: seats that are worthless once the plane has left.

    Parameters
    ----------
    customers : float or sequence, default 8.0
        Mean number of customers a day: one number, or one per day.
    worth : float, default 100.0
        Mean amount that a customer is willing to pay. At this price 37 % buy.
    lowest_price, highest_price : float, default 0.0, 400.0
        Range of prices.
    seats : int, default 20
        Seats at the start.
    horizon : int, default 8
        Days until departure.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

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

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(Settings, "Pricing", options)
        self.settings = s
        super().__init__(
            pricing, gym.spaces.Box(0.0, float(s.seats), (1,), np.float64),
            gym.spaces.Box(s.lowest_price, s.highest_price, (1,), np.float64), s.horizon,
            start=[float(s.seats)], params=[s.worth, s.seats, *s.customers],
            given=pricing_given, draw=pricing_draw, weigh=pricing_law, values=range(s.seats + 1),
            resolution=problem.align_cells(s.seats, 100),
            reward_range=(0.0, s.seats * s.highest_price), name="pricing", render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
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
