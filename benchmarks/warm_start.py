"""What a warm start costs and earns: the first episodes after it, against the rule.

    python benchmarks/warm_start.py [--seeds 20] [--episodes 500] [--only Queue,reservoir]

One line per problem and agent: the rule's value, and relative to it the mean over the first
`episodes` episodes after a warm start of 200 (mean over seeds with its standard error, worst seed),
the share of episodes that the agent played itself, and how often the rule was let go. Episodes of
the rule have its value by definition, so only the agent's own returns are compared with it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

import zooming

GALLERY = (
    "Newsvendor", "Pricing", "Queue", "Inventory",
    "Storage", "Autoscaling", "Bidding", "Regulator",
)  # fmt: skip
OTHERS = ("reservoir", "maintenance", "two products")  # other dynamics; nothing was chosen on them
AGENTS = {"AdaptiveQ": zooming.AdaptiveQ, "Auto": zooming.Auto}
WARM = 200
TEST = 4000  # episodes to evaluate a rule


def reservoir(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Release water for power: a high level gives more per unit, a flood costs."""
    inflow = rng.gamma(2.0, 10.0 if step < 6 else 5.0)
    release = min(action[0], state[0])
    level = state[0] - release + inflow
    flood = max(0.0, level - 100.0)
    next_state[0] = level - flood
    return release * (0.5 + state[0] / 200.0) - 2.0 * flood


def maintenance(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Run a machine or overhaul it: wear lowers the output and may break it."""
    if action[0] > 0.5:
        next_state[0] = 0.0
        return -20.0
    wear = min(1.0, state[0] + rng.uniform(0.0, 0.25))
    is_broken = rng.random() < 0.5 * wear * wear
    next_state[0] = 0.0 if is_broken else wear
    return 30.0 * (1.0 - 0.5 * state[0]) - (80.0 if is_broken else 0.0)


def two_products(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Make two products with one capacity of 12 units a step, sell what is in stock."""
    scale = min(1.0, 12.0 / max(1e-9, action[0] + action[1]))
    profit = 0.0
    for i in range(2):
        stock = min(20.0, state[i] + scale * action[i])
        sold = min(stock, float(rng.poisson(4.0 + 2.0 * i)))
        next_state[i] = stock - sold
        profit += (6.0 - i) * sold - 2.0 * scale * action[i] - 0.3 * next_state[i]
    return profit


@cache
def make_problem(name: str) -> tuple[Any, Any]:
    """Return the environment and its rule."""
    box = gym.spaces.Box
    if name == "reservoir":
        env: Any = zooming.compiled_env(
            reservoir, box(0.0, 100.0, (1,), np.float64), box(0.0, 60.0, (1,), np.float64), 12,
            start=[50.0], reward_range=(-600.0, 60.0),
        )  # fmt: skip
        return env, lambda step, level: np.clip(0.3 * level, 0.0, 60.0)
    if name == "maintenance":
        env = zooming.compiled_env(
            maintenance, box(0.0, 1.0, (1,), np.float64), gym.spaces.Discrete(2), 10,
            start=[0.0], reward_range=(-80.0, 30.0),
        )  # fmt: skip
        return env, lambda step, wear: int(wear[0] > 0.3)
    if name == "two products":
        env = zooming.compiled_env(
            two_products, box(0.0, 20.0, (2,), np.float64), box(0.0, 12.0, (2,), np.float64), 8,
            start=[5.0, 5.0], reward_range=(-50.0, 250.0),
        )  # fmt: skip
        return env, lambda step, stock: np.clip([6.0, 7.0] - stock, 0.0, 12.0)
    env = gym.make(f"zooming/{name}-v0")
    return env, env.unwrapped.rule


def run(task: tuple[str, str, int, int, float]) -> tuple[float, ...]:
    """Return the gain against the rule, the share of own episodes, and whether it was let go."""
    name, kind, seed, episodes, value = task
    env, rule = make_problem(name)
    agent = AGENTS[kind](env, seed=seed)
    agent.warm_start(rule, WARM)
    history = agent.learn(episodes)
    own = np.delete(history.returns, history.rule_episodes - 1)
    gain = (own - value).sum() / episodes / abs(value)
    return gain, len(own) / episodes, float(history.let_go is not None)


def main(
    problems: Sequence[str], agents: Sequence[str], seeds: int, episodes: int, workers: int
) -> None:
    """Print one line per problem and agent."""
    print(f"| problem | agent | rule | first {episodes} (s.e.) | worst seed | own | let go |")
    print("|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(workers) as pool:
        for name in problems:
            env, rule = make_problem(name)
            value = zooming.evaluate(rule, env, TEST, seed=0).mean
            for kind in agents:
                tasks = [(name, kind, seed, episodes, value) for seed in range(seeds)]
                gain, own, let_go = np.array(list(pool.map(run, tasks))).T
                print(
                    f"| {name} | {kind} | {value:.4g} | {100 * gain.mean():+.2f} % "
                    f"({100 * gain.std() / seeds**0.5:.2f}) | {100 * gain.min():+.2f} % | "
                    f"{100 * own.mean():.1f} % | {int(let_go.sum())}/{seeds} |",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default=",".join(GALLERY + OTHERS), help="problems, with commas")
    parser.add_argument("--agents", default=",".join(AGENTS), help="agents, with commas")
    given = parser.parse_args()
    main(given.only.split(","), given.agents.split(","), given.seeds, given.episodes, given.workers)
