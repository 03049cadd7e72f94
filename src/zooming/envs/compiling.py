"""A user's Python function as a compiled one with a fixed signature."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numba

from zooming.errors import SpaceError
from zooming.kernels import cached


@functools.cache
def compile_as(function: Any, signature: Any, form: str) -> Any:
    """The function, compiled; `form` is what an error says it should look like."""
    python = getattr(function, "py_func", function)
    # A cache on disk sees neither globals nor files elsewhere, so that only our own functions, which use none, are kept there.
    is_ours = Path(python.__code__.co_filename).parent == Path(__file__).parent and python.__closure__ is None
    try:
        return cached(python, signature, on_disk=is_ours)
    except (numba.core.errors.NumbaError, TypeError) as error:
        name = getattr(python, "__name__", repr(python))
        raise SpaceError(f"{name} does not compile as {form} (does it return the reward?). Numba says: {error}") from error
