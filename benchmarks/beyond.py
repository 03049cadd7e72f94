"""Measure `Auto` beyond its usual problems: where it gets stuck, control, six axes, long runs.

Run `python benchmarks/beyond.py`, or with `--parts stuck control` for some parts. Results are kept
in the file `--out` after each run, and the same command continues. Nothing is set per problem, but
the bounds of CartPole's speeds, which describe it. The parts:

- stuck: 16 needles and 16 pairs of peaks at random places. A run is stuck if its last tenth loses
  more than 0.1 an episode against the optimum. For each stuck run one line says why. `--first 400`
  draws other places: those at which stuck runs were looked at flatter the agent.
- control: four problems of Gymnasium with action repeat; returns of the greedy policy.
- six: three state and three action axes, against `AdaptiveQ`.
- long: 2,000,000 episodes, which are 10,000,000 steps, in one run.
- change: the peak of the oil problem moves after half of the episodes, against `AdaptiveQ`.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import zooming
from beyond_problems import (
    CHANGES,
    CONTROL,
    HORIZON,
    NEW,
    SIX,
    Peaked,
    make_changing,
    make_control,
    make_six,
    needle,
    oil_value,
    two_peaks,
)
from stores import Store

AGENTS = ("Auto", "AdaptiveQ")
N_PEAKED, STUCK, LATE = 16, 0.1, 0.1  # runs of each kind, loss an episode, share of the episodes
PEAKED = {"needle": needle, "two peaks": two_peaks}
NEAR = 0.02  # a sample so near to a peak has at least a third of its height
CONTROL_STEPS, EVALUATIONS = (10_000, 40_000, 160_000), 50
LONG = (10_000, 100_000, 1_000_000, 2_000_000)
WINDOW, RECOVERED = 100, 0.9  # episodes, and share of V* - random, by which a run has recovered
ANY = (-1e9, 1e9)
RESOLUTION = 200  # of V* where it has no closed form


def random_value(env: Any, episodes: int = 5000, **options: Any) -> float:
    """Return the mean return of random actions."""
    agent = zooming.Random(env, reward_range=ANY, seed=12345, **options)
    return float(agent.learn(episodes).returns.mean())


# --- stuck runs -----------------------------------------------------------------------------------


def run_peaked(kind: str, seed: int, episodes: int) -> dict[str, Any]:
    """Return the loss of the last tenth of the episodes, and what explains it."""
    problem = PEAKED[kind](seed)
    agent = zooming.Auto(problem.env, seed=seed)
    returns = agent.learn(episodes).returns
    late = float(problem.best - returns[-int(LATE * episodes) :].mean())
    return {"loss": late, "peak": problem.peak, "why": explain(agent, problem)}


def explain(agent: Any, problem: Peaked) -> str:
    """Return who plays, what was tried near the peak, and what the policy loses."""
    table = agent.planner.table
    samples, units = table.samples, table.units[1]
    n, where = table.n_samples, int(problem.peak * units)
    away = np.abs(samples.places[:n, 1].astype(np.int64) - where) / units
    n_near = int(samples.numbers[:n, 0][away < NEAR].sum())
    far = float(table.core["far"][0])
    policy = problem.best - zooming.evaluate(agent, problem.env, 2).mean
    found = agent.status()
    return (
        f"plays: {found['plays']}; actions within {NEAR} of the peak: {n_near:,}, nearest "
        f"{away.min():.4f}; exploring goes beyond {far:.3f}; the policy ({found['recommended']}) "
        f"loses {policy:.3f}"
    )


def stuck(store: Store, episodes: list[int], seeds: range) -> None:
    print("\nStuck runs | episodes | stuck of | median loss | largest loss | CPU s a run")
    for kind in PEAKED:
        for k in episodes:
            rows = [
                store.get(f"stuck/{kind}/{k}/{seed}", run_peaked, kind, seed, k) for seed in seeds
            ]
            loss = np.array([row["loss"] for row in rows])
            seconds = np.mean([row["seconds"] for row in rows])
            print(
                f"{kind} | {k:,} | {(loss > STUCK).sum()} of {len(rows)} | {np.median(loss):.3f} | "
                f"{loss.max():.2f} | {seconds:.1f}"
            )
            for seed, row in zip(seeds, rows, strict=True):
                if row["loss"] > STUCK:
                    peak = f"{row['peak']:.3f}"
                    print(f"    seed {seed}, peak at {peak}: loses {row['loss']:.2f}; {row['why']}")


# --- control --------------------------------------------------------------------------------------


def run_control(name: str, seed: int) -> dict[str, Any]:
    """Return the greedy policy's return after each number of environment steps."""
    env, task = make_control(name), CONTROL[name]
    agent = zooming.Auto(env, horizon=task.horizon, bounds=task.bounds, seed=seed)
    found: dict[str, Any] = {"returns": {}, "cpu": {}}
    began = time.process_time()
    for n_steps in CONTROL_STEPS:
        while env.n_steps < n_steps:
            agent.learn(5)
        found["cpu"][str(n_steps)] = time.process_time() - began
        value = zooming.evaluate(agent, make_control(name), EVALUATIONS, seed=99).mean
        found["returns"][str(n_steps)] = value
    return {**found, "plays": agent.status()["plays"]}


def random_control(name: str) -> dict[str, Any]:
    task = CONTROL[name]
    options = {"horizon": task.horizon, "bounds": task.bounds}
    return {"value": random_value(make_control(name), 200, **options)}


def control(store: Store, seeds: int) -> None:
    print("\nControl | repeat, horizon | random | after steps: mean (worst) return; CPU s | plays")
    for name, task in CONTROL.items():
        random = store.get(f"control/{name}/random", random_control, name)["value"]
        rows = [
            store.get(f"control/{name}/{seed}", run_control, name, seed) for seed in range(seeds)
        ]
        cells = []
        for n_steps in map(str, CONTROL_STEPS):
            values = [row["returns"][n_steps] for row in rows]
            cpu = np.mean([row["cpu"][n_steps] for row in rows])
            cells.append(
                f"{int(n_steps):,}: {np.mean(values):.1f} ({min(values):.1f}); {cpu:.0f} s"
            )
        players = ", ".join(sorted({row["plays"] for row in rows}))
        print(
            f"{name} | {task.repeat}, {task.horizon} | {random:.1f} | {' | '.join(cells)} | "
            f"{players}"
        )


# --- six axes -------------------------------------------------------------------------------------


def run_six(name: str, agent: str, seed: int, episodes: int) -> dict[str, Any]:
    """Return the value of the final policy, and the sum of all returns."""
    env = make_six(name)
    learner = getattr(zooming, agent)(env, seed=seed)
    returns = learner.learn(episodes).returns
    value = zooming.evaluate(learner, make_six(name), 100, seed=99).mean
    return {"value": value, "sum": float(returns.sum()), "bytes": learner.nbytes}


def random_six(name: str) -> dict[str, Any]:
    return {"value": random_value(make_six(name))}


def six(store: Store, episodes: list[int], seeds: int) -> None:
    print("\nSix axes | agent | episodes | % of V* - random, mean (worst) | regret | CPU s | MB")
    for name, problem in SIX.items():
        random = store.get(f"six/{name}/random", random_six, name)["value"]
        gain = problem.best - random
        for agent in AGENTS:
            for k in episodes:
                rows = [
                    store.get(f"six/{name}/{agent}/{k}/{seed}", run_six, name, agent, seed, k)
                    for seed in range(seeds)
                ]
                share = [100 * (row["value"] - random) / gain for row in rows]
                regret = np.mean([(k * problem.best - row["sum"]) / gain for row in rows])
                seconds = np.mean([row["seconds"] for row in rows])
                size = max(row["bytes"] for row in rows) / 1e6
                print(
                    f"{name} | {agent} | {k:,} | {np.mean(share):.1f} ({min(share):.1f}) | "
                    f"{regret:,.0f} | {seconds:.1f} | {size:.1f}"
                )


# --- long runs ------------------------------------------------------------------------------------


def run_long(noise: float, most: int) -> dict[str, Any]:
    """Return time, memory and late loss at each number of episodes."""
    center, rows = 0.7071, []
    env = gym.make("zooming/Oil-v0", sharpness=10.0, center=center, noise=noise)
    best = zooming.solve(env, RESOLUTION).return_ if noise else oil_value(center - 0.5)
    zooming.Auto(env, seed=0).learn(20)  # compile
    agent, done = zooming.Auto(env, seed=0), 0
    at_first, began = _most_memory(), time.process_time()
    for k in (k for k in LONG if k <= most):
        returns = agent.learn(k - done).returns
        late = returns[-int(LATE * k) :]
        done = k
        rows.append(
            {
                "episodes": k,
                "cpu": time.process_time() - began,
                "bytes": agent.nbytes,
                "memory": _most_memory() - at_first,
                "loss": float(best - late.mean()),
                "samples": agent.planner.table.n_samples,
            }
        )
    return {"rows": rows}


def _most_memory() -> int:
    """Return the largest resident memory of the process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def long(store: Store, most: int) -> None:
    print(
        "\nLong runs, noise | episodes | steps | CPU s | us a step | agent MB | process MB beyond "
        "the start | late loss an episode | rows of samples"
    )
    for noise in (0.0, 0.1):
        for row in store.get(f"long/{noise}/{most}", run_long, noise, most)["rows"]:
            steps = HORIZON * row["episodes"]
            print(
                f"{noise} | {row['episodes']:,} | {steps:,} | {row['cpu']:.0f} | "
                f"{1e6 * row['cpu'] / steps:.1f} | {row['bytes'] / 1e6:.0f} | "
                f"{row['memory'] / 1e6:.0f} | {row['loss']:.4f} | {row['samples']:,}"
            )


# --- a law that changes ---------------------------------------------------------------------------


def bounds_of(name: str) -> dict[str, Any]:
    """Return (random, optimal) value before and after the change."""
    env = make_changing(name, 1)
    return {
        key: (random_value(one), zooming.solve(one, RESOLUTION).return_)
        for key, one in (("before", env.before), ("after", env.after))
    }


def run_change(name: str, agent: str, seed: int, episodes: int, bounds: Any) -> dict[str, Any]:
    """Return when the run has recovered (None: not at all), and the value of its last episodes."""
    half = episodes // 2
    learner = getattr(zooming, agent)(make_changing(name, half), horizon=HORIZON, seed=seed)
    returns = learner.learn(episodes).returns
    (low, high), (new_low, new_high) = bounds["before"], bounds["after"]
    share = (returns[half:] - new_low) / (new_high - new_low)
    means = np.convolve(share, np.full(WINDOW, 1 / WINDOW), "valid")
    good = np.flatnonzero(means >= RECOVERED)
    return {
        "after": int(good[0]) + WINDOW if len(good) else None,
        "before": float((returns[half - WINDOW : half].mean() - low) / (high - low)),
        "end": float(share[-int(LATE * episodes) :].mean()),
        "regret": float((1.0 - share).sum()),
    }


def change(store: Store, episodes: list[int], seeds: int) -> None:
    print(
        f"\nChange to a peak at {NEW} | agent | episodes | % before | episodes until "
        f"{RECOVERED:.0%} again | % of the last tenth, mean (worst) | regret after the change"
    )
    for name in CHANGES:
        bounds = store.get(f"change/{name}/bounds", bounds_of, name)
        for agent in AGENTS:
            for k in episodes:
                key = f"change/{name}/{agent}/{k}"
                rows = [
                    store.get(f"{key}/{seed}", run_change, name, agent, seed, k, bounds)
                    for seed in range(seeds)
                ]
                when = ", ".join("never" if r["after"] is None else str(r["after"]) for r in rows)
                end = [100 * row["end"] for row in rows]
                before = 100 * np.mean([row["before"] for row in rows])
                regret = np.mean([row["regret"] for row in rows])
                print(
                    f"{name} | {agent} | {k:,} | {before:.1f} | {when} | {np.mean(end):.1f} "
                    f"({min(end):.1f}) | {regret:,.0f}"
                )


def main() -> None:
    parts: dict[str, Callable[[Store], None]] = {
        "stuck": lambda store: stuck(store, options.episodes, places()),
        "control": lambda store: control(store, options.seeds or 3),
        "six": lambda store: six(store, options.episodes, options.seeds or 10),
        "long": lambda store: long(store, options.most),
        "change": lambda store: change(store, options.episodes, options.seeds or 5),
    }

    def places() -> range:
        return range(options.first, options.first + (options.seeds or N_PEAKED))

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--episodes", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--seeds", type=int, help="by default 16 of each kind, 3, 10 and 5")
    parser.add_argument("--first", type=int, default=0, help="seed of the first place of a peak")
    parser.add_argument("--most", type=int, default=LONG[-1], help="episodes of the long runs")
    parser.add_argument("--out", type=Path, default=Path("out/beyond.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of bounds that a state may exceed
    store = Store(options.out)
    for part in options.parts:
        parts[part](store)


if __name__ == "__main__":
    main()
