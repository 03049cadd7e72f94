"""Chunks: the units in which a study computes and stores its runs.

A chunk is one problem, one agent and a block of seeds. Its content depends on the configuration
only. So a study gives the same files for any number of workers, any order and any engine.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.agents.training.history import History
from zooming.agents.training.many import learn_many
from zooming.analysis.evaluate import evaluate
from zooming.errors import ConfigurationError, ZoomingError
from zooming.lab.study.problems import AgentChoice, Problem, json_default

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


WARM_UP = 20  # episodes; some kernels are first called after several
FINAL_VALUE = "final_value"  # name of the array of sampled values


@dataclass(frozen=True)
class Chunk:
    """The runs of one agent on one problem with the seeds from `first` to `last` - 1.

    The policies of the first `n_valued` runs are valued exactly. The final policies of all runs are
    valued on `value_episodes` sampled episodes.
    """

    problem: Problem
    agent: AgentChoice
    episodes: int
    first: int
    last: int
    entropy: int
    stream: str
    n_valued: int = 0
    value_episodes: int = 0

    @property
    def name(self) -> str:
        """The file name, readable and unique for each chunk."""
        what = [asdict(self.problem), asdict(self.agent), self.episodes, self.entropy, self.stream]
        what += [self.n_valued] if self.n_valued else []
        what += [f"value {self.value_episodes}"] if self.value_episodes else []
        name = file_name(f"{self.problem.name}--{self.agent.label}", what)
        return f"{name}--{self.first:05d}-{self.last:05d}"

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return self.last - self.first

    def warm_up(self) -> None:
        """Play a few episodes, so that compilation does not count as time of a run."""
        few = WARM_UP if self.problem.env_id.startswith("zooming/") else 1
        replace(
            self,
            episodes=min(few, self.episodes),
            last=self.first + 1,
            value_episodes=min(self.value_episodes, 1),
        ).run()

    def run(self, n_threads: int = 1) -> dict[str, NDArray[Any]]:
        """Train the agents. Return totals per run, and curves per run and checkpoint."""
        return self.measure(self.learn(n_threads)[0])

    def learn(self, n_threads: int = 1) -> tuple[list[tuple[History, list[float]]], float]:
        """Train the agents. Return (runs, processor seconds of learning in all runs).

        A run is its history and, if asked for, the exact values of its policies. Learning is timed
        in the runs that are not valued, if there are some: values take longer than a run, and
        pauses for them make it slower.
        """
        run_seeds = [
            seeds.derive_seed(self.entropy, f"{self.stream} {i}")
            for i in range(self.first, self.last)
        ]
        # The engines start one process per core, so each uses one thread.
        with self._name_errors():
            env, make = self.problem.make(), partial(self.agent.make, episodes=self.episodes)
            valued = [
                learn_valued(make(self.problem.make(), seed), env, self.episodes)
                for seed in run_seeds[: self.n_valued]
            ]
            began = time.process_time()
            others = learn_many(
                make, env, run_seeds[self.n_valued :], self.episodes, n_workers=n_threads
            )
            seconds = time.process_time() - began
        runs = [(history, values) for history, values, _ in valued]
        runs += [(history, list[float]()) for history in others]
        if not others:
            return runs, sum(one for *_, one in valued)
        return runs, seconds * len(runs) / len(others)

    def measure(self, runs: list[tuple[History, list[float]]]) -> dict[str, NDArray[Any]]:
        """Return the arrays of the chunk, computed from the output of `learn`."""
        histories = [history for history, _ in runs]
        episodes = checkpoint_episodes(self.episodes)
        totals = [np.cumsum(history.returns) for history in histories]
        tail = max(1, self.episodes // 10)
        values = [found for _, found in runs if found]
        n_points = len(checkpoint_episodes(self.episodes, N_VALUES))
        policy_values = {"policy_values": np.array(values).reshape(len(values), n_points)}
        return {
            **(policy_values if self.n_valued else {}),
            **({FINAL_VALUE: self._final_values(histories)} if self.value_episodes else {}),
            "seed": np.arange(self.first, self.last),
            "final_return": np.array([history.returns[-tail:].mean() for history in histories]),
            "total_return": np.array([total[-1] for total in totals]),
            "n_balls": np.array([history.agent.n_balls for history in histories]),
            "nbytes": np.array([history.agent.nbytes for history in histories]),
            "n_clipped": np.array([history.n_clipped for history in histories]),
            "horizon": np.array([history.agent.horizon for history in histories]),
            "curve_episode": episodes,
            "curve_total": np.array([total[episodes - 1] for total in totals]),
            "curve_n_balls": np.array([history.n_balls[episodes - 1] for history in histories]),
        }

    def _final_values(self, histories: list[History]) -> NDArray[np.float64]:
        """Return the value of each final policy on sampled episodes.

        Run k of every agent plays the same episodes. Other runs play other episodes.
        """
        with self._name_errors():
            env = self.problem.make()
            return np.array([
                evaluate(
                    history.agent,
                    env,
                    max(2, self.value_episodes),
                    seed=seeds.derive_seed(self.entropy, f"{self.stream} {i} value"),
                ).mean
                for i, history in enumerate(histories, self.first)
            ])  # fmt: skip

    def _name_errors(self) -> AbstractContextManager[None]:
        """Prefix the errors of the `with` block with the agent and the problem."""
        return prefix_errors(
            f"{self.agent.label} on {self.problem.name}", self.agent.kind, ours=(ZoomingError,)
        )


@contextmanager
def prefix_errors(
    where: str,
    kind: str | None = None,
    ours: tuple[type[Exception], ...] = (TypeError, ValueError, gym.error.Error),
) -> Iterator[None]:
    """Prefix the errors of the `with` block with `where`.

    If a message tells the user to set an option in Python, append how to set it in a study.
    """
    try:
        yield
    except ours as error:
        hint = ""
        if kind is not None and "max_episode_steps=" in str(error):
            hint = f" (here: --set max_episode_steps=N for the problem, or {kind}:horizon=N)"
        elif kind is not None and "reward_range=(low, high)" in str(error):
            hint = f" (here: '{kind}:reward_range=(low,high)' for the agent)"
        elif kind is not None and re.search(r"\bgive\b.*\w=", str(error), re.IGNORECASE):
            hint = f" (here: {kind}:option=value for the agent, --set option=value for the problem)"
        raise (type(error) if isinstance(error, ZoomingError) else ConfigurationError)(
            f"{where}: {error}{hint}"
        ) from error


def file_name(readable: str, content: Any) -> str:
    """Return a file name made of a readable text and a digest of the content."""
    digest = hashlib.sha256(
        json.dumps(content, default=json_default, sort_keys=True).encode()
    ).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._=-]+', '_', readable)[:80]}--{digest}"
