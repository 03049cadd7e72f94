"""Follow what `predict` recommends while `Auto` learns: does it ever get much worse than before?

Run `python benchmarks/checkpoints.py --seeds 20 --out out/checkpoints.json`. Results are kept in
the file after each run, and the same command continues. The problems are the gallery and three that
are not in it: a bakery, a stock with a lead time, and two such stocks at once (four state axes and
two action axes), whose optimal value is the sum of two.

Percent is 100 (V - V_random) / (V* - V_random) of the recommended policy, at 20 checkpoints between
100 and 5,000 episodes. All policies of a problem meet the same random numbers.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import zooming
from learning import bounds
from problem_sets import OPERATIONS
from zooming.agents.files.container import write_atomically

CHECKPOINTS = np.geomspace(100, 5000, 20).round().astype(int).tolist()
ENOUGH = 0.9  # of the best percentage at an earlier checkpoint; less is a collapse
N_EPISODES = 1000  # of an evaluation
LOAVES = [20.0, 14.0, 18.0, 22.0, 30.0, 44.0, 36.0]  # mean demand of each weekday
MOST = 80.0  # loaves that can be asked for
ITEMS = (  # price and cost of each of two items, its demand and the start of its stock
    ((5.0, 2.0), ([0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.25, 0.3, 0.25, 0.1]), [0.4, 0.3]),
    ((4.0, 1.0), ([0.05, 0.15, 0.3, 0.6], [0.3, 0.3, 0.25, 0.15]), [0.3, 0.2]),
)


def bake(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Sell loaves: the next state is the next weekday and how many were sold."""
    sold = min(action[0], outcome[0])
    next_state[0], next_state[1] = min(6.0, state[0] + 1.0), sold
    return params[7] * sold - params[8] * action[0]


def ask_loaves(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Write the law of the demand: Poisson, more if much was sold on the day before."""
    mean = params[step] * (0.85 + 0.15 * min(2.0, state[1] / params[(step + 6) % 7]))
    weight = math.exp(-mean)
    for i in range(values.shape[0]):
        weights[i] = weight
        weight *= mean / (i + 1.0)


def bakery() -> Any:
    """Return a week of a bakery: weekday and loaves sold yesterday; 61 quantities to bake."""
    low, high = np.zeros(2), np.array([6.0, MOST])
    return zooming.compiled_env(
        bake, gym.spaces.Box(low, high, dtype=np.float64), gym.spaces.Discrete(61), 7,
        start=[0.0, 30.0], params=[*LOAVES, 2.6, 0.9],
        outcomes=(np.arange(MOST + 1.0), ask_loaves), name="bakery",
    )  # fmt: skip


def sell_item(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Sell from stock; an order is one period under way, and arrives before the one after."""
    sold = min(state[0], outcome[0])
    next_state[0], next_state[1] = min(params[3], state[0] - sold + state[1]), action[0]
    return params[0] * sold - params[1] * action[0] - params[2] * (state[0] - sold)


def sell_both(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Do as `sell_item` for two items that have nothing to do with each other."""
    total = 0.0
    for i in range(2):
        sold = min(state[2 * i], outcome[i])
        next_state[2 * i] = min(1.0, state[2 * i] - sold + state[2 * i + 1])
        next_state[2 * i + 1] = action[i]
        total += params[2 * i] * sold - params[2 * i + 1] * action[i]
        total -= 0.1 * (state[2 * i] - sold)
    return total


def unit_box(n: int) -> gym.spaces.Box:
    return gym.spaces.Box(np.zeros(n), np.ones(n), dtype=np.float64)


def lead_time() -> Any:
    """Return a stock of up to 30 pieces whose orders take two periods; unmet demand is lost."""
    states = gym.spaces.Box(np.zeros(2), np.array([30.0, 20.0]), dtype=np.float64)
    chances = np.array([6.0**k / math.factorial(k) for k in range(20)])
    return zooming.compiled_env(
        sell_item, states, gym.spaces.Box(0.0, 20.0, (1,), np.float64), 10, start=[10.0, 5.0],
        params=[5.0, 2.0, 0.3, 30.0], outcomes=(np.arange(20.0), chances / chances.sum()),
        name="lead time",
    )  # fmt: skip


def item(i: int) -> Any:
    """Return the problem of one of the two items."""
    prices, demand, start = ITEMS[i]
    return zooming.compiled_env(
        sell_item, unit_box(2), unit_box(1), 6, start=start, params=[*prices, 0.1, 1.0],
        outcomes=demand, name=f"item {i}",
    )  # fmt: skip


def two_items() -> Any:
    """Return both items at once: four state axes, two action axes."""
    (one, demand, start), (two, other_demand, other_start) = ITEMS
    values = [[a, b] for a in demand[0] for b in other_demand[0]]
    return zooming.compiled_env(
        sell_both, unit_box(4), unit_box(2), 6, start=start + other_start, params=[*one, *two],
        outcomes=(values, np.outer(demand[1], other_demand[1]).ravel()), name="two items",
    )  # fmt: skip


NEW = {"bakery": bakery, "lead time": lead_time, "two items": two_items}
PROBLEMS = [*NEW, *OPERATIONS]


def make_env(name: str) -> Any:
    return NEW[name]() if name in NEW else OPERATIONS[name].make()


def optimal(name: str) -> tuple[float, float]:
    """Return the optimal value of a problem and that of random actions."""
    if name not in NEW:
        return bounds(name)
    random = zooming.Random(make_env(name), reward_range=(-1e9, 1e9), seed=12345)
    parts = [item(0), item(1)] if name == "two items" else [make_env(name)]
    best = sum(zooming.solve(part, 60 if name == "lead time" else 80).return_ for part in parts)
    return best, float(np.mean(random.learn(5000).returns))


@functools.cache
def chances_of(name: str) -> tuple[Any, Any]:
    """Return an environment, and the random numbers that its episodes meet [steps, episodes]."""
    env = make_env(name).unwrapped
    return env, np.random.default_rng(7).random((env.horizon + 1, N_EPISODES))


def value(agent: Any, name: str) -> float:
    """Return the mean return of the recommended policy on common random numbers."""
    env, draws = chances_of(name)
    starts, weights = env.start_states(1000)
    states = np.array(starts[_pick(weights, draws[-1])])
    after, total = np.empty_like(states), 0.0
    for step in range(env.horizon):
        actions = env.actions(agent.predict(env.observations(states), np.full(N_EPISODES, step))[0])
        outcomes, chances = env.outcomes(step, 400)
        chosen = _pick(chances, draws[step])
        for i in range(N_EPISODES):
            if env.weigh is not None:
                law = np.array(chances, float)
                env.weigh(states[i], actions[i], step, env.params, outcomes, law)
                chosen[i] = _pick(law, draws[step, i : i + 1])[0]
            total += env.given(
                states[i], actions[i], step, env.params, outcomes[chosen[i]], after[i]
            )
        states, after = after, states
    return total / N_EPISODES


def _pick(weights: Any, draws: Any) -> Any:
    """Return the index of the outcome that each uniform draw selects."""
    sums = np.cumsum(weights)
    return np.minimum(np.searchsorted(sums, draws * sums[-1], "right"), len(sums) - 1)


def run(name: str, seed: int) -> list[float]:
    """Return the value of the recommended policy at each checkpoint of one run."""
    agent = zooming.Auto(make_env(name), ordered=name == "bakery", seed=seed)
    found = []
    for n_episodes in CHECKPOINTS:
        agent.learn(n_episodes - agent.n_episodes)
        found.append(value(agent, name))
    return found


def summarize(values: Any, best: float, random: float) -> tuple[float, float, int, float]:
    """Return (mean, least percent, number of collapses, least ratio to the best before)."""
    percents = 100 * (np.asarray(values) - random) / (best - random)  # [seeds, checkpoints]
    before = np.maximum.accumulate(percents, axis=1)[:, :-1]
    # The ratio to the best before, also if that is negative and less is lost now.
    ratios = 1 + (percents[:, 1:] - before) / np.maximum(np.abs(before), 1e-9)
    return percents.mean(), percents.min(), int((ratios < ENOUGH).sum()), ratios.min()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--out", type=Path, default=Path("out/checkpoints.json"))
    options = parser.parse_args()
    os.makedirs(options.out.parent, exist_ok=True)
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    print("| problem | mean % | least % | below 90 % of the best before | least ratio |")
    print("|---|---|---|---|---|")
    for name in options.problems:
        if name not in results:
            results[name] = optimal(name)
        for seed in range(options.first, options.first + options.seeds):
            if f"{name}/{seed}" not in results:
                results[f"{name}/{seed}"] = run(name, seed)
                write_atomically(options.out, json.dumps(results).encode())
        rows = [results[f"{name}/{options.first + k}"] for k in range(options.seeds)]
        mean, least, n_below, ratio = summarize(rows, *results[name])
        n = len(rows) * (len(CHECKPOINTS) - 1)
        print(f"| {name} | {mean:.1f} | {least:.1f} | {n_below} of {n} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
