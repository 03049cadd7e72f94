"""Run a learner that has its own training loop, one step at a time.

Libraries of deep learning play episodes inside their own `learn`. Here that loop runs in a thread
and sees an environment, `Handover.env`, whose `reset` and `step` wait for the agent. So callbacks
and checkpoints of zooming work, no sample is dropped where a call of `learn` ends, and `learn(a)`
then `learn(b)` equals `learn(a + b)`.

The library draws from the global generators of NumPy and torch. While it runs, they are replaced by
the learner's own. So runs repeat, and the user's generators are left alone. One learner runs at a
time in a process.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.errors import ConfigurationError

_ONE_AT_A_TIME = threading.RLock()


class _Closed(BaseException):
    """Raised to end the loop of a learner whose agent is gone."""


class Handover:
    """Connect the loop of a library, which sees `env`, with the agent, which calls `advance`.

    `run` starts the loop of the library. It is called in a thread of its own and should not return.
    """

    def __init__(self, env_spaces: tuple[gym.Space[Any], gym.Space[Any]]) -> None:
        self.env = _Env(self, *env_spaces)
        self.run: Callable[[], Any] = lambda: None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._generators: tuple[Any, Any] | None = None
        self._fault: str | None = None

    @contextmanager
    def own_generators(self) -> Iterator[None]:
        """Replace the global generators by those of the learner in the `with` block."""
        import torch

        with _ONE_AT_A_TIME:
            before = np.random.get_state(), torch.get_rng_state()
            if self._generators is not None:
                np.random.set_state(self._generators[0])
                torch.set_rng_state(self._generators[1])
            try:
                yield
            finally:
                self._generators = np.random.get_state(), torch.get_rng_state()
                np.random.set_state(before[0])
                torch.set_rng_state(before[1])

    def advance(self, *answers: Any) -> Any:
        """Pass answers one by one to the waiting loop. Return the action that it plays next.

        The answer to `reset` is an observation. The answer to `step` is (observation, reward,
        terminated, truncated).
        """
        if self._fault is not None:
            raise ConfigurationError(self._fault)
        with self.own_generators():
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, daemon=True)
                self._thread.start()
                self._wait()  # for reset
            for answer in answers:
                self._answers.put(answer)
                action = self._wait()
        return action

    def close(self) -> None:
        """End the thread. Nothing can be learned afterwards."""
        self._answers.put(_Closed())

    def _wait(self) -> Any:
        """Return the next request of the loop: None for `reset`, an action for `step`."""
        try:
            asked = self._asked.get()
        except BaseException:  # an interrupt
            self._fault = "learning was interrupted within a step of its library; make a new agent"
            self.close()
            if self._thread is not None:
                self._thread.join()  # the generators are exchanged only when it has ended
            raise
        if isinstance(asked, BaseException):
            self._fault = f"its library failed before: {asked}"
            raise asked
        return asked

    def ask(self, action: Any) -> Any:
        """Pass an action (None for `reset`) to the agent, and return its answer."""
        self._asked.put(action)
        answer = self._answers.get()
        if isinstance(answer, _Closed):
            raise answer
        return answer

    def _loop(self) -> None:
        try:
            self.run()
            self._asked.put(RuntimeError("the loop of the library ended"))
        except _Closed:
            return
        except BaseException as error:
            self._asked.put(error)


class _Env(gym.Env[Any, Any]):
    """The environment that the library sees."""

    def __init__(
        self, handover: Handover, observations: gym.Space[Any], actions: gym.Space[Any]
    ) -> None:
        self.observation_space, self.action_space = observations, actions
        self._handover = handover

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._handover.ask(None), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated = self._handover.ask(action)
        return observation, reward, terminated, truncated, {}
