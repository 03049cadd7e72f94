"""Measure speed and memory of both drivers: short and long runs, two to six dimensions."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from zooming.agents.tables.adaptive_q import AdaptiveQ

BONUS = 0.1


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
    """The results of one case. Times are nanoseconds of processor time per step."""

    case: Case
    fused: float
    late: float  # the last tenth of the fused run
    python: float
    bytes_per_ball: float
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
    fused, late, agent = fastest(case, repeats)
    used = agent.nbytes / agent.n_balls
    return Measured(case, fused, late, _python_driven(case, agent), used, agent.n_balls)


def fastest(case: Case, seeds: Iterable[int]) -> tuple[float, float, Any]:
    """Run the fused driver with each seed.

    Return nanoseconds per step of the fastest run and of the fastest last tenth, and an agent.
    """
    whole, late, tenth = math.inf, math.inf, max(case.episodes // 10, 1)
    for seed in seeds:
        agent = AdaptiveQ(case.make(), bonus=BONUS, seed=seed)
        began = time.process_time()
        agent.learn(case.episodes - tenth)
        middle = time.process_time()
        agent.learn(tenth)
        ended = time.process_time()
        whole = min(whole, (ended - began) / case.episodes / agent.horizon * 1e9)
        late = min(late, (ended - middle) / tenth / agent.horizon * 1e9)
    return whole, late, agent


def _python_driven(case: Case, agent: Any) -> float:
    """Return nanoseconds of agent time per step, driven from Python."""
    env, transitions = case.make(), []
    for episode in range(400):
        observation, _ = env.reset(seed=episode)
        for step in range(agent.horizon):
            action = agent.act(step, observation)
            after, reward, terminated, _, _ = env.step(action)
            transitions.append((step, observation, action, float(reward), after, bool(terminated)))
            observation = after
    best = math.inf
    for _ in range(15):
        began = time.process_time()
        for step, observation, action, reward, after, terminated in transitions:
            if step == 0:
                action = agent.start(observation)
            agent.step_on(step, observation, action, reward, after, terminated, False)
        best = min(best, time.process_time() - began)
    return best / len(transitions) * 1e9


def main(quick: bool = False) -> None:
    """Measure speed and memory of both drivers.

    Absolute times depend on the machine and its load. Compare the ratios.

    Args:
        quick: leave out the runs of a million episodes, and shorten some of the others.
    """
    from zooming.lab.study.run_command import make_table, wide_console

    AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(1)  # compiles
    console = wide_console()
    table = make_table(
        "AdaptiveQ, bonus 0.1, horizon 5: nanoseconds of processor time per step",
        ["problem"], "K", "fused", "late", "Python", "ratio", "balls", "bytes",
    )  # fmt: skip
    for case in cases(quick):
        m = measure(case)
        table.add_row(
            case.name,
            f"{case.episodes:,}",
            f"{m.fused:,.0f}",
            f"{m.late:,.0f}",
            f"{m.python:,.0f}",
            f"{m.python / m.fused:.1f}",
            f"{m.n_balls:,}",
            f"{m.bytes_per_ball:.1f}",
        )
    console.print(table)
    console.print(
        "fused: the compiled driver, environment included; late: its last tenth; Python: agent "
        "time of act and update, driven from Python; ratio: Python / fused; bytes: per ball"
    )
