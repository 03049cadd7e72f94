"""Compute what the claims of the paper compare: returns, balls, time, best policy on a net."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from zooming.plots.curve_data import Runs
from zooming.validation import Floats

if TYPE_CHECKING:
    from zooming.app.paper.sweep import Evidence

N_TRAINED = 10  # runs that are trained again, for partitions, actions played and time
CLOSE = 0.05  # share of the optimum: a closer return counts as learned
SHORT = 0.01  # share of the optimum: a closer return is near-optimal, others are suboptimal


def final_returns(evidence: Evidence, name: str) -> Floats:
    """Return the mean return of each seed over about the last tenth of the episodes."""
    runs = evidence.runs[name]
    first = int(np.argmin(np.abs(runs.episode[:-1] - 0.9 * runs.episode[-1])))
    per_episode: Floats = (runs.total_return[:, -1] - runs.total_return[:, first]) / (
        runs.episode[-1] - runs.episode[first]
    )
    return per_episode


def best_on_net(evidence: Evidence) -> float:
    """Return the largest return of a policy whose actions are points of the net.

    The problem must be deterministic with x' = a.
    """
    env, net = (
        evidence.figure.preset.make().unwrapped,
        evidence.choices["net"].make(evidence.figure.preset.make(), 0),
    )
    points = _points(net)
    start, next_state = env.start_states(1)[0][0], np.empty(1)
    values = np.zeros(len(points))
    for step in reversed(range(env.horizon)):
        outcome = env.outcomes(step, 1)[0][0]
        states = points if step else start
        rewards = [
            [
                env.given(np.array([x]), np.array([a]), step, env.params, outcome, next_state)
                for a in points
            ]
            for x in states
        ]
        values = (np.array(rewards) + values).max(axis=1)
    return float(values[0])


def _points(net: Any) -> Floats:
    """Return the actions that a net on the unit interval plays."""
    low, high = (np.unique(side[:, 1]) for side in (net.partition(0).low, net.partition(0).high))
    points: Floats = (
        np.arange(len(low)) * net.spacing if net.points == "multiples" else (low + high) / 2
    )
    return points


class _Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper that records every (step, state, action)."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.played: list[tuple[float, float, float]] = []

    def reset(self, **options: Any) -> Any:
        found = self.env.reset(**options)
        self._step, self._state = 0, float(found[0][0])
        return found

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        self.played.append((self._step, self._state, float(action[0])))
        self._step, self._state = self._step + 1, float(found[0][0])
        return found


def n_cells_played(evidence: Evidence, name: str, run: int) -> int:
    """Return in how many cells of the net, over all steps, an agent played in one run."""
    points = _points(evidence.choices["net"].make(evidence.figure.preset.make(), 0))
    recorder = _Recorder(evidence.figure.preset.make())
    evidence.agent(name, run, recorder).learn(evidence.episodes, driver="python")
    played = np.array(recorder.played)
    cells = [np.abs(played[:, i, None] - points).argmin(axis=1) for i in (1, 2)]
    return len(np.unique(np.stack([played[:, 0], *cells], axis=1), axis=0))


def training_seconds(evidence: Evidence, name: str, run: int) -> float:
    evidence.agent(name, run).learn(1)  # compiles or loads the cache
    agent, began = evidence.agent(name, run), time.process_time()
    agent.learn(evidence.episodes)
    return time.process_time() - began


def paper_runs(evidence: Evidence) -> dict[str, Runs]:
    """Return the runs of the agents that the paper compares."""
    return {
        name: runs
        for name, runs in evidence.runs.items()
        if name in ("adaptive", "net", "no-movement", "median")
    }


def allowed_gap(evidence: Evidence) -> float:
    return SHORT * abs(evidence.optimal.return_)


def n_trained(evidence: Evidence) -> int:
    """Return how many runs are trained again, to examine their partitions."""
    return min(N_TRAINED, evidence.runs["adaptive"].n_seeds)
