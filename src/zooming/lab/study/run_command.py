"""The commands `zooming run`, `zooming tune` and `zooming list`, and their tables."""

from __future__ import annotations

import itertools
import math
import os
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import tyro
from gymnasium.envs.registration import load_env_creator, registry

from zooming.agents.base.status import plain, plus_minus
from zooming.analysis.intervals import Interval
from zooming.errors import ConfigurationError
from zooming.lab.rivals.rival import library_of, versions_of
from zooming.lab.study.engines import Stopped
from zooming.lab.study.problems import AGENTS, PRESETS, agents_named, problem_named, settings_from
from zooming.lab.study.study import FEW_SEEDS, Row, Study
from zooming.lab.tune import PAPERS_SCALES, Tuned
from zooming.lab.tune import tune as tune_options
from zooming.validation import count_noun

WIDTH = 140  # characters per line of tables written to a file or a pipe
NUMBERS = ("final return", "regret", "advantage", "balls", "bytes", "ms/run")  # of a summary
READING = (
    "± is half a 95 % interval over the seeds. Final return: the last tenth of the episodes. "
    "Advantage over the first agent: per episode, over all episodes, paired by seed."
)
Names = tyro.conf.Positional[tuple[str, ...]]


def run(
    problems: Names,
    out: str,
    agents: str = "auto",
    episodes: int = 2000,
    seeds: int = 20,
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
    entropy: int = 0,
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
            auto,adaptive-q:bonus=0.5,auto:ordered=true.
        episodes: number of episodes of each run.
        seeds: number of runs of each agent on each problem.
        set: options of the problems.
        entropy: number from which the seeds are derived. Another number gives other seeds.
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
    values: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NUMBER ...")] = tuple(
        map(str, PAPERS_SCALES)
    ),
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
        values: values to try, separated by spaces or commas. By default the scales of the bonus in
            the paper. If all are integers, only integers are tried.
        episodes: number of episodes of each run.
        seeds: number of tuning runs per value. The best value has the largest mean return over
            all episodes.
        evaluation_seeds: number of evaluation runs of the best value. They use other seeds than
            the tuning.
        set: options of the problems.
        entropy: number from which the seeds are derived. Another number gives other seeds.
        workers: number of processes. By default one per core.
    """
    options, numbers = settings_from(set), numbers_from(values)
    try:
        found = tune_options(
            [problem_named(name, options) for name in problems],
            agents_named(agents),
            out,
            option=option,
            values=numbers,
            episodes=episodes,
            seeds=seeds,
            evaluation_seeds=evaluation_seeds,
            entropy=entropy,
            workers=workers,
            progress_bar=True,
        )
    except Stopped as stopped:
        say_how_to_continue(stopped)
    _show_tuned(found, evaluation_seeds, numbers)
    print(
        f"samples are the steps that tuning took; every value that was tried is in {out}/tuned.json"
    )


def list_names() -> None:
    """List the problems, agents and environments of zooming, one line each."""
    print("Problems (presets for zooming run)")
    for problem in PRESETS.values():
        options = ", ".join(f"{key}={value}" for key, value in problem.options.items())
        print(f"  {problem.name:24}{problem.env_id}, {options}")
    print("Agents")
    for name, make in AGENTS.items():
        library = "".join(f" [{one} {number}]" for one, number in versions_of([name]).items())
        print(f"  {name:24}{_first_line(make)}{library}")
    print("Environments")
    for env_id in [name for name in registry if name.startswith("zooming/")]:
        kind = load_env_creator(str(registry[env_id].entry_point))
        print(f"  {env_id:26}{_first_line(kind).partition(': ')[2]}")


def _first_line(documented: Any) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0].removeprefix("Return ")


def numbers_from(texts: Sequence[str]) -> tuple[int | float, ...]:
    """Parse the numbers of `--values`, which are separated by spaces or commas.

    >>> numbers_from(["0.1,1", "2"])
    (0.1, 1, 2)
    """
    parts = [part.strip() for text in texts for part in text.strip(" ,").split(",")]
    try:
        return tuple(int(part) if part.isdigit() else float(part) for part in parts)
    except ValueError as error:
        raise ConfigurationError(
            f"--values {' '.join(texts)}: {error}; write 0.1 1 or 0.1,1"
        ) from error


def say_how_to_continue(stopped: Stopped) -> NoReturn:
    """Print the command that resumes the study, and exit."""
    print(f"{stopped}. To continue: {shlex.join(['zooming', *sys.argv[1:]])}")
    sys.exit(stopped.code)


# --- tables ---------------------------------------------------------------------------------------


def show(rows: Sequence[Row], n_seeds: int) -> None:
    """Print the summary of a study, one table per problem."""
    console = wide_console()
    for (problem, best), ours in itertools.groupby(
        rows, key=lambda row: (row.problem, row.optimum)
    ):
        title = problem if best is None else f"{problem}, optimum {plain(best, 5)}"
        table = make_table(title, ("agent",), *NUMBERS)
        for row in ours:
            table.add_row(row.agent, *cells_of(row))
        console.print(table)
    for text in clipped_texts(rows):
        console.print(text, style="yellow")
    for name, number in versions_of(row.agent for row in rows).items():
        users = dict.fromkeys(row.agent for row in rows if library_of(row.agent) == name)
        console.print(f"{', '.join(users)}: {name} {number}.", highlight=False)
    console.print(READING)
    _warn_of_few_seeds(console, n_seeds, "--seeds")


def cells_of(row: Row) -> list[str]:
    """Return the numbers of a row of a summary as text, in the order of NUMBERS."""
    milliseconds = "-" if math.isnan(row.seconds) else f"{1e3 * row.seconds:.1f}"
    advantage = format_interval(row.advantage, sign="+")
    sizes = f"{row.n_balls:,.0f}", f"{row.nbytes:,.0f}"
    return [*_final_and_regret(row), advantage, *sizes, milliseconds]


def clipped_texts(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each row of a summary with clipped rewards."""
    return [
        f"{row.problem}, {row.agent}: {row.n_clipped:,.1f} rewards a run were clipped."
        for row in rows
        if row.n_clipped
    ]


def _show_tuned(found: Sequence[Tuned], n_seeds: int, values: Sequence[float]) -> None:
    """Print all values that were tried, then the best ones with their return on fresh seeds."""
    names, console = ("problem", "agent"), wide_console()
    tries = make_table(
        "mean return of all episodes on the tuning seeds, ± half a 95 % interval",
        names, "value", "return", "",
    )  # fmt: skip
    best = make_table(
        "the value with the largest mean return of all episodes, evaluated on seeds it was not "
        "tuned on",
        names, "value", "final return", "regret", "samples",
    )  # fmt: skip
    for tuned in found:
        tries.add_section()
        for i, one in enumerate(tuned.tried):
            tries.add_row(
                *(("", "") if i else (tuned.problem, tuned.agent)),
                _setting(tuned.option, one.value),
                format_interval(one.interval, one.mean_return),
                "best" if one.value == tuned.value else "",
            )
        best.add_row(
            tuned.problem,
            tuned.agent,
            _setting(tuned.option, tuned.value),
            *_final_and_regret(tuned.evaluation),
            f"{tuned.samples:,}",
        )
    console.print(tries)
    console.print(best)
    for tuned in found:
        if tuned.value in (min(values), max(values)) and len(values) > 1:
            console.print(
                f"[yellow]{tuned.agent} on {tuned.problem}: {tuned.value:g} is at the edge of what "
                "was tried; try values beyond it.[/]"
            )
    _warn_of_few_seeds(console, n_seeds, "--evaluation-seeds")


def make_table(title: str, texts: Sequence[str], *numbers: str, **options: Any) -> Any:
    """Return a rich table: columns of texts on the left, then columns of numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", **options)
    for column in texts:
        table.add_column(column, overflow="fold")
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def wide_console() -> Any:
    """Return a console as wide as the terminal, or `WIDTH` for a file or a pipe."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH)


def _setting(option: str, value: float) -> str:
    return f"{option}={value if isinstance(value, int) else format(value, '.4g')}"


def _warn_of_few_seeds(console: Any, n_seeds: int, option: str) -> None:
    if n_seeds < FEW_SEEDS:
        console.print(
            f"[yellow]Only {count_noun(n_seeds, 'seed')}: intervals this wide or missing say "
            f"little. Give {option} {FEW_SEEDS} or more.[/]"
        )


def format_interval(interval: Interval | None, mean: float | None = None, sign: str = "") -> str:
    """Return `mean ± half`, or without an interval the mean alone, or `-`."""
    if interval is None:
        return "-" if mean is None else plain(mean)
    text = plus_minus(interval.mean, (interval.high - interval.low) / 2)
    return text if text.startswith("-") else sign + text


def _final_and_regret(row: Row) -> tuple[str, str]:
    return (
        format_interval(row.final_return, row.mean_return),
        format_interval(row.regret, row.mean_regret),
    )
