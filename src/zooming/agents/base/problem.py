"""Axes, horizon and reward range of an agent's problem, with validation of all inputs."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.env_facts import check_env, horizon_of, name_of, stated_names, stated_range
from zooming.errors import TransitionError, ZoomingError
from zooming.kernels import LOW
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import INTERVAL
from zooming.validation import (
    ANY_REWARD,
    as_float,
    check_choice,
    check_range,
    clip_rounding,
    short_repr,
)

UNIT = (0.0, 1.0)  # the reward range if none is given, and the environment states none
REWARDS = ("refuse", "clip")  # choices for a reward outside the range


class LearningProblem:
    """The problem that an agent learns: axes, horizon and reward range, with checks of all inputs.

    It does not change while the agent learns.

    Parameters
    ----------
    env : gymnasium.Env
        The environment.
    agent_name : str
        Name of the agent's class, for error messages.
    horizon, reward_range, rewards, bounds, ordered, squash, weights, names
        See `Agent`.
    """

    def __init__(
        self,
        env: Any,
        agent_name: str,
        *,
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        rewards: str = "refuse",
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        names: Mapping[str, str] | Iterable[str] | None = None,
    ) -> None:
        check_env(env)
        self.agent_name, self.env_name = agent_name, name_of(env)
        self.is_part = False  # whether the agent is a part of `Auto`, which has no option `rewards`
        self.axes = Axes(
            env.observation_space,
            env.action_space,
            bounds=bounds,
            ordered=ordered,
            squash=squash,
            weights=weights,
            names=stated_names(env) if names is None else names,
        )
        self.horizon = horizon_of(env, horizon)
        self.reward_range: tuple[float, float] = (
            (stated_range(env) or UNIT) if reward_range is None else check_range(reward_range)
        )
        self.rewards = check_choice("rewards", rewards, REWARDS)

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments that rebuild this problem, as JSON values."""
        known = None if self.reward_range == ANY_REWARD else list(self.reward_range)
        rewards = {"reward_range": known, "rewards": self.rewards}
        return {"horizon": self.horizon, **rewards, **self.axes.options}

    # --- checks -----------------------------------------------------------------------------------

    def check_step(self, step: Any, is_vector: bool = False) -> int:
        """Return the step as an int. Raise TransitionError if the episode has no such step."""
        try:
            whole = operator.index(step)
        except TypeError as error:
            raise TransitionError(
                f"step {short_repr(step)} is not a whole number; steps run from 0 to "
                f"{self.horizon - 1}"
            ) from error
        if not 0 <= whole < self.horizon:
            reset = (
                ". A vector environment must reset in the same step: "
                "autoreset_mode=AutoresetMode.SAME_STEP"
            )
            raise TransitionError(
                f"step {short_repr(step)} is outside the episode: steps run from 0 to "
                f"{self.horizon - 1} (horizon {self.horizon})"
                f"{reset if is_vector else ''}"
            )
        return whole

    def check_transition(
        self, step: int, observation: Any, action: Any, reward: float, next_observation: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64]]:
        """Return (state, action, reward, next state), validated and flat.

        The reward is clipped if the agent clips.
        """
        step = self.check_step(step)
        reward = self.check_reward(step, reward)
        state = self.check_point(step, self.flat_state(step, observation), 0)
        played = self.check_point(step, self.flat_action(step, action), self.axes.n_state)
        after = self.flat_state(step, next_observation, "next ")
        return state, played, reward, self.check_point(step, after, 0, "next ")

    def check_point(
        self, step: int, point: NDArray[np.float64], first_axis: int, what: str = ""
    ) -> NDArray[np.float64]:
        """Return a flat point with rounding errors clipped.

        Raise TransitionError if the point is outside the space.
        """
        axes = slice(first_axis, first_axis + len(point))
        point, i = clip_rounding(point, self.axes.table[axes, LOW], self.axes.ends[axes])
        if i is not None:
            raise self.bad_coordinate(
                step, first_axis + i, float(self.axes.from_unit_cube(point, first_axis)[i]), what
            )
        return point

    def flat_state(self, step: int, observation: Any, what: str = "") -> NDArray[np.float64]:
        """Return `Axes.flat_state(observation)`. Errors name the environment and the step."""
        try:
            return self.axes.flat_state(observation)
        except ZoomingError as error:
            raise type(error)(f"{self.env_name}, step {step}: {what}{error}") from error

    def flat_action(self, step: int, action: Any) -> NDArray[np.float64]:
        """Return `Axes.flat_action(action)`. Errors name the environment and the step."""
        try:
            return self.axes.flat_action(action)
        except ZoomingError as error:
            raise type(error)(f"{self.env_name}, step {step}: {error}") from error

    def check_reward(self, step: int, reward: Any) -> float:
        """Return the reward as a float, clipped if the agent clips.

        Raise TransitionError if it is not a number or outside the reward range.
        """
        low, high = self.reward_range
        is_number = isinstance(reward, numbers.Real) or (
            isinstance(reward, np.ndarray) and reward.shape == ()
        )
        if not is_number:
            raise TransitionError(
                f"{self.env_name}, step {step}: reward {short_repr(reward)} is not a number"
            )
        number = as_float(reward)
        if low <= number <= high:
            return number
        if self.rewards == "clip" and np.isfinite(number):
            return low if number < low else high
        raise self.bad_reward(step, number)

    # --- errors -----------------------------------------------------------------------------------

    @property
    def reward_fix(self) -> str:
        """Advice for error messages: what to do about rewards outside the reward range."""
        if self.reward_range == ANY_REWARD:
            return "rescale the reward"
        clip = "" if self.is_part else 'rewards="clip", or '
        return (
            f"give {self.agent_name}(..., reward_range=(low, high)), which "
            f"zooming.reward_range(env, horizon={self.horizon}) proposes, or "
            f"{clip}rescale the reward"
        )

    def bad_reward(self, step: int, reward: float) -> TransitionError:
        """Return the TransitionError for a reward that is outside the reward range."""
        low, high = self.reward_range
        fix = self.reward_fix if np.isfinite(reward) else "check the environment"
        fault = f"outside the reward range [{low}, {high}]"
        if (low, high) == ANY_REWARD:
            is_large = np.isfinite(reward)
            fault = (
                f"too large: at most {high:g} is supported" if is_large else "not a finite number"
            )
        return TransitionError(f"{self.env_name}, step {step}: reward {reward} is {fault}; {fix}")

    def bad_coordinate(self, step: int, axis: int, value: float, what: str = "") -> TransitionError:
        """Return the error for a value outside its axis.

        `what` is text before the name of the axis, such as "next ".
        """
        name, low, high = self.axes.names[axis], self.axes[axis].low, self.axes[axis].high
        fault, fix = f"outside [{low}, {high}]", "the environment's space, or clip the value"
        if self.axes[axis].squash and not np.isfinite(value):  # a squashed axis has no bounds
            fault, fix = "not finite", "the environment"
        if self.axes[axis].kind != INTERVAL:
            fault, fix = f"not a whole number from {low:g} to {high:g}", "the environment's space"
        return TransitionError(
            f"{self.env_name}, step {step}: {what}{name} = {value} is {fault}; check {fix}"
        )

    def bad_point(
        self,
        step: int,
        i: int,
        state: NDArray[np.float64],
        action: NDArray[np.float64] | None = None,
        next_state: NDArray[np.float64] | None = None,
    ) -> TransitionError:
        """Return the error for coordinate i of the flat vector (state, action, next state)."""
        axes, n_state = self.axes, self.axes.n_state
        if i < n_state:
            return self.bad_coordinate(step, i, float(axes.from_unit_cube(state, 0)[i]))
        if i < len(axes):
            assert action is not None
            value = axes.from_unit_cube(action, n_state)[i - n_state]
            return self.bad_coordinate(step, i, float(value))
        assert next_state is not None
        i -= len(axes)
        return self.bad_coordinate(step, i, float(axes.from_unit_cube(next_state, 0)[i]), "next ")
