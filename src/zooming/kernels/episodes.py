"""Run boxes: single steps from Python, or whole episodes in compiled code.

Kernels validate only points and rewards, which they must read anyway. They return a code, and the
Python code raises the error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numba
import numpy as np
from numba import float64, int64, types

from zooming.kernels.boxes import find, new_stack, play_action, select, update_ball
from zooming.kernels.crossing import HANDLE, unpack
from zooming.kernels.jit import jit_kernel, jit_with_signature
from zooming.kernels.layout import (
    BAD_REWARD,
    BAD_STATE,
    BALL,
    CORE,
    DUE,
    EITHER,
    FINE,
    FULL,
    OWN,
    WRONG_SIZE,
)
from zooming.kernels.pausing import pause, resume
from zooming.kernels.points import to_unit
from zooming.kernels.splitting import rows_needed, split
from zooming.kernels.update_rule import ceiling, learned_reward


@jit_kernel
def best_ball(table, core, axes, step, observation, stack):
    """Return (row of the relevant ball with the largest Q, number of rows read).

    The row is -1 - i for a bad coordinate i.
    """
    state = np.empty(core[0]["n_state"])
    bad = to_unit(axes, 0, observation, state)
    if bad >= 0:
        return -1 - bad, 0
    return select(table, core, step, state, EITHER, stack)


@jit_kernel
def choose_any(table, core, axes, step, observation, ties, rule, action):
    """Write the action of the best ball (environment's units); return the row of the ball.

    Return -1 - i if coordinate i of the observation is bad.
    """
    n_state = core[0]["n_state"]
    state = np.empty(n_state)
    bad = to_unit(axes, 0, observation, state)
    if bad >= 0:
        return -1 - bad
    row, _ = select(table, core, step, state, ties, new_stack(core))
    low = np.empty(action.shape[0])
    play_action(table, core, axes, row, rule, low, np.empty(action.shape[0]), action)
    return row


def _act(raw_table, raw_core, axes, step, observation, action):
    """Select a ball as in training and write its action.

    Return -1, or the index of a bad coordinate, or WRONG_SIZE. Here and in `_update`, table and
    core come from Python as float64 arrays: that takes a third of the time. All scratch vectors are
    slices of one array, because an allocation costs as much as a selection.
    """
    table = raw_table.view(BALL)
    core = raw_core.view(CORE)
    n_state = core[0]["n_state"]
    n_action = core[0]["n_action"]
    if observation.shape[0] != n_state:
        return WRONG_SIZE
    scratch = np.empty(n_state + 2 * n_action)
    state = scratch[:n_state]
    bad = to_unit(axes, 0, observation, state)
    if bad >= 0:
        return bad
    row, _ = select(table, core, step, state, core[0]["ties"], new_stack(core))
    low = scratch[n_state : n_state + n_action]
    play_action(
        table, core, axes, row, core[0]["action_rule"], low, scratch[n_state + n_action :], action
    )
    return -1


@jit_kernel
def locate(table, core, axes, step, observation, action, unit):
    """Return the row of the ball that contains (observation, action), or -1 - axis if one is bad.

    The point is written to `unit`, in the unit cube.
    """
    n_state = core[0]["n_state"]
    bad = to_unit(axes, 0, observation, unit[:n_state])
    if bad >= 0:
        return -1 - bad
    bad = to_unit(axes, n_state, action, unit[n_state:])
    if bad >= 0:
        return -1 - n_state - bad
    return find(table, n_state, step, unit[:n_state], unit[n_state:])


def _update(
    raw_table,
    raw_core,
    stats,
    axes,
    step,
    observation,
    action,
    reward,
    next_observation,
    terminated,
    next_value,
):
    """Learn from one transition that comes from Python.

    Return FINE, or DUE - row if the user's rule must split the ball in `row`, or FULL (grow the
    table and call again), or WRONG_SIZE, or BAD_STATE + i for a bad coordinate i of (observation,
    action, next observation). The table changes only if the answer is FINE or DUE - row.
    `next_value` is V(x') if the caller knows a better one, else NaN.
    """
    table = raw_table.view(BALL)
    core = raw_core.view(CORE)
    n_state = core[0]["n_state"]
    n_axes = n_state + core[0]["n_action"]
    if (
        observation.shape[0] != n_state
        or action.shape[0] != n_axes - n_state
        or next_observation.shape[0] != n_state
    ):
        return WRONG_SIZE
    if core[0]["n_rows"] + rows_needed(core, 1) > table.shape[0]:
        return FULL
    unit = np.empty(n_axes)
    row = locate(table, core, axes, step, observation, action, unit)
    if row < 0:
        return BAD_STATE - 1 - row
    next_state = unit[:n_state]
    bad = to_unit(axes, 0, next_observation, next_state)
    if bad >= 0:
        return BAD_STATE + n_axes + bad
    if terminated or step + 1 >= core[0]["horizon"]:
        next_value = 0.0
    elif np.isnan(next_value):
        next_row, _ = select(table, core, step + 1, next_state, EITHER, new_stack(core))
        next_value = min(ceiling(core, step + 1), table[next_row]["value"])
    if update_ball(table, core, stats, axes, step, row, reward, next_value):
        if core[0]["rule"] == OWN:
            return DUE - row
        split(table, core, stats, axes, row)
    return FINE


@jit_kernel
def greedy(table, core, axes, steps, observations, rule, actions):
    """Write the action of the best ball for each (step, observation).

    Return (k, i) if coordinate i of observation k is bad, else (-1, -1).
    """
    stack = new_stack(core)
    low = np.empty(actions.shape[1])
    high = np.empty(actions.shape[1])
    for k in range(steps.shape[0]):
        row, _ = best_ball(table, core, axes, steps[k], observations[k], stack)
        if row < 0:
            return k, -1 - row
        play_action(table, core, axes, row, rule, low, high, actions[k])
    return -1, -1


def _play(
    table, core, stats, axes, handle, params, n_env_steps, returns, n_balls, done, end, trouble,
    paused, clipping
):  # fmt: skip
    """Play whole episodes until done[0], the number of finished episodes, equals `end`.

    Return FINE, FULL (grow the table and call again), DUE, BAD_REWARD or BAD_STATE. For the last
    two, `trouble` is (step, coordinate, value). DUE means that the user's rule must split a ball:
    the caller splits it and calls again, and `paused` stores where the episode stopped (see
    `pausing`). `clipping` is (1 if rewards are clipped, number of clipped rewards). Returns add up
    the rewards before clipping. All results are written here, so an interrupt after the return
    loses nothing.

    The next state is looked up once. Its best ball gives V(x') for this update and is the ball to
    play next: the partition of step h+1 does not change in between.
    """
    n_state = core[0]["n_state"]
    n_action = core[0]["n_action"]
    rng, dynamics, start = unpack(handle)
    n_steps = min(core[0]["horizon"], n_env_steps)
    ties = core[0]["ties"]
    rule = core[0]["action_rule"]
    stack = new_stack(core)
    state = np.empty(n_state)
    next_state = np.empty(n_state)
    unit_state = np.empty(n_state)
    unit_action = np.empty(n_action)
    action = np.empty(n_action)
    low = np.empty(n_action)
    high = np.empty(n_action)
    while done[0] < end:
        if core[0]["n_rows"] + rows_needed(core, n_steps) > table.shape[0]:
            return FULL
        first_step, row, total = resume(paused, state)
        if first_step == 0:
            start(params, rng, state)
        bad = to_unit(axes, 0, state, unit_state)
        if bad >= 0:
            trouble[0], trouble[1], trouble[2] = 0, bad, state[bad]
            return BAD_STATE
        if first_step == 0:
            row, _ = select(table, core, 0, unit_state, ties, stack)
        for step in range(first_step, n_steps):
            if not play_action(table, core, axes, row, rule, low, high, action):
                to_unit(axes, n_state, action, unit_action)
                row = find(table, n_state, step, unit_state, unit_action)
            for i in range(n_state):
                next_state[i] = np.nan  # reveals a coordinate that the dynamics do not write
            reward = dynamics(state, action, step, params, rng, next_state)
            learned = learned_reward(
                reward, core[0]["reward_low"], core[0]["reward_high"], clipping
            )
            if np.isnan(learned):
                trouble[0], trouble[2] = step, reward
                return BAD_REWARD
            bad = to_unit(axes, 0, next_state, unit_state)
            if bad >= 0:
                trouble[0], trouble[1], trouble[2] = step + 1, bad, next_state[bad]
                return BAD_STATE
            next_row = row
            next_value = 0.0
            if step + 1 < n_steps:
                next_row, _ = select(table, core, step + 1, unit_state, ties, stack)
                next_value = min(ceiling(core, step + 1), table[next_row]["value"])
            if learned != reward:
                clipping[1] += 1
            if update_ball(table, core, stats, axes, step, row, learned, next_value):
                if core[0]["rule"] == OWN:
                    pause(paused, step + 1, next_row, total + reward, row, next_state)
                    return DUE
                split(table, core, stats, axes, row)
            total += reward
            row = next_row
            for i in range(n_state):
                state[i] = next_state[i]
        returns[done[0]] = total
        n_balls[done[0]] = core[0]["n_balls"]
        done[0] += 1
    return FINE


@functools.cache
def play() -> Callable[..., int]:
    """Return `_play`, compiled on first use."""
    table, core, stats, axes = (
        numba.from_dtype(BALL)[::1],
        numba.from_dtype(CORE)[::1],
        float64[:, ::1],
        float64[:, ::1],
    )
    vector, whole = float64[::1], int64[::1]
    return jit_with_signature(
        _play, table, core, stats, axes, HANDLE, vector, int64, vector, whole, whole, int64,
        vector, vector, whole,
    )  # fmt: skip


@functools.cache
def act() -> Callable[..., int]:
    """Return `_act`, compiled on first use."""
    return jit_with_signature(
        _act, float64[::1], float64[::1], float64[:, ::1], int64, float64[::1], float64[::1]
    )


@functools.cache
def update() -> Callable[..., int]:
    """Return `_update`, compiled on first use."""
    vector, matrix = float64[::1], float64[:, ::1]
    return jit_with_signature(
        _update,
        vector,
        vector,
        matrix,
        matrix,
        int64,
        vector,
        vector,
        float64,
        vector,
        types.boolean,
        float64,
    )
