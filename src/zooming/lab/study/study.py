"""Run a study: compute the missing chunks, store them, show progress, and summarize the runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zooming.analysis.intervals import Interval, mean_interval
from zooming.analysis.regret import optimum_error
from zooming.errors import ConfigurationError
from zooming.lab.study import engines, modules
from zooming.lab.study.configuration import Chunk, Configuration
from zooming.lab.study.problems import (
    AgentChoice,
    Problem,
    agent_named,
    resolve_problem,
    stated_optimum,
)
from zooming.lab.study.store import CHUNKS, Optima, Store, StoredOptimum
from zooming.plots.curves import Runs
from zooming.validation import check_list, count_noun, import_frames, known_options

FEW_SEEDS = 5


@dataclass(frozen=True)
class Row:
    """The summary of one agent on one problem over the seeds of a study.

    Attributes
    ----------
    problem, agent
        Names, as in the tables.
    optimum
        Expected return of the optimal policy; None if the problem cannot be solved.
    final_return
        Mean return of the last tenth of the episodes, with its 95 % interval; None with one seed.
    regret
        Regret of a run, with its 95 % interval; None with one seed or without an optimum.
    advantage
        Return per episode minus that of the first agent with the same seed: the mean over the
        seeds, with its 95 % interval. None for the first agent, or with one seed.
    mean_return, mean_regret
        The means of `final_return` and `regret`, also with one seed.
    n_balls, nbytes
        Mean number of balls and mean memory of the agent after a run.
    seconds
        Mean processor time of learning in a run, without the exact values of policies.
    n_clipped
        Mean number of clipped rewards in a run.
    """

    problem: str
    agent: str
    optimum: float | None
    final_return: Interval | None
    regret: Interval | None
    advantage: Interval | None
    mean_return: float
    mean_regret: float | None
    n_balls: float
    nbytes: float
    seconds: float = field(compare=False)
    n_clipped: float = 0.0


class Study:
    """A grid of runs: problems x agents x seeds.

    `run(folder)` computes the runs that the folder does not have yet. It can be interrupted at any
    time, and the same call resumes it.

    Parameters
    ----------
    problems
        Names of presets, Gymnasium ids, `module:Id` for a module that registers the Id, or
        `Problem` objects.
    agents
        Names of agents with settings, such as "adaptive-q:bonus=0.5", or `AgentChoice` objects.
    episodes
        Number of episodes of every run.
    seeds
        Number of seeds, that is, of runs of each agent on each problem.
    entropy
        The seeds of all runs are derived from this number and `stream`.
    stream
        Name of the stream of seeds. `tune` uses "tune" for its search.
    optimum
        Precision of the optima: "fine", or "rough" for half the resolution.
    value_episodes
        Number of episodes on which the final policy of every run is valued, without learning.
        `results.parquet` then has a column `final_value`. 0 values none.

    Raises
    ------
    ConfigurationError
        If a name or a setting is unknown, or a number is invalid.

    Examples
    --------
    >>> import tempfile
    >>> study = Study(["oil-laplace-1"], ["adaptive-q", "net-q"], episodes=100, seeds=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = study.run(folder, workers=1)
    >>> [(row.problem, row.agent) for row in rows]
    [('oil-laplace-1', 'adaptive-q'), ('oil-laplace-1', 'net-q')]
    """

    @known_options
    def __init__(
        self,
        problems: Sequence[str | Problem],
        agents: Sequence[str | AgentChoice],
        episodes: int,
        seeds: int,
        *,
        entropy: int = 0,
        stream: str = "run",
        optimum: str = "fine",
        value_episodes: int = 0,
    ) -> None:
        self.configuration = Configuration(
            tuple(resolve_problem(problem) for problem in check_list(problems, "problems")),
            tuple(
                a if isinstance(a, AgentChoice) else agent_named(a)
                for a in check_list(agents, "agents")
            ),
            episodes,
            seeds,
            entropy,
            stream,
            optimum,
            value_episodes,
        )

    def __repr__(self) -> str:
        c = self.configuration
        counts = (len(c.problems), "problem"), (len(c.agents), "agent"), (c.n_seeds, "seed")
        size = " x ".join(count_noun(n, what) for n, what in counts)
        return (
            f"Study({size}, {c.episodes} episodes each: "
            f"{len(c.problems) * len(c.agents) * c.n_seeds} runs)"
        )

    def run(
        self,
        folder: str | Path,
        *,
        engine: str = "local",
        workers: int | None = None,
        address: str | None = None,
        progress_bar: bool = False,
    ) -> list[Row]:
        """Compute the missing runs, write the tables, and return the summary.

        Parameters
        ----------
        folder
            Folder of the study; created if it does not exist.
        engine
            "local" for processes on this machine, or "ray" for a Ray cluster.
        workers
            Number of parallel workers; by default all cores.
        address
            Address of a Ray cluster. Requires engine="ray".
        progress_bar
            Whether to show a progress bar.

        Returns
        -------
        list of Row
            One row per problem and agent.

        Raises
        ------
        ConfigurationError
            If the folder holds another study, is in use or cannot be written, or if a run fails.
        Stopped
            After Ctrl-C or SIGTERM. Finished runs are kept.
        """
        return run_all(
            [(self, folder)],
            engine=engine,
            workers=workers,
            address=address,
            progress_bar=progress_bar,
        )[0]

    @classmethod
    def stored(cls, folder: str | Path) -> Study:
        """Return the study in an existing folder, finished or not."""
        study = cls.__new__(cls)
        study.configuration = Store.of_folder(folder).configuration
        return study

    def summary(self, folder: str | Path) -> list[Row]:
        """Return the summary of a finished study without running it.

        Parameters
        ----------
        folder
            Folder of the study.

        Returns
        -------
        list of Row
            One row per problem and agent, as `run` returns them.

        Raises
        ------
        ConfigurationError
            If the study in the folder is not finished.
        """
        store = Store(folder, self.configuration)
        store.check_finished()
        return summarize(store, find_optima(store))


def run_all(
    studies: Sequence[tuple[Study, str | Path]],
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    progress_bar: bool = False,
) -> list[list[Row]]:
    """Run several studies with the same workers and one progress bar. Return their summaries.

    `studies` is a sequence of (study, folder). The other arguments are those of `Study.run`.
    """
    engines.check_engine(engine, workers, address)
    import_frames("polars", "a study")  # for its tables: not after hours of runs
    for study, folder in studies:
        if not any((Path(folder) / CHUNKS).glob("*.zoom")):
            study.configuration.check()  # before the folder is created; else it was checked then
    stores = [Store(folder, study.configuration) for study, folder in studies]
    total, done = sum(chunk.n_runs for store in stores for chunk in store.configuration.chunks()), 0
    with engines.raise_on_sigterm() as stop, engines.limit_threads(), ExitStack() as folders:
        try:
            for store in stores:
                folders.enter_context(store.open())
            lacking: dict[str, list[Store]] = {}  # chunks that studies share are computed once
            missing = {}
            for store in stores:
                for chunk in store.missing():
                    missing[chunk.name] = chunk
                    lacking.setdefault(chunk.name, []).append(store)
            done = total - sum(missing[name].n_runs * len(lacking[name]) for name in missing)
            optima = {store: find_optima(store) for store in stores}
            if missing:
                with _show_progress(total, done, progress_bar) as show:
                    for chunk, arrays, seconds in engines.compute(
                        list(missing.values()), engine, workers, address
                    ):
                        for store in lacking[chunk.name]:
                            store.write(chunk, arrays, seconds)
                            done += chunk.n_runs
                            show(chunk)
            for store in stores:
                store.write_tables(optima[store])
            return [summarize(store, optima[store]) for store in stores]
        except KeyboardInterrupt:
            raise engines.Stopped(done, total, stop[0] if stop else 130) from None
        except OSError as error:
            kept = f"{done} of {total} runs are kept; the same command continues"
            where = ", ".join(str(store.folder) for store in stores)
            what = (
                f"cannot read or write {error.filename}"
                if error.filename
                else f"cannot write to {where}"
            )
            raise ConfigurationError(f"{what}: {error.strerror}. {kept}") from error


@contextmanager
def _show_progress(total: int, done: int, shown: bool) -> Iterator[Any]:
    """Show a progress bar of runs, if `shown`. Yield a function that advances it by a chunk."""
    if not shown:
        yield lambda chunk: None
        return
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    from zooming.progress import progress

    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # the news, cut to fit in the line
    news = TextColumn("{task.description}", table_column=rest)
    with progress(
        BarColumn(16), MofNCompleteColumn(), "runs", TimeRemainingColumn(), news, expand=True
    ) as bar:
        task = bar.add_task("", total=total, completed=done)

        def show(chunk: Chunk) -> None:
            text = f"{chunk.agent.label} on {chunk.problem.name}"
            bar.update(task, advance=chunk.n_runs, description=escape(text))

        yield show


def summarize(store: Store, optima: Optima) -> list[Row]:
    """Return one row per problem and agent for a store whose chunks are complete."""
    configuration, seconds = store.configuration, store.seconds_per_run()
    rows = []
    for problem in configuration.problems:
        first = store.runs(problem, configuration.agents[0])["total_return"]
        for i, agent in enumerate(configuration.agents):
            a, optimum = store.runs(problem, agent), optima[problem.name]
            best = None if optimum is None else optimum.return_
            several = len(a["total_return"]) > 1
            regret = None if best is None else configuration.episodes * best - a["total_return"]
            rows.append(
                Row(
                    problem.name,
                    agent.label,
                    best,
                    mean_interval(a["final_return"]) if several else None,
                    mean_interval(regret) if several and regret is not None else None,
                    mean_interval((a["total_return"] - first) / configuration.episodes)
                    if several and i
                    else None,
                    float(a["final_return"].mean()),
                    None if regret is None else float(regret.mean()),
                    float(a["n_balls"].mean()),
                    float(a["nbytes"].mean()),
                    seconds[problem.name, agent.label],
                    float(a["n_clipped"].mean()),
                )
            )
    return rows


@known_options
def read_study(folder: str | Path, problem: str | None = None) -> dict[str, Runs]:
    """Read the runs of every agent on one problem of a finished study.

    Parameters
    ----------
    folder : str or Path
        The folder of the study.
    problem : str, optional
        The name of the problem. May be omitted if the study has only one.

    Returns
    -------
    dict of Runs
        By label of the agent, in the order of the study.

    Raises
    ------
    ConfigurationError
        If the study is not finished or has no such problem.

    Examples
    --------
    >>> import tempfile, zooming
    >>> study = zooming.Study(["oil-laplace-1"], ["adaptive-q"], episodes=20, seeds=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = study.run(folder, workers=1)
    ...     runs = read_study(folder)
    >>> list(runs), runs["adaptive-q"].n_seeds, int(runs["adaptive-q"].episode[-1])
    (['adaptive-q'], 2, 20)
    """
    store = Store.of_folder(folder)
    store.check_finished()
    problems = {known.name: known for known in store.configuration.problems}
    if problem is None and len(problems) == 1:
        problem = next(iter(problems))
    if problem not in problems:
        raise ConfigurationError(
            f"problem={problem!r}: choose one of the study's, {', '.join(problems)}"
        )
    optimum, found = find_optima(store)[problem], dict[str, Runs]()
    for agent in store.configuration.agents:
        runs = store.runs(problems[problem], agent)
        curves = runs["curve_total"], runs["curve_n_balls"], runs["nbytes"]
        found[agent.label] = Runs(runs["curve_episode"], *curves, optimum and optimum.return_)
    return found


def find_optima(store: Store) -> Optima:
    """Return {problem: optimum}. The optimum is None if the problem cannot be solved.

    New optima are written to the folder if it is open for writing.
    """
    optima = store.optima()
    if optima is None:
        problems, precision = store.configuration.problems, store.configuration.optimum
        optima = {one.name: _solve(one, precision, store.is_open) for one in problems}
        if store.is_open:
            store.write_optima(optima)
    return optima


def _solve(problem: Problem, precision: str, is_strict: bool) -> StoredOptimum | None:
    """Solve a problem. If that fails, return None, or raise the error if `is_strict`."""
    try:
        modules.find_id(problem.env_id)
        stated = stated_optimum(problem.make())
        if stated is not None:
            return StoredOptimum(stated, 0.0)
        optimal = problem.optimal(precision)
    except Exception:  # a user's environment may raise anything
        if is_strict:
            raise
        return None  # a reader shows the rest
    if optimal is None:
        return None
    return StoredOptimum(float(optimal.return_), optimum_error(optimal))
