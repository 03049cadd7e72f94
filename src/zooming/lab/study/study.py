"""Run a study: compute the missing chunks, store them, and show progress."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.lab.study import engines
from zooming.lab.study.chunks import Chunk
from zooming.lab.study.configuration import Configuration
from zooming.lab.study.problems import AgentChoice, Problem, agent_named, resolve_problem
from zooming.lab.study.runs import find_optima
from zooming.lab.study.stopping import Stopped, raise_on_sigterm
from zooming.lab.study.store import CHUNKS, Store
from zooming.lab.study.stored import StoredOptimum
from zooming.lab.study.summary import Row, summarize
from zooming.validation import count_noun, import_frames


@contextmanager
def show_progress(total: int, done: int, shown: bool) -> Iterator[Any]:
    """Show a progress bar of runs, if `shown`. Yield a function that advances it by a chunk."""
    if not shown:
        yield lambda *news: None
        return
    from rich.markup import escape

    began, steps = time.perf_counter(), 0
    with progress_line("runs") as progress:
        task = progress.add_task("", total=total, completed=done)

        def show(
            chunk: Chunk, arrays: dict[str, NDArray[Any]], optimum: StoredOptimum | None
        ) -> None:
            nonlocal steps
            steps += int(arrays["horizon"].sum()) * chunk.episodes
            per_second = steps / (time.perf_counter() - began)
            speed = (
                f"{per_second / 1e6:.1f} M steps/s"
                if per_second >= 1e5
                else f"{per_second:,.0f} steps/s"
            )
            against = "" if optimum is None else f" of {optimum.return_:.3f}"
            news = (
                f"{chunk.agent.label} on {chunk.problem.name}: "
                f"{arrays['final_return'].mean():.3f}{against}"
            )
            progress.update(task, advance=chunk.n_runs, description=escape(f"{speed}, {news}"))

        yield show


def progress_line(unit: str) -> Any:
    """Return a progress bar with count, time left, and a description in the rest of the line."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    from zooming.progress import progress

    news = TextColumn(
        "{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    return progress(
        BarColumn(16), MofNCompleteColumn(), unit, TimeRemainingColumn(), news, expand=True
    )


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
    valued
        Number of runs of each agent whose policies are valued exactly, for the expected regret.
        Valuing a run takes about as long as the run itself.
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
        valued: int = 0,
        value_episodes: int = 0,
    ) -> None:
        self.configuration = Configuration(
            tuple(resolve_problem(problem) for problem in problems),
            tuple(a if isinstance(a, AgentChoice) else agent_named(a) for a in agents),
            episodes,
            seeds,
            entropy,
            stream,
            optimum,
            valued,
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
    with raise_on_sigterm() as stop, engines.limit_threads(), ExitStack() as folders:
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
                with show_progress(total, done, progress_bar) as show:
                    for chunk, arrays, seconds in engines.compute(
                        list(missing.values()), engine, workers, address
                    ):
                        for store in lacking[chunk.name]:
                            store.write(chunk, arrays, seconds)
                            done += chunk.n_runs
                            show(chunk, arrays, optima[store][chunk.problem.name])
            for store in stores:
                store.write_tables(optima[store])
            return [summarize(store, optima[store]) for store in stores]
        except KeyboardInterrupt:
            raise Stopped(done, total, stop[0] if stop else 130) from None
        except OSError as error:
            kept = f"{done} of {total} runs are kept; the same command continues"
            where = ", ".join(str(store.folder) for store in stores)
            what = (
                f"cannot read or write {error.filename}"
                if error.filename
                else f"cannot write to {where}"
            )
            raise ConfigurationError(f"{what}: {error.strerror}. {kept}") from error
