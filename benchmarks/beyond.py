"""Measure `Auto` beyond its usual problems: where it gets stuck, long runs, change.

Run `python benchmarks/beyond.py`, or with `--parts stuck change` for some parts. Results are kept
in the file `--out` after each run, and the same command continues. Nothing is set per problem.
The parts:

- stuck: 16 needles and 16 pairs of peaks at random places. A run is stuck if its last tenth loses
  more than 0.1 an episode against the optimum. For each stuck run one line says why. `--first 400`
  draws other places: those at which stuck runs were looked at flatter the agent.
- long: 2,000,000 episodes, which are 10,000,000 steps, in one run.
- change: the peak of the oil problem moves after half of the episodes, against `AdaptiveQ`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import zooming
from zooming.agents.files.container import write_atomically

HORIZON = 5
NEEDLE, TWIN = 50.0, 30.0  # sharpness of a needle, and of each of two peaks
LOWER = 0.6  # height of the lower peak
APART = 0.25  # least distance of two peaks
AGENTS = ("Auto", "AdaptiveQ")
N_PEAKED, STUCK, LATE = 16, 0.1, 0.1  # runs of each kind, loss an episode, share of the episodes
NEAR = 0.02  # a sample so near to a peak has at least a third of its height
LONG = (10_000, 100_000, 1_000_000, 2_000_000)
WINDOW, RECOVERED = 100, 0.9  # episodes, and share of V* - random, by which a run has recovered
ANY = (-1e9, 1e9)
RESOLUTION = 200  # of V* where it has no closed form


# --- results --------------------------------------------------------------------------------------


class Store:
    """Results by key in a file of JSON; what is there is not measured again."""

    def __init__(self, path: Path) -> None:
        os.makedirs(path.parent, exist_ok=True)
        self.path = path
        self.results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str, measure: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a key, measured and kept if it is not there."""
        if key not in self.results:
            began = time.process_time()
            found = measure(*arguments)
            self.results[key] = {**found, "seconds": time.process_time() - began}
            write_atomically(self.path, json.dumps(self.results).encode())
        return self.results[key]


# --- problems -------------------------------------------------------------------------------------


class Peaked(NamedTuple):
    """A problem with a narrow peak, the place of the peak, and the optimal value."""

    env: Any
    peak: float
    best: float


def needle(seed: int) -> Peaked:
    """Return the oil problem with a sharp peak at a random place."""
    peak = float(np.random.default_rng(seed).uniform())
    env = gym.make("zooming/Oil-v0", sharpness=NEEDLE, center=peak, horizon=HORIZON)
    return Peaked(env, peak, oil_value(abs(0.5 - peak)))


def two_peaks(seed: int) -> Peaked:
    """Return the oil problem with a high and a lower peak at random places."""
    rng = np.random.default_rng(seed)
    high, low = rng.uniform(size=2)
    while abs(high - low) < APART:
        high, low = rng.uniform(size=2)
    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    env = zooming.compiled_env(
        twin_oil, box, box, HORIZON, start=0.5, params=[high, low], reward_range=(0.0, 1.0),
        name="two peaks",
    )  # fmt: skip
    return Peaked(env, float(high), oil_value(abs(0.5 - high)))


def twin_oil(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Write the next state and return the reward: the higher of two peaks, minus the way."""
    next_state[0] = action[0]
    found = max(
        math.exp(-TWIN * abs(action[0] - params[0])),
        LOWER * math.exp(-TWIN * abs(action[0] - params[1])),
    )
    return max(0.0, found - abs(state[0] - action[0]))


def oil_value(way: float) -> float:
    """Return the optimal value of the oil problem at this distance from the start to the peak."""
    return HORIZON - way


PEAKED = {"needle": needle, "two peaks": two_peaks}


class Changing(gym.Env[Any, Any]):
    """An environment until `last` episodes have begun, another one from then on."""

    def __init__(self, before: Any, after: Any, last: int) -> None:
        self.before, self.after, self.last, self.n_begun = before, after, last, 0
        self.observation_space, self.action_space = before.observation_space, before.action_space
        self.reward_range = before.unwrapped.reward_range
        self.now = before

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.after.reset(seed=seed)
        self.n_begun += 1
        self.now = self.before if self.n_begun <= self.last else self.after
        found: tuple[Any, dict[str, Any]] = self.now.reset(seed=seed)
        return found

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        found: tuple[Any, float, bool, bool, dict[str, Any]] = self.now.step(action)
        return found


OLD, NEW = 0.7071, 0.23  # the peak before and after the change
CHANGES = {"oil-laplace-10": {}, "oil-laplace-10, noise 0.1": {"noise": 0.1}}


def make_changing(name: str, last: int) -> Changing:
    """Return an oil problem of `CHANGES` whose peak moves after `last` episodes."""
    make = [
        gym.make("zooming/Oil-v0", sharpness=10.0, center=peak, **CHANGES[name])
        for peak in (OLD, NEW)
    ]
    return Changing(*make, last)


def random_value(env: Any) -> float:
    """Return the mean return of random actions."""
    agent = zooming.Random(env, reward_range=ANY, seed=12345)
    return float(agent.learn(5000).returns.mean())


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
        "long": lambda store: long(store, options.most),
        "change": lambda store: change(store, options.episodes, options.seeds or 5),
    }

    def places() -> range:
        return range(options.first, options.first + (options.seeds or N_PEAKED))

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--episodes", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--seeds", type=int, help="by default 16 of each kind, and 5")
    parser.add_argument("--first", type=int, default=0, help="seed of the first place of a peak")
    parser.add_argument("--most", type=int, default=LONG[-1], help="episodes of the long runs")
    parser.add_argument("--out", type=Path, default=Path("out/beyond.json"))
    options = parser.parse_args()
    store = Store(options.out)
    for part in options.parts:
        parts[part](store)


if __name__ == "__main__":
    main()
