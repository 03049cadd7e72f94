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
    """Return the mean value of the start states, plus the mean bonus of every step."""
    table, n_state = planner.table, planner.axes.n_state
    n, grid, plan = int(table.core["n_planned"][0]), table.grid, table.plan
    steps, places = table.samples.steps[:n], table.samples.places[:n]
    weights = table.samples.numbers[:n, WEIGHT]
    cells = np.zeros(n, np.int64)
    for j in range(n_state):
        cells = cells * int(grid.bins[j]) + grid.bin_of[j, places[:, j]]
    if not (steps == 0).any():
        return float("inf")
    found = 0.0
    for step in range(planner.horizon):
        here = steps == step
        if here.any():
            shape = (plan.best.shape[1], -1)
            best = plan.best[step][:, None]
            gain = np.take_along_axis(plan.bonus[step].reshape(shape), best, axis=1)
            if step == 0:
                gain = gain + np.take_along_axis(plan.q[step].reshape(shape), best, axis=1)
            found += float(np.average(gain[cells[here], 0], weights=weights[here]))
    return found
