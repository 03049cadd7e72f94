"""Input validation shared by all packages: numbers, points, and option names."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import math
import numbers
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError, LibraryError, OptionError
from zooming.kernels.boxes.layout import BOUND_TOLERANCE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FRAMES = ("polars", "pandas")  # libraries of data frames, the preferred first
# Beyond these, squares of returns overflow or vanish. Smaller differences of rewards count as none.
LARGEST_REWARD, SMALLEST_SPAN = 1e100, 1e-100
ANY_REWARD = (-LARGEST_REWARD, LARGEST_REWARD)  # no range that `check_range` accepts
# Options of Stable-Baselines3 and similar libraries, and what to use here instead.
HABITS = {
    name: instead
    for names, instead in (
        ("total_timesteps timesteps n_timesteps max_timesteps",
         "runs are counted in episodes: give learn(episodes=...), the number of timesteps divided "
         "by the horizon"),
        ("gamma discount",
         "returns are not discounted: an episode has a fixed number of steps, horizon="),
        ("policy policy_kwargs",
         "the policy is the agent's own partition, not a network; leave it out"),
        ("learning_rate lr alpha",
         "no learning rate is set: a ball's is (H + 1) / (H + t) after t visits; leave it out"),
        ("epsilon eps ent_coef exploration_fraction exploration_initial_eps exploration_final_eps",
         "exploration is by optimism: set its size with bonus="),
        ("n_steps batch_size buffer_size learning_starts train_freq gradient_steps n_epochs tau "
         "target_update_interval device",
         "nothing is batched, replayed or run on a device: every transition is learned from at "
         "once; leave it out"),
        ("bonus",
         "this agent has no bonus to set; leave it out, or take AdaptiveQ(env, bonus=...)"),
        ("step", "give state=, the step of each environment, counted from 0"),
        ("verbose", "give learn(..., progress_bar=True) to see progress"),
    )
    for name in names.split()
}  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")
_ANY = inspect.Parameter.VAR_KEYWORD
_POINTS = ("observation", "action", "next_observation")  # arguments that may be arrays
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def known_options(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a public function so that it refuses unknown options and suggests the right one.

    Options of other libraries are answered by `HABITS`. The signature is unchanged. An `__init__`
    with `**options` passes them on. The error names the class that was called.
    """
    parameters = inspect.signature(function).parameters.values()
    own = {parameter.name for parameter in parameters if parameter.kind in _NAMED}
    takes_any = any(parameter.kind is _ANY for parameter in parameters)
    required = _required(function)

    @functools.wraps(function)
    def checked(*arguments: P.args, **options: P.kwargs) -> T:
        if function.__name__ == "__init__" and len(arguments) > 1 and _is_policy(arguments[1]):
            name = type(arguments[0]).__name__
            raise ConfigurationError(
                f"{name}({arguments[1]!r}, ...): {HABITS['policy']}, and give the environment first"
            )
        called: Any = type(arguments[0]) if function.__name__ == "__init__" else function
        if not takes_any and not own.issuperset(options):
            refuse_unknown(called.__name__, [name for name in options if name not in own], called)
        try:
            return function(*arguments, **options)
        except TypeError as error:
            _refuse_call(error, f"call {called.__name__}({', '.join([*required, '...'])})")
            raise
        except ValueError as error:
            _refuse_array(error, function, arguments, options)
            raise

    return checked


def step_first(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method of agents so that a call without the step says how to call it.

    A method whose observation has a default refuses it itself: a call less per step.
    """
    names = inspect.signature(method).parameters.values()
    if any(one.name == "observation" and one.default is None for one in names):
        return method
    form = ", ".join(_required(method))

    @functools.wraps(method)
    def called(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return method(*arguments, **options)
        except TypeError as error:
            fix = f"call agent.{method.__name__}({form}), where step counts the "
            _refuse_call(error, fix + "steps of the episode from 0")
            raise
        except ValueError as error:
            _refuse_array(error, method, arguments, options)
            raise

    return called


def _required(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that a call must give, without `self`."""
    parameters = inspect.signature(function).parameters.values()
    needed = [one.name for one in parameters if one.default is one.empty and one.kind in _NAMED]
    return [name for name in needed if name not in ("self", "cls")]


def _refuse_call(error: TypeError, fix: str) -> None:
    """Raise OptionError if the arguments of a call did not fit, not if something in it failed."""
    if error.__traceback__ is not None and error.__traceback__.tb_next is None:
        raise OptionError(f"{str(error).partition(') ')[2]}: {fix}") from error


def _refuse_array(
    error: ValueError,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> None:
    """Raise OptionError if an array was given for an argument that is tested for truth here."""
    if "truth value of an array" not in str(error) or _raised_elsewhere(error):
        return
    given: dict[str, Any] = inspect.signature(function).bind(*arguments, **options).arguments
    for name, value in {**given, **options}.items():
        if isinstance(value, np.ndarray) and value.size != 1 and name not in _POINTS:
            raise OptionError(
                f"{name}={short_repr(value)}: give a single value, not an array"
            ) from error


def _raised_elsewhere(error: Exception) -> bool:
    """Return whether an error comes from outside of this package, such as an environment."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return not frames[-1][0].f_code.co_filename.startswith(str(Path(__file__).parent))


def refuse_unknown(label: str, names: Iterable[str], make: Callable[..., Any]) -> None:
    """Raise OptionError for the first name that `make` does not accept."""
    known, takes_any = _options(make)
    for name in names:
        if name not in known and not takes_any:
            is_agents = hasattr(make, "predict") or make.__name__ in ("learn", "predict")
            is_habit = is_agents and name in HABITS
            instead = f": {HABITS[name]}" if is_habit else suggest(name, known)
            raise OptionError(f"{label} has no option {name!r}{instead}")


def _is_policy(value: Any) -> bool:
    return isinstance(value, str) and value.endswith("Policy")


def option_names(make: Callable[..., Any]) -> list[str]:
    """Return the option names of a function or class, and of the class it passes options to."""
    return _options(make)[0]


def _options(make: Callable[..., Any]) -> tuple[list[str], bool]:
    """Return (option names, whether any other name is accepted too)."""
    found: list[str] = []
    for function in _in_order(make):
        parameters = inspect.signature(function).parameters.values()
        found += [p.name for p in parameters if p.kind in _NAMED and p.name not in ("self", "cls")]
        if not any(parameter.kind is _ANY for parameter in parameters):
            return [*dict.fromkeys(found)], False
    return [*dict.fromkeys(found)], True


def passes_options_to(owner: type[Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Mark a function whose `**options` go to the class `owner`."""

    def marked(function: Callable[P, T]) -> Callable[P, T]:
        function.passes_options_to = owner  # type: ignore[attr-defined]
        return function

    return marked


def _in_order(make: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Yield the functions that options pass through, beginning with the one that is called."""
    owner = getattr(make, "passes_options_to", None) or getattr(make, "__self__", make)
    if owner is not make or not isinstance(owner, type):
        yield make
    if isinstance(owner, type):
        bases = [base for base in owner.__mro__ if base is not object]
        yield from (vars(base)["__init__"] for base in bases if "__init__" in vars(base))


def suggest(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean ...?" for the closest name, or "" if none is close."""
    least = 0.5 if len(name) < 4 else 0.6  # one letter of two is half
    close = difflib.get_close_matches(name, names, 1, least)
    return f"; did you mean {close[0]!r}?" if close else ""


LARGEST = 2**53  # integers up to here are exact as floats


def short_repr(value: Any) -> str:
    """Return repr(value), shortened to at most 80 characters, for error messages."""
    try:
        text = repr(value)
    except ValueError:  # an integer of over 4300 digits
        text = f"a {type(value).__name__} that is too long to print"
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_float(value: Any) -> float:
    """Return float(value). A number too large becomes infinite, which callers refuse."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_floats(values: Any) -> Floats:
    """Return a new float64 array. Raise TypeError or ValueError if a value is no float."""
    try:
        return np.array(values, np.float64, order="C")
    except OverflowError as error:
        raise ValueError("a number is beyond floating point") from error


def check_int(value: Any, what: str, least: int, most: int | None = LARGEST) -> int:
    """Return an int. Raise ConfigurationError if it is no integer from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ConfigurationError(f"{what}={short_repr(value)}: give a whole number >= {least}")
    if most is not None and value > most:
        raise ConfigurationError(
            f"{what}={short_repr(value)}: give a whole number from {least} to {most:,}"
        )
    return int(value)


def check_float(value: Any, what: str, low: float, high: float) -> float:
    """Return a float. Raise ConfigurationError if it is no finite number from `low` to `high`."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = as_float(value) if is_number else math.nan
    if not (math.isfinite(number) and low <= number <= high):
        bound = f", at least {low:g}" if high == math.inf else f", from {low:g} to {high:g}"
        if low == -math.inf:
            bound = "" if high == math.inf else f", at most {high:g}"
        raise ConfigurationError(f"{what}={short_repr(value)}: give a finite number{bound}")
    return number


def check_flag(value: Any, what: str) -> bool:
    """Return a bool. Raise ConfigurationError for anything else."""
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigurationError(f"{what}={short_repr(value)}: give True or False")
    return bool(value)


def check_list(given: Any, what: str) -> list[Any]:
    """Return the entries of a list. A single text counts as a list of one."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, (bytes, Mapping)) or not isinstance(given, Iterable):
        raise ConfigurationError(f"{what}={short_repr(given)}: give a list of names")
    return list(given)


def as_path(path: Any) -> Path:
    """Return a Path. Raise ConfigurationError for what is none."""
    if not isinstance(path, (str, os.PathLike)) or path == "":
        raise ConfigurationError(f"{short_repr(path)} is not a path; give the name of a file")
    return Path(path)


def check_is_agent(agent: Any) -> None:
    """Raise ConfigurationError for what is no agent."""
    if not all(hasattr(agent, part) for part in ("predict", "axes", "problem")):
        raise ConfigurationError(f"agent={short_repr(agent)} is not an agent of zooming")


def check_choice(name: str, given: str, allowed: Iterable[str]) -> str:
    """Return `given`. Raise ConfigurationError if it is not one of the allowed choices."""
    choices = tuple(allowed)
    if not isinstance(given, str) or given not in choices:
        chosen = ", ".join(map(repr, choices))
        raise ConfigurationError(f"{name}={short_repr(given)}: choose one of {chosen}")
    return given


def check_range(values: Any, what: str = "reward_range") -> tuple[float, float]:
    """Return (lowest, highest), checked: finite, in order, and of a scale that squares allow."""
    try:
        low, high = (as_float(bound) for bound in values)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{what}={short_repr(values)}: give two numbers, (lowest, highest)"
        ) from error
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigurationError(
            f"{what}={short_repr(values)}: give two finite numbers, the lowest reward first"
        )
    if max(-low, high) >= LARGEST_REWARD or high - low < SMALLEST_SPAN:
        raise ConfigurationError(
            f"{what}={short_repr(values)}: rewards below {LARGEST_REWARD:g} that differ by "
            f"{SMALLEST_SPAN:g} or more are supported; rescale the reward"
        )
    return low, high


def clip_rounding(
    point: Floats, low: NDArray[Any], high: NDArray[Any]
) -> tuple[Floats, int | None]:
    """Clip rounding errors of a point to its bounds. Return (point, index of a bad coordinate).

    The index is None if all coordinates are inside the bounds, up to rounding. A loop over floats
    is five times as fast as NumPy for the one to three coordinates of a step.
    """
    places = zip(point.tolist(), low.tolist(), high.tolist(), strict=True)
    for i, (value, least, most) in enumerate(places):
        if not least <= value <= most:
            slack = BOUND_TOLERANCE * (most - least)
            if not least - slack <= value <= most + slack:
                return point, i
            point = point.copy()
            point[i] = min(most, max(least, value))
    return point, None


def count_noun(n: int, what: str) -> str:
    """Return a count with its noun: "1 seed", "2,000 seeds"."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def count_own_frames() -> int:
    """Return the `stacklevel` with which a warning points at the caller outside this package.

    It is counted from the function that calls this one. (`skip_file_prefixes` needs Python 3.12.)
    """
    package, level, frame = str(Path(__file__).parent), 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    return level


def takes_arguments(function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether a function can be called with so many arguments, as far as can be known."""
    try:
        inspect.signature(function).bind(*arguments)
    except ValueError:
        return True  # written in C: it has no signature
    except TypeError:
        return False
    return True


def import_frames(library: str | None, what: str) -> Any:
    """Return the library of data frames: polars or pandas, or with None the first that is there."""
    if library is not None and (not isinstance(library, str) or library not in FRAMES):
        raise ConfigurationError(f'library={short_repr(library)}: choose "polars" or "pandas"')
    for name in FRAMES if library is None else (library,):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    wanted = library or " or ".join(FRAMES)
    raise LibraryError(f"{what} needs {wanted}: pip install {wanted.split()[0]}")


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
