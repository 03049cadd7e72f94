"""A callback that writes TensorBoard curves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zooming.agents.training.history import History
from zooming.callbacks.control import Evaluate
from zooming.validation import check_int

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent


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
        self._agent: Agent | None = None
        self._n_seen = self._n_values = self._n_evaluations = 0

    def __call__(self, agent: Agent, history: History) -> None:
        n_before = agent.n_episodes - len(history)
        # Counting starts over with another agent, or with a history that goes on elsewhere.
        is_new = agent is not self._agent or not n_before <= self._n_seen <= agent.n_episodes
        first = 0 if is_new else self._n_seen - n_before
        self._agent, self._n_seen = agent, agent.n_episodes
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
