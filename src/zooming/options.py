"""Options by name: which ones a class or a function takes, and what is said of one that it does not take."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

from zooming.errors import SpaceError

P = ParamSpec("P")
T = TypeVar("T")
_ANY, _NAMED = inspect.Parameter.VAR_KEYWORD, (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def known_options(function: Callable[P, T]) -> Callable[P, T]:
    """The function or `__init__`, which refuses an option that it does not have with the nearest one that it has.

    Its signature stays what it was. An `__init__` that takes any option passes them on, and the one that refuses it names the
    class that was called.
    """
    parameters = inspect.signature(function).parameters.values()
    own = {parameter.name for parameter in parameters if parameter.kind in _NAMED}
    takes_any = any(parameter.kind is _ANY for parameter in parameters)

    @functools.wraps(function)
    def checked(*arguments: P.args, **options: P.kwargs) -> T:
        if not takes_any and not own.issuperset(options):
            called: Any = type(arguments[0]) if function.__name__ == "__init__" else function
            refuse_unknown(called.__name__, [name for name in options if name not in own], called)
        return function(*arguments, **options)

    return checked


def refuse_unknown(label: str, names: Iterable[str], make: Callable[..., Any]) -> None:
    """SpaceError for the first name that is no option of what makes it; what takes any option is trusted."""
    known, takes_any = _options(make)
    for name in names:
        if name not in known and not takes_any:
            raise SpaceError(f"{label} has no option {name!r}{nearest(name, known)}")


def option_names(make: Callable[..., Any]) -> list[str]:
    """What a function, a class, or what passes options on to a class (its own, if it is a class method) takes by name.

    >>> from zooming import Median
    >>> option_names(Median)[:3]
    ['env', 'horizon', 'reward_range']
    """
    return _options(make)[0]


def _options(make: Callable[..., Any]) -> tuple[list[str], bool]:
    """Names, and whether any other is taken as well."""
    found: list[str] = []
    for function in _in_order(make):
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
        found += [parameter.name for parameter in parameters if parameter.kind in _NAMED]
        if not any(parameter.kind is _ANY for parameter in parameters):
            return [*dict.fromkeys(found)], False
    return [*dict.fromkeys(found)], True


def passes_options_to(owner: type[Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Marks a function whose `**options` are those of a class."""

    def marked(function: Callable[P, T]) -> Callable[P, T]:
        function.passes_options_to = owner  # type: ignore[attr-defined]
        return function

    return marked


def _in_order(make: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """The functions that an option meets, from the one that is called to the one that takes no other."""
    owner = getattr(make, "passes_options_to", None) or getattr(make, "__self__", make)
    if owner is not make or not isinstance(owner, type):
        yield make
    if isinstance(owner, type):
        yield from (base.__dict__["__init__"] for base in owner.__mro__ if base is not object and "__init__" in base.__dict__)


def nearest(name: str, names: Iterable[str]) -> str:
    """`; did you mean ...?`, or nothing if no name is close."""
    close = difflib.get_close_matches(name, names, 1, 0.5 if len(name) < 4 else 0.6)  # one letter of two is half
    return f"; did you mean {close[0]!r}?" if close else ""
