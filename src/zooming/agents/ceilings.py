"""Estimate the highest possible mean return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zooming.agents.planner import Planner
from zooming.validation import ANY_REWARD

if TYPE_CHECKING:
    from zooming.agents.portfolio import Portfolio


def ceiling(portfolio: Portfolio, reached: float) -> float:
    """Return an estimate of the highest possible mean return, infinity if nothing is known.

    It is the return with the highest reward at every step, or the optimistic value of a planner if
    that is lower. A planner rounds off narrow peaks. Therefore an optimistic value that is not
    above `reached`, the mean return reached so far, is ignored.
    """
    is_any = portfolio.reward_range == ANY_REWARD
    highest = float("inf") if is_any else portfolio.reward_range[1]
    found = [max(highest, portfolio.horizon * highest)]  # an episode may end after one step
    planners = [agent for agent in portfolio._parts if isinstance(agent, Planner)]
    found += [value for value in map(optimistic_value, planners) if value > reached]
    return float(min(found))


def optimistic_value(planner: Planner) -> float:
    """Return the planner's mean value of the start states, plus a bonus for its uncertainty.

    The bonus is the square root of the sum, over the steps, of the squared mean bonus of a step.
    Squares are added because the errors of different steps are nearly independent.
    """
    table = planner.table
    mean, bonus = table.start_value(table.grid, table.plan, int(table.core["n_planned"][0]))
    return mean + bonus
