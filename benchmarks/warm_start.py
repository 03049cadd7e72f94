"""What a warm start earns on gallery problems: against the rule, and against no warm start.

    python benchmarks/warm_start.py [--seeds 20] [--episodes 800]

One line per problem and agent: the rule's value, the mean return of the first 100 and 500 episodes
after the 200 of the warm start, when the rule was let go, and the value of the learned policy,
each beside that of an agent with as many episodes in all and no rule.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import gymnasium as gym
import numpy as np

import zooming

PROBLEMS = ("Newsvendor", "Pricing", "Queue", "Inventory")
AGENTS = {"AdaptiveQ": zooming.AdaptiveQ, "Auto": zooming.Auto}
WARM = 200


def run(task: tuple[str, str, int, int]) -> tuple[float, ...]:
    """Return the numbers of one seed."""
    problem, name, seed, episodes = task
    env = gym.make(f"zooming/{problem}-v0")
    agent = AGENTS[name](env, seed=seed)
    begun = agent.warm_start(env.unwrapped.rule, WARM)
    history = agent.learn(episodes)
    plain = AGENTS[name](env, seed=seed)
    other = plain.learn(WARM + episodes)
    values = (
        zooming.evaluate(one, env, 1000, seed=seed).mean for one in (agent.guide, agent, plain)
    )
    means = [part[:n].mean() for part in (history.returns, other.returns) for n in (100, 500)]
    let_go = np.inf if history.let_go is None else WARM + history.let_go
    return float(begun.returns.mean()), *map(float, means), float(let_go), *values


def main(seeds: int, episodes: int, workers: int) -> None:
    """Print one line per problem and agent: means over seeds, with the worst seed of the first."""
    print(
        "problem | agent | rule | warm start | first 100 | first 500 (worst seed) | let go by "
        "(share, median) | guide's policy | agent's policy | without: first 100 | 500 | policy"
    )
    with ProcessPoolExecutor(workers) as pool:
        for problem, name in product(PROBLEMS, AGENTS):
            env = gym.make(f"zooming/{problem}-v0")
            rule = zooming.evaluate(env.unwrapped.rule, env, 20_000).mean
            tasks = [(problem, name, seed, episodes) for seed in range(seeds)]
            found = np.array(list(pool.map(run, tasks)))
            begun, first, fifth, plain_first, plain_fifth, let_go, *policies = found.T
            went = let_go[np.isfinite(let_go)]
            when = f"{len(went)}/{seeds}, {np.median(went):.0f}" if len(went) else f"0/{seeds}"
            guide, own, plain = (column.mean() for column in policies)
            print(
                f"{problem} | {name} | {rule:.1f} | {begun.mean():.1f} | {first.mean():.1f} | "
                f"{fifth.mean():.1f} ({fifth.min():.1f}) | {when} | {guide:.1f} | {own:.1f} | "
                f"{plain_first.mean():.1f} | {plain_fifth.mean():.1f} | {plain:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=800)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    main(options.seeds, options.episodes, options.workers)
