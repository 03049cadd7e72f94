"""How often the intervals of `zooming.evaluate_on` contain the truth, on gallery problems.

    python benchmarks/off_policy.py [--logs 20] [--episodes 300]

The log is that of the problem's rule with uniform noise of 10 % of the action's range, and 5 %
random actions. Policies: the rule, and the rule with its actions times 0.95. One line per problem,
policy and method: intervals that contain the value of the policy, those that contain the value of
the policy with noise within the radius (what "importance" estimates), logs without an answer, the
mean error and the mean half-width.
"""

from __future__ import annotations

import argparse
import time
from itertools import product

import gymnasium as gym
import numpy as np

import zooming

PROBLEMS = ("Bidding", "Regulator", "Newsvendor", "Pricing", "Inventory")
METHODS = ("model", "importance", "doubly robust")
SHARES = (1.0, 0.95)
RADIUS = 0.1


def value(env: gym.Env, policy: object, noise: float) -> float:
    """Return the mean return of 10,000 episodes."""
    log = zooming.record(env, policy, 10_000, noise=noise, seed=12345)
    return float(log["reward"].sum()) / 10_000


def main(logs: int, episodes: int) -> None:
    """Print one line per problem, policy and method."""
    print("problem | policy | truth | method | cover | cover (noisy truth) | no answer | error | ±")
    for problem, share in product(PROBLEMS, SHARES):
        env = gym.make(f"zooming/{problem}-v0")
        rule = env.unwrapped.rule

        def policy(step: int, state: object, rule=rule, share: float = share) -> object:
            return share * rule.act(step, state)

        truth, noisy = value(env, policy, 0.0), value(env, policy, RADIUS)
        found = {method: [] for method in METHODS}
        began = time.perf_counter()
        for seed in range(logs):
            log = zooming.record(
                env, rule, episodes, epsilon=0.05, noise=RADIUS, propensities=True, seed=seed
            )
            for method in METHODS:
                options = {"method": method, "propensity": "propensity", "radius": RADIUS}
                one = zooming.evaluate_on(log, policy, env=env, **options)
                found[method].append((one.mean, *one.interval))
        seconds = (time.perf_counter() - began) / logs
        for method, rows in found.items():
            mean, low, high = np.array(rows).T
            known = ~np.isnan(mean)
            n = int(known.sum())
            line = f"{problem} | x {share:g} | {truth:.4g} | {method} |"
            if n:
                covers = ((low <= wanted) & (wanted <= high) for wanted in (truth, noisy))
                cover, cover_noisy = (f"{int(inside.sum())}/{n}" for inside in covers)
                error, half = (mean - truth)[known].mean(), ((high - low) / 2)[known].mean()
                line += f" {cover} | {cover_noisy} | {logs - n} | {error:+.3g} | {half:.3g}"
            else:
                line += f" - | - | {logs} | - | -"
            print(line, flush=True)
        print(f"# {seconds:.1f} s per log, noisy truth {noisy:.4g}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=300)
    options = parser.parse_args()
    main(options.logs, options.episodes)
