"""The commands `zooming run` and `zooming tune`."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from typing import Annotated, NoReturn

import tyro

from zooming.errors import ConfigurationError
from zooming.lab.study.problems import agents_named, problem_named, settings_from
from zooming.lab.study.stopping import Stopped
from zooming.lab.study.study import Study
from zooming.lab.study_tables import show, show_tuned
from zooming.lab.tune import PAPERS_SCALES
from zooming.lab.tune import tune as tune_options
from zooming.validation import check_int

Names = tyro.conf.Positional[tuple[str, ...]]


def run(
    problems: Names,
    out: str,
    agents: str = "auto",
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
            auto,adaptive-q:bonus=0.5,auto:ordered=true.
        episodes: number of episodes of each run.
        seeds: number of runs of each agent on each problem.
        set: options of the problems.
        entropy: number from which the seeds are derived. Another number gives other seeds.
        expected: number of runs of each agent whose policies are valued exactly, for the expected
            regret of zooming report. Valuing a run takes about as long as the run itself.
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
    options, numbers = settings_from(set), numbers_from(values, "--values")
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
    show_tuned(found, evaluation_seeds, numbers)
    print(
        f"samples are the steps that tuning took; every value that was tried is in {out}/tuned.json"
    )


def numbers_from(texts: Sequence[str], what: str) -> tuple[int | float, ...]:
    """Parse numbers that are separated by spaces or commas: `0.1 1` or `0.1,1`.

    >>> numbers_from(["0.1,1", "2"], "--values")
    (0.1, 1, 2)
    """
    found: list[int | float] = []
    for part in (part for text in texts for part in text.strip(" ,").split(",")):
        try:
            found.append(int(part))
        except ValueError:
            try:
                found.append(float(part))
            except ValueError as error:
                raise ConfigurationError(
                    f"{what} {' '.join(texts)}: {part!r} is not a number; write 0.1 1 or 0.1,1"
                ) from error
    return tuple(found)


def say_how_to_continue(stopped: Stopped) -> NoReturn:
    """Print the command that resumes the study, and exit."""
    print(f"{stopped}. To continue: {shlex.join(['zooming', *sys.argv[1:]])}")
    sys.exit(stopped.code)
