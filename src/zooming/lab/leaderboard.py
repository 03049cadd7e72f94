"""The command `zooming leaderboard`: compare agents on many problems in one table.

A cell is one agent on one problem for one number of episodes, and a study of its own. So if an
agent, a problem or a number of episodes is added to a folder, only its cells are computed. Runs of
200 and 500 episodes are separate, because some agents are told how many episodes they have.

    studies/reference/PROBLEM         random actions: the zero of the scale
    studies/EPISODES/AGENT/PROBLEM    the runs that are shown

The unit of all numbers is the possible gain of a problem, V* - V_random: its solved optimum minus
the mean return of random actions.

- regret: K V* minus the sum of the returns of all K episodes;
- loss: regret per episode, in percent;
- percent: the value of the final policy on `VALUE_EPISODES` episodes without learning, 0 for random
  actions and 100 for the optimum.

The first agent is the reference. It loses a problem to another agent if the 95 % interval of the
difference in regret, paired by seed, excludes 0.
"""

from __future__ import annotations

import io
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
from zooming.lab.rivals.rival import library_of, versions_of
from zooming.lab.study import engines
from zooming.lab.study.chunks import FINAL_VALUE
from zooming.lab.study.problems import AGENTS as KNOWN
from zooming.lab.study.problems import AgentChoice, Problem, agents_named, problem_named
from zooming.lab.study.run_command import say_how_to_continue
from zooming.lab.study.runs import find_optima
from zooming.lab.study.stopping import Stopped
from zooming.lab.study.store import Store
from zooming.lab.study.study import Study, run_all
from zooming.lab.study.summary import seconds_per_run
from zooming.lab.study_tables import wide_console
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
OTHER = "Others"  # the group of problems that a user names
AGENTS = (
    "auto", "planner", "tree-q", "adaptive-q", "net-q", "single-partition-q", "randomized-q",
    "net-mb", "adaptive-mb", "grid-q", "rule-search", "sb3:PPO", "sb3:SAC", "sb3:TD3", "sb3:DQN",
    "pyxab:VHCT",
)  # fmt: skip
EPISODES, N_SEEDS, N_DEEP_SEEDS = (200, 500, 2_000), 20, 3
DEEP = "sb3:"  # agents that take minutes a run
VALUE_EPISODES = 1_000  # on which a final policy is valued
REFERENCE_EPISODES, REFERENCE_SEEDS = 2_000, 20
QUICK_PROBLEMS = ("newsvendor", "queue", "bidding", "graph-ambulance", "oil")
QUICK_AGENTS = ("auto", "planner", "tree-q", "adaptive-q", "net-q", "grid-q", "rule-search")
QUICK_EPISODES, QUICK_SEEDS = (200, 500), 5
MOST_STUDIES = 100  # with the same workers: each study holds a lock, that is an open file
N_RESAMPLES = 2000
TABLE, CSV, PARQUET = "leaderboard.md", "leaderboard.csv", "leaderboard.parquet"
READING = """\
Numbers are in units of the possible gain V\\* − V_random of a problem. Regret is what all episodes
of learning lost against the optimum; the loss is regret per episode, in percent. The final policy
is valued on 1,000 episodes: 0 % is random, 100 % optimal. The error of V\\* and of sampling may
bring it above 100. Over several problems, loss and final policy are interquartile means of all
runs. ± is half a 95 % interval over the seeds."""


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
        out: folder of the leaderboard: its studies, leaderboard.md, .csv and .parquet.
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
    names = problems or (QUICK_PROBLEMS if quick else (*OPERATIONS, *PAPER))
    usual = [name for name in (QUICK_AGENTS if quick else AGENTS) if name in KNOWN]
    board = Board(
        Path(out),
        find_problems(names),
        tuple(agents_named(",".join(usual) if agents is None else agents)),
        tuple(sorted({*(episodes or (QUICK_EPISODES if quick else EPISODES))})),
        (QUICK_SEEDS if quick else N_SEEDS) if seeds is None else seeds,
        deep_seeds,
        entropy,
    )
    options = {"engine": engine, "workers": workers, "address": address, "progress_bar": True}
    try:
        finished = board.run(options)
    except Stopped as stopped:
        say_how_to_continue(stopped)
    show(finished)
    print(f"{time.perf_counter() - began:.1f} s; all tables are in {board.folder / TABLE}")


def find_problems(names: Sequence[str]) -> tuple[Problem, ...]:
    """Return the problems with these names: of the board, presets or Gymnasium ids."""
    ours = {**OPERATIONS, **PAPER}
    return tuple(
        Problem(name, *ours[name]) if name in ours else problem_named(name) for name in names
    )


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
class Cell:
    """One agent on one problem for one number of episodes."""

    problem: Problem
    choice: AgentChoice
    episodes: int
    study: Study
    folder: Path

    def read(self, scale: Scale) -> Result:
        """Return the measures of the finished study."""
        store = Store(self.folder, self.study.configuration)
        runs = store.runs(self.problem, self.choice)
        (seconds,) = seconds_per_run(store).values()
        return Result(
            self.problem.name,
            self.choice.label,
            self.episodes,
            (self.episodes * scale.optimum - runs["total_return"]) / scale.gain,
            100 * (runs[FINAL_VALUE] - scale.random) / scale.gain,
            None if math.isnan(seconds) else seconds,
            float(runs["nbytes"].mean()),
        )


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
        absent = self._refuse_unplayable()
        references = {problem.name: self._reference(problem) for problem in self.problems}
        print("random actions", flush=True)
        run_all([*references.values()], **options)
        scales = {name: _read_scale(name, *pair) for name, pair in references.items()}
        reference = next(agent.label for agent in self.agents if agent.label not in absent)
        results, done = list[Result](), list[int]()
        for episodes in self.episodes:
            print(f"{episodes:,} episodes", flush=True)
            cells = self._run_cells(self.cells(episodes), options)
            results += [cell.read(scales[cell.problem.name]) for cell in cells]
            if not results:
                raise ConfigurationError("no agent of the leaderboard could play its problems")
            done.append(episodes)
            finished = Finished(reference, scales, tuple(done), results, self.refused)
            finished.write(self.folder)
        return finished

    def _refuse_unplayable(self) -> set[str]:
        """Record why agents cannot be made on problems. Return those that can play none."""
        for problem in self.problems:
            for choice in self.agents:
                try:
                    choice.make(problem.make(), 0)
                except (ZoomingError, TypeError, ValueError) as error:
                    self.refused[problem.name, choice.label] = str(error)
        absent = set[str]()
        for choice in self.agents:
            reasons = [self.refused.get((one.name, choice.label)) for one in self.problems]
            if all(reasons):
                print(f"{choice.label} is left out: {reasons[0]}")
                absent.add(choice.label)
        if len(absent) == len(self.agents):
            raise ConfigurationError("no agent of the leaderboard can play its problems")
        return absent

    def cells(self, episodes: int) -> list[Cell]:
        """Return the cells with this number of episodes that can be played."""
        found = []
        for problem in self.problems:
            for choice in self.agents:
                if (problem.name, choice.label) in self.refused:
                    continue
                n = self.n_deep_seeds if choice.kind.startswith(DEEP) else self.n_seeds
                study = Study(
                    [problem],
                    [choice],
                    episodes,
                    n,
                    entropy=self.entropy,
                    value_episodes=VALUE_EPISODES,
                )
                folder = self._folder(study, str(episodes), choice.label)
                found.append(Cell(problem, choice, episodes, study, folder))
        return found

    def _run_cells(self, cells: Sequence[Cell], options: dict[str, Any]) -> list[Cell]:
        """Run the cells. Return those that are finished: an agent that fails loses its cell."""
        left = list(cells)
        while True:
            try:
                for first in range(0, len(left), MOST_STUDIES):
                    part = left[first : first + MOST_STUDIES]
                    run_all([(cell.study, cell.folder) for cell in part], **options)
                return left
            except ZoomingError as error:
                # A run prefixes its errors with its agent and problem.
                blamed = [
                    cell
                    for cell in left
                    if str(error).startswith(f"{cell.choice.label} on {cell.problem.name}: ")
                ]
                if not blamed:
                    raise
                print(f"left out: {error}")
                for cell in blamed:
                    self.refused[cell.problem.name, cell.choice.label] = str(error)
                left = [cell for cell in left if cell not in blamed]

    def _reference(self, problem: Problem) -> tuple[Study, Path]:
        """Return the study of random actions on a problem, and its folder."""
        study = Study(
            [problem],
            ["random"],
            REFERENCE_EPISODES,
            REFERENCE_SEEDS,
            entropy=self.entropy,
            stream="reference",
        )
        return study, self._folder(study, "reference")

    def _folder(self, study: Study, *parts: str) -> Path:
        """Return the folder of a study. Its name is readable and differs for different settings."""
        readable = [re.sub(r"[^A-Za-z0-9._=-]+", "_", part).strip("_") for part in parts]
        return self.folder.joinpath("studies", *readable, study.configuration.name)


def _read_scale(name: str, study: Study, folder: Path) -> Scale:
    """Return the scale of a problem from the finished study of random actions."""
    configuration = study.configuration
    store = Store(folder, configuration)
    optimum = find_optima(store)[name]
    assert optimum is not None  # the board has only problems that can be solved
    totals = store.runs(configuration.problems[0], configuration.agents[0])["total_return"]
    random = float(totals.mean()) / configuration.episodes
    if not optimum.return_ > random:
        raise ConfigurationError(
            f"{name}: random actions earn {random:g}, and the optimum is {optimum.return_:g}, "
            "so there is nothing to learn; leave the problem out"
        )
    return Scale(optimum.return_, optimum.error, random)


@dataclass(frozen=True)
class Standing:
    """Results of one agent over the problems of a group, at one number of episodes.

    `rank` is the mean over the problems of its place by regret, None for an agent that cannot play
    all of them. `record` counts the problems on which the reference is better, level and worse,
    and is None for the reference itself.
    """

    agent: str
    n_problems: int
    loss: Interval
    percent: Interval
    rank: float | None
    record: tuple[int, int, int] | None
    cpu_seconds: float | None
    nbytes: float


@dataclass(frozen=True)
class Finished:
    """The results of a leaderboard, for each number of episodes whose runs are all finished.

    `refused` maps (problem, agent) to the reason why there is no result.
    """

    reference: str
    scales: dict[str, Scale]
    episodes: tuple[int, ...]
    results: Sequence[Result]
    refused: dict[tuple[str, str], str]

    def groups(self) -> dict[str, list[str]]:
        """Return {group: its problems} of the groups that have problems."""
        found: dict[str, list[str]] = {}
        for name in self.scales:
            group = next((group for group, names in GROUPS.items() if name in names), OTHER)
            found.setdefault(group, []).append(name)
        return found

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

    def standings(self, names: Sequence[str], episodes: int) -> list[Standing]:
        """Return the standing of every agent over some problems, smallest loss first.

        Agents that cannot play all of the problems come last.
        """
        played = [self.of(name, episodes) for name in names]
        agents = list(dict.fromkeys(agent for one in played for agent in one))
        complete = [agent for agent in agents if all(agent in one for one in played)]
        regrets = [[float(one[agent].regret.mean()) for agent in complete] for one in played]
        ranks = dict(zip(complete, mean_ranks(np.array(regrets)), strict=True))
        found = []
        for agent in agents:
            ours = [one[agent] for one in played if agent in one]
            signs = [_sign(interval) for interval in map(self.against, ours) if interval]
            times = [one.cpu_seconds for one in ours if one.cpu_seconds is not None]
            found.append(
                Standing(
                    agent,
                    len(ours),
                    interquartile_mean([one.loss for one in ours]),
                    interquartile_mean([one.percent for one in ours]),
                    ranks.get(agent),
                    (signs.count(1), signs.count(0), signs.count(-1)) if signs else None,
                    float(np.mean(times)) if times else None,
                    float(np.mean([one.nbytes for one in ours])),
                )
            )
        return sorted(found, key=lambda one: (one.n_problems < len(names), one.loss.mean))

    def losses(self, episodes: int) -> list[str]:
        """Return a sentence for each problem on which the reference has more regret than another.

        It names the agent with the least regret first.
        """
        found = []
        for name in self.scales:
            here = self.of(name, episodes)
            pairs = [(one, self.against(one)) for one in here.values()]
            beaten_by = [(one, less) for one, less in pairs if less and less.high < 0]
            beaten_by.sort(key=lambda pair: float(pair[0].regret.mean()))
            if not beaten_by:
                continue
            (best, less), *rest = beaten_by
            ours = here[self.reference]
            others = f" Also: {', '.join(one.agent for one, _ in rest)}." if rest else ""
            found.append(
                f"{name}, to {best.agent}: regret {ours.regret.mean():,.1f} against "
                f"{best.regret.mean():,.1f} (difference {-less.mean:,.1f} ± "
                f"{(less.high - less.low) / 2:,.1f}), final policy {ours.percent.mean():.1f} % "
                f"against {best.percent.mean():.1f} %.{others}"
            )
        return found

    def write(self, folder: Path) -> None:
        """Write the tables of the leaderboard into its folder."""
        pl = import_frames("polars", "a leaderboard")
        frame = pl.DataFrame(list(self.rows()), infer_schema_length=None)
        content = io.BytesIO()
        frame.write_parquet(content)
        files.write_atomically(folder / PARQUET, content.getvalue())
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

    def markdown(self) -> str:
        """Return all tables: standings, losses of the reference, and one table per problem."""
        agents = list(dict.fromkeys(one.agent for one in self.results))
        parts = [
            f"# Leaderboard: {count_noun(len(agents), 'agent')} on "
            f"{count_noun(len(self.scales), 'problem')}",
            READING,
        ]
        if used := [agent for agent in agents if library_of(agent)]:
            numbers = [f"{name} {number}" for name, number in versions_of(used).items()]
            parts.append(f"Libraries of {', '.join(used)}: {', '.join(numbers)}.")
        for group, names in self.groups().items():
            for episodes in self.episodes:
                parts.append(f"### {group}, {episodes:,} episodes")
                parts.append(self._standings_table(names, episodes))
        parts.append(f"### Where {self.reference} loses")
        for episodes in self.episodes:
            lost = self.losses(episodes)
            line = f"- {episodes:,} episodes: {len(lost)} of {len(self.scales)} problems"
            parts.append("\n".join([line, *(f"  - {one}" for one in lost)]))
        if self.refused:
            reasons = self.refused.items()
            listed = [f"- {agent} on {problem}: {reason}" for (problem, agent), reason in reasons]
            parts += ["### Not played", "\n".join(listed)]
        for name, scale in self.scales.items():
            share = 100 * scale.error / scale.gain
            parts += [
                f"## {name}",
                f"V\\* = {scale.optimum:.5g} (within {share:.1f} % of the gain), V_random = "
                f"{scale.random:.5g}.",
            ]
            parts += [self._problem_table(name, episodes) for episodes in self.episodes]
        return "\n\n".join(parts) + "\n"

    def _standings_table(self, names: Sequence[str], episodes: int) -> str:
        rows = [
            [
                one.agent,
                "all" if one.n_problems == len(names) else str(one.n_problems),
                _pm(one.loss),
                "–" if one.rank is None else f"{one.rank:.1f}",
                _pm(one.percent),
                "–" if one.record is None else " / ".join(map(str, one.record)),
                _seconds(one.cpu_seconds),
                f"{one.nbytes / 1e3:,.0f}",
            ]
            for one in self.standings(names, episodes)
        ]
        better = f"{self.reference} better / level / worse"
        head = ["agent", "problems", "loss, %", "rank", "final policy, %", better, "CPU s", "kB"]
        return _table(head, rows)

    def _problem_table(self, problem: str, episodes: int) -> str:
        found = sorted(self.of(problem, episodes).values(), key=lambda one: one.regret.mean())
        rows = [
            [
                one.agent,
                _pm(_mean(one.regret)),
                _pm(self.against(one), "+"),
                _pm(_mean(one.percent)),
                _seconds(one.cpu_seconds),
                f"{one.nbytes:,.0f}",
                str(len(one.regret)),
            ]
            for one in found
        ]
        head = [f"{episodes:,} episodes", "regret", f"minus {self.reference}", "final policy, %"]
        return _table([*head, "CPU s", "bytes", "seeds"], rows)


def show(finished: Finished) -> None:
    """Print the standings at the largest number of episodes, and where the reference loses."""
    from rich.table import Table

    console, episodes = wide_console(), finished.episodes[-1]
    for group, names in finished.groups().items():
        table = Table(title=f"{group}, {episodes:,} episodes", title_justify="left")
        for column in ("agent", "problems", "loss, %", "rank", "final policy, %", "CPU s"):
            table.add_column(column, justify="left" if column == "agent" else "right")
        for one in finished.standings(names, episodes):
            table.add_row(
                one.agent,
                str(one.n_problems),
                f"{one.loss.mean:.1f}",
                "-" if one.rank is None else f"{one.rank:.1f}",
                f"{one.percent.mean:.1f}",
                _seconds(one.cpu_seconds),
            )
        console.print(table)
    lost = finished.losses(episodes)
    console.print(
        f"{finished.reference} has more regret than another agent on {len(lost)} of "
        f"{len(finished.scales)} problems.",
        *(f"  {one}" for one in lost),
        sep="\n",
        highlight=False,
    )


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


def mean_ranks(regrets: Floats) -> Floats:
    """Return the mean rank of each column over the rows. Rank 1 has the smallest value.

    Equal values share the mean of their ranks.

    >>> mean_ranks(np.array([[1.0, 2.0, 2.0], [0.0, 5.0, 4.0]])).tolist()
    [1.0, 2.75, 2.25]
    """
    below = (regrets[:, None, :] < regrets[:, :, None]).sum(axis=2)
    equal = (regrets[:, None, :] == regrets[:, :, None]).sum(axis=2)
    return np.asarray((1.0 + below + (equal - 1) / 2).mean(axis=0))


def _sign(interval: Interval) -> int:
    """Return 1 if the interval is above 0, -1 if it is below, otherwise 0."""
    return int(interval.low > 0) - int(interval.high < 0)


def _mean(samples: Floats) -> Interval:
    """Return the mean with its 95 % interval. With one sample, both ends equal the mean."""
    only = float(samples[0])
    return mean_interval(samples) if len(samples) > 1 else Interval(only, only, only)


def _spread(name: str, interval: Interval | None) -> dict[str, float | None]:
    return {
        name: None if interval is None else interval.mean,
        f"{name}_low": None if interval is None else interval.low,
        f"{name}_high": None if interval is None else interval.high,
    }


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _pm(interval: Interval | None, sign: str = "") -> str:
    if interval is None:
        return "–"
    half = (interval.high - interval.low) / 2
    return f"{interval.mean:{sign},.1f}" + (f" ± {half:,.1f}" if half > 0 else "")


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.3g}"
