"""Choose the checkpoints of a run: episodes at which curves are stored and policies valued."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.agent import Agent
from zooming.agents.history import History
from zooming.analysis.evaluate import evaluate
from zooming.errors import ZoomingError

N_CHECKPOINTS = 60
N_VALUES = 16  # checkpoints of a run whose policies are valued
# Outcomes per step for one state axis. On the paper's problems, the values are within 0.003 of
# those with the 400 outcomes of `evaluate`, in a twentieth of the time.
N_OUTCOMES = 64


def checkpoint_episodes(episodes: int, n: int = N_CHECKPOINTS) -> NDArray[np.int64]:
    """Return about `n` episodes, denser at the beginning. The last episode is included."""
    even = np.linspace(1, episodes, n // 2)
    early = np.geomspace(1, episodes, n // 2)
    return np.unique(np.round(np.concatenate([even, early])).astype(np.int64))


def learn_valued(agent: Agent, env: Any, episodes: int) -> tuple[History, list[float], float]:
    """Train an agent, and value its policy exactly on `env` at N_VALUES checkpoints.

    Return (history, values, processor seconds of learning). The history equals that of
    `agent.learn(episodes)`. The list of values is empty if the policy cannot be valued exactly.
    """
    seconds = 0.0
    resolution = N_OUTCOMES if env.observation_space.shape == (1,) else None
    history, values, is_valued = History(np.empty(0), np.empty(0, np.int64)), list[float](), True
    for episode in checkpoint_episodes(episodes, N_VALUES).tolist():
        began = time.process_time()
        history += agent.learn(episode - agent.n_episodes)
        seconds += time.process_time() - began
        try:
            if is_valued:
                found = evaluate(agent, env, exact=True, resolution=resolution)
                values.append(float(found.mean))
        except (ZoomingError, TypeError):
            values, is_valued = [], False
    return history, values, seconds
