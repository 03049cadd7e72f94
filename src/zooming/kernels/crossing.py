"""Pass an environment's functions and its generator into compiled code as addresses.

Numba unboxes a NumPy Generator or a first-class function by calling back into Python. A signal
handler that raises during such a call can crash the process, and the calls take up to 200 us. An
int64 array is unboxed without running Python code, so no signal handler can run in between.
Compiled code rebuilds Numba's own structures from the addresses in the array.

This is the only module that depends on the memory layout of these structures. If a version of Numba
has another layout, `BY_ADDRESS` is False and the objects themselves are passed. That is slower, and
correct, but not safe from signals.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float64, int64, types, void
from numba.extending import intrinsic

from zooming.kernels.jit import (
    DYNAMICS,
    GENERATOR,
    IS_JIT_DISABLED,
    START,
    jit_kernel,
    jit_with_signature,
)

try:
    import numba.np.random.generator_core  # noqa: F401  # registers the structure of a Generator
    from numba.core import cgutils
    from numba.core.datamodel import default_manager
    from numba.experimental.function_type import _get_jit_address, _get_wrapper_address
except ImportError:
    cgutils = default_manager = _get_jit_address = _get_wrapper_address = None

# Fields of NumPy's C interface to a bit generator.
_WORDS = ("state_address", "state", "next_uint64", "next_uint32", "next_double", "bit_generator")
_BIT_GENERATOR = (
    "parent", "state_address", "state", "fnptr_next_uint64", "fnptr_next_uint32",
    "fnptr_next_double", "bit_generator",
)  # fmt: skip
_DYNAMICS_AT, _START_AT = len(_WORDS), len(_WORDS) + 2  # (C address, Numba address) each
_FUNCTIONS = types.FunctionType(DYNAMICS), types.FunctionType(START)


def _is_as_expected() -> bool:
    """Return whether Numba's structures have the fields that the intrinsics below fill in."""

    def fields(kind: Any) -> tuple[str, ...]:
        return tuple(getattr(default_manager.lookup(kind), "_fields", ()))

    if default_manager is None:
        return False
    functions = all(fields(kind) == ("c_addr", "py_addr", "jit_addr") for kind in _FUNCTIONS)
    inner = types.NumPyRandomBitGeneratorType("bit_generator")
    return (
        functions
        and fields(GENERATOR) == ("bit_generator", "meminfo", "parent")
        and fields(inner) == _BIT_GENERATOR
    )


BY_ADDRESS = not IS_JIT_DISABLED and _is_as_expected()
# Numba's type of `Crossing.handle`, for the signatures of kernels.
HANDLE = int64[::1] if BY_ADDRESS else types.Tuple((GENERATOR, *_FUNCTIONS))


@functools.lru_cache(256)
def _addresses(function: Any, signature: Any) -> tuple[int, int]:
    """Return the C address and the Numba address of a compiled function.

    Only a call by the Numba address propagates exceptions.
    """
    return _get_wrapper_address(function, signature), _get_jit_address(function, signature)


class Crossing:
    """A generator and an environment's dynamics and start function, packed for compiled code.

    `handle` is the argument that kernels take. The object keeps all three alive. A copy or an
    unpickled object has addresses of its own.
    """

    __slots__ = ("dynamics", "generator", "handle", "start")

    def __init__(self, generator: np.random.Generator, dynamics: Any, start: Any) -> None:
        self.generator, self.dynamics, self.start = generator, dynamics, start
        self.handle: Any = (generator, dynamics, start)
        if BY_ADDRESS:
            interface = generator.bit_generator.ctypes
            words = [
                ctypes.cast(getattr(interface, word), ctypes.c_void_p).value for word in _WORDS
            ]
            words += [*_addresses(dynamics, DYNAMICS), *_addresses(start, START)]
            self.handle = np.array(words, np.uint64).view(np.int64)

    def __reduce__(self) -> Any:
        return Crossing, (self.generator, self.dynamics, self.start)


@intrinsic
def _generator(context, handle):
    """Build Numba's Generator from its addresses.

    It counts no references: the caller's `Crossing` keeps the real generator alive.
    """

    def build(context, builder, signature, arguments):
        words = _words(context, builder, signature, arguments, 0, len(_WORDS))
        inner = cgutils.create_struct_proxy(types.NumPyRandomBitGeneratorType("bit_generator"))(
            context, builder
        )
        inner.parent = cgutils.get_null_value(inner.parent.type)
        for name, word in zip(_BIT_GENERATOR[1:], words, strict=True):
            setattr(inner, name, word)
        outer = cgutils.create_struct_proxy(GENERATOR)(context, builder)
        outer.bit_generator = inner._getvalue()
        outer.meminfo = cgutils.get_null_value(outer.meminfo.type)
        outer.parent = cgutils.get_null_value(outer.parent.type)
        return outer._getvalue()

    return GENERATOR(handle), build


def _function_at(first, kind):
    """Return an intrinsic that builds the first-class function with addresses at handle[first:]."""

    @intrinsic
    def function(context, handle):
        def build(context, builder, signature, arguments):
            c_address, jit_address = _words(context, builder, signature, arguments, first, 2)
            made = cgutils.create_struct_proxy(kind)(context, builder)
            made.c_addr = builder.inttoptr(c_address, made.c_addr.type)
            made.jit_addr = builder.inttoptr(jit_address, made.jit_addr.type)
            made.py_addr = cgutils.get_null_value(made.py_addr.type)
            return made._getvalue()

        return kind(handle), build

    return function


def _words(context, builder, signature, arguments, first, n):
    """Load `n` entries of the handle, starting at `first`."""
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return [builder.load(cgutils.gep(builder, data, first + i)) for i in range(n)]


_dynamics, _start = (
    _function_at(first, kind)
    for first, kind in zip((_DYNAMICS_AT, _START_AT), _FUNCTIONS, strict=True)
)


def _unpack_addresses(handle):
    """Build (generator, dynamics, start) from the addresses in a handle."""
    return _generator(handle), _dynamics(handle), _start(handle)


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
