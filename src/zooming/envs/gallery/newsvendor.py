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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import MOST_MEAN, Decide, GalleryEnv, amount, count, profile
from zooming.kernels import jit_inline, jit_kernel
from zooming.kernels.solve.laws import draw_index, fill_poisson

_PRICE, _COST, _HOLDING, _SALVAGE, _CAPACITY, _HORIZON, _MEANS = range(7)  # places in params


@dataclass(frozen=True)
class Settings:
    """Numbers of the problem; see `Newsvendor`."""

    demand: float | Sequence[float] = 5.0
    price: float = 3.0
    cost: float = 1.0
    holding: float = 0.2
    salvage: float | None = None
    capacity: float = 20.0
    start: float = 0.0
    horizon: int = 7

    def __post_init__(self) -> None:
        count(self, "horizon")
        profile(self, "demand", "the mean demand of a day", 0.0, MOST_MEAN)
        amount(self, "price", "the price of a unit")
        amount(self, "cost", "the cost of a unit")
        amount(self, "holding", "the cost of keeping a unit overnight")
        if self.salvage is None:
            object.__setattr__(self, "salvage", self.cost)
        amount(self, "salvage", "the value of a unit that is left at the end")
        amount(self, "capacity", "the room for stock", 1.0, 1000.0)
        amount(self, "start", "the stock before the first day", 0.0, self.capacity)


def newsvendor(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw the demand of the day, write the next state and return the reward."""
    return trade(state, action, step, params, draw_demand(step, params, rng), next_state)


def newsvendor_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw the demand of the day into `outcome[0]`."""
    outcome[0] = draw_demand(step, params, rng)
    return 0.0


@jit_kernel
def draw_demand(step: Any, params: Any, rng: Any) -> Any:
    """Return the Poisson demand of a day, cut off at the capacity."""
    weights = np.empty(math.ceil(params[_CAPACITY]) + 1)
    fill_poisson(params[_MEANS + step], weights)
    return draw_index(weights, rng)


def newsvendor_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for the demand `outcome[0]` and return the reward."""
    return trade(state, action, step, params, outcome[0], next_state)


def newsvendor_law(
    state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any
) -> None:
    """Fill in the Poisson law of the demand, cut off at the capacity."""
    fill_poisson(params[_MEANS + step], weights)


@jit_inline
def trade(state: Any, action: Any, step: Any, params: Any, demand: Any, next_state: Any) -> Any:
    """Write the next state for a given demand and return the reward."""
    level = min(state[0] + action[0], params[_CAPACITY])
    sold = min(level, demand)
    left = level - sold
    next_state[0] = left
    earned = params[_PRICE] * sold - params[_COST] * (level - state[0]) - params[_HOLDING] * left
    if step == int(params[_HORIZON]) - 1:
        earned += params[_SALVAGE] * left
    return earned


class Newsvendor(GalleryEnv):
    """The environment `zooming/Newsvendor-v0`: order each morning and keep what is left.

    Parameters
    ----------
    demand : float or sequence, default 5.0
        Mean demand of a day, in units: one number, or one per day.
    price, cost : float, default 3.0, 1.0
        What a unit sells for, and what it costs.
    holding : float, default 0.2
        Cost of keeping a unit overnight.
    salvage : float, optional
        Value of a unit left after the last day. By default its cost.
    capacity : float, default 20.0
        Room for stock, in units. Orders above it are cut.
    start : float, default 0.0
        Stock before the first day.
    horizon : int, default 7
        Days of an episode.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Newsvendor-v0")
    >>> round(env.unwrapped.closed_form(), 3), round(zooming.solve(env).return_, 3)
    (63.92, 63.92)
    >>> env.unwrapped.rule
    Rule(order up to a level: level=8)
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(Settings, "Newsvendor", options)
        self.settings = s
        low = -s.capacity * (s.cost + s.holding)
        high = s.capacity * max(s.price, s.salvage - s.holding)
        stock = gym.spaces.Box(0.0, s.capacity, (1,), np.float64)
        numbers = [s.price, s.cost, s.holding, s.salvage, s.capacity, s.horizon, *s.demand]
        super().__init__(
            newsvendor, stock, stock, s.horizon, start=[s.start], params=numbers,
            given=newsvendor_given,
            draw=newsvendor_draw, weigh=newsvendor_law, values=range(math.ceil(s.capacity) + 1),
            resolution=problem.align_cells(s.capacity, 100),
            reward_range=(low, max(high, low + 1.0)), name="newsvendor", render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
        def order_up_to(step: int, states: Any, numbers: Any) -> Any:
            return np.maximum(0.0, numbers[0] - states)

        return (
            "order up to a level",
            order_up_to,
            {"level": (self.level(), 0.0, self.settings.capacity)},
        )

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
