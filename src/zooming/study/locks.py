"""Lock the folder of a study, so that only one command writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zooming.agents import files
from zooming.errors import ConfigurationError

LOCK = ".lock"


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock the folder for this command in the `with` block. The lock ends if the process dies."""
    try:
        import fcntl
    except ImportError:  # on Windows, two commands in one folder are not detected
        yield
        return
    try:
        lock = files.writable_path(folder / LOCK).open("a")
    except OSError as error:
        raise write_error(folder, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another command is writing to {folder}; wait until it ends, or choose another "
                "--out"
            ) from error
        yield


def write_error(folder: Path, error: OSError) -> ConfigurationError:
    """Return the error for a folder that cannot be written."""
    return ConfigurationError(f"cannot write to {folder}: {error.strerror}. Choose another --out")
