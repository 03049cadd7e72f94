"""Import the libraries of rivals, and read their versions."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from zooming.errors import ConfigurationError

# Name of the package that is installed, and the extra of zooming that brings it.
_PACKAGES = {
    "cmaes": ("cmaes", "rivals"),
    "PyXAB": ("PyXAB", "rivals"),
    "stable_baselines3": ("stable-baselines3", "sb3"),
}


def import_library(module: str) -> Any:
    """Import a module of a rival's library.

    If the library is not installed, raise ConfigurationError with the pip command.
    """
    package, extra = _PACKAGES[module.partition(".")[0]]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"this agent needs {package} ({error}): pip install 'zooming[{extra}]'"
        ) from error


def library_of(kind: str) -> str | None:
    """Return the package that an agent of a study runs, or None if it is zooming itself.

    >>> library_of("rule-search"), library_of("sb3:PPO"), library_of("auto")
    ('cmaes', 'stable-baselines3', None)
    """
    return _LIBRARIES.get(kind.partition(":")[0])


_LIBRARIES = {"rule-search": "cmaes", "sb3": "stable-baselines3", "pyxab": "PyXAB"}


def versions_of(kinds: Iterable[str]) -> dict[str, str]:
    """Return {package: version} of the libraries of these agents, "not installed" if missing."""
    found = {}
    for package in filter(None, (library_of(kind) for kind in kinds)):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
