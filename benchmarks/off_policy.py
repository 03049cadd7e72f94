"""How often the intervals of `zooming.evaluate_on` contain the truth, on gallery problems.

    python benchmarks/off_policy.py [--logs 20] [--episodes 300] [--problems Newsvendor ...]

The log is that of the problem's rule with uniform noise of 10 % of the action's range, and 5 %
random actions. Policies: the rule, and the rule with its actions times 0.95. Orders and Menu are
Newsvendor with Discrete actions: all whole orders (ordered), and six orders whose numbers have no
order (categories). There the other policy has the rule's actions times 0.85, as the nearest order,
and the log of Menu has noise of 30 %: this share of its orders is drawn from all. Thermostat has a
kink where its rule plays.
One line per problem and policy: intervals that contain the value of the policy, logs
without an answer, the mean error and the mean half-width.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import product
from types import SimpleNamespace

import gymnasium as gym
import numpy as np

import zooming

ORDERS = {"Orders": tuple(range(21)), "Menu": (3, 0, 8, 5, 1, 6)}
PROBLEMS = ("Bidding", "Regulator", "Newsvendor", "Pricing", "Inventory", *ORDERS, "Thermostat")
RADIUS = 0.1


class Orders(gym.ActionWrapper):
    """Newsvendor with a number for each of some orders instead of a continuous order."""

    def __init__(self, orders: tuple[int, ...]) -> None:
        super().__init__(gym.make("zooming/Newsvendor-v0"))
        self.orders = np.array(orders, np.float64)
        self.action_space = gym.spaces.Discrete(len(orders))

    def action(self, action: int) -> np.ndarray:
        """Return the order of a number."""
        return self.orders[[action]]


class Thermostat(gym.Env):
    """Heat a room to 21 degrees. The reward -|temperature - 21| has a kink where the rule plays."""

    horizon = 3
    rule = SimpleNamespace(
        act=lambda step, state: np.clip([(21.0 - 0.85 * state[0] - 1.8) / 4.0], 0.0, 1.0)
    )

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(10.0, 30.0, (1,), np.float64)
        self.action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[np.ndarray, dict]:
        """Start between 19 and 22 degrees."""
        super().reset(seed=seed)
        self.step_number, self.state = 0, self.np_random.uniform(19.0, 22.0, 1)
        return self.state, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Heat by up to 4 degrees, and lose 15 % of the difference to 12 degrees."""
        noise = 0.05 * self.np_random.normal(size=1)
        self.state = np.clip(0.85 * self.state + 1.8 + 4.0 * action + noise, 10.0, 30.0)
        self.step_number += 1
        reward = -abs(float(self.state[0]) - 21.0)
        return self.state, reward, False, self.step_number == self.horizon, {}


def make(problem: str) -> gym.Env:
    """Return the environment of a problem."""
    if problem == "Thermostat":
        return Thermostat()
    return Orders(ORDERS[problem]) if problem in ORDERS else gym.make(f"zooming/{problem}-v0")


def policy_of(env: gym.Env, share: float) -> Callable[[int, object], object]:
    """Return the rule of a problem with its actions times `share`."""
    rule = env.unwrapped.rule
    if not isinstance(env, Orders):
        return lambda step, state: share * rule.act(step, state)
    return lambda step, state: int(np.abs(env.orders - share * rule.act(step, state)[0]).argmin())


def value(env: gym.Env, policy: object, ordered: bool) -> float:
    """Return the mean return of 10,000 episodes."""
    log = zooming.record(
        env, policy, 10_000, ordered=ordered, horizon=env.unwrapped.horizon, seed=12345
    )
    return float(log["reward"].sum()) / 10_000


def main(logs: int, episodes: int, problems: Sequence[str]) -> None:
    """Print one line per problem and policy."""
    print("problem | policy | truth | cover | no answer | error | ±")
    for problem, share in product(problems, (1.0, None)):
        env, ordered = make(problem), problem == "Orders"
        share = share or (0.85 if problem in ORDERS else 0.95)
        policy = policy_of(env, share)
        is_menu = problem == "Menu"
        truth = value(env, policy, ordered)
        rows = []
        began = time.perf_counter()
        for seed in range(logs):
            log = zooming.record(
                env, policy_of(env, 1.0), episodes, epsilon=0.05, noise=0.3 if is_menu else RADIUS,
                ordered=ordered, horizon=env.unwrapped.horizon, seed=seed,
            )  # fmt: skip
            one = zooming.evaluate_on(
                log, policy, env=env, radius=RADIUS, ordered=ordered, horizon=env.unwrapped.horizon
            )
            rows.append((one.mean, *one.interval))
        seconds = (time.perf_counter() - began) / logs
        mean, low, high = np.array(rows).T
        known = ~np.isnan(mean)
        n = int(known.sum())
        line = f"{problem} | x {share:g} | {truth:.4g} |"
        if n:
            cover = int(((low <= truth) & (truth <= high)).sum())
            error, half = (mean - truth)[known].mean(), ((high - low) / 2)[known].mean()
            line += f" {cover}/{n} | {logs - n} | {error:+.3g} | {half:.3g}"
        else:
            line += f" - | {logs} | - | -"
        print(line, flush=True)
        print(f"# {seconds:.1f} s per log", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    options = parser.parse_args()
    main(options.logs, options.episodes, options.problems)
