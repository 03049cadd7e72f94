"""Read the time limits of an environment. Only this module uses private parts of Gymnasium."""

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
