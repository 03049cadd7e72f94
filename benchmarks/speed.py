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

from rich.console import Console
from rich.table import Table

from reference import ReferenceQ
from zooming.lab import bench

REFERENCE_SECONDS = 4.0  # time limit of the reference, over all rounds
ROUNDS = 3  # reference and fused driver alternate, so that load on the machine affects both
COLUMNS = ("problem", "K", "reference", "fused", "ratio", "Python", "ratio")
Compared = tuple[bench.Measured, float, tuple[float, float]]  # what `compare` returns


def compare(case: bench.Case) -> Compared:
    """Return what `zooming bench` measures, the time of the reference, and the range of ratios.

    Times are nanoseconds of processor time per step. A ratio is that of one round.
    """
    repeats = range(max(1, min(10, 100_000 // case.episodes)))
    rounds = [(time_reference(case), bench.fastest(case, repeats)[0]) for _ in range(ROUNDS)]
    ratios = [slow / fast for slow, fast in rounds]
    return bench.measure(case), min(slow for slow, _ in rounds), (min(ratios), max(ratios))


def time_reference(case: bench.Case) -> float:
    """Return nanoseconds per step of the reference, over K episodes or until the time limit."""
    n = case.n_ambulances
    step_function = _plain_oil if "Oil" in case.env_id else _plain_ambulance(n)
    agent = ReferenceQ(n, n, 5, lambda t: bench.BONUS / math.sqrt(t))
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
    compared: list[Compared], import_seconds: float, start_seconds: float
) -> list[tuple[str, str, bool]]:
    """Return (target, measurement, whether the target is met) for each target."""
    results = [m for m, _, _ in compared]
    by = {(m.case.name, m.case.episodes): m for m in results}
    found = []
    for m, _, (low, high) in compared:
        if m.case.episodes == 2_000:
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
    """Measure all cases of `zooming bench`, and print the table and the verdicts."""
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
        for case in bench.cases(quick):
            status.update(f"{case.name}, K = {case.episodes:,}")
            m, reference, (low, high) = compare(case)
            results.append((m, reference, (low, high)))
            table.add_row(
                case.name,
                f"{case.episodes:,}",
                f"{reference:,.0f}",
                f"{m.fused:,.0f}",
                f"{low:.0f}-{high:.0f}",
                f"{m.python:,.0f}",
                f"{reference / m.python:.1f}",
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
