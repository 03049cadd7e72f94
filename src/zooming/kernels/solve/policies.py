"""Play a policy that is solved on a grid of states: one action, given noise, whole episodes.

A state belongs to the nearest grid point. The action of that point is moved, on each axis towards
the neighbor on the state's side, by the share of the way to the neighbor, if `mixes` says so:

    a(x) = a_i + sum_j |x_j - c_ij| / |c_n(j)j - c_ij| (a_n(j) - a_i).

`export.grid.ActionGrid` computes the same, operation by operation, so an exported policy plays the
same actions to the last bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import float64, int64, types, uint8, void

from zooming.kernels.boxes.layout import BAD_REWARD, BAD_STATE, FINE
from zooming.kernels.boxes.update_rule import learned_reward
from zooming.kernels.loop.crossing import TOLD_HANDLE, unpack_told
from zooming.kernels.loop.heuristics import clip
from zooming.kernels.loop.jit import (
    GIVEN,
    compile_kernel,
    jit_no_refcount,
    jit_with_signature,
)

LOW, WIDTH, ACTION_LOW, ACTION_HIGH = 0, 1, 2, 3  # rows of `frame`


@jit_no_refcount
def choose(step, state, frame, cells, best, mixes, action):
    """Write the action of a step in a state.

    `frame` has the rows LOW and WIDTH of the states, ACTION_LOW and ACTION_HIGH. `cells` is the
    number of cells per state axis. best[step, point] is the action of a grid point, the last axis
    fastest, and mixes[step, point, 2 j + side] whether to mix in the neighbor below (0) or above
    (1) on axis j.
    """
    n_state, n_action = cells.shape[0], action.shape[0]
    index = 0
    for j in range(n_state):
        n = cells[j]
        unit = (state[j] - frame[LOW, j]) / frame[WIDTH, j]
        i = min(max(int(np.floor(unit * n + 0.5)), 0), n)
        while i < n and (i + 0.5) / n <= unit:  # rounding: as the borders of an exported policy
            i += 1
        while i > 0 and (i - 0.5) / n > unit:
            i -= 1
        index = index * (n + 1) + i
    for k in range(n_action):
        action[k] = best[step, index, k]
    rest, stride = index, 1
    for j in range(n_state - 1, -1, -1):
        n = cells[j]
        i = rest % (n + 1)
        rest //= n + 1
        away = (state[j] - frame[LOW, j]) / frame[WIDTH, j] - i / max(n, 1)
        side = 1 if away > 0.0 else 0
        if mixes[step, index, 2 * j + side] == 1:
            there = index + (2 * side - 1) * stride
            share = abs(away) / abs((i + 2 * side - 1) / n - i / n)
            for k in range(n_action):
                action[k] += share * (best[step, there, k] - best[step, index, k])
        stride *= n + 1
    for k in range(n_action):
        action[k] = min(max(action[k], frame[ACTION_LOW, k]), frame[ACTION_HIGH, k])


def _choose_all(steps, states, frame, cells, best, mixes, actions):
    """Write the action of each (step, state)."""
    for i in range(states.shape[0]):
        choose(steps[i], states[i], frame, cells, best, mixes, actions[i])


def _advance(given, params, step, states, actions, outcomes, after, rewards):
    """Play one step for given outcomes: row i of all arrays belongs to one episode."""
    for i in range(states.shape[0]):
        for axis in range(after.shape[1]):
            after[i, axis] = np.nan
        rewards[i] = given(states[i], actions[i], step, params, outcomes[i], after[i])


def _play(
    handle, params, n_steps, reward_low, reward_high, frame, cells, best, mixes, bounds, outcomes,
    returns, n_balls, done, end, trouble, clipping, seen,
):  # fmt: skip
    """Play whole episodes until done[0] equals `end`. Write each outcome, and count it in seen[0].

    Return FINE, BAD_REWARD or BAD_STATE, with (step, coordinate, value) in `trouble`. `bounds` has
    (low, high, 1 for integers) of each state axis.
    """
    rng, draw, start, given = unpack_told(handle)
    n_state = bounds.shape[0]
    state, next_state, clipped = np.empty(n_state), np.empty(n_state), np.empty(n_state)
    action = np.empty(best.shape[2])
    while done[0] < end:
        for i in range(n_state):
            state[i] = np.nan
        start(params, rng, state)
        bad = clip(bounds, state, clipped)
        if bad >= 0:
            trouble[0], trouble[1], trouble[2] = 0, bad, state[bad]
            return BAD_STATE
        total = 0.0
        for step in range(n_steps):
            choose(step, clipped, frame, cells, best, mixes, action)
            outcome = outcomes[seen[0]]
            reward = draw(state, action, step, params, rng, outcome)  # NaN if there is no law
            for i in range(n_state):
                next_state[i] = np.nan
            if not np.isnan(reward):
                reward = given(state, action, step, params, outcome, next_state)
            learned = learned_reward(reward, reward_low, reward_high, clipping)
            if np.isnan(learned):
                trouble[0], trouble[2] = step, reward
                return BAD_REWARD
            bad = clip(bounds, next_state, clipped)
            if bad >= 0:
                trouble[0], trouble[1], trouble[2] = step + 1, bad, next_state[bad]
                return BAD_STATE
            if learned != reward:
                clipping[1] += 1
            seen[0] += 1
            total += reward
            for i in range(n_state):
                state[i] = next_state[i]
        returns[done[0]] = total
        n_balls[done[0]] = best.shape[0] * best.shape[1]
        done[0] += 1
    return FINE


_VECTOR, _MATRIX, _CUBE = float64[::1], float64[:, ::1], float64[:, :, ::1]
_POLICY = _MATRIX, int64[::1], _CUBE, uint8[:, :, ::1]


@functools.cache
def choose_all() -> Callable[..., None]:
    """Return `_choose_all`, compiled on first use."""
    return jit_with_signature(
        _choose_all, int64[::1], _MATRIX, *_POLICY, _MATRIX, returns=void, name="choose_all"
    )


@functools.cache
def advance() -> Callable[..., None]:
    """Return `_advance`, compiled on first use for the dynamics of any environment."""
    functions = types.FunctionType(GIVEN), _VECTOR, int64
    kernel: Callable[..., None] = compile_kernel(
        _advance, void(*functions, _MATRIX, _MATRIX, _MATRIX, _MATRIX, _VECTOR)
    )
    return kernel


@functools.cache
def play() -> Callable[..., int]:
    """Return `_play`, compiled on first use."""
    whole = int64[::1]
    return jit_with_signature(
        _play, TOLD_HANDLE, _VECTOR, int64, float64, float64, *_POLICY, _MATRIX, _MATRIX, _VECTOR,
        whole, whole, int64, _VECTOR, whole, whole,
    )  # fmt: skip
