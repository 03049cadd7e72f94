"""Shared by several test files: agents, a small environment that may misbehave, comparisons."""

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import zooming
from zooming.agents.training.replay import Transitions
from zooming.kernels import IS_JIT_DISABLED
from zooming.testing import knowledge as knowledge  # for other test files

AGENTS = {
    "AdaptiveQ": zooming.AdaptiveQ,
    "as_published": lambda env, **options: zooming.AdaptiveQ.as_published(env, 0.5, **options),
    "NetQ": lambda env, **options: zooming.NetQ(env, spacing=0.3, **options),
    "MetricQ": lambda env, **options: zooming.MetricQ(env, zooming.metrics.LInf(5), **options),
    "Random": zooming.Random,
    "NoMovement": zooming.NoMovement,
    "Median": zooming.Median,
}
if not IS_JIT_DISABLED:  # without compilation, one plan takes seconds
    AGENTS["Planner"] = zooming.Planner
BOXES = ("AdaptiveQ", "as_published", "NetQ")
# One agent of boxes, one of balls, one heuristic: enough for a promise that code shared by all
# agents of a kind keeps.
KINDS = ("AdaptiveQ", "MetricQ", "Median")
LEARNERS = ("AdaptiveQ", "MetricQ")


class Drift(gym.Env):
    """A Gymnasium environment whose state drifts to the action.

    `flaw(step, state, reward)` returns the state and reward that `step` gives, to test bad output.
    """

    def __init__(self, low=0.0, high=1.0, n_steps=3, flaw=None):
        self.observation_space = self.action_space = gym.spaces.Box(low, high, (2,), np.float64)
        self.n_steps, self.flaw = n_steps, flaw or (lambda step, state, reward: (state, reward))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        low, high = self.observation_space.low, self.observation_space.high
        self.step_now, self.state = 0, low + self.np_random.random(2) * (high - low)
        return self.state, {}

    def step(self, action):
        low, high = self.observation_space.low, self.observation_space.high
        noise = low + self.np_random.random(2) * (high - low)
        self.state = np.clip(0.7 * self.state + 0.2 * action + 0.1 * noise, low, high)
        reward = float(self.np_random.random())
        state, reward = self.flaw(self.step_now, self.state, reward)
        self.step_now += 1
        return state, reward, self.step_now >= self.n_steps, False, {}


def oil(**options):
    return gym.make("zooming/Oil-v0", **options)


def ambulance(**options):
    return gym.make("zooming/Ambulance-v0", **options)


class Boxes(gym.Env):
    """An environment with spaces but no dynamics."""

    def __init__(self, state, action):
        self.observation_space, self.action_space = state, action


class Chance(Boxes):
    """Next states are drawn from the space, and the reward is `pay(action)`."""

    def __init__(self, state, action, pay):
        super().__init__(state, action)
        self.pay = pay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), self.pay(action), False, False, {}


def box(*bounds, dtype=np.float64):
    """Return a Box with (low, high) per axis."""
    low, high = np.array(bounds, dtype).T
    return gym.spaces.Box(low, high, dtype=dtype)


def change(log, row, column, value):
    """Return a log with another value in one place."""
    numbers = log[column].to_list()
    numbers[row] = value
    return log.with_columns(pl.Series(column, numbers, strict=False))


def words(text):
    """Return the words of a command line."""
    return text.split()


def same_history(one, other):
    """Return whether two histories are equal to the last bit."""
    return (
        one.returns.tobytes() == other.returns.tobytes()
        and one.n_balls.tobytes() == other.n_balls.tobytes()
    )


def assert_drivers_agree(make, episodes):
    """Let both drivers train an agent of `make()`, assert that they did the same, return a run."""
    fused, python = (make() for _ in range(2))
    history = fused.learn(episodes, driver="fused")
    assert same_history(history, python.learn(episodes, driver="python"))
    assert knowledge(fused) == knowledge(python)
    return history


def recorded(env, n_episodes, seed=0, horizon=4):
    """Return transitions of random states and actions; some episodes end early."""
    axes, rng = zooming.Random(env, horizon=horizon, seed=0).axes, np.random.default_rng(seed)
    env.observation_space.seed(seed)
    env.action_space.seed(seed)
    rows = []
    for _ in range(n_episodes):
        state = axes.states.flat(env.observation_space.sample(), "state")
        for step in range(horizon):
            after = axes.states.flat(env.observation_space.sample(), "state")
            action = axes.actions.flat(env.action_space.sample(), "action")
            ends = bool(rng.random() < 0.1)
            rows.append((step, state, action, rng.random(), after, ends))
            state = after
            if ends:
                break
    return Transitions(*(np.array(column) for column in zip(*rows, strict=True)))


# --- compiled problems ----------------------------------------------------------------------------

OBSERVED = [0.1, 0.1, 0.8]
OPTIONS = [
    ("zooming/Oil-v0", {}),
    ("zooming/Oil-v0", {"survey": "quadratic", "sharpness": 10.0, "noise": 0.1, "dims": 3,
     "start": "uniform", "horizon": 7}),
    ("zooming/Oil-v0", {"dims": 2, "center": [0.2, 0.9], "start": [0.1, 0.4]}),
    ("zooming/Ambulance-v0", {}),
    ("zooming/Ambulance-v0", {"arrivals": "uniform", "travel_weight": 1.0}),
    ("zooming/Ambulance-v0", {"arrivals": "shifting", "n_ambulances": 2, "horizon": 8,
     "start": "uniform"}),
    ("zooming/Ambulance-v0", {"arrivals": np.array(OBSERVED), "n_ambulances": 3,
     "start": [0.1, 0.5, 0.9]}),
    ("zooming/Ambulance-v0", {"arrivals": ["beta", "uniform", OBSERVED], "horizon": 3}),
]  # fmt: skip


def stock(state, action, step, params, rng, next_state):
    """Order up to a level, sell what is asked for, pay for what is left."""
    level = max(state[0], action[0])
    sold = min(level, rng.random() * 10.0)
    next_state[0] = level - sold
    return (params[0] * sold - (level - state[0]) - 0.1 * next_state[0]) / 60.0 + 0.4


def stock_env(**options):
    box = gym.spaces.Box(0.0, 10.0, (1,), np.float64)
    return zooming.compiled_env(stock, box, box, horizon=6, start=[2.0], params=[3.0], **options)


def play_alike(agent, plain, episodes):
    """Let both learn from the agent's episodes; assert that they choose the same actions."""
    env = agent.env
    env.reset(seed=0)
    for _ in range(episodes):
        state, _ = env.reset()
        for step in range(agent.horizon):
            action = agent.act(step, state)
            assert action == pytest.approx(plain.act(step, state.tolist()), abs=1e-12)
            after, reward, *_ = env.step(action)
            agent.update(step, state, action, reward, after)
            plain.update(step, state.tolist(), action.tolist(), reward, after.tolist())
            state = after
