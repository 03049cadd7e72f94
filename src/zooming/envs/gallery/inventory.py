"""Inventory with a fixed cost and a lead time: when to order, and how much.

The state is the stock x (negative: units owed to customers). For a lead time of L periods it also
has the orders z_1, ..., z_{L-1} under way, the next to arrive first. The order q arrives L periods
later. An order below `min_order` is not placed. The demand D is Poisson, cut at 6 deviations:

    y = max(x - D, -most_backlog),    r = -(fixed_cost 1{q placed} + holding y+ + backlog y-),
    x' = min(y + z_1, capacity),      z' = (z_2, ..., z_{L-1}, q).

With L = 1, the order itself takes the place of z_1. The cost of a unit is left out: all demand is
served in the end, so it is the same for every policy. There is no closed form. The rule is (s, S):
when stock and orders together are at most s, order up to S.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
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

_FIXED, _HOLDING, _BACKLOG, _MIN_ORDER, _CAPACITY, _MOST_BACKLOG, _N, _MEANS = range(8)


@dataclass(frozen=True)
class Settings:
    """Numbers of the problem; see `Inventory`."""

    demand: float | Sequence[float] = 5.0
    fixed_cost: float = 20.0
    holding: float = 1.0
    backlog: float = 9.0
    lead_time: int = 2
    min_order: float = 1.0
    most_order: float = 30.0
    capacity: float = 40.0
    most_backlog: float = 20.0
    start: float = 10.0
    horizon: int = 10

    def __post_init__(self) -> None:
        count(self, "horizon")
        profile(self, "demand", "the mean demand of a period", 0.0, MOST_MEAN)
        amount(self, "fixed_cost", "the cost of placing an order")
        amount(self, "holding", "the cost of keeping a unit for a period")
        amount(self, "backlog", "the cost of owing a unit for a period")
        count(self, "lead_time", 1, 3)
        amount(self, "most_order", "the largest order", 1.0, 1000.0)
        amount(self, "min_order", "the smallest order", 0.0, self.most_order)
        amount(self, "capacity", "the room for stock", 1.0, 1000.0)
        amount(self, "most_backlog", "the most units that customers wait for", 0.0, 1000.0)
        amount(self, "start", "the stock at the start", -self.most_backlog, self.capacity)
        require(
            self.fixed_cost + self.holding + self.backlog > 0,
            "fixed_cost, holding and backlog are all 0, so that nothing costs anything; "
            "give at least one",
        )


def inventory(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw the demand of the period, write the next state and return the reward."""
    return trade(state, action, params, draw_demand(step, params, rng), next_state)


def inventory_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw the demand of the period into `outcome[0]`."""
    outcome[0] = draw_demand(step, params, rng)
    return 0.0


@jit_kernel
def draw_demand(step: Any, params: Any, rng: Any) -> Any:
    """Return the Poisson demand of a period."""
    weights = np.empty(int(params[_N]))
    fill_poisson(params[_MEANS + step], weights)
    return draw_index(weights, rng)


def inventory_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for the demand `outcome[0]` and return the reward."""
    return trade(state, action, params, outcome[0], next_state)


def inventory_law(
    state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any
) -> None:
    """Fill in the probabilities of the demands, a Poisson law."""
    fill_poisson(params[_MEANS + step], weights)


@jit_inline
def trade(state: Any, action: Any, params: Any, demand: Any, next_state: Any) -> Any:
    """Write the next state for a given demand and return the reward."""
    last = state.shape[0] - 1
    placed = action[0] if action[0] >= params[_MIN_ORDER] and action[0] > 0.0 else 0.0
    arriving = state[1] if last > 0 else placed
    left = max(state[0] - demand, -params[_MOST_BACKLOG])
    for i in range(1, last):
        next_state[i] = state[i + 1]
    if last > 0:
        next_state[last] = placed
    next_state[0] = min(left + arriving, params[_CAPACITY])
    cost = params[_FIXED] if placed > 0.0 else 0.0
    return -(cost + params[_HOLDING] * max(left, 0.0) + params[_BACKLOG] * max(-left, 0.0))


class Inventory(GalleryEnv):
    """The environment `zooming/Inventory-v0`: when to order, and how much.

    Parameters
    ----------
    demand : float or sequence, default 5.0
        Mean demand of a period, in units: one number, or one per period.
    fixed_cost : float, default 20.0
        Cost of placing an order.
    holding, backlog : float, default 1.0, 9.0
        Cost of keeping a unit, and of owing a unit, for a period.
    lead_time : int, default 2
        Periods until an order arrives, 1 to 3: the number of state axes.
    min_order, most_order : float, default 1.0, 30.0
        Smallest and largest order. A smaller order is not placed.
    capacity, most_backlog : float, default 40.0, 20.0
        Largest stock, and largest number of units owed. Beyond it, customers leave.
    start : float, default 10.0
        Stock at the start. No orders are under way.
    horizon : int, default 10
        Periods of an episode.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Inventory-v0", lead_time=1)
    >>> env.unwrapped.rule
    Rule((s, S): s=14.05, S=28.19)
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(Settings, "Inventory", options)
        self.settings = s
        n_owed = s.lead_time - 1
        low, high = [-s.most_backlog, *[0.0] * n_owed], [s.capacity, *[s.most_order] * n_owed]
        n = problem.largest(max(s.demand)) + 1
        most = s.fixed_cost + max(s.holding * s.capacity, s.backlog * s.most_backlog)
        numbers = [s.fixed_cost, s.holding, s.backlog, s.min_order, s.capacity, s.most_backlog, n]
        super().__init__(
            inventory, gym.spaces.Box(np.array(low), np.array(high), dtype=np.float64),
            gym.spaces.Box(0.0, s.most_order, (1,), np.float64), s.horizon,
            start=[s.start, *[0.0] * n_owed], params=[*numbers, *s.demand],
            given=inventory_given,
            draw=inventory_draw, weigh=inventory_law, values=range(n), resolution=self._cells(),
            reward_range=(-most, 0.0), name="inventory", render_mode=render_mode,
        )  # fmt: skip

    def _cells(self) -> int | None:
        """Return a number of cells per axis whose grid contains all whole units, or None."""
        width = self.settings.capacity + self.settings.most_backlog
        if self.settings.lead_time == 1:
            return problem.align_cells(width, 100)
        is_feasible = self.settings.lead_time == 2 and width <= 80 and width % 2 == 0
        return int(width) if is_feasible else None

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
        s = self.settings
        mean = float(np.mean(s.demand))
        waited = (s.lead_time + 1) * mean  # demand until the next order but one can arrive
        share = s.backlog / (s.backlog + s.holding) if s.backlog > 0 else 0.5
        safety = NormalDist().inv_cdf(min(share, 0.999)) if s.backlog > 0 else 0.0
        reorder = waited + safety * math.sqrt(waited)
        batch = math.sqrt(2 * s.fixed_cost * mean / s.holding) if s.holding > 0 else s.most_order

        def order(step: int, states: Any, numbers: Any) -> Any:
            position = states.sum(axis=1)
            return np.where(position <= numbers[0], np.maximum(0.0, numbers[1] - position), 0.0)

        top = s.capacity + s.most_order
        return "(s, S)", order, {
            "s": (reorder, -s.most_backlog, top),
            "S": (reorder + batch, -s.most_backlog, top),
        }  # fmt: skip
