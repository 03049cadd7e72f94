"""Compile a user's Python function with a fixed signature, and make Numba's errors readable."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from zooming.errors import ConfigurationError
from zooming.kernels import compile_kernel

# Frequent error messages of Numba, and what to do about them.
_HINTS = {
    r"No conversion from .* to float64": "it must return the reward, a number, on every way out",
    r"global name '(\w+)'.*<class 'function'>": r"\1 must be compiled too: write @numba.njit "
    r"above it",
    r"global name '(\w+)'": r"\1 is no number and no array of numbers; pass numbers in params",
    r"cannot index array\(float64, 1d, C\) with \d+ indices": "params is one-dimensional: "
    "params[n * i + j]",
    r"Unsupported array index type float64": "an index must be whole: int(state[0])",
    r"missing a required argument: 'high'": "rng.integers takes both ends here: rng.integers(0, n)",
    r"Unknown attribute '(\w+)' of type NumPyRandom": r"of rng, \1 cannot be compiled; random(), "
    r"integers(0, n), normal() can",
}
_NOISE = ("Failed in", "- Resolution failure")


@functools.cache
def compile_as(function: Any, signature: Any, form: str) -> Any:
    """Return the compiled function. Error messages show `form`, the expected signature."""
    python = getattr(function, "py_func", function)
    # The disk cache does not notice changes of globals or other files: only for our own functions.
    is_ours = (
        Path(__file__).parent in Path(python.__code__.co_filename).parents
        and python.__closure__ is None
    )
    try:
        return compile_kernel(python, signature, on_disk=is_ours)
    except Exception as error:  # Numba's errors have no common base class
        name = getattr(python, "__name__", repr(python))
        raise ConfigurationError(
            f"{name} does not compile as {form}{_shorten_message(str(error))}"
        ) from None  # the cause would print pages


def _shorten_message(text: str) -> str:
    """Shorten an error message of Numba to a hint, the line number, and the line with the error.

    >>> fault = "Unsupported array index type float64"
    >>> said = f'Failed in nopython mode\\n{fault}\\nFile "a/b.py", line 7:\\n'
    >>> print(_shorten_message(said).replace(". ", ".\\n"))
    : an index must be whole: int(state[0]).
    Numba says of line 7 of b.py: Unsupported array index type float64
    """
    hint = next(
        (
            ": " + found.expand(hint)
            for form, hint in _HINTS.items()
            if (found := re.search(form, text))
        ),
        "",
    )
    place = re.search(r'File "([^"]+)", line (\d+):', text)
    where = f" of line {place[2]} of {Path(place[1]).name}" if place else ""
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_NOISE)
    ] or [text]
    inner = [line for line in lines if re.match(r"\w+Error: ", line)]  # the reason
    said = inner[0] if inner else " ".join(lines[: 2 if lines[0].endswith("signature:") else 1])
    return f"{hint}. Numba says{where}: {said}"
