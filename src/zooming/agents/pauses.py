"""Pauses between two episodes of a run, to evaluate the policy exactly and to call callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.agent import Agent
from zooming.agents.history import History, Log
from zooming.errors import ConfigurationError
from zooming.upper import UpperMethod
from zooming.validation import accepts, check_int, short_repr

Callback = Callable[[Any, History], Any]


class Pauses:
    """The pauses of one call of learn(), and the history so far that callbacks receive.

    A callback is due every `callback.every` episodes of the agent (1 without that attribute), and
    after the last episode of the call. All episodes of the agent are counted, also those of earlier
    calls. So learn(a), learn(b) call it after the same episodes as learn(a + b).
    """

    def __init__(
        self,
        agent: Agent,
        episodes: int,
        checkpoints: Iterable[int],
        callback: Callback | Iterable[Callback] | None,
    ) -> None:
        self.agent, self.episodes = agent, episodes
        self.n_before, self.n_clipped_before = agent.n_episodes, agent.n_clipped
        self.policy_values: list[float] = []
        self.stops = _check_stops(checkpoints, episodes)
        self.callbacks = _check_callbacks(callback)
        for _, one in self.callbacks:
            if hasattr(one, "check_agent"):
                one.check_agent(agent)
        self.is_stopped = False
        self.log = Log(episodes)

    value_policy = UpperMethod()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without callbacks, so that an interrupted agent can be pickled."""
        return {**vars(self), "callbacks": []}

    @property
    def n_done(self) -> int:
        """Number of finished episodes of this call."""
        return int(self.log.done[0])

    def next_pause(self) -> int:
        """Return the episode after which the next pause is due, counted from 1 in this call."""
        done = self.n_done
        due = [every - (self.n_before + done) % every + done for every, _ in self.callbacks]
        due += self.stops[len(self.policy_values) : len(self.policy_values) + 1]
        return min([*due, self.episodes])

    def take(self) -> None:
        """Evaluate the policy and call callbacks where they are due. A callback may end the run."""
        done = self.n_done
        if (
            len(self.policy_values) < len(self.stops)
            and self.stops[len(self.policy_values)] == done
        ):
            self.policy_values.append(self.value_policy())
        if not self.callbacks:
            return
        history = self.history_so_far()
        is_last = done == self.episodes
        others = []
        for every, callback in self.callbacks:
            if is_last or (self.n_before + done) % every == 0:
                self._call(callback, history)
            else:
                others.append(callback)
        if self.is_stopped:  # so this was the last episode: call the others too
            for callback in others:
                self._call(callback, history)

    def _call(self, callback: Callback, history: History) -> None:
        answer = callback(self.agent, history)
        if not (answer is None or isinstance(answer, (bool, np.bool_))):
            raise ConfigurationError(
                f"{_name(callback)} returned {answer!r}; return False to stop the run, True or "
                "nothing to go on"
            )
        self.is_stopped |= answer is not None and not answer

    def history_so_far(self) -> History:
        """Return the history so far as read-only views, without copying."""
        views = self._whole_episodes()
        for view in views:
            view.setflags(write=False)
        return self._history(*views)

    def final_history(self) -> History:
        """Return the history that learn() returns: copies of the finished episodes."""
        return self._history(*(view.copy() for view in self._whole_episodes()))

    def _whole_episodes(self) -> tuple[NDArray[Any], ...]:
        log, done = self.log, self.n_done
        return log.returns[:done], log.n_balls[:done], log.n_steps[:done]

    def _history(
        self, returns: NDArray[Any], n_balls: NDArray[Any], n_steps: NDArray[Any]
    ) -> History:
        stops = np.array(self.stops[: len(self.policy_values)], np.int64)
        n_clipped = self.agent.n_clipped - self.n_clipped_before
        by_rule = np.array(self.log.rule_episodes, np.int64)
        return History(
            returns, n_balls, self.agent, stops, np.array(self.policy_values), n_steps, n_clipped,
            by_rule, self.log.let_go,
        )  # fmt: skip


def _check_stops(checkpoints: Iterable[int], episodes: int) -> list[int]:
    stops = sorted({int(k) for k in checkpoints})
    if stops and not (stops[0] >= 1 and stops[-1] <= episodes):
        raise ConfigurationError(
            f"checkpoints={short_repr(stops)}: give numbers of episodes from 1 to {episodes}"
        )
    return stops


def _check_callbacks(callback: Any) -> list[tuple[int, Callback]]:
    if callback is None:
        return []
    if not callable(callback) and not isinstance(callback, Iterable):
        raise ConfigurationError(
            f"callback={callback!r}: give a function callback(agent, history), or a list of them"
        )
    callbacks = [callback] if callable(callback) else list(callback)
    for one in callbacks:
        if not callable(one) or isinstance(one, type) or not accepts(one, None, None):
            fix = (
                f"make one: {one.__name__}(...)"
                if isinstance(one, type)
                else "give functions callback(agent, history)"
            )
            raise ConfigurationError(
                f"callback: {one!r} cannot be called with (agent, history); {fix}"
            )
    return [
        (check_int(getattr(one, "every", 1), f"{_name(one)}.every", 1), one) for one in callbacks
    ]


def _name(callback: Any) -> str:
    return str(getattr(callback, "__name__", type(callback).__name__))
