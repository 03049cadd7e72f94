"""The classes of zooming's agents by name, for files that name them.

A class enters the table when it is defined. `zooming.methods` names the module of each of them, so
that a file can name a class that nobody has imported yet.
"""

from __future__ import annotations

import importlib
from typing import Any

from zooming.methods import AGENTS

HOMES = AGENTS  # class name: module
_DEFINED: dict[str, type[Any]] = {}


def register(kind: type[Any]) -> None:
    """Enter a class if its module is the one that `HOMES` names."""
    if HOMES.get(kind.__name__) == kind.__module__:
        _DEFINED[kind.__name__] = kind


def find_class(name: Any) -> type[Any] | None:
    """Return zooming's own agent class of this name, or None."""
    if isinstance(name, str) and name in HOMES:
        importlib.import_module(HOMES[name])
        return _DEFINED.get(name)
    return None


def is_own(kind: type[Any]) -> bool:
    """Return whether a class is one of zooming's agents, not one derived from them."""
    return _DEFINED.get(kind.__name__) is kind
