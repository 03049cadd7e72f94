"""What the learned policy is worth: sampled with a confidence interval, or exact on a grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import Agent
from zooming.errors import SpaceError
from zooming.intervals import mean_interval
from zooming.optimal import Grid, solvable

EXACT_RESOLUTION = {1: 400, 2: 40, 3: 12}  # cells per state axis


@dataclass(frozen=True)
class Evaluation:
    """The expected return of the greedy policy, between `low` and `high`.

    Sampled: a 95 % confidence interval over the episodes. Exact: the difference to half the resolution on both sides.
    """

    mean: float
    low: float
    high: float
    exact: bool
    returns: NDArray[np.float64] = field(repr=False)  # of the sampled episodes; empty if exact

    def __str__(self) -> str:
        how = "on a grid" if self.exact else f"95% interval over {len(self.returns)} episodes"
        return f"{self.mean:.4f} ({self.low:.4f} to {self.high:.4f}, {how})"


def evaluate(
    agent: Agent, env: Any, episodes: int = 1000, *, seed: int = 0, exact: bool = False, resolution: int | None = None
) -> Evaluation:
    """The value of the agent's greedy policy (`predict`) from the environment's start; learning is not touched.

    Sampled over `episodes` in `env`, or, for compiled environments with known outcomes, `exact`: without chance by playing
    the one episode there is, else by backward induction over the policy on a grid of `resolution` cells per state axis.

    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0")
    >>> agent = zooming.AdaptiveQ(env, seed=0)
    >>> history = agent.learn(2000)
    >>> print(zooming.evaluate(agent, env, exact=True))
    4.7189 (4.7189 to 4.7189, on a grid)
    """
    if not exact:
        if episodes < 2:
            raise SpaceError(f"episodes={episodes}: an interval needs at least two")
        returns = _play(agent, env, episodes, seed)
        interval = mean_interval(returns)
        return Evaluation(interval.mean, interval.low, interval.high, False, returns)
    inner = solvable(env)
    if all(len(inner.outcomes(step, 2)[1]) == 1 for step in range(inner.horizon)):
        starts, weights = inner.start_states(4096)
        mean = float(sum(w * _play_out(agent, inner, start) for start, w in zip(starts, weights, strict=True)))
        return Evaluation(mean, mean, mean, True, np.empty(0))
    cells = resolution or EXACT_RESOLUTION[inner.observation_space.shape[0]]
    if cells < 4:
        raise SpaceError(f"resolution={cells} is too small: give at least 4 cells per axis")
    rough, mean = (_policy_value(agent, inner, n) for n in (cells // 2, cells))
    return Evaluation(mean, mean - abs(mean - rough), mean + abs(mean - rough), True, np.empty(0))


def _play(agent: Agent, env: Any, episodes: int, seed: int) -> NDArray[np.float64]:
    returns = np.zeros(episodes)
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        state = None
        for _ in range(agent.horizon):
            action, state = agent.predict(observation, state=state)
            observation, reward, terminated, truncated, _ = env.step(action)
            returns[episode] += float(reward)
            if terminated or truncated:
                break
    return returns


def _play_out(agent: Agent, env: Any, state: NDArray[np.float64]) -> float:
    total, after = 0.0, np.empty_like(state)
    for step in range(min(agent.horizon, env.horizon)):
        action = np.array(agent.predict(state, state=[step])[0], np.float64)
        total += float(env.given(state, action, step, env.params, env.outcomes(step, 1)[0][0], after))
        state, after = after.copy(), np.empty_like(state)
    return total


def _policy_value(agent: Agent, env: Any, resolution: int) -> float:
    grid = Grid(env, resolution)
    for step in reversed(range(min(agent.horizon, env.horizon))):
        actions, _ = agent.predict(grid.states, state=np.full(len(grid.states), step))
        grid.values[step], _ = grid.backup(step, grid.states, np.ascontiguousarray(actions, np.float64), search=0)
    return grid.mean_start_value()
