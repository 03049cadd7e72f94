"""Tune one numeric option per problem and agent.

Tuning and evaluation use different seeds. The cost of tuning in samples is reported. There are two
methods. "grid" runs the paper's grid as a study, which can be interrupted and resumed. "optuna"
searches adaptively, abandons bad values after a few seeds (median pruning), and keeps its trials in
an SQLite file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.files import container as files
from zooming.analysis.intervals import Interval, mean_interval
from zooming.errors import ConfigurationError
from zooming.lab.study import engines
from zooming.lab.study.chunks import Chunk
from zooming.lab.study.problems import AgentChoice, Problem, agent_named, resolve_problem
from zooming.lab.study.stopping import Stopped, lock, record_stop
from zooming.lab.study.store import Store
from zooming.lab.study.study import Study, progress_line, run_all
from zooming.lab.study.summary import Row
from zooming.validation import check_int, n_cores

STREAM = "tune"  # seeds of the search; an evaluation uses the stream "run"


@dataclass(frozen=True)
class Tried:
    """A value that was tried, and its return on the tuning seeds.

    Attributes
    ----------
    value
        Value of the option.
    mean_return
        Mean return per episode.
    interval
        95 % interval of `mean_return`; None with one seed.
    n_seeds
        Number of seeds played; fewer than requested if optuna pruned the value.
    """

    value: float
    mean_return: float
    interval: Interval | None
    n_seeds: int

    @classmethod
    def of(cls, value: float, returns: Sequence[float]) -> Tried:
        """Return the entry of a value, given the mean return per episode of each seed."""
        return cls(
            value,
            float(np.mean(returns)),
            mean_interval(returns) if len(returns) > 1 else None,
            len(returns),
        )


@dataclass(frozen=True)
class Scope:
    """The arguments of a search, validated."""

    problems: tuple[Problem, ...]
    agents: tuple[AgentChoice, ...]
    folder: Path
    option: str
    values: tuple[float, ...]
    trials: int
    episodes: int
    n_seeds: int
    entropy: int
    workers: int | None
    progress_bar: bool


@dataclass(frozen=True)
class Searched:
    """The result of a search for one agent on one problem."""

    value: float
    mean_return: float
    tried: tuple[Tried, ...]
    samples: int


Best = dict[tuple[str, str], Searched]  # by problem and agent


def search_grid(scope: Scope) -> Best:
    """Search for the best values with a study of all values."""
    grid = GridSearch(
        scope.problems,
        scope.agents,
        scope.option,
        scope.values,
        scope.episodes,
        scope.n_seeds,
        scope.entropy,
    )
    grid.study.run(scope.folder / "tuning", workers=scope.workers, progress_bar=scope.progress_bar)
    return grid.best(scope.folder / "tuning")


class GridSearch:
    """A study of every value of an option for every agent on every problem."""

    def __init__(
        self,
        problems: Sequence[Problem],
        agents: Sequence[AgentChoice],
        option: str,
        values: Sequence[float],
        episodes: int,
        n_seeds: int,
        entropy: int = 0,
        optimum: str = "fine",
    ) -> None:
        self.agents, self.values = agents, values
        self.choices = {
            (agent.label, value): AgentChoice(agent.kind, {**agent.settings, option: value})
            for agent in agents
            for value in values
        }
        choices = list(self.choices.values())
        self.study = Study(
            problems, choices, episodes, n_seeds, entropy=entropy, stream=STREAM, optimum=optimum
        )

    def scores(self, folder: Path) -> dict[tuple[str, str, float], NDArray[np.float64]]:
        """Return {(problem, agent, value): mean return per episode of each seed}."""
        return {
            key: totals / self.study.configuration.episodes
            for key, (totals, _) in self._read(folder).items()
        }

    def best(self, folder: Path) -> Best:
        """Return the value with the largest mean return for each problem and agent."""
        found, best = self._read(folder), Best()
        for problem in self.study.configuration.problems:
            for agent in self.agents:
                ours = {value: found[problem.name, agent.label, value] for value in self.values}
                episodes = self.study.configuration.episodes
                tried = tuple(
                    Tried.of(value, (totals / episodes).tolist())
                    for value, (totals, _) in ours.items()
                )
                most = max(tried, key=lambda one: one.mean_return)
                samples = sum(steps for _, steps in ours.values())
                best[problem.name, agent.label] = Searched(
                    most.value, most.mean_return, tried, samples
                )
        return best

    def _read(self, folder: Path) -> dict[tuple[str, str, float], tuple[NDArray[np.float64], int]]:
        """Return {(problem, agent, value): (total return of each seed, steps played)}."""
        configuration, found = self.study.configuration, {}
        store = Store(folder, configuration)
        for problem in configuration.problems:
            for (agent, value), choice in self.choices.items():
                runs = store.runs(problem, choice)
                n_steps = int(runs["horizon"].sum()) * configuration.episodes
                found[problem.name, agent, value] = runs["total_return"], n_steps
        return found


SEEDS_BETWEEN_LOOKS = 5  # optuna may prune a trial after every so many seeds


def search_with_optuna(scope: Scope) -> Best:
    """Search for the best values with optuna. Its trials are stored in tuning.sqlite."""
    try:
        import optuna
        import sqlalchemy
    except ImportError as error:
        raise ConfigurationError(
            "--method optuna needs optuna: pip install 'zooming[lab]'"
        ) from error
    if not 0 < min(scope.values) < max(scope.values):
        raise ConfigurationError(
            "--method optuna searches between the smallest and the largest value: give two "
            "different values, both above 0"
        )
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ends = GridSearch(
        scope.problems,
        scope.agents,
        scope.option,
        (min(scope.values), max(scope.values)),
        scope.episodes,
        scope.n_seeds,
    )
    ends.study.configuration.check()  # before anything is written
    best: Best = {}
    file = scope.folder / "tuning.sqlite"
    try:
        scope.folder.mkdir(parents=True, exist_ok=True)
        with lock(scope.folder), record_stop() as stop, _trials(scope) as advance:
            for problem in scope.problems:
                for agent in scope.agents:
                    study = optuna.create_study(
                        storage=f"sqlite:///{file}",
                        study_name=_study_name(scope, problem, agent),
                        direction="maximize",
                        pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
                        load_if_exists=True,
                    )
                    objective = _objective(scope, problem, agent, optuna.TrialPruned, stop)
                    n_finished = _n_finished(study)
                    advance(n_finished, problem, agent)
                    for number in range(n_finished, scope.trials):
                        # Seeded by the trial's number: a resumed search continues identically.
                        seed = int(
                            seeds.derive_seed(scope.entropy, f"{STREAM} {number}", np.uint32)
                        )
                        study.sampler = optuna.samplers.TPESampler(seed=seed)
                        study.optimize(objective, n_trials=1)
                        advance(1, problem, agent)
                    samples = sum(int(trial.user_attrs.get("samples", 0)) for trial in study.trials)
                    played = [trial for trial in study.trials if "returns" in trial.user_attrs]
                    tried = (
                        Tried.of(trial.params[scope.option], trial.user_attrs["returns"])
                        for trial in played
                    )
                    value = study.best_params[scope.option]
                    in_order = tuple(sorted(tried, key=lambda one: one.value))
                    best[problem.name, agent.label] = Searched(
                        value, float(study.best_value), in_order, samples
                    )
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise ConfigurationError(
            f"{file} is damaged ({error.args[0]}); restore it, or choose another --out"
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to {scope.folder}: {error.strerror}. Choose another --out"
        ) from error
    return best


@contextmanager
def _trials(scope: Scope) -> Iterator[Callable[[int, Problem, AgentChoice], None]]:
    """Show a progress bar of trials, if requested. Yield a function that advances it."""
    if not scope.progress_bar:
        yield lambda n, problem, agent: None
        return
    from rich.markup import escape

    with progress_line("trials") as progress:
        task = progress.add_task("", total=len(scope.problems) * len(scope.agents) * scope.trials)

        def advance(n: int, problem: Problem, agent: AgentChoice) -> None:
            progress.update(task, advance=n, description=escape(f"{agent.label} on {problem.name}"))

        yield advance


def _n_finished(study: Any) -> int:
    """Return the number of completed or pruned trials."""
    return sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials)


def _study_name(scope: Scope, problem: Problem, agent: AgentChoice) -> str:
    """Return a name with all settings that a trial depends on, so that searches do not mix."""
    search = (
        f"{scope.option} from {min(scope.values)} to {max(scope.values)}, entropy {scope.entropy}"
    )
    return (
        f"{problem.name} {problem.options}, {agent.label}, {search}, {scope.episodes} "
        f"episodes, {scope.n_seeds} seeds"
    )


def _objective(
    scope: Scope, problem: Problem, agent: AgentChoice, pruned: type[Exception], stop: list[int]
) -> Callable[[Any], float]:
    """Return optuna's objective: the mean return per episode, with pruning every few seeds."""
    n_threads = n_cores() if scope.workers is None else scope.workers
    suggest = (
        "suggest_int" if all(isinstance(value, int) for value in scope.values) else "suggest_float"
    )

    def objective(trial: Any) -> float:
        value = getattr(trial, suggest)(
            scope.option, min(scope.values), max(scope.values), log=True
        )
        choice = AgentChoice(agent.kind, {**agent.settings, scope.option: value})
        whole_chunk = Chunk(
            problem, choice, scope.episodes, 0, scope.n_seeds, scope.entropy, STREAM
        )
        returns: list[float] = []  # per episode, of each seed
        samples = 0
        for first in range(0, scope.n_seeds, SEEDS_BETWEEN_LOOKS):
            arrays = replace(
                whole_chunk, first=first, last=min(first + SEEDS_BETWEEN_LOOKS, scope.n_seeds)
            ).run(n_threads)
            if stop:
                raise Stopped(0, 0, stop[0])
            returns += (arrays["total_return"] / scope.episodes).tolist()
            samples += int(arrays["horizon"].sum()) * scope.episodes
            trial.set_user_attr("samples", samples)
            trial.set_user_attr("returns", returns)
            trial.report(float(np.mean(returns)), len(returns))
            if len(returns) < scope.n_seeds and trial.should_prune():
                raise pruned
        return float(np.mean(returns))

    return objective


PAPERS_SCALES = (0.01, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 5.0)
METHODS = ("grid", "optuna")
NOTHING_TO_TUNE = ("auto", "planner")  # agents without a number to set
TUNED = "tuned.json"  # the result, for programs


@dataclass(frozen=True)
class Tuned:
    """The best value of the option for one agent on one problem, evaluated on fresh seeds.

    Attributes
    ----------
    problem, agent, option
        Names of the problem, the agent and the tuned option.
    value
        The best value. It is an integer if all values to try are integers.
    tuning_return
        Mean return per episode of the best value on the tuning seeds.
    tried
        Every value that was tried, for a grid in the given order, for optuna in ascending order.
    samples
        Number of steps played by the search.
    evaluation
        Summary of the best value on fresh seeds.
    """

    problem: str
    agent: str
    option: str
    value: float
    tuning_return: float
    tried: tuple[Tried, ...]
    samples: int
    evaluation: Row


def tune(
    problems: Sequence[str | Problem],
    agents: Sequence[str | AgentChoice],
    folder: str | Path,
    *,
    option: str = "bonus",
    method: str = "grid",
    values: Sequence[float] = PAPERS_SCALES,
    trials: int = 30,
    episodes: int = 2000,
    seeds: int = 10,
    evaluation_seeds: int = 20,
    entropy: int = 0,
    workers: int | None = None,
    progress_bar: bool = False,
) -> list[Tuned]:
    """Find the best value of an option per problem and agent, and evaluate it on fresh seeds.

    The best value has the largest mean return per episode. The result is also written to tuned.json
    in the folder. The same call resumes an interrupted search.

    Parameters
    ----------
    problems, agents
        As for `Study`. The agents `auto` and `planner` are refused: they have nothing to tune.
    folder
        Folder of the search and of the evaluations; created if it does not exist.
    option
        Name of the numeric option. A setting of it in `agents` is ignored.
    method
        "grid" to try all `values`, or "optuna" to search between the least and the largest.
    values
        Values to try; by default the paper's. For optuna at least two, above 0.
    trials
        Number of optuna trials per problem and agent.
    episodes
        Number of episodes of every run.
    seeds
        Number of seeds to tune on.
    evaluation_seeds
        Number of fresh seeds to evaluate the best value on.
    entropy
        The seeds of all runs are derived from this number.
    workers
        Number of parallel workers; by default all cores.
    progress_bar
        Whether to show a progress bar.

    Returns
    -------
    list of Tuned
        One entry per problem and agent.

    Raises
    ------
    ConfigurationError
        If an argument is invalid, or the folder cannot be used.
    Stopped
        After Ctrl-C or SIGTERM. Finished runs and trials are kept.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (found,) = tune(
    ...         ["oil-laplace-1"], ["net-q"], folder, values=(0.1, 1.0), episodes=100, seeds=2,
    ...         workers=1,
    ...     )
    >>> found.value, [(tried.value, round(tried.mean_return, 1)) for tried in found.tried]
    (0.1, [(0.1, 3.9), (1.0, 3.4)])
    """
    if method not in METHODS:
        raise ConfigurationError(f"method={method!r}: choose one of {', '.join(METHODS)}")
    if not values or not all(isinstance(v, (int, float)) and math.isfinite(v) for v in values):
        raise ConfigurationError(
            f"values={', '.join(map(str, values)) or 'nothing'}: give at least one number, all of "
            "them finite"
        )
    for name, number in (
        ("evaluation_seeds", evaluation_seeds),
        ("trials", trials),
        ("seeds", seeds),
    ):
        check_int(number, name, 1)
    engines.check_engine("local", workers, None)
    chosen_problems = [resolve_problem(problem) for problem in problems]
    choices = [a if isinstance(a, AgentChoice) else agent_named(a) for a in agents]
    for choice in choices:
        if choice.kind in NOTHING_TO_TUNE:
            raise ConfigurationError(
                f"{choice.kind} has nothing to tune: it has no bonus, scale or schedule. Run it as "
                f"it is: zooming run PROBLEM --agents {choice.label}"
            )
    settled = [
        AgentChoice(a.kind, {k: v for k, v in a.settings.items() if k != option}) for a in choices
    ]
    if len({agent.label for agent in settled}) < len(settled):
        raise ConfigurationError(
            f"agents must differ in an option other than {option}, which is tuned: "
            f"{', '.join(agent.label for agent in choices)}"
        )
    search = search_grid if method == "grid" else search_with_optuna
    scope = Scope(
        tuple(chosen_problems),
        tuple(settled),
        Path(folder),
        option,
        tuple(values),
        trials,
        episodes,
        seeds,
        entropy,
        workers,
        progress_bar,
    )
    best = search(scope)
    evaluations: list[tuple[Study, str | Path]] = []
    for problem in chosen_problems:
        chosen = [
            AgentChoice(a.kind, {**a.settings, option: best[problem.name, a.label].value})
            for a in settled
        ]
        study = Study([problem], chosen, episodes, evaluation_seeds, entropy=entropy)
        # Another best value is another study.
        evaluations.append((study, Path(folder) / "evaluation" / study.configuration.name))
    found = []
    for problem, rows in zip(
        chosen_problems,
        run_all(evaluations, workers=workers, progress_bar=progress_bar),
        strict=True,
    ):
        for agent, row in zip(settled, rows, strict=True):
            ours = best[problem.name, agent.label]
            found.append(
                Tuned(
                    problem.name,
                    agent.label,
                    option,
                    ours.value,
                    ours.mean_return,
                    ours.tried,
                    ours.samples,
                    row,
                )
            )
    content = json.dumps([asdict(tuned) for tuned in found], indent=1, default=str)
    files.write_atomically(Path(folder) / TUNED, content.encode())
    return found
