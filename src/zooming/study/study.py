"""A study from beginning to end: compute what is missing, keep it, show how it goes, and say what came out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zooming import notebook
from zooming.errors import SpaceError
from zooming.intervals import Interval, mean_interval
from zooming.study import engines
from zooming.study.problems import AgentChoice, Problem, agent_named, problem_named
from zooming.study.runs import Configuration
from zooming.study.store import MANIFEST, Store

FEW_SEEDS = 5


class Stopped(Exception):
    """A study was told to stop; what is finished is on disk."""

    def __init__(self, done: int, total: int, code: int) -> None:
        super().__init__(f"stopped after {done} of {total} runs; what is finished is kept")
        self.code, self.total = code, total


@dataclass(frozen=True)
class Row:
    """One agent on one problem, over the seeds; `advantage` is its return over the first agent's, seed by seed."""

    problem: str
    agent: str
    optimum: float | None
    final_return: Interval | None
    regret: Interval | None
    advantage: Interval | None
    mean_return: float
    n_balls: float
    nbytes: float
    seconds: float = field(compare=False)  # of one run


class Study:
    """Problems x agents x seeds. `run(folder)` computes what is not there yet; the same call again is a no-op.

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
    ) -> None:
        self.configuration = Configuration(
            tuple(p if isinstance(p, Problem) else problem_named(p) for p in problems),
            tuple(a if isinstance(a, AgentChoice) else agent_named(a) for a in agents),
            episodes,
            seeds,
            entropy,
            stream,
        )

    def __repr__(self) -> str:
        c = self.configuration
        size = f"{len(c.problems)} problems x {len(c.agents)} agents x {c.n_seeds} seeds"
        return f"Study({size}, {c.episodes} episodes each: {len(c.problems) * len(c.agents) * c.n_seeds} runs)"

    def _repr_html_(self) -> str:
        c = self.configuration
        rows = [("problem", p.name, _written(p.env_id, p.options)) for p in c.problems]
        rows += [("agent", a.label, _written(a.kind, a.settings)) for a in c.agents]
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
        """Computes what is missing in the folder, writes the tables, and gives the summary."""
        if not (Path(folder) / MANIFEST).exists():
            self.configuration.check()  # before the folder is made; a study that is there was checked when it began
        store = Store(folder, self.configuration)
        missing = store.missing()
        optima = store.optima()
        total = sum(chunk.n_runs for chunk in self.configuration.chunks())
        done = total - sum(chunk.n_runs for chunk in missing)
        engines.own_one_thread()
        if missing:
            with _stoppable() as stop, _progress(total, done, progress_bar) as show:
                try:
                    for chunk, arrays, seconds in engines.compute(missing, engine, workers, address):
                        store.write(chunk, arrays, seconds)
                        done += chunk.n_runs
                        steps = int(arrays["horizon"].sum()) * chunk.episodes
                        final, best = float(arrays["final_return"].mean()), optima[chunk.problem.name]
                        show(chunk.n_runs, steps, final, best, chunk.problem.name)
                        if stop:
                            raise KeyboardInterrupt
                except KeyboardInterrupt:
                    raise Stopped(done, total, stop[0] if stop else 130) from None
                except OSError as error:
                    kept = f"{done} of {total} runs are kept; the same command continues"
                    raise SpaceError(f"cannot write to {folder}: {error.strerror}. {kept}") from error
        if missing or not store.has_tables():
            store.write_tables()
        return self._summary(store, optima)

    def _summary(self, store: Store, optima: dict[str, float | None]) -> list[Row]:
        arrays: dict[tuple[str, str], dict[str, Any]] = {}
        timings = store.seconds()
        for chunk in self.configuration.chunks():
            found = store.read(chunk)
            into = arrays.setdefault((chunk.problem.name, chunk.agent.label), {"seconds": 0.0})
            into["seconds"] += timings.get(chunk.name, float("nan"))
            for name in ("final_return", "total_return", "n_balls", "nbytes"):
                into[name] = np.concatenate([into.get(name, np.empty(0)), found[name]])
        rows = []
        for problem in self.configuration.problems:
            first = arrays[problem.name, self.configuration.agents[0].label]["total_return"]
            for i, agent in enumerate(self.configuration.agents):
                a, best = arrays[problem.name, agent.label], optima[problem.name]
                several = len(a["total_return"]) > 1
                rows.append(
                    Row(
                        problem.name,
                        agent.label,
                        best,
                        mean_interval(a["final_return"]) if several else None,
                        mean_interval(self.configuration.episodes * best - a["total_return"])
                        if several and best is not None
                        else None,
                        mean_interval((a["total_return"] - first) / self.configuration.episodes) if several and i else None,
                        float(a["final_return"].mean()),
                        float(a["n_balls"].mean()),
                        float(a["nbytes"].mean()),
                        a["seconds"] / len(a["total_return"]),
                    )
                )
        return rows


def _written(name: str, options: dict[str, Any]) -> str:
    return ", ".join([name, *(f"{key}={value}" for key, value in options.items())])


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """A list that a SIGTERM puts its exit code in; Ctrl-C comes as KeyboardInterrupt anyway."""
    stop: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def terminate(number: int, frame: Any) -> None:
        stop.append(128 + number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress(total: int, done: int, shown: bool) -> Iterator[Any]:
    if not shown:
        yield lambda *news: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TextColumn("{task.fields[speed]}"), TimeRemainingColumn(),
        TextColumn("{task.fields[news]}"),
    )  # fmt: skip
    began, steps = time.perf_counter(), 0
    with Progress(*columns) as progress:
        task = progress.add_task("", total=total, completed=done, speed="", news="")

        def show(n_runs: int, n_steps: int, mean: float, best: float | None, problem: str) -> None:
            nonlocal steps
            steps += n_steps
            speed = f"{steps / (time.perf_counter() - began) / 1e6:.1f} M steps/s"
            against = "" if best is None else f" of {best:.3f}"
            progress.update(task, advance=n_runs, speed=speed, news=f"{problem}: {mean:.3f}{against}")

        yield show
