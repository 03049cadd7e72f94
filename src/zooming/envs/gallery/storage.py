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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import Decide, GalleryEnv, amount, profile, require
from zooming.errors import ConfigurationError
from zooming.kernels import jit_inline, jit_kernel
from zooming.kernels.solve.laws import draw_index

(
    _CAPACITY, _EFFICIENCY, _WEAR, _PERSISTENCE, _VOLATILITY, _LOWEST, _HIGHEST, _HORIZON, _MEANS,
) = range(9)  # fmt: skip
N_NODES = 9  # of the noise: 8 fair coins, with mean 0 and variance 1
DAY = (
    0.22, 0.20, 0.19, 0.18, 0.19, 0.22, 0.28, 0.34, 0.33, 0.29, 0.25, 0.22,
    0.20, 0.19, 0.20, 0.23, 0.28, 0.36, 0.42, 0.44, 0.40, 0.34, 0.28, 0.24,
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Numbers of the problem; see `Storage`."""

    prices: Sequence[float] = DAY
    capacity: float = 10.0
    power: float = 4.0
    efficiency: float = 0.9
    wear: float = 0.01
    persistence: float = 0.6
    volatility: float = 0.04
    lowest_price: float = 0.0
    highest_price: float = 0.8
    start: float = 0.0

    def __post_init__(self) -> None:
        profile(self, "prices", "the mean price of a step", -1e6, 1e6)
        amount(self, "capacity", "the energy that the battery holds", 1e-6, 1e6)
        amount(self, "power", "the energy that a step can move", 1e-6, 1e6)
        amount(self, "efficiency", "the share of bought energy that is stored", 0.01, 1.0)
        amount(self, "wear", "the cost of moving a unit of energy")
        amount(self, "persistence", "the share of a deviation that the next price keeps", 0.0, 1.0)
        amount(self, "volatility", "the standard deviation of the price's noise")
        amount(self, "lowest_price", "the lowest price", -1e6, 1e6)
        amount(self, "highest_price", "the highest price", -1e6, 1e6)
        amount(self, "start", "the charge at the start")
        require(
            self.start <= self.capacity,
            f"start={self.start:g}: the battery holds only capacity={self.capacity:g}",
        )
        low, high = min(self.prices), max(self.prices)
        if not (self.lowest_price <= low and high <= self.highest_price and low <= high):
            raise ConfigurationError(
                f"prices run from {low:g} to {high:g}, outside lowest_price={self.lowest_price:g} "
                f"to highest_price={self.highest_price:g}; widen these"
            )
        require(
            self.lowest_price < self.highest_price,
            f"lowest_price and highest_price are both {self.lowest_price:g}; give a range",
        )


def storage(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw the noise of the price, write the next state and return the reward."""
    return move(state, action, step, params, draw_noise(rng), next_state)


def storage_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw the noise of the price into `outcome[0]`."""
    outcome[0] = draw_noise(rng)
    return 0.0


@jit_kernel
def draw_noise(rng: Any) -> Any:
    """Return the noise of the price, a sum of fair coins of variance 1."""
    weights = np.empty(N_NODES)
    fill_coins(weights)
    return (draw_index(weights, rng) - 4.0) / np.sqrt(2.0)


def storage_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for the noise `outcome[0]` and return the reward."""
    return move(state, action, step, params, outcome[0], next_state)


def storage_law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of the noise, which are the same for all states and actions."""
    fill_coins(weights)


@jit_inline
def fill_coins(weights: Any) -> None:
    """Fill in binomial weights: the noise of the price is a sum of fair coins."""
    n = weights.shape[0] - 1
    weights[0] = 1.0
    for i in range(n):
        weights[i + 1] = weights[i] * (n - i) / (i + 1.0)


@jit_inline
def move(state: Any, action: Any, step: Any, params: Any, noise: Any, next_state: Any) -> Any:
    """Write the next charge and price for a given noise and return the reward."""
    charge, price = state[0], state[1]
    bought = min(action[0], (params[_CAPACITY] - charge) / params[_EFFICIENCY])
    bought = max(bought, -charge)
    stored = params[_EFFICIENCY] * bought if bought > 0.0 else bought
    next_state[0] = min(max(charge + stored, 0.0), params[_CAPACITY])
    coming = min(step + 1, int(params[_HORIZON]) - 1)
    expected = params[_MEANS + coming] + params[_PERSISTENCE] * (price - params[_MEANS + step])
    after = expected + params[_VOLATILITY] * noise
    next_state[1] = min(max(after, params[_LOWEST]), params[_HIGHEST])
    return -price * bought - params[_WEAR] * abs(bought)


class Storage(GalleryEnv):
    """The environment `zooming/Storage-v0`: a battery that buys energy cheap and sells it dear.

    Parameters
    ----------
    prices : sequence, default a day of 24 hours
        Mean price of each step, in money per kWh. Their number is the horizon.
    capacity, power : float, default 10.0, 4.0
        Energy that the battery holds, and that a step can move, in kWh.
    efficiency : float, default 0.9
        Share of bought energy that is stored.
    wear : float, default 0.01
        Cost of moving a kWh.
    persistence, volatility : float, default 0.6, 0.04
        Share of a deviation from the mean that the next price keeps, and the standard deviation of
        the noise of a step.
    lowest_price, highest_price : float, default 0.0, 0.8
        Range of prices.
    start : float, default 0.0
        Charge at the start. The price starts at its mean.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

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

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(Settings, "Storage", options)
        self.settings = s
        low, high, horizon = s.lowest_price, s.highest_price, len(s.prices)
        numbers = [s.capacity, s.efficiency, s.wear, s.persistence, s.volatility, low, high]
        least = -s.power * (max(high, -low) + s.wear)
        most = s.power * max(high - s.wear, -low - s.wear, 0.0)
        ends = np.array([0.0, low]), np.array([s.capacity, high])
        super().__init__(
            storage, gym.spaces.Box(*ends, dtype=np.float64),
            gym.spaces.Box(-s.power, s.power, (1,), np.float64), horizon,
            start=[s.start, s.prices[0]], params=[*numbers, horizon, *s.prices],
            given=storage_given,
            draw=storage_draw, weigh=storage_law, reward_range=(least, max(most, least + 1e-6)),
            values=(np.arange(N_NODES) - 4.0) / np.sqrt(2.0), name="storage", resolution=40,
            render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
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
