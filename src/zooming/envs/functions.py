"""Compile a user's Python function with a fixed signature, and make Numba's errors readable."""

from __future__ import annotations

import functools
import math
import re
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numba
import numpy as np

from zooming.errors import ConfigurationError
from zooming.kernels import DYNAMICS, GIVEN, IS_JIT_DISABLED, WEIGH, compile_kernel, jit_inline
from zooming.kernels.loop.jit import hash_files
from zooming.kernels.loop.numba_parts import NO_REFCOUNT
from zooming.kernels.solve.laws import draw_index
from zooming.validation import Floats, as_floats, count_own_frames, short_repr

DYNAMICS_FORM = "dynamics(state, action, step, params, rng, next_state) -> reward"
GIVEN_FORM = "dynamics(state, action, step, params, outcome, next_state) -> reward"
WEIGH_FORM = "weights(state, action, step, params, values, weights)"
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
    if getattr(function, "compiled_as", None) is signature:
        return function
    python = getattr(function, "py_func", function)
    # The disk cache does not notice changes of globals or other files: only for our own functions.
    name = _cache_name(python)
    is_ours = _is_ours(python) and (python.__closure__ is None or name is not None)
    # Ours allocate nothing themselves, except to draw.
    options = NO_REFCOUNT if is_ours and signature in (GIVEN, WEIGH) else {}
    try:
        kernel = compile_kernel(python, signature, on_disk=is_ours, name=name, **options)
    except Exception as error:  # Numba's errors have no common base class
        name = getattr(python, "__name__", repr(python))
        raise ConfigurationError(
            f"{name} does not compile as {form}{_shorten_message(str(error))}"
        ) from None  # the cause would print pages
    kernel.compiled_as = signature
    return kernel


def _is_ours(function: Any) -> bool:
    return Path(__file__).parent in Path(function.__code__.co_filename).parents


def compile_given(function: Any, is_compiled: bool | None) -> Any:
    """Return dynamics of a given outcome, compiled, or called in Python from compiled code."""
    if is_compiled is not False:
        try:
            return compile_as(function, GIVEN, GIVEN_FORM)
        except ConfigurationError as error:
            if is_compiled:
                raise
            warnings.warn(
                f"{error}. They are called in Python instead: the results are the same, but "
                "everything is about 500 times as slow. compiled=False says that this is meant",
                stacklevel=count_own_frames(),
            )
    return call_in_python(getattr(function, "py_func", function))


@functools.cache
def call_in_python(function: Any) -> Any:
    """Return a compiled function that calls dynamics of a given outcome in Python.

    An exception becomes the reward NaN, because none may cross compiled code. It is kept as
    `call.error`, for the message about that reward.
    """

    def call(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> float:
        try:
            return float(function(state, action, step, params, outcome, after))
        except Exception as error:
            call.error = error  # type: ignore[attr-defined]
            return math.nan

    if IS_JIT_DISABLED:
        return call

    def given(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
        with numba.objmode(reward="float64"):
            reward = call(state, action, step, params, outcome, after)
        return reward

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", numba.NumbaWarning)  # it does not run in parallel
        found = compile_kernel(given, GIVEN, on_disk=False)
    found.called, found.compiled_as = call, GIVEN
    return found


def is_python(given: Any) -> bool:
    """Return whether dynamics of a given outcome are called in Python."""
    return hasattr(given, "called")


def error_of(given: Any) -> Exception | None:
    """Return the last exception of dynamics that are called in Python, or None."""
    return getattr(getattr(given, "called", given), "error", None)


# --- functions made of others ---------------------------------------------------------------------

# All are cached: the same function again, so that `compile_as` compiles it once in a process.


@functools.cache
def draw_law(first: int, n_laws: int, width: int) -> Any:
    """Return a function that draws an outcome of the laws stored from params[first] on."""

    def draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
        law = first + 2 * (step % n_laws)
        place, n = int(params[law]), int(params[law + 1])
        share = rng.random()
        low, high = 0, n - 1  # the first weight above the share, or the last
        while low < high:
            middle = (low + high) // 2
            if share >= params[place + middle]:
                low = middle + 1
            else:
                high = middle
        for k in range(width):
            outcome[k] = params[place + n + low * width + k]
        return 0.0

    return draw


@functools.cache
def draw_trace(first: int, horizon: int, width: int) -> Any:
    """Return a function that plays a whole recorded episode, drawn at step 0.

    params[first] is the number of that episode, params[first + 1] the number of all.
    """

    def draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
        if step == 0:
            params[first] = np.floor(rng.random() * params[first + 1])
        row = first + 2 + (int(params[first]) * horizon + step) * width
        for k in range(width):
            outcome[k] = params[row + k]
        return 0.0

    return draw


@functools.cache
def draw_weighed(weigh: Any, first: int, width: int) -> Any:
    """Return a function that weighs the outcomes and draws one.

    params[first] is the number of outcomes, params[first + 1] the place of the first.
    """

    def draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
        n, place = int(params[first]), int(params[first + 1])
        values = params[place : place + n * width].reshape((n, width))
        weights = np.empty(n)
        weigh(state, action, step, params, values, weights)
        i = draw_index(weights, rng)
        if i < 0:
            return np.nan
        for k in range(width):
            outcome[k] = values[i, k]
        return 0.0

    return _name_after(draw, (weigh,), first, width)


@functools.cache
def compose(given: Any, draw: Any, width: int) -> Any:
    """Return dynamics that draw an outcome and play it."""
    draw = compile_as(draw, DYNAMICS, DYNAMICS_FORM)

    def drawing(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
        outcome = np.empty(width)
        if np.isnan(draw(state, action, step, params, rng, outcome)):
            return np.nan
        return given(state, action, step, params, outcome, next_state)

    return _name_after(drawing, (given, draw), width)


@functools.cache
def compose_weighed(given: Any, weigh: Any, width: int) -> Any:
    """Return dynamics of the gallery: weigh the outcomes, draw one, and play it.

    It is `compose(given, draw_weighed(weigh, 0, width), width)` with one array less to allocate,
    and with both functions inlined, which halves its time. No `weigh` of the gallery reads values.
    """
    play, fill = (jit_inline(getattr(part, "py_func", part)) for part in (given, weigh))

    def drawing(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
        weights = np.empty(int(params[0]))
        fill(state, action, step, params, params, weights)
        first = int(params[1]) + draw_index(weights, rng) * width
        return play(state, action, step, params, params[first : first + width], next_state)

    return _name_after(drawing, (given, weigh), width)


def _name_after(function: Any, parts: tuple[Any, ...], *numbers: int) -> Any:
    """Name a function for the disk cache after all that it is made of, if that is ours."""
    pythons = [getattr(part, "py_func", part) for part in parts]
    if all(_is_ours(one) and (one.__closure__ is None or _cache_name(one)) for one in pythons):
        names = [_cache_name(one) or f"{one.__module__}.{one.__name__}" for one in pythons]
        files = [Path(one.__code__.co_filename) for one in pythons]
        function.cache_name = f"{' '.join(names)} {numbers} {hash_files(*files)}"
    return function


def _cache_name(function: Any) -> str | None:
    name: str | None = getattr(function, "cache_name", None)
    return name


def _shorten_message(text: str) -> str:
    """Shorten an error message of Numba to a hint, the line number, and the line with the error.

    >>> fault = "Unsupported array index type float64"
    >>> said = f'Failed in nopython mode\\n{fault}\\nFile "a/b.py", line 7:\\n'
    >>> print(_shorten_message(said).replace(". ", ".\\n"))
    : an index must be whole: int(state[0]).
    Numba says of line 7 of b.py: Unsupported array index type float64
    """
    found = ((re.search(form, text), hint) for form, hint in _HINTS.items())
    hint = next((": " + match.expand(hint) for match, hint in found if match), "")
    place = re.search(r'File "([^"]+)", line (\d+):', text)
    where = f" of line {place[2]} of {Path(place[1]).name}" if place else ""
    lines = [line.strip() for line in text.splitlines() if not line.startswith(_NOISE)]
    lines = [line for line in lines if line] or [text]
    inner = [line for line in lines if re.match(r"\w+Error: ", line)]  # the reason
    said = inner[0] if inner else " ".join(lines[: 2 if lines[0].endswith("signature:") else 1])
    return f"{hint}. Numba says{where}: {said}"


def box_of(space: Any, where: str) -> tuple[gym.Space[Any], gym.spaces.Box]:
    """Return the space of the environment, and the float64 box of the dynamics."""
    if isinstance(space, gym.spaces.Discrete):
        first = float(space.start)
        return space, gym.spaces.Box(first, first + float(space.n) - 1.0, (1,), np.float64)
    is_vector = isinstance(space, gym.spaces.Box) and len(space.shape) == 1
    if not (is_vector and np.issubdtype(space.dtype, np.floating)):
        raise ConfigurationError(
            f"{where} of a compiled environment must be a one-dimensional Box of floats, or "
            f"Discrete, not {space}"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ConfigurationError(f"{where} is unbounded: {space}. Give finite bounds.")
    ends = space.low.astype(np.float64), space.high.astype(np.float64)
    box = gym.spaces.Box(*ends, dtype=np.float64)
    return box, box


def as_vector(values: Any, what: str) -> Floats:
    """Return a sequence of numbers as a vector. Raise ConfigurationError for anything else."""
    try:
        return as_floats(values).ravel()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{what}={short_repr(values)}: give a sequence of numbers"
        ) from error
