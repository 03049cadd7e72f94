"""Callbacks that write logs: Stable-Baselines3's monitor files, and TensorBoard."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zooming.agents.files.container import writable_path, write_atomically
from zooming.agents.training.history import History
from zooming.callbacks.control import Evaluate, check_path
from zooming.errors import ConfigurationError
from zooming.validation import check_int

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent

_MONITOR = "monitor.csv"  # ending by which Stable-Baselines3 finds such files
_COLUMNS = "r,l,t"
_SECONDS_APART = 1e-6  # seconds between episodes written together, so that their times are sorted


class MonitorCSV:
    """Write return, length and time of every episode in the format of Stable-Baselines3's Monitor.

    `stable_baselines3.common.monitor.load_results` reads the file. A new agent begins a new file.
    An agent that has learned before continues an existing file. Rows of episodes that it has not
    played (from a killed run) are dropped first. Column `t` has the seconds from the start of the
    file to the writing of the row.

    Parameters
    ----------
    path : str or PathLike
        A folder, or a file whose name ends in monitor.csv.
    every : int, default 100
        Number of episodes between two calls.

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
        path = Path(path) / _MONITOR if Path(path).is_dir() else check_path(path)
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
    """Write TensorBoard curves of returns, number of balls and policy values.

    A point of the return curve is the mean since the last point. Policy values come from the
    checkpoints of learn() and from `evaluate`. The x-axis is the number of episodes of the agent.
    Needs tensorboardX.

    Parameters
    ----------
    folder : str or PathLike
        Folder of the event file.
    evaluate : Evaluate, optional
        An evaluation in the same run: `callback=[look, TensorBoard(folder, look)]`.
    every : int, default 100
        Number of episodes between two calls.

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
        """Close the file. It is also closed when the program ends."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class _SeenEpisodes:
    """Keep track of the entries of the history that a callback has seen."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._n_seen = 0

    def first(self, agent: Agent, history: History) -> tuple[int, bool]:
        """Return the index of the first unseen entry, and whether counting starts over.

        It starts over with another agent, or if the history does not continue the entries seen.
        """
        n_before = agent.n_episodes - len(history)
        is_new = agent is not self._agent or not n_before <= self._n_seen <= agent.n_episodes
        first = 0 if is_new else self._n_seen - n_before
        self._agent, self._n_seen = agent, agent.n_episodes
        return first, is_new
