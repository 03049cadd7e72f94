"""Say that kernels are compiled: one line on stderr, after one second.

On a terminal the line is updated, and removed at the end. Elsewhere, as in a notebook or a log
file, it is printed once. The environment variable `ZOOMING_QUIET` hides it.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

AFTER = 1.0  # seconds of compilation before the line appears
# Seconds of processor time that the longest compilations took on a machine of 2024.
SECONDS = {"play_boxes": 8, "make_plan": 50, "play_trees": 8, "play_balls": 8}


class Watch:
    """Counts what is compiled, and writes the line.

    `begin` and `end` are called by the thread that compiles, `show` and `hide` by the one that
    waits for it. Compilations are nested: a kernel begins before the functions that it calls.
    """

    def __init__(self) -> None:
        self.seconds, self.n_done, self.is_said = 0.0, 0, False
        self.names: list[str] = []
        self.began = 0.0
        self.status: Any = None

    def reset(self) -> None:
        """Forget a compilation that failed."""
        self.names = []

    def begin(self, name: str) -> None:
        if not self.names:
            self.began = time.monotonic()
        self.names = [*self.names, name]
        self.show()

    def end(self) -> None:
        self.names, self.n_done = self.names[:-1], self.n_done + 1
        if not self.names:
            self.seconds += time.monotonic() - self.began

    def show(self) -> None:
        """Write the line, or update it, if there is something to wait for."""
        names, stream = self.names, sys.stderr
        elapsed = self.seconds + (time.monotonic() - self.began if names else 0.0)
        if not names or elapsed < AFTER or stream is None or os.environ.get("ZOOMING_QUIET"):
            return
        text = describe(names[0], time.monotonic() - self.began, self.n_done)
        if stream.isatty() and os.environ.get("TERM") != "dumb":
            self._update(text)
        elif not self.is_said:
            self.is_said = True
            print(f"zooming: {text}", file=stream, flush=True)

    def _update(self, text: str) -> None:
        try:
            from rich.console import Console
        except ImportError:
            sys.stderr.write(f"\r\x1b[K{text[:79]}")
            sys.stderr.flush()
            self.status = sys.stderr
            return
        if self.status is None:
            self.status = Console(stderr=True).status(text)
            self.status.start()
        self.status.update(text)

    def hide(self) -> None:
        """Remove the line from a terminal."""
        status, self.status = self.status, None
        if status is sys.stderr and status is not None:
            status.write("\r\x1b[K")
            status.flush()
        elif status is not None:
            status.stop()


def describe(name: str, elapsed: float, n_done: int) -> str:
    """Return what is compiled, how far it is, about how long it takes, and that it happens once.

    >>> describe("play_boxes", 3.2, 14)
    'compiling play_boxes, 3 s of about 8 s, 14 functions done. This happens once.'
    """
    about = f" of about {SECONDS[name]} s" if name in SECONDS else ""
    return f"compiling {name}, {elapsed:.0f} s{about}, {n_done} functions done. This happens once."


WATCH = Watch()
