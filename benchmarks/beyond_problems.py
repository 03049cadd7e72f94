"""Problems of `beyond.py`: narrow peaks, control, six axes, a law that changes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import zooming

HORIZON = 5
NEEDLE, TWIN = 50.0, 30.0  # sharpness of a needle, and of each of two peaks
LOWER = 0.6  # height of the lower peak
APART = 0.25  # least distance of two peaks


class Peaked(NamedTuple):
    """A problem with a narrow peak, the place of the peak, and the optimal value."""

    env: Any
    peak: float
    best: float


def needle(seed: int) -> Peaked:
    """Return the oil problem with a sharp peak at a random place."""
    peak = float(np.random.default_rng(seed).uniform())
    env = gym.make("zooming/Oil-v0", sharpness=NEEDLE, center=peak, horizon=HORIZON)
    return Peaked(env, peak, oil_value(abs(0.5 - peak)))


def two_peaks(seed: int) -> Peaked:
    """Return the oil problem with a high and a lower peak at random places."""
    rng = np.random.default_rng(seed)
    high, low = rng.uniform(size=2)
    while abs(high - low) < APART:
        high, low = rng.uniform(size=2)
    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    env = zooming.compiled_env(
        twin_oil, box, box, HORIZON, start=0.5, params=[high, low], reward_range=(0.0, 1.0),
        name="two peaks",
    )  # fmt: skip
    return Peaked(env, float(high), oil_value(abs(0.5 - high)))


def twin_oil(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Write the next state and return the reward: the higher of two peaks, minus the way."""
    next_state[0] = action[0]
    found = max(
        math.exp(-TWIN * abs(action[0] - params[0])),
        LOWER * math.exp(-TWIN * abs(action[0] - params[1])),
    )
    return max(0.0, found - abs(state[0] - action[0]))


def oil_value(way: float, sharpness: float | None = None) -> float:
    """Return the optimal value of the oil problem at this distance from the start to the peak.

    With the quadratic survey, it pays to stop 1 / (2 H sharpness) short of the peak.
    """
    spared = 0.0 if sharpness is None else 1.0 / (4.0 * HORIZON * sharpness)
    return HORIZON - way + spared


class Six(NamedTuple):
    """Options of an oil problem with three state and three action axes, and its optimal value."""

    options: dict[str, Any]
    best: float


PEAK = (0.31, 0.7071, 0.58)
WAY = float(np.mean(np.abs(np.array(PEAK) - 0.5)))
SIX = {
    "oil-laplace-5": Six({"sharpness": 5.0}, oil_value(WAY)),
    "oil-quadratic-10": Six({"survey": "quadratic", "sharpness": 10.0}, oil_value(WAY, 10.0)),
}


def make_six(name: str) -> Any:
    """Return the environment of an entry of `SIX`."""
    return gym.make("zooming/Oil-v0", dims=3, center=PEAK, **SIX[name].options)


class Task(NamedTuple):
    """A control problem of Gymnasium with action repeat, and the bounds of its unbounded axes."""

    repeat: int
    steps: int  # of the environment, an episode
    bounds: dict[str, tuple[float, float]] | None = None

    @property
    def horizon(self) -> int:
        return math.ceil(self.steps / self.repeat)


CARTPOLE = {"state[1]": (-3.0, 3.0), "state[3]": (-3.5, 3.5)}  # speeds of cart and pole
CONTROL = {
    "Pendulum-v1": Task(5, 200),
    "CartPole-v1": Task(4, 200, CARTPOLE),
    "MountainCarContinuous-v0": Task(25, 999),
    "Acrobot-v1": Task(10, 500),
}


class Repeat(gym.Wrapper[Any, Any, Any, Any]):
    """Plays every action several times, adds up the rewards, and counts the steps.

    Examples
    --------
    >>> env = Repeat(gym.make("Pendulum-v1"), 5)
    >>> _ = env.reset(seed=0)
    >>> _ = env.step(env.action_space.sample())
    >>> env.n_steps
    5
    """

    def __init__(self, env: Any, repeat: int) -> None:
        super().__init__(env)
        self.repeat, self.n_steps = repeat, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        total = 0.0
        for _ in range(self.repeat):
            observation, reward, ended, cut, info = self.env.step(action)
            total, self.n_steps = total + float(reward), self.n_steps + 1
            if ended or cut:
                break
        return observation, total, ended, cut, info


def make_control(name: str) -> Repeat:
    """Return an environment of `CONTROL`."""
    task = CONTROL[name]
    return Repeat(gym.make(name, max_episode_steps=task.steps), task.repeat)


class Changing(gym.Env[Any, Any]):
    """An environment until `last` episodes have begun, another one from then on."""

    def __init__(self, before: Any, after: Any, last: int) -> None:
        self.before, self.after, self.last, self.n_begun = before, after, last, 0
        self.observation_space, self.action_space = before.observation_space, before.action_space
        self.reward_range = before.unwrapped.reward_range
        self.now = before

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.after.reset(seed=seed)
        self.n_begun += 1
        self.now = self.before if self.n_begun <= self.last else self.after
        found: tuple[Any, dict[str, Any]] = self.now.reset(seed=seed)
        return found

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        found: tuple[Any, float, bool, bool, dict[str, Any]] = self.now.step(action)
        return found


OLD, NEW = 0.7071, 0.23  # the peak before and after the change
CHANGES = {"oil-laplace-10": {}, "oil-laplace-10, noise 0.1": {"noise": 0.1}}


def make_changing(name: str, last: int) -> Changing:
    """Return an oil problem of `CHANGES` whose peak moves after `last` episodes."""
    make = [
        gym.make("zooming/Oil-v0", sharpness=10.0, center=peak, **CHANGES[name])
        for peak in (OLD, NEW)
    ]
    return Changing(*make, last)
