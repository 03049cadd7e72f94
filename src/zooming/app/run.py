"""The commands `zooming run`, `zooming tune` and `zooming list`."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import tyro

from zooming.analysis.intervals import Interval
from zooming.study.problems import agents_named, problem_named, settings_from
from zooming.study.rivals.libraries import library_of, versions_of
from zooming.study.stopping import Stopped
from zooming.study.study import FEW_SEEDS, Row, Study
from zooming.study.tune import PAPERS_SCALES, Tuned
from zooming.study.tune import tune as tune_options
from zooming.validation import check_int

WIDTH = 140  # characters per line of tables written to a file or a pipe
Names = tyro.conf.Positional[tuple[str, ...]]


def run(
    problems: Names,
    out: str,
    agents: str = "adaptive-q,net-q",
    episodes: int = 2000,
    seeds: int = 20,
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
    entropy: int = 0,
    expected: int = 0,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
) -> None:
    """Compare agents on problems over many seeds. Repeat the command to resume a stopped study.

    Args:
        problems: names of presets (see zooming list), registered Gymnasium ids,
        or module:Id of your own.
        out: folder of the study: manifest, finished runs, results.parquet and curves.parquet.
        agents: names separated by commas, with settings after colons:
            adaptive-q,adaptive-q:bonus=0.5,net-q.
        episodes: number of episodes of each run.
        seeds: number of runs of each agent on each problem.
        set: options of the problems.
        entropy: number from which the seeds are derived. Another number gives other seeds.
        expected: number of runs of each agent whose policies are valued exactly, for the expected
            regret of zooming report. It takes about as long again as these runs.
        engine: local (processes on this machine) or ray.
        workers: number of processes. By default one per core.
        address: address of a running Ray cluster.
    """
    began = time.perf_counter()
    options = settings_from(set)
    study = Study(
        [problem_named(name, options) for name in problems],
        agents_named(agents),
        episodes,
        seeds,
        entropy=entropy,
        valued=check_int(expected, "--expected", 0),
    )
    print(study)
    try:
        rows = study.run(out, engine=engine, workers=workers, address=address, progress_bar=True)
    except Stopped as stopped:
        say_how_to_continue(stopped)
    show(rows, seeds)
    print(f"{time.perf_counter() - began:.1f} s; tables in {out}")


def tune(
    problems: Names,
    out: str,
    agents: str = "adaptive-q,net-q",
    option: str = "bonus",
    method: str = "grid",
    values: tuple[int | float, ...] = PAPERS_SCALES,
    trials: int = 30,
    episodes: int = 2000,
    seeds: int = 10,
    evaluation_seeds: int = 20,
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
    entropy: int = 0,
    workers: int | None = None,
) -> None:
    """Tune the bonus, or another numeric option, and evaluate the best value on fresh seeds.

    Each agent is tuned on each problem. Repeat the command to resume a stopped tuning.

    Args:
        problems: names of presets (see zooming list) or registered Gymnasium ids.
        out: folder of the tuning and its evaluation.
        agents: names separated by commas, with settings after colons. The agents auto and planner
            have nothing to tune.
        option: name of the option to tune.
        method: grid (try every value) or optuna (search between the smallest and largest value).
        values: values to try. By default the scales of the bonus in the paper. If all are
            integers, only integers are tried.
        trials: number of values that optuna tries.
        episodes: number of episodes of each run.
        seeds: number of tuning runs per value. The best value has the largest mean return over
            all episodes.
        evaluation_seeds: number of evaluation runs of the best value. They use other seeds than
            the tuning.
        set: options of the problems.
        entropy: number from which the seeds are derived. Another number gives other seeds.
        workers: number of processes. By default one per core.
    """
    options = settings_from(set)
    try:
        found = tune_options(
            [problem_named(name, options) for name in problems],
            agents_named(agents),
            out,
            option=option,
            method=method,
            values=values,
            trials=trials,
            episodes=episodes,
            seeds=seeds,
            evaluation_seeds=evaluation_seeds,
            entropy=entropy,
            workers=workers,
            progress_bar=True,
        )
    except Stopped as stopped:
        say_how_to_continue(stopped)
    show_tuned(found, evaluation_seeds, values)
    print(
        f"samples are the steps that tuning took; every value that was tried is in {out}/tuned.json"
    )


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


def say_how_to_continue(stopped: Stopped) -> NoReturn:
    """Print the command that resumes the study, and exit."""
    print(f"{stopped}. To continue: {shlex.join(['zooming', *sys.argv[1:]])}")
    sys.exit(stopped.code)


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


def list_names() -> None:
    """List the problems, agents and environments of zooming, one line each."""
    from zooming.study.problems import AGENTS, PRESETS

    print("Problems (presets for zooming run)")
    for problem in PRESETS.values():
        print(
            f"  {problem.name:24}{problem.env_id}, "
            + ", ".join(f"{key}={value}" for key, value in problem.options.items())
        )
    print("Agents")
    for name, make in AGENTS.items():
        print(f"  {name:24}{_first_line(make)}{_library(name)}")
    print("Environments")
    for env_id, text in _environments():
        print(f"  {env_id:26}{text}")


def _library(agent: str) -> str:
    """Return the library of an agent and its version in brackets; "" if it is zooming itself."""
    found = versions_of([agent.partition(":")[0]])
    return "".join(f" [{name} {number}]" for name, number in found.items())


def _environments() -> list[tuple[str, str]]:
    from gymnasium.envs.registration import load_env_creator, registry

    ours = [name for name in registry if name.startswith("zooming/")]
    kinds = [load_env_creator(str(registry[name].entry_point)) for name in ours]
    return [
        (name, _first_line(kind).partition(": ")[2]) for name, kind in zip(ours, kinds, strict=True)
    ]


def say_about(env: Any) -> str:
    """Return what the docstring of an environment says after the colon of its first line."""
    return _first_line(env.unwrapped).partition(": ")[2]


def _first_line(documented: Any) -> str:
    return next(iter((documented.__doc__ or "").strip().splitlines()), "")
