"""Compare agents with X-armed bandits: episodes of one step without context.

Run `python benchmarks/bandits.py --seeds 20 --rounds 1000 --out out/bandits.json`. Results are kept
in the file after each run, and the same command continues. `--summary` prints what is there.

The functions are those with which PyXAB compares bandits, on its domains, with uniform noise of
half-width 0.1 as in its own script. Regret is the sum of max f - f(x) over all rounds, without the
noise. The table has the mean over seeds, and below the geometric mean of the ratios to VHCT.

Four of the functions have their maximum in the middle of the domain, which flatters agents that
play the middle first. `--cut 0.1` leaves out the last tenth of each axis.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from zooming.agents.files.container import write_atomically
from zooming.lab.study.problems import agents_named

NOISE = 0.1
PYXAB = "pyxab:"
RIVALS = {"VHCT": "VHCT", "HCT": "HCT", "T_HOO": "HOO"}  # classes of PyXAB, and their modules
RIVAL = "pyxab:VHCT"
AGENTS = "auto,adaptive-q,tree-q,pyxab:VHCT,pyxab:HCT,pyxab:T_HOO"


class Function(NamedTuple):
    """A function to maximize on a cube, with its range."""

    f: Callable[[np.ndarray], float]
    dims: int
    low: float
    high: float
    least: float
    most: float


def garland(x: np.ndarray) -> float:
    return float(x[0] * (1 - x[0]) * (4 - math.sqrt(abs(math.sin(60 * x[0])))))


def double_sine(x: np.ndarray) -> float:
    """Return a sine of log |x - 1/2| between two powers of |2 x - 1|."""
    u = 2 * abs(float(x[0]) - 0.5)
    if u == 0:
        return 0.0
    upper, lower = u ** -math.log2(0.3), u ** -math.log2(0.8)
    share = (math.sin(math.pi * math.log2(u)) + 1) / 2
    return share * (lower - upper) - lower


def difficult(x: np.ndarray) -> float:
    """Return -y^2 or -sqrt(y) for y = |x - 1/2|, by turns on a logarithmic scale."""
    y = abs(float(x[0]) - 0.5)
    if y == 0:
        return 0.0
    return -(y**2) if math.log(y) % 1.0 >= 0.5 else -math.sqrt(y)


def logarithmic(x: np.ndarray) -> float:
    """Return 1 + 1 / log x, which is smooth by no power of the distance to 0."""
    return 1.0 if x[0] == 0 else float(1 + 1 / math.log(x[0]))


def himmelblau(x: np.ndarray) -> float:
    return float(-((x[0] ** 2 + x[1] - 11) ** 2) - (x[0] + x[1] ** 2 - 7) ** 2) / 890


def ackley(x: np.ndarray) -> float:
    deep = 20 + math.e - 20 * math.exp(-0.2 * math.sqrt(0.5)) - math.exp(-1)
    hill = 20 * math.exp(-0.2 * math.sqrt(float(np.mean(x**2))))
    return (hill + math.exp(float(np.mean(np.cos(2 * np.pi * x)))) - math.e - 20) / deep


def rastrigin(x: np.ndarray) -> float:
    return float(np.mean(10 * np.cos(2 * np.pi * x) - 10 - x**2)) / 20


FUNCTIONS = {
    "Garland": Function(garland, 1, 0.0, 1.0, 0.0, 4 * math.pi / 6 * (1 - math.pi / 6)),
    "DoubleSine": Function(double_sine, 1, 0.0, 1.0, -1.0, 0.0),
    "DifficultFunc": Function(difficult, 1, 0.0, 1.0, -math.sqrt(0.5), 0.0),
    "Cexample": Function(logarithmic, 1, 0.0, math.exp(-1), 0.0, 1.0),
    "Himmelblau": Function(himmelblau, 2, -5.0, 5.0, -1.0, 0.0),
    "Ackley": Function(ackley, 2, -1.0, 1.0, -0.94, 0.0),
    "Rastrigin": Function(rastrigin, 2, -1.0, 1.0, -1.013, 0.0),
}


class Bandit(gym.Env[Any, Any]):
    """One step without context: the reward is f(action) plus noise. `regret` adds up."""

    def __init__(self, function: Function) -> None:
        self.function, self.regret = function, 0.0
        self.observation_space = gym.spaces.Discrete(1)
        self.action_space = gym.spaces.Box(function.low, function.high, (function.dims,), float)
        self.reward_range = (function.least - NOISE, function.most + NOISE)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.int64(0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        value = self.function.f(np.asarray(action))
        self.regret += self.function.most - value
        reward = value + float(self.np_random.uniform(-NOISE, NOISE))
        return np.int64(0), reward, True, False, {}


def run(name: str, agent: str, rounds: int, seed: int, cut: float = 0.0) -> tuple[float, float]:
    """Return (regret, processor seconds) of one run."""
    function = FUNCTIONS[name]
    high = function.high - cut * (function.high - function.low)
    env = Bandit(function._replace(high=high))
    began = time.process_time()
    if agent.startswith(PYXAB):
        play_rival(env, agent.removeprefix(PYXAB), rounds, seed)
    else:
        agents_named(f"{agent}:horizon=1")[0].make(env, seed, rounds).learn(rounds)
    return env.regret, time.process_time() - began


def play_rival(env: Bandit, name: str, rounds: int, seed: int) -> None:
    """Let a bandit of PyXAB play, with its default settings and rewards scaled to [0, 1]."""
    kind = getattr(importlib.import_module(f"PyXAB.algos.{RIVALS[name]}"), name)
    low, high = env.reward_range
    function = env.function
    given = {"rounds": rounds} if "rounds" in inspect.signature(kind).parameters else {}
    np.random.seed(seed)  # the library draws from the global generator
    bandit = kind(domain=[[function.low, function.high]] * function.dims, **given)
    env.reset(seed=seed)
    for k in range(1, rounds + 1):
        reward = env.step(np.array(bandit.pull(k), float).reshape(-1))[1]
        bandit.receive_reward(k, (reward - low) / (high - low))


def table(results: dict[str, Any], agents: list[str], rounds: int, cut: float = 0.0) -> str:
    """Return the mean regret of each agent on each function, and the ratios to VHCT."""
    lines = [f"{rounds:,} rounds: mean regret, standard error, processor seconds a run"]
    lines.append(f"{'':16}" + "".join(f"{agent:>22}" for agent in agents))
    ratios: dict[str, list[float]] = {agent: [] for agent in agents}
    for name in FUNCTIONS:
        cells = []
        rival = rows_of(results, key_of(name, RIVAL, rounds, cut))
        for agent in agents:
            rows = rows_of(results, key_of(name, agent, rounds, cut))
            if not rows:
                cells.append(f"{'-':>22}")
                continue
            regrets = [row[0] for row in rows]
            error = statistics.stdev(regrets) / math.sqrt(len(rows)) if len(rows) > 1 else 0.0
            seconds = statistics.mean(row[1] for row in rows)
            cells.append(f"{statistics.mean(regrets):9.1f} ±{error:4.1f}{seconds:7.2f}")
            if rival:
                mean = statistics.mean(row[0] for row in rival)
                ratios[agent].append(statistics.mean(regrets) / mean)
        lines.append(f"{name:16}" + "".join(cells))
    means = [
        f"{statistics.geometric_mean(found):.2f} ({max(found):.2f})" if found else "-"
        for found in ratios.values()
    ]
    lines.append(f"{'ratio (largest)':16}" + "".join(f"{text:>22}" for text in means))
    return "\n".join(lines)


def key_of(name: str, agent: str, rounds: int, cut: float) -> str:
    """Return the key of a run without its seed."""
    return f"{name}{f' cut {cut:g}' if cut else ''}/{agent}/{rounds}/"


def rows_of(results: dict[str, Any], start: str) -> list[Any]:
    """Return the runs whose key begins so, one row for each seed."""
    return [row for key, row in results.items() if key.startswith(start)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--functions", nargs="+", default=list(FUNCTIONS), choices=FUNCTIONS)
    parser.add_argument("--agents", default=AGENTS, help="names as in zooming run, and pyxab:NAME")
    parser.add_argument("--cut", type=float, default=0.0, help="share of each axis to leave out")
    parser.add_argument("--summary", action="store_true", help="run nothing, print what is there")
    parser.add_argument("--out", type=Path, default=Path("out/bandits.json"))
    options = parser.parse_args()
    agents = options.agents.split(",")
    os.makedirs(options.out.parent, exist_ok=True)
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in [] if options.summary else options.functions:
        for agent in agents:
            for seed in range(options.seeds):
                key = f"{key_of(name, agent, options.rounds, options.cut)}{seed}"
                if key not in results:
                    results[key] = run(name, agent, options.rounds, seed, options.cut)
                    write_atomically(options.out, json.dumps(results).encode())
        print(name, flush=True)
    print(table(results, agents, options.rounds, options.cut))


if __name__ == "__main__":
    main()
