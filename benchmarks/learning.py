"""Compare how fast agents learn: percent of the possible gain, regret, and time.

Run `python benchmarks/learning.py --seeds 20 --episodes 500 2000 --out out/learning.json`. Results
are kept in the file after each run, and the same command continues. Problems are those of the
gallery, and the paper's fifteen with the oil's well off the dyadic grid. Agents are `Planner`,
`TreeQ`, `AdaptiveQ`, and the rule that practitioners use, whose numbers are searched by
cross-entropy.

Percent is 100 (V - V_random) / (V* - V_random) of the final policy, on the same 1,000 episodes for
all. Regret is K V* minus the sum of returns, in units of V* - V_random. V* is that of
`zooming.solve`; its error, and that of sampling, may make a percentage exceed 100.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import zooming
from zooming.agents.files import write_atomically

# Each problem of the gallery with the resolution at which it is solved.
GALLERY = {
    "Newsvendor": 200, "Inventory": 30, "Pricing": 200, "Queue": 100, "Admission": 100,
    "Storage": 30, "Autoscaling": 128, "Bidding": 200, "Allocation": 60, "GraphAmbulance": None,
    "RiverSwim": 200, "Regulator": 200,
}  # fmt: skip
WELL = 0.7071  # not the center of a ball
PAPER = {
    **{
        f"oil-{survey}-{sharpness:g}": ("Oil", {"survey": survey, "sharpness": sharpness,
                                                "center": WELL})
        for survey in ("laplace", "quadratic") for sharpness in (1.0, 10.0, 50.0)
    },
    **{
        f"ambulance-{arrivals}-{weight:g}": ("Ambulance", {"arrivals": arrivals,
                                                           "travel_weight": weight})
        for arrivals in ("beta", "uniform", "shifting") for weight in (0.0, 0.25, 1.0)
    },
}  # fmt: skip
AGENTS = ("Planner", "TreeQ", "AdaptiveQ", "rule")
CANDIDATES, ELITE = 8, 3  # of one generation of the search


def make(name: str) -> Any:
    """Make the environment of a problem."""
    if name in GALLERY:
        return gym.make(f"zooming/{name}-v0")
    kind, options = PAPER[name]
    return gym.make(f"zooming/{kind}-v0", **options)


def bounds(name: str) -> tuple[float, float]:
    """Return the optimal value of a problem and that of random actions."""
    env = make(name)
    resolution = GALLERY.get(name, 400)
    random = zooming.Random(make(name), reward_range=(-1e9, 1e9), seed=12345)
    return zooming.solve(env, resolution).return_, float(np.mean(random.learn(5000).returns))


def search_rule(env: Any, episodes: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return the rule found by the cross-entropy method, and the returns of all episodes."""
    rule, rng = env.unwrapped.rule, np.random.default_rng(seed)
    mean = (rule.low + rule.high) / 2
    spread = (rule.high - rule.low) / 2
    n_each = max(1, round(math.sqrt(episodes / 50)))
    returns: list[float] = []
    while len(returns) < episodes:
        found = []
        for _ in range(CANDIDATES):
            numbers = np.clip(mean + spread * rng.standard_normal(len(mean)), rule.low, rule.high)
            n = min(n_each, episodes - len(returns))
            if n:
                tried = rule.with_numbers(numbers)
                played = [play(env, tried, seed, len(returns) + i) for i in range(n)]
                returns += played
                found.append((float(np.mean(played)), numbers))
        found.sort(key=lambda pair: -pair[0])
        best = np.array([numbers for _, numbers in found[:ELITE]])
        mean = best.mean(axis=0)
        spread = np.maximum(0.7 * spread, best.std(axis=0))
    return rule.with_numbers(mean), np.array(returns)


def play(env: Any, policy: Any, seed: int, episode: int) -> float:
    """Return the return of one episode."""
    observation, _ = env.reset(seed=seed if episode == 0 else None)
    total, step, is_over = 0.0, 0, False
    while not is_over:
        observation, reward, ended, cut, _ = env.step(policy.act(step, observation))
        total, step, is_over = total + float(reward), step + 1, ended or cut
    return total


def run(name: str, agent: str, episodes: int, seed: int, best: float, random: float) -> Any:
    """Return (percent, regret, microseconds of processor time a step) of one run."""
    env = make(name)
    horizon = env.unwrapped.horizon
    began = time.process_time()
    if agent == "rule":
        policy, returns = search_rule(env, episodes, seed)
    else:
        getattr(zooming, agent)(make(name), seed=seed).learn(2)  # compile
        began = time.process_time()
        policy = getattr(zooming, agent)(env, seed=seed)
        returns = policy.learn(episodes).returns
    seconds = time.process_time() - began
    value = zooming.evaluate(policy, make(name), 1000, seed=99).mean
    gain = best - random
    regret = (episodes * best - float(returns.sum())) / gain
    return 100 * (value - random) / gain, regret, 1e6 * seconds / (episodes * horizon)


def table(results: dict[str, Any], names: list[str], agents: list[str], episodes: int) -> str:
    """Return the results at one number of episodes: medians over seeds, worst in brackets."""
    lines = [f"{episodes:,} episodes: percent, median (worst); regret, mean; us a step"]
    lines.append(f"{'':22}" + "".join(f"{agent:>28}" for agent in agents))
    means: dict[str, list[Any]] = {agent: [] for agent in agents}
    for name in names:
        cells = []
        for agent in agents:
            prefix = f"{name}/{agent}/{episodes}/"
            rows = [row for key, row in results.items() if key.startswith(prefix)]
            if not rows:
                cells.append(f"{'-':>28}")
                continue
            percents, regrets, times = zip(*rows, strict=True)
            means[agent].append((statistics.mean(percents), max(1.0, statistics.mean(regrets))))
            cells.append(
                f"{statistics.median(percents):9.1f} ({min(percents):5.1f})"
                f"{statistics.mean(regrets):7.0f}{statistics.median(times):6.1f}"
            )
        lines.append(f"{name:22}" + "".join(cells))
    cells = []
    for agent in agents:
        if means[agent]:
            percent, regret = (list(part) for part in zip(*means[agent], strict=True))
            text = f"{statistics.mean(percent):.1f} ({min(percent):.1f})"
            cells.append(f"{text:>17}{statistics.geometric_mean(regret):7.0f}{'':4}")
        else:
            cells.append(f"{'-':>28}")
    lines.append(f"{'mean (least), geometric':22}" + "".join(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--problems", nargs="+", default=[*GALLERY, *PAPER])
    parser.add_argument("--agents", nargs="+", default=list(AGENTS), choices=AGENTS)
    parser.add_argument("--out", type=Path, default=Path("out/learning.json"))
    options = parser.parse_args()
    os.makedirs(options.out.parent, exist_ok=True)
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.problems:
        if name not in results:
            results[name] = bounds(name)
        for episodes in options.episodes:
            for agent in options.agents:
                if agent == "rule" and name in PAPER:
                    continue
                for seed in range(options.seeds):
                    key = f"{name}/{agent}/{episodes}/{seed}"
                    if key not in results:
                        results[key] = run(name, agent, episodes, seed, *results[name])
                        write_atomically(options.out, json.dumps(results).encode())
        print(name, flush=True)
    for group in (GALLERY, PAPER):
        names = [name for name in options.problems if name in group]
        for episodes in options.episodes if names else []:
            print(f"\n{table(results, names, options.agents, episodes)}")


if __name__ == "__main__":
    main()
