"""What `Resolver` reaches where the noise depends on neither state nor action.

    python benchmarks/resolver.py [--seeds 20] [--auto 2] [--episodes 2000] [--only Bidding,Oil]
    python benchmarks/resolver.py --hidden --only Newsvendor,Bidding
    python benchmarks/resolver.py --coverage 40

One line per problem: the policy after 10, 200 and all episodes, in percent of the way from random
actions to the optimum (mean over seeds), and the regret in units of that way (mean and worst
seed). Beside it are the regret of `Auto`, and what the problem's rule would have lost.

With `--hidden`, demand beyond the stock and prices above the bid are not told.

With `--coverage`, one line per problem instead: of so many sets of 60 recorded episodes, how many
have a plan whose true value is in the 95 % interval of `zooming.plan`, and how many a true gain
over the optimum, and over the rule, in that of `compare`.

Returns are noisy, so the loss of a plan is not taken from them. Let Q* be solved on a fine grid
with the true law, and a* its action. With the states that the plan reaches on drawn noise,

    V* - V = E sum_h [Q*_h(x_h, a*_h(x_h)) - Q*_h(x_h, a_h)].

The regret of `Resolver` is the sum of this over all episodes but the first, within which it plans
anew; the regret of the first episode, and that of `Auto`, is from returns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import gymnasium as gym
import numpy as np

import zooming
from zooming.envs.declared import with_records
from zooming.envs.state_grid import GIVEN_ACTIONS, Grid, GridPolicy
from zooming.kernels.loop.jit import call_in_thread
from zooming.kernels.solve.policies import advance

PROBLEMS: dict[str, tuple[dict[str, Any], int]] = {  # options, cells of the fine grid
    "Newsvendor": ({}, 200),
    "Inventory": ({}, 60),
    "Storage": ({}, 40),
    "Autoscaling": ({}, 256),
    "Bidding": ({}, 800),
    "Allocation": ({}, 120),
    "GraphAmbulance": ({}, 9),
    "Regulator": ({}, 400),
    "Ambulance": ({"travel_weight": 0.25}, 400),
    "Oil": ({"noise": 0.1, "center": 0.7071, "sharpness": 10.0}, 400),
}
COVERED = ("Newsvendor", "Bidding", "GraphAmbulance", "Regulator", "Ambulance")
N_TRACES, N_RANDOM = 500, 20_000
Choose = Callable[[int, Any], Any]


class Judge:
    """The optimum of a problem, and the loss of other policies against it."""

    def __init__(self, name: str) -> None:
        options, cells = PROBLEMS[name]
        self.env = gym.make(f"zooming/{name}-v0", **options)
        inner: Any = self.env.unwrapped
        self.inner, horizon = inner, inner.horizon
        laws = [_law(inner, step, cells) for step in range(horizon)]
        self.best = GridPolicy.of(inner, horizon, cells)
        self.best.solve(inner, laws)
        self.grid = Grid(inner, cells, laws=laws)
        self.grid.values = self.best.values
        self.noise, self.starts = _draw(self.env, N_TRACES)
        self.optimum = zooming.solve(self.env, None if inner.has_whole_states else cells).return_
        self.random = zooming.Random(self.env, seed=0).learn(N_RANDOM).returns.mean()
        self.unit = self.optimum - self.random

    def loss(self, choose: Choose) -> float:
        """Return V* - V of a policy, as a share of the way from random actions to V*."""
        inner, total, states = self.inner, 0.0, self.starts
        for step in range(inner.horizon):
            played = np.ascontiguousarray(choose(step, states), np.float64)
            wished = self.best.actions(np.full(len(states), step), states)
            q = [self.grid.backup(step, states, a, GIVEN_ACTIONS)[0] for a in (wished, played)]
            total += float((q[0] - q[1]).mean())
            after, rewards = np.empty_like(states), np.empty(len(states))
            noise = np.ascontiguousarray(self.noise[:, step])
            call_in_thread(
                partial(
                    advance(), inner.given, inner.params, step, states, played, noise, after,
                    rewards,
                )
            )  # fmt: skip
            states = np.clip(after, inner.state_box.low, inner.state_box.high)
        return total / self.unit


def _law(env: Any, step: int, cells: int) -> tuple[Any, Any]:
    """Return the law of a step, which is the same in every state and for every action."""
    values, weights = env.outcomes(step, cells)
    if env.weigh is not None:
        weights = np.empty(len(values))
        env.weigh(env.state_box.low, env.action_box.low, step, env.params, values, weights)
    return values, weights / weights.sum()


def _draw(env: Any, n: int, seed: int = 12345) -> tuple[Any, Any]:
    """Return the noise [n, H, k] and the start states [n, n_state] of drawn episodes."""
    noise, starts = [], []
    env.action_space.seed(0)
    for episode in range(n):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        starts.append(np.atleast_1d(np.asarray(observation, np.float64)))
        noise.append(
            [
                env.step(env.action_space.sample())[-1]["outcome"]
                for _ in range(env.unwrapped.horizon)
            ]
        )
    return np.array(noise), np.array(starts)


class Hidden(gym.Wrapper[Any, Any, Any, Any]):
    """A problem that tells its noise up to a limit: the stock after the order, or the bid."""

    def reset(self, **options: Any) -> Any:
        self.state, info = self.env.reset(**options)
        return self.state, info

    def step(self, action: Any) -> Any:
        limit = float(action[0])
        if "Newsvendor" in str(self.env):
            limit = min(limit + float(self.state[0]), float(self.action_space.high[0]))
        self.state, *rest, info = self.env.step(action)
        noise, info = float(info["outcome"][0]), dict(info, censored=info["outcome"][0] > limit)
        return self.state, *rest, dict(info, outcome=min(noise, np.nextafter(limit, np.inf)))


judge = cache(Judge)


def reach(name: str, seed: int, episodes: int, hidden: bool) -> tuple[list[float], float]:
    """Return the loss after 10, 200 and all episodes, and the regret, in units of V* - random."""
    found = judge(name)
    env = Hidden(found.env) if hidden else found.env
    agent = zooming.Resolver(env, model=found.env, seed=seed)
    losses, regret = {}, 0.0
    marks = [n for n in (10, 200, episodes) if n <= episodes]
    while agent.n_episodes < episodes:
        before = agent.n_episodes
        first = agent.learn(1).returns[0]  # makes the plan that is due
        plan = agent.plan
        loss = found.loss(lambda step, x, plan=plan: plan.actions(np.full(len(x), step), x))
        losses[agent.n_episodes] = loss
        if not before:
            regret += (found.optimum - first) / found.unit
            continue
        until = min([agent.status()["next plan"], *(n for n in marks if n > before)])
        if until > agent.n_episodes:
            agent.learn(until - agent.n_episodes)
        regret += loss * (agent.n_episodes - before)
        losses[agent.n_episodes] = loss
    return [losses[n] for n in marks], regret


def covered(name: str, n: int) -> list[int]:
    """Return on how many of n sets of records the intervals of value and gains cover the truth."""
    found, counts = judge(name), [0, 0, 0]
    inner, rng = found.inner, np.random.default_rng(1)
    middle = inner.actions(np.array([(inner.action_box.low + inner.action_box.high) / 2]))[0]
    rule = getattr(inner, "rule", None)
    plain = partial(_ask, rule) if rule else lambda step, x: np.tile(middle, (len(x), 1))
    rules: list[tuple[Any, float]] = [(partial(_play_best, found), 0.0)]
    rules.append((rule or (lambda step, x: middle), found.loss(plain)))
    for _ in range(n):
        noise, _ = _draw(found.env, 60, int(rng.integers(2**31)))
        plan = zooming.plan(with_records(inner, zooming.Records(noise)), folds=5)
        policy = plan.agent.plan
        lost = found.loss(lambda step, x, policy=policy: policy.actions(np.full(len(x), step), x))
        counts[0] += plan.value.low <= found.optimum - lost * found.unit <= plan.value.high
        for k, (one, its) in enumerate(rules):
            gain, slack = plan.compare(one).difference, 1e-9
            counts[k + 1] += gain.low - slack <= (its - lost) * found.unit <= gain.high + slack
    return [int(count) for count in counts]


def _play_best(found: Judge, step: int, observation: Any) -> Any:
    state = np.atleast_2d(np.asarray(observation, np.float64))
    action = found.best.actions(np.array([step]), state)[0]
    return int(action[0]) if found.inner.has_whole_actions else action


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--auto", type=int, default=2, help="seeds of Auto")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--only", default="")
    parser.add_argument("--hidden", action="store_true")
    parser.add_argument("--coverage", type=int, default=0, help="sets of records")
    given = parser.parse_args(arguments)
    if given.coverage:
        for name in given.only.split(",") if given.only else COVERED:
            counts = covered(name, given.coverage)
            print(f"{name}: value, gains {counts} of {given.coverage}", flush=True)
        return
    n = given.episodes
    print(f"| problem | % at 10 | 200 | {n:,} | regret (worst) | `Auto` | rule |")
    print("|---|---|---|---|---|---|---|")
    for name in given.only.split(",") if given.only else PROBLEMS:
        found = judge(name)
        runs = [reach(name, seed, n, given.hidden) for seed in range(given.seeds)]
        shares = 100 * (1 - np.mean([losses for losses, _ in runs], axis=0))
        regrets = [regret for _, regret in runs]
        autos = [
            (n * found.optimum - zooming.Auto(found.env, seed=k).learn(n).returns.sum())
            / found.unit
            for k in range(given.auto)
        ]
        rule = getattr(found.inner, "rule", None)
        lost = "" if rule is None else f"{n * found.loss(partial(_ask, rule)):.0f}"
        print(
            f"| {name} | {' | '.join(f'{share:.1f}' for share in shares)} | {np.mean(regrets):.1f} "
            f"({max(regrets):.1f}) | {f'{np.mean(autos):.0f}' if autos else ''} | {lost} |",
            flush=True,
        )


def _ask(rule: Any, step: int, states: Any) -> Any:
    given = states[:, 0].astype(int) if rule.env.has_whole_states else states
    found = rule.predict(given, np.full(len(states), step))[0]
    return np.asarray(found, np.float64).reshape(len(states), -1)


if __name__ == "__main__":
    main()
