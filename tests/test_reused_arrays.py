"""Environments that fill the same arrays anew at each step: what is learned is the same."""

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import AGENTS, knowledge
from zooming.kernels import IS_JIT_DISABLED


def guided(env, **options):
    agent = zooming.AdaptiveQ(env, **options)
    agent.warm_start(lambda step, state: [0.5], 40)
    return agent


AGENTS = {**AGENTS, "TreeQ": zooming.TreeQ, "RandomizedQ": zooming.RandomizedQ, "guided": guided}
if not IS_JIT_DISABLED:  # without compilation, one plan takes seconds
    AGENTS |= {"Auto": zooming.Auto, "AdaptiveMB": zooming.AdaptiveMB}


class Reused(gym.Env):
    """A random walk that returns one array, a dict or a list again and again, or copies."""

    action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)

    def __init__(self, form="array", is_copied=False):
        self.form, self.is_copied = form, is_copied
        self.state = np.zeros(1)
        self.kept = {"array": self.state, "dict": {"x": self.state}, "tuple": (self.state,)}[form]
        spaces = {"array": self.box, "dict": gym.spaces.Dict(x=self.box)}
        self.observation_space = spaces.get(form, gym.spaces.Tuple([self.box]))

    def observe(self):
        self.state[:] = self.np_random.random()
        if not self.is_copied:
            return self.kept
        x = self.state.copy()
        return {"array": x, "dict": {"x": x}, "tuple": (x,)}[self.form]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_now = 0
        return self.observe(), {}

    def step(self, action):
        self.step_now += 1
        reward = float(1.0 - abs(action[0] - self.state[0]))
        return self.observe(), reward, False, self.step_now >= 4, {}


def learned(make, form, is_copied):
    """Return the returns of 30 episodes and what was learned from them."""
    agent = make(Reused(form, is_copied), horizon=4, seed=0)
    returns = agent.learn(30).returns
    return returns.tobytes(), knowledge(agent)


@pytest.mark.plain
@pytest.mark.parametrize("name", [*AGENTS])
def test_an_array_that_is_filled_anew_teaches_what_copies_teach(name):
    assert learned(AGENTS[name], "array", False) == learned(AGENTS[name], "array", True)


@pytest.mark.plain
@pytest.mark.parametrize("form", ["dict", "tuple"])
def test_arrays_within_an_observation_are_copied(form):
    make = zooming.TreeQ
    assert learned(make, form, False) == learned(make, form, True)


@pytest.mark.plain
def test_record_evaluate_and_a_rule_see_each_state_once():
    seen = []

    def rule(step, observation):
        seen.append(observation["x"])
        return observation["x"].copy()

    logs, values = [], []
    for is_copied in (False, True):
        env = Reused("dict", is_copied)
        logs.append(zooming.record(env, rule, episodes=3, horizon=4, seed=0))
        values.append(zooming.evaluate(rule, env, episodes=3, horizon=4, seed=0).returns.tolist())
    assert logs[0].equals(logs[1])
    assert values[0] == values[1]
    n = len(seen) // 2
    assert [float(x[0]) for x in seen[:n]] == [float(x[0]) for x in seen[n:]]
