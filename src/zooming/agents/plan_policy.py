"""Read the actions of a planner's policy, without learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zooming.kernels import FIRST_VALUE, plan_actions
from zooming.spaces.masks import Feasible
from zooming.validation import Floats

if TYPE_CHECKING:
    from zooming.agents.planner import Planner

_EVERYTHING = np.empty((0, FIRST_VALUE))  # `allowed` of the kernels if all actions are feasible


def allowed_rows(allowed: Feasible | None) -> Floats:
    """Return the rows of allowed actions that the kernels read; None allows everything."""
    return _EVERYTHING if allowed is None else allowed.allowed


def greedy_actions(
    agent: Planner,
    steps: NDArray[np.int64],
    states: Floats,
    deterministic: bool,
    allowed: Sequence[Feasible | None],
) -> Floats:
    """Return the best allowed flat action of the policy for each (step, state).

    If not `deterministic`, draw the action uniformly from the cell of the best action.
    """
    policy, axes = agent.table.policy(), agent.axes
    actions = np.empty((len(steps), axes.n_action))
    if deterministic and not any(allowed):
        k, i = plan_actions.choose_many(policy.handle, steps, states, actions)
        if k >= 0:
            raise agent.problem.bad_point(int(steps[k]), int(i), states[k])
        return actions
    generator, unit = np.random.default_rng(), np.empty(axes.n_action)
    for k, (step, one) in enumerate(zip(steps.tolist(), allowed, strict=True)):
        state = agent._unit(agent.problem.check_point(step, states[k], 0), 0)
        cell = write_best(agent, step, state, one, unit)
        if not deterministic:
            unit = _draw(agent, cell, generator)
        actions[k] = agent._action(unit, one)
    return actions


def write_best(
    agent: Planner, step: int, state: Floats, allowed: Feasible | None, unit: Floats
) -> int:
    """Write the policy's action, a point of the unit cube, into `unit`; return its cell."""
    policy = agent.table.policy()
    return int(plan_actions.choose_at(policy.handle, step, state, allowed_rows(allowed), unit))


def _draw(agent: Planner, cell: int, generator: np.random.Generator) -> Floats:
    """Return an action, in the unit cube, drawn uniformly from a cell."""
    grid, n_state = agent.table.policy().grid, agent.axes.n_state
    unit = np.empty(agent.axes.n_action)
    for j in range(len(agent.axes) - 1, n_state - 1, -1):
        cell, i = divmod(cell, int(grid.bins[j]))
        low, high = grid.edges[j, i : i + 2] / grid.units[j]
        unit[j - n_state] = low + generator.random() * (high - low)
    return unit
