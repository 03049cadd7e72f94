"""The hard instance of the lower bound, and starts that an adversary chooses.

The hard instance is H bandits in sequence. At each step one of the N_r balls of the actions, at a
random place, pays up to r more than the rest. An agent must find it under noise, and at the radius
r = K^(-1/3) it can hardly do so within K episodes. [SBY19 Thm 4.4]
"""

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming import metrics

AGENTS = (
    "AdaptiveQ", "NetQ", "TreeQ", "SinglePartitionQ", "RandomizedQ", "NetMB", "AdaptiveMB",
    "NearestNeighborQ", "Planner", "Auto", "Random", "MetricQ",
)  # fmt: skip
MORE = {"MetricQ": {"metric": metrics.Product(metrics.Discrete(), metrics.LInf(64))}}
NOISE = 0.25  # rewards are their mean plus or minus this
HORIZON, EPISODES = 2, 500


def pull(state, action, step, params, outcome, next_state):
    """Pay 1/2, plus r less the distance to the needle of this step, plus noise."""
    next_state[0] = 0.0
    return 0.5 + max(0.0, params[0] - abs(action[0] - params[1 + step])) + outcome[0]


def needles(radius, seed):
    """Return bandits on [0, 1], each with a needle at the center of one of the balls of a radius.

    Their optimum is horizon (1/2 + radius), and their mean rewards have Lipschitz constant 1.
    """
    drawn = np.random.default_rng(seed).integers(int(0.5 / radius), size=HORIZON)
    actions, one = gym.spaces.Box(0.0, 1.0, (1,), np.float64), gym.spaces.Discrete(1)
    return zooming.compiled_env(
        pull, one, actions, HORIZON, start=0, params=[radius, *(2 * drawn + 1) * radius],
        outcomes=([-NOISE, NOISE], [0.5, 0.5]), reward_range=(0.0, 1.0),
    )  # fmt: skip


def test_one_ball_of_each_step_pays_more_at_a_place_of_the_seed():
    env = needles(0.125, seed=1)
    optimal = zooming.solve(env)
    assert optimal.return_ == pytest.approx(HORIZON * 0.625, abs=0.01)
    for step in range(HORIZON):
        assert optimal.action(step, 0)[0] == pytest.approx(env.params[1 + step], abs=0.02)


@pytest.mark.parametrize("name", AGENTS)
def test_theorem_no_agent_has_less_regret_than_a_share_of_the_lower_bound(name):
    radius, regrets = EPISODES ** (-1 / 3), []
    for seed in range(4):
        agent = getattr(zooming, name)(needles(radius, seed), seed=seed, **MORE.get(name, {}))
        returns = agent.learn(EPISODES).returns
        regrets.append(EPISODES * HORIZON * (0.5 + radius) - returns.sum())
    bound = zooming.theory.metric_lower_bound(HORIZON, EPISODES, lambda r: np.ceil(1 / r))
    assert np.mean(regrets) > 0.5 * bound  # the paper gives no constant
    assert np.mean(regrets) < HORIZON * EPISODES * 0.13  # each play loses at most r


@pytest.mark.parametrize("by", ["gap", "visits"])
def test_the_regret_bound_holds_for_the_starts_of_an_adversary(by):
    """The next start is where V exceeds V* the most, or where the agent has been the least."""
    env = gym.make("zooming/Ambulance-v0", horizon=2)
    states, regrets, n_chosen = np.linspace(0, 1, 9), np.empty(300), np.zeros(9)
    best = zooming.solve(env, 20).values(0, states[:, None])
    agent = zooming.AdaptiveQ(env, seed=0)
    for k in range(300):
        gaps = [agent.value(0, [x]) for x in states] - best
        i = int(np.argmax(gaps) if by == "gap" else np.argmin(n_chosen))
        n_chosen[i] += 1
        env.unwrapped.params[-1] = states[i]  # where a fixed start is kept
        regrets[k] = best[i] - agent.learn(1).returns[0]
    assert regrets.sum() < zooming.theory.regret_bound(2, 300, 2)
    assert regrets[-100:].mean() < regrets[:100].mean()  # it learns all the same
