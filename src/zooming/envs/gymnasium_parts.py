"""Time limits and generators of environments. Only this module uses private parts of Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.wrappers import TimeLimit


def time_limits(env: Any) -> list[int]:
    """Return the limit of the environment's spec, and that of each TimeLimit around it.

    Gymnasium keeps the second kind in `_max_episode_steps`. Without that attribute only the spec
    counts. It has the limit of `gymnasium.make`, and none of a TimeLimit around an environment
    without a spec: then `horizon=` must be given.
    """
    limits = [getattr(getattr(env, "spec", None), "max_episode_steps", None)]
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(getattr(env, "_max_episode_steps", None))
        env = env.env
    return [limit for limit in limits if limit is not None]


def generator_of(env: Any) -> tuple[Any, int | None]:
    """Return the generator of an environment and its seed; None before the first reset.

    Gymnasium keeps them in `_np_random` and `_np_random_seed`. Its property `np_random` makes and
    seeds a generator where there is none. It is used only if the attributes are missing.
    """
    if hasattr(env, "_np_random"):
        return env._np_random, getattr(env, "_np_random_seed", None)
    return getattr(env, "np_random", None), None


def set_generator(env: Any, generator: Any, seed: int | None) -> None:
    """Give an environment what `generator_of` returned."""
    if hasattr(env, "_np_random"):
        env._np_random, env._np_random_seed = generator, seed
    elif generator is not None:
        env.np_random = generator
