"""Check the paths that callbacks write to."""

from __future__ import annotations

import os
from pathlib import Path

from zooming.agents.files import writable_path


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path; raise OSError now, not during the run, if no file can be written there."""
    writable_path(path)
    return Path(path)
