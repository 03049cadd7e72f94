"""Ready-made callbacks for `learn(callback=...)`: checkpoints and evaluation.

A callback is any function `callback(agent, history)`. `history` holds the episodes of this call of
learn() so far. Returning False ends the run. A callback with an attribute `every` is called after
every so many episodes of the agent, and after the last episode of the run. If a callback has a
method `check_agent(agent)`, learn() calls it first, and it may raise an error. A callback may use
the agent's environment and save the agent without changing the run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zooming.agents.files.container import writable_path
from zooming.agents.training.history import History
from zooming.analysis.evaluate import Evaluation, evaluate
from zooming.validation import check_int

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent

__all__ = ["Checkpoint", "Evaluate"]


def _check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path. Raise OSError now, not in the run, if no file can be written there."""
    writable_path(path)
    return Path(path)


class Checkpoint:
    """Save the agent regularly, so that a killed run can continue from the file.

    Parameters
    ----------
    path : str or PathLike
        The file, written atomically. "{episodes}" in it becomes the number of episodes.
    every : int, default 1000
        Number of episodes between two calls.

    Examples
    --------
    >>> import gymnasium as gym, tempfile, zooming
    >>> folder = tempfile.mkdtemp()
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> keep = zooming.callbacks.Checkpoint(f"{folder}/oil-{{episodes}}.zoom", every=100)
    >>> history = agent.learn(250, callback=keep)
    >>> sorted(os.listdir(folder))
    ['oil-100.zoom', 'oil-200.zoom', 'oil-250.zoom']
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 1000) -> None:
        self.path, self.every = _check_path(path), check_int(every, "every", 1)

    def check_agent(self, agent: Agent) -> None:
        """Raise ConfigurationError if the agent cannot be saved."""
        agent.check_savable()

    def __call__(self, agent: Agent, history: History) -> None:
        agent.save(str(self.path).replace("{episodes}", str(agent.n_episodes)))


class Evaluate:
    """Evaluate the greedy policy regularly and keep the best agent in a file.

    The results are in `evaluations`. `n_episodes` has the number of episodes before each result.

    Parameters
    ----------
    env : gymnasium.Env, optional
        Environment to evaluate on. By default the agent's. Give a separate one if it keeps
        state from one episode to the next.
    every : int, default 1000
        Number of episodes between two calls.
    episodes : int, default 100
        Episodes of each evaluation, at least 2.
    exact : bool, default False
        Compute the exact value instead of playing episodes, see `zooming.evaluate`.
    seed : int, default 0
        Seed of each evaluation.
    best : str or PathLike, optional
        File for the agent with the best mean so far.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> look = zooming.callbacks.Evaluate(every=1000, exact=True)
    >>> history = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(2000, callback=look)
    >>> look.n_episodes, [round(evaluation.mean, 2) for evaluation in look.evaluations]
    ([1000, 2000], [4.69, 4.72])
    """

    def __init__(
        self,
        env: Any = None,
        every: int = 1000,
        *,
        episodes: int = 100,
        exact: bool = False,
        seed: int = 0,
        best: str | os.PathLike[str] | None = None,
    ) -> None:
        self.env, self.every, self.exact = env, check_int(every, "every", 1), exact
        self.episodes = check_int(episodes, "episodes", 2)
        self.seed = check_int(seed, "seed", 0, most=None)
        self.best = None if best is None else _check_path(best)
        self.n_episodes: list[int] = []
        self.evaluations: list[Evaluation] = []

    def check_agent(self, agent: Agent) -> None:
        """Raise ConfigurationError if `best` is given and the agent cannot be saved."""
        if self.best is not None:
            agent.check_savable()

    def __call__(self, agent: Agent, history: History) -> None:
        env = agent.env if self.env is None else self.env
        found = evaluate(agent, env, self.episodes, seed=self.seed, exact=self.exact)
        if self.best is not None and all(found.mean > earlier.mean for earlier in self.evaluations):
            agent.save(self.best)
        self.n_episodes.append(agent.n_episodes)
        self.evaluations.append(found)
