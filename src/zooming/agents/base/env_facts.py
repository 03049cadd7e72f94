"""Read and check name, horizon, reward range and axis names of an environment."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import NormalizeReward

from zooming.agents.files.env import StoredEnv
from zooming.envs.compiled import CompiledEnv
from zooming.envs.gymnasium_parts import time_limits
from zooming.errors import ConfigurationError
from zooming.validation import check_int, check_range, count_own_frames

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
    if isinstance(env, gym.vector.VectorEnv) or hasattr(
        env, "num_envs"
    ):  # Gymnasium's or Stable-Baselines3's
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
    """Return a phrase on what an environment returned: "4 values", or a type if not a tuple."""
    return f"{len(answer)} values" if isinstance(answer, tuple) else f"a {type(answer).__name__}"


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
