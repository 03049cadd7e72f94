"""PostgreSQL as the database of a desk, where machines are several. Needs psycopg."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from zooming.desk.storage import SCHEMA, Row
from zooming.errors import ConfigurationError, LibraryError

try:
    import psycopg
except ImportError as error:  # pragma: no cover
    raise LibraryError(
        "a desk in PostgreSQL needs psycopg: pip install 'zooming[postgres]'"
    ) from error

_WRITER, _LEARNER = 0x7A6F6F6D, 0x7A6F6F6E  # numbers of advisory locks


class Postgres:
    """The tables of a desk in a PostgreSQL database.

    Transactions that write come one after the other, by a lock, so that the numbers of events are
    in the order of commits. The one that learns holds another lock, which ends with its connection.

    Parameters
    ----------
    url : str
        As psycopg takes it: "postgresql://user@host/database".
    durability : {"power", "process"}
        With "process", a crash of the server may lose the last moments.
    """

    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str, durability: str) -> None:
        self._url, self._local, self._all = url, threading.local(), list[Any]()
        self.name = url.split("://", 1)[0] + "://" + url.split("://", 1)[1].rpartition("@")[2]
        self._commit = "on" if durability == "power" else "off"
        self._beside: Any = None  # the connection that has the lock, or tries to get it
        self._leads = False
        try:
            self._writer = self._connect()
        except psycopg.Error as error:
            raise ConfigurationError(f"{self.name} cannot be reached: {error}") from error
        with self.transaction():
            for statement in SCHEMA:
                self.run(statement.format(serial="BIGSERIAL PRIMARY KEY", blob="BYTEA"))

    def _connect(self) -> Any:
        found = psycopg.connect(self._url, autocommit=True, client_encoding="utf8")
        found.execute(f"SET synchronous_commit = {self._commit}")
        found.execute("SET client_min_messages = warning")
        self._all.append(found)
        return found

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._writer.closed:  # the server was restarted
            self._writer = self._connect()
        with self._writer.transaction():
            self._writer.execute("SELECT pg_advisory_xact_lock(%s)", [_WRITER])
            yield

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._rows(self._writer, statement, values)

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        if not hasattr(self._local, "connection") or self._local.connection.closed:
            self._local.connection = self._connect()
        return self._rows(self._local.connection, statement, values)

    @staticmethod
    def _rows(connection: Any, statement: str, values: Sequence[Any]) -> list[Row]:
        cursor = connection.execute(statement.replace("?", "%s"), values)
        found: list[Row] = [] if cursor.description is None else cursor.fetchall()
        return found

    def lead(self) -> bool:
        try:
            if self._beside is None or self._beside.closed:
                self._beside, self._leads = self._connect(), False
            statement = "SELECT true" if self._leads else f"SELECT pg_try_advisory_lock({_LEARNER})"
            self._leads = bool(self._beside.execute(statement).fetchone()[0])
        except psycopg.Error:  # the server has ended the connection, and with it the lock
            self._beside, self._leads = None, False
        return self._leads

    def resign(self) -> None:
        if self._beside is not None:
            self._beside.close()
        self._beside, self._leads = None, False

    def close(self) -> None:
        self.resign()
        for connection in self._all:
            connection.close()
