"""The database of a desk: its tables, in SQLite or PostgreSQL, behind one small interface.

`events` is the log: what has been learned is a function of its rows in the order of `seq`. Rows are
written in one transaction at a time, so the order of `seq` is the order of commits.

    episodes   number, name, seed and drawn (how it is played), at, is_over
    decisions  id, key, episode, step, observation, action, bounds, explored, by, version, at, state
    events     seq, kind, episode, decision, data, at
    snapshots  seq, content, open, at: the agent after the events up to seq, and its open episodes
    pieces     seq, k, content: of a snapshot whose own content is empty
    plans      name, seq, at: the snapshot that has the plan by which open episodes are played
    meta       name, value

Kinds of events: begin (an episode); tell (a reward, to be learned); default (learned because none
came in time); missing (none came, and nothing is learned); part (of a reward that is summed later);
late, extra, frozen (rewards that are not learned); cancel; close (an episode, by age); mode.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from zooming.errors import ConfigurationError, LibraryError
from zooming.validation import short_repr

FORMAT = 2  # of the tables; 1 had neither pieces nor plans
OPEN, TOLD, EXPIRED, CANCELLED = "open", "told", "expired", "cancelled"  # states of a decision
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS episodes (number BIGINT PRIMARY KEY, name TEXT, "
    "seed TEXT NOT NULL, drawn TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, "
    "is_over INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX IF NOT EXISTS episodes_named ON episodes (name, number)",
    "CREATE INDEX IF NOT EXISTS episodes_open ON episodes (at) WHERE is_over = 0",
    "CREATE TABLE IF NOT EXISTS decisions (id {serial}, key TEXT UNIQUE, episode BIGINT NOT NULL, "
    "step INTEGER NOT NULL, observation TEXT NOT NULL, action TEXT NOT NULL, bounds TEXT, "
    "explored INTEGER NOT NULL, decider TEXT NOT NULL, version BIGINT NOT NULL, "
    "at DOUBLE PRECISION NOT NULL, state TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS decisions_of ON decisions (episode, id)",
    "CREATE INDEX IF NOT EXISTS decisions_open ON decisions (at) WHERE state = 'open'",
    "CREATE TABLE IF NOT EXISTS events (seq {serial}, kind TEXT NOT NULL, episode BIGINT, "
    "decision BIGINT, data TEXT NOT NULL, at DOUBLE PRECISION NOT NULL)",
    "CREATE INDEX IF NOT EXISTS events_decision ON events (decision)",
    "CREATE TABLE IF NOT EXISTS snapshots (seq BIGINT PRIMARY KEY, content {blob} NOT NULL, "
    "open TEXT NOT NULL, at DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS pieces (seq BIGINT, k INTEGER, content {blob} NOT NULL, "
    "PRIMARY KEY (seq, k))",
    "CREATE TABLE IF NOT EXISTS plans (name TEXT PRIMARY KEY, seq BIGINT NOT NULL, "
    "at DOUBLE PRECISION NOT NULL)",
)  # fmt: skip
Row = tuple[Any, ...]
Query = tuple[str, Sequence[Any]]  # a statement, and its values
_TIDY = 1.0  # seconds between two copies of SQLite's write-ahead log into its file
_MOST_PAGES = 4096  # of the write-ahead log, 17 MB, after which a commit copies it


def open_storage(place: str | os.PathLike[str], durability: str, exists: bool) -> Storage:
    """Return the storage at a path, or of a URL that begins with postgresql://."""
    if durability not in ("power", "process"):
        raise ConfigurationError(
            f"durability={durability!r}: choose 'power' (a decision survives a power failure) or "
            "'process' (it survives the death of the process, and asks are faster)"
        )
    if not isinstance(place, (str, os.PathLike)) or str(place) in ("", ":memory:"):
        raise ConfigurationError(f"place={short_repr(place)}: give a file, or postgresql://...")
    if str(place).startswith(("postgresql://", "postgres://")):
        return Postgres(str(place), durability)
    if exists and not os.path.exists(place):
        raise ConfigurationError(
            f"{place} does not exist; zooming.Desk(agent, {str(place)!r}) makes a new desk"
        )
    return SQLite(str(place), durability)


class Storage(ABC):
    """What a desk needs of a database. Statements have `?` for their values.

    With the durability "power", a commit waits until the disk has it.
    """

    errors: tuple[type[Exception], ...]
    types: ClassVar[dict[str, str]]  # of columns, for `SCHEMA`
    is_closed = False

    def __init__(self, name: str) -> None:
        self.name, self._local, self._all = name, threading.local(), list[Any]()
        try:
            self._writer = self._connect()
            self._make_tables()
        except BaseException as error:
            self.close()
            if isinstance(error, self.errors):
                raise ConfigurationError(
                    f"{name} cannot be opened as a desk's database: {error}"
                ) from error
            raise

    def _make_tables(self) -> None:
        """Make the tables that are missing, unless a newer zooming wrote the database."""
        with self.transaction():
            self.run(SCHEMA[0])
            known = self.run("SELECT value FROM meta WHERE name = 'format'")
            if known and known[0][0] not in map(str, range(1, FORMAT + 1)):
                raise ConfigurationError(
                    f"{self.name} was written by a newer zooming (format {known[0][0]}, this one "
                    f"reads {FORMAT}); update zooming"
                )
            for statement in SCHEMA[1:]:
                self.run(statement.format(**self.types))
            self.run("UPDATE meta SET value = ? WHERE name = 'format'", [str(FORMAT)])

    @abstractmethod
    def _connect(self) -> Any:
        """Return a new connection, which `close` closes."""

    @abstractmethod
    def transaction(self) -> Any:
        """Return a context in which `run` writes. It is committed whole, or not at all."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement inside of `transaction`. Return its rows."""
        return self._rows(self._writer, statement, values)

    def run_all(self, queries: Sequence[Query]) -> list[list[Row]]:
        """Run several queries inside of `transaction`. Return the rows of each."""
        return [self.run(*query) for query in queries]

    def write(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Run a statement without a result inside of `transaction`. It may be sent later."""
        self._writer.execute(statement, values)

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query, from any thread. It waits for no writer."""
        self._check_open()
        known = getattr(self._local, "connection", None)
        if known is None or getattr(known, "closed", False):  # a server may have ended it
            self._local.connection = known = self._connect()
        return self._rows(known, statement, values)

    def _rows(self, connection: Any, statement: str, values: Sequence[Any]) -> list[Row]:
        found: list[Row] = connection.execute(statement, values).fetchall()
        return found

    def tidy(self) -> None:
        """Do what commits would otherwise have to do, from a thread that nobody waits for."""
        return

    def clock(self) -> float:
        """Return the time, in seconds, by the clock that the processes at this database share."""
        return time.time()

    @abstractmethod
    def lead(self) -> bool:
        """Return whether this object may learn: whether no other one that lives does."""

    @abstractmethod
    def resign(self) -> None:
        """Let another one learn."""

    def _check_open(self) -> None:
        if self.is_closed:
            raise ConfigurationError(f"{self.name} was closed; zooming.Desk.open opens it again")

    def close(self) -> None:
        """Close all connections."""
        self.is_closed = True
        self.resign()
        for connection in self._all:
            connection.close()


class SQLite(Storage):
    """A database in one file, with a write-ahead log beside it."""

    errors = (sqlite3.Error,)
    types: ClassVar = {"serial": "INTEGER PRIMARY KEY", "blob": "BLOB"}

    def __init__(self, path: str, durability: str) -> None:
        self._sync = "FULL" if durability == "power" else "NORMAL"
        self._leader: sqlite3.Connection | None = None
        self._tidied = time.monotonic()
        super().__init__(path)

    def _connect(self) -> sqlite3.Connection:
        found = sqlite3.connect(
            self.name, timeout=60.0, isolation_level=None, check_same_thread=False
        )
        self._all.append(found)
        if len(self._all) == 1:
            found.execute("PRAGMA journal_mode=WAL")
        found.execute(f"PRAGMA synchronous={self._sync}")
        found.execute("PRAGMA secure_delete=ON")  # names that are forgotten leave the file
        found.execute(f"PRAGMA wal_autocheckpoint={_MOST_PAGES}")
        return found

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._check_open()
        try:
            if self._writer.in_transaction:  # a signal came before the last one could end
                self._writer.execute("ROLLBACK")
            self._writer.execute("BEGIN IMMEDIATE")
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:  # not if the disk is full: SQLite has rolled back
                self._writer.execute("ROLLBACK")
            raise

    def tidy(self) -> None:
        # Copies the write-ahead log into the file. Otherwise, commits do, and take longer.
        if time.monotonic() - self._tidied > _TIDY:
            ((_, n_pages, _),) = self.read("PRAGMA wal_checkpoint(PASSIVE)")
            if n_pages > _MOST_PAGES // 2:  # commits append as long as it was not copied whole
                self.read("PRAGMA wal_checkpoint(RESTART)")
            self._tidied = time.monotonic()

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


class Postgres(Storage):
    """A PostgreSQL database, "postgresql://user@host/database", where machines are several.

    Transactions that write come one after the other, by a lock, so that the numbers of events are
    in the order of commits. The one that learns holds another lock, which ends with its connection.
    """

    types: ClassVar = {"serial": "BIGSERIAL PRIMARY KEY", "blob": "BYTEA"}
    WRITER, LEARNER = 0x7A6F6F6D, 0x7A6F6F6E  # numbers of advisory locks

    def __init__(self, url: str, durability: str) -> None:
        try:
            import psycopg
        except ImportError as error:  # pragma: no cover
            raise LibraryError(
                "a desk in PostgreSQL needs psycopg: pip install 'zooming[postgres]'"
            ) from error
        self._driver, self.errors, self._url = psycopg, (psycopg.Error,), url
        self._commit = "on" if durability == "power" else "off"
        self._beside: Any = None  # the connection that has the lock, or tries to get it
        self._leads = False
        self._queued: list[Query] = []  # statements that are not sent yet
        self._prepared: dict[str, str] = {}  # calls by statement
        self._n_prepared = 0
        scheme, _, rest = url.partition("://")
        name = f"{scheme}://{rest.rpartition('@')[2]}"  # without a password
        super().__init__(name)

    def _connect(self) -> Any:
        found = self._driver.connect(self._url, autocommit=True, client_encoding="utf8")
        self._all.append(found)
        found.execute(f"SET synchronous_commit = {self._commit}")
        found.execute("SET client_min_messages = warning")
        return found

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._check_open()
        if self._writer.closed:  # the server was restarted
            self._writer, self._prepared = self._connect(), {}
        self._queued = [("BEGIN", ()), (f"SELECT pg_advisory_xact_lock({self.WRITER})", ())]
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            if not self._writer.closed:
                self._writer.execute("ROLLBACK")
            raise

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self.run_all([(statement, values)])[0]

    def run_all(self, queries: Sequence[Query]) -> list[list[Row]]:
        # These and all statements before them take one way to the server and back.
        sent, self._queued = [*self._queued, *queries], []
        calls = [self._call(statement, len(values)) for statement, values in sent]
        cursor = self._driver.ClientCursor(self._writer)
        cursor.execute(";".join(calls), [value for _, values in sent for value in values])
        found = [_fetched(cursor)]
        while cursor.nextset():
            found.append(_fetched(cursor))
        return found[len(sent) - len(queries) :]

    def _call(self, statement: str, n_values: int) -> str:
        """Return the call of a prepared statement: planning one takes longer than running it."""
        if statement not in self._prepared:
            self._n_prepared += 1  # first: a signal may come after PREPARE
            call, number = statement, self._n_prepared
            if statement.startswith(("SELECT", "INSERT", "UPDATE", "DELETE")):
                parts, call = statement.split("?"), f"EXECUTE desk_{number}"
                text = "".join(f"{part}${k + 1}" for k, part in enumerate(parts[:-1])) + parts[-1]
                self._writer.execute(f"PREPARE desk_{number} AS {text}")
                call += f"({', '.join(['%s'] * n_values)})" * bool(n_values)
            self._prepared[statement] = call
        return self._prepared[statement]

    def write(self, statement: str, values: Sequence[Any] = ()) -> None:
        self._queued.append((statement, values))

    def _rows(self, connection: Any, statement: str, values: Sequence[Any]) -> list[Row]:
        return _fetched(connection.execute(statement.replace("?", "%s"), values))

    def clock(self) -> float:
        return float(self.read("SELECT EXTRACT(EPOCH FROM clock_timestamp())")[0][0])

    def lead(self) -> bool:
        try:
            if self._beside is None or self._beside.closed:
                self._beside, self._leads = self._connect(), False
            ask = "SELECT true" if self._leads else f"SELECT pg_try_advisory_lock({self.LEARNER})"
            self._leads = bool(self._beside.execute(ask).fetchone()[0])
        except self.errors:  # the server has ended the connection, and with it the lock
            self._beside, self._leads = None, False
        return self._leads

    def resign(self) -> None:
        if self._beside is not None:
            self._beside.close()
        self._beside, self._leads = None, False


def _fetched(cursor: Any) -> list[Row]:
    found: list[Row] = [] if cursor.description is None else cursor.fetchall()
    return found
