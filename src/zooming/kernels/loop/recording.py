"""Record the transitions that an agent plays in compiled code, for other agents to learn from.

An environment crosses into compiled code as its dynamics and its parameters. To record, the
dynamics are replaced by functions that call the real dynamics and store the transition. The
parameters are replaced by a `memory`, which contains the real parameters and the rows stored so
far. So every compiled agent can be recorded without changing its kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float64, int64, void

from zooming.kernels.loop.crossing import BY_ADDRESS, unpack
from zooming.kernels.loop.jit import GENERATOR, IS_JIT_DISABLED, jit_kernel, jit_with_signature

# Fields of a memory. The handle of the real environment follows, as bits of int64, if environments
# cross by address; then its parameters; then the rows.
COUNT, FIRST_PARAMETER, FIRST_ROW, REWARD_LOW, REWARD_HIGH, HANDLE = range(6)

_ARGUMENTS = float64[::1], float64[::1], int64, float64[::1], GENERATOR, float64[::1]
_START = float64[::1], GENERATOR, float64[::1]


def new_memory(
    handle: Any,
    params: Any,
    n_rows: int,
    n_numbers: int,
    reward_low: float,
    reward_high: float,
) -> Any:
    """Return a memory for `n_rows` transitions of `n_numbers` numbers each."""
    words = handle.view(np.float64) if BY_ADDRESS else np.empty(0)
    first = HANDLE + len(words)
    memory = np.zeros(first + len(params) + n_rows * n_numbers)
    memory[:HANDLE] = 0, first, first + len(params), reward_low, reward_high
    memory[HANDLE:first], memory[first : first + len(params)] = words, params
    return memory


@jit_kernel
def parameters(memory):
    """Return the real parameters, a view into the memory."""
    return memory[int(memory[FIRST_PARAMETER]) : int(memory[FIRST_ROW])]


@jit_kernel
def write_row(memory, state, action, step, reward, next_state):
    """Store a transition. Return its reward, or NaN if it is outside the reward range.

    A row is (step, reward, state, action, next state). NaN makes the agent refuse the transition.
    """
    n_state, n_action = state.shape[0], action.shape[0]
    at = int(memory[FIRST_ROW]) + int(memory[COUNT]) * (2 + 2 * n_state + n_action)
    memory[at], memory[at + 1] = step, reward
    for i in range(n_state):
        memory[at + 2 + i] = state[i]
        memory[at + 2 + n_state + n_action + i] = next_state[i]
    for i in range(n_action):
        memory[at + 2 + n_state + i] = action[i]
    memory[COUNT] += 1.0
    return reward if memory[REWARD_LOW] <= reward <= memory[REWARD_HIGH] else np.nan


@jit_kernel
def real_handle(memory):
    """Return the handle of the real environment, a view into the memory."""
    return memory[HANDLE : int(memory[FIRST_PARAMETER])].view(np.int64)


def _recorded_dynamics(state, action, step, memory, rng, next_state):
    """Call the real dynamics and store the transition."""
    _, dynamics, _ = unpack(real_handle(memory))
    reward = dynamics(state, action, step, parameters(memory), rng, next_state)
    return write_row(memory, state, action, step, reward, next_state)


def _recorded_start(memory, rng, state):
    """Call the real start function."""
    _, _, start = unpack(real_handle(memory))
    start(parameters(memory), rng, state)


@functools.cache
def _by_address() -> tuple[Callable[..., float], Callable[..., None]]:
    """Return compiled recording functions that find the real functions in the memory."""
    return (
        jit_with_signature(_recorded_dynamics, *_ARGUMENTS, returns=float64),
        jit_with_signature(_recorded_start, *_START, returns=void),
    )


@functools.lru_cache(64)
def _around(dynamics: Any, start: Any) -> tuple[Callable[..., float], Callable[..., None]]:
    """Return recording functions for one environment. Used if addresses cannot be passed."""

    def recorded(state, action, step, memory, rng, next_state):
        reward = dynamics(state, action, step, parameters(memory), rng, next_state)
        return write_row(memory, state, action, step, reward, next_state)

    def started(memory, rng, state):
        start(parameters(memory), rng, state)

    if IS_JIT_DISABLED:
        return recorded, started
    return (
        jit_with_signature(recorded, *_ARGUMENTS, returns=float64, on_disk=False),
        jit_with_signature(started, *_START, returns=void, on_disk=False),
    )


def recording_functions(
    dynamics: Any, start: Any
) -> tuple[Callable[..., float], Callable[..., None]]:
    """Return a dynamics and a start function that record. Their parameters are a memory."""
    return _by_address() if BY_ADDRESS else _around(dynamics, start)
