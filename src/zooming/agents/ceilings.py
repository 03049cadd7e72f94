"""Estimate the highest mean return that is possible, from what a portfolio knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zooming.agents.planner import Planner
from zooming.kernels.plan_layout import WEIGHT

if TYPE_CHECKING:
    from zooming.agents.portfolio import Portfolio


def ceiling(portfolio: Portfolio, reached: float) -> float:
    """Return an estimate of the highest possible mean return, infinity if nothing is known.

    It is the return with the highest reward at every step, or the optimistic value of a planner if
    that is lower. A planner rounds off narrow peaks. Therefore an optimistic value that is not
    above `reached`, the mean return reached so far, is ignored.
    """
    highest = portfolio.reward_range[1]
    found = [max(highest, portfolio.horizon * highest)]  # an episode may end after one step
    planners = [agent for agent in portfolio.agents if isinstance(agent, Planner)]
    found += [value for value in map(optimistic_value, planners) if value > reached]
    return float(min(found))


def optimistic_value(planner: Planner) -> float:
    """Return the mean over the start states of the value, bonus included, of the planner's plan."""
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
