"""How kernels are compiled, and kept on disk until a file that they depend on changes.

Numba's cache looks at the file of the function alone, so that a cached caller would keep an old callee of another file. Here
a kernel is kept for one state of its own file and of all files of this folder; a kernel may call those, and no others.
"""

from __future__ import annotations

import hashlib
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
        kernel.compile(signature)
        kernel.disable_compile()
    return kernel


def compiled(function: Any) -> Any:
    """A kernel."""
    return cached(function)


def lean(function: Any) -> Any:
    """A kernel that allocates nothing: counting references to its array arguments would take a third of the time."""
    return cached(function, _nrt=False)


def inlined(function: Any) -> Any:
    """One on the path of every step: left to itself, the compiler calls some of them, and loses a sixth of the time."""
    return cached(function, _nrt=False, forceinline=True)


def fixed(function: Callable[..., int], *arguments: Any) -> Callable[..., int]:
    """The function compiled for these argument types alone; anything else is refused with a TypeError.

    So nothing is checked in Python on the way in, nothing is compiled anew for a float32 or read-only array, and one compiled
    loop runs any environment's dynamics.
    """
    if not PLAIN:
        kernel: Callable[..., int] = cached(function, int64(*arguments))
        return kernel

    def refusing(*values: Any) -> int:
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
