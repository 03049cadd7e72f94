"""Read recorded noise: columns of a file or frame become `zooming.Records`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from zooming.envs.records import Records
from zooming.errors import ConfigurationError, TransitionError
from zooming.logs.learn import BAD, RowChecks
from zooming.logs.reading import Columns, Rows, Source, check_separator, find_column, open_columns
from zooming.validation import Ints, check_choice, check_list, count_noun, known_options, short_repr

MOST_CELLS = 100_000_000  # of the array [n_episodes, n_steps, n_columns]


@known_options
def read_records(
    source: Any,
    noise: str | Sequence[str] | None,
    *,
    episode: str | None = None,
    step: str | None = None,
    by: str | None = None,
    censored: str | None = None,
    context: Sequence[str] = (),
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
    context : sequence of str, optional
        Columns with states and actions that were recorded with the noise. No law uses them; a plan
        warns if the noise seems to depend on them.
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
    beside = check_list(context, "context")
    single = {"episode": episode, "step": step, "by": by, "censored": censored}

    def choose(there: list[str]) -> Columns:
        check_separator(there)
        given = [*single.values(), *beside]
        rest = [name for name in there if name not in given] if noise is None else noise
        names = check_list(rest, "noise")
        if not names or len(set(names)) < len(names):
            raise ConfigurationError(
                f"noise={short_repr(noise)}: give the name of a column, or a list of different ones"
            )
        found: dict[str, Any] = {"noise": tuple(find_column(there, one, "noise") for one in names)}
        found["context"] = tuple(find_column(there, one, "context") for one in beside) or None
        for option, name in single.items():
            found[option] = None if name is None else find_column(there, name, option)
        return Columns(found, ("episode", "by"))

    opened = open_columns(source, choose)
    checks = _Checks(opened.columns)
    for rows in opened.pieces() if checks.is_series else opened.episodes(math.inf):
        checks.feed(rows)
    checks.refuse(opened, bad)
    found = checks.records(law, dependent)
    if opened.name.lower().endswith(".csv") and found.rows is not None:
        found.rows, found.row_name = np.where(found.rows < 0, -1, found.rows + 2), "line"
    return found


class _Checks(RowChecks):
    """Place rows in an array [n_episodes, n_steps], and count the faults."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.names = columns.names
        self.is_series = self.names["episode"] is None and self.names["step"] is None
        self._n_episodes = 0
        self._least_step = math.inf
        # episode, step, noise, censored, row, context, season
        self._kept: list[tuple[Any, ...]] = []

    def feed(self, rows: Rows) -> None:
        n, first, names = len(rows), rows.first, self.names
        noise, censored, seasons = rows["noise"], rows["censored"], rows["by"]
        is_new, is_unnamed, usable = np.zeros(n, bool), np.zeros(n, bool), np.ones(n, bool)
        if self.is_series:
            is_new[0] = first == 0
            steps = np.arange(first, first + n, dtype=np.float64)
        else:
            is_new, is_back, is_unnamed, steps = self.find_runs(rows)
            is_step = (steps == np.rint(steps)) & (steps >= 0)
            self._least_step = min(self._least_step, np.min(steps[is_step], initial=math.inf))
            self.flag(
                "step", f"with a {names['step']!r} that is not a whole number from 0 on",
                ~is_step & ~np.isnan(steps), first, lambda k: f"{steps[k]:g}",
            )  # fmt: skip
            known = is_step & ~is_unnamed
            usable = known & self.check_order(steps, is_new, is_back, known, first)
        is_unknown = np.isnan(noise)
        is_missing = is_unknown.any(axis=1) | np.isnan(steps) | is_unnamed
        self.flag(
            "missing", "with a missing value or text for a number", is_missing, first,
            lambda k: f"column {names['noise'][int(is_unknown[k].argmax())]!r}"
            if is_unknown[k].any()
            else f"column {names['step'] or names['episode']!r}",
        )  # fmt: skip
        is_large = np.asarray(np.isinf(noise).any(axis=1))
        self.flag("infinite", "with an infinite value", is_large, first)
        hidden = np.zeros(n, bool)
        if censored is not None:
            is_odd = np.asarray(~np.isin(censored, (0.0, 1.0)))
            self.flag(
                "censored", f"with a value of {names['censored']!r} that is not 0 or 1, true or "
                "false", is_odd, first, lambda k: f"{censored[k]:g}",
            )  # fmt: skip
            hidden, usable = censored == 1, usable & ~is_odd
        number = self._n_episodes - 1 + np.cumsum(is_new)
        self._n_episodes = int(number[-1]) + 1
        keep = usable & ~is_missing & ~is_large
        beside = np.empty((n, 0)) if rows["context"] is None else rows["context"]
        is_unclear = np.asarray(np.isnan(beside).any(axis=1))
        keep &= ~is_unclear
        self.flag(
            "context", "with a missing value or text in a column of the context", is_unclear, first,
            lambda k: f"column {names['context'][int(np.isnan(beside[k]).argmax())]!r}",
        )  # fmt: skip
        self._kept.append((
            number[keep], steps[keep].astype(np.int64), noise[keep], hidden[keep],
            np.flatnonzero(keep) + first, beside[keep],
            None if seasons is None else seasons[keep],
        ))  # fmt: skip
        self.n_rows += n

    def refuse(self, source: Source, bad: str) -> None:
        """Raise an error if there are no rows, or faults that must not be skipped."""
        if not self.n_rows:
            raise ConfigurationError(f"{source.name} has no rows")
        steps = np.concatenate([part[1] for part in self._kept])
        if self.names["step"] is not None and self._least_step == 1:
            raise TransitionError(
                f"{source.name} counts its steps from 1, and nothing was read: no row has step 0 "
                f"in the column {self.names['step']!r}. Subtract 1 from it"
            )
        if self.faults and bad == "refuse":
            self.refuse_faults(source.name, "read", source.columns.text_hints())
        if not len(steps):
            raise TransitionError(
                f"{source.name}: all {count_noun(self.n_rows, 'row')} have faults: {self.listed()}"
            )

    def records(self, law: str, dependent: bool) -> Records:
        """Return the rows that were kept as `Records`."""
        parts = list(zip(*self._kept, strict=True))
        number, step, noise, hidden, rows, beside = (np.concatenate(part) for part in parts[:6])
        _, number = np.unique(number, return_inverse=True)
        number = number.ravel()
        n_episodes, n_steps = int(number.max()) + 1, int(step.max()) + 1
        if n_episodes * n_steps * noise.shape[1] > MOST_CELLS:
            raise TransitionError(
                f"the steps of {self.names['step'] or 'the records'} go up to {n_steps - 1:,} in "
                f"{n_episodes:,} episodes, too many for one array; check the columns of episodes "
                "and steps"
            )
        values = np.full((n_episodes, n_steps, noise.shape[1]), np.nan)
        values[number, step] = noise
        source = np.full((n_episodes, n_steps), -1)
        source[number, step] = rows
        mask = None
        if self.names["censored"] is not None:
            mask = np.zeros((n_episodes, n_steps), bool)
            mask[number, step] = hidden
        by = None
        if self.names["by"] is not None:
            by = self._seasons(np.concatenate(parts[6]), step, rows, n_steps)
        context = {}
        for k, name in enumerate(self.names["context"] or ()):
            context[name] = np.full((n_episodes, n_steps), np.nan)
            context[name][number, step] = beside[:, k]
        found = Records(
            values, names=self.names["noise"], law=law, by=by, dependent=dependent, censored=mask,
            context=context,
        )  # fmt: skip
        found.is_series = self.is_series
        found.rows, found.skipped = source, self.listed()
        return found

    def _seasons(self, seasons: Any, step: Ints, rows: Ints, n_steps: int) -> list[Any]:
        """Return the season of each step. Raise an error if a step has several."""
        by = self.names["by"]
        if self.is_series:
            raise ConfigurationError(
                f"by={by!r} needs episodes: a season belongs to a step of an episode. "
                "Give episode=, or step="
            )
        found: dict[int, Any] = {}
        for season, k, row in zip(seasons.tolist(), step.tolist(), rows.tolist(), strict=True):
            if found.setdefault(k, season) != season:
                raise TransitionError(
                    f"by={by!r}: step {k} has the season {found[k]!r}, but row {row} "
                    f"has {season!r} there. A season must be the same in all rows of a step; begin "
                    "episodes where the season begins, or make records of one season at a time"
                )
        missing = [k for k in range(n_steps) if k not in found]
        if missing:
            raise TransitionError(f"by={by!r}: no row has step {missing[0]}")
        return [found[k] for k in range(n_steps)]
