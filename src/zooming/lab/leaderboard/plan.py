"""Plan a leaderboard: its problems and agents, and one study for each cell.

A cell is one agent on one problem for one number of episodes. Each cell is a separate study. So if
an agent, a problem or a number of episodes is added to a folder, only its cells are computed. The
runs of 200, 500 and 2,000 episodes are separate, not the beginning of a longer run. There are two
reasons: some agents are told how many episodes they have, and a final policy after 200 episodes
exists only in a run that ends there.

    studies/reference/PROBLEM         random actions: the zero of the scale
    tuning/EPISODES/AGENT/PROBLEM     all values of a setting, on seeds of their own
    studies/EPISODES/AGENT/PROBLEM    the runs that are shown
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zooming.analysis.solve import check_solvable
from zooming.errors import ConfigurationError, ZoomingError
from zooming.lab.study.problems import AGENTS as KNOWN
from zooming.lab.study.problems import AgentChoice, Problem, agent_named, problem_named
from zooming.lab.study.study import Study
from zooming.lab.tune import PAPERS_SCALES, GridSearch
from zooming.validation import check_int

OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower(): (f"zooming/{kind}-v0", {})
    for kind in (
        "Newsvendor", "Inventory", "Pricing", "Queue", "Admission", "Storage", "Autoscaling",
        "Bidding", "Allocation", "GraphAmbulance", "RiverSwim", "Regulator",
    )
}  # fmt: skip
_WELL = 0.7071  # not the center of a ball of any partition, nor a point of a usual grid
PAPER: dict[str, tuple[str, dict[str, Any]]] = {
    "oil": ("zooming/Oil-v0", {"survey": "laplace", "sharpness": 10.0, "center": _WELL}),
    "oil-quadratic": (
        "zooming/Oil-v0", {"survey": "quadratic", "sharpness": 10.0, "center": _WELL},
    ),
    "ambulance": ("zooming/Ambulance-v0", {"arrivals": "beta", "travel_weight": 0.25}),
    "ambulance-uniform": ("zooming/Ambulance-v0", {"arrivals": "uniform", "travel_weight": 1.0}),
}  # fmt: skip
GROUPS = {"operations": OPERATIONS, "paper": PAPER}
OTHER = "other"  # the group of problems that a user names
OURS = (
    "auto", "planner", "tree-q", "adaptive-q", "net-q", "single-partition-q", "randomized-q",
    "net-mb", "adaptive-mb", "metric-q",
)  # fmt: skip
RIVALS = (
    "grid-q", "grid-model", "rule-search", "sb3:PPO", "sb3:SAC", "sb3:TD3", "sb3:DQN", "pyxab:VHCT",
)  # fmt: skip
AGENTS = (*OURS[:-1], *RIVALS)
EPISODES = (200, 500, 2_000, 20_000)
N_SEEDS, N_DEEP_SEEDS, N_TUNING_SEEDS = 20, 3, 5
DEEP = "sb3:"  # agents that take minutes a run
LONG, N_LONG_SEEDS = 10_000, 5  # rivals are driven from Python: fewer runs from so many episodes on
TUNABLE = {"adaptive-q": "bonus", "net-q": "bonus"}
VALUE_EPISODES = 1_000  # on which a final policy is valued
REFERENCE_EPISODES, REFERENCE_SEEDS = 2_000, 20
QUICK_PROBLEMS = ("newsvendor", "queue", "bidding", "graph-ambulance", "oil")
QUICK_AGENTS = ("auto", "planner", "tree-q", "adaptive-q", "net-q", "grid-q", "grid-model",
                "rule-search")  # fmt: skip
QUICK_EPISODES, QUICK_SEEDS = (200, 500), 5


@dataclass(frozen=True)
class Cell:
    """One agent on one problem for one number of episodes."""

    problem: Problem
    name: str  # of the agent in tables
    choice: AgentChoice
    episodes: int
    study: Study
    folder: Path


@dataclass(frozen=True)
class Tuning:
    """A search for the best value of one setting, for one agent on one problem."""

    problem: Problem
    name: str
    choice: AgentChoice
    episodes: int
    option: str
    search: GridSearch
    folder: Path


@dataclass(frozen=True)
class Board:
    """All settings of a leaderboard. All other agents are compared with the first agent."""

    folder: Path
    problems: tuple[Problem, ...]
    agents: tuple[AgentChoice, ...]
    episodes: tuple[int, ...]
    n_seeds: int = N_SEEDS
    n_deep_seeds: int = N_DEEP_SEEDS
    n_tuning_seeds: int = N_TUNING_SEEDS
    entropy: int = 0
    n_long_seeds: int = N_LONG_SEEDS
    deep_episodes: int | None = None  # the most that agents of `DEEP` play; None: no limit
    # {(problem, agent): why it is an empty cell}
    refused: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, number in (
            ("seeds", self.n_seeds),
            ("deep_seeds", self.n_deep_seeds),
            ("long_seeds", self.n_long_seeds),
            ("deep_episodes", 1 if self.deep_episodes is None else self.deep_episodes),
        ):
            check_int(number, name, 1)
        check_int(self.n_tuning_seeds, "tuning_seeds", 0)
        if not self.episodes:
            raise ConfigurationError("episodes: give at least one number, such as 500")
        for episodes in self.episodes:
            # Names and settings are checked as those of one study with all cells would be.
            Study(self.problems, self.agents, episodes, self.n_seeds, entropy=self.entropy)
        for problem in self.problems:
            try:
                check_solvable(problem.make())
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"{problem.name} has no known optimum, the 100 % of a leaderboard: {error}. "
                    "zooming run compares agents on any problem"
                ) from error

    def refuse_unplayable(self) -> None:
        """Record every agent that cannot be made on a problem, with the reason."""
        for problem in self.problems:
            for choice in self.agents:
                try:
                    choice.make(problem.make(), 0)
                except (ZoomingError, TypeError, ValueError) as error:
                    self.refused[problem.name, choice.label] = str(error)

    def absent(self) -> dict[str, str]:
        """Return {agent: reason} of the agents that can play none of the problems."""
        return {
            choice.label: self.refused[self.problems[0].name, choice.label]
            for choice in self.agents
            if all((problem.name, choice.label) in self.refused for problem in self.problems)
        }

    def references(self) -> dict[str, tuple[Study, Path]]:
        """Return, for each problem, the study of random actions and its folder."""
        found = {}
        for problem in self.problems:
            study = Study(
                [problem],
                ["random"],
                REFERENCE_EPISODES,
                REFERENCE_SEEDS,
                entropy=self.entropy,
                stream="reference",
            )
            found[problem.name] = study, self._folder("studies", "reference", study=study)
        return found

    def tunings(self) -> list[Tuning]:
        """Return one search per problem and agent with a setting to tune."""
        found = []
        for episodes in self.episodes if self.n_tuning_seeds else ():
            for problem, choice in self._pairs():
                option = TUNABLE.get(choice.kind)
                if option is None or option in choice.settings:
                    continue
                search = GridSearch(
                    [problem],
                    [choice],
                    option,
                    PAPERS_SCALES,
                    episodes,
                    self.n_tuning_seeds,
                    self.entropy,
                )
                name = f"{choice.label} (tuned)"
                folder = self._folder("tuning", str(episodes), choice.label, study=search.study)
                found.append(Tuning(problem, name, choice, episodes, option, search, folder))
        return found

    def cells(self, tunings: Sequence[Tuning] = ()) -> list[Cell]:
        """Return all cells that can be played, with default settings and with tuned ones."""
        found = [
            self._cell(problem, choice.label, choice, episodes)
            for episodes in self.episodes
            for problem, choice in self._pairs()
            if not self._is_too_long(choice, episodes)
        ]
        for tuning in tunings:
            best = tuning.search.best(tuning.folder)[tuning.problem.name, tuning.choice.label]
            settings = {**tuning.choice.settings, tuning.option: best.value}
            tuned = AgentChoice(tuning.choice.kind, settings)
            found.append(self._cell(tuning.problem, tuning.name, tuned, tuning.episodes))
        return found

    def _pairs(self) -> list[tuple[Problem, AgentChoice]]:
        return [
            (problem, choice)
            for problem in self.problems
            for choice in self.agents
            if (problem.name, choice.label) not in self.refused
        ]

    def _is_too_long(self, choice: AgentChoice, episodes: int) -> bool:
        limit = self.deep_episodes
        return choice.kind.startswith(DEEP) and limit is not None and episodes > limit

    def _n_runs(self, choice: AgentChoice, episodes: int) -> int:
        if choice.kind.startswith(DEEP):
            return self.n_deep_seeds
        is_slow = choice.kind in RIVALS and episodes >= LONG
        return min(self.n_seeds, self.n_long_seeds) if is_slow else self.n_seeds

    def _cell(self, problem: Problem, name: str, choice: AgentChoice, episodes: int) -> Cell:
        study = Study(
            [problem],
            [choice],
            episodes,
            self._n_runs(choice, episodes),
            entropy=self.entropy,
            value_episodes=VALUE_EPISODES,
        )
        folder = self._folder("studies", str(episodes), name, study=study)
        return Cell(problem, name, choice, episodes, study, folder)

    def _folder(self, *parts: str, study: Study) -> Path:
        """Return the folder of a study. Its name is readable and differs for different settings."""
        readable = [re.sub(r"[^A-Za-z0-9._=-]+", "_", part).strip("_") for part in parts]
        return self.folder.joinpath(*readable, study.configuration.name)


def find_problems(names: Sequence[str]) -> tuple[Problem, ...]:
    """Return the problems with these names: of the board, presets or Gymnasium ids."""
    ours = {name: recipe for group in GROUPS.values() for name, recipe in group.items()}
    return tuple(
        Problem(name, *ours[name]) if name in ours else problem_named(name) for name in names
    )


def group_of(problem: str) -> str:
    """Return the group of a problem."""
    return next((group for group, names in GROUPS.items() if problem in names), OTHER)


def default_agents(names: Sequence[str] = AGENTS) -> tuple[AgentChoice, ...]:
    """Return the agents with these names. Leave out names that this version does not know."""
    return tuple(agent_named(name) for name in names if name in KNOWN)
