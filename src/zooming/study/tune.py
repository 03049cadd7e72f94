"""Tune one numeric option per problem and agent.

Tuning and evaluation use different seeds. The cost of tuning in samples is reported. There are two
methods. "grid" runs the paper's grid as a study, which can be interrupted and resumed. "optuna"
searches adaptively, abandons bad values after a few seeds (median pruning), and keeps its trials in
an SQLite file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from zooming.agents import files
from zooming.errors import ConfigurationError
from zooming.study import engines
from zooming.study.grid_search import search_grid
from zooming.study.optuna_search import search_with_optuna
from zooming.study.problems import AgentChoice, Problem, agent_named, resolve_problem
from zooming.study.searches import Scope, Tried
from zooming.study.study import Study, run_all
from zooming.study.summary import Row
from zooming.validation import check_int

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
