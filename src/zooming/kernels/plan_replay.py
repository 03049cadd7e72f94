"""Add transitions that other agents played to the samples of a planner."""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_kernel
from zooming.kernels.layout import BAD_REWARD, BAD_STATE, DUE, FINE
from zooming.kernels.plan_episodes import record
from zooming.kernels.plan_layout import LATER, cells_at
from zooming.kernels.points import to_unit
from zooming.kernels.update_rule import learned_reward


@jit_kernel
def record_many(
    handle, steps, states, actions, rewards, next_states, terminated, clipping, done
):  # fmt: skip
    """Keep the transitions from index done[0] on, in their order. Return (code, coordinate).

    Points are flat as in `Axes.flat_state`. FINE: all are kept. DUE: transition done[0] begins an
    episode for which a plan is overdue, see LATER. BAD_REWARD and BAD_STATE: transition done[0] is
    refused, as by `update`. Coordinates are counted over state, action and next state. The caller
    has reserved room.
    """
    core, samples, grid, _, axes = cells_at(handle)
    n_state, n_action = core[0]["n_state"], core[0]["n_action"]
    state, action, after = np.empty(n_state), np.empty(n_action), np.empty(n_state)
    while done[0] < steps.shape[0]:
        k = done[0]
        reward = learned_reward(rewards[k], core[0]["reward_low"], core[0]["reward_high"], clipping)
        if np.isnan(reward):
            return BAD_REWARD, -1
        bad = to_unit(axes, 0, states[k], state)
        if bad >= 0:
            return BAD_STATE, bad
        bad = to_unit(axes, n_state, actions[k], action)
        if bad >= 0:
            return BAD_STATE, n_state + bad
        bad = to_unit(axes, 0, next_states[k], after)
        if bad >= 0:
            return BAD_STATE, n_state + n_action + bad
        is_overdue = (
            core[0]["n_episodes"] >= LATER * core[0]["due"]
            or core[0]["n_samples"] > core[0]["most_samples"]
        )
        if steps[k] == 0 and is_overdue:
            return DUE, -1
        if reward != rewards[k]:
            clipping[1] += 1
        record(core, samples, grid.units, steps[k], state, action, reward, after, terminated[k])
        done[0] += 1
    return FINE, -1
