"""Search for the best value with Optuna, which abandons bad values after a few seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from zooming.agents import seeds
from zooming.errors import ConfigurationError
from zooming.study.bars import progress_line
from zooming.study.chunks import Chunk
from zooming.study.grid_search import GridSearch
from zooming.study.locks import lock
from zooming.study.problems import AgentChoice, Problem
from zooming.study.searches import STREAM, Best, Scope, Searched, Tried
from zooming.study.stopping import Stopped, record_stop
from zooming.validation import n_cores

SEEDS_BETWEEN_LOOKS = 5  # optuna may prune a trial after every so many seeds


def search_with_optuna(scope: Scope) -> Best:
    """Search for the best values with optuna. Its trials are stored in tuning.sqlite."""
    try:
        import optuna
        import sqlalchemy
    except ImportError as error:
        raise ConfigurationError(
            "--method optuna needs optuna: pip install 'zooming[study]'"
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
