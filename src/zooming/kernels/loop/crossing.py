"""Pass an environment's functions and its generator into compiled code as addresses.

Numba unboxes a NumPy Generator or a first-class function by calling back into Python. A signal
handler that raises during such a call can crash the process, and the calls take up to 200 us. An
int64 array is unboxed without running Python code, so no signal handler can run in between.
Compiled code rebuilds Numba's own structures from the addresses in the array.

`numba_parts` knows the memory layout of these structures. If a version of Numba has another layout,
`BY_ADDRESS` is False and the objects themselves are passed. That is slower, and correct, but not
safe from signals.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import carray, float64, int64, types, void
from numba.extending import intrinsic

from zooming.kernels.boxes.layout import BALL, CORE, METRIC_BALL, METRIC_CORE
from zooming.kernels.loop.jit import (
    DYNAMICS,
    GENERATOR,
    GIVEN,
    IS_JIT_DISABLED,
    START,
    jit_inline_refcount,
    jit_kernel,
    jit_with_signature,
)
from zooming.kernels.loop.numba_parts import (
    BIT_GENERATOR_WORDS,
    function_addresses,
    generator_at,
    has_known_structures,
    make_function_at,
)

# Numba's type of a handle, for the signatures of kernels.
TABLE = types.pyobject if IS_JIT_DISABLED else int64[::1]
_WORDS = 4  # of each array in a handle: its address, and up to three lengths


class Boxes(NamedTuple):
    """The arrays of a `BoxTable`, with scratch memory."""

    rows: Any  # BALL [n_rows]
    core: Any  # CORE [1]
    stats: Any  # float64 [n_rows or 0, N_STATS]
    axes: Any  # float64 [n_axes, 5], see `layout.LOW`
    place: Any  # int64, see `layout.KEPT_STEP`
    state: Any  # float64 [n_state], in the unit cube
    action: Any  # float64 [n_action], in the unit cube
    low: Any  # float64 [n_action]
    high: Any  # float64 [n_action]
    stack: Any  # int64, see `new_stack`
    more: Any  # handle of what is kept beside the balls, see `layout.SEARCH`; empty for most agents


class Balls(NamedTuple):
    """The arrays of a `BallTable` with its metric and scratch memory. See `balls`."""

    rows: Any  # METRIC_BALL [n_rows]
    core: Any  # METRIC_CORE [1]
    stats: Any  # float64 [n_rows or 0, N_STATS]
    owner: Any  # int32 [n_steps, n_states, n_actions]
    distances: Any  # float64 [n_states, n_states], or of all pairs
    action_distances: Any  # float64 [n_actions, n_actions]
    orders: Any  # int32, as `distances`
    action_orders: Any  # int32, as `action_distances`, or of all pairs
    grid: Any  # float64 [n_axes, 4], see `balls.COUNT`
    everything: Any  # uint8 [n_actions], all 1: the mask if every action is feasible
    place: Any  # int64, see `layout.KEPT_STEP`
    seen: Any  # int64 [n_rows + 1], see `balls.select`


def pack(record: Any) -> Any:
    """Return the handle of a record of arrays, or the record if compilation is disabled."""
    if IS_JIT_DISABLED:
        return record
    words: list[int] = []
    for array in record:
        words += [array.ctypes.data, *array.shape, *[0] * (_WORDS - 1 - array.ndim)]
    return np.array(words, np.int64)


@intrinsic
def _pointer(context, address):
    """Convert an address to a pointer."""

    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(address), build


@jit_inline_refcount
def vector_at(words, i, dtype):
    """Return the one-dimensional array number i of a handle. References are not counted."""
    return carray(_pointer(words[_WORDS * i]), words[_WORDS * i + 1], dtype)


@jit_inline_refcount
def matrix_at(words, i, dtype):
    """Return the two-dimensional array number i of a handle."""
    k = _WORDS * i
    return carray(_pointer(words[k]), (words[k + 1], words[k + 2]), dtype)


@jit_inline_refcount
def _cube(words, i, dtype):
    """Return the three-dimensional array number i of a handle."""
    k = _WORDS * i
    return carray(_pointer(words[k]), (words[k + 1], words[k + 2], words[k + 3]), dtype)


@jit_inline_refcount
def _open_boxes(words):
    return Boxes(
        rows=vector_at(words, 0, BALL),
        core=vector_at(words, 1, CORE),
        stats=matrix_at(words, 2, np.float64),
        axes=matrix_at(words, 3, np.float64),
        place=vector_at(words, 4, np.int64),
        state=vector_at(words, 5, np.float64),
        action=vector_at(words, 6, np.float64),
        low=vector_at(words, 7, np.float64),
        high=vector_at(words, 8, np.float64),
        stack=vector_at(words, 9, np.int64),
        more=vector_at(words, 10, np.int64),
    )


@jit_inline_refcount
def _open_balls(words):
    return Balls(
        rows=vector_at(words, 0, METRIC_BALL),
        core=vector_at(words, 1, METRIC_CORE),
        stats=matrix_at(words, 2, np.float64),
        owner=_cube(words, 3, np.int32),
        distances=matrix_at(words, 4, np.float64),
        action_distances=matrix_at(words, 5, np.float64),
        orders=matrix_at(words, 6, np.int32),
        action_orders=matrix_at(words, 7, np.int32),
        grid=matrix_at(words, 8, np.float64),
        everything=vector_at(words, 9, np.uint8),
        place=vector_at(words, 10, np.int64),
        seen=vector_at(words, 11, np.int64),
    )


def itself(handle):
    """Return the handle, which is the record if it does not cross by address."""
    return handle


# Return the record of a handle. For use in compiled code.
boxes_at = itself if IS_JIT_DISABLED else _open_boxes
balls_at = itself if IS_JIT_DISABLED else _open_balls

# A handle has the words of the generator, then a C address and a Numba address of each function.
N_GENERATOR_WORDS = len(BIT_GENERATOR_WORDS)
_FUNCTIONS = types.FunctionType(DYNAMICS), types.FunctionType(START)
BY_ADDRESS = not IS_JIT_DISABLED and has_known_structures()
# Numba's type of `Crossing.handle`, for the signatures of kernels.
HANDLE = int64[::1] if BY_ADDRESS else types.Tuple((GENERATOR, *_FUNCTIONS))
# The same for a crossing with `given`.
TOLD_HANDLE = (
    int64[::1] if BY_ADDRESS else types.Tuple((GENERATOR, *_FUNCTIONS, types.FunctionType(GIVEN)))
)


class Crossing:
    """A generator and an environment's dynamics and start function, packed for compiled code.

    `handle` is the argument that kernels take. The object keeps all of them alive, and a copy has
    its own addresses. With `given`, the dynamics for a given outcome, `handle` is a TOLD_HANDLE,
    and `dynamics` draws the outcome.
    """

    __slots__ = ("dynamics", "generator", "given", "handle", "start")

    def __init__(
        self, generator: np.random.Generator, dynamics: Any, start: Any, given: Any = None
    ) -> None:
        self.generator, self.dynamics, self.start, self.given = generator, dynamics, start, given
        self.handle: Any = (generator, dynamics, start, *([] if given is None else [given]))
        if BY_ADDRESS:
            interface = generator.bit_generator.ctypes
            words = [
                ctypes.cast(getattr(interface, word), ctypes.c_void_p).value
                for word in BIT_GENERATOR_WORDS
            ]
            words += [*function_addresses(dynamics, DYNAMICS), *function_addresses(start, START)]
            words += [] if given is None else function_addresses(given, GIVEN)
            self.handle = np.array(words, np.uint64).view(np.int64)

    def __reduce__(self) -> Any:
        return Crossing, (self.generator, self.dynamics, self.start, self.given)


_dynamics_at = make_function_at(N_GENERATOR_WORDS, _FUNCTIONS[0])
_start_at = make_function_at(N_GENERATOR_WORDS + 2, _FUNCTIONS[1])
_given_at = make_function_at(N_GENERATOR_WORDS + 4, types.FunctionType(GIVEN))


def _unpack(handle):
    """Build (generator, dynamics, start) from the addresses in a handle."""
    return generator_at(handle), _dynamics_at(handle), _start_at(handle)


def _unpack_told(handle):
    """Build (generator, draw, start, given) from the addresses in a TOLD_HANDLE."""
    return generator_at(handle), _dynamics_at(handle), _start_at(handle), _given_at(handle)


# For use in compiled code. Objects that cross themselves need no unpacking.
unpack = jit_kernel(_unpack if BY_ADDRESS else itself)
unpack_told = jit_kernel(_unpack_told if BY_ADDRESS else itself)


def _play_step(handle, state, action, step, params, next_state):
    """Run the dynamics once. A coordinate that they do not write is NaN. Return the reward."""
    rng, dynamics, _ = unpack(handle)
    for i in range(next_state.shape[0]):
        next_state[i] = np.nan
    return dynamics(state, action, step, params, rng, next_state)


def _draw_start(handle, params, state):
    """Write a start state. A coordinate that the start function does not write is NaN."""
    rng, _, start = unpack(handle)
    for i in range(state.shape[0]):
        state[i] = np.nan
    start(params, rng, state)


@functools.cache
def play_step() -> Callable[..., float]:
    """Return `_play_step`, compiled on first use."""
    vector = float64[::1]
    return jit_with_signature(
        _play_step, HANDLE, vector, vector, int64, vector, vector, returns=float64
    )


@functools.cache
def draw_start() -> Callable[..., None]:
    """Return `_draw_start`, compiled on first use."""
    return jit_with_signature(_draw_start, HANDLE, float64[::1], float64[::1], returns=void)


# --- recording ------------------------------------------------------------------------------------
# To record what an agent plays in compiled code, the dynamics are replaced by functions that call
# the real ones and store the transition, and the parameters by a memory of both. So every compiled
# agent can be recorded without changing its kernels.

# Fields of a memory. The handle of the real environment follows, as bits of int64, if environments
# cross by address; then its parameters; then the rows.
COUNT, FIRST_PARAMETER, FIRST_ROW, REWARD_LOW, REWARD_HIGH, FIRST_WORD = range(6)

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
    first = FIRST_WORD + len(words)
    memory = np.zeros(first + len(params) + n_rows * n_numbers)
    memory[:FIRST_WORD] = 0, first, first + len(params), reward_low, reward_high
    memory[FIRST_WORD:first], memory[first : first + len(params)] = words, params
    return memory


@jit_kernel
def parameters(memory):
    """Return the real parameters, a view into the memory."""
    return memory[int(memory[FIRST_PARAMETER]) : int(memory[FIRST_ROW])]


@jit_kernel
def write_row(memory, state, action, step, reward, next_state):
    """Store a transition as (step, reward, state, action, next state).

    Return its reward, or NaN outside the reward range, so that the agent refuses it.
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
    return memory[FIRST_WORD : int(memory[FIRST_PARAMETER])].view(np.int64)


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
