"""Methods of a class whose work is done in an upper room.

A lower room declares such a method, `export = UpperMethod()`. `zooming.methods` names the function
that it is, in one table that is read when zooming is imported. So lower rooms import nothing from
above, and users find `agent.export(...)` where they expect it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

Find = Callable[[], Callable[..., Any]]
_FINDERS: dict[str, Find] = {}


def bind(name: str, find: Find) -> None:
    """Let `find()` return the function of the method `name`, for example "History.plot"."""
    _FINDERS[name] = find


class UpperMethod:
    """A method that an upper room defines: a function whose first argument is the instance."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"{owner.__name__}.{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        function = _FINDERS[self.name]()
        return function if instance is None else MethodType(function, instance)
