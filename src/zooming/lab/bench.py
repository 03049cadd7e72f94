"""Measure speed and memory: both drivers, short and long runs, two to six dimensions."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.agents.tables.adaptive_q import AdaptiveQ
from zooming.agents.training import drivers as stepping
from zooming.kernels.boxes import play as box_queries

BONUS = 0.1
COLUMNS = (
    "problem", "K", "fused", "Python", "ratio", "early", "late", "rows", "balls", "bytes",
    "reserved",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One case of the benchmark: a problem and a number of episodes."""

    name: str
    env_id: str
    options: dict[str, Any]
    episodes: int
    n_ambulances: int = 1

    def make(self) -> gym.Env[Any, Any]:
        return gym.make(self.env_id, **self.options)


@dataclass(frozen=True)
class Measured:
    """The results of one case. Times are nanoseconds of processor time per step.

    `early` and `late` are the times of the first and the last tenth of the run.
    """

    case: Case
    fused: float
    early: float
    late: float
    python: float
    rows_read: float
    bytes_per_ball: float  # of rows in use
    reserved: float  # bytes per ball, free rows of the table included
    n_balls: int


def cases(quick: bool) -> list[Case]:
    """Return the cases: 2-D problems at several lengths, then two and three ambulances."""
    oil = ("zooming/Oil-v0", {"survey": "laplace", "sharpness": 1.0})
    beta = ("zooming/Ambulance-v0", {"arrivals": "beta", "travel_weight": 0.25})
    lengths = (2_000, 20_000) if quick else (2_000, 20_000, 1_000_000)
    found = [
        Case(name, *env, k)
        for name, env in (("oil laplace 1", oil), ("ambulance beta .25", beta))
        for k in lengths
    ]
    for n in (2, 3):
        options = {**beta[1], "n_ambulances": n}
        found.append(
            Case(f"{n} ambulances ({2 * n}-D)", beta[0], options, 10_000 if quick else 100_000, n)
        )
    return found


def measure(case: Case) -> Measured:
    """Measure all times of one case, one right after the other, so that ratios are comparable."""
    repeats = range(max(1, min(10, 100_000 // case.episodes)))  # short runs: best of ten
    fused, agent = fastest(case, repeats)
    early, late = (
        min(times) for times in zip(*(_early_and_late(case, seed) for seed in repeats), strict=True)
    )
    python, rows_read = _python_driven(case, agent)
    used, reserved = agent.nbytes / agent.n_balls, agent.table.rows.nbytes / agent.n_balls
    return Measured(case, fused, early, late, python, rows_read, used, reserved, agent.n_balls)


def fastest(case: Case, seeds: Iterable[int]) -> tuple[float, Any]:
    """Run the fused driver with each seed. Return nanoseconds per step and agent of the fastest."""
    runs = []
    for seed in seeds:
        agent = AdaptiveQ(case.make(), bonus=BONUS, seed=seed)
        runs.append((_learn(agent, case.episodes), agent))
    return min(runs, key=lambda run: run[0])


def _early_and_late(case: Case, seed: int) -> tuple[float, float]:
    agent = AdaptiveQ(case.make(), bonus=BONUS, seed=seed)
    tenth = max(case.episodes // 10, 1)
    early = _learn(agent, tenth)
    agent.learn(case.episodes - 2 * tenth)
    return early, _learn(agent, tenth)


def _learn(agent: Any, episodes: int) -> float:
    """Call learn() and return the nanoseconds per step."""
    began = time.process_time()
    agent.learn(episodes)
    return (time.process_time() - began) / episodes / int(agent.horizon) * 1e9


def _python_driven(case: Case, agent: Any) -> tuple[float, float]:
    """Return (nanoseconds of agent time per step, rows read per selection) of the Python driver."""
    env = case.make()
    transitions = []
    for episode in range(400):
        observation, _ = env.reset(seed=episode)
        for step in range(agent.horizon):
            action = agent.act(step, observation)
            after, reward, terminated, _, _ = env.step(action)
            transitions.append((step, observation, action, float(reward), after, bool(terminated)))
            observation = after
    rows_read = [box_queries.QUERIES.n_read(agent.table.handle, t[0], t[1]) for t in transitions]
    best = math.inf
    for _ in range(15):
        began = time.process_time()
        for step, observation, action, reward, after, terminated in transitions:
            if step == 0:
                action = stepping.start(agent, observation)
            stepping.step_on(
                agent, step, observation, action, reward, after, terminated, False
            )  # fmt: skip
        best = min(best, time.process_time() - began)
    return best / len(transitions) * 1e9, float(np.mean(rows_read))


def main(quick: bool = False) -> None:
    """Measure speed and memory of both drivers.

    Absolute times depend on the machine and its load. Compare the ratios.

    Args:
        quick: leave out the runs of a million episodes, and shorten some of the others.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(
        title="nanoseconds of processor time per step",
        title_justify="left",
        box=None,
        padding=(0, 1),
    )
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "problem" else "right", no_wrap=True)
    with console.status("compiling") as status:
        AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(1)
        for case in cases(quick):
            status.update(f"{case.name}, K = {case.episodes:,}")
            m = measure(case)
            table.add_row(
                case.name,
                f"{case.episodes:,}",
                f"{m.fused:,.0f}",
                f"{m.python:,.0f}",
                f"{m.python / m.fused:.1f}",
                f"{m.early:,.0f}",
                f"{m.late:,.0f}",
                f"{m.rows_read:.1f}",
                f"{m.n_balls:,}",
                f"{m.bytes_per_ball:.1f}",
                f"{m.reserved:.0f}",
            )
    console.print("zooming bench: AdaptiveQ, bonus 0.1, horizon 5", table)
    console.print(
        "fused: the compiled driver, environment included; Python: agent time of act and update, "
        "driven from Python; ratio: Python / fused; early, late: the first and the last tenth of "
        "the fused run; rows: read per selection; bytes: per ball; reserved: the same with the "
        "free rows of a growing table"
    )
