"""A user's Python function as a compiled one with a fixed signature."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from zooming.errors import SpaceError
from zooming.kernels import cached

# What Numba says where users stumble, and what to do about it.
_HINTS = {
    r"No conversion from .* to float64": "it must return the reward, a number, on every way out",
    r"global name '(\w+)'.*<class 'function'>": r"\1 must be compiled too: write @numba.njit above it",
    r"global name '(\w+)'": r"\1 is no number and no array of numbers; pass numbers in params",
    r"cannot index array\(float64, 1d, C\) with \d+ indices": "params is one-dimensional: params[n * i + j]",
    r"Unsupported array index type float64": "an index must be whole: int(state[0])",
    r"missing a required argument: 'high'": "rng.integers takes both ends here: rng.integers(0, n)",
    r"Unknown attribute '(\w+)' of type NumPyRandom": r"of rng, \1 cannot be compiled; random(), integers(0, n), normal() can",
}
_NOISE = ("Failed in", "- Resolution failure")


@functools.cache
def compile_as(function: Any, signature: Any, form: str) -> Any:
    """The function, compiled; `form` is what an error says it should look like."""
    python = getattr(function, "py_func", function)
    # A cache on disk sees neither globals nor files elsewhere, so that only our own functions, which use none, are kept there.
    is_ours = Path(python.__code__.co_filename).parent == Path(__file__).parent and python.__closure__ is None
    try:
        return cached(python, signature, on_disk=is_ours)
    except Exception as error:  # Numba's errors have no base of their own
        name = getattr(python, "__name__", repr(python))
        raise SpaceError(f"{name} does not compile as {form}{_in_short(str(error))}") from None  # which would print the pages


def _in_short(text: str) -> str:
    """A hint, the line of the user's function, and the one line of Numba's pages that says what is wrong.

    >>> _in_short('Failed in nopython mode\\nUnsupported array index type float64\\nFile "a/b.py", line 7:\\n')
    ': an index must be whole: int(state[0]). Numba says of line 7 of b.py: Unsupported array index type float64'
    """
    hint = next((": " + found.expand(hint) for form, hint in _HINTS.items() if (found := re.search(form, text))), "")
    place = re.search(r'File "([^"]+)", line (\d+):', text)
    where = f" of line {place[2]} of {Path(place[1]).name}" if place else ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_NOISE)] or [text]
    inner = [line for line in lines if re.match(r"\w+Error: ", line)]  # the reason, after a list of all that was tried
    said = inner[0] if inner else " ".join(lines[: 2 if lines[0].endswith("signature:") else 1])
    return f"{hint}. Numba says{where}: {said}"
