"""Ready-made callbacks for `learn(callback=...)`: checkpoints, evaluation, logs, stopping rules.

A callback is any function `callback(agent, history)`, where `history` has the episodes of this call
of learn() so far. Returning False ends the run. With an attribute `every` it is called after every
so many episodes of the agent and after the last of the run. A method `check_agent(agent)`, if it
has one, is called when learn() starts and may raise an error. A callback may use the agent's
environment and save the agent without changing the run.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zooming.agents.files import writable_path, write_atomically
from zooming.agents.history import History
from zooming.analysis.evaluate import Evaluation, evaluate
from zooming.errors import ConfigurationError
from zooming.validation import check_float, check_int

if TYPE_CHECKING:
    from zooming.agents.agent import Agent

_MONITOR = "monitor.csv"  # ending by which Stable-Baselines3 finds such files
_COLUMNS = "r,l,t"
_SECONDS_APART = 1e-6  # seconds between episodes written together, so that their times are sorted


class Checkpoint:
    """Saves the agent regularly, so that a killed run can continue from the file.

    Parameters
    ----------
    path : str or PathLike
        The file, written atomically. "{episodes}" in it becomes the number of episodes.
    every : int, default 1000
        Call after every so many episodes.

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
        """Raise ConfigurationError when learn() starts if the agent cannot be saved."""
        agent.check_savable()

    def __call__(self, agent: Agent, history: History) -> None:
        agent.save(str(self.path).replace("{episodes}", str(agent.n_episodes)))


class Evaluate:
    """Evaluates the greedy policy regularly and keeps the best agent in a file.

    The results are in `evaluations`, and the agent's episodes at each of them in `n_episodes`.

    Parameters
    ----------
    env : gymnasium.Env, optional
        Environment to evaluate on. By default the agent's; give a separate one if it keeps
        anything from one episode to the next.
    every : int, default 1000
        Call after every so many episodes.
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
        self.episodes, self.seed = (
            check_int(episodes, "episodes", 2),
            check_int(seed, "seed", 0, most=None),
        )
        self.best = None if best is None else _check_path(best)
        self.n_episodes: list[int] = []
        self.evaluations: list[Evaluation] = []

    def check_agent(self, agent: Agent) -> None:
        """Raise ConfigurationError when learn() starts if `best` is given and the agent cannot
        be saved.
        """
        if self.best is not None:
            agent.check_savable()

    def __call__(self, agent: Agent, history: History) -> None:
        env = agent.env if self.env is None else self.env
        found = evaluate(agent, env, self.episodes, seed=self.seed, exact=self.exact)
        if self.best is not None and all(found.mean > earlier.mean for earlier in self.evaluations):
            agent.save(self.best)
        self.n_episodes.append(agent.n_episodes)
        self.evaluations.append(found)


class StopOnReturn:
    """Ends the run when the mean return of the last `window` episodes reaches `least`.

    Parameters
    ----------
    least : float
        Mean return to reach.
    window : int, default 100
        Number of episodes in the mean.
    every : int, default 100
        Call after every so many episodes.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(100_000, callback=zooming.callbacks.StopOnReturn(4.5))
    >>> len(history) < 10_000, bool(history.returns[-100:].mean() >= 4.5)
    (True, True)
    """

    def __init__(self, least: float, window: int = 100, every: int = 100) -> None:
        self.least = check_float(least, "least", -np.inf, np.inf)
        self.window, self.every = check_int(window, "window", 1), check_int(every, "every", 1)

    def __call__(self, agent: Agent, history: History) -> bool:
        return len(history) < self.window or bool(
            history.returns[-self.window :].mean() < self.least
        )


class StopAfter:
    """Ends the run after a time.

    Parameters
    ----------
    seconds : float
        Time since this object was made.
    every : int, default 100
        Call after every so many episodes.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> len(agent.learn(10**7, callback=zooming.callbacks.StopAfter(seconds=0.05))) < 10**7
    True
    """

    def __init__(self, seconds: float, every: int = 100) -> None:
        self.seconds, self.every = (
            check_float(seconds, "seconds", 0.0, np.inf),
            check_int(every, "every", 1),
        )
        self._began = time.monotonic()

    def __call__(self, agent: Agent, history: History) -> bool:
        return time.monotonic() - self._began < self.seconds


class MonitorCSV:
    """Writes return, length and time of every episode in the format of Stable-Baselines3's Monitor.

    `stable_baselines3.common.monitor.load_results` reads the file. An agent that has learned before
    continues an existing file; rows of episodes that it has not played (from a killed run) are
    dropped first. A new agent begins a new file. Column `t` has the seconds from the start of the
    file to the writing.

    Parameters
    ----------
    path : str or PathLike
        A folder, or a file whose name ends in monitor.csv.
    every : int, default 100
        Call after every so many episodes.

    Examples
    --------
    >>> import gymnasium as gym, tempfile, zooming
    >>> folder = tempfile.mkdtemp()
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(250, callback=zooming.callbacks.MonitorCSV(folder))
    >>> comment, columns, *rows = Path(folder, "monitor.csv").read_text().splitlines()
    >>> columns, len(rows), rows[0].split(",")[:2]
    ('r,l,t', 250, ['3.8940039153570245', '5'])
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 100) -> None:
        path = Path(path) / _MONITOR if Path(path).is_dir() else _check_path(path)
        if not path.name.endswith(_MONITOR):
            raise ConfigurationError(
                f"path={str(path)!r}: the name must end in {_MONITOR}, because "
                "Stable-Baselines3 reads only such files"
            )
        self.path, self.every = path, check_int(every, "every", 1)
        self._began = self._written = time.time()
        self._news = _SeenEpisodes()

    def __call__(self, agent: Agent, history: History) -> None:
        first, is_new = self._news.first(agent, history)
        if is_new:
            self._open(agent, len(history))
        now, n = time.time(), len(history) - first
        times = (
            np.linspace(max(self._written, now - n * _SECONDS_APART), now, n + 1)[1:] - self._began
        )
        entries = zip(
            history.returns[first:].tolist(),
            history.n_steps[first:].tolist(),
            times.tolist(),
            strict=True,
        )
        rows = "".join(f"{total!r},{length},{seconds:.7f}\n" for total, length, seconds in entries)
        with writable_path(self.path).open(
            "ab", buffering=0
        ) as file:  # one write of complete lines
            file.write(rows.encode())
        self._written = now

    def _open(self, agent: Agent, n_new: int) -> None:
        n_before = agent.n_episodes - n_new
        writable_path(self.path)  # raises for a pipe, whose reading would never end
        if n_before and self.path.exists():
            lines = self.path.read_text().split("\n")[:-1]  # without an incomplete last row
            try:
                self._began = float(json.loads(lines[0].removeprefix("#"))["t_start"])
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise ConfigurationError(
                    f"{self.path} is not a Monitor file, so it cannot be continued; give another "
                    "path"
                ) from error
            lines = lines[: 2 + n_before]  # two lines of header
        else:
            self._began = time.time() if n_before else self._began
            lines = ["#" + json.dumps({"t_start": self._began, "env_id": agent.env_name}), _COLUMNS]
        write_atomically(self.path, "".join(f"{line}\n" for line in lines).encode())


class TensorBoard:
    """Writes TensorBoard curves: mean return since the last point, number of balls, policy values.

    Policy values come from the checkpoints of learn() and from `evaluate`. The x-axis is the number
    of episodes of the agent. Needs tensorboardX.

    Parameters
    ----------
    folder : str or PathLike
        Folder of the event file.
    evaluate : Evaluate, optional
        An evaluation in the same run: `callback=[look, TensorBoard(folder, look)]`.
    every : int, default 100
        Call after every so many episodes.

    Examples
    --------
    >>> import gymnasium as gym, tempfile, zooming
    >>> folder = tempfile.mkdtemp()
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(200, callback=zooming.callbacks.TensorBoard(folder))
    >>> [name.startswith("events.") for name in os.listdir(folder)]
    [True]
    """

    def __init__(
        self, folder: str | os.PathLike[str], evaluate: Evaluate | None = None, every: int = 100
    ) -> None:
        try:
            import tensorboardX
        except ImportError as error:
            raise ImportError(
                "TensorBoard needs tensorboardX: pip install 'zooming[tensorboard]'"
            ) from error
        self.folder, self.evaluate, self.every = (
            Path(folder),
            evaluate,
            check_int(every, "every", 1),
        )
        self._make_writer: Any = tensorboardX.SummaryWriter
        self._writer: Any = None
        self._news = _SeenEpisodes()
        self._n_values = self._n_evaluations = 0

    def __call__(self, agent: Agent, history: History) -> None:
        first, is_new = self._news.first(agent, history)
        n_before = agent.n_episodes - len(history)
        if is_new:
            self.close()
            # Hide points of episodes that this agent has not played, from a killed run.
            self._writer = self._make_writer(str(self.folder), purge_step=n_before + 1)
        if first == 0:
            self._n_values = 0
        points = [
            ("return", history.returns[first:].mean(), agent.n_episodes),
            ("n_balls", agent.n_balls, agent.n_episodes),
        ]
        for episode, value in zip(
            history.checkpoints[self._n_values :],
            history.policy_values[self._n_values :],
            strict=True,
        ):
            points.append(("policy_value", value, n_before + episode))
        self._n_values = len(history.policy_values)
        if self.evaluate is not None:
            news = slice(self._n_evaluations, None)
            for episode, found in zip(
                self.evaluate.n_episodes[news], self.evaluate.evaluations[news], strict=True
            ):
                points.append(("evaluation", found.mean, episode))
            self._n_evaluations = len(self.evaluate.evaluations)
        for name, value, episode in points:
            self._writer.add_scalar(name, float(value), int(episode))
        self._writer.flush()

    def close(self) -> None:
        """Close the file. The end of the program does so too."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class _SeenEpisodes:
    """Keeps track of the history entries that a callback has seen."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._n_seen = 0

    def first(self, agent: Agent, history: History) -> tuple[int, bool]:
        """Return the first unseen entry, and whether the agent is new or has unseen episodes."""
        n_before = agent.n_episodes - len(history)
        is_new = agent is not self._agent or not n_before <= self._n_seen <= agent.n_episodes
        first = 0 if is_new else self._n_seen - n_before
        self._agent, self._n_seen = agent, agent.n_episodes
        return first, is_new


def _check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path; raise OSError now, not during the run, if no file can be written there."""
    writable_path(path)
    return Path(path)
