"""Read time limits and generators of environments. Only this module uses Gymnasium's internals."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.wrappers import TimeLimit


def time_limits(env: Any) -> list[int]:
    """Return the step limits of the environment's spec and of each TimeLimit wrapper.

    Gymnasium keeps the limit of a wrapper in `_max_episode_steps`. If a version of Gymnasium lacks
    that attribute, only the spec is read. The spec has the limit given to `gymnasium.make`. A
    TimeLimit around an environment without a spec is then not found, and the user must give
    `horizon=`.
    """
    limits = [getattr(getattr(env, "spec", None), "max_episode_steps", None)]
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(getattr(env, "_max_episode_steps", None))
        env = env.env
    return [limit for limit in limits if limit is not None]


def generator_of(env: Any) -> tuple[Any, int | None]:
    """Return (generator, seed) of an environment. Both are None before the first reset.

    Gymnasium keeps them in `_np_random` and `_np_random_seed`. Its property `np_random` would
    create a generator if there is none. So it is used only if the attributes are missing.
    """
    if hasattr(env, "_np_random"):
        return env._np_random, getattr(env, "_np_random_seed", None)
    return getattr(env, "np_random", None), None


def set_generator(env: Any, generator: Any, seed: int | None) -> None:
    """Set generator and seed of an environment, as `generator_of` returned them."""
    if hasattr(env, "_np_random"):
        env._np_random, env._np_random_seed = generator, seed
    elif generator is not None:
        env.np_random = generator
