"""Tuning one numeric option per problem and agent, fairly: on seeds of its own, with its cost in samples on the table.

Two ways: the paper's grid, as a study that can be stopped and continued like any other; or optuna, which looks where it
pays and gives up bad values after a few seeds (median pruning), with its trials in an sqlite file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from zooming import seeds
from zooming.checks import whole
from zooming.errors import SpaceError
from zooming.study.problems import AgentChoice, Problem
from zooming.study.runs import Chunk
from zooming.study.store import Store
from zooming.study.study import Row, Stopped, Study, noted_stop

PAPERS_SCALES = (0.01, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 5.0)
METHODS = ("grid", "optuna")
SEEDS_BETWEEN_LOOKS = 5  # optuna may prune a trial each time so many seeds are done
STREAM = "tune"  # never the seeds of an evaluation, whose stream is "run"


@dataclass(frozen=True)
class Tuned:
    """The best value of the option for one agent on one problem, and how it does on seeds it was not tuned on."""

    problem: str
    agent: str
    option: str
    value: float  # or int, if all values to try are
    tuning_return: float  # mean return per episode on the tuning seeds
    samples: int  # steps played to find it
    evaluation: Row


def tune(
    problems: Sequence[Problem],
    agents: Sequence[AgentChoice],
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
    """The best value per problem and agent, then evaluated on fresh seeds. Optuna looks from the least to the largest value."""
    if method not in METHODS:
        raise SpaceError(f"method={method!r}: choose one of {METHODS}")
    if not values or not all(isinstance(v, (int, float)) and math.isfinite(v) for v in values):
        raise SpaceError(f"values={values!r}: give at least one finite number")
    for name, number in (("evaluation_seeds", evaluation_seeds), ("trials", trials), ("seeds", seeds)):
        whole(number, name, 1)
    settled = [AgentChoice(a.kind, {k: v for k, v in a.settings.items() if k != option}) for a in agents]
    if len({agent.label for agent in settled}) < len(settled):
        raise SpaceError(
            f"the same agent twice, but for {option}, which is tuned: {', '.join(agent.label for agent in agents)}"
        )
    search = _grid if method == "grid" else _optuna
    scope = _Scope(
        tuple(problems),
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
    found = []
    for problem in problems:
        chosen = [AgentChoice(a.kind, {**a.settings, option: best[problem.name, a.label][0]}) for a in settled]
        study = Study([problem], chosen, episodes, evaluation_seeds, entropy=entropy)
        where = Path(folder) / "evaluation" / study.configuration.name  # another best value is another study
        rows = study.run(where, workers=workers, progress_bar=progress_bar)
        for agent, row in zip(settled, rows, strict=True):
            value, score, samples = best[problem.name, agent.label]
            found.append(Tuned(problem.name, agent.label, option, value, score, samples, row))
    return found


@dataclass(frozen=True)
class _Scope:
    problems: tuple[Problem, ...]
    agents: tuple[AgentChoice, ...]
    folder: Path
    option: str
    values: tuple[float, ...]
    trials: int
    episodes: int
    seeds: int
    entropy: int
    workers: int | None
    progress_bar: bool


Best = dict[tuple[str, str], tuple[float, float, int]]  # (problem, agent): value, return per episode, samples


def _grid(scope: _Scope) -> Best:
    choices = {
        (agent.label, value): AgentChoice(agent.kind, {**agent.settings, scope.option: value})
        for agent in scope.agents
        for value in scope.values
    }
    study = Study(scope.problems, list(choices.values()), scope.episodes, scope.seeds, entropy=scope.entropy, stream=STREAM)
    study.run(scope.folder / "tuning", workers=scope.workers, progress_bar=scope.progress_bar)
    store = Store(scope.folder / "tuning", study.configuration)
    totals: dict[tuple[str, str], list[float]] = {}
    steps: dict[tuple[str, str], int] = {}
    for chunk in study.configuration.chunks():
        arrays, key = store.read(chunk), (chunk.problem.name, chunk.agent.label)
        totals[key] = [*totals.get(key, []), *arrays["total_return"].tolist()]
        steps[key] = steps.get(key, 0) + int(arrays["horizon"].sum()) * chunk.episodes
    best: Best = {}
    for problem in scope.problems:
        for agent in scope.agents:
            tried = {value: (problem.name, choices[agent.label, value].label) for value in scope.values}
            scores = {value: float(np.mean(totals[key])) / scope.episodes for value, key in tried.items()}
            value = max(scores, key=lambda v: scores[v])
            best[problem.name, agent.label] = value, scores[value], sum(steps[key] for key in tried.values())
    return best


def _optuna(scope: _Scope) -> Best:
    try:
        import optuna
    except ImportError as error:
        raise SpaceError("--method optuna needs optuna: pip install 'zooming[study]'") from error
    if not 0 < min(scope.values) < max(scope.values):
        raise SpaceError("optuna looks between the least and the largest value: give two different ones, above 0")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    scope.folder.mkdir(parents=True, exist_ok=True)
    storage = f"sqlite:///{scope.folder / 'tuning.sqlite'}"
    best: Best = {}
    with noted_stop() as stop:
        for problem in scope.problems:
            for agent in scope.agents:
                study = optuna.create_study(
                    storage=storage,
                    study_name=_study_name(scope, problem, agent),
                    direction="maximize",
                    pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
                    load_if_exists=True,
                )
                objective = _objective(scope, problem, agent, optuna.TrialPruned, stop)
                for number in range(_n_finished(study), scope.trials):
                    # Seeded by the trial's number: a search that was stopped goes on as if it had not been.
                    seed = int(seeds.word(scope.entropy, f"{STREAM} {number}", np.uint32))
                    study.sampler = optuna.samplers.TPESampler(seed=seed)
                    study.optimize(objective, n_trials=1)
                samples = sum(int(trial.user_attrs.get("samples", 0)) for trial in study.trials)
                value = study.best_params[scope.option]
                best[problem.name, agent.label] = value, float(study.best_value), samples
    return best


def _n_finished(study: Any) -> int:
    return sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials)


def _study_name(scope: _Scope, problem: Problem, agent: AgentChoice) -> str:
    """All that a trial depends on: another search is another study in the same file."""
    search = f"{scope.option} from {min(scope.values)} to {max(scope.values)}, entropy {scope.entropy}"
    return f"{problem.name} {problem.options}, {agent.label}, {search}, {scope.episodes} episodes, {scope.seeds} seeds"


def _objective(
    scope: _Scope, problem: Problem, agent: AgentChoice, pruned: type[Exception], stop: list[int]
) -> Callable[[Any], float]:
    suggest = "suggest_int" if all(isinstance(value, int) for value in scope.values) else "suggest_float"

    def objective(trial: Any) -> float:
        value = getattr(trial, suggest)(scope.option, min(scope.values), max(scope.values), log=True)
        choice = AgentChoice(agent.kind, {**agent.settings, scope.option: value})
        whole_chunk = Chunk(problem, choice, scope.episodes, 0, scope.seeds, scope.entropy, STREAM)
        totals: list[float] = []
        samples = 0
        for first in range(0, scope.seeds, SEEDS_BETWEEN_LOOKS):
            arrays = replace(whole_chunk, first=first, last=min(first + SEEDS_BETWEEN_LOOKS, scope.seeds)).run()
            if stop:
                raise Stopped(0, 0, stop[0])
            totals += arrays["total_return"].tolist()
            samples += int(arrays["horizon"].sum()) * scope.episodes
            trial.set_user_attr("samples", samples)
            trial.report(float(np.mean(totals)) / scope.episodes, len(totals))
            if len(totals) < scope.seeds and trial.should_prune():
                raise pruned
        return float(np.mean(totals)) / scope.episodes

    return objective
