"""Read a log piece by piece: a frame, or a CSV or Parquet file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from zooming.errors import ConfigurationError
from zooming.logs.columns import (
    Rows,
    Text,
    choose_columns,
    columns_of,
    library_of,
    names_of_columns,
)
from zooming.validation import import_frames, short_repr

PIECE_ROWS = 500_000  # rows that are converted at once
PIECE_BYTES = 32_000_000  # of a CSV file
LONGEST_ROW = 256_000_000  # bytes
ENDINGS = (".csv", ".parquet")


@dataclass(frozen=True)
class Source:
    """A log.

    Attributes
    ----------
    name : str
        Name of the log in error messages.
    pieces : function
        Returns an iterator over the rows.
    texts : dict
        {column: first Text} of the columns of numbers that hold text, as far as they were read.
    """

    name: str
    pieces: Callable[[], Iterator[Rows]]
    texts: dict[str, Text] = field(default_factory=dict)


def open_log(log: Any, axes: Any, options: dict[str, Any]) -> Source:
    """Return a log as a source of rows. `options` are the column names of `learn_from`."""
    return open_columns(log, lambda there: choose_columns(there, axes, **options))


def open_columns(log: Any, choose: Callable[[list[str]], Any]) -> Source:
    """Return a frame or a file as a source of rows.

    `choose(names)` returns the columns to read: an object with `used`, `texts` and
    `read(frame, first_row)`, such as `Columns`.
    """
    if library_of(log) is not None:
        columns = _columns(names_of_columns(log), choose)
        return Source("the log", lambda: _slices(log, columns), columns.texts)
    if isinstance(log, (str, os.PathLike)):
        return _open_file(Path(log), choose)
    raise ConfigurationError(
        f"{short_repr(log)} is not a log; give a data frame of polars or pandas, a dict of "
        "columns, or the path of a .csv or .parquet file"
    )


def _columns(there: list[str], choose: Callable[[list[str]], Any]) -> Any:
    """Return the columns to read. Raise ConfigurationError if one of them occurs twice."""
    columns = choose(there)
    for name in columns.used:
        if there.count(name) > 1:
            raise ConfigurationError(
                f"the column {name!r} occurs {there.count(name)} times; rename the others"
            )
    return columns


def _open_file(path: Path, choose: Callable[[list[str]], Any]) -> Source:
    if path.suffix not in ENDINGS:
        raise ConfigurationError(
            f"{path}: no log has the ending {path.suffix!r}; choose one of {', '.join(ENDINGS)}"
        )
    if not path.is_file():
        raise ConfigurationError(f"{path}: there is no such file")
    if path.suffix == ".parquet":
        with _reading(path, "Parquet"):
            lazy = _polars().scan_parquet(path)
            there, n_rows = lazy.collect_schema().names(), _n_rows(lazy)
        columns = _columns(there, choose)
        return Source(str(path), lambda: _parquet(lazy, path, columns, n_rows), columns.texts)
    with _reading(path, "CSV"), path.open("rb") as file:
        header = _read_lines(file, path, 0)
        if not header.strip():
            raise ConfigurationError(f"{path} is empty; the first line must name the columns")
        there = list(map(str, _read_csv(header, has_header=False).row(0)))
    columns = _columns(there, choose)
    return Source(str(path), lambda: _csv(path, columns), columns.texts)


def _parquet(lazy: Any, path: Path, columns: Any, n_rows: int) -> Iterator[Any]:
    needed = lazy.select(_used(columns))
    for first in range(0, n_rows, PIECE_ROWS):
        with _reading(path, "Parquet"):
            frame = needed.slice(first, PIECE_ROWS).collect()
        yield columns.read(frame, first)


def _csv(path: Path, columns: Any) -> Iterator[Rows]:
    first = 0
    with path.open("rb") as file:
        header = _read_lines(file, path, 0)
        while block := _read_lines(file, path, PIECE_BYTES):
            with _reading(path, "CSV"):
                frame = _read_csv(header + block, columns=_used(columns))
            yield columns.read(frame, first)
            first += len(frame)


def _read_lines(file: BinaryIO, path: Path, n_bytes: int) -> bytes:
    """Read `n_bytes` of a file, and on to the end of the row. A row can hold quoted newlines."""
    parts = [file.read(n_bytes) + file.readline()]
    is_open, size = parts[0].count(b'"') % 2, 0
    while is_open and (line := file.readline()):
        parts.append(line)
        is_open, size = (is_open + line.count(b'"')) % 2, size + len(line)
        if size > LONGEST_ROW:
            raise ConfigurationError(f"{path} is not a CSV file: it has a quote that is not closed")
    return b"".join(parts)


def _read_csv(text: bytes, **options: Any) -> Any:
    """Parse lines of a CSV file into columns of text, so that all pieces have the same types."""
    return _polars().read_csv(text, infer_schema=False, **options)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Raise ConfigurationError if the file cannot be read."""
    errors = _polars().exceptions
    try:
        yield
    except (errors.PolarsError, errors.PanicException, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"{path} is not a {kind} file: {str(error)[:200]}") from error


def _slices(frame: Any, columns: Any) -> Iterator[Rows]:
    found = columns_of(frame, _used(columns))
    lengths = {len(found[name]) for name in columns.used}
    if len(lengths) > 1:
        raise ConfigurationError("the columns of the log have different lengths")
    for first in range(0, lengths.pop(), PIECE_ROWS):
        if isinstance(found, dict):
            piece = {name: column[first : first + PIECE_ROWS] for name, column in found.items()}
        else:
            piece = found.slice(first, PIECE_ROWS)
        yield columns.read(piece, first)


def _used(columns: Any) -> list[str]:
    return list(dict.fromkeys(columns.used))


def _n_rows(lazy: Any) -> int:
    return int(lazy.select(_polars().len()).collect().item())


def join(pieces: list[Rows]) -> Rows:
    """Join consecutive pieces of rows to one."""
    if len(pieces) == 1:
        return pieces[0]
    columns = list(zip(*pieces, strict=True))[1:]
    parts = [None if column[0] is None else np.concatenate(column) for column in columns]
    return Rows(pieces[0].first_row, *parts)  # type: ignore[arg-type]


def _polars() -> Any:
    return import_frames("polars", "a log in a file")
