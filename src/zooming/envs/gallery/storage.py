"""Battery storage: buy energy when it is cheap, sell it when it is expensive.

The state is the charge c in kWh and the current price p. The action a in [-power, power] is the
energy to buy (or, negative, to sell) in the step. Energy that does not fit is not bought, and no
more than the charge is sold:

    a' = a cut to [-c, (capacity - c) / efficiency],    c' = c + efficiency a'+ - a'-,
    r  = -p a' - wear |a'|.

The price returns to the profile m_h of the day, with noise of mean 0 and variance 1 on 9 nodes:

    p' = m_{h+1} + persistence (p - m_h) + volatility eps,    cut to [lowest_price, highest_price].

A closed form holds without volatility and wear, with efficiency 1, prices >= 0 and a power that
fills the battery in one step. Then only rises of the price matter:

    V* = c_0 m_0 + capacity sum_h (m_{h+1} - m_h)+.

The rule buys below one price and sells above another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount

N_NODES = 9  # of the noise: 8 fair coins, with mean 0 and variance 1
DAY = (
    0.22, 0.20, 0.19, 0.18, 0.19, 0.22, 0.28, 0.34, 0.33, 0.29, 0.25, 0.22,
    0.20, 0.19, 0.20, 0.23, 0.28, 0.36, 0.42, 0.44, 0.40, 0.34, 0.28, 0.24,
)  # fmt: skip


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Storage`."""

    prices: Sequence[float] = problem.profile(DAY, "the mean price of a step", -1e6, 1e6)
    capacity: float = amount(10.0, "the energy that the battery holds", 1e-6, 1e6)
    power: float = amount(4.0, "the energy that a step can move", 1e-6, 1e6)
    efficiency: float = amount(0.9, "the share of bought energy that is stored", 0.01, 1.0)
    wear: float = amount(0.01, "the cost of moving a unit of energy")
    persistence: float = amount(0.6, "the share of a deviation that the next price keeps", 0.0, 1.0)
    volatility: float = amount(0.04, "the standard deviation of the price's noise")
    lowest_price: float = amount(0.0, "the lowest price", -1e6, 1e6)
    highest_price: float = amount(0.8, "the highest price", -1e6, 1e6)
    start: float = amount(0.0, "the charge at the start; the price starts at its mean")

    def check(self) -> None:
        problem.require(
            self.start <= self.capacity,
            f"start={self.start:g}: the battery holds only capacity={self.capacity:g}",
        )
        low, high = min(self.prices), max(self.prices)
        problem.require(
            self.lowest_price <= low and high <= self.highest_price,
            f"prices run from {low:g} to {high:g}, outside lowest_price={self.lowest_price:g} "
            f"to highest_price={self.highest_price:g}; widen these",
        )
        problem.require(
            self.lowest_price < self.highest_price,
            f"lowest_price and highest_price are both {self.lowest_price:g}; give a range",
        )


AT = problem.places(Settings, "horizon")


def move(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next charge and price for the noise `outcome[0]` and return the reward."""
    charge, price = state[0], state[1]
    bought = min(action[0], (params[AT.capacity] - charge) / params[AT.efficiency])
    bought = max(bought, -charge)
    stored = params[AT.efficiency] * bought if bought > 0.0 else bought
    next_state[0] = min(max(charge + stored, 0.0), params[AT.capacity])
    coming = min(step + 1, int(params[AT.horizon]) - 1)
    off = params[AT.persistence] * (price - params[AT.prices + step])
    after = params[AT.prices + coming] + off + params[AT.volatility] * outcome[0]
    next_state[1] = min(max(after, params[AT.lowest_price]), params[AT.highest_price])
    return -price * bought - params[AT.wear] * abs(bought)


def coins(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in binomial weights: the noise of the price is a sum of fair coins."""
    n = weights.shape[0] - 1
    weights[0] = 1.0
    for i in range(n):
        weights[i + 1] = weights[i] * (n - i) / (i + 1.0)


class Storage(GalleryEnv):
    """The environment `zooming/Storage-v0`: a battery that buys energy cheap and sells it dear.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Storage-v0")
    >>> env.unwrapped.rule
    Rule(buy low, sell high: buy=0.2, sell=0.3325)
    >>> free = {"volatility": 0.0, "efficiency": 1.0, "wear": 0.0, "power": 10.0}
    >>> round(gym.make("zooming/Storage-v0", **free).unwrapped.closed_form(), 2)
    4.1
    """

    model = Model(Settings, AT, move, coins)

    def _layout(self, s: Any) -> Layout:
        low, high, horizon = s.lowest_price, s.highest_price, len(s.prices)
        least = -s.power * (max(high, -low) + s.wear)
        most = s.power * max(high - s.wear, -low - s.wear, 0.0)
        return Layout(
            problem.box([0.0, low], [s.capacity, high]), problem.box(-s.power, s.power),
            start=[s.start, s.prices[0]], values=(np.arange(N_NODES) - 4.0) / np.sqrt(2.0),
            reward_range=(least, max(most, least + 1e-6)), resolution=40, horizon=horizon,
            further=[horizon],
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        s = self.settings

        def trade(step: int, states: Any, numbers: Any) -> Any:
            price = states[:, 1]
            is_last = step == len(s.prices) - 1  # what is left then is worth nothing
            sells = (price >= numbers[1]) | is_last
            return np.where(sells, -s.power, np.where(price <= numbers[0], s.power, 0.0))

        buy, sell = np.quantile(s.prices, [0.25, 0.75])
        low, high = s.lowest_price, s.highest_price
        return "buy low, sell high", trade, {"buy": (buy, low, high), "sell": (sell, low, high)}

    def closed_form(self) -> float | None:
        """Return the value of all rises of the price if the formula applies, else None."""
        s = self.settings
        is_free = s.volatility == 0 and s.efficiency == 1 and s.wear == 0 and min(s.prices) >= 0
        if not (is_free and s.power >= s.capacity):
            return None
        rises = np.maximum(0.0, np.diff(s.prices)).sum()
        return float(s.start * s.prices[0] + s.capacity * rises)
