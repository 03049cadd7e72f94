"""The careful policy: a rule's action, unless the samples of a planner clearly favor another one.

In the cells of a state, let q be the planner's Q without bonus and e its standard error. Let r be
the cell of the rule's action. Among the cells with a sample of this step (or of steps modeled
together with it), let b be the cell with the largest q_b - DOUBT e_b. The careful policy plays the
center of b if q_b - DOUBT e_b > q_r + DOUBT e_r. Otherwise it plays the rule's action.

Q is planned from the samples that the planner's latest plan used. So it changes only with a new
plan, not with every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.agents.planner import Planner
from zooming.kernels.grids import action_cell, state_cell
from zooming.kernels.plan_actions import feasible_at, is_feasible
from zooming.kernels.plan_layout import CAUTION
from zooming.spaces.masks import Feasible
from zooming.validation import Floats

DOUBT = 1.0  # standard errors on either side


def find_planner(agent: Any) -> Planner | None:
    """Return the agent if it is a planner, or the first planner of a portfolio, or None."""
    if isinstance(agent, Planner):
        return agent
    planners = map(find_planner, getattr(agent, "agents", ()))
    return next((one for one in planners if one is not None), None)


def careful_action(
    planner: Planner, step: int, state: Floats, action: Floats, allowed: Feasible | None
) -> Floats:
    """Return the flat action of the careful policy. `action` is the rule's action.

    `state` and `action` are flat and checked. `allowed` holds the feasible actions.
    """
    table, n_state = planner.table, planner.axes.n_state
    plan, grid = table.settled_policy(), table.grid
    n_actions = int(np.prod(grid.bins[n_state:]))
    first = int(state_cell(grid, n_state, planner._unit(state, 0))) * n_actions
    here = int(action_cell(grid, n_state, planner._unit(action, n_state)))
    cells = slice(first, first + n_actions)
    q, doubt = plan.q[step, cells], plan.bonus[step, cells] * (DOUBT / CAUTION)  # <= 0
    low = np.where(plan.visits[step, cells] >= 1, q + doubt, -np.inf)
    low[here] = -np.inf
    needed = q[here] - doubt[here]
    for b in np.argsort(-low, kind="stable"):
        if not low[b] > needed:
            break
        if allowed is None or is_feasible(grid, n_state, b, allowed.allowed):
            return planner._action(_point(grid, n_state, int(b), allowed), allowed)
    return action


def _point(grid: Any, n_state: int, b: int, allowed: Feasible | None) -> Floats:
    """Return the point of the unit cube that is played in action cell `b`."""
    unit = np.empty(len(grid.bins) - n_state)
    for j in range(len(grid.bins) - 1, n_state - 1, -1):
        b, i = divmod(b, int(grid.bins[j]))
        unit[j - n_state] = (
            grid.centers[j, i]
            if allowed is None
            else feasible_at(grid, j, i, allowed.allowed[j - n_state])
        )
    return unit
