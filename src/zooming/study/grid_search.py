"""Search a grid of values with a study that has one agent per value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zooming.study.problems import AgentChoice, Problem
from zooming.study.searches import STREAM, Best, Scope, Searched, Tried
from zooming.study.store import Store
from zooming.study.study import Study


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
