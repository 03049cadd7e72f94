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
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count
from zooming.kernels.solve.laws import fill_poisson


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Inventory`."""

    demand: float | Sequence[float] = problem.profile(5.0, "the mean demand of a period")
    fixed_cost: float = amount(20.0, "the cost of placing an order")
    holding: float = amount(1.0, "the cost of keeping a unit for a period")
    backlog: float = amount(9.0, "the cost of owing a unit for a period")
    lead_time: int = count(2, "periods until an order arrives; the number of state axes", 1, 3)
    most_order: float = amount(30.0, "the largest order", 1.0, 1000.0)
    min_order: float = amount(1.0, "the smallest order", high=lambda s: s.most_order)
    capacity: float = amount(40.0, "the room for stock", 1.0, 1000.0)
    most_backlog: float = amount(20.0, "the most units that customers wait for", high=1000.0)
    start: float = amount(
        10.0, "the stock at the start", lambda s: -s.most_backlog, lambda s: s.capacity
    )
    horizon: int = count(10, "periods of an episode")

    def check(self) -> None:
        problem.require(
            self.fixed_cost + self.holding + self.backlog > 0,
            "fixed_cost, holding and backlog are all 0, so that nothing costs anything; "
            "give at least one",
        )


AT = problem.places(Settings)


def trade(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for the demand `outcome[0]` and return the reward."""
    last = state.shape[0] - 1
    placed = action[0] if action[0] >= params[AT.min_order] and action[0] > 0.0 else 0.0
    arriving = state[1] if last > 0 else placed
    left = max(state[0] - outcome[0], -params[AT.most_backlog])
    for i in range(1, last):
        next_state[i] = state[i + 1]
    if last > 0:
        next_state[last] = placed
    next_state[0] = min(left + arriving, params[AT.capacity])
    cost = params[AT.fixed_cost] if placed > 0.0 else 0.0
    return -(cost + params[AT.holding] * max(left, 0.0) + params[AT.backlog] * max(-left, 0.0))


def law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of the demands, a Poisson law."""
    fill_poisson(params[AT.demand + step], weights)


class Inventory(GalleryEnv):
    """The environment `zooming/Inventory-v0`: when to order, and how much.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Inventory-v0", lead_time=1)
    >>> env.unwrapped.rule
    Rule((s, S): s=14.05, S=28.19)
    """

    model = Model(Settings, AT, trade, law)

    def _layout(self, s: Any) -> Layout:
        n_owed = s.lead_time - 1
        most = s.fixed_cost + max(s.holding * s.capacity, s.backlog * s.most_backlog)
        return Layout(
            problem.box([-s.most_backlog, *[0.0] * n_owed], [s.capacity, *[s.most_order] * n_owed]),
            problem.box(0.0, s.most_order), start=[s.start, *[0.0] * n_owed],
            values=range(problem.largest(max(s.demand)) + 1), reward_range=(-most, 0.0),
            resolution=_cells(s),
        )  # fmt: skip

    def _rule(self) -> RuleParts:
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


def _cells(s: Any) -> int | None:
    """Return a number of cells per axis whose grid contains all whole units, or None."""
    width = s.capacity + s.most_backlog
    if s.lead_time == 1:
        return problem.align_cells(width, 100)
    is_feasible = s.lead_time == 2 and width <= 80 and width % 2 == 0
    return int(width) if is_feasible else None
