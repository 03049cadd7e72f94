"""Import modules of problems: `module:Id` is the environment `Id` that `module` registers.

Only modules that a user names, on the command line or in Python, are imported. A stored study may
name any module, so its modules must be imported already.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import gymnasium as gym

from zooming.errors import ConfigurationError
from zooming.validation import suggest

HOW = (
    "an environment of your own is module:Id, where importing the module (in this folder, or "
    "installed) registers the Id"
)


def split_id(env_id: str) -> tuple[str | None, str]:
    """Split `module:Id` into (module, Id). For a plain `Id`, the module is None.

    >>> split_id("shop:Shop-v0"), split_id("Pendulum-v1")
    (('shop', 'Shop-v0'), (None, 'Pendulum-v1'))
    """
    module, colon, name = env_id.rpartition(":")
    return (module, name) if colon else (None, name)


def import_named(module: str) -> None:
    """Import a module that a user named, from the current folder or an installed one.

    The current folder is put at the front of `sys.path`. `python -m` does the same, but the
    installed command `zooming` does not.
    """
    if not all(part.isidentifier() for part in module.split(".")):
        raise ConfigurationError(
            f"{module!r} is not a module's name: write it as after `import`; {HOW}"
        )
    if module in sys.modules:
        return
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()  # the file may be newer than Python's cache of the folder
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"there is no module {module!r} in {here}, and none is installed"
            ) from error
        raise ConfigurationError(
            f"the module {module!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def find_id(env_id: str) -> str:
    """Return the registered Id of `module:Id` or `Id`, without importing the module.

    Raise ConfigurationError if the module is not imported, or does not register the Id.
    """
    module, name = split_id(env_id)
    if module is not None and module not in sys.modules:
        raise ConfigurationError(
            f"{env_id!r} is registered by the module {module!r}, which is not imported. A folder "
            "may name any module, and importing one runs its code. If you trust it, import "
            f"{module}"
        )
    if module is not None and name not in gym.registry:
        entries = {key: spec.entry_point for key, spec in gym.registry.items()}
        homes = {key: str(getattr(one, "__module__", one)) for key, one in entries.items()}
        near = suggest(name, [key for key, home in homes.items() if "gymnasium." not in home])
        raise ConfigurationError(f"the module {module!r} registers no environment {name!r}{near}")
    return name


def ids_here(name: str) -> list[str]:
    """Return `module:name` for each file of this folder that registers, or else names, the Id."""
    files = sorted(file for file in Path().glob("*.py") if file.is_file())
    texts = {file.stem: file.read_text(errors="ignore").replace("'", '"') for file in files}
    having = {module: text for module, text in texts.items() if f'"{name}"' in text}
    registering = [module for module, text in having.items() if "register(" in text]
    return [f"{module}:{name}" for module in registering or having]
