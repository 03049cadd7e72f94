"""A rule of a given form whose numbers are found by playing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent, Delegate
from zooming.agents.base.episodes import Play
from zooming.agents.planner.planner import Planner
from zooming.errors import ConfigurationError
from zooming.spaces.masks import Feasible
from zooming.validation import Floats, short_repr

_HERE = np.array([0.5])  # the only state of the search


class Form:
    """The form of a rule: the names and ranges of its numbers, and its actions.

    Parameters
    ----------
    rule : tuple or object
        (function, {name: (low, high)}), where `function(step, observation, **numbers)` returns an
        action; or a rule like those of the gallery, with `names`, `low`, `high`, `with_numbers` and
        `act`.
    """

    def __init__(self, rule: Any) -> None:
        self._rule: Any = None
        self._decide: Any = None
        if all(hasattr(rule, name) for name in ("names", "low", "high", "with_numbers", "act")):
            self._rule, self.names = rule, tuple(rule.names)
            self.low, self.high = np.array(rule.low, float), np.array(rule.high, float)
            return
        try:
            self._decide, ranges = rule
            self.names = tuple(ranges)
            self.low, self.high = np.array([ranges[name] for name in ranges], float).T
        except (TypeError, ValueError):
            self.names = ()
        is_fine = callable(self._decide) and bool(self.names)
        if not is_fine or not (np.isfinite(self.high - self.low) & (self.low < self.high)).all():
            raise ConfigurationError(
                f"rule={short_repr(rule)}: give (function, {{name: (low, high)}}), where "
                "function(step, observation, **numbers) returns an action, or a rule of the "
                "gallery, env.unwrapped.rule"
            )
        call = ", ".join(["step", "observation", *(f"{name}=..." for name in self.names)])
        try:
            with suppress(ValueError):  # a built-in function without a signature
                inspect.signature(self._decide).bind(0, None, **dict.fromkeys(self.names, 0.0))
        except TypeError as error:
            raise ConfigurationError(
                f"rule={short_repr(rule)}: the function is called as function({call}): {error}"
            ) from error

    def numbers(self, place: Floats) -> Floats:
        """Return the numbers at a point of the unit cube."""
        found: Floats = np.clip(self.low + place * (self.high - self.low), self.low, self.high)
        return found

    def act(self, place: Floats, step: int, observation: Any) -> Any:
        """Return the action of the rule with the numbers at a point of the unit cube."""
        numbers = self.numbers(place)
        if self._decide is None:
            return self._rule.with_numbers(numbers).act(step, observation)
        named = dict(zip(self.names, numbers.tolist(), strict=True))
        return self._decide(step, observation, **named)


class _Numbers(gym.Env[Any, Any]):
    """The choice of n numbers as a problem of one step without a state."""

    def __init__(self, n: int) -> None:
        self.observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = gym.spaces.Box(0.0, 1.0, (n,), np.float64)


class RuleLearner(Delegate):
    """Play a rule, and find its numbers by a planner of one step whose rewards are the returns.

    It learns from the episodes that it plays itself. Values and cells are those of `planner`, an
    agent that learns from all episodes.
    """

    def __init__(self, env: Any, planner: Planner, form: Form, seed: int) -> None:
        super().__init__(env, **{**planner.problem.options, "reward_range": None}, seed=seed)
        self.reward_range = self.problem.reward_range = planner.reward_range
        self.planner, self.form = planner, form
        search = seeds.derive_seed(seed, "search")
        self.search = Planner(_Numbers(len(form.names)), horizon=1, seed=search)
        self._place: Floats | None = None  # numbers of the episode that it plays
        self._total, self._n = 0.0, 0

    @property
    def recommended(self) -> Agent:
        return self.planner

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers that are best so far."""
        place = np.asarray(self.search.predict(_HERE)[0])
        return dict(zip(self.form.names, self.form.numbers(place).tolist(), strict=True))

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        self.checked_state(step, observation)
        if step == 0 or self._place is None:
            self._place, self._total = np.asarray(self.search.act(0, _HERE)), 0.0
        return self._played(self._place, step, observation, self._feasible(step, info))

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
        self.checked_transition(step, observation, action, reward, next_observation)
        self._n += step == 0
        if self._place is not None:
            self._total += float(reward)
            if terminated or step + 1 == self.horizon:
                self.search.update(0, _HERE, self._place, self._total, _HERE, True)
                self._place = None

    # --- many episodes at once --------------------------------------------------------------------

    def prepare_play(self) -> None:
        self.search.prepare_play()

    def draw_play(self, play: Play) -> dict[str, Any]:
        own = Play(play.seed)
        own.drawn = self.search.draw_play(own)
        place = np.asarray(self.search.act_play(own, 0, _HERE, None))
        return {"place": place.tolist(), "own": own.drawn}

    def act_play(
        self, play: Play, step: int, observation: Any, info: Mapping[str, Any] | None
    ) -> Any:
        self.checked_state(step, observation)
        place = np.array(play.drawn["place"])
        return self._played(place, step, observation, self._feasible(step, info))

    def update_play(
        self, play: Play, transition: tuple[Any, ...], masks: Mapping[str, Any]
    ) -> None:
        step, observation, action, reward, next_observation, _ = transition
        self.checked_transition(step, observation, action, reward, next_observation)
        self._n += step == 0

    def end_play(self, play: Play, total: float) -> None:
        own, place = Play(play.seed, play.drawn["own"]), np.array(play.drawn["place"])
        self.search.update_play(own, (0, _HERE, place, total, _HERE, True), {})
        self.search.end_play(own, total)

    @property
    def n_episodes(self) -> int:
        return self._n

    def set_n_episodes(self, n: int) -> None:
        self._n = n

    def _played(self, place: Floats, step: int, observation: Any, allowed: Feasible | None) -> Any:
        action = self.form.act(place, step, observation)
        flat = self.problem.check_point(
            step, self.problem.flat_action(step, action), self.axes.n_state
        )
        return self.axes.shaped_action(self._nearest(flat, allowed))

    def greedy_actions(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        place, axes = np.asarray(self.search.predict(_HERE)[0]), self.axes
        actions = np.empty((len(steps), axes.n_action))
        for k, step in enumerate(steps.tolist()):
            observation = axes.states.shaped(axes.from_unit_cube(states[k], 0))
            action = self._played(place, step, observation, allowed[k])
            actions[k] = self.problem.flat_action(step, action)
        return actions

    @property
    def n_balls(self) -> int:
        return self.search.n_balls

    @property
    def nbytes(self) -> int:
        return self.search.nbytes
