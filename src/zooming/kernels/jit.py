"""How kernels are compiled, and kept on disk until a file that they depend on changes.

Numba's cache looks at the file of the function alone, so that a cached caller would keep an old callee of another file. Here
a kernel is kept for one state of its own file and of all files of this folder; a kernel may call those, and no others.

Numba compiles in a thread of its own. Python runs signal handlers in the main thread only, so that Ctrl-C can neither leave
Numba's tables half written nor get lost in a callback of LLVM's, where exceptions are ignored. The main thread waits, and can
be interrupted at any time; what was begun is compiled to its end.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import hashlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import float64, int64, types, void
from numba.np.numpy_support import as_dtype

GENERATOR = types.npy_rng
DYNAMICS = float64(float64[::1], float64[::1], int64, float64[::1], GENERATOR, float64[::1])
GIVEN = float64(float64[::1], float64[::1], int64, float64[::1], float64[::1], float64[::1])
START = void(float64[::1], GENERATOR, float64[::1])
PLAIN = bool(numba.config.DISABLE_JIT)
_under_way: dict[int, Any] = {}  # threads that compile, and the lock that each of them releases when it ends


def stamp(*files: Path) -> str:
    """A hash of what the files say."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


FOLDER = stamp(*sorted(Path(__file__).parent.glob("*.py")))


def cached(function: Any, signature: Any = None, *, on_disk: bool = True, **options: Any) -> Any:
    """The function compiled: for one signature at once and no other, or for what it is called with; see above."""
    if PLAIN:
        return function
    kernel: Any = numba.njit(error_model="numpy", nogil=True, **options)(function)
    try:
        if on_disk:
            kernel.enable_caching()
            kernel._cache._cache_file._source_stamp = FOLDER, stamp(Path(function.__code__.co_filename))
    except (RuntimeError, AttributeError, OSError):
        # No folder can be written to, or this Numba keeps its stamp elsewhere: then it is compiled each time, and right.
        kernel = numba.njit(error_model="numpy", nogil=True, **options)(function)
    if signature is not None:
        apart(lambda: kernel.compile(signature))
        kernel.disable_compile()
    elif hasattr(kernel, "_compile_for_args"):  # what Numba, this version of it, calls when a kernel meets new types
        compile_now = kernel._compile_for_args
        kernel._compile_for_args = lambda *args, **kws: apart(lambda: compile_now(*args, **kws))
    return kernel


def apart(work: Callable[[], Any]) -> Any:
    """Return work(), done where no signal handler runs; see above."""
    if threading.current_thread() is not threading.main_thread() or _is_importing():
        return work()
    done, answer = _thread.allocate_lock(), []

    def run() -> None:
        _under_way[threading.get_ident()] = done
        try:
            answer.append((work(), None))
        except BaseException as error:
            answer.append((None, error))
        finally:
            del _under_way[threading.get_ident()]
            done.release()

    done.acquire()
    threading.Thread(target=run, daemon=True, name="zooming-compiles").start()
    while not done.acquire(timeout=0.2):  # a signal that another thread receives does not wake this one
        pass
    result, error = answer[0]
    if error is not None:
        raise error
    return result


def _is_importing() -> bool:
    """Whether a module is being imported: Numba, in another thread, would wait for it forever."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


@atexit.register
def _end() -> None:
    """Stop what still compiles when the process ends: LLVM must not be at work while it is taken down."""
    for thread, done in list(_under_way.items()):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))
        done.acquire(timeout=30)


def compiled(function: Any) -> Any:
    """Compile a kernel for the types that it is called with."""
    return cached(function)


def jit_no_refcount(function: Any) -> Any:
    """Compile without reference counts, which would take a third of the time. The function must allocate nothing."""
    return cached(function, _nrt=False)


def jit_inline(function: Any) -> Any:
    """Compile with forced inlining. For per-step functions, about 17 % faster than LLVM's default."""
    return cached(function, _nrt=False, forceinline=True)


def fixed(function: Callable[..., Any], *arguments: Any, returns: Any = int64) -> Callable[..., Any]:
    """The function compiled for these argument types alone; anything else is refused with a TypeError.

    So nothing is checked in Python on the way in, nothing is compiled anew for a float32 or read-only array, and one compiled
    loop runs any environment's dynamics.
    """
    if not PLAIN:
        kernel: Callable[..., Any] = cached(function, returns(*arguments))
        return kernel

    def refusing(*values: Any) -> Any:
        for value, expected in zip(values, arguments, strict=True):
            if isinstance(expected, types.Array) and not (
                type(value) is np.ndarray
                and value.ndim == expected.ndim
                and value.dtype == as_dtype(expected.dtype)
                and value.flags.c_contiguous
                and value.flags.writeable
            ):
                raise TypeError(f"expected {expected}")
        return function(*values)

    return refusing
