"""Stop a study: the exception, and the signals that raise it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zooming.agents.files import container as files
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


class Stopped(Exception):
    """Raised if a study was interrupted. Finished runs are on disk. `code` is the exit code."""

    def __init__(self, done: int, total: int, code: int) -> None:
        so_far = f" after {done} of {total} runs" if total else ""
        super().__init__(f"stopped{so_far}; finished runs are kept")
        self.code = code


@contextmanager
def raise_on_sigterm() -> Iterator[list[int]]:
    """Yield an empty list. On SIGTERM, append the exit code to it and raise KeyboardInterrupt."""
    stop: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may handle signals
        return

    def handle(number: int, frame: Any) -> None:
        stop.append(128 + number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)
