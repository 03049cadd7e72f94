"""Worst cases of the paper: the hard instance of the lower bound, and starts of an adversary.

The hard instance is H bandits in sequence. At each step one of the N_r balls of the actions, at a
random place, pays up to r more than the rest. An agent must find it under noise, and at the radius
r = K^(-1/3) it can hardly do so within K episodes. [SBY19 Thm 4.4]

The regret bound holds for any sequence of starts. An adversary chooses the next start against the
agent: where its estimate V exceeds V* the most, or where it has been the least. [SBY19 sec. 2]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from zooming import theory
from zooming.agents.tables.q_learner import QLearner
from zooming.analysis.optimal import Optimal
from zooming.envs.compiled import CompiledEnv
from zooming.envs.declared import compiled_env
from zooming.envs.starts import FIXED
from zooming.errors import ConfigurationError
from zooming.validation import Floats, check_choice, check_int

NOISE = 0.25  # rewards are their mean plus or minus this


def _pull(state, action, step, params, outcome, next_state):  # type: ignore[no-untyped-def]
    """Pay 1/2, plus r less the distance to the needle of this step, plus noise."""
    next_state[0] = 0.0
    return 0.5 + max(0.0, params[0] - abs(action[0] - params[1 + step])) + outcome[0]


def needles(horizon: int = 1, radius: float = 0.1, seed: int = 0) -> CompiledEnv:
    """Return the hard instance: `horizon` bandits on [0, 1], each with a needle of this radius.

    Its optimum is horizon (1/2 + radius), and its mean rewards have Lipschitz constant 1.

    Examples
    --------
    >>> import zooming
    >>> round(zooming.solve(needles(3, 0.125)).return_, 2)
    1.88
    """
    if not 0.0 < radius <= 0.25:
        raise ConfigurationError(f"radius={radius}: give one above 0 and at most 0.25")
    n_balls = int(0.5 / radius)  # of which one holds the needle, at its center
    drawn = np.random.default_rng(seed).integers(n_balls, size=check_int(horizon, "horizon", 1))
    places = (2 * drawn + 1) * radius
    actions, one = gym.spaces.Box(0.0, 1.0, (1,), np.float64), gym.spaces.Discrete(1)
    law = ([-NOISE, NOISE], [0.5, 0.5])
    return compiled_env(
        _pull, one, actions, horizon, start=0, params=[radius, *places], outcomes=law,
        reward_range=(0.0, 1.0), name="needles",
    )  # fmt: skip


def hard_regret(
    make: Callable[..., Any], horizon: int, episodes: int, seeds: Iterable[int]
) -> tuple[float, float]:
    """Return the mean regret on `needles` of radius K^(-1/3), and the lower bound beside it.

    `make(env, seed=seed)` returns an agent. The needles of each seed are at other places. The
    bound is `theory.metric_lower_bound` of the actions, whose constant the paper does not give.
    """
    radius = min(0.25, float(episodes) ** (-1 / 3))
    regrets = []
    for seed in seeds:
        returns = make(needles(horizon, radius, seed), seed=seed).learn(episodes).returns
        regrets.append(episodes * horizon * (0.5 + radius) - returns.sum())
    bound = theory.metric_lower_bound(
        horizon, episodes, lambda r: theory.covering_number(r, (1.0,))
    )
    return float(np.mean(regrets)), bound


def learn_against(
    agent: QLearner, optimal: Optimal, episodes: int, states: Floats, by: str = "gap"
) -> Floats:
    """Let an adversary choose the start of each episode, and return the regret of each episode.

    The environment of the agent must have a fixed start. The starts to choose from are `states`
    [n, n_state]. With `by="gap"` it is the one with the largest V - V* of the agent's estimate;
    with "visits" the one that was chosen the least. Of equals it is the first.
    """
    check_choice("by", by, ("gap", "visits"))
    env = agent.env.unwrapped
    if not isinstance(env, CompiledEnv) or env.start_kind != FIXED:
        raise ConfigurationError("the adversary needs a compiled environment with start=a state")
    best, regrets = optimal.values(0, states), np.empty(episodes)
    n_chosen = np.zeros(len(states), np.int64)
    for k in range(episodes):
        if by == "gap":
            values = [agent.value(0, one) for one in env.observations(states)]
            i = int(np.argmax(np.array(values) - best))
        else:
            i = int(np.argmin(n_chosen))
        n_chosen[i] += 1
        env.params[-len(states[i]) :] = states[i]  # where a fixed start is kept
        regrets[k] = best[i] - agent.learn(1).returns[0]
    return regrets
