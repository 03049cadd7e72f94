"""Compile kernels, and cache them on disk until a file that they depend on changes.

Numba's own cache checks only the file of the function, so a cached caller would keep an old callee
from another file. Here a cached kernel is valid only for the same contents of its own file and of
all files in this folder. A kernel may call functions in those files, and no others.

Numba compiles in a separate thread. Python runs signal handlers only in the main thread. So Ctrl-C
can neither leave Numba's tables half written nor get lost in an LLVM callback, where exceptions are
ignored. The main thread waits and can be interrupted at any time. A compilation that has begun runs
to its end.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import float64, from_dtype, int64, types, void

from zooming.kernels.loop.numba_parts import (
    NO_REFCOUNT,
    REFCOUNT,
    cache_on_disk,
    compile_through,
    widen_literals,
)

GENERATOR = types.npy_rng
DYNAMICS = float64(float64[::1], float64[::1], int64, float64[::1], GENERATOR, float64[::1])
GIVEN = float64(float64[::1], float64[::1], int64, float64[::1], float64[::1], float64[::1])
START = void(float64[::1], GENERATOR, float64[::1])
WEIGH = void(float64[::1], float64[::1], int64, float64[::1], float64[:, ::1], float64[::1])
IS_JIT_DISABLED = bool(numba.config.DISABLE_JIT)
_working: dict[int, Any] = {}  # thread of `call_in_thread` -> the lock that it releases at its end
_compiling: set[int] = set()  # those that run LLVM


def hash_files(*files: Path) -> str:
    """Return a hash of the contents of the files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


FOLDER_HASH = hash_files(*sorted(Path(__file__).parent.parent.rglob("*.py")))


AFTER = 1.0  # seconds of compilation before a line on stderr says so
# The longest compilations: what they are for, and their seconds of processor time in 2024.
LONGEST = {
    "play_boxes": ("balls", 8), "make_plan": ("the planner of Auto", 50),
    "play_trees": ("trees", 8), "play_balls": ("MetricQ", 8),
}  # fmt: skip


class Watch:
    """Say after a second that kernels are compiled: one line on stderr.

    On a terminal the line is updated, and removed at the end. Elsewhere it is printed once. The
    environment variable `ZOOMING_QUIET` hides it. `begin` and `end` are called by the thread that
    compiles, `show` and `hide` by the one that waits. A kernel begins before those that it calls.
    """

    def __init__(self) -> None:
        self.seconds, self.began, self.n_done = 0.0, 0.0, 0
        self.names: list[str] = []
        self.is_said = self.is_shown = False

    def begin(self, name: str) -> None:
        if not self.names:
            self.began = time.monotonic()
        self.names = [*self.names, name]
        self.show()

    def end(self) -> None:
        self.names, self.n_done = self.names[:-1], self.n_done + 1
        if not self.names:
            self.seconds += time.monotonic() - self.began

    def show(self) -> None:
        """Write the line, or update it, if there is something to wait for."""
        names, stream = self.names, sys.stderr
        now = time.monotonic() - self.began if names else 0.0
        is_quiet = stream is None or os.environ.get("ZOOMING_QUIET")
        if not names or self.seconds + now < AFTER or is_quiet:
            return
        what, seconds = LONGEST.get(names[0], ("kernels", 0))
        about = f" of about {seconds}" if seconds else ""
        text = f"compiling {what}, {now:.0f}{about} s, {self.n_done} done."
        if stream.isatty() and os.environ.get("TERM") != "dumb":
            stream.write(f"\r\x1b[K{text[:60]} This happens once.")
            stream.flush()
            self.is_shown = True
        elif not self.is_said:
            self.is_said = True
            print(f"zooming: {text} This happens once.", file=stream, flush=True)

    def hide(self) -> None:
        """Remove the line from a terminal."""
        if self.is_shown and sys.stderr is not None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        self.is_shown = False


WATCH = Watch()


def compile_kernel(
    function: Any,
    signature: Any = None,
    *,
    on_disk: bool = True,
    name: str | None = None,
    **options: Any,
) -> Any:
    """Compile a function and cache it on disk, or return it if `IS_JIT_DISABLED`.

    With a `signature`, compile at once and for these types only. Without one, compile for the types
    of each call. A function that closes over other kernels needs a `name` of its own for the cache.
    """
    if IS_JIT_DISABLED:
        return function
    options = {"error_model": "numpy", "nogil": True, **options}
    kernel: Any = numba.njit(**options)(function)

    def make_stamp() -> tuple[str, str]:
        return FOLDER_HASH, hash_files(Path(function.__code__.co_filename))

    if on_disk and not cache_on_disk(kernel, make_stamp, name, WATCH):
        kernel = numba.njit(**options)(function)  # is compiled in every process
    widen_literals(kernel)
    if signature is not None:
        call_in_thread(lambda: _compile(lambda: kernel.compile(signature)))
        kernel.disable_compile()
    else:
        compile_through(kernel, lambda work: call_in_thread(lambda: _compile(work)))
    return kernel


def call_in_thread(work: Callable[[], Any]) -> Any:
    """Call work() in a thread where no signal handler runs, and return the result.

    An interrupt ends the waiting, not the work: it must change nothing that others use. Named
    tuples may cross into compiled code there. During an import, without compilation, or if this is
    not the main thread, work() is called in the current thread.
    """
    is_main = threading.current_thread() is threading.main_thread()
    WATCH.names = []  # forget a compilation that failed
    if IS_JIT_DISABLED or not is_main or _is_importing():
        try:
            return work()
        finally:
            WATCH.hide()
    done, answer = _thread.allocate_lock(), []

    def run() -> None:
        _working[threading.get_ident()] = done
        try:
            answer.append((work(), None))
        except BaseException as error:
            answer.append((None, error))
        finally:
            _working.pop(threading.get_ident(), None)
            done.release()

    done.acquire()
    threading.Thread(target=run, daemon=True, name="zooming-works").start()
    try:
        while not done.acquire(timeout=0.2):  # a signal to another thread does not wake this one
            WATCH.show()
    finally:
        WATCH.hide()
    result, error = answer[0]
    if error is not None:
        raise error
    return result


def _is_importing() -> bool:
    """Return whether an import is running. Numba in another thread would wait for it forever."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def _compile(work: Callable[[], Any]) -> Any:
    """Call work() and mark the thread as one that compiles."""
    thread = threading.get_ident()
    _compiling.add(thread)
    try:
        return work()
    finally:
        _compiling.discard(thread)


@atexit.register
def _stop_work() -> None:
    """Stop threads at exit, because LLVM must not run then. Plans are not waited for."""
    for thread, done in list(_working.items()):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread), ctypes.py_object(SystemExit)
        )
        if thread in _compiling:
            done.acquire(timeout=30)


def jit_kernel(function: Any) -> Any:
    """Compile with reference counting. Otherwise, a kernel would inherit its caller's setting."""
    return compile_kernel(function, **REFCOUNT)


def jit_no_refcount(function: Any) -> Any:
    """Compile without reference counting, a third faster. It must not allocate."""
    return compile_kernel(function, **NO_REFCOUNT)


def jit_inline(function: Any) -> Any:
    """Compile with forced inlining. For per-step functions, 17 % faster than LLVM's default."""
    return compile_kernel(function, **NO_REFCOUNT, forceinline=True)


def jit_inline_refcount(function: Any) -> Any:
    """Compile with forced inlining and with reference counts. For functions that return arrays."""
    return compile_kernel(function, **REFCOUNT, forceinline=True)


def jit_with_signature(
    function: Callable[..., Any], *arguments: Any, returns: Any = int64, **options: Any
) -> Callable[..., Any]:
    """Compile a function for these argument types only. Other arguments raise a TypeError.

    So Python checks no type, and one compiled loop runs any environment's dynamics.
    """
    if not IS_JIT_DISABLED:
        kernel: Callable[..., Any] = compile_kernel(function, returns(*arguments), **options)
        return kernel

    def call_checked(*values: Any) -> Any:
        for value, expected in zip(values, arguments, strict=True):
            if isinstance(expected, types.Array) and not (
                type(value) is np.ndarray
                and value.ndim == expected.ndim
                and _is_of(value.dtype, expected.dtype)
                and value.flags.c_contiguous
                and value.flags.writeable
            ):
                raise TypeError(f"expected {expected}")
        return function(*values)

    return call_checked


def _is_of(dtype: np.dtype[Any], expected: Any) -> bool:
    """Return whether a NumPy type corresponds to a type of Numba."""
    try:
        return bool(from_dtype(dtype) == expected)
    except numba.NumbaError:  # a type that Numba does not know, such as long double
        return False
