"""Compare the speed of zooming with the same algorithm in plain Python, and with our targets.

Run `python benchmarks/speed.py [--quick]`, or `make bench`. Absolute times depend on the machine
and its load; compare the ratios.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from reference import ReferenceQ
from zooming.lab import bench

REFERENCE_SECONDS = 4.0  # time limit of the reference, over all rounds
ROUNDS = 3  # reference and fused driver alternate, so that load on the machine affects both
COLUMNS = ("problem", "K", "reference", "fused", "ratio", "Python", "ratio")


@dataclass(frozen=True)
class Compared:
    """The results of one case. Times are nanoseconds of processor time per step."""

    problem: str
    episodes: int
    n_ambulances: int
    fused: float
    late: float  # the last tenth of the fused run
    python: float
    bytes_per_ball: float
    reference: float
    ratios: tuple[float, float]  # of the reference and the fused driver: range over the rounds


def cases(quick: bool) -> list[tuple[str, int, int]]:
    """Return (problem, episodes, ambulances): 2-D problems at several lengths, then 4-D and 6-D."""
    lengths = (2_000, 20_000) if quick else (2_000, 20_000, 1_000_000)
    oil, ambulance, *more = bench.PROBLEMS
    found = [(name, k, 1) for name in (oil, ambulance) for k in lengths]
    return found + [(name, 10_000 if quick else 100_000, n) for n, name in enumerate(more, 2)]


def compare(problem: str, episodes: int, n_ambulances: int) -> Compared:
    """Measure both drivers and the reference on one problem."""
    repeats = range(max(1, min(10, 100_000 // episodes)))  # short runs: best of ten
    fused, late, references, ratios = [], [], [], []
    for _ in range(ROUNDS):
        references.append(time_reference(problem, episodes, n_ambulances))
        runs = [bench.time_fused(problem, episodes, seed) for seed in repeats]
        fused.append(min(run[0] for run in runs))
        late.append(min(run[1] for run in runs))
        ratios.append(references[-1] / fused[-1])
    agent = runs[-1][2]
    return Compared(
        problem,
        episodes,
        n_ambulances,
        min(fused),
        min(late),
        bench.time_python(problem, agent),
        agent.nbytes / agent.n_balls,
        min(references),
        (min(ratios), max(ratios)),
    )


def time_reference(problem: str, episodes: int, n: int) -> float:
    """Return nanoseconds per step of the reference, over K episodes or until the time limit."""
    step_function = _plain_oil if problem.startswith("oil") else _plain_ambulance(n)
    agent = ReferenceQ(n, n, 5, lambda t: bench.BONUS / math.sqrt(t))
    began, done = time.process_time(), 0
    while done < episodes and time.process_time() - began < REFERENCE_SECONDS / ROUNDS:
        agent.learn(chunk := min(50, episodes - done), [0.5] * n, step_function)
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
    results: list[Compared], import_seconds: float, start_seconds: float
) -> list[tuple[str, str, bool]]:
    """Return (target, measurement, whether the target is met) for each target."""
    by = {(m.problem, m.episodes): m for m in results}
    found = []
    for m in results:
        if m.episodes == 2_000:
            low, high = m.ratios
            found.append(
                (
                    f"fused at least 100 times the reference: {m.problem}, K = 2,000",
                    f"{low:.0f} to {high:.0f} times",
                    low >= 100,
                )
            )
    python = {
        n: max(m.python for m in results if m.n_ambulances == n)
        for n in {m.n_ambulances for m in results}
    }
    shown = ", ".join(f"{time / 1e3:.2f} us in {2 * n}-D" for n, time in sorted(python.items()))
    found.append(
        (
            "Python-driven agent at most 3 us a step",
            f"at most {shown}",
            max(python.values()) <= 3_000,
        )
    )
    for name in dict.fromkeys(m.problem for m in results):
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
        if m.n_ambulances == 2:
            found.append(
                (
                    "at most 1.5 us a step in 4-D",
                    f"{m.late / 1e3:.2f} us late in K = {m.episodes:,}",
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
    """Measure all cases, and print the table and the verdicts."""
    console, results = Console(), []
    table = Table(
        title="nanoseconds of processor time per step",
        title_justify="left",
        box=None,
        padding=(0, 1),
    )
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "problem" else "right", no_wrap=True)
    with console.status("compiling") as status:
        for problem, episodes, n_ambulances in cases(quick):
            status.update(f"{problem}, K = {episodes:,}")
            bench.time_fused(problem, 10)
            m = compare(problem, episodes, n_ambulances)
            results.append(m)
            table.add_row(
                problem,
                f"{episodes:,}",
                f"{m.reference:,.0f}",
                f"{m.fused:,.0f}",
                f"{m.ratios[0]:.0f}-{m.ratios[1]:.0f}",
                f"{m.python:,.0f}",
                f"{m.reference / m.python:.1f}",
            )
        status.update("startup")
        seconds = startup()
    console.print("AdaptiveQ, bonus 0.1, horizon 5", table)
    console.print(
        f"reference and fused: {ROUNDS} rounds in turn, and the range of their ratio in one round; "
        f"reference: plain Python, K episodes or {REFERENCE_SECONDS / ROUNDS:.1f} s a round (it "
        "gets slower as balls split, so its ratio is understated where K is large); Python: agent "
        "time, act and update, driven from Python"
    )
    for asked, measured, met in verdicts(results, *seconds):
        console.print(f"{'[green]met   [/]' if met else '[red]missed[/]'}  {asked}: {measured}")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
