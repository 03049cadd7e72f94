"""Read policy and values from a table of balls, without learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.partitions.table import Answer
from zooming.spaces.masks import Feasible
from zooming.validation import Floats

if TYPE_CHECKING:
    from zooming.agents.q_learner import QLearner


def select(
    agent: QLearner,
    table: Any,
    step: int,
    state: Floats,
    ties: int,
    rule: int,
    allowed: Feasible | None,
) -> tuple[Floats, int]:
    """Select a ball and an allowed action in one state. Return (flat action, row of the ball).

    `ties` and `rule` are codes of `kernels`: how ties are broken, and where in a ball to play.
    """
    action = np.empty(agent.axes.n_action)
    code, row = table.select(step, state, action, ties=ties, rule=rule, allowed=allowed)
    if code != kernels.FINE:
        raise agent.problem.bad_point(step, row, state)
    return action, row


def greedy_actions(
    agent: QLearner,
    steps: NDArray[np.int64],
    states: Floats,
    deterministic: bool,
    allowed: Sequence[Feasible | None],
) -> Floats:
    """Return one allowed flat action per (step, state): the center of the best ball.

    If `deterministic` is false, the action is drawn uniformly from that ball.
    """
    table = agent.learned
    core = table.core
    rule = int(core["action_rule"][0]) if agent.action != "uniform" else kernels.CENTER
    if not deterministic:
        # Draw from a copy with fresh randomness, so that predict does not change learning.
        core, rule = core.copy(), kernels.UNIFORM
        core["random"] = np.random.SeedSequence().generate_state(1, np.uint64)
    actions = np.empty((len(steps), agent.axes.n_action))
    k, i = table.select_many(steps, states, actions, rule=rule, allowed=allowed, core=core)
    if k >= 0:
        raise agent.problem.bad_point(int(steps[k]), i, states[k])
    return actions


def value_at(
    agent: QLearner, table: Any, step: int, observation: Any, info: Mapping[str, Any] | None
) -> float:
    """Return V(observation) according to one table of the agent."""
    step = agent.problem.check_step(step)
    state, allowed = agent.problem.flat_state(step, observation), agent._feasible(step, info)
    _, row = select(agent, table, step, state, kernels.EITHER, kernels.CENTER, allowed)
    return float(table.value(step, row))


def row_at(agent: QLearner, step: int, observation: Any, action: Any) -> int:
    """Return the row of the ball that contains (observation, action)."""
    problem = agent.problem
    step = problem.check_step(step)
    state, played = problem.flat_state(step, observation), problem.flat_action(step, action)
    answer: Answer = agent.learned.locate(step, state, played)
    if answer[0] != kernels.FINE:
        raise problem.bad_point(step, answer[1], state, played)
    return answer[1]
