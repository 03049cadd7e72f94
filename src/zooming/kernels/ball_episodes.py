"""Run balls of a metric: single steps from Python, or whole episodes in compiled code.

`episodes` does the same for boxes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numba
import numpy as np
from numba import float64, int32, int64, uint8

from zooming.kernels.balls import (
    BALL,
    CORE,
    add_ball,
    index_of,
    play_action,
    point_of,
    select,
    update_ball,
)
from zooming.kernels.crossing import HANDLE, unpack
from zooming.kernels.jit import jit_kernel, jit_no_refcount, jit_with_signature
from zooming.kernels.layout import BAD_REWARD, BAD_STATE, DUE, EITHER, FINE, FULL
from zooming.kernels.pausing import pause, resume
from zooming.kernels.update_rule import ceiling, learned_reward

# Table and core come from Python as float64 arrays: passing records takes ten times as long.


@jit_kernel
def act(
    raw_table,
    raw_core,
    owner,
    mask,
    action_orders,
    grid,
    step,
    observation,
    ties,
    rule,
    seen,
    action,
):
    """Select a ball and write its action, in the environment's units.

    Return the row of the ball, or -1 - i for a bad coordinate i of the observation.
    """
    table = raw_table.view(BALL)
    core = raw_core.view(CORE)
    n_state = core[0]["n_state"]
    state = index_of(grid, 0, n_state, observation)
    if state < 0:
        return state
    row = select(table, core, owner, mask, step, state, ties, seen)
    played = play_action(table, core, owner, mask, action_orders, row, step, state, rule)
    point_of(grid, n_state, core[0]["n_action"], played, action)
    return row


@jit_no_refcount
def locate(core, owner, grid, step, observation, action):
    """Return the row of the ball that owns (observation, action), or -1 - axis for a bad
    coordinate.
    """
    n_state = core[0]["n_state"]
    state = index_of(grid, 0, n_state, observation)
    if state < 0:
        return state
    played = index_of(grid, n_state, core[0]["n_action"], action)
    if played < 0:
        return played - n_state
    return np.int64(owner[step, state, played])


@jit_kernel
def update(
    raw_table, raw_core, stats, owner, mask, grid, seen, step, observation, action, reward,
    next_observation, terminated,
    next_value,
):  # fmt: skip
    """Learn from one transition that comes from Python.

    Return FINE, or DUE - row if the ball in `row` is due to split, or BAD_STATE + i for a bad
    coordinate i of (observation, action, next observation). `next_value` is V(x') if the caller
    knows a better one, else NaN.
    """
    table = raw_table.view(BALL)
    core = raw_core.view(CORE)
    row = locate(core, owner, grid, step, observation, action)
    if row < 0:
        return BAD_STATE - 1 - row
    next_state = index_of(grid, 0, core[0]["n_state"], next_observation)
    if next_state < 0:
        return BAD_STATE + grid.shape[0] - 1 - next_state
    if terminated or step + 1 >= core[0]["horizon"]:
        next_value = 0.0
    elif np.isnan(next_value):
        best = select(table, core, owner, mask, step + 1, next_state, EITHER, seen)
        next_value = min(ceiling(core, step + 1), table[best]["value"])
    if update_ball(table, core, stats, step, row, reward, next_value):
        return DUE - row
    return FINE


def _play(
    table, core, stats, owner, distances, action_distances, orders, action_orders, grid, mask,
    seen, handle, params,
    n_env_steps, returns, n_balls, done, end, trouble, paused, clipping,
):  # fmt: skip
    """Play whole episodes until done[0] equals `end`; return a code, as `episodes._play` does.

    When a ball is due, the caller splits it and calls again; `paused` stores where the episode
    stopped. Lazy children are added here. The answer is FULL if the table lacks room for one child
    per step.
    """
    n_state = core[0]["n_state"]
    n_action = core[0]["n_action"]
    rng, dynamics, start = unpack(handle)
    n_steps = min(core[0]["horizon"], n_env_steps)
    ties = core[0]["ties"]
    rule = core[0]["action_rule"]
    point = np.empty(n_state)
    next_point = np.empty(n_state)
    action = np.empty(n_action)
    while done[0] < end:
        if core[0]["lazy"] == 1 and core[0]["n_rows"] + n_steps > table.shape[0]:
            return FULL
        first_step, row, total = resume(paused, point)
        if first_step == 0:
            start(params, rng, point)
        state = index_of(grid, 0, n_state, point)
        if state < 0:
            trouble[0], trouble[1], trouble[2] = 0, -1 - state, point[-1 - state]
            return BAD_STATE
        if first_step == 0:
            row = select(table, core, owner, mask, 0, state, ties, seen)
        for step in range(first_step, n_steps):
            played = play_action(table, core, owner, mask, action_orders, row, step, state, rule)
            point_of(grid, n_state, n_action, played, action)
            for i in range(n_state):
                next_point[i] = np.nan  # reveals a coordinate that the dynamics do not write
            reward = dynamics(point, action, step, params, rng, next_point)
            learned = learned_reward(
                reward, core[0]["reward_low"], core[0]["reward_high"], clipping
            )
            if np.isnan(learned):
                trouble[0], trouble[2] = step, reward
                return BAD_REWARD
            next_state = index_of(grid, 0, n_state, next_point)
            if next_state < 0:
                bad = -1 - next_state
                trouble[0], trouble[1], trouble[2] = step + 1, bad, next_point[bad]
                return BAD_STATE
            next_row = row
            next_value = 0.0
            if step + 1 < n_steps:
                next_row = select(table, core, owner, mask, step + 1, next_state, ties, seen)
                next_value = min(ceiling(core, step + 1), table[next_row]["value"])
            if learned != reward:
                clipping[1] += 1
            due = update_ball(table, core, stats, step, row, learned, next_value)
            if due and core[0]["lazy"] == 1:
                add_ball(
                    table,
                    core,
                    stats,
                    owner,
                    distances,
                    action_distances,
                    orders,
                    action_orders,
                    row,
                    state,
                    played,
                )
                due = False
            total += reward
            last = row
            row = next_row
            state = next_state
            for i in range(n_state):
                point[i] = next_point[i]
            if due:
                pause(paused, step + 1, row, total, last, point)
                return DUE
        returns[done[0]] = total
        n_balls[done[0]] = core[0]["n_balls"]
        done[0] += 1
    return FINE


@functools.cache
def play() -> Callable[..., int]:
    """Return `_play`, compiled on first use. It runs any environment's dynamics."""
    vector, matrix, order = float64[::1], float64[:, ::1], int32[:, ::1]
    return jit_with_signature(
        _play, numba.from_dtype(BALL)[::1], numba.from_dtype(CORE)[::1], matrix, int32[:, :, ::1],
        matrix, matrix, order, order,
        matrix, uint8[::1], int64[::1], HANDLE, vector, int64, vector, int64[::1], int64[::1],
        int64, vector, vector,
        int64[::1],
    )  # fmt: skip
