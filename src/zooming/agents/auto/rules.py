"""A rule of a given form whose numbers are found by playing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.auto.search import Search
from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent, Delegate
from zooming.agents.base.episodes import Play
from zooming.agents.planner.planner import Planner
from zooming.errors import ConfigurationError
from zooming.spaces.masks import Feasible
from zooming.validation import Floats, short_repr


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
        except (TypeError, ValueError, LookupError):
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


class RuleLearner(Delegate):
    """Play a rule, and search its numbers by the returns of the episodes it plays.

    Values and cells are those of `planner`, an agent that learns from all episodes.
    """

    def __init__(self, env: Any, planner: Planner, form: Form, seed: int) -> None:
        super().__init__(env, **{**planner.problem.options, "reward_range": None}, seed=seed)
        self.reward_range = self.problem.reward_range = planner.reward_range
        self.planner, self.form = planner, form
        self.search = Search(len(form.names), seeds.derive_seed(seed, "search"))
        self._n = 0
        self._place: Floats | None = None  # numbers of the episode that it plays
        self._own, self._total = -1, 0.0  # the number of this episode, and its return so far

    @property
    def recommended(self) -> Agent:
        return self.planner

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers that are best so far."""
        found = self.form.numbers(self.search.mean)
        return dict(zip(self.form.names, found.tolist(), strict=True))

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        self.checked_state(step, observation)
        if step == 0 or self._place is None:
            self._place, self._own, self._total = self.search.draw(), self.n_episodes, 0.0
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
        if self._place is None or self.n_episodes != self._own + 1:  # others play
            return
        self._total += float(reward)
        if terminated or step + 1 == self.horizon:
            place, total = self._place, self._total
            self._place, self._own, self._total = None, -1, 0.0
            self.search.tell(place, total)

    # --- many episodes at once --------------------------------------------------------------------

    def draw_play(self, play: Play) -> dict[str, Any]:
        return {"place": self.search.draw(np.random.default_rng(play.seed)).tolist()}

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
        self.search.tell(np.array(play.drawn["place"]), total)

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
        place, axes = self.search.mean, self.axes
        actions = np.empty((len(steps), axes.n_action))
        for k, step in enumerate(steps.tolist()):
            observation = axes.states.shaped(axes.from_unit_cube(states[k], 0))
            action = self._played(place, step, observation, allowed[k])
            actions[k] = self.problem.flat_action(step, action)
        return actions

    counted, n_balls = "balls", 0

    @property
    def nbytes(self) -> int:
        return self.search.nbytes
