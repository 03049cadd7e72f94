"""The command `zooming leaderboard`: compare agents on many problems in one table.

A cell is one agent on one problem for one number of episodes, and a study of its own. So if an
agent, a problem or a number of episodes is added to a folder, only its cells are computed. Runs of
200 and 500 episodes are separate, because some agents are told how many episodes they have.

    studies/reference/PROBLEM         random actions: the zero of the scale
    studies/EPISODES/AGENT/PROBLEM    the runs that are shown

`READING` defines the numbers. The first agent is the reference. It loses a problem to another agent
if the 95 % interval of the difference in regret, paired by seed, excludes 0.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from zooming.agents.files import container as files
from zooming.analysis.intervals import Interval, mean_interval
from zooming.analysis.solve import check_solvable
from zooming.errors import ConfigurationError, ZoomingError
from zooming.lab.rivals.rival import versions_of
from zooming.lab.study import engines
from zooming.lab.study.configuration import FINAL_VALUE
from zooming.lab.study.problems import DEEP, AgentChoice, Problem, agents_named, problem_named
from zooming.lab.study.run_command import say_how_to_continue
from zooming.lab.study.store import Store
from zooming.lab.study.study import Study, find_optima, run_all
from zooming.validation import Floats, check_int, count_noun, import_frames

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
GROUPS = {"Operations problems": OPERATIONS, "Problems of the paper": PAPER}
AGENTS = (
    "auto,planner,tree-q,adaptive-q,net-q,single-partition-q,randomized-q,net-mb,adaptive-mb,"
    "grid-q,rule-search,sb3:PPO,sb3:SAC,sb3:TD3,sb3:DQN"
)
EPISODES, N_SEEDS, N_DEEP_SEEDS = (200, 500, 2_000), 20, 3
VALUE_EPISODES = 1_000  # on which a final policy is valued
REFERENCE_EPISODES, REFERENCE_SEEDS = 2_000, 20
QUICK_PROBLEMS = ("newsvendor", "queue", "bidding", "graph-ambulance", "oil")
QUICK_AGENTS = "auto,planner,tree-q,adaptive-q,net-q,grid-q,rule-search"
QUICK_EPISODES, QUICK_SEEDS = (200, 500), 5
MOST_STUDIES = 100  # with the same workers: each study holds a lock, that is an open file
N_RESAMPLES = 2000
TABLE, CSV = "leaderboard.md", "leaderboard.csv"
READING = """\
Numbers are in units of the possible gain V\\* − V_random of a problem. Regret is what all episodes
of learning lost against the optimum; the loss is regret per episode, in percent. The final policy
is valued on 1,000 episodes: 0 % is random, 100 % optimal. The error of V\\* and of sampling may
bring it above 100. Over several problems, loss and final policy are interquartile means of all
runs. ± is half a 95 % interval over the seeds. leaderboard.csv has the numbers of each problem."""


def leaderboard(
    out: str,
    quick: bool = False,
    problems: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME ...")] = None,
    agents: str | None = None,
    episodes: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="K ...")] = None,
    seeds: int | None = None,
    deep_seeds: int = N_DEEP_SEEDS,
    entropy: int = 0,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
) -> None:
    """Compare agents on many problems, and write one table.

    Repeat the command to resume it, or with more problems, agents or episodes to extend it.

    Args:
        out: folder of the leaderboard: its studies, leaderboard.md and leaderboard.csv.
        quick: five problems, seven agents, 200 and 500 episodes, 5 seeds: about two minutes on two
            cores. Other options have priority.
        problems: names of the board (newsvendor, river-swim, oil, ...), presets (zooming list) or
            Gymnasium ids of problems that zooming can solve. By default the twelve operations
            problems and four of the paper.
        agents: names separated by commas, with settings after colons. The first one is compared
            with all others. By default auto, its relatives and the rivals.
        episodes: numbers of episodes, each with runs of its own. By default 200 500 2000.
        seeds: number of runs of each agent on each problem. By default 20.
        deep_seeds: number of runs of agents that take minutes a run (sb3:...).
        entropy: number from which the seeds are derived. Another number gives other seeds.
        engine: local (processes on this machine) or ray.
        workers: number of processes. By default one per core.
        address: address of a running Ray cluster.
    """
    began = time.perf_counter()
    engines.check_engine(engine, workers, address)
    ours = {**OPERATIONS, **PAPER}
    board = Board(
        Path(out),
        tuple(
            Problem(name, *ours[name]) if name in ours else problem_named(name)
            for name in problems or (QUICK_PROBLEMS if quick else ours)
        ),
        tuple(agents_named(agents or (QUICK_AGENTS if quick else AGENTS))),
        tuple(sorted({*(episodes or (QUICK_EPISODES if quick else EPISODES))})),
        (QUICK_SEEDS if quick else N_SEEDS) if seeds is None else seeds,
        deep_seeds,
        entropy,
    )
    options = {"engine": engine, "workers": workers, "address": address, "progress_bar": True}
    try:
        finished = board.run(options)
    except engines.Stopped as stopped:
        say_how_to_continue(stopped)
    print(finished.summary(board.episodes[-1]))
    print(f"{time.perf_counter() - began:.1f} s; all tables are in {board.folder / TABLE}")


@dataclass(frozen=True)
class Scale:
    """The scale of a problem: its optimum with error, and the value of random actions."""

    optimum: float
    error: float
    random: float

    @property
    def gain(self) -> float:
        """The possible gain V* - V_random."""
        return self.optimum - self.random


@dataclass(frozen=True)
class Result:
    """The measures of one cell. Arrays have one entry per seed."""

    problem: str
    agent: str
    episodes: int
    regret: Floats
    percent: Floats
    cpu_seconds: float | None
    nbytes: float

    @property
    def loss(self) -> Floats:
        """Regret per episode, in percent of the possible gain."""
        return 100 * self.regret / self.episodes


@dataclass(frozen=True)
class Board:
    """All settings of a leaderboard. All other agents are compared with the first agent."""

    folder: Path
    problems: tuple[Problem, ...]
    agents: tuple[AgentChoice, ...]
    episodes: tuple[int, ...]
    n_seeds: int = N_SEEDS
    n_deep_seeds: int = N_DEEP_SEEDS
    entropy: int = 0
    # {(problem, agent): why it is an empty cell}
    refused: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_int(self.n_seeds, "seeds", 1)
        check_int(self.n_deep_seeds, "deep_seeds", 1)
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
        is_used = self.folder.is_dir() and any(self.folder.iterdir())
        if is_used and not any((self.folder / "studies").glob("*")):
            raise ConfigurationError(
                f"{self.folder} is not empty and holds no leaderboard; choose another --out"
            )

    def run(self, options: dict[str, Any]) -> Finished:
        """Run the missing studies. The tables are written after each number of episodes."""
        reference = self._refuse_unplayable()
        print("random actions", flush=True)
        scales = self._scales(options)
        finished = Finished(reference, scales, [], self.refused)
        for episodes in self.episodes:
            print(f"{episodes:,} episodes", flush=True)
            cells = self._cells(episodes)
            studies = [(study, folder) for _, _, study, folder in cells]
            for first in range(0, len(studies), MOST_STUDIES):
                run_all(studies[first : first + MOST_STUDIES], **options)
            for problem, choice, study, folder in cells:
                store, scale = Store(folder, study.configuration), scales[problem.name]
                runs, (seconds,) = store.runs(problem, choice), store.seconds_per_run().values()
                finished.results.append(
                    Result(
                        problem.name,
                        choice.label,
                        episodes,
                        (episodes * scale.optimum - runs["total_return"]) / scale.gain,
                        100 * (runs[FINAL_VALUE] - scale.random) / scale.gain,
                        None if math.isnan(seconds) else seconds,
                        float(runs["nbytes"].mean()),
                    )
                )
            finished.write(self.folder)
        return finished

    def _refuse_unplayable(self) -> str:
        """Record why agents cannot be made on problems. Return the first that can play one."""
        for problem in self.problems:
            for choice in self.agents:
                try:
                    choice.make(problem.make(), 0)
                except (ZoomingError, TypeError, ValueError) as error:
                    self.refused[problem.name, choice.label] = str(error)
        for choice in self.agents:
            if any((problem.name, choice.label) not in self.refused for problem in self.problems):
                return choice.label
        raise ConfigurationError(
            "no agent of the leaderboard can play its problems: "
            + "; ".join(dict.fromkeys(self.refused.values()))
        )

    def _cells(self, episodes: int) -> list[tuple[Problem, AgentChoice, Study, Path]]:
        """Return the cells with this number of episodes that can be played."""
        found = []
        for problem in self.problems:
            for choice in self.agents:
                if (problem.name, choice.label) in self.refused:
                    continue
                study = Study(
                    [problem],
                    [choice],
                    episodes,
                    self.n_deep_seeds if choice.kind.startswith(DEEP) else self.n_seeds,
                    entropy=self.entropy,
                    value_episodes=VALUE_EPISODES,
                )
                folder = self._folder(study, str(episodes), choice.label)
                found.append((problem, choice, study, folder))
        return found

    def _scales(self, options: dict[str, Any]) -> dict[str, Scale]:
        """Run random actions on every problem, and return the scales."""
        studies: list[tuple[Study, str | Path]] = []
        for problem in self.problems:
            study = Study(
                [problem],
                ["random"],
                REFERENCE_EPISODES,
                REFERENCE_SEEDS,
                entropy=self.entropy,
                stream="reference",
            )
            studies.append((study, self._folder(study, "reference")))
        run_all(studies, **options)
        found = {}
        for problem, (study, folder) in zip(self.problems, studies, strict=True):
            store = Store(folder, study.configuration)
            optimum = find_optima(store)[problem.name]
            assert optimum is not None  # the board has only problems that can be solved
            totals = store.runs(problem, study.configuration.agents[0])["total_return"]
            random = float(totals.mean()) / REFERENCE_EPISODES
            if not optimum.return_ > random:
                raise ConfigurationError(
                    f"{problem.name}: random actions earn {random:g}, and the optimum is "
                    f"{optimum.return_:g}, so there is nothing to learn; leave the problem out"
                )
            found[problem.name] = Scale(optimum.return_, optimum.error, random)
        return found

    def _folder(self, study: Study, *parts: str) -> Path:
        """Return the folder of a study. Its name is readable and differs for different settings."""
        readable = [re.sub(r"[^A-Za-z0-9._=-]+", "_", part).strip("_") for part in parts]
        return self.folder.joinpath("studies", *readable, study.configuration.name)


@dataclass(frozen=True)
class Finished:
    """The results of the studies that are finished, and their tables.

    `refused` maps (problem, agent) to the reason why there is no result.
    """

    reference: str
    scales: dict[str, Scale]
    results: list[Result]
    refused: dict[tuple[str, str], str]

    def of(self, problem: str, episodes: int) -> dict[str, Result]:
        """Return the results on one problem with this number of episodes, by agent."""
        return {
            one.agent: one
            for one in self.results
            if (one.problem, one.episodes) == (problem, episodes)
        }

    def against(self, result: Result) -> Interval | None:
        """Return the regret of a result minus the reference's, paired by seed.

        Return None for the reference itself, if the reference has no result, and with one seed.
        """
        ours = self.of(result.problem, result.episodes).get(self.reference)
        if ours is None or ours is result:
            return None
        n = min(len(result.regret), len(ours.regret))
        return mean_interval(result.regret[:n] - ours.regret[:n]) if n > 1 else None

    def standings(self, problems: Sequence[str], episodes: int) -> str:
        """Return a table of every agent over some problems, smallest loss first.

        Agents that cannot play all of the problems come last.
        """
        played = [self.of(name, episodes) for name in problems]
        lines = []
        for agent in dict.fromkeys(agent for one in played for agent in one):
            ours = [one[agent] for one in played if agent in one]
            loss = interquartile_mean([one.loss for one in ours])
            percent = interquartile_mean([one.percent for one in ours])
            against = [interval for interval in map(self.against, ours) if interval]
            better = sum(interval.low > 0 for interval in against)
            worse = sum(interval.high < 0 for interval in against)
            record = f"{better} / {len(against) - better - worse} / {worse}" if against else "–"
            times = [one.cpu_seconds for one in ours if one.cpu_seconds is not None]
            is_partial = len(ours) < len(problems)
            cells = [agent, str(len(ours)) if is_partial else "all", _pm(loss), _pm(percent)]
            cells += [record, f"{np.mean(times):.3g}" if times else "–"]
            cells.append(f"{np.mean([one.nbytes for one in ours]) / 1e3:,.0f}")
            lines.append(((is_partial, loss.mean), cells))
        better_than = f"{self.reference} better / level / worse"
        head = ["agent", "problems", "loss, %", "final policy, %", better_than, "CPU s", "kB"]
        rows = [head, ["---"] * len(head), *(cells for _, cells in sorted(lines))]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def summary(self, episodes: int) -> str:
        """Return the standings of each group of problems."""
        parts, left = [], list(self.scales)
        for group, known in (*GROUPS.items(), ("Others", left)):
            if names := [name for name in left if name in known]:
                parts += [f"### {group}, {episodes:,} episodes", self.standings(names, episodes)]
            left = [name for name in left if name not in names]
        return "\n\n".join(parts)

    def markdown(self) -> str:
        """Return the summaries for all numbers of episodes, and the reasons of empty cells."""
        agents = list(dict.fromkeys(one.agent for one in self.results))
        all_episodes = list(dict.fromkeys(one.episodes for one in self.results))
        parts = [
            f"# Leaderboard: {count_noun(len(agents), 'agent')} on "
            f"{count_noun(len(self.scales), 'problem')}",
            READING,
        ]
        if used := versions_of(agents):
            numbers = ", ".join(f"{name} {number}" for name, number in used.items())
            parts.append(f"Libraries of rivals: {numbers}.")
        parts += [self.summary(episodes) for episodes in all_episodes]
        if self.refused:
            reasons = self.refused.items()
            listed = [f"- {agent} on {problem}: {reason}" for (problem, agent), reason in reasons]
            parts += ["### Not played", "\n".join(listed)]
        return "\n\n".join(parts) + "\n"

    def write(self, folder: Path) -> None:
        """Write the tables of the leaderboard into its folder."""
        pl = import_frames("polars", "a leaderboard")
        frame = pl.DataFrame(list(self.rows()), infer_schema_length=None)
        files.write_atomically(folder / CSV, frame.write_csv().encode())
        files.write_atomically(folder / TABLE, self.markdown().encode())

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row per problem, number of episodes and agent. Empty cells have a reason."""
        for one in self.results:
            scale = self.scales[one.problem]
            yield {
                "problem": one.problem,
                "episodes": one.episodes,
                "agent": one.agent,
                "libraries": json.dumps(versions_of([one.agent])),
                "seeds": len(one.regret),
                **_spread("regret", _mean(one.regret)),
                **_spread("percent", _mean(one.percent)),
                "cpu_seconds": one.cpu_seconds,
                "bytes": one.nbytes,
                **_spread(f"regret_minus_{self.reference}", self.against(one)),
                "optimum": scale.optimum,
                "optimum_error": scale.error,
                "random": scale.random,
                "reason": None,
            }
        for (problem, agent), reason in self.refused.items():
            yield {"problem": problem, "agent": agent, "reason": reason}


def interquartile_mean(problems: Sequence[Floats], n_resamples: int = N_RESAMPLES) -> Interval:
    """Return the mean of the middle half of all runs on all problems, with a 95 % interval.

    A quarter of the values, rounded down, is dropped at each end. The interval is that of a
    bootstrap over the seeds; the problems are fixed.

    >>> print(interquartile_mean([np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0, 8.0])]))
    4.5 (95% interval 3.5 to 5.25)
    """

    def middle(rows: Floats) -> Floats:
        cut = rows.shape[1] // 4
        return np.asarray(np.sort(rows, axis=1)[:, cut : rows.shape[1] - cut].mean(axis=1))

    drawn = []
    for i, runs in enumerate(problems):
        rng = np.random.default_rng([0, i, len(runs)])
        drawn.append(runs[rng.integers(len(runs), size=(n_resamples, len(runs)))])
    low, high = np.quantile(middle(np.concatenate(drawn, axis=1)), [0.025, 0.975])
    return Interval(float(middle(np.concatenate(problems)[None])[0]), float(low), float(high))


def _mean(samples: Floats) -> Interval:
    """Return the mean with its 95 % interval. With one sample, both ends equal the mean."""
    only = float(samples[0])
    return mean_interval(samples) if len(samples) > 1 else Interval(only, only, only)


def _spread(name: str, interval: Interval | None) -> dict[str, float | None]:
    mean, low, high = (
        (interval.mean, interval.low, interval.high) if interval else (None, None, None)
    )
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def _pm(interval: Interval) -> str:
    half = (interval.high - interval.low) / 2
    return f"{interval.mean:,.1f}" + (f" ± {half:,.1f}" if half > 0 else "")
