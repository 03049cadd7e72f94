"""Compiler options, the cache on disk, and structures that Numba does not document.

Only this module uses private parts of Numba. Each part has a fallback, for a version of Numba that
lacks it:

| part | fallback |
|---|---|
| option `_nrt` | kernels count references, which takes a third more time |
| cache with a stamp | kernels are compiled in every process |
| hook of the compilation | Ctrl-C may interrupt a compilation that a call started |
| structures of generators and functions | objects cross instead of addresses, see `crossing` |
| hint to branch | LLVM decides where to branch, which takes up to a third more time |
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

try:
    from numba.core.options import DefaultOptions
except ImportError:
    DefaultOptions = None
try:
    import numba.np.random.generator_core  # registers the structure of a Generator
    from llvmlite import ir
    from numba.core import cgutils
    from numba.core.datamodel import default_manager
    from numba.experimental.function_type import _get_jit_address, _get_wrapper_address
except ImportError:
    ir = cgutils = default_manager = _get_jit_address = _get_wrapper_address = None

# Options for kernels that allocate nothing, and for all others. A callee inherits the options that
# it does not set.
NO_REFCOUNT: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
REFCOUNT: dict[str, Any] = dict.fromkeys(NO_REFCOUNT, True)
# Fields of NumPy's C interface to a bit generator, and of Numba's structure for it.
BIT_GENERATOR_WORDS = (
    "state_address", "state", "next_uint64", "next_uint32", "next_double", "bit_generator",
)  # fmt: skip
_BIT_GENERATOR = (
    "parent", "state_address", "state", "fnptr_next_uint64", "fnptr_next_uint32",
    "fnptr_next_double", "bit_generator",
)  # fmt: skip


# --- compilation ----------------------------------------------------------------------------------


def cache_on_disk(kernel: Any, make_stamp: Callable[[], Any], name: str | None) -> bool:
    """Cache a kernel on disk, valid as long as `make_stamp` returns the same value.

    A function that closes over other kernels needs a `name`. Numba would hash the functions closed
    over, which differ in each process. The stamp covers their contents, and the name identifies
    them.

    Return False if no cache folder is writable, or if this version of Numba lacks the stamp. The
    kernel may then be half changed: compile the function anew.
    """
    try:
        kernel.enable_caching()
        kernel._cache._cache_file._source_stamp = make_stamp()
        if name is not None:
            kernel._cache._index_key = lambda kinds, codegen: (kinds, codegen.magic_tuple(), name)
    except (RuntimeError, AttributeError, OSError):
        return False
    return True


def compile_through(kernel: Any, call: Callable[[Callable[[], Any]], Any]) -> None:
    """Let `call(work)` run the compilation when a call of the kernel has new argument types."""
    if hasattr(kernel, "_compile_for_args"):
        compile_now = kernel._compile_for_args
        kernel._compile_for_args = lambda *args, **kws: call(lambda: compile_now(*args, **kws))


@numba.njit(forceinline=True)
def _leave_to_llvm(condition):
    return condition


@intrinsic
def _expect(context, condition):
    """Return the condition, declared as probable."""

    def build(context, builder, signature, arguments):
        bit = ir.IntType(1)
        kind = ir.FunctionType(bit, (bit, bit))
        expect = builder.module.declare_intrinsic("llvm.expect", (bit,), kind)
        return builder.call(expect, (arguments[0], bit(1)))

    return types.boolean(condition), build


# Returns a condition, and asks LLVM for a branch on it. LLVM would rather compute both sides and
# select one. What follows then waits for the data, although the branch is easy to predict.
branch_on = _leave_to_llvm if ir is None or numba.config.DISABLE_JIT else _expect


# --- structures -----------------------------------------------------------------------------------


def has_known_structures() -> bool:
    """Return whether Numba's structures have the fields that the intrinsics below fill in."""

    def fields(kind: Any) -> tuple[str, ...]:
        return tuple(getattr(default_manager.lookup(kind), "_fields", ()))

    return (
        default_manager is not None
        and fields(types.FunctionType(types.void())) == ("c_addr", "py_addr", "jit_addr")
        and fields(types.npy_rng) == ("bit_generator", "meminfo", "parent")
        and fields(types.NumPyRandomBitGeneratorType("bit_generator")) == _BIT_GENERATOR
    )


@functools.lru_cache(256)
def function_addresses(function: Any, signature: Any) -> tuple[int, int]:
    """Return the C address and the Numba address of a compiled function.

    Exceptions are propagated only in calls by the Numba address.
    """
    return _get_wrapper_address(function, signature), _get_jit_address(function, signature)


@intrinsic
def generator_at(context, handle):
    """Build Numba's Generator from the first BIT_GENERATOR_WORDS addresses of a handle.

    It does not count references. The caller keeps the real generator alive.
    """

    def build(context, builder, signature, arguments):
        words = _load(context, builder, signature, arguments, 0, len(BIT_GENERATOR_WORDS))
        inner = cgutils.create_struct_proxy(types.NumPyRandomBitGeneratorType("bit_generator"))(
            context, builder
        )
        inner.parent = cgutils.get_null_value(inner.parent.type)
        for name, word in zip(_BIT_GENERATOR[1:], words, strict=True):
            setattr(inner, name, word)
        outer = cgutils.create_struct_proxy(types.npy_rng)(context, builder)
        outer.bit_generator = inner._getvalue()
        outer.meminfo = cgutils.get_null_value(outer.meminfo.type)
        outer.parent = cgutils.get_null_value(outer.parent.type)
        return outer._getvalue()

    return types.npy_rng(handle), build


def make_function_at(first, kind):
    """Return an intrinsic that builds a first-class function from the addresses at handle[first:].

    `kind` is the function's `numba.types.FunctionType`.
    """

    @intrinsic
    def function_at(context, handle):
        def build(context, builder, signature, arguments):
            c_address, jit_address = _load(context, builder, signature, arguments, first, 2)
            function = cgutils.create_struct_proxy(kind)(context, builder)
            function.c_addr = builder.inttoptr(c_address, function.c_addr.type)
            function.jit_addr = builder.inttoptr(jit_address, function.jit_addr.type)
            function.py_addr = cgutils.get_null_value(function.py_addr.type)
            return function._getvalue()

        return kind(handle), build

    return function_at


def _load(context, builder, signature, arguments, first, n):
    """Load `n` entries of the handle, starting at `first`."""
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return [builder.load(cgutils.gep(builder, data, first + i)) for i in range(n)]
