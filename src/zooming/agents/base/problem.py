"""What an agent learns: facts of its environment, axes, horizon, reward range, checks of inputs."""

from __future__ import annotations

import copy
import numbers
import operator
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import NormalizeReward

from zooming.agents.files.env import StoredEnv
from zooming.envs.compiled import CompiledEnv
from zooming.envs.gymnasium_parts import time_limits
from zooming.errors import ConfigurationError, TransitionError, ZoomingError
from zooming.kernels import LOW
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import INTERVAL
from zooming.validation import (
    ANY_REWARD,
    Floats,
    Ints,
    as_float,
    check_choice,
    check_int,
    check_range,
    clip_rounding,
    count_own_frames,
    short_repr,
)

Checked = tuple[Floats, Floats, float, Floats]  # state, action, reward, next state
UNIT = (0.0, 1.0)  # the reward range if none is given, and the environment states none
REWARDS = ("refuse", "clip")  # choices for a reward outside the range


class LearningProblem:
    """The problem that an agent learns: axes, horizon and reward range, with checks of all inputs.

    It does not change while the agent learns. `agent_name` is for error messages; the options are
    those of `Agent`, and `axes` those of `Axes`.
    """

    def __init__(
        self,
        env: Any,
        agent_name: str,
        *,
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        rewards: str = "refuse",
        names: Mapping[str, str] | Iterable[str] | None = None,
        **axes: Any,
    ) -> None:
        check_env(env)
        self.agent_name, self.env_name = agent_name, name_of(env)
        self.is_part = False  # whether the agent is a part of `Auto`, which has no option `rewards`
        names = stated_names(env) if names is None else names
        self.axes = Axes(env.observation_space, env.action_space, names=names, **axes)
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
                f"step {short_repr(step)} is not a whole number from 0 to {self.horizon - 1}; the "
                "step comes first, then the observation, then the action"
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

    def check_steps(
        self, observation: Any, state: Any, episode_start: Any = None
    ) -> tuple[Ints, Floats, bool]:
        """Return (steps, flat states, whether they are a batch) from the arguments of `predict`.

        Raise TransitionError or ConfigurationError if an argument does not fit the problem, or if
        the arguments do not fit each other.
        """
        try:
            states, is_batch = self.axes.flat_states(observation)
        except ZoomingError as error:
            given = np.ravel(np.asarray(0 if state is None else state, object))
            where = f", step {given[0]}" if len(given) == 1 else ""  # there may be thousands
            raise type(error)(f"{self.env_name}{where}: {error}") from error
        steps = _as_steps(state, len(states))
        if episode_start is not None:
            starts = np.asarray(episode_start, bool).reshape(-1)
            if len(starts) not in (1, len(steps)):
                raise ConfigurationError(
                    f"episode_start has {len(starts)} entries for {len(steps)} environments"
                )
            steps[np.broadcast_to(starts, steps.shape)] = 0
        for step in steps.tolist():
            self.check_step(step, is_batch)
        return steps, states, is_batch

    def check_transition(
        self, step: int, observation: Any, action: Any, reward: float, next_observation: Any
    ) -> Checked:
        """Return (state, action, reward, next state), validated, flat, and clipped if asked for."""
        step = self.check_step(step)
        reward = self.check_reward(step, reward)
        state = self.check_point(step, self.flat_state(step, observation), 0)
        played = self.check_point(step, self.flat_action(step, action), self.axes.n_state)
        after = self.flat_state(step, next_observation, "next ")
        return state, played, reward, self.check_point(step, after, 0, "next ")

    def check_point(self, step: int, point: Floats, first_axis: int, what: str = "") -> Floats:
        """Return a flat point with rounding errors clipped. Raise TransitionError if outside."""
        axes = slice(first_axis, first_axis + len(point))
        for value, (low, high) in zip(point.tolist(), self.axes.sides[axes], strict=True):
            if not low <= value <= high:
                break
        else:  # a fifth of the time of what follows
            return point
        point, i = clip_rounding(point, self.axes.table[axes, LOW], self.axes.ends[axes])
        if i is not None:
            raise self.bad_coordinate(
                step, first_axis + i, float(self.axes.from_unit_cube(point, first_axis)[i]), what
            )
        return point

    def flat_state(self, step: int, observation: Any, what: str = "") -> Floats:
        """Return `Axes.flat_state(observation)`. Errors name the environment and the step."""
        try:
            return self.axes.flat_state(observation)
        except ZoomingError as error:
            raise type(error)(f"{self.env_name}, step {step}: {what}{error}") from error

    def flat_action(self, step: int, action: Any) -> Floats:
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

    def check_action_space(self, env: Any) -> None:
        """Raise ConfigurationError if the environment has another action space than at first."""
        space, own = env.action_space, self.axes.action_space
        if space is not own and space != own:
            raise ConfigurationError(
                f"{self.env_name}: its action space was {own} when the agent was made, but is "
                f"{space} now; keep one space with all actions, and say in info which are "
                "feasible: action_mask, action_low, action_high"
            )

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
            fault = f"too large: at most {high:g} is supported"
            fault = fault if np.isfinite(reward) else "not a finite number"
        return TransitionError(f"{self.env_name}, step {step}: reward {reward} is {fault}; {fix}")

    def bad_coordinate(self, step: int, axis: int, value: float, what: str = "") -> TransitionError:
        """Return the error for a value outside its axis; `what` is "next " for a next state."""
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
        state: Floats,
        action: Floats | None = None,
        next_state: Floats | None = None,
    ) -> TransitionError:
        """Return the error for coordinate i of the flat vector (state, action, next state)."""
        axes, n_state, what = self.axes, self.axes.n_state, ""
        first, point = (0, state) if i < n_state else (n_state, action)
        if i >= len(axes):
            i, first, point, what = i - len(axes), 0, next_state, "next "
        assert point is not None
        return self.bad_coordinate(
            step, i, float(axes.from_unit_cube(point, first)[i - first]), what
        )


def _as_steps(state: Any, n_states: int) -> Ints:
    """Return one step for each of `n_states` observations; None means step 0."""
    try:
        steps = np.zeros(n_states, np.int64) if state is None else np.array(state).reshape(-1)
    except ValueError:
        steps = np.empty(0)  # of no integers
    if not np.issubdtype(steps.dtype, np.integer):
        raise ConfigurationError(
            f"{short_repr(state)} is not one whole step per observation; the observation "
            "comes first: agent.predict(observation, state=step); act_batch(steps, observations)"
        )
    if len(steps) != n_states:
        raise ConfigurationError(
            f"{len(steps)} steps were given for {n_states} observations; give one step for each"
        )
    return steps.astype(np.int64)


# --- what an environment says of itself -----------------------------------------------------------

_NEW_RESET = (
    "write def reset(self, *, seed=None, options=None), call super().reset(seed=seed), "
    "and return observation, {}"
)


def check_env(env: Any) -> None:
    """Raise ConfigurationError unless `env` is a single Gymnasium environment."""
    if isinstance(env, (str, type)) or not hasattr(env, "observation_space"):
        named = env if isinstance(env, str) and not env.endswith("Policy") else "zooming/Oil-v0"
        is_class = isinstance(env, type) and issubclass(env, gym.Env)
        example = f"{env.__name__}()" if is_class else f'gymnasium.make("{named}")'
        raise ConfigurationError(
            f"{env!r} is not an environment; give an instance, for example {example}"
        )
    if hasattr(env, "num_envs"):  # Gymnasium's or Stable-Baselines3's vector environment
        raise ConfigurationError(
            f"{type(env).__name__} is a vector environment of "
            f"{getattr(env, 'num_envs', 'several')}; make the agent with one environment, "
            "gymnasium.make(...). agent.learn(episodes, env=envs) then learns on a vector "
            "environment, agent.predict takes its observations, and zooming.learn_many learns many "
            "seeds at once"
        )


def reset(env: Any, seed: int | None) -> tuple[Any, Mapping[str, Any]]:
    """Return the (observation, info) of `env.reset`, the observation copied as `take_step` does.

    Raise ConfigurationError if the environment has the old interface of Gym.
    """
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
            f"{name_of(env)}: reset gave {_answer_text(answer)}, not (observation, info); "
            f"{_NEW_RESET}"
        )
    return _copy(answer[0]), answer[1]


def take_step(env: Any, action: Any) -> tuple[Any, Any, Any, Any, Mapping[str, Any]]:
    """Return the five values of `env.step`. The observation is a copy of the environment's.

    An environment may fill the same arrays at each step. Raise ConfigurationError if it does not
    return five values.
    """
    answer = env.step(action)
    if not (isinstance(answer, tuple) and len(answer) == 5):
        old = "the old interface of Gym; " if isinstance(answer, tuple) and len(answer) == 4 else ""
        raise ConfigurationError(
            f"{name_of(env)}: step gave {_answer_text(answer)}, {old}give five: observation, "
            "reward, terminated (the task has ended), truncated (it was cut off), info"
        )
    observation, reward, terminated, truncated, info = answer
    return _copy(observation), reward, terminated, truncated, info


def _copy(observation: Any) -> Any:
    """Return an observation whose arrays and lists are copies. Other objects are kept."""
    if type(observation) is np.ndarray:  # the usual case, and quick
        return observation.copy()
    if isinstance(observation, (np.ndarray, Mapping, list, tuple)):
        return copy.deepcopy(observation)
    return observation


def _answer_text(answer: Any) -> str:
    """Return a phrase on what an environment returned: "4 values", or itself if not a tuple."""
    if isinstance(answer, np.ndarray):
        return "an observation alone"
    return f"{len(answer)} values" if isinstance(answer, tuple) else short_repr(answer)


def horizon_of(env: Any, horizon: int | None) -> int:
    """Return the number of steps of an episode: `horizon` if given, otherwise the environment's.

    Warn if the environment's episodes are shorter than the given horizon.
    """
    stated = stated_steps(env)
    if horizon is not None and stated and check_int(horizon, "horizon", 1) > stated:
        message = (
            f"horizon={horizon}, but an episode of {name_of(env)} ends after {stated} "
            "steps: values will be too optimistic"
        )
        warnings.warn(message, stacklevel=count_own_frames())
    found = horizon if horizon is not None else stated
    if found is None:
        raise ConfigurationError(
            f"the environment {name_of(env)} does not say how long an episode is. Give "
            "horizon=..., "
            f"or make the environment with gymnasium.make(..., max_episode_steps=...)"
        )
    return check_int(found, "horizon", 1)


def stated_steps(env: Any) -> int | None:
    """Return the largest number of steps that an environment states for an episode, or None.

    Compiled environments have a horizon, and others may have a spec. A TimeLimit may shorten it.
    """
    inner = getattr(env, "unwrapped", env)
    own = inner.horizon if isinstance(inner, (CompiledEnv, StoredEnv)) else None
    return min([*([] if own is None else [own]), *time_limits(env)], default=None)


def stated_range(env: Any) -> tuple[float, float] | None:
    """Return the reward range that an environment states, or None.

    The environment and its wrappers are searched from outside to inside for a `reward_range`. The
    search stops at a wrapper that changes rewards. (-inf, inf), which old Gym sets, is ignored.
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


def stated_names(env: Any) -> Any:
    """Return the names of axes that an environment states in its metadata, or None."""
    return (getattr(env, "metadata", None) or {}).get("names")


def name_of(env: Any) -> str:
    """Return the name of an environment for error messages."""
    spec = getattr(env, "spec", None)
    if spec is not None:
        return str(spec.id)
    inner = env.unwrapped if isinstance(env, gym.Env) else env
    return str(getattr(inner, "name", None) or type(inner).__name__)
