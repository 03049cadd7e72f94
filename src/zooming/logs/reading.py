"""Read a log piece by piece as numbers: a frame, or a CSV or Parquet file."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.spaces.names import column_names
from zooming.validation import Floats, import_frames, short_repr

DECIMAL_COMMA = re.compile(r"\s*-?\d+,\d+\s*")
PIECE_ROWS = 500_000  # rows that are converted at once
PIECE_BYTES = 32_000_000  # of a CSV file
LONGEST_ROW = 256_000_000  # bytes
ENDINGS = (".csv", ".parquet")
SEPARATORS = (";", "\t", "|")  # of CSV files that were read as if it were a comma
COLUMN_OPTIONS = ("episode", "step", "state", "action", "reward", "next_state", "terminated")
BOOLEANS = {"true": 1.0, "false": 0.0}
ORDER = "desk_event"  # column of a desk's log: the event that taught a row


@dataclass(frozen=True)
class Rows:
    """Some rows of a log by content. NaN is a missing value, and None a missing column."""

    first: int  # number of the first row, from 0
    columns: dict[str, Any]  # arrays [n] or [n, n_axes]

    def __getitem__(self, content: str) -> Any:
        return self.columns[content]

    def __len__(self) -> int:
        return next(len(column) for column in self.columns.values() if column is not None)

    def part(self, first: int, last: int) -> Rows:
        """Return the rows from `first` to before `last`, counted within these rows."""
        columns = {k: None if v is None else v[first:last] for k, v in self.columns.items()}
        return Rows(self.first + first, columns)

    def join(self, after: Rows) -> Rows:
        """Return these rows and those after them."""
        columns = {
            k: None if v is None else np.concatenate([v, after[k]]) for k, v in self.columns.items()
        }
        return Rows(self.first, columns)


class Text(NamedTuple):
    """A text found in a column of numbers."""

    row: int  # from 0
    value: str


@dataclass(frozen=True)
class Columns:
    """The columns of a log by content: one name, a tuple of them for axes, or None."""

    names: dict[str, Any]
    labels: tuple[str, ...] = ("episode",)  # contents that are read as they are, not as numbers
    texts: dict[str, Text] = field(default_factory=dict)  # first text in a column of numbers so far

    @property
    def used(self) -> list[str]:
        """Names of all columns that are read, each once."""
        found = [(name,) if isinstance(name, str) else name or () for name in self.names.values()]
        return list(dict.fromkeys(name for names in found for name in names))

    def text_hints(self) -> Iterator[str]:
        """Yield a sentence on the first text of each column of numbers."""
        for name, text in self.texts.items():
            yield f"The column {name!r} holds text, first {text.value!r} in row {text.row}."
            if DECIMAL_COMMA.fullmatch(text.value):
                yield "Write numbers with a decimal point, not a comma."

    def read(self, frame: Any, first: int) -> Rows:
        """Return some rows. `frame` is what `_columns_of` returns, or a part of it."""

        def values(content: str, name: Any) -> Any:
            if name is None:
                return None
            if content in self.labels:
                return _read_names(frame[name], name)
            if isinstance(name, tuple):
                return np.column_stack([numbers(one) for one in name])
            return numbers(name)

        def numbers(name: str) -> Floats:
            found, is_text = _numbers(frame[name], name)
            if is_text.any() and name not in self.texts:
                k = int(np.argmax(is_text))
                self.texts[name] = Text(first + k, str(frame[name][k]))
            return found

        return Rows(first, {content: values(content, name) for content, name in self.names.items()})


@dataclass(frozen=True)
class Source:
    """A log: its name in error messages, its columns, and a function that iterates over rows."""

    name: str
    columns: Columns
    pieces: Callable[[], Iterator[Rows]]

    def episodes(self, longest: float) -> Iterator[Rows]:
        """Yield the rows in pieces that end at the end of an episode."""
        rest: Rows | None = None
        pieces = self.pieces()
        piece = next(pieces, None)
        while piece is not None:
            after = next(pieces, None)
            rows = piece if rest is None else rest.join(piece)
            n = len(rows)
            cut = n if after is None else _last_start(rows)
            if cut == 0 and n > 2 * longest:
                cut = n
            if cut:
                yield rows.part(0, cut)
            piece, rest = after, rows.part(cut, n) if cut < n else None


def _last_start(rows: Rows) -> int:
    """Return the row at which the last episode begins."""
    episodes, steps = rows["episode"], rows["step"]
    if episodes is not None:
        differs = episodes[1:] != episodes[:-1]
    else:
        differs = (steps[1:] == 0) | (steps[1:] <= steps[:-1])
    starts = np.flatnonzero(differs)
    return int(starts[-1]) + 1 if len(starts) else 0


def open_log(log: Any, axes: Any, options: dict[str, Any]) -> Source:
    """Return a log as a source of rows. `options` are the column names of `learn_from`."""
    return open_columns(log, lambda there: choose_columns(there, axes, **options))


def open_columns(log: Any, choose: Callable[[list[str]], Columns]) -> Source:
    """Return a frame or a file as a source of rows. `choose(names)` returns the columns to read."""
    if _library_of(log) is not None:
        columns = _columns(_names_of_columns(log), choose)
        return Source("the log", columns, lambda: _slices(log, columns))
    if isinstance(log, (str, os.PathLike)):
        return _open_file(Path(log), choose)
    raise ConfigurationError(
        f"{short_repr(log)} is not a log; give a data frame of polars or pandas, a dict of "
        "columns, or the path of a .csv or .parquet file"
    )


def _columns(there: list[str], choose: Callable[[list[str]], Columns]) -> Columns:
    """Return the columns to read. Raise ConfigurationError if one of them occurs twice."""
    columns = choose(there)
    for name in columns.used:
        if there.count(name) > 1:
            raise ConfigurationError(
                f"the column {name!r} occurs {there.count(name)} times; rename the others"
            )
    return columns


def _open_file(path: Path, choose: Callable[[list[str]], Columns]) -> Source:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigurationError(
            f"{path}: no log has the ending {path.suffix!r}; choose one of {', '.join(ENDINGS)}"
        )
    if not path.is_file():
        raise ConfigurationError(f"{path}: there is no such file")
    if ending == ".parquet":
        with _reading(path, "Parquet"):
            lazy = _polars().scan_parquet(path)
            there = lazy.collect_schema().names()
            n_rows = int(lazy.select(_polars().len()).collect().item())
        columns = _columns(there, choose)
        return Source(str(path), columns, lambda: _parquet(lazy, path, columns, n_rows))
    with _reading(path, "CSV"), path.open("rb") as file:
        header = _read_lines(file, path, 0)
        if not header.strip():
            raise ConfigurationError(f"{path} is empty; the first line must name the columns")
        there = list(map(str, _read_csv(header, has_header=False).row(0)))
    columns = _columns(there, choose)
    return Source(str(path), columns, lambda: _csv(path, columns))


def _parquet(lazy: Any, path: Path, columns: Columns, n_rows: int) -> Iterator[Rows]:
    needed = lazy.select(columns.used)
    for first in range(0, n_rows, PIECE_ROWS):
        with _reading(path, "Parquet"):
            frame = needed.slice(first, PIECE_ROWS).collect()
        yield columns.read(frame, first)


def _csv(path: Path, columns: Columns) -> Iterator[Rows]:
    first = 0
    with path.open("rb") as file:
        header = _read_lines(file, path, 0)
        while block := _read_lines(file, path, PIECE_BYTES):
            if b"," in header and file.tell() == path.stat().st_size:
                block = block.rstrip() + b"\n"  # blank lines at the end are no rows
            with _reading(path, "CSV"):
                frame = _read_csv(header + block, columns=columns.used)
            if len(frame):
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
        why = str(error)[:200]
        if "more fields than" in why:
            why = "a row has more values than there are columns. Write numbers with a decimal point"
            why += ", not a comma, and texts with commas in quotes"
        raise ConfigurationError(f"{path} is not a {kind} file: {why}") from error


def _slices(frame: Any, columns: Columns) -> Iterator[Rows]:
    found = _columns_of(frame, columns.used)
    lengths = {len(found[name]) for name in columns.used}
    if len(lengths) > 1:
        raise ConfigurationError("the columns of the log have different lengths")
    for first in range(0, lengths.pop(), PIECE_ROWS):
        if isinstance(found, dict):
            piece = {name: column[first : first + PIECE_ROWS] for name, column in found.items()}
        else:
            piece = found.slice(first, PIECE_ROWS)
        yield columns.read(piece, first)


def _polars() -> Any:
    return import_frames("polars", "a log in a file")


# --- columns --------------------------------------------------------------------------------------


def choose_columns(
    there: Sequence[str],
    axes: Any,
    *,
    episode: Any = None,
    step: Any = None,
    state: Any = None,
    action: Any = None,
    reward: Any = None,
    next_state: Any = None,
    terminated: Any = None,
) -> Columns:
    """Return the columns of a log, by the names given or by the default names."""
    check_separator(there)
    state_axes, action_axes = axes.names[: axes.n_state], axes.names[axes.n_state :]
    usual_state, usual_action = column_names(axes.names, axes.n_state)
    states = _find_columns(there, state, usual_state, "state", state_axes)
    actions = _find_columns(there, action, usual_action, "action", action_axes)
    usual_next = tuple(f"next_{name}" for name in usual_state)
    has_next = next_state is not None or set(usual_next) <= set(there)
    found = {
        "episode": _find_optional(there, episode, "episode"),
        "step": _find_optional(there, step, "step"),
        "state": states,
        "action": actions,
        "reward": find_column(there, "reward" if reward is None else reward, "reward"),
        "next_state": _find_columns(there, next_state, usual_next, "next_state", state_axes)
        if has_next
        else None,
        "terminated": _find_optional(there, terminated, "terminated"),
        "order": _find_optional(there, None, ORDER),
    }
    if found["episode"] is None and found["step"] is None:
        raise ConfigurationError(
            f"the log has no column 'episode' or 'step' to tell its episodes apart; name one of "
            f"its columns, episode=... or step=...: {_join_names(there)}"
        )
    return Columns(found)


def check_separator(there: Sequence[str]) -> None:
    """Raise ConfigurationError if a CSV file was read with a wrong separator."""
    found = [mark for mark in SEPARATORS if len(there) == 1 and mark in there[0]]
    if found:
        raise ConfigurationError(
            f"the log has one column, {there[0]!r}: its separator is not a comma. Read the file "
            f"with polars.read_csv(path, separator={found[0]!r}), and give the frame"
        )


def find_column(there: Sequence[str], name: Any, option: str) -> str:
    if not isinstance(name, str):
        raise ConfigurationError(f"{option}={name!r}: give the name of one column")
    if name not in there:
        close = difflib.get_close_matches(name, there, 1, 0.6)
        hint = f"did you mean {close[0]!r}? Its" if close else "its"
        raise ConfigurationError(
            f"the log has no column {name!r} for {option}=; {hint} columns are {_join_names(there)}"
        )
    return name


def _find_optional(there: Sequence[str], name: Any, usual: str) -> str | None:
    """Return the column `name`; without one the usual column, or None if the log lacks it."""
    if name is None:
        return usual if usual in there else None
    return find_column(there, name, usual)


def _find_columns(
    there: Sequence[str], names: Any, usual: tuple[str, ...], option: str, axes: Sequence[str]
) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else usual if names is None else names
    given = tuple(names) if isinstance(names, Iterable) else ()
    if len(given) != len(axes):
        raise ConfigurationError(
            f"{option}={names!r}: give one column for each of the {len(axes)} axes, in their "
            f"order: {', '.join(axes)}"
        )
    if len(set(given)) < len(given):
        raise ConfigurationError(
            f"{option}={names!r} names a column twice; give each axis a column of its own"
        )
    return tuple(find_column(there, name, option) for name in given)


def _join_names(there: Sequence[str]) -> str:
    shown = ", ".join(map(repr, there[:20]))
    return shown + (", ..." if len(there) > 20 else "")


# --- values ---------------------------------------------------------------------------------------


def _library_of(frame: Any) -> str | None:
    """Return the kind of `frame`: "polars", "pandas" or "dict". None if it is not a frame."""
    name = type(frame).__module__.split(".")[0]
    if name in ("polars", "pandas") and type(frame).__name__ == "DataFrame":
        return name
    return "dict" if isinstance(frame, Mapping) else None


def _names_of_columns(frame: Any) -> list[str]:
    """Return the names of the columns of a frame."""
    return list(map(str, frame if _library_of(frame) == "dict" else frame.columns))


def _columns_of(frame: Any, used: Sequence[str]) -> Any:
    """Return the used columns: as a polars frame, or as a dict of arrays with one axis each."""
    if _library_of(frame) == "polars":
        return frame.select(used)
    if _library_of(frame) == "pandas":
        frame = dict(zip(frame.columns, (column for _, column in frame.items()), strict=True))
    by_name = {str(name): column for name, column in frame.items()}
    return {name: _as_array(by_name[name], name) for name in used}


def _as_array(column: Any, name: str) -> NDArray[Any]:
    """Return a column as an array of one axis, in which None stands for masked values."""
    if isinstance(column, np.ma.MaskedArray):
        hidden, column = np.ma.getmaskarray(column), column.data.astype(object)
        column[hidden] = None
    is_sequence = isinstance(column, Sequence) or hasattr(column, "__array__")
    if isinstance(column, (str, bytes)) or not is_sequence:
        raise ConfigurationError(
            f"the column {name!r} is {short_repr(column)}; give a sequence of values"
        )
    try:
        found = np.asarray(column)
    except ValueError:  # lists of different lengths
        raise _nested_error(name) from None
    if found.ndim != 1:
        raise _nested_error(name)
    if found.dtype == object:
        if hasattr(column, "isna"):
            found = found.copy()
            found[np.asarray(column.isna())] = None
        if any(isinstance(value, (list, tuple, set, dict, np.ndarray)) for value in found):
            raise _nested_error(name)
    return found


def _read_names(column: Any, name: str) -> NDArray[Any]:
    """Return the names of episodes, which may have any type that can be compared."""
    if isinstance(column, np.ndarray):
        return column
    if column.dtype.is_nested() or column.dtype.is_object():
        raise _nested_error(name)
    wide = "128" in str(column.dtype)  # integers that NumPy has not
    return np.asarray((column.cast(_polars().String) if wide else column).to_numpy())


def _numbers(column: Any, name: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a column as floats, with NaN for other values, and a mask of the texts."""
    if not isinstance(column, np.ndarray):
        return _polars_numbers(column, name)
    if column.dtype.kind in "mM":
        raise _kind_error(name, column.dtype)
    if column.dtype.kind in "fiub":
        return column.astype(np.float64), np.zeros(len(column), bool)
    found = np.array([_number(value) for value in column.tolist()], np.float64)
    is_text = np.isnan(found) & np.array([_is_word(value) for value in column.tolist()], bool)
    return found, is_text


def _polars_numbers(column: Any, name: str) -> tuple[Floats, NDArray[np.bool_]]:
    import polars as pl

    dtype = column.dtype
    if dtype.is_nested():
        raise _nested_error(name)
    is_words = dtype in (pl.String, pl.Categorical, pl.Enum)
    if not (is_words or dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        raise _kind_error(name, dtype)
    column = column.cast(pl.String) if is_words else column
    found = column.cast(pl.Float64, strict=False)
    is_text = found.is_null() & column.is_not_null()
    if is_words and is_text.any():  # or words of truth, or spaces
        words = column.str.strip_chars().str.to_lowercase()
        column = words.replace({"true": "1", "false": "0", "": None})
        found = column.cast(pl.Float64, strict=False)
        is_text = found.is_null() & column.is_not_null()
    return np.asarray(found.to_numpy(), np.float64), is_text.to_numpy()


def _number(value: Any) -> float:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in BOOLEANS:
            return BOOLEANS[word]
        if "_" in word or not word.isascii():  # Python reads "1_000" and the digits of any script
            return np.nan
    try:
        return float(value)
    except OverflowError:  # an integer
        return np.inf if value > 0 else -np.inf
    except (TypeError, ValueError):
        return np.nan


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() not in ("", "nan")


def _kind_error(name: str, kind: Any) -> ConfigurationError:
    return ConfigurationError(
        f"the column {name!r} holds {kind}, which are not numbers; convert it to numbers"
    )


def _nested_error(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"the column {name!r} holds lists; give a log with one column for each axis"
    )
