"""Find the columns of a log, and read their values as numbers."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.spaces.names import column_names
from zooming.validation import Floats, short_repr

Names = str | Sequence[str] | None
BOOLEANS = {"true": 1.0, "false": 0.0}
SEPARATORS = (";", "\t", "|")  # of CSV files that were read as if it were a comma


class Rows(NamedTuple):
    """Some rows of a log as numbers. NaN is a missing value. None is a missing column."""

    first_row: int  # number of the first row, from 0
    episodes: Any  # [n] of any type
    steps: Floats | None
    states: Floats  # [n, n_state]
    actions: Floats  # [n, n_action]
    rewards: Floats
    next_states: Floats | None  # [n, n_state]
    terminated: Floats | None
    propensities: Floats | None = None


class Text(NamedTuple):
    """A text found in a column of numbers."""

    row: int  # from 0
    value: str


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a log, by content. A missing column is None or ().

    `texts` has the first text found in each column of numbers, as far as the log was read.
    """

    episode: str | None
    step: str | None
    state: tuple[str, ...]
    action: tuple[str, ...]
    reward: str
    next_state: tuple[str, ...]
    terminated: str | None
    propensity: str | None = None
    texts: dict[str, Text] = field(default_factory=dict, compare=False)

    @property
    def used(self) -> list[str]:
        """Names of all columns that are read."""
        single = [self.episode, self.step, self.reward, self.terminated, self.propensity]
        return [*filter(None, single), *self.state, *self.action, *self.next_state]

    def read(self, frame: Any, first_row: int) -> Rows:
        """Return some rows as numbers. `frame` is what `columns_of` returns, or a part of it.

        The first texts are stored in `texts`.
        """

        def numbers(name: str) -> Floats:
            return read_numbers(frame, name, first_row, self.texts)

        def matrix(names: tuple[str, ...]) -> Floats:
            return np.column_stack([numbers(name) for name in names])

        return Rows(
            first_row,
            None if self.episode is None else read_names(frame[self.episode], self.episode),
            None if self.step is None else numbers(self.step),
            matrix(self.state),
            matrix(self.action),
            numbers(self.reward),
            matrix(self.next_state) if self.next_state else None,
            None if self.terminated is None else numbers(self.terminated),
            None if self.propensity is None else numbers(self.propensity),
        )


def choose_columns(
    there: Sequence[str],
    axes: Any,
    *,
    episode: Names,
    step: Names,
    state: Names,
    action: Names,
    reward: Names,
    next_state: Names,
    terminated: Names,
    propensity: Names = None,
) -> Columns:
    """Return the columns of a log, by the names given or by the default names.

    A column of propensities is read only if it is named. Raise ConfigurationError if a column is
    missing or does not fit the axes.
    """
    check_separator(there)
    state_axes, action_axes = axes.names[: axes.n_state], axes.names[axes.n_state :]
    usual_state, usual_action = column_names(axes.names, axes.n_state)
    # The log may be older than the names of the axes.
    path_state, path_action = column_names(axes.paths, axes.n_state)
    if {*path_state} <= {*there} and not {*usual_state} <= {*there}:
        usual_state = path_state
    if {*path_action} <= {*there} and not {*usual_action} <= {*there}:
        usual_action = path_action
    states = _find_columns(there, state, usual_state, "state", state_axes)
    actions = _find_columns(there, action, usual_action, "action", action_axes)
    usual_next = tuple(f"next_{name}" for name in usual_state)
    has_next = next_state is not None or set(usual_next) <= set(there)
    found = Columns(
        find_optional(there, episode, "episode"),
        find_optional(there, step, "step"),
        states,
        actions,
        find_column(there, "reward" if reward is None else reward, "reward"),
        _find_columns(there, next_state, usual_next, "next_state", state_axes) if has_next else (),
        find_optional(there, terminated, "terminated"),
        None if propensity is None else find_column(there, propensity, "propensity"),
    )
    if found.episode is None and found.step is None:
        raise ConfigurationError(
            f"the log has no column 'episode' or 'step' to tell its episodes apart; name one of "
            f"its columns, episode=... or step=...: {_join_names(there)}"
        )
    return found


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


def find_optional(there: Sequence[str], name: Any, usual: str) -> str | None:
    """Return the column `name`.

    If it is None, return the usual one, or None if the log lacks it.
    """
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


def library_of(frame: Any) -> str | None:
    """Return the kind of `frame`: "polars", "pandas" or "dict". None if it is not a frame."""
    name = type(frame).__module__.split(".")[0]
    if name in ("polars", "pandas") and type(frame).__name__ == "DataFrame":
        return name
    return "dict" if isinstance(frame, Mapping) else None


def names_of_columns(frame: Any) -> list[str]:
    """Return the names of the columns of a frame."""
    return list(map(str, frame if library_of(frame) == "dict" else frame.columns))


def columns_of(frame: Any, used: Sequence[str]) -> Any:
    """Return the used columns: as a polars frame, or as a dict of arrays with one axis each."""
    if library_of(frame) == "polars":
        return frame.select(used)
    if library_of(frame) == "pandas":
        frame = dict(zip(frame.columns, (column for _, column in frame.items()), strict=True))
    by_name = {str(name): column for name, column in frame.items()}
    return {name: _as_array(by_name[name], name) for name in used}


def read_numbers(frame: Any, name: str, first_row: int, texts: dict[str, Text]) -> Floats:
    """Return a column as floats, NaN for other values. The first text is stored in `texts`."""
    found, is_text = _numbers(frame[name], name)
    if is_text.any() and name not in texts:
        k = int(np.argmax(is_text))
        texts[name] = Text(first_row + k, str(frame[name][k]))
    return found


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


def read_names(column: Any, name: str) -> NDArray[Any]:
    """Return the names of episodes, which may have any type that can be compared."""
    if isinstance(column, np.ndarray):
        return column
    if column.dtype.is_nested() or column.dtype.is_object():
        raise _nested_error(name)
    return np.asarray(column.to_numpy())


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
