"""Read a log piece by piece: a frame, a CSV or Parquet file, or a Minari dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from zooming.errors import ConfigurationError
from zooming.logs.columns import (
    Rows,
    Text,
    choose_columns,
    library_of,
    names_of_columns,
    read_rows,
)
from zooming.validation import import_frames, short_repr

PIECE_ROWS = 500_000  # rows that are in memory at once
PIECE_BYTES = 32_000_000  # of a CSV file
ENDINGS = (".csv", ".parquet")


@dataclass(frozen=True)
class Source:
    """A log that can be read more than once.

    Attributes
    ----------
    name : str
        Name of the log in error messages.
    pieces : function
        Returns an iterator over the rows.
    is_in_memory : bool
        Whether all rows are in memory, so that they need not be read again.
    texts : dict
        {column: first Text} of the columns of numbers that hold text, as far as they were read.
    """

    name: str
    pieces: Callable[[], Iterator[Rows]]
    is_in_memory: bool
    texts: dict[str, Text] = field(default_factory=dict)


def open_log(log: Any, axes: Any, options: dict[str, Any]) -> Source:
    """Return a log as a source of rows. `options` are the column names of `learn_from`."""
    if hasattr(log, "iterate_episodes"):
        named = [name for name, value in options.items() if value is not None]
        if named:
            raise ConfigurationError(
                f"{named[0]}={options[named[0]]!r}: a Minari dataset has no columns to name"
            )
        return Source("the Minari dataset", lambda: _episodes(log, axes), False)
    if library_of(log) is not None:
        columns = choose_columns(names_of_columns(log), axes, **options)
        return Source("the log", lambda: _slices(log, columns), True, columns.texts)
    if isinstance(log, (str, os.PathLike)):
        return _open_file(Path(log), axes, options)
    raise ConfigurationError(
        f"{short_repr(log)} is not a log; give a data frame of polars or pandas, a dict of "
        "columns, the path of a .csv or .parquet file, or a Minari dataset"
    )


def _open_file(path: Path, axes: Any, options: dict[str, Any]) -> Source:
    if path.suffix not in ENDINGS:
        raise ConfigurationError(
            f"{path}: no log has the ending {path.suffix!r}; choose one of {', '.join(ENDINGS)}"
        )
    if not path.is_file():
        raise ConfigurationError(f"{path}: there is no such file")
    pl = import_frames("polars", "a log in a file")
    if path.suffix == ".parquet":
        try:
            lazy = pl.scan_parquet(path)
            names, n_rows = lazy.collect_schema().names(), lazy.select(pl.len()).collect().item()
        except pl.exceptions.PolarsError as error:
            raise ConfigurationError(f"{path} is not a Parquet file: {error}") from error
        columns = choose_columns(names, axes, **options)

        def pieces() -> Iterator[Rows]:
            needed = lazy.select(list(dict.fromkeys(columns.used)))
            for first in range(0, n_rows, PIECE_ROWS):
                yield read_rows(needed.slice(first, PIECE_ROWS).collect(), columns, first)

        return Source(str(path), pieces, False, columns.texts)
    with path.open("rb") as file:
        header = file.readline()
    if not header.strip():
        raise ConfigurationError(f"{path} is empty; the first line must name the columns")
    columns = choose_columns(_read_csv(pl, header, path).columns, axes, **options)
    return Source(str(path), lambda: _csv_pieces(pl, path, columns), False, columns.texts)


def _csv_pieces(pl: Any, path: Path, columns: Any) -> Iterator[Rows]:
    first, used = 0, list(dict.fromkeys(columns.used))
    with path.open("rb") as file:
        header = file.readline()
        while block := _read_lines(file):
            frame = _read_csv(pl, header + block, path, used)
            yield read_rows(frame, columns, first)
            first += len(frame)


def _read_lines(file: BinaryIO) -> bytes:
    """Read about PIECE_BYTES of a file, up to the end of a line."""
    return file.read(PIECE_BYTES) + file.readline()


def _read_csv(pl: Any, text: bytes, path: Path, used: list[str] | None = None) -> Any:
    """Parse lines of a CSV file into columns of text, so that all pieces have the same types."""
    try:
        return pl.read_csv(text, columns=used, infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not a CSV file: {error}") from error


def _slices(frame: Any, columns: Any) -> Iterator[Rows]:
    kind = library_of(frame)
    n_rows = len(next(iter(frame.values()), ())) if kind == "dict" else len(frame)
    if kind == "dict" and {len(frame[name]) for name in columns.used} != {n_rows}:
        raise ConfigurationError("the columns of the log have different lengths")
    for first in range(0, n_rows, PIECE_ROWS):
        if kind == "polars":
            piece = frame.slice(first, PIECE_ROWS)
        elif kind == "pandas":
            piece = frame.iloc[first : first + PIECE_ROWS]
        else:
            piece = {name: frame[name][first : first + PIECE_ROWS] for name in columns.used}
        yield read_rows(piece, columns, first)


def _episodes(dataset: Any, axes: Any) -> Iterator[Rows]:
    """Yield the rows of a Minari dataset, many episodes at a time."""
    waiting: list[Rows] = []
    first = n_rows = 0
    for number, episode in enumerate(dataset.iterate_episodes()):
        states = axes.states.batch(episode.observations, "observations")[0]
        n = len(episode.rewards)
        if len(states) != n + 1:
            raise ConfigurationError(
                f"episode {number} of the Minari dataset has {len(states)} observations for {n} "
                "rewards; expected one more than rewards"
            )
        waiting.append(
            Rows(
                first, np.full(n, number), np.arange(n, dtype=np.float64), states[:-1],
                axes.actions.batch(episode.actions, "actions")[0],
                np.asarray(episode.rewards, np.float64), states[1:],
                np.asarray(episode.terminations, np.float64),
            )
        )  # fmt: skip
        n_rows += n
        if n_rows >= PIECE_ROWS:
            yield join(waiting)
            first, n_rows, waiting = first + n_rows, 0, []
    if waiting:
        yield join(waiting)


def join(pieces: list[Rows]) -> Rows:
    """Join consecutive pieces of rows to one."""
    if len(pieces) == 1:
        return pieces[0]
    columns = list(zip(*pieces, strict=True))[1:]
    parts = [None if column[0] is None else np.concatenate(column) for column in columns]
    return Rows(pieces[0].first_row, *parts)  # type: ignore[arg-type]
