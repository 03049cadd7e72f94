"""Where a run pauses between two episodes: for the exact value of the policy (checkpoints), and for callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.agent import Agent
from zooming.agents.history import History, Log
from zooming.errors import SpaceError
from zooming.validation import check_int, shown

Callback = Callable[[Any, History], Any]


class Pauses:
    """The pauses of one call of learn(), and the history so far that the callbacks are shown.

    A callback is due every `callback.every` episodes of the agent's life (1 without that attribute), so that learn(a) and
    learn(b) call it after the same episodes as learn(a + b), and once more after the last episode of the call.
    """

    def __init__(
        self, agent: Agent, episodes: int, checkpoints: Iterable[int], callback: Callback | Iterable[Callback] | None
    ) -> None:
        self.agent, self.episodes = agent, episodes
        self.n_before, self.n_clipped_before = agent.n_episodes, agent.n_clipped
        self.policy_values: list[float] = []
        self.stops = _checked_stops(checkpoints, episodes)
        self.callbacks = _checked_callbacks(callback)
        for _, one in self.callbacks:
            if hasattr(one, "check_agent"):
                one.check_agent(agent)
        self.is_stopped = False
        self.log = Log(episodes)

    def __getstate__(self) -> dict[str, Any]:
        """Callbacks need not be such that they can be pickled, and an interrupted agent, which keeps this, must be."""
        return {**vars(self), "callbacks": []}

    @property
    def n_done(self) -> int:
        """Whole episodes of this call so far."""
        return int(self.log.done[0])

    def next_one(self) -> int:
        """The episode of this call (a count) after which the next pause is due."""
        done = self.n_done
        due = [every - (self.n_before + done) % every + done for every, _ in self.callbacks]
        due += self.stops[len(self.policy_values) : len(self.policy_values) + 1]
        return min([*due, self.episodes])

    def take(self) -> None:
        """Pauses where the run stands; a callback may end it here."""
        done = self.n_done
        if len(self.policy_values) < len(self.stops) and self.stops[len(self.policy_values)] == done:
            self.policy_values.append(_policy_value(self.agent))
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
        if self.is_stopped:  # this was the last episode after all
            for callback in others:
                self._call(callback, history)

    def _call(self, callback: Callback, history: History) -> None:
        answer = callback(self.agent, history)
        if not (answer is None or isinstance(answer, (bool, np.bool_))):
            raise SpaceError(f"{_name(callback)} returned {answer!r}; return False to stop the run, True or nothing to go on")
        self.is_stopped |= answer is not None and not answer

    def history_so_far(self) -> History:
        """The history up to here for a callback: views, to be read only, so that a long run stays fast."""
        views = self._whole_episodes()
        for view in views:
            view.setflags(write=False)
        return self._history(*views)

    def final_history(self) -> History:
        """The history that learn() returns: arrays of its own, also if the run was shorter than asked for."""
        return self._history(*(view.copy() for view in self._whole_episodes()))

    def _whole_episodes(self) -> tuple[NDArray[Any], ...]:
        log, done = self.log, self.n_done
        return log.returns[:done], log.n_balls[:done], log.n_steps[:done]

    def _history(self, returns: NDArray[Any], n_balls: NDArray[Any], n_steps: NDArray[Any]) -> History:
        stops = np.array(self.stops[: len(self.policy_values)], np.int64)
        n_clipped = self.agent.n_clipped - self.n_clipped_before
        return History(returns, n_balls, self.agent, stops, np.array(self.policy_values), n_steps, n_clipped)


def _checked_stops(checkpoints: Iterable[int], episodes: int) -> list[int]:
    stops = sorted({int(k) for k in checkpoints})
    if stops and not (stops[0] >= 1 and stops[-1] <= episodes):
        raise SpaceError(f"checkpoints={shown(stops)}: give numbers of episodes from 1 to {episodes}")
    return stops


def _checked_callbacks(callback: Any) -> list[tuple[int, Callback]]:
    if callback is None:
        return []
    if not callable(callback) and not isinstance(callback, Iterable):
        raise SpaceError(f"callback={callback!r}: give a function callback(agent, history), or a list of them")
    callbacks = [callback] if callable(callback) else list(callback)
    for one in callbacks:
        if not callable(one) or isinstance(one, type):
            fix = f"make one: {one.__name__}(...)" if isinstance(one, type) else "give functions callback(agent, history)"
            raise SpaceError(f"callback: {one!r} cannot be called with (agent, history); {fix}")
    return [(check_int(getattr(one, "every", 1), f"{_name(one)}.every", 1), one) for one in callbacks]


def _name(callback: Any) -> str:
    return str(getattr(callback, "__name__", type(callback).__name__))


def _policy_value(agent: Agent) -> float:
    import zooming  # evaluation is a floor above

    return zooming.evaluate(agent, agent.env, exact=True).mean
