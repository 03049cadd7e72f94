"""The rules of thumb that the paper compares with: random, no movement, median."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import seeds
from zooming.agents.base import Agent
from zooming.checks import clipped
from zooming.errors import SpaceError
from zooming.feasible import Feasible
from zooming.kernels import ATOMS, FIRST_VALUE, LOW
from zooming.structure import INTERVAL

Floats = NDArray[np.float64]


class Heuristic(Agent):
    """A fixed rule: `_choose` gives the flat action for a flat state; what is not feasible is moved to what is."""

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        step = self._check_step(step)
        state = self._checked(step, self.axes.flat_state(observation), 0)
        return self.axes.shaped_action(self._choose(state, self._feasible(step, info)))

    def update(
        self,
        step: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool = False,
        *,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        step = self._check_step(step)
        self._check_reward(step, reward)
        self._checked(step, self.axes.flat_state(observation), 0)
        played = self._checked(step, self.axes.flat_action(action), self.axes.n_state)
        self._see(played, self._checked(step, self.axes.flat_state(next_observation), 0, "next "))

    def _greedy(
        self, steps: NDArray[np.int64], states: Floats, deterministic: bool, allowed: Sequence[Feasible | None]
    ) -> Floats:
        actions = np.empty((len(steps), self.axes.n_action))
        for k, step in enumerate(steps.tolist()):
            actions[k] = self._choose(self._checked(step, states[k], 0), allowed[k])
        return actions

    def _choose(self, state: Floats, allowed: Feasible | None) -> Floats:
        raise NotImplementedError

    def _see(self, action: NDArray[np.float64], next_state: NDArray[np.float64]) -> None:
        """Learns from where the environment went; most rules do not."""

    def _checked(self, step: int, point: NDArray[np.float64], first_axis: int, what: str = "") -> NDArray[np.float64]:
        axes = slice(first_axis, first_axis + len(point))
        low, high = self.axes.table[axes, LOW], self.axes.ends[axes]
        point, i = clipped(point, low, high)
        if i is not None:
            raise self._bad_coordinate(step, first_axis + i, float(self.axes.outwards(point, first_axis)[i]), what)
        return point

    def _options(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "reward_range": list(self.reward_range), **self.axes.options, "seed": self.seed}

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

    def _choose(self, state: Floats, allowed: Feasible | None) -> Floats:
        return self._draw(self._generator, allowed)

    def _greedy(
        self, steps: NDArray[np.int64], states: Floats, deterministic: bool, allowed: Sequence[Feasible | None]
    ) -> Floats:
        # A function of seed, step and state: predicting must repeat, and must not move the generator that learning uses.
        actions = np.empty((len(steps), self.axes.n_action))
        for k, step in enumerate(steps.tolist()):
            state = self._checked(step, states[k], 0)
            key = [self.seed, step, *state.view(np.uint64).tolist()] if deterministic else None
            actions[k] = self._draw(np.random.default_rng(np.random.SeedSequence(key)), allowed[k])
        return actions

    def _draw(self, generator: np.random.Generator, allowed: Feasible | None) -> Floats:
        """Uniform along every axis: an interval between its ends, or one of the values."""
        axes = self.axes
        rows, share = axes.table[axes.n_state :], generator.random(axes.n_action)
        if allowed is not None:
            ends = allowed.allowed[:, :2]
            masks = [mask[:n] for mask, n in zip(allowed.allowed[:, FIRST_VALUE:], rows[:, ATOMS].astype(int), strict=True)]
            values = [np.flatnonzero(mask) for mask in masks]
            share = np.array([
                (found[int(u * len(found))] + 0.5) / n if n else low + u * (high - low)
                for u, found, n, (low, high) in zip(share, values, rows[:, ATOMS], ends, strict=True)
            ])  # fmt: skip
        flat = rows[:, LOW] + share * (axes.ends[axes.n_state :] - rows[:, LOW])
        whole = np.clip(np.floor(flat + 0.5), axes.low[axes.n_state :], axes.high[axes.n_state :])
        flat = np.where(rows[:, ATOMS] > 0, whole, flat)
        return flat if allowed is None else axes.inwards(allowed.nearest(axes.outwards(flat, axes.n_state)), axes.n_state)

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
            and self.axes.kinds[:n] == self.axes.kinds[n:] == [INTERVAL] * n
        )
        if not same:
            raise SpaceError(
                f"{type(self).__name__} plays states as actions, so both spaces must be the same box; here they differ"
            )

    def _choose(self, state: Floats, allowed: Feasible | None) -> Floats:
        place = self._place(state)
        if allowed is None:
            return place
        axes = self.axes
        return axes.inwards(allowed.nearest(axes.outwards(place, axes.n_state)), axes.n_state)

    def _place(self, state: Floats) -> Floats:
        raise NotImplementedError


class NoMovement(_Mover):
    """Stays where it is: a = x."""

    def _place(self, state: Floats) -> Floats:
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

    def _place(self, state: Floats) -> Floats:
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
