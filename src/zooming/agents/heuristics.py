"""The heuristics of the paper's comparison: random, no movement, median."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.agents.base.episodes import Play
from zooming.agents.base.problem import stated_range
from zooming.agents.base.status import clipping_text
from zooming.agents.training.history import RunArrays
from zooming.errors import ConfigurationError
from zooming.kernels import ATOMS, FIRST_VALUE, LOW
from zooming.kernels.loop import episodes as pausing
from zooming.kernels.loop import heuristics
from zooming.kernels.loop.crossing import Crossing
from zooming.spaces.flatten import INTERVAL
from zooming.spaces.masks import Allowed, Feasible
from zooming.validation import ANY_REWARD, Floats, Ints


class Heuristic(Agent):
    """Base class of agents that play a fixed rule, see `zooming.kernels.loop.heuristics`.

    If the rule's action is not feasible, the nearest feasible action is played. Rewards do not
    matter to it: any finite one is accepted, unless a range is given or stated.
    """

    _rule: int

    def __init__(
        self, env: Any, *, reward_range: tuple[float, float] | None = None, **options: Any
    ) -> None:
        super().__init__(env, reward_range=reward_range, **options)
        if reward_range is None and stated_range(env) is None and self.rewards == "refuse":
            self.reward_range = self.problem.reward_range = ANY_REWARD
        self._generator = np.random.Generator(
            np.random.PCG64(seeds.seed_sequence(self.seed, "agent"))
        )
        # See `kernels.loop.heuristics`.
        self._requests, self._count = np.empty(0), np.zeros(2, np.int64)

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        state = self.checked_state(step, observation)
        with self.run.lock:
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
        _, played, _, next_state = self.checked_transition(
            step, observation, action, reward, next_observation
        )
        with self.run.lock:
            self._see(step, played, next_state)

    def act_play(
        self, play: Play, step: int, observation: Any, info: Mapping[str, Any] | None
    ) -> Any:
        own, self._generator = self._generator, np.random.default_rng(play.random_at(step))
        try:
            return self.act(step, observation, info=info)
        finally:
            self._generator = own

    @property
    def n_episodes(self) -> int:
        return int(self._count[1])

    def set_n_episodes(self, n: int) -> None:
        self._count[1] = n

    def play(self, env: Any, crossing: Crossing, log: RunArrays, end: int) -> int:
        self._make_room(env.horizon * (end - int(log.done[0])))
        axes, action, own = self.axes, np.empty(self.axes.n_action), env.crossing(self._generator)
        bounds = np.stack([axes.low, axes.high, axes.table[:, ATOMS] > 0], axis=1)
        memory = (
            self._rule, self._requests, self._count, bounds, np.empty(axes.n_state), own.handle
        )  # fmt: skip
        return heuristics.play()(
            memory, crossing.handle, env.params, min(self.horizon, env.horizon),
            *self.reward_range, action, log.returns, log.n_balls, log.done, end, log.trouble,
            np.zeros(pausing.STATE + axes.n_state), self.run.clipping,
        )  # fmt: skip

    def greedy_actions(
        self, steps: Ints, states: Floats, deterministic: bool, allowed: Allowed
    ) -> Floats:
        actions = np.empty((len(steps), self.axes.n_action))
        for k, step in enumerate(steps.tolist()):
            state = self.problem.check_point(step, states[k], 0)
            actions[k] = self._recommend(step, state, deterministic, allowed[k])
        return actions

    def _recommend(
        self, step: int, state: Floats, deterministic: bool, allowed: Feasible | None
    ) -> Floats:
        return self._choose(state, allowed)

    def _choose(self, state: Floats, allowed: Feasible | None) -> Floats:
        raise NotImplementedError

    def _see(self, step: int, action: Floats, next_state: Floats) -> None:
        """Count the episode at step 0. A subclass may also learn from the next state."""
        if step == 0:
            self._count[1] += 1

    def _make_room(self, n_steps: int) -> None:
        """Reserve memory for the requests of `n_steps` steps. Only `Median` needs it."""

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {}

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        pass

    def __repr__(self) -> str:
        done = f"{self.n_episodes} episodes{clipping_text(self)}"
        return f"{type(self).__name__}({self.env_name}, horizon={self.horizon}, {done})"


class Random(Heuristic):
    """Play uniform random actions.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to play on.
    **options
        Options of `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.Random(gym.make("zooming/Oil-v0"), seed=0)
    >>> len(agent.learn(episodes=10))
    10
    """

    _rule = heuristics.RANDOM

    def _choose(self, state: Floats, allowed: Feasible | None) -> Floats:
        return self._draw(self._generator, allowed)

    def _recommend(
        self, step: int, state: Floats, deterministic: bool, allowed: Feasible | None
    ) -> Floats:
        # Seeded by seed, step and state: repeatable, and the generator of learning is not used.
        key = [self.seed, step, *state.view(np.uint64).tolist()] if deterministic else None
        return self._draw(np.random.default_rng(np.random.SeedSequence(key)), allowed)

    def _draw(self, generator: np.random.Generator, allowed: Feasible | None) -> Floats:
        """Return a flat action, uniform along every axis over its interval or its values."""
        axes = self.axes
        rows, share = axes.table[axes.n_state :], generator.random(axes.n_action)
        for i, row in enumerate(() if allowed is None else allowed.allowed):
            n, (low, high) = int(rows[i, ATOMS]), row[:2]
            values = np.flatnonzero(row[FIRST_VALUE : FIRST_VALUE + n])
            u = share[i]
            share[i] = (values[int(u * len(values))] + 0.5) / n if n else low + u * (high - low)
        flat: Floats = rows[:, LOW] + share * (axes.ends[axes.n_state :] - rows[:, LOW])
        whole = np.clip(np.floor(flat + 0.5), axes.low[axes.n_state :], axes.high[axes.n_state :])
        flat = np.where(rows[:, ATOMS] > 0, whole, flat)
        if allowed is None:
            return flat
        nearest = allowed.between(axes.from_unit_cube(flat, axes.n_state))
        return axes.to_unit_cube(nearest, axes.n_state)

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"generator": self._generator.bit_generator.state}, {}

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._generator.bit_generator.state = values["generator"]


class _Mover(Heuristic):
    """Base class of rules that play a state as the action. Both spaces must be equal."""

    def __init__(self, env: Any, **options: Any) -> None:
        super().__init__(env, **options)
        n = self.axes.n_state
        same = (
            n == self.axes.n_action
            and (self.axes.low[:n] == self.axes.low[n:]).all()
            and (self.axes.high[:n] == self.axes.high[n:]).all()
            and self.axes.kinds[:n] == self.axes.kinds[n:]
        )
        if not same:
            raise ConfigurationError(
                f"{type(self).__name__} plays states as actions, so both spaces must be the same "
                "box, or the same Discrete; "
                f"here they differ"
            )

    def _choose(self, state: Floats, allowed: Feasible | None) -> Floats:
        place = np.empty(self.axes.n_action)
        heuristics.choose(self._rule, self._requests, self._count, state, place)
        return self._nearest(place, allowed)


class NoMovement(_Mover):
    """Play the current state as the action: a = x.

    Parameters
    ----------
    env : gymnasium.Env
        An environment whose observation space equals its action space.
    **options
        Options of `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.NoMovement(gym.make("zooming/Oil-v0", start=0.5), seed=0)
    >>> action, step = agent.predict([0.3])
    >>> float(action[0])
    0.3
    """

    _rule = heuristics.STAY


class Median(_Mover):
    """Play the median of all requests so far, or with k ambulances the quantiles 1/2k, 3/2k, ...

    A request is the coordinate of the next state that differs from the action. Before the first
    request, the current state is played.

    Parameters
    ----------
    env : gymnasium.Env
        An environment whose observation and action space are the same box of floats.
    **options
        Options of `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> calls = gym.make("zooming/Ambulance-v0", arrivals=[0.2, 0.2, 0.7])
    >>> agent = zooming.Median(calls, seed=0)
    >>> history = agent.learn(episodes=100)
    >>> action, step = agent.predict([0.5])
    >>> float(action[0])
    0.2
    """

    _rule = heuristics.MEDIAN

    def __init__(self, env: Any, **options: Any) -> None:
        super().__init__(env, **options)
        if self.axes.kinds != [INTERVAL] * len(self.axes):
            raise ConfigurationError(
                "Median needs a state space and an action space of floats, because it plays "
                "points between requests; these hold whole numbers"
            )
        if len({*self.axes.low.tolist()}) > 1 or len({*self.axes.high.tolist()}) > 1:
            raise ConfigurationError(
                "Median needs the same bounds on all axes, because it pools the requests of "
                "all of them; these bounds differ"
            )

    @property
    def nbytes(self) -> int:
        return 8 * int(self._count[0])

    def _see(self, step: int, action: Floats, next_state: Floats) -> None:
        self._make_room(1)
        heuristics.see(self._requests, self._count, step, action, next_state)

    def _make_room(self, n_steps: int) -> None:
        needed = int(self._count[0]) + n_steps * self.axes.n_action
        if needed > len(self._requests):
            grown = np.empty(max(needed, 2 * len(self._requests)))
            grown[: self._count[0]] = self._requests[: self._count[0]]
            self._requests = grown

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"requests": self._requests[: self._count[0]].copy()}

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        requests = arrays["requests"]
        in_space = (requests >= self.axes.low.min()) & (requests <= self.axes.high.max())
        if (
            requests.dtype != np.float64
            or requests.ndim != 1
            or not in_space.all()
            or (np.diff(requests) < 0).any()
        ):
            raise ValueError("the requests are not a sorted list of places")
        self._requests, self._count[0] = np.array(requests), len(requests)
