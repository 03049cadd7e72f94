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
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro

from zooming.agents.files import container as files
from zooming.analysis.intervals import Interval, mean_interval
from zooming.analysis.solve import check_solvable
from zooming.errors import ConfigurationError, ZoomingError
from zooming.lab.rivals.rival import versions_of
from zooming.lab.study import engines
from zooming.lab.study.configuration import FINAL_VALUE
from zooming.lab.study.problems import (
    DEEP,
    AgentChoice,
    Problem,
    agents_named,
    problem_named,
    stated_optimum,
)
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
KNOWN = {**OPERATIONS, **PAPER}
AGENTS = (
    "auto,planner,tree-q,adaptive-q,net-q,single-partition-q,randomized-q,net-mb,adaptive-mb,"
    "grid-q,rule-search,resolver,sb3:PPO"
)
TOLD = {"rule-search": "the rule's form", "resolver": "the dynamics"}  # others: nothing
SLOW = ("net-mb", "grid-q", "rule-search", "resolver", DEEP)  # nine tenths of the time
EPISODES, N_SEEDS, N_SLOW_SEEDS = (500, 2_000), 20, 3
VALUE_EPISODES = 1_000  # on which a final policy is valued
REFERENCE_EPISODES, REFERENCE_SEEDS = 2_000, 20
QUICK_PROBLEMS = ("newsvendor", "queue", "bidding", "graph-ambulance", "oil")
QUICK_AGENTS = "auto,planner,tree-q,adaptive-q,net-q,grid-q,rule-search"
QUICK_EPISODES, QUICK_SEEDS = (200, 500), 5
MOST_STUDIES = 100  # with the same workers: each study holds a lock, that is an open file
WIDE = 1.96  # standard errors of half a 95 % interval
LEAST = -100.0  # percent: a run that is worse counts as such, so that no catastrophe hides the rest
TABLE, CSV = "leaderboard.md", "leaderboard.csv"
READING = """\
Numbers are in units of the possible gain V\\* − V_random of a problem. Regret is what all episodes
of learning lost against the optimum; the loss is regret per episode, in percent. The final policy
is valued on 1,000 episodes: 0 % is random, 100 % optimal. The error of V\\* and of sampling may
bring it above 100. Loss and final policy are means over the problems of the means over the runs,
where a run below -100 %, or that loses more than 200 %, counts as such. Least is the final policy
on the problem where it is least. ± is half a 95 % interval over the seeds. Told is what an agent
knows beyond the spaces and the range of rewards; a resolver takes it that the noise does not depend
on state and action. leaderboard.csv has the numbers of each problem."""


def leaderboard(
    out: str,
    quick: bool = False,
    problems: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME ...")] = None,
    agents: str | None = None,
    episodes: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="K ...")] = None,
    seeds: int | None = None,
    slow_seeds: int = N_SLOW_SEEDS,
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
            problems and four of the paper. An environment may state its optimum, as
            metadata["optimal_return"].
        agents: names separated by commas, with settings after colons. The first one is compared
            with all others. By default auto, its relatives and the rivals.
        episodes: numbers of episodes, each with runs of its own. By default 500 2000.
        seeds: number of runs of each agent on each problem. By default 20.
        slow_seeds: number of runs of net-mb, grid-q, rule-search, resolver and deep agents
            (sb3:...). Deep agents play the smallest number of episodes alone.
        entropy: number from which the seeds are derived. Another number gives other seeds.
        engine: local (processes on this machine) or ray.
        workers: number of processes. By default one per core.
        address: address of a running Ray cluster.
    """
    began, folder, chosen = time.perf_counter(), Path(out), QUICK_PROBLEMS if quick else KNOWN
    engines.check_engine(engine, workers, address)
    options: dict[str, Any] = {
        "engine": engine, "workers": workers, "address": address, "progress_bar": True,
    }  # fmt: skip
    check_int(slow_seeds, "slow_seeds", 1)
    n_seeds = (QUICK_SEEDS if quick else N_SEEDS) if seeds is None else seeds
    every = sorted({*(episodes or (QUICK_EPISODES if quick else EPISODES))})
    played = [
        Problem(name, *KNOWN[name]) if name in KNOWN else problem_named(name)
        for name in problems or chosen
    ]
    choices = agents_named(agents or (QUICK_AGENTS if quick else AGENTS))
    for k in every:  # names and settings are checked as those of one study with all cells would be
        Study(played, choices, k, n_seeds, entropy=entropy)
    _check(folder, played)
    refused = _find_refused(played, choices)
    # The first agent that can play is compared with all others.
    reference = next(a.label for a in choices for p in played if (p.name, a.label) not in refused)

    def study_of(problem: Problem, agent: AgentChoice, k: int) -> tuple[Study, Path]:
        n = min(n_seeds, slow_seeds) if agent.kind.startswith(SLOW) else n_seeds
        study = Study([problem], [agent], k, n, entropy=entropy, value_episodes=VALUE_EPISODES)
        return study, _folder(folder, study, str(k), agent.label)

    cells: list[Cell] = []
    try:
        print("random actions", flush=True)
        scales = _find_scales(folder, played, entropy, options)
        for k in every:
            print(f"{k:,} episodes", flush=True)
            pairs = [
                (problem, agent)
                for problem in played
                for agent in choices
                if (problem.name, agent.label) not in refused
                and (k == every[0] or not agent.kind.startswith(DEEP))
            ]
            studies = [study_of(problem, agent, k) for problem, agent in pairs]
            for first in range(0, len(studies), MOST_STUDIES):
                run_all(studies[first : first + MOST_STUDIES], **options)
            for (problem, _), (study, where) in zip(pairs, studies, strict=True):
                cells.append(_measure(Store(where, study.configuration), scales[problem.name]))
            _write(folder, cells, refused, reference)
    except engines.Stopped as stopped:
        say_how_to_continue(stopped)
    print(summary([one for one in cells if one.episodes == every[-1]], reference))
    print(f"{time.perf_counter() - began:.1f} s; all tables are in {folder / TABLE}")


class Scale(NamedTuple):
    """The scale of a problem: its optimum with error, and the value of random actions."""

    optimum: float
    error: float
    random: float


class Cell(NamedTuple):
    """The measures of one agent on one problem. Arrays have one entry per seed."""

    problem: str
    agent: str
    episodes: int
    regret: Floats
    percent: Floats
    cpu_seconds: float | None
    nbytes: float
    scale: Scale


def _check(folder: Path, problems: Sequence[Problem]) -> None:
    """Raise ConfigurationError if a problem cannot be solved, or the folder has other files."""
    for problem in problems:
        try:
            env = problem.make()
            if stated_optimum(env) is None:
                check_solvable(env)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{problem.name} has no known optimum, the 100 % of a leaderboard: {error}. "
                "zooming run compares agents on any problem"
            ) from error
    is_used = folder.is_dir() and any(folder.iterdir())
    if is_used and not any((folder / "studies").glob("*")):
        raise ConfigurationError(
            f"{folder} is not empty and holds no leaderboard; choose another --out"
        )


def _find_refused(
    problems: Sequence[Problem], agents: Sequence[AgentChoice]
) -> dict[tuple[str, str], str]:
    """Return {(problem, agent): why it cannot be played}, the reasons of empty cells."""
    refused = {}
    for problem in problems:
        for choice in agents:
            try:
                choice.make(problem.make(), 0)
            except (ZoomingError, TypeError, ValueError) as error:
                refused[problem.name, choice.label] = str(error)
    if len(refused) == len(problems) * len(agents):
        raise ConfigurationError(
            "no agent of the leaderboard can play its problems: "
            + "; ".join(dict.fromkeys(refused.values()))
        )
    return refused


def _folder(folder: Path, study: Study, *parts: str) -> Path:
    """Return the folder of a study. Its name is readable and differs for different settings."""
    readable = [re.sub(r"[^A-Za-z0-9._=-]+", "_", part).strip("_") for part in parts]
    return folder.joinpath("studies", *readable, study.configuration.name)


def _find_scales(
    folder: Path, problems: Sequence[Problem], entropy: int, options: dict[str, Any]
) -> dict[str, Scale]:
    """Run random actions on every problem, and return the scales."""
    sizes = REFERENCE_EPISODES, REFERENCE_SEEDS
    studies = [
        Study([problem], ["random"], *sizes, entropy=entropy, stream="reference")
        for problem in problems
    ]
    folders = [_folder(folder, study, "reference") for study in studies]
    run_all(list(zip(studies, folders, strict=True)), **options)
    found = {}
    for problem, study, where in zip(problems, studies, folders, strict=True):
        store = Store(where, study.configuration)
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


def _measure(store: Store, scale: Scale) -> Cell:
    """Return the measures of a finished study of one agent on one problem."""
    known = store.configuration
    (problem,), (agent,) = known.problems, known.agents
    runs, (seconds,) = store.runs(problem, agent), store.seconds_per_run().values()
    gain = scale.optimum - scale.random
    return Cell(
        problem.name, agent.label, known.episodes,
        (known.episodes * scale.optimum - runs["total_return"]) / gain,
        100 * (runs[FINAL_VALUE] - scale.random) / gain,
        None if math.isnan(seconds) else seconds, float(runs["nbytes"].mean()), scale,
    )  # fmt: skip


# --- tables ---------------------------------------------------------------------------------------


def against(cell: Cell, cells: Sequence[Cell], reference: str) -> Interval | None:
    """Return the regret of a cell minus the reference's, paired by seed.

    Return None for the reference itself, if the reference has no cell, and with one seed.
    """
    for ours in cells:
        if ours[:3] == (cell.problem, reference, cell.episodes) and ours is not cell:
            n = min(len(cell.regret), len(ours.regret))
            return mean_interval(cell.regret[:n] - ours.regret[:n]) if n > 1 else None
    return None


def standings(cells: Sequence[Cell], reference: str) -> str:
    """Return a table of every agent over the problems of `cells`, smallest loss first.

    Agents that cannot play all of the problems come last.
    """
    n_problems, lines = len({one.problem for one in cells}), []
    for agent in dict.fromkeys(one.agent for one in cells):
        ours = [one for one in cells if one.agent == agent]
        loss = mean_of([np.minimum(100 * one.regret / one.episodes, 100 - LEAST) for one in ours])
        percents = [np.maximum(one.percent, LEAST) for one in ours]
        percent, least = mean_of(percents), min(float(one.mean()) for one in percents)
        found = [interval for one in ours if (interval := against(one, cells, reference))]
        better = sum(interval.low > 0 for interval in found)
        worse = sum(interval.high < 0 for interval in found)
        record = f"{better} / {len(found) - better - worse} / {worse}" if found else "–"
        times = [one.cpu_seconds for one in ours if one.cpu_seconds is not None]
        is_partial = len(ours) < n_problems
        told = TOLD.get(agent.partition(":")[0], "nothing")
        row = [agent, told, str(len(ours)) if is_partial else "all", str(len(ours[0].regret))]
        row += [_pm(loss), _pm(percent), f"{least:.1f}", record]
        row += [f"{np.mean(times):.3g}" if times else "–"]
        row += [f"{np.mean([one.nbytes for one in ours]) / 1e3:,.0f}"]
        lines.append(((is_partial, loss.mean), row))
    better_than = f"{reference} better / level / worse"
    head = ["agent", "told", "problems", "seeds", "loss, %", "final policy, %", "least"]
    head += [better_than, "CPU s", "kB"]
    rows = [head, ["---"] * len(head), *(row for _, row in sorted(lines))]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def summary(cells: Sequence[Cell], reference: str) -> str:
    """Return the standings of each group of problems, for cells of one number of episodes."""
    parts, left = [], list(cells)
    for group, known in (*GROUPS.items(), ("Others", {one.problem for one in cells})):
        if ours := [one for one in left if one.problem in known]:
            parts += [f"### {group}, {ours[0].episodes:,} episodes", standings(ours, reference)]
        left = [one for one in left if one.problem not in known]
    return "\n\n".join(parts)


def markdown(cells: Sequence[Cell], refused: dict[tuple[str, str], str], reference: str) -> str:
    """Return the summaries for all numbers of episodes, and the reasons of empty cells."""
    agents = dict.fromkeys(one.agent for one in cells)
    names = {one.problem for one in cells}
    parts = [
        f"# Leaderboard: {count_noun(len(agents), 'agent')} on {count_noun(len(names), 'problem')}",
        READING,
    ]
    if used := versions_of(agents):
        numbers = ", ".join(f"{name} {number}" for name, number in used.items())
        parts.append(f"Libraries of rivals: {numbers}.")
    for k in dict.fromkeys(one.episodes for one in cells):
        parts.append(summary([one for one in cells if one.episodes == k], reference))
    if refused:
        listed = [f"- {agent} on {name}: {reason}" for (name, agent), reason in refused.items()]
        parts += ["### Not played", "\n".join(listed)]
    return "\n\n".join(parts) + "\n"


def _write(
    folder: Path, cells: Sequence[Cell], refused: dict[tuple[str, str], str], reference: str
) -> None:
    """Write the tables. The CSV has one row per cell, and one with a reason per empty cell."""
    pl = import_frames("polars", "a leaderboard")
    rows: list[dict[str, Any]] = [
        {
            "problem": one.problem,
            "episodes": one.episodes,
            "agent": one.agent,
            "libraries": json.dumps(versions_of([one.agent])),
            "seeds": len(one.regret),
            **_spread("regret", _mean(one.regret)),
            **_spread("percent", _mean(one.percent)),
            "cpu_seconds": one.cpu_seconds,
            "bytes": one.nbytes,
            **_spread(f"regret_minus_{reference}", against(one, cells, reference)),
            "optimum": one.scale.optimum,
            "optimum_error": one.scale.error,
            "random": one.scale.random,
            "reason": None,
        }
        for one in cells
    ]
    rows += [{"problem": p, "agent": a, "reason": reason} for (p, a), reason in refused.items()]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    files.write_atomically(folder / CSV, frame.write_csv().encode())
    files.write_atomically(folder / TABLE, markdown(cells, refused, reference).encode())


def mean_of(problems: Sequence[Floats]) -> Interval:
    """Return the mean over problems of the mean over seeds, with a 95 % interval over the seeds.

    The problems are fixed. With one seed, nothing is known of its error.

    >>> print(mean_of([np.array([1.0, 3.0]), np.array([5.0, 7.0])]))
    4.0 (95% interval 2.6 to 5.4)
    """
    mean = float(np.mean([one.mean() for one in problems]))
    variances = [one.var(ddof=1) / len(one) for one in problems if len(one) > 1]
    half = WIDE * math.sqrt(sum(variances)) / len(problems)
    return Interval(mean, mean - half, mean + half)


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
