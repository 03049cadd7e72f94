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
from typing import Any

import numpy as np
from numba import float64, int64, types, void

from zooming.kernels.jit import (
    DYNAMICS,
    GENERATOR,
    IS_JIT_DISABLED,
    START,
    jit_kernel,
    jit_with_signature,
)
from zooming.kernels.numba_parts import (
    BIT_GENERATOR_WORDS,
    function_addresses,
    generator_at,
    has_known_structures,
    make_function_at,
)

# A handle has the words of the generator, then a C address and a Numba address of each function.
N_GENERATOR_WORDS = len(BIT_GENERATOR_WORDS)
_FUNCTIONS = types.FunctionType(DYNAMICS), types.FunctionType(START)
BY_ADDRESS = not IS_JIT_DISABLED and has_known_structures()
# Numba's type of `Crossing.handle`, for the signatures of kernels.
HANDLE = int64[::1] if BY_ADDRESS else types.Tuple((GENERATOR, *_FUNCTIONS))


class Crossing:
    """A generator and an environment's dynamics and start function, packed for compiled code.

    `handle` is the argument that kernels take. The object keeps all three alive. A copy or an
    unpickled object has its own addresses.
    """

    __slots__ = ("dynamics", "generator", "handle", "start")

    def __init__(self, generator: np.random.Generator, dynamics: Any, start: Any) -> None:
        self.generator, self.dynamics, self.start = generator, dynamics, start
        self.handle: Any = (generator, dynamics, start)
        if BY_ADDRESS:
            interface = generator.bit_generator.ctypes
            words = [
                ctypes.cast(getattr(interface, word), ctypes.c_void_p).value
                for word in BIT_GENERATOR_WORDS
            ]
            words += [*function_addresses(dynamics, DYNAMICS), *function_addresses(start, START)]
            self.handle = np.array(words, np.uint64).view(np.int64)

    def __reduce__(self) -> Any:
        return Crossing, (self.generator, self.dynamics, self.start)


_dynamics_at = make_function_at(N_GENERATOR_WORDS, _FUNCTIONS[0])
_start_at = make_function_at(N_GENERATOR_WORDS + 2, _FUNCTIONS[1])


def _unpack_addresses(handle):
    """Build (generator, dynamics, start) from the addresses in a handle."""
    return generator_at(handle), _dynamics_at(handle), _start_at(handle)


def _unpack_objects(handle):
    """Return the handle itself, which is (generator, dynamics, start)."""
    return handle


# Returns (generator, dynamics, start) of a handle. For use in compiled code.
unpack = jit_kernel(_unpack_addresses if BY_ADDRESS else _unpack_objects)


def _play_step(handle, state, action, step, params, next_state):
    """Run the dynamics once: write the next state and return the reward.

    A coordinate that the dynamics do not write is NaN.
    """
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
