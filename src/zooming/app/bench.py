"""Benchmark of speed and memory against a reference in pure Python."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

import zooming
from zooming import kernels
from zooming.app.reference import ReferenceQ

BONUS = 0.1
SPEED = ("problem", "K", "reference", "fused", "ratio", "Python", "ratio")
DETAIL = ("problem", "K", "early", "late", "rows", "balls", "bytes", "reserved")
REFERENCE_SECONDS = 4.0  # time limit of the reference, over all rounds
ROUNDS = 3  # reference and fused loop alternate, so that load on the machine affects both


@dataclass(frozen=True)
class Case:
    """A problem of the benchmark and its number of episodes."""

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

    `early` and `late` are times of the first and the last tenth of the run.
    """

    case: Case
    reference: float  # best of all rounds
    fused: float
    ratios: tuple[float, float]  # smallest and largest ratio of the two within one round
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
    """Measure one case. All times are taken in one go, so that their ratios are comparable."""
    repeats = range(max(1, min(10, 100_000 // case.episodes)))  # short runs: best of ten
    rounds = [
        (_reference(case), *min((_fused(case, k) for k in repeats), key=lambda run: run[0]))
        for _ in range(ROUNDS)
    ]
    ratios = [slow / fast for slow, fast, _ in rounds]
    _, fused, agent = min(rounds, key=lambda one: one[1])
    early, late = (
        min(times) for times in zip(*(_early_and_late(case, seed) for seed in repeats), strict=True)
    )
    python, rows_read = _python_driven(case, agent)
    used, reserved = agent.nbytes / agent.n_balls, agent.table.rows.nbytes / agent.n_balls
    reference = min(slow for slow, _, _ in rounds)
    return Measured(
        case,
        reference,
        fused,
        (min(ratios), max(ratios)),
        early,
        late,
        python,
        rows_read,
        used,
        reserved,
        agent.n_balls,
    )


def _fused(case: Case, seed: int) -> tuple[float, Any]:
    agent = zooming.AdaptiveQ(case.make(), bonus=BONUS, seed=seed)
    return _learn(agent, case.episodes), agent


def _early_and_late(case: Case, seed: int) -> tuple[float, float]:
    agent = zooming.AdaptiveQ(case.make(), bonus=BONUS, seed=seed)
    tenth = max(case.episodes // 10, 1)
    early = _learn(agent, tenth)
    agent.learn(case.episodes - 2 * tenth)
    return early, _learn(agent, tenth)


def _learn(agent: Any, episodes: int) -> float:
    """Return the nanoseconds per step of one learn()."""
    began = time.process_time()
    agent.learn(episodes)
    return (time.process_time() - began) / episodes / int(agent.horizon) * 1e9


def _python_driven(case: Case, agent: Any) -> tuple[float, float]:
    """Return nanoseconds of act + update per step after training, and rows read per selection."""
    env = case.make()
    transitions = []
    for episode in range(400):
        observation, _ = env.reset(seed=episode)
        for step in range(agent.horizon):
            action = agent.act(step, observation)
            after, reward, terminated, _, _ = env.step(action)
            transitions.append((step, observation, action, float(reward), after, bool(terminated)))
            observation = after
    stack, axes, table = kernels.new_stack(agent.table.core), agent.axes.table, agent.table
    rows_read = [
        kernels.best_ball(table.rows, table.core, axes, t[0], t[1], stack)[1] for t in transitions
    ]
    best = math.inf
    for _ in range(15):
        began = time.process_time()
        for step, observation, action, reward, after, terminated in transitions:
            agent.act(step, observation)
            agent.update(step, observation, action, reward, after, terminated)
        best = min(best, time.process_time() - began)
    return best / len(transitions) * 1e9, float(np.mean(rows_read))


def _reference(case: Case) -> float:
    """Return nanoseconds per step of the reference, over K episodes or until the time limit."""
    n = case.n_ambulances
    step_function = _plain_oil if "Oil" in case.env_id else _plain_ambulance(n)
    agent = ReferenceQ(n, n, 5, lambda t: BONUS / math.sqrt(t))
    began, done = time.process_time(), 0
    while done < case.episodes and time.process_time() - began < REFERENCE_SECONDS / ROUNDS:
        agent.learn(chunk := min(50, case.episodes - done), [0.5] * n, step_function)
        done += chunk
    return (time.process_time() - began) / done / 5 * 1e9


def _plain_oil(step: int, state: list[float], action: list[float]) -> tuple[list[float], float]:
    return action, min(1.0, max(0.0, math.exp(-abs(action[0] - 0.75)) - abs(state[0] - action[0])))


def _plain_ambulance(n: int) -> Callable[..., tuple[list[float], float]]:
    source = random.Random(0)

    def step_function(
        step: int, state: list[float], action: list[float]
    ) -> tuple[list[float], float]:
        call = source.betavariate(5, 2)
        nearest = min(range(n), key=lambda i: abs(call - action[i]))
        way = sum(abs(x - a) for x, a in zip(state, action, strict=True)) / n
        after = list(action)
        after[nearest] = call
        return after, 1 - (0.25 * way + 0.75 * abs(call - action[nearest]))

    return step_function


def startup() -> tuple[float, float]:
    """Return seconds of `import zooming`, and from there to the end of learn(1), warm cache."""
    program = (
        "import time; a = time.perf_counter(); import zooming; b = time.perf_counter(); import "
        "gymnasium as gym\n"
        "zooming.AdaptiveQ(gym.make('zooming/Oil-v0'), seed=0).learn(1); print(b - a, "
        "time.perf_counter() - b)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    times = [tuple(map(float, run.stdout.split())) for run in runs]
    return min(t[0] for t in times), min(t[1] for t in times)


def verdicts(
    results: list[Measured], import_seconds: float, start_seconds: float
) -> list[tuple[str, str, bool]]:
    """Return (target, measurement, whether the target is met) for each target."""
    by = {(m.case.name, m.case.episodes): m for m in results}
    found = []
    for m in results:
        if m.case.episodes == 2_000:
            low, high = m.ratios
            found.append(
                (
                    f"fused at least 100 times the reference: {m.case.name}, K = 2,000",
                    f"{low:.0f} to {high:.0f} times",
                    low >= 100,
                )
            )
    python = {
        n: max(m.python for m in results if m.case.n_ambulances == n)
        for n in {m.case.n_ambulances for m in results}
    }
    shown = ", ".join(f"{time / 1e3:.2f} us in {2 * n}-D" for n, time in sorted(python.items()))
    found.append(
        (
            "Python-driven agent at most 3 us a step",
            f"at most {shown}",
            max(python.values()) <= 3_000,
        )
    )
    for name in dict.fromkeys(m.case.name for m in results):
        long = by.get((name, 1_000_000))
        if long:
            start = by[(name, 20_000)].fused  # mean over 20,000 episodes, as an estimate at 10,000
            growth = long.late / start
            found.append(
                (
                    f"a step at K = 1,000,000 at most twice one at 10,000: {name}",
                    f"{growth:.2f} times",
                    growth <= 2,
                )
            )
    for m in results:
        if m.case.n_ambulances == 2:
            found.append(
                (
                    "at most 1.5 us a step in 4-D",
                    f"{m.late / 1e3:.2f} us late in K = {m.case.episodes:,}",
                    m.late <= 1_500,
                )
            )
    most = max(m.bytes_per_ball for m in results)
    found.append(
        ("at most 64 bytes per active ball, table rows included", f"{most:.1f} bytes", most <= 64)
    )
    found.append(("import under 0.6 s", f"{import_seconds:.2f} s", import_seconds < 0.6))
    found.append(
        (
            "training within 1 s of the import, compiled before",
            f"{start_seconds:.2f} s",
            start_seconds < 1.0,
        )
    )
    return found


def main(quick: bool = False) -> None:
    """Measure speed and memory, and compare them with a pure-Python reference.

    Absolute times depend on the machine and its load. Compare the ratios.

    Args:
        quick: leave out the runs of a million episodes, and shorten some of the others.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console()
    speed, detail = (
        Table(title=title, title_justify="left", box=None, padding=(0, 1))
        for title in ("nanoseconds of processor time per step", "the same runs in detail")
    )
    for table, columns in ((speed, SPEED), (detail, DETAIL)):
        for column in columns:
            table.add_column(
                column, justify="left" if column == "problem" else "right", no_wrap=True
            )
    results = []
    with console.status("compiling") as status:
        zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(1)
        for case in cases(quick):
            status.update(f"{case.name}, K = {case.episodes:,}")
            m = measure(case)
            results.append(m)
            named = case.name, f"{case.episodes:,}"
            low, high = m.ratios
            ratios = f"{low:.0f}-{high:.0f}", f"{m.reference / m.python:.1f}"
            speed.add_row(
                *named,
                f"{m.reference:,.0f}",
                f"{m.fused:,.0f}",
                ratios[0],
                f"{m.python:,.0f}",
                ratios[1],
            )
            memory = f"{m.n_balls:,}", f"{m.bytes_per_ball:.1f}", f"{m.reserved:.0f}"
            detail.add_row(
                *named, f"{m.early:,.0f}", f"{m.late:,.0f}", f"{m.rows_read:.1f}", *memory
            )
        status.update("startup")
        seconds = startup()
    console.print("zooming bench: AdaptiveQ, bonus 0.1, horizon 5", speed, detail)
    console.print(
        f"reference and fused: the best of {ROUNDS} rounds in turn, and the range of their ratio "
        "in one round; "
        f"reference: plain Python, K episodes or {REFERENCE_SECONDS / ROUNDS:.1f} s a round (it "
        "gets slower as balls split, so "
        "its ratio is understated where K is large); "
        "Python: agent time, act and update, driven from Python; early, late: the first and the "
        "last tenth of the run; "
        "rows: read per selection; bytes: per ball; reserved: the same with the free rows of a "
        "growing table"
    )
    for asked, measured, met in verdicts(results, *seconds):
        console.print(f"{'[green]met   [/]' if met else '[red]missed[/]'}  {asked}: {measured}")
