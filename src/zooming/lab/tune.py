"""Tune one numeric option per problem and agent, by a study of the paper's grid of values.

Tuning and evaluation use different seeds. The cost of tuning in samples is reported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from zooming.agents.files import container as files
from zooming.analysis.intervals import Interval, mean_interval
from zooming.errors import ConfigurationError
from zooming.lab.study import engines
from zooming.lab.study.problems import AgentChoice, Problem, agent_named, resolve_problem
from zooming.lab.study.store import Store
from zooming.lab.study.study import Row, Study, run_all
from zooming.validation import Floats, check_int, known_options

STREAM = "tune"  # seeds of the search; an evaluation uses the stream "run"
PAPERS_SCALES = (0.01, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 5.0)
NOTHING_TO_TUNE = ("auto", "planner")  # agents without a number to set
TUNED = "tuned.json"  # the result, for programs


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
    """

    value: float
    mean_return: float
    interval: Interval | None


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
        self.option, self.values = option, values
        choices = [self.choice(agent, value) for agent in agents for value in values]
        self.study = Study(
            problems, choices, episodes, n_seeds, entropy=entropy, stream=STREAM, optimum=optimum
        )

    def choice(self, agent: AgentChoice, value: float) -> AgentChoice:
        """Return the agent with this value of the option."""
        return AgentChoice(agent.kind, {**agent.settings, self.option: value})

    def scores(self, folder: Path, problem: Problem, agent: AgentChoice) -> dict[float, Floats]:
        """Return {value: mean return per episode of each seed} of the finished study."""
        store = Store(folder, self.study.configuration)
        totals = {
            value: store.runs(problem, self.choice(agent, value))["total_return"]
            for value in self.values
        }
        return {value: total / store.configuration.episodes for value, total in totals.items()}

    def n_steps(self, folder: Path, problem: Problem, agent: AgentChoice) -> int:
        """Return the number of steps that the search played for one agent on one problem."""
        store = Store(folder, self.study.configuration)
        runs = [store.runs(problem, self.choice(agent, value)) for value in self.values]
        return sum(int(one["horizon"].sum()) for one in runs) * store.configuration.episodes


def best_value(scores: Mapping[float, Floats]) -> float:
    """Return the value with the largest mean return; of equal ones the first."""
    return max(scores, key=lambda value: float(np.mean(scores[value])))


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
        Every value that was tried, in the given order.
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


@known_options
def tune(
    problems: Sequence[str | Problem],
    agents: Sequence[str | AgentChoice],
    folder: str | Path,
    *,
    option: str = "bonus",
    values: Sequence[float] = PAPERS_SCALES,
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
    values
        Values to try; by default the paper's.
    seeds
        Number of seeds to tune on.
    evaluation_seeds
        Number of fresh seeds to evaluate the best value on.
    episodes, entropy, workers, progress_bar
        As for `Study` and `Study.run`.

    Returns
    -------
    list of Tuned
        One entry per problem and agent.

    Raises
    ------
    ConfigurationError
        If an argument is invalid, or the folder cannot be used.
    Stopped
        After Ctrl-C or SIGTERM. Finished runs are kept.

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
    if not values or not all(isinstance(v, (int, float)) and math.isfinite(v) for v in values):
        raise ConfigurationError(
            f"values={', '.join(map(str, values)) or 'nothing'}: give at least one number, all of "
            "them finite"
        )
    check_int(evaluation_seeds, "evaluation_seeds", 1)
    check_int(seeds, "seeds", 1)
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
    grid = GridSearch(chosen_problems, settled, option, values, episodes, seeds, entropy)
    tuning = Path(folder) / "tuning"
    grid.study.run(tuning, workers=workers, progress_bar=progress_bar)
    scores = {
        problem.name: [grid.scores(tuning, problem, agent) for agent in settled]
        for problem in chosen_problems
    }
    evaluations: list[tuple[Study, str | Path]] = []
    for problem in chosen_problems:
        chosen = [
            grid.choice(agent, best_value(ours))
            for agent, ours in zip(settled, scores[problem.name], strict=True)
        ]
        study = Study([problem], chosen, episodes, evaluation_seeds, entropy=entropy)
        # Another best value is another study.
        evaluations.append((study, Path(folder) / "evaluation" / study.configuration.name))
    summaries = run_all(evaluations, workers=workers, progress_bar=progress_bar)
    found = []
    for problem, rows in zip(chosen_problems, summaries, strict=True):
        for agent, ours, row in zip(settled, scores[problem.name], rows, strict=True):
            value, n_steps = best_value(ours), grid.n_steps(tuning, problem, agent)
            found.append(
                Tuned(
                    problem.name,
                    agent.label,
                    option,
                    value,
                    float(np.mean(ours[value])),
                    tuple(
                        Tried(
                            one,
                            float(np.mean(returns)),
                            mean_interval(returns) if len(returns) > 1 else None,
                        )
                        for one, returns in ours.items()
                    ),
                    n_steps,
                    row,
                )
            )
    content = json.dumps([asdict(tuned) for tuned in found], indent=1, default=str)
    files.write_atomically(Path(folder) / TUNED, content.encode())
    return found
