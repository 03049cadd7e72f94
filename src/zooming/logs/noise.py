"""Read recorded noise: columns of a file or frame become `zooming.Records`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from zooming.envs.records import Mask, Records
from zooming.errors import ConfigurationError, TransitionError
from zooming.logs.checks import RowChecks
from zooming.logs.columns import (
    Text,
    check_separator,
    find_column,
    read_names,
    read_numbers,
)
from zooming.logs.reading import Source, open_columns
from zooming.validation import Floats, check_choice, count_noun, short_repr

BAD = ("refuse", "skip")
MOST_CELLS = 100_000_000  # of the array [n_episodes, n_steps, n_columns]


class NoiseRows(NamedTuple):
    """Some rows of records. NaN is a missing value. None is a missing column."""

    first_row: int
    episodes: Any  # [n] of any type
    steps: Floats | None
    noise: Floats  # [n, n_columns]
    seasons: Any  # [n] of any type
    censored: Floats | None


@dataclass(frozen=True)
class NoiseColumns:
    """The names of the columns of records."""

    noise: tuple[str, ...]
    episode: str | None
    step: str | None
    by: str | None
    censored: str | None
    texts: dict[str, Text] = field(default_factory=dict, compare=False)

    @property
    def used(self) -> list[str]:
        """Names of all columns that are read."""
        return [*filter(None, (self.episode, self.step, self.by, self.censored)), *self.noise]

    def read(self, frame: Any, first_row: int) -> NoiseRows:
        """Return some rows. `frame` is what `columns_of` returns, or a part of it."""

        def numbers(name: str) -> Floats:
            return read_numbers(frame, name, first_row, self.texts)

        return NoiseRows(
            first_row,
            None if self.episode is None else read_names(frame[self.episode], self.episode),
            None if self.step is None else numbers(self.step),
            np.column_stack([numbers(name) for name in self.noise]),
            None if self.by is None else read_names(frame[self.by], self.by),
            None if self.censored is None else numbers(self.censored),
        )


def read_records(
    source: Any,
    noise: str | Sequence[str],
    *,
    episode: str | None = None,
    step: str | None = None,
    by: str | None = None,
    censored: str | None = None,
    law: str = "auto",
    dependent: bool = False,
    bad: str = "refuse",
) -> Records:
    """Return the records of a CSV or Parquet file, a frame, or a dict of columns.

    It is `zooming.Records.read`. The file is read piece by piece.

    Parameters
    ----------
    source : path, frame or dict
        A .csv or .parquet file, a frame of polars or pandas, or a dict of columns. The rows of an
        episode follow one another, in the order of their steps.
    noise : str or sequence of str
        The columns of noise.
    episode, step : str, optional
        Columns that name the episode and its step, from 0. Without a step, the rows of an episode
        are counted. Without both, the rows are a series, which is cut into episodes.
    by : str, optional
        Column with the season of each row, which must be the same in all rows of a step: one law
        per season.
    censored : str, optional
        Column that is 1 or true where the noise was at least the value, such as "sold_out".
    law, dependent
        See `Records`.
    bad : {"refuse", "skip"}, default "refuse"
        "refuse" raises an error that lists all faults: missing values, text, gaps, steps twice,
        rows out of order. "skip" leaves such rows out; a gap is a missing value.

    Returns
    -------
    Records
        The records.

    Raises
    ------
    ConfigurationError
        If a column is missing, or the source is no table.
    TransitionError
        If rows have faults. The message names rows and columns.

    Examples
    --------
    >>> import zooming
    >>> table = {"week": [1, 1, 2, 2], "day": [0, 1, 0, 1], "demand": [3.0, 9.0, 4.0, 8.0]}
    >>> zooming.Records.read(table, noise=["demand"], episode="week", step="day")
    Records(demand: 2 episodes of 2 steps, law chosen by a test)
    """
    check_choice("bad", bad, BAD)
    columns: list[NoiseColumns] = []

    def choose(there: list[str]) -> NoiseColumns:
        check_separator(there)
        names = (noise,) if isinstance(noise, str) else tuple(noise)
        if not names or len(set(names)) < len(names):
            raise ConfigurationError(
                f"noise={short_repr(noise)}: give the name of a column, or a list of different ones"
            )

        def named(name: str | None, option: str) -> str | None:
            return None if name is None else find_column(there, name, option)

        columns.append(
            NoiseColumns(
                tuple(find_column(there, name, "noise") for name in names),
                named(episode, "episode"), named(step, "step"), named(by, "by"),
                named(censored, "censored"),
            )
        )  # fmt: skip
        return columns[0]

    opened = open_columns(source, choose)
    checks = _Checks(columns[0])
    for rows in opened.pieces():
        checks.feed(cast(NoiseRows, rows))
    checks.refuse(opened, bad)
    return checks.records(law, dependent)


class _Checks(RowChecks):
    """Place rows in an array [n_episodes, n_steps], and count the faults."""

    def __init__(self, columns: NoiseColumns) -> None:
        super().__init__()
        self.columns = columns
        self._last: tuple[Any, float] | None = None  # episode and step of the last row
        self._n_episodes = 0
        self._kept: list[tuple[Any, ...]] = []  # episode, step, noise, censored, row, season

    def feed(self, rows: NoiseRows) -> None:
        n, first = len(rows.noise), rows.first_row
        if not n:
            return
        episodes, given = rows.episodes, rows.steps
        if episodes is None and given is None:  # a series
            is_new, nothing = np.zeros(n, bool), np.zeros(n, bool)
            is_new[0], is_back, is_unnamed = first == 0, nothing, nothing
            steps = np.arange(first, first + n, dtype=np.float64)
            usable = np.ones(n, bool)
        else:
            is_new, is_back, is_unnamed, steps = self._continue(episodes, given, n)
            is_step = (steps == np.rint(steps)) & (steps >= 0)
            self.flag(
                "step", f"with a {self.columns.step!r} that is not a whole number from 0 on",
                ~is_step & ~np.isnan(steps), first, lambda k: f"{steps[k]:g}",
            )  # fmt: skip
            known = is_step & ~is_unnamed
            usable = known & self._ordered(steps, is_new, is_back, known, first)
        is_missing: Mask = np.asarray(np.isnan(rows.noise).any(axis=1))
        is_missing = is_missing | np.isnan(steps) | is_unnamed
        names = self.columns.noise
        self.flag(
            "missing", "with a missing value or text for a number", is_missing, first,
            lambda k: f"column {names[int(np.isnan(rows.noise[k]).argmax())]!r}"
            if np.isnan(rows.noise[k]).any()
            else f"column {self.columns.step or self.columns.episode!r}",
        )  # fmt: skip
        is_large: Mask = np.asarray(np.isinf(rows.noise).any(axis=1))
        self.flag("infinite", "with an infinite value", is_large, first)
        hidden = np.zeros(n, bool)
        if rows.censored is not None:
            is_odd = np.asarray(~np.isin(rows.censored, (0.0, 1.0)))
            self.flag(
                "censored", f"with a value of {self.columns.censored!r} that is not 0 or 1, true "
                "or false", is_odd, first, lambda k: f"{rows.censored[k]:g}",
            )  # fmt: skip
            hidden, usable = rows.censored == 1, usable & ~is_odd
        number = self._n_episodes - 1 + np.cumsum(is_new)
        self._n_episodes = int(number[-1]) + 1
        self._last = (None if episodes is None else episodes[-1], float(steps[-1]))
        keep = usable & ~is_missing & ~is_large
        seasons = None if rows.seasons is None else rows.seasons[keep]
        where = np.flatnonzero(keep) + first
        self._kept.append(
            (number[keep], steps[keep].astype(np.int64), rows.noise[keep], hidden[keep], where,
             seasons)
        )  # fmt: skip
        self.n_rows += n

    def _continue(
        self, episodes: Any, given: Floats | None, n: int
    ) -> tuple[Mask, Mask, Mask, Floats]:
        """Return what `find_runs` and `count_steps` do, continued from the piece before."""
        goes_on = False
        if self._last is not None and episodes is not None and episodes[0] == self._last[0]:
            goes_on = True
            self._known.discard(self._last[0])
        elif self._last is not None and episodes is None:
            assert given is not None
            goes_on = bool(given[0] > self._last[1])
        is_new, is_back, is_unnamed = self.find_runs(episodes, given, n)
        steps = self.count_steps(given, is_new)
        is_new[0] = not goes_on
        if goes_on and given is None and self._last is not None:
            end = int(np.argmax(is_new[1:])) + 1 if is_new[1:].any() else n
            steps[:end] += self._last[1] + 1
        return is_new, is_back, is_unnamed, steps

    def _ordered(self, steps: Floats, is_new: Mask, is_back: Mask, known: Mask, first: int) -> Mask:
        """Return `check_order`, with the last row of the piece before in front."""
        if is_new[0] or self._last is None:
            return self.check_order(steps, is_new, is_back, known, first)
        before = np.zeros(1, bool)
        all_steps = np.append(self._last[1], steps)
        masks = [np.concatenate([before, mask]) for mask in (is_new, is_back, known)]
        return self.check_order(all_steps, masks[0], masks[1], masks[2], first - 1)[1:]

    def refuse(self, source: Source, bad: str) -> None:
        """Raise an error if there are no rows, or faults that must not be skipped."""
        if not self.n_rows:
            raise ConfigurationError(f"{source.name} has no rows")
        steps = np.concatenate([part[1] for part in self._kept])
        if self.columns.step is not None and len(steps) and steps.min() == 1:
            raise TransitionError(
                f"{source.name} counts its steps from 1, and nothing was read: no row has step 0 "
                f"in the column {self.columns.step!r}. Subtract 1 from it"
            )
        if self.faults and bad == "refuse":
            texts = "".join(
                f" The column {name!r} holds text, first {text.value!r} in row {text.row}."
                for name, text in source.texts.items()
            )
            raise TransitionError(
                f"{source.name} has faults, and nothing was read: {self.listed()}. Rows count from "
                f'0.{texts} Correct these rows, or skip them with bad="skip"'
            )
        if not len(steps):
            raise TransitionError(
                f"{source.name}: all {count_noun(self.n_rows, 'row')} have faults: {self.listed()}"
            )

    def records(self, law: str, dependent: bool) -> Records:
        """Return the rows that were kept as `Records`."""
        parts = list(zip(*self._kept, strict=True))
        number, step, noise, hidden, rows = (np.concatenate(part) for part in parts[:5])
        _, number = np.unique(number, return_inverse=True)
        number = number.ravel()
        n_episodes, n_steps = int(number.max()) + 1, int(step.max()) + 1
        if n_episodes * n_steps * noise.shape[1] > MOST_CELLS:
            raise TransitionError(
                f"the steps of {self.columns.step or 'the records'} go up to {n_steps - 1:,} in "
                f"{n_episodes:,} episodes, too many for one array; check the columns of episodes "
                "and steps"
            )
        values = np.full((n_episodes, n_steps, noise.shape[1]), np.nan)
        values[number, step] = noise
        source = np.full((n_episodes, n_steps), -1)
        source[number, step] = rows
        mask = None
        if self.columns.censored is not None:
            mask = np.zeros((n_episodes, n_steps), bool)
            mask[number, step] = hidden
        by = None
        if self.columns.by is not None:
            by = self._seasons(np.concatenate(parts[5]), step, rows, n_steps)
        is_series = self.columns.episode is None and self.columns.step is None
        found = Records(
            values, names=self.columns.noise, law=law, by=by, dependent=dependent, censored=mask,
        )  # fmt: skip
        found.is_series = is_series
        found.rows, found.skipped = source, self.listed()
        return found

    def _seasons(
        self, seasons: Any, step: NDArray[np.int64], rows: NDArray[np.int64], n_steps: int
    ) -> list[Any]:
        """Return the season of each step. Raise an error if a step has several."""
        if self.columns.episode is None and self.columns.step is None:
            raise ConfigurationError(
                f"by={self.columns.by!r} needs episodes: a season belongs to a step of an episode. "
                "Give episode=, or step="
            )
        found: dict[int, Any] = {}
        for season, k, row in zip(seasons.tolist(), step.tolist(), rows.tolist(), strict=True):
            if found.setdefault(k, season) != season:
                raise TransitionError(
                    f"by={self.columns.by!r}: step {k} has the season {found[k]!r}, but row {row} "
                    f"has {season!r} there. A season must be the same in all rows of a step; begin "
                    "episodes where the season begins, or make records of one season at a time"
                )
        missing = [k for k in range(n_steps) if k not in found]
        if missing:
            raise TransitionError(f"by={self.columns.by!r}: no row has step {missing[0]}")
        return [found[k] for k in range(n_steps)]
