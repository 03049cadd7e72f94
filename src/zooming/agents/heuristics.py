"""The rules of thumb that the paper compares with: random, no movement, median."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import seeds
from zooming.agents.base import Agent
from zooming.errors import SpaceError


class Heuristic(Agent):
    """A fixed rule, which is also what it plays while it learns."""

    def act(self, step: int, observation: Any) -> NDArray[Any]:
        return self.axes.shaped_action(self.greedy(step, self.checked_state(step, observation)))

    def update(
        self, step: int, observation: Any, action: Any, reward: float, next_observation: Any, terminated: bool = False
    ) -> None:
        _, played, _, next_state = self.checked_transition(step, observation, action, reward, next_observation)
        self._see(played, next_state)

    def _see(self, action: NDArray[np.float64], next_state: NDArray[np.float64]) -> None:
        """Learns from where the environment went; most rules do not."""

    def _options(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "reward_range": list(self.reward_range), "seed": self.seed}

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {}

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        pass

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env_name}, horizon={self.horizon}, {self.n_episodes} episodes)"


class Random(Heuristic):
    """Plays uniformly at random from the action space.

    >>> import gymnasium as gym, zooming
    >>> agent = zooming.Random(gym.make("zooming/Oil-v0"), seed=0)
    >>> len(agent.learn(episodes=10))
    10
    """

    def __init__(self, env: Any, **options: Any) -> None:
        super().__init__(env, **options)
        self._generator = np.random.Generator(np.random.PCG64(seeds.stream(self.seed, "agent")))

    def act(self, step: int, observation: Any) -> NDArray[Any]:
        self.checked_state(step, observation)
        return self.axes.shaped_action(self._draw(self._generator))

    def _greedy(self, steps: NDArray[np.int64], states: NDArray[np.float64], deterministic: bool) -> NDArray[np.float64]:
        # A function of seed, step and state: predicting must repeat, and must not move the generator that learning uses.
        actions = np.empty((len(steps), self.axes.n_action))
        for k, step in enumerate(steps.tolist()):
            state = self.checked_state(step, states[k])
            key = [self.seed, step, *state.view(np.uint64).tolist()] if deterministic else None
            actions[k] = self._draw(np.random.default_rng(np.random.SeedSequence(key)))
        return actions

    def _draw(self, generator: np.random.Generator) -> NDArray[np.float64]:
        low, high = self.axes.low[self.axes.n_state :], self.axes.high[self.axes.n_state :]
        return low + generator.random(self.axes.n_action) * (high - low)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"generator": self._generator.bit_generator.state}, {}

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._generator.bit_generator.state = values["generator"]


class _Mover(Heuristic):
    """A rule that names a place: states and actions must be points of the same space."""

    def __init__(self, env: Any, **options: Any) -> None:
        super().__init__(env, **options)
        n = self.axes.n_state
        same = (
            n == self.axes.n_action
            and (self.axes.low[:n] == self.axes.low[n:]).all()
            and (self.axes.high[:n] == self.axes.high[n:]).all()
        )
        if not same:
            raise SpaceError(
                f"{type(self).__name__} plays states as actions, so both spaces must be the same box; here they differ"
            )


class NoMovement(_Mover):
    """Stays where it is: a = x."""

    def greedy(self, step: int, state: NDArray[np.float64]) -> NDArray[np.float64]:
        return state


class Median(_Mover):
    """Goes to the median of all requests so far; with k ambulances, to their quantiles 1/2k, 3/2k, ...

    A request is read off the next state: the coordinate that is not where the action put it.
    Before the first request it stays where it is.
    """

    def __init__(self, env: Any, **options: Any) -> None:
        super().__init__(env, **options)
        if len({*self.axes.low.tolist()}) > 1 or len({*self.axes.high.tolist()}) > 1:
            raise SpaceError("Median pools the requests of all axes, so they must have the same bounds; here they differ")
        self._requests: list[float] = []  # sorted

    @property
    def nbytes(self) -> int:
        return 8 * len(self._requests)

    def greedy(self, step: int, state: NDArray[np.float64]) -> NDArray[np.float64]:
        n = len(self._requests)
        if not n:
            return state
        requests, stations = self._requests, np.empty(self.axes.n_action)
        for i in range(len(stations)):
            place = (2 * i + 1) / (2 * len(stations)) * (n - 1)
            below = int(place)
            low, high = requests[below], requests[min(below + 1, n - 1)]
            stations[i] = low + (place - below) * (high - low)
        return stations

    def _see(self, action: NDArray[np.float64], next_state: NDArray[np.float64]) -> None:
        requests = [after for after, placed in zip(next_state.tolist(), action.tolist(), strict=True) if after != placed]
        if not requests:
            # The call was where an ambulance waited already: most likely where most calls came from before.
            requests = [max(next_state.tolist(), key=self._n_requests_at)]
        for request in requests:
            insort(self._requests, request)

    def _n_requests_at(self, place: float) -> int:
        return bisect_right(self._requests, place) - bisect_left(self._requests, place)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"requests": np.array(self._requests)}

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        requests = arrays["requests"]
        in_space = (requests >= self.axes.low.min()) & (requests <= self.axes.high.max())
        if requests.dtype != np.float64 or requests.ndim != 1 or not in_space.all() or (np.diff(requests) < 0).any():
            raise ValueError("the requests are not a sorted list of places")
        self._requests = requests.tolist()
