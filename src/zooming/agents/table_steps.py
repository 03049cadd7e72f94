"""One step on a table of balls: choose an action, or learn from a transition.

The inputs of a user's loop may have any form. What the kernels do not take is converted here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy import dtype, empty, float64, ndarray

from zooming.agents.clipping import count_clipped
from zooming.agents.core import TIES
from zooming.agents.doubling import restart_if_due
from zooming.agents.table_policy import select, value_at
from zooming.kernels import BAD_STATE, DUE, FINE, WRONG_SIZE
from zooming.spaces.masks import has_mask

if TYPE_CHECKING:
    from zooming.agents.q_learner import QLearner


_FLOAT = dtype(float64)


def is_vector(point: Any) -> bool:
    """Return whether a kernel takes a point as it is.

    For a list, Numba would search for a conversion in Python code, where a signal may be handled.
    """
    return type(point) is ndarray and point.dtype is _FLOAT


def choose_action(
    agent: QLearner, step: int, observation: Any, info: Mapping[str, Any] | None, keeps: bool
) -> Any:
    """Return the action to play while learning, see `QLearner.act`.

    If `keeps` is set, `stepping.step_on` may follow instead of `update`.
    """
    if type(step) is not int or not 0 <= step < agent.horizon:
        step = agent.problem.check_step(step)
    if step == 0 and agent._first_table is not None:
        agent.checked_state(step, observation)  # raise before the restart forgets anything
        restart_if_due(agent)
    axes, table = agent.axes, agent.table
    if info and has_mask(info):
        state, allowed = agent.problem.flat_state(step, observation), agent._feasible(step, info)
        rule = int(table.core["action_rule"][0])
        action, _ = select(agent, table, step, state, TIES[agent.ties], rule, allowed)
        return axes.shaped_action(action)
    action = empty(axes.n_action)
    is_plain = axes.has_plain_states and is_vector(observation)
    flat = observation if is_plain else agent.problem.flat_state(step, observation)
    try:
        code = table.act(step, flat, action, keeps)
    except (TypeError, ValueError):  # not a float64 vector: convert it below
        code = WRONG_SIZE
    if code != FINE:
        state = agent.problem.flat_state(step, observation)
        code = table.act(step, state, action, keeps)
        if code != FINE:
            raise agent.problem.bad_point(step, table.payload, state)
    return action if axes.has_plain_actions else axes.shaped_action(action)


def learn_step(
    agent: QLearner,
    step: int,
    observation: Any,
    action: Any,
    reward: float,
    next_observation: Any,
    terminated: bool,
    next_info: Mapping[str, Any] | None,
) -> None:
    """Learn from one transition, see `QLearner.update`."""
    problem, axes = agent.problem, agent.axes
    if type(step) is not int or not 0 <= step < agent.horizon:
        step = problem.check_step(step)
    if step == 0 and agent._first_table is not None:
        problem.check_transition(step, observation, action, reward, next_observation)
        restart_if_due(agent)
    is_clipped = False
    if not (isinstance(reward, float) and agent._lowest_reward <= reward <= agent._highest_reward):
        given, reward = reward, problem.check_reward(step, reward)
        is_clipped = bool(given != reward)
    state, played, after = observation, action, next_observation
    if not (axes.has_plain_states and is_vector(observation) and is_vector(next_observation)):
        state = problem.flat_state(step, observation)
        after = problem.flat_state(step, next_observation, "next ")
    if not (axes.has_plain_actions and is_vector(action)):
        played = problem.flat_action(step, action)
    next_value = math.nan
    if next_info and has_mask(next_info) and not terminated and step + 1 < agent.horizon:
        flat = problem.flat_state(step, next_observation, "next ")
        problem.check_point(step, flat, 0, "next ")
        next_value = value_at(agent, agent.table, step + 1, next_observation, next_info)
    try:
        code = agent.table.update(step, state, played, reward, after, bool(terminated), next_value)
    except (TypeError, ValueError):  # not float64 vectors: convert them below
        code = WRONG_SIZE
    if code != FINE and code != DUE:
        state, played = problem.flat_state(step, observation), problem.flat_action(step, action)
        after = problem.flat_state(step, next_observation, "next ")
        code = agent.table.update(step, state, played, reward, after, bool(terminated), next_value)
        if code == BAD_STATE:
            raise problem.bad_point(step, agent.table.payload, state, played, after)
    if is_clipped:
        count_clipped(agent)
    if code == DUE:
        agent.table.split(agent.table.payload)
