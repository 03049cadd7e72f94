"""The hard instance of the lower bound, and starts that an adversary chooses."""

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming.lab.paper.worst_cases import hard_regret, learn_against, needles

AGENTS = (
    "AdaptiveQ", "NetQ", "TreeQ", "SinglePartitionQ", "RandomizedQ", "NetMB", "AdaptiveMB",
    "NearestNeighborQ", "Planner", "Auto", "Random",
)  # fmt: skip


def test_one_ball_of_each_step_pays_more_at_a_place_of_the_seed():
    env = needles(horizon=3, radius=0.125, seed=1)
    optimal = zooming.solve(env)
    assert optimal.return_ == pytest.approx(3 * 0.625, abs=0.01)
    places = env.params[1:4]
    for step, place in enumerate(places):
        assert optimal.action(step, 0)[0] == pytest.approx(place, abs=0.02)
    assert not np.array_equal(places, needles(3, 0.125, seed=2).params[1:4])
    with pytest.raises(zooming.ConfigurationError, match=r"radius=0\.5"):
        needles(radius=0.5)


@pytest.mark.parametrize("name", AGENTS)
def test_theorem_no_agent_has_less_regret_than_a_share_of_the_lower_bound(name):
    regret, bound = hard_regret(getattr(zooming, name), horizon=2, episodes=500, seeds=range(4))
    assert bound == zooming.theory.metric_lower_bound(2, 500, lambda r: np.ceil(1 / r))
    assert regret > 0.5 * bound  # the paper gives no constant
    assert regret < 2 * 500 * 0.13  # each play loses at most r


def test_the_regret_bound_holds_for_the_starts_of_an_adversary():
    env = gym.make("zooming/Ambulance-v0", horizon=2)
    optimal, states = zooming.solve(env, 20), np.linspace(0, 1, 9)[:, None]
    for by in ("gap", "visits"):
        agent = zooming.AdaptiveQ(env, seed=0)
        regrets = learn_against(agent, optimal, 300, states, by)
        assert agent.n_episodes == 300
        assert regrets.sum() < zooming.theory.regret_bound(2, 300, 2)
        assert regrets[-100:].mean() < regrets[:100].mean()  # it learns all the same
    with pytest.raises(zooming.ConfigurationError, match="start=a state"):
        learn_against(zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", start="uniform")),
                      optimal, 1, states)  # fmt: skip
