"""Print the tables of `zooming run` and `zooming tune`."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

from zooming.analysis.intervals import Interval
from zooming.lab.rivals.rival import library_of, versions_of
from zooming.lab.study.summary import FEW_SEEDS, Row
from zooming.lab.tune import Tuned

WIDTH = 140  # characters per line of tables written to a file or a pipe


def show(rows: Sequence[Row], n_seeds: int) -> None:
    """Print the summary of a study, one table per problem."""
    from rich.table import Table

    console = wide_console()
    for problem, ours in itertools.groupby(rows, key=lambda row: (row.problem, row.optimum)):
        optimum = "" if problem[1] is None else f", optimum {problem[1]:.4f}"
        table = Table(title=f"{problem[0]}{optimum}", title_justify="left")
        for column in ("agent", "final return", "regret", "advantage", "balls", "bytes", "ms/run"):
            table.add_column(
                column,
                justify="left" if column == "agent" else "right",
                no_wrap=column != "agent",
                overflow="fold",
            )
        for row in ours:
            final = (
                _format_interval(row.final_return, "{:.4f}")
                if row.final_return
                else f"{row.mean_return:.4f}"
            )
            regret, advantage = _regret(row), _format_interval(row.advantage, "{:+.4f}")
            table.add_row(
                row.agent,
                final,
                regret,
                advantage,
                f"{row.n_balls:,.0f}",
                f"{row.nbytes:,.0f}",
                f"{1e3 * row.seconds:.1f}",
            )
        console.print(table)
    for row in rows:
        if row.n_clipped:
            console.print(
                f"{row.problem}, {row.agent}: {row.n_clipped:,.1f} rewards a run were clipped.",
                style="yellow",
            )
    for name, number in versions_of(row.agent for row in rows).items():
        users = dict.fromkeys(row.agent for row in rows if library_of(row.agent) == name)
        console.print(f"{', '.join(users)}: {name} {number}.", highlight=False)
    console.print(
        "± is half a 95 % interval over the seeds. Final return: the last tenth of the episodes. "
        "Advantage over the first "
        "agent: per episode, over all episodes, paired by seed."
    )
    _warn_of_few_seeds(console, n_seeds, "--seeds")


def show_tuned(found: Sequence[Tuned], n_seeds: int, values: Sequence[float]) -> None:
    """Print all values that were tried, then the best ones with their return on fresh seeds."""
    from rich.table import Table

    title = (
        "the value with the largest mean return of all episodes, evaluated on seeds it was "
        "not tuned on"
    )
    table = Table(title=title, title_justify="left")
    for column in ("problem", "agent", "value", "final return", "regret", "samples"):
        table.add_column(
            column, justify="left" if column in ("problem", "agent") else "right", overflow="fold"
        )
    for tuned in found:
        row = tuned.evaluation
        final = (
            _format_interval(row.final_return, "{:.4f}")
            if row.final_return
            else f"{row.mean_return:.4f}"
        )
        table.add_row(
            tuned.problem,
            tuned.agent,
            _setting(tuned, tuned.value),
            final,
            _regret(row),
            f"{tuned.samples:,}",
        )
    console = wide_console()
    console.print(_tried_table(found))
    console.print(table)
    for tuned in found:
        if tuned.value in (min(values), max(values)) and len(values) > 1:
            where = f"{tuned.agent} on {tuned.problem}"
            console.print(
                f"[yellow]{where}: {tuned.value:g} is at the edge of what was tried; try values "
                "beyond it.[/]"
            )
    _warn_of_few_seeds(console, n_seeds, "--evaluation-seeds")


def _tried_table(found: Sequence[Tuned]) -> Any:
    """Return a table with one line per value that was tried."""
    from rich.table import Table

    table = Table(
        title="mean return of all episodes on the tuning seeds, ± half a 95 % interval",
        title_justify="left",
    )
    for column in ("problem", "agent", "value", "return", "seeds", ""):
        table.add_column(
            column,
            justify="left" if column in ("problem", "agent", "") else "right",
            overflow="fold",
        )
    for tuned in found:
        table.add_section()
        for i, tried in enumerate(tuned.tried):
            shown = (
                _format_interval(tried.interval, "{:.4f}")
                if tried.interval
                else f"{tried.mean_return:.4f}"
            )
            names = ("", "") if i else (tuned.problem, tuned.agent)
            is_best = (tried.value, tried.mean_return) == (tuned.value, tuned.tuning_return)
            table.add_row(
                *names,
                _setting(tuned, tried.value),
                shown,
                str(tried.n_seeds),
                "best" if is_best else "",
            )
    return table


def _setting(tuned: Tuned, value: float) -> str:
    return f"{tuned.option}={value if isinstance(value, int) else format(value, '.4g')}"


def wide_console() -> Any:
    """Return a console as wide as the terminal, or `WIDTH` for a file or a pipe."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH)


def _warn_of_few_seeds(console: Any, n_seeds: int, option: str) -> None:
    if n_seeds < FEW_SEEDS:
        warning = (
            f"Only {n_seeds} seeds: intervals this wide or missing say little. Give "
            f"{option} {FEW_SEEDS} or more."
        )
        console.print(f"[yellow]{warning}[/]")


def _format_interval(interval: Interval | None, form: str) -> str:
    if interval is None:
        return "-"
    return (
        f"{form.format(interval.mean)} ± "
        f"{form.replace('+', '').format((interval.high - interval.low) / 2)}"
    )


def _regret(row: Row) -> str:
    if row.regret is not None or row.mean_regret is None:
        return _format_interval(row.regret, "{:,.1f}")
    return f"{row.mean_regret:,.1f}"
