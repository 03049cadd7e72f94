"""The problem of an agent: axes, horizon and reward range, and input validation."""

from __future__ import annotations

import numbers
import operator
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import NormalizeReward
from numpy.typing import NDArray

from zooming.envs.compiled import CompiledEnv
from zooming.envs.limits import time_limits
from zooming.errors import ConfigurationError, TransitionError, ZoomingError
from zooming.kernels import LOW
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import INTERVAL
from zooming.validation import (
    as_float,
    check_choice,
    check_int,
    check_range,
    clip_rounding,
    count_own_frames,
    short_repr,
)

UNIT = (0.0, 1.0)  # the reward range if none is given, and the environment states none
REWARDS = ("refuse", "clip")  # choices for a reward outside the range


class LearningProblem:
    """What an agent is asked to learn: axes, horizon and reward range, with checks of all inputs.

    Nothing here changes while the agent learns.

    Parameters
    ----------
    env : gymnasium.Env
        The environment.
    agent_name : str
        Name of the agent's class, for error messages.
    horizon, reward_range, rewards, bounds, ordered, squash, weights
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
        )
        self.horizon = horizon_of(env, horizon)
        self.reward_range: tuple[float, float] = (
            (stated_range(env) or UNIT) if reward_range is None else check_range(reward_range)
        )
        self.rewards = check_choice("rewards", rewards, REWARDS)

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments that make this problem again, as JSON."""
        rewards = {"reward_range": list(self.reward_range), "rewards": self.rewards}
        return {"horizon": self.horizon, **rewards, **self.axes.options}

    # --- checks -----------------------------------------------------------------------------------

    def check_step(self, step: Any, is_vector: bool = False) -> int:
        """Return the step as an int; TransitionError if the episode has no such step."""
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
        """Return (state, action, reward to learn from, next state) as flat values in bounds."""
        step = self.check_step(step)
        reward = self.check_reward(step, reward)
        state = self.check_point(step, self.flat_state(step, observation), 0)
        played = self.check_point(step, self.flat_action(step, action), self.axes.n_state)
        after = self.flat_state(step, next_observation, "next ")
        return state, played, reward, self.check_point(step, after, 0, "next ")

    def check_point(
        self, step: int, point: NDArray[np.float64], first_axis: int, what: str = ""
    ) -> NDArray[np.float64]:
        """Return a flat point with rounding errors clipped; TransitionError if it is outside."""
        axes = slice(first_axis, first_axis + len(point))
        point, i = clip_rounding(point, self.axes.table[axes, LOW], self.axes.ends[axes])
        if i is not None:
            raise self.bad_coordinate(
                step, first_axis + i, float(self.axes.from_unit_cube(point, first_axis)[i]), what
            )
        return point

    def flat_state(self, step: int, observation: Any, what: str = "") -> NDArray[np.float64]:
        """Return `Axes.flat_state`; errors name the environment and the step."""
        try:
            return self.axes.flat_state(observation)
        except ZoomingError as error:
            raise type(error)(f"{self.env_name}, step {step}: {what}{error}") from error

    def flat_action(self, step: int, action: Any) -> NDArray[np.float64]:
        """Return `Axes.flat_action`; errors name the environment and the step."""
        try:
            return self.axes.flat_action(action)
        except ZoomingError as error:
            raise type(error)(f"{self.env_name}, step {step}: {error}") from error

    def check_reward(self, step: int, reward: Any) -> float:
        """Return the reward, clipped if the agent clips; TransitionError if it is invalid."""
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

    def bad_reward(self, step: int, reward: float) -> TransitionError:
        """Return the TransitionError for a reward that is outside the reward range."""
        low, high = self.reward_range
        clip = "" if self.is_part else 'rewards="clip", or '
        rescale = (
            f"give {self.agent_name}(..., reward_range=(low, high)), which "
            f"zooming.reward_range(env, horizon={self.horizon}) proposes, or "
            f"{clip}rescale the reward"
        )
        fix = rescale if np.isfinite(reward) else "check the environment"
        is_any = high == np.finfo(np.float64).max  # only finite numbers are asked for
        fault = "not a finite number" if is_any else f"outside the reward range [{low}, {high}]"
        return TransitionError(f"{self.env_name}, step {step}: reward {reward} is {fault}; {fix}")

    def bad_coordinate(self, step: int, axis: int, value: float, what: str = "") -> TransitionError:
        """Return the error for a value outside its axis."""
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
        """Return the error for number i of (state, action, next state), all of them flat."""
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


def check_env(env: Any) -> None:
    """Raise ConfigurationError if `env` is not an environment, or is a vector environment."""
    if isinstance(env, (str, type)) or not hasattr(env, "observation_space"):
        named = env if isinstance(env, str) and not env.endswith("Policy") else "zooming/Oil-v0"
        is_class = isinstance(env, type) and issubclass(env, gym.Env)
        example = f"{env.__name__}()" if is_class else f'gymnasium.make("{named}")'
        raise ConfigurationError(
            f"{env!r} is not an environment; give an instance, for example {example}"
        )
    if isinstance(env, gym.vector.VectorEnv) or hasattr(
        env, "num_envs"
    ):  # Gymnasium's or Stable-Baselines3's
        raise ConfigurationError(
            f"{type(env).__name__} is a vector environment of "
            f"{getattr(env, 'num_envs', 'several')}; an agent learns on one: "
            "give gymnasium.make(...) instead. zooming.learn_many learns many seeds at once, and "
            "agent.predict takes a "
            f"vector environment's observations"
        )


def reset(env: Any, seed: int | None) -> tuple[Any, Mapping[str, Any]]:
    """Return the (observation, info) of `env.reset`; ConfigurationError for Gym's old interface."""
    try:
        answer = env.reset(seed=seed)
    except TypeError as error:
        if "seed" in str(error) and "unexpected keyword" in str(error):
            raise ConfigurationError(
                f"{name_of(env)}: reset takes no seed; {_NEW_RESET}"
            ) from error
        raise
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping)):
        raise ConfigurationError(
            f"{name_of(env)}: reset gave {answer_text(answer)}, not (observation, info); "
            f"{_NEW_RESET}"
        )
    return answer


def bad_step(env: Any, answer: Any) -> ConfigurationError:
    """Return the error for a `step` that did not give five values."""
    old = "the old interface of Gym; " if isinstance(answer, tuple) and len(answer) == 4 else ""
    return ConfigurationError(
        f"{name_of(env)}: step gave {answer_text(answer)}, {old}give five: observation, reward, "
        "terminated (the task has ended), "
        f"truncated (it was cut off), info"
    )


def answer_text(answer: Any) -> str:
    """Return how many values an environment gave, or their type if they are no tuple."""
    return f"{len(answer)} values" if isinstance(answer, tuple) else f"a {type(answer).__name__}"


_NEW_RESET = (
    "write def reset(self, *, seed=None, options=None), call super().reset(seed=seed), "
    "and return observation, {}"
)


def horizon_of(env: Any, horizon: int | None) -> int:
    """Return the steps of an episode: `horizon` if given, otherwise the environment's.

    Warn if the environment's episodes are shorter than the given horizon.
    """
    # Compiled environments have a horizon; others may have a spec. A TimeLimit may shorten it.
    inner = getattr(env, "unwrapped", env)
    own = inner.horizon if isinstance(inner, CompiledEnv) else None
    said = [*([] if own is None else [own]), *time_limits(env)]
    if horizon is not None and said and check_int(horizon, "horizon", 1) > min(said):
        message = (
            f"horizon={horizon}, but an episode of {name_of(env)} ends after {min(said)} "
            "steps: values will be too optimistic"
        )
        warnings.warn(message, stacklevel=count_own_frames())
    found = horizon if horizon is not None else min(said) if said else None
    if found is None:
        raise ConfigurationError(
            f"the environment {name_of(env)} does not say how long an episode is. Give "
            "horizon=..., "
            f"or make the environment with gymnasium.make(..., max_episode_steps=...)"
        )
    return check_int(found, "horizon", 1)


def generator_at(state: dict[str, Any]) -> np.random.Generator:
    """Return a PCG64 generator, Gymnasium's kind, with the given state."""
    if state["bit_generator"] != "PCG64":
        raise ConfigurationError(
            f"the environment uses a {state['bit_generator']} generator; only Gymnasium's own, "
            "PCG64, can be continued"
        )
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = state
    return generator


def stated_range(env: Any) -> tuple[float, float] | None:
    """Return the reward range that an environment states, or None.

    The outermost `reward_range` counts, and none behind a wrapper that changes rewards. Old Gym's
    (-inf, inf) states nothing.
    """
    while True:
        stated = getattr(env, "reward_range", None)
        if isinstance(stated, (tuple, list, np.ndarray)) and tuple(stated) != (-np.inf, np.inf):
            return check_range(stated, f"{name_of(env)}: reward_range")
        if not isinstance(env, gym.Wrapper) or isinstance(
            env, (gym.RewardWrapper, NormalizeReward)
        ):
            return None
        env = env.env


def seed_of(seed: Any) -> int:
    """Return a checked seed, a random one for None."""
    if seed is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]  # one integer when none was given
    return check_int(seed, "seed", 0, most=None)


def name_of(env: Any) -> str:
    """Return the name of an environment for error messages."""
    spec = getattr(env, "spec", None)
    if spec is not None:
        return str(spec.id)
    inner = env.unwrapped if isinstance(env, gym.Env) else env
    return str(getattr(inner, "name", None) or type(inner).__name__)
