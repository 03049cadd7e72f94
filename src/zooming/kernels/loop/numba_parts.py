"""Compiler options, the cache on disk, and structures that Numba does not document.

Only this module uses private parts of Numba. Each part has a fallback, for a version of Numba that
lacks it:

| part | fallback |
|---|---|
| option `_nrt` | kernels count references, which takes a third more time |
| cache in two folders, with a stamp | kernels are compiled in every process |
| hook of the types of calls | kernels are compiled again for each constant argument |
| hook of the compilation | Ctrl-C may interrupt a compilation that a call started |
| structures of generators and functions | objects cross instead of addresses, see `crossing` |
| hint to branch | LLVM decides where to branch, which takes up to a third more time |
"""

from __future__ import annotations

import functools
import platform
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from numba import types
from numba.extending import intrinsic

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None
try:
    from numba.core.options import DefaultOptions
except ImportError:
    DefaultOptions = None
try:
    from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator
except ImportError:
    CompileResultCacheImpl = FunctionCache = InTreeCacheLocator = object
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


# --- shipped kernels ------------------------------------------------------------------------------

# What LLVM calls the levels of x86-64, and the features that a processor needs for each.
_V2 = ("cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
LEVELS = {"x86-64-v3": _V3, "x86-64-v2": _V2}


def levels_of(machine: str, features: Any) -> list[str]:
    """Return the baselines that a processor fits, the fastest first.

    >>> levels_of("x86_64", dict.fromkeys(("avx2", "sse3"), True)), levels_of("aarch64", {})
    ([], ['generic'])
    """
    if machine.lower() not in ("x86_64", "amd64"):
        return ["generic"]
    return [name for name, needed in LEVELS.items() if all(features.get(one) for one in needed)]


def _host_levels() -> list[str]:
    try:
        features = dict(llvmlite.binding.get_host_cpu_features())
    except RuntimeError:
        features = {}
    if not getattr(numba.config, "ENABLE_AVX", True):
        features = {name: on and "avx" not in name for name, on in features.items()}
    return levels_of(platform.machine(), features)


def shipped_folder(level: str) -> Path:
    """Return the folder of kernels that were compiled for a baseline.

    Its name has all that must be the same where they are used.
    """
    python = f"{sys.implementation.name}{sys.version_info[0]}{sys.version_info[1]}"
    parts = (
        python, f"numba-{numba.__version__}", f"llvmlite-{llvmlite.__version__}",
        sysconfig.get_platform(), level,
    )  # fmt: skip
    return Path(__file__).parent.parent / "compiled" / "-".join(parts)


def _find_shipped() -> tuple[Path | None, bool]:
    """Return the folder of shipped kernels, and whether this process fills it.

    A process that is told a baseline as its processor fills the folder. With another processor, or
    with bounds of arrays checked, none is used.
    """
    config = numba.config
    if config.DISABLE_JIT or config.BOUNDSCHECK or FunctionCache is object:
        return None, False
    if config.CPU_NAME is not None:
        is_baseline = config.CPU_NAME in (*LEVELS, "generic") and config.CPU_FEATURES == ""
        return (shipped_folder(config.CPU_NAME) if is_baseline else None), is_baseline
    folders = map(shipped_folder, HOST_LEVELS)
    return next((folder for folder in folders if folder.is_dir()), None), False


HOST_LEVELS = _host_levels()
SHIPPED, IS_SHIPPING = _find_shipped()


# --- compilation ----------------------------------------------------------------------------------


def cache_on_disk(kernel: Any, make_stamp: Callable[[], Any], name: str | None, watch: Any) -> bool:
    """Cache a kernel on disk, valid as long as `make_stamp` returns the same value.

    A function that closes over other kernels needs a `name`: Numba would hash those functions,
    which differ in each process. `watch.begin(name)` and `watch.end()` enclose each compilation.
    Return False if no folder is writable, or if this version of Numba lacks the stamp. The kernel
    may then be half changed: compile the function anew.
    """
    try:
        stamp = make_stamp()
        places = [_ShippedCache(kernel.py_func)] if SHIPPED is not None else []
        if not IS_SHIPPING:
            try:
                kernel.enable_caching()
                places.insert(0, kernel._cache)
            except RuntimeError:  # no folder is writable
                if not places:
                    return False
        for place in places:
            place._cache_file._source_stamp = stamp
        if name is not None:
            places[0]._index_key = lambda kinds, codegen: (kinds, codegen.magic_tuple(), name)
        if SHIPPED is not None:
            places[-1]._index_key = lambda kinds, codegen: (kinds, name)
        kernel._cache = _Places(kernel, places, watch)
    except (RuntimeError, AttributeError, OSError, TypeError):
        return False
    return True


class _Places:
    """The cache of a kernel: the folder that Numba writes, unless shipping, then the wheel's."""

    def __init__(self, kernel: Any, places: list[Any], watch: Any) -> None:
        self.name, self.places, self.watch = kernel.py_func.__name__, places, watch

    @property
    def cache_path(self) -> Any:
        return self.places[0].cache_path

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the kernel from the first place that has it. None means: it is compiled now."""
        for place in self.places:
            found = place.load_overload(signature, target)
            if found is not None:
                return found
        self.watch.begin(self.name)
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Save a kernel, unless only the wheel's folder is there.

        Processes take turns, because Numba reads, changes and writes the index of a function.
        """
        self.watch.end()
        place = self.places[0]
        if IS_SHIPPING or not isinstance(place, _ShippedCache):
            Path(place.cache_path).mkdir(parents=True, exist_ok=True)
            with open(Path(place.cache_path) / "zooming.lock", "a") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
                place.save_overload(signature, compiled)

    def flush(self) -> None:
        self.places[0].flush()


class _ShippedLocator(InTreeCacheLocator):
    """The folder of shipped kernels, which is only read. `from_function` would try to write."""

    def get_cache_path(self) -> str:
        return str(SHIPPED)

    def get_disambiguator(self) -> str:
        """Return what differs between functions of one name in files of one name."""
        return f"{self._lineno}-{Path(self._py_file).parent.name}"

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        return cls(function, file)


class _ShippedImplementation(CompileResultCacheImpl):
    _locator_classes = (_ShippedLocator,)


class _ShippedCache(FunctionCache):
    _impl_class = _ShippedImplementation


def widen_literals(kernel: Any) -> None:
    """Compile a kernel once for all integers and truth values, not for each constant."""
    if hasattr(kernel, "get_call_template") and hasattr(types, "unliteral"):
        find = kernel.get_call_template

        def find_widened(args: Any, kws: Any) -> Any:
            widened = {name: _widen(kind) for name, kind in dict(kws).items()}
            return find(tuple(map(_widen, args)), widened)

        kernel.get_call_template = find_widened


def _widen(kind: Any) -> Any:
    is_number = isinstance(kind, (types.IntegerLiteral, types.BooleanLiteral))
    return types.unliteral(kind) if is_number else kind


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
    """Return the C address and the Numba address, which propagates exceptions."""
    return _get_wrapper_address(function, signature), _get_jit_address(function, signature)


@intrinsic
def generator_at(context, handle):
    """Build Numba's Generator from the first addresses of a handle, without references."""

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
    """Return an intrinsic that builds a function of type `kind` from handle[first:]."""

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
