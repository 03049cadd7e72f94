"""Run the studies of the figures: tune the scale of each learner's bonus, then evaluate the best.

Two deviations from the paper: The paper chooses the best scale on the runs that it shows. Here the
evaluation uses fresh seeds. The smallest scale in the paper is 0.01, which is the best one for most
nets. Here scales go down to 0, which means no bonus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.analysis.optimal import Optimal
from zooming.lab.paper.figures import Figure
from zooming.lab.study.problems import AgentChoice
from zooming.lab.study.study import Study, read_study, run_all
from zooming.lab.tune import PAPERS_SCALES, GridSearch, best_value
from zooming.plots.curves import Runs
from zooming.validation import Floats

ADAPTIVE, NET = "adaptive", "net"
CENTERS = "net of centers"  # the same net, but it plays the centers of its cells
SCALES = (0.0, 0.001, 0.003, *PAPERS_SCALES)
UNTUNED = "adaptive, default settings"  # zooming's defaults, not tuned
HEURISTICS = ("no-movement", "median")


@dataclass(frozen=True)
class Evidence:
    """The data of one figure: runs by agent, scales tried, and the optimum."""

    figure: Figure
    episodes: int
    runs: dict[str, Runs]
    scores: dict[str, dict[float, Floats]]  # by agent, scale: mean return of each tuning seed
    best: dict[str, float]  # the best scale, by agent
    optimal: Optimal
    choices: dict[str, AgentChoice]
    entropy: int

    def train_again(self, name: str, run: int) -> Agent:
        """Train the agent of one evaluation run again, with the same result to the last bit."""
        env, seed = self.figure.preset.make(), seeds.derive_seed(self.entropy, f"run {run}")
        agent = self.choices[name].make(env, seed)
        agent.learn(self.episodes)
        return agent


def sweep(
    figures: Sequence[Figure],
    folder: Path,
    *,
    episodes: int,
    n_seeds: int,
    entropy: int = 0,
    optimum: str = "fine",
    workers: int | None = None,
    progress_bar: bool = False,
) -> list[Evidence]:
    """Run the missing studies `tuning/PROBLEM` and `evaluation/PROBLEM`. Return the evidence."""
    learners = {
        ADAPTIVE: AgentChoice("adaptive-q-published"),
        NET: AgentChoice("net-q-published", {"episodes": episodes}),
        CENTERS: AgentChoice("net-q", {"cap": "horizon", "episodes": episodes}),
    }
    options: dict[str, Any] = {"workers": workers, "progress_bar": progress_bar}
    tuning, evaluation = folder / "tuning", folder / "evaluation"
    grids = {
        f: GridSearch(
            [f.preset], [*learners.values()], "bonus", SCALES, episodes, n_seeds, entropy, optimum
        )
        for f in figures
    }
    run_all([(grid.study, tuning / figure.problem) for figure, grid in grids.items()], **options)
    scores = {
        figure: {
            name: grid.scores(tuning / figure.problem, figure.preset, agent)
            for name, agent in learners.items()
        }
        for figure, grid in grids.items()
    }
    choices = {
        figure: {
            **{
                name: grids[figure].choice(learners[name], best_value(found))
                for name, found in ours.items()
            },
            UNTUNED: AgentChoice("adaptive-q"),
            **{name: AgentChoice(name) for name in HEURISTICS if figure.has_heuristics},
        }
        for figure, ours in scores.items()
    }
    evaluations: list[tuple[Study, str | Path]] = []
    for figure, chosen in choices.items():
        study = Study(
            [figure.preset],
            list(chosen.values()),
            episodes,
            n_seeds,
            entropy=entropy,
            optimum=optimum,
        )
        evaluations.append((study, evaluation / figure.problem))
    run_all(evaluations, **options)
    found = []
    for figure, chosen in choices.items():
        by_label = read_study(evaluation / figure.problem)
        optimal = figure.preset.optimal(optimum)
        assert optimal is not None, "every problem of the paper can be solved"
        found.append(
            Evidence(
                figure,
                episodes,
                {name: by_label[choice.label] for name, choice in chosen.items()},
                scores[figure],
                {name: float(chosen[name].settings["bonus"]) for name in learners},
                optimal,
                chosen,
                entropy,
            )
        )
    return found
