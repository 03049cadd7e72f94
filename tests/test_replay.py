"""Learning from recorded transitions equals an update of each, to the last bit."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, box, knowledge, recorded
from zooming.agents.training.replay import Transitions, update_each
from zooming.kernels import IS_JIT_DISABLED

pytestmark = pytest.mark.kernels

HORIZON = 4


SPACES = {
    "plain": Boxes(box((0.0, 1.0), (-1.0, 3.0)), box((0.0, 2.0))),
    "float32": Boxes(box((0.0, 1.0), dtype=np.float32), box((-2.0, 2.0), dtype=np.float32)),
    "mixed": Boxes(
        gym.spaces.Dict({"speed": box((0.0, 1.0)), "gear": gym.spaces.Discrete(3, start=1)}),
        gym.spaces.Discrete(2),
    ),
}
DOUBLING = zooming.bonuses.Doubling(zooming.bonuses.Exact())
AGENTS = {
    "AdaptiveQ": zooming.AdaptiveQ,
    "few balls": partial(zooming.AdaptiveQ, max_balls=60),
    "longest": partial(zooming.AdaptiveQ, split="longest"),
    "doubling": partial(zooming.AdaptiveQ, bonus=DOUBLING),
    "bounded": partial(zooming.AdaptiveQ, bounds={"state[0]": (0.2, 0.7)}),
    "NetQ": partial(zooming.NetQ, spacing=0.3),
    "TreeQ": zooming.TreeQ,
    "tree per step": partial(zooming.TreeQ, shared=False, split="longest"),
    "MetricQ": partial(zooming.MetricQ, metric=zooming.metrics.LInf(3)),
    "lazy": partial(zooming.MetricQ, metric=zooming.metrics.LInf(3), lazy=True),
}

if not IS_JIT_DISABLED:  # without compilation, one plan takes seconds
    AGENTS["Planner"] = zooming.Planner


@pytest.mark.plain
@pytest.mark.parametrize(("spaces", "kind"), [
    *(("plain", kind) for kind in AGENTS if kind not in ("MetricQ", "lazy")),
    ("float32", "AdaptiveQ"),
    ("float32", "MetricQ"),
    ("float32", "lazy"),
    ("mixed", "AdaptiveQ"),
    ("mixed", "NetQ"),
    ("mixed", "TreeQ"),
    *(("mixed", kind) for kind in AGENTS if kind == "Planner"),
])  # fmt: skip
def test_learning_from_a_record_equals_an_update_of_each(spaces, kind):
    given = recorded(SPACES[spaces], 60)
    one, other = (AGENTS[kind](SPACES[spaces], horizon=HORIZON, seed=1) for _ in range(2))
    one.learn_transitions(Transitions(*(column[:100] for column in given)))
    one.learn_transitions(Transitions(*(column[100:] for column in given)))
    update_each(other, given)
    assert one.n_episodes == 60
    assert knowledge(one) == knowledge(other)


def test_an_agent_without_a_table_is_updated_one_by_one():
    env, heard = SPACES["plain"], []

    class Listener(zooming.Random):
        def update(self, step, observation, action, reward, next_observation, terminated=False):
            heard.append((step, *observation, *action, reward, *next_observation, terminated))

    given = recorded(env, 3)
    Listener(env, horizon=HORIZON, seed=0).learn_transitions(given)
    assert heard == [
        (int(s), *x, *a, float(r), *y, bool(t)) for s, x, a, r, y, t in zip(*given, strict=True)
    ]


def test_a_bad_transition_is_named_and_those_before_it_are_learned():
    env = SPACES["plain"]
    for column, value, sentence in (
        ("rewards", 1.5, "step 1: reward 1.5 is outside"),
        ("rewards", np.nan, "step 1: reward nan is outside"),
        ("next_states", 7.0, r"step 1: next state\[0\] = 7.0 is outside"),
        ("actions", -7.0, r"step 1: action\[0\] = -7.0 is outside"),
    ):
        given = recorded(env, 3)
        getattr(given, column)[1] = value
        agent, other = (zooming.AdaptiveQ(env, horizon=HORIZON, seed=0) for _ in range(2))
        with pytest.raises(zooming.TransitionError, match=sentence):
            agent.learn_transitions(given)
        update_each(other, Transitions(*(column[:1] for column in given)))
        assert knowledge(agent) == knowledge(other)
    given = recorded(env, 3)
    given.steps[5] = HORIZON
    with pytest.raises(zooming.TransitionError, match="step 4 is outside the episode"):
        zooming.AdaptiveQ(env, horizon=HORIZON, seed=0).learn_transitions(given)
    with pytest.raises(zooming.ConfigurationError, match="one row of 2 numbers each"):
        zooming.AdaptiveQ(env, horizon=HORIZON, seed=0).learn_transitions(
            given._replace(steps=given.steps * 0, states=given.states[:, :1])
        )


def test_rewards_outside_the_range_are_clipped_and_counted():
    env = SPACES["plain"]
    given = recorded(env, 10)
    given.rewards[3:6] = [1.5, -0.5, 1.0]
    one, other = (zooming.AdaptiveQ(env, horizon=HORIZON, rewards="clip", seed=0) for _ in range(2))
    for agent, learn in ((one, one.learn_transitions), (other, lambda it: update_each(other, it))):
        with pytest.warns(UserWarning, match="was clipped"):
            learn(given)
        assert agent.n_clipped == 2
    assert knowledge(one) == knowledge(other)
