"""Learn from a step and select the next action in one kernel call, for the Python driver.

`act` and `update` of a `QLearner` do the same in two calls.

Names are imported one by one, here and in `table_steps`: a step is so short that looking each of
them up in its module takes 4 % of it.
"""

from __future__ import annotations

from typing import Any

from numpy import empty

from zooming.agents.agent import Agent
from zooming.agents.q_learner import QLearner
from zooming.agents.table_steps import is_vector
from zooming.kernels import DUE, FINE, GOES_ON, TERMINATED, TRUNCATED, WRONG_SIZE


def can_step_on(agent: Agent) -> bool:
    """Return whether a driver may call `start` and `step_on` instead of `act` and `update`.

    It may not if the agent is not a `QLearner`, or if a subclass or a caller has replaced one of
    these methods.
    """
    own = getattr(agent.act, "__func__", None), getattr(agent.update, "__func__", None)
    return own == (QLearner.act, QLearner.update)


def start(agent: QLearner, observation: Any) -> Any:
    """Return the first action of an episode. Calls of `step_on` must follow."""
    with agent.lock:
        return agent._act(0, observation, None, True)


def step_on(
    agent: QLearner,
    step: int,
    observation: Any,
    action: Any,
    reward: float,
    next_observation: Any,
    terminated: bool,
    truncated: bool,
) -> Any:
    """Learn from a step and return the next action, or None if the episode is over.

    One kernel call does the work of `update` and of the next `act`. `action` must be the last one
    that `start` or `step_on` returned.
    """
    with agent.lock:
        return _step_on(
            agent, step, observation, action, reward, next_observation, terminated, truncated
        )


def _step_on(
    agent: QLearner,
    step: int,
    observation: Any,
    action: Any,
    reward: float,
    next_observation: Any,
    terminated: bool,
    truncated: bool,
) -> Any:
    axes, table = agent.axes, agent.table
    is_over = terminated or truncated or step + 1 >= agent.horizon
    if isinstance(reward, float) and agent._lowest_reward <= reward <= agent._highest_reward:
        after = (
            next_observation
            if axes.has_plain_states and is_vector(next_observation)
            else agent.problem.flat_state(step, next_observation, "next ")
        )
        end = TERMINATED if terminated else TRUNCATED if truncated else GOES_ON
        played = empty(axes.n_action)
        try:
            code = table.next_step(table.handle, step, reward, after, end, played)
        except (TypeError, ValueError):  # not a float64 vector: `update` converts it
            code = WRONG_SIZE
        if code == DUE:
            table.split(table.payload)
            code = FINE
        if code == FINE:
            if is_over:
                return None
            return played if axes.has_plain_actions else axes.shaped_action(played)
    agent.update(step, observation, action, reward, next_observation, terminated)
    return None if is_over else agent._act(step + 1, next_observation, None, True)
