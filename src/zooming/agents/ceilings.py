"""The highest mean return that seems possible, as far as a portfolio knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zooming.agents.planner import Planner
from zooming.kernels.plan_layout import WEIGHT

if TYPE_CHECKING:
    from zooming.agents.portfolio import Portfolio


def ceiling(portfolio: Portfolio, reached: float) -> float:
    """Return the highest mean return that seems possible; infinity if nothing is known.

    It is that of the highest reward at every step, or less if a planner holds less possible. A
    planner rounds off narrow peaks, so it does not count if it holds less possible than what was
    `reached`.
    """
    highest = portfolio.reward_range[1]
    found = [max(highest, portfolio.horizon * highest)]  # an episode may end after one step
    planners = [agent for agent in portfolio.agents if isinstance(agent, Planner)]
    found += [value for value in map(optimistic_value, planners) if value > reached]
    return float(min(found))


def optimistic_value(planner: Planner) -> float:
    """Return the value with bonus of a planner's plan, mean over its start states."""
    table, n_state = planner.table, planner.axes.n_state
    n, grid = int(table.core["n_planned"][0]), table.grid
    is_first = table.samples.steps[:n] == 0
    if not is_first.any():
        return float("inf")
    places = table.samples.places[:n][is_first]
    cells = np.zeros(len(places), np.int64)
    for j in range(n_state):
        cells = cells * int(grid.bins[j]) + grid.bin_of[j, places[:, j]]
    plan = table.plan
    best = (plan.q[0] + plan.bonus[0]).reshape(plan.best.shape[1], -1).max(axis=1)
    return float(np.average(best[cells], weights=table.samples.numbers[:n][is_first, WEIGHT]))
