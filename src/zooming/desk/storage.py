"""The database of a desk: its tables, and SQLite behind the small interface that desks use.

`events` is the log: what has been learned is a function of its rows in the order of `seq`. Rows are
written in one transaction at a time, so the order of `seq` is the order of commits.

    episodes   number, name, seed and drawn (how it is played), at, is_over
    decisions  id, key, episode, step, observation, action, bounds, explored, by, version, at, state
    events     seq, kind, episode, decision, data, at
    snapshots  seq, content, digest: the agent after the events up to seq, and its open episodes
    meta       name, value

Kinds of events: begin (an episode); tell (a reward, to be learned); part (of a reward that is
summed later); late, extra, frozen (rewards that are not learned); missing (no reward came); cancel;
close (an episode, by age); mode.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from zooming.errors import ConfigurationError

FORMAT = 1
OPEN, TOLD, EXPIRED, CANCELLED = "open", "told", "expired", "cancelled"  # states of a decision
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS episodes (number BIGINT PRIMARY KEY, name TEXT, "
    "seed TEXT NOT NULL, drawn TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, "
    "is_over INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX IF NOT EXISTS episodes_name ON episodes (name)",
    "CREATE INDEX IF NOT EXISTS episodes_open ON episodes (at) WHERE is_over = 0",
    "CREATE TABLE IF NOT EXISTS decisions (id {serial}, key TEXT UNIQUE, episode BIGINT NOT NULL, "
    "step INTEGER NOT NULL, observation TEXT NOT NULL, action TEXT NOT NULL, bounds TEXT, "
    "explored INTEGER NOT NULL, decider TEXT NOT NULL, version BIGINT NOT NULL, "
    "at DOUBLE PRECISION NOT NULL, state TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS decisions_episode ON decisions (episode, step)",
    "CREATE INDEX IF NOT EXISTS decisions_open ON decisions (at) WHERE state = 'open'",
    "CREATE TABLE IF NOT EXISTS events (seq {serial}, kind TEXT NOT NULL, episode BIGINT, "
    "decision BIGINT, data TEXT NOT NULL, at DOUBLE PRECISION NOT NULL)",
    "CREATE INDEX IF NOT EXISTS events_decision ON events (decision)",
    "CREATE TABLE IF NOT EXISTS snapshots (seq BIGINT PRIMARY KEY, content {blob} NOT NULL, "
    "open TEXT NOT NULL, at DOUBLE PRECISION NOT NULL)",
)  # fmt: skip
Row = tuple[Any, ...]


class Storage(Protocol):
    """What a desk needs of a database. Statements have `?` for their values."""

    name: str
    errors: tuple[type[Exception], ...]

    def transaction(self) -> Any:
        """Return a context in which `run` writes. It is committed whole, or not at all."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement inside of `transaction`. Return its rows."""

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query, from any thread. It waits for no writer."""

    def lead(self) -> bool:
        """Return whether this object may learn: whether no other one that lives does."""

    def resign(self) -> None:
        """Let another one learn."""

    def close(self) -> None:
        """Close all connections."""


class SQLite:
    """A database in one file, with a write-ahead log beside it.

    Parameters
    ----------
    path : str
        The file.
    durability : {"power", "process"}
        Whether a commit waits until the disk has it.
    """

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: str, durability: str) -> None:
        self.name, self._local, self._all = path, threading.local(), list[sqlite3.Connection]()
        self._sync = "FULL" if durability == "power" else "NORMAL"
        self._leader: sqlite3.Connection | None = None
        try:
            self._writer = self._connect()
            self._writer.execute("PRAGMA journal_mode=WAL")
            with self.transaction():
                for statement in SCHEMA:
                    self.run(
                        statement.format(serial="INTEGER PRIMARY KEY AUTOINCREMENT", blob="BLOB")
                    )
        except sqlite3.DatabaseError as error:
            self.close()
            raise ConfigurationError(f"{path} is not a desk's database: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        found = sqlite3.connect(
            self.name, timeout=60.0, isolation_level=None, check_same_thread=False
        )
        found.execute(f"PRAGMA synchronous={self._sync}")
        self._all.append(found)
        return found

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:  # not if the disk is full: SQLite has rolled back
                self._writer.execute("ROLLBACK")
            raise

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._writer.execute(statement, values).fetchall()

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
        found: list[Row] = self._local.connection.execute(statement, values).fetchall()
        return found

    def lead(self) -> bool:
        # A transaction that stays open, in a file beside. The system ends it with its process.
        if self._leader is None:
            beside = sqlite3.connect(
                f"{self.name}-learner", timeout=0.0, isolation_level=None, check_same_thread=False
            )
            try:
                beside.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                beside.close()
                return False
            self._leader = beside
        return True

    def resign(self) -> None:
        if self._leader is not None:
            self._leader.close()
            self._leader = None

    def close(self) -> None:
        self.resign()
        for connection in self._all:
            connection.close()
