"""Check the paths that callbacks write to."""

from __future__ import annotations

import os
from pathlib import Path

from zooming.agents.files import writable_path


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path. Raise OSError if no file can be written there.

    Callbacks call it when they are made, so that the error comes before the run.
    """
    writable_path(path)
    return Path(path)
