"""Run a study: compute the missing chunks, store them, show progress, and summarize."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zooming import notebook
from zooming.analysis.intervals import Interval, mean_interval
from zooming.errors import ConfigurationError
from zooming.study import engines
from zooming.study.bars import show_progress
from zooming.study.configuration import Configuration
from zooming.study.optima import find_optima
from zooming.study.problems import AgentChoice, Problem, agent_named, resolve_problem
from zooming.study.stopping import Stopped, raise_on_sigterm
from zooming.study.store import CHUNKS, Store
from zooming.study.stored import Optima
from zooming.validation import count_noun

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
        Mean processor time of learning in a run.
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

    def _repr_html_(self) -> str:
        c = self.configuration
        rows = [("problem", p.name, _format_options(p.env_id, p.options)) for p in c.problems]
        rows += [("agent", a.label, _format_options(a.kind, a.settings)) for a in c.agents]
        return notebook.table(repr(self), ("", "name", "made by"), rows)

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
        return self._summary(store, find_optima(store))

    def _summary(self, store: Store, optima: Optima) -> list[Row]:
        """Return one row per problem and agent for a store whose chunks are complete."""
        timings, seconds = store.seconds(), dict[tuple[str, str], float]()
        for chunk in self.configuration.chunks():
            key = chunk.problem.name, chunk.agent.label
            seconds[key] = seconds.get(key, 0.0) + timings.get(chunk.name, float("nan"))
        rows = []
        for problem in self.configuration.problems:
            first = store.runs(problem, self.configuration.agents[0])["total_return"]
            for i, agent in enumerate(self.configuration.agents):
                a, optimum = store.runs(problem, agent), optima[problem.name]
                best = None if optimum is None else optimum.return_
                several = len(a["total_return"]) > 1
                regret = (
                    None if best is None else self.configuration.episodes * best - a["total_return"]
                )
                rows.append(
                    Row(
                        problem.name,
                        agent.label,
                        best,
                        mean_interval(a["final_return"]) if several else None,
                        mean_interval(regret) if several and regret is not None else None,
                        mean_interval((a["total_return"] - first) / self.configuration.episodes)
                        if several and i
                        else None,
                        float(a["final_return"].mean()),
                        None if regret is None else float(regret.mean()),
                        float(a["n_balls"].mean()),
                        float(a["nbytes"].mean()),
                        seconds[problem.name, agent.label] / len(a["total_return"]),
                        float(a["n_clipped"].mean()),
                    )
                )
        return rows


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
            return [
                study._summary(store, optima[store])
                for (study, _), store in zip(studies, stores, strict=True)
            ]
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


def _format_options(name: str, options: dict[str, Any]) -> str:
    """Return text of the form `name, key=value, ...`."""
    return ", ".join([name, *(f"{key}={value}" for key, value in options.items())])
