"""A study from beginning to end: compute what is missing, keep it, show how it goes, and say what came out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from zooming import notebook
from zooming.analysis.intervals import Interval, mean_interval
from zooming.errors import SpaceError
from zooming.study import engines
from zooming.study.problems import AgentChoice, Problem, agent_named, posed
from zooming.study.runs import Chunk, Configuration
from zooming.study.store import CHUNKS, Store
from zooming.validation import known_options

FEW_SEEDS = 5


class Stopped(Exception):
    """A study was told to stop; what is finished is on disk."""

    def __init__(self, done: int, total: int, code: int) -> None:
        so_far = f" after {done} of {total} runs" if total else ""
        super().__init__(f"stopped{so_far}; what is finished is kept")
        self.code = code


@dataclass(frozen=True)
class Row:
    """One agent on one problem, over the seeds; `advantage` is its return over the first agent's, seed by seed."""

    problem: str
    agent: str
    optimum: float | None
    final_return: Interval | None
    regret: Interval | None
    advantage: Interval | None
    mean_return: float  # of the last tenth of the episodes, as final_return
    mean_regret: float | None
    n_balls: float
    nbytes: float
    seconds: float = field(compare=False)  # of one run
    n_clipped: float = 0.0  # rewards, in one run


class Study:
    """Problems x agents x seeds. `run(folder)` computes what is not there yet; the same call again is a no-op.

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
    ) -> None:
        self.configuration = Configuration(
            tuple(posed(problem) for problem in problems),
            tuple(a if isinstance(a, AgentChoice) else agent_named(a) for a in agents),
            episodes,
            seeds,
            entropy,
            stream,
            optimum,
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
        return run_all([(self, folder)], engine=engine, workers=workers, address=address, progress_bar=progress_bar)[0]

    @classmethod
    def stored(cls, folder: str | Path) -> Study:
        """The study that a folder holds, finished or not."""
        study = cls.__new__(cls)
        study.configuration = Store.existing(folder).configuration
        return study

    def summary(self, folder: str | Path) -> list[Row]:
        """What came out, of a folder where it is finished; nothing is computed."""
        store = Store(folder, self.configuration)
        store.check_finished()
        return self._summary(store, store.optima())

    def _summary(self, store: Store, optima: dict[str, float | None]) -> list[Row]:
        timings, seconds = store.seconds(), dict[tuple[str, str], float]()
        for chunk in self.configuration.chunks():
            key = chunk.problem.name, chunk.agent.label
            seconds[key] = seconds.get(key, 0.0) + timings.get(chunk.name, float("nan"))
        rows = []
        for problem in self.configuration.problems:
            first = store.runs(problem, self.configuration.agents[0])["total_return"]
            for i, agent in enumerate(self.configuration.agents):
                a, best = store.runs(problem, agent), optima[problem.name]
                several = len(a["total_return"]) > 1
                regret = None if best is None else self.configuration.episodes * best - a["total_return"]
                rows.append(
                    Row(
                        problem.name,
                        agent.label,
                        best,
                        mean_interval(a["final_return"]) if several else None,
                        mean_interval(regret) if several and regret is not None else None,
                        mean_interval((a["total_return"] - first) / self.configuration.episodes) if several and i else None,
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
    """Several studies, each in its folder, by the same workers and with one progress bar: their summaries."""
    engines.check(engine, workers, address)
    for study, folder in studies:
        if not any((Path(folder) / CHUNKS).glob("*.zoom")):
            study.configuration.check()  # before the folder is made; what has a finished run was checked when it began
    stores = [Store(folder, study.configuration) for study, folder in studies]
    total, done = sum(chunk.n_runs for store in stores for chunk in store.configuration.chunks()), 0
    with stoppable() as stop, engines.one_thread_each(), ExitStack() as folders:
        try:
            for store in stores:
                folders.enter_context(store.opened())
            lacking: dict[str, list[Store]] = {}  # a chunk that two studies share is computed once
            missing = {}
            for store in stores:
                for chunk in store.missing():
                    missing[chunk.name] = chunk
                    lacking.setdefault(chunk.name, []).append(store)
            done = total - sum(missing[name].n_runs * len(lacking[name]) for name in missing)
            optima = [store.optima() for store in stores]
            if missing:
                with _progress(total, done, progress_bar) as show:
                    for chunk, arrays, seconds in engines.compute(list(missing.values()), engine, workers, address):
                        for store in lacking[chunk.name]:
                            store.write(chunk, arrays, seconds)
                            done += chunk.n_runs
                            show(chunk, arrays, store.optima()[chunk.problem.name])
            for store in stores:
                store.write_tables()
            return [study._summary(store, best) for (study, _), store, best in zip(studies, stores, optima, strict=True)]
        except KeyboardInterrupt:
            raise Stopped(done, total, stop[0] if stop else 130) from None
        except OSError as error:
            kept = f"{done} of {total} runs are kept; the same command continues"
            where = ", ".join(str(store.folder) for store in stores)
            what = f"cannot read or write {error.filename}" if error.filename else f"cannot write to {where}"
            raise SpaceError(f"{what}: {error.strerror}. {kept}") from error


def _written(name: str, options: dict[str, Any]) -> str:
    return ", ".join([name, *(f"{key}={value}" for key, value in options.items())])


@contextmanager
def stoppable() -> Iterator[list[int]]:
    """SIGTERM comes as KeyboardInterrupt, like Ctrl-C, with its exit code in the list."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with _handled((signal.SIGTERM,), interrupt) as stop:
        yield stop


@contextmanager
def noted_stop() -> Iterator[list[int]]:
    """SIGTERM and Ctrl-C put their exit code in the list and do nothing else: for what must not be interrupted anywhere."""
    with _handled((signal.SIGTERM, signal.SIGINT), lambda: None) as stop:
        yield stop


@contextmanager
def _handled(numbers: Sequence[int], then: Callable[[], None]) -> Iterator[list[int]]:
    stop: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may handle signals
        return

    def handle(number: int, frame: Any) -> None:
        stop.append(128 + number)
        then()

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(total: int, done: int, shown: bool) -> Iterator[Any]:
    if not shown:
        yield lambda *news: None
        return
    from rich.markup import escape

    began, steps = time.perf_counter(), 0
    with progress_line("runs") as progress:
        task = progress.add_task("", total=total, completed=done)

        def show(chunk: Chunk, arrays: dict[str, NDArray[Any]], best: float | None) -> None:
            nonlocal steps
            steps += int(arrays["horizon"].sum()) * chunk.episodes
            per_second = steps / (time.perf_counter() - began)
            speed = f"{per_second / 1e6:.1f} M steps/s" if per_second >= 1e5 else f"{per_second:,.0f} steps/s"
            against = "" if best is None else f" of {best:.3f}"
            news = f"{chunk.agent.label} on {chunk.problem.name}: {arrays['final_return'].mean():.3f}{against}"
            progress.update(task, advance=chunk.n_runs, description=escape(f"{speed}, {news}"))

        yield show


def progress_line(unit: str) -> Any:
    """A bar, how many of how many, and the time left; the description has the rest of the line, and is cut where it ends."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    from zooming.progress import progress

    news = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    return progress(BarColumn(16), MofNCompleteColumn(), unit, TimeRemainingColumn(), news, expand=True)
