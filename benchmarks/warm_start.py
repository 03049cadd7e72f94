"""What a warm start earns on gallery problems: against the rule, and against no warm start.

    python benchmarks/warm_start.py [--seeds 20] [--episodes 800] [--only Queue,Inventory]
    python benchmarks/warm_start.py --poor --agents Auto --episodes 2000

One line per problem and agent: the rule's value, and, relative to it, the mean return of the warm
start and of the first 100 and 500 episodes after its 200, when the rule was let go, and the value
of the policy (`predict`) at the end, with that of the agent's own policy. Beside them are those of
an agent with as many episodes in all and no rule. With --poor, the rules have worse numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np

import zooming

# Settings were chosen on all of them.
PROBLEMS = (
    "Newsvendor", "Pricing", "Queue", "Inventory",
    "Storage", "Autoscaling", "Bidding", "Regulator",
)  # fmt: skip
POOR = {  # numbers of the rules with which they earn 13 % to 37 % less
    "Newsvendor": [4.3], "Pricing": [70.0, 50.0], "Queue": [0.0, 1.2], "Inventory": [24.0, 34.0],
    "Storage": [0.25, 0.28], "Autoscaling": [0.55, 0.8], "Bidding": [0.5], "Regulator": [0.4],
}  # fmt: skip
AGENTS = {"AdaptiveQ": zooming.AdaptiveQ, "Auto": zooming.Auto}
WARM = 200
TEST = 1000  # episodes to evaluate a policy


def make_problem(problem: str, poor: bool) -> tuple[Any, Any]:
    """Return the environment and its rule."""
    env = gym.make(f"zooming/{problem}-v0")
    rule = env.unwrapped.rule
    return env, rule.with_numbers(POOR[problem]) if poor else rule


def run(task: tuple[str, bool, str, bool, int, int]) -> tuple[float, ...]:
    """Return the numbers of one seed; NaN for the agent without a rule if it is left out."""
    problem, poor, name, skip, seed, episodes = task
    env, rule = make_problem(problem, poor)
    agent = AGENTS[name](env, seed=seed)
    begun = agent.warm_start(rule, WARM)
    history = agent.learn(episodes)
    values = [zooming.evaluate(agent, env, TEST, seed=seed).mean]
    agent.guide = None
    values.append(zooming.evaluate(agent, env, TEST, seed=seed).mean)
    returns, without = history.returns, np.full(episodes, np.nan)
    if not skip:
        plain = AGENTS[name](env, seed=seed)
        without = plain.learn(WARM + episodes).returns
        values.append(zooming.evaluate(plain, env, TEST, seed=seed).mean)
    else:
        values.append(np.nan)
    means = [part[:n].mean() for part in (returns, without) for n in (100, 500)]
    let_go = np.inf if history.let_go is None else history.let_go
    base = zooming.evaluate(rule, env, TEST, seed=seed).mean  # on the same episodes
    gains = [value - base for value in values]
    return float(begun.returns.mean()), *map(float, means), float(let_go), *gains


def main(
    problems: Sequence[str], agents: Sequence[str], poor: bool, skip: bool, seeds: int,
    episodes: int, workers: int,
) -> None:  # fmt: skip
    """Print one line per problem and agent: means over seeds, and the worst seed."""
    print(
        "problem | agent | rule | warm start | first 100 | first 500 (worst seed) | let go after "
        "(share, median) | policy (worst seed) | own policy | without: first 100 | 500 | policy"
    )
    with ProcessPoolExecutor(workers) as pool:
        for problem, name in product(problems, agents):
            env, rule = make_problem(problem, poor)
            value = zooming.evaluate(rule, env, 20_000).mean
            tasks = [(problem, poor, name, skip, seed, episodes) for seed in range(seeds)]
            found = np.array(list(pool.map(run, tasks)))
            found[:, 6:] += value
            went = found[np.isfinite(found[:, 5]), 5]
            when = f"{len(went)}/{seeds}" + (f", {np.median(went):.0f}" if len(went) else "")
            gain = 100.0 * (found - value) / abs(value)
            mean, worst = gain.mean(axis=0), gain.min(axis=0)
            print(
                f"{problem} | {name} | {value:.4g} | {mean[0]:+.1f} % | {mean[1]:+.1f} % | "
                f"{mean[2]:+.1f} % ({worst[2]:+.1f} %) | {when} | {mean[6]:+.1f} % "
                f"({worst[6]:+.1f} %) | {mean[7]:+.1f} % | {mean[3]:+.1f} % | {mean[4]:+.1f} % | "
                f"{mean[8]:+.1f} %",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=800)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default=",".join(PROBLEMS), help="problems, with commas")
    parser.add_argument("--agents", default=",".join(AGENTS), help="agents, with commas")
    parser.add_argument("--poor", action="store_true", help="rules with worse numbers")
    parser.add_argument("--skip-plain", action="store_true", help="no agent without a rule")
    given = parser.parse_args()
    main(
        given.only.split(","), given.agents.split(","), given.poor, given.skip_plain, given.seeds,
        given.episodes, given.workers,
    )  # fmt: skip
