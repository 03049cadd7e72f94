"""The rules of thumb that the paper compares with: random, no movement, median."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import rules, seeds
from zooming.agents.base import Agent
from zooming.checks import clipped
from zooming.errors import SpaceError


class Heuristic(Agent):
    """A fixed rule of `zooming.rules`, which says what it plays; the requests are what it remembers."""

    _rule: int

    def __init__(self, env: Any, **options: Any) -> None:
        super().__init__(env, **options)
        self._generator = np.random.Generator(np.random.PCG64(seeds.stream(self.seed, "agent")))
        self._requests, self._count = np.empty(0), np.zeros(1, np.int64)  # sorted; how many there are, with room for more

    def act(self, step: int, observation: Any) -> NDArray[Any]:
        step = self._check_step(step)
        state = self._checked(step, self.axes.flat_state(observation), 0)
        return self.axes.shaped_action(self._choose(state))

    def update(
        self, step: int, observation: Any, action: Any, reward: float, next_observation: Any, terminated: bool = False
    ) -> None:
        step = self._check_step(step)
        self._check_reward(step, reward)
        self._checked(step, self.axes.flat_state(observation), 0)
        played = self._checked(step, self.axes.flat_action(action), self.axes.n_state)
        self._see(played, self._checked(step, self.axes.flat_state(next_observation), 0, "next "))

    def play(self, env: Any, returns: NDArray[Any], n_balls: NDArray[Any], trouble: NDArray[Any]) -> int:
        self._make_room(env.horizon * len(returns))
        axes, action = self.axes, np.empty(self.axes.n_action)
        return rules.play()(
            self._rule, self._requests, self._count, np.stack([axes.low, axes.high], axis=1), np.array(self.reward_range),
            self._generator, env.dynamics, env.start, env.params, env.np_random, min(self.horizon, env.horizon), action,
            returns, trouble,
        )  # fmt: skip

    def _greedy(self, steps: NDArray[np.int64], states: NDArray[np.float64], deterministic: bool) -> NDArray[np.float64]:
        return np.array([self._choose(self._checked(step, states[k], 0)) for k, step in enumerate(steps.tolist())])

    def _choose(self, state: NDArray[np.float64], generator: np.random.Generator | None = None) -> NDArray[np.float64]:
        low, high = self.axes.low[self.axes.n_state :], self.axes.high[self.axes.n_state :]
        action = np.empty(self.axes.n_action)
        rules.choose(self._rule, self._requests, self._count[0], low, high, generator or self._generator, state, action)
        return action

    def _see(self, action: NDArray[np.float64], next_state: NDArray[np.float64]) -> None:
        """Learns from where the environment went; most rules do not."""

    def _make_room(self, n_steps: int) -> None:
        """Room for the requests of so many steps; most rules have none."""

    def _checked(self, step: int, point: NDArray[np.float64], first_axis: int, what: str = "") -> NDArray[np.float64]:
        axes = slice(first_axis, first_axis + len(point))
        low, high = self.axes.low[axes], self.axes.high[axes]
        point, i = clipped(point, low, high)
        if i is not None:
            raise self._bad_coordinate(step, first_axis + i, float(point[i]), what)
        return point

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

    _rule = rules.RANDOM

    def _greedy(self, steps: NDArray[np.int64], states: NDArray[np.float64], deterministic: bool) -> NDArray[np.float64]:
        # A function of seed, step and state: predicting must repeat, and must not move the generator that learning uses.
        actions = np.empty((len(steps), self.axes.n_action))
        for k, step in enumerate(steps.tolist()):
            state = self._checked(step, states[k], 0)
            key = [self.seed, step, *state.view(np.uint64).tolist()] if deterministic else None
            actions[k] = self._choose(state, np.random.default_rng(np.random.SeedSequence(key)))
        return actions

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

    _rule = rules.STAY


class Median(_Mover):
    """Goes to the median of all requests so far; with k ambulances, to their quantiles 1/2k, 3/2k, ...

    A request is read off the next state: the coordinate that is not where the action put it.
    Before the first request it stays where it is.
    """

    _rule = rules.MEDIAN

    def __init__(self, env: Any, **options: Any) -> None:
        super().__init__(env, **options)
        if len({*self.axes.low.tolist()}) > 1 or len({*self.axes.high.tolist()}) > 1:
            raise SpaceError("Median pools the requests of all axes, so they must have the same bounds; here they differ")

    @property
    def nbytes(self) -> int:
        return 8 * int(self._count[0])

    def _see(self, action: NDArray[np.float64], next_state: NDArray[np.float64]) -> None:
        self._make_room(1)
        self._count[0] = rules.see(self._requests, self._count[0], action, next_state)

    def _make_room(self, n_steps: int) -> None:
        needed = int(self._count[0]) + n_steps * self.axes.n_action
        if needed > len(self._requests):
            grown = np.empty(max(needed, 2 * len(self._requests)))
            grown[: self._count[0]] = self._requests[: self._count[0]]
            self._requests = grown

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"requests": self._requests[: self._count[0]]}

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        requests = arrays["requests"]
        in_space = (requests >= self.axes.low.min()) & (requests <= self.axes.high.max())
        if requests.dtype != np.float64 or requests.ndim != 1 or not in_space.all() or (np.diff(requests) < 0).any():
            raise ValueError("the requests are not a sorted list of places")
        self._requests, self._count[0] = np.array(requests), len(requests)
