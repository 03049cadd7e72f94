"""The vectors of compiled dynamics: their boxes, and the actions that an environment accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from zooming.errors import ConfigurationError, TransitionError
from zooming.validation import Floats, as_floats, clip_rounding, short_repr

if TYPE_CHECKING:
    from zooming.envs.compiled import CompiledEnv


def box_of(space: Any, where: str) -> tuple[gym.Space[Any], gym.spaces.Box]:
    """Return (space of the environment, float64 box of the dynamics).

    The dtype of a Box becomes float64, so that the agent gets exactly what the dynamics computed.
    """
    if isinstance(space, gym.spaces.Discrete):
        first = float(space.start)
        return space, gym.spaces.Box(first, first + float(space.n) - 1.0, (1,), np.float64)
    if (
        not isinstance(space, gym.spaces.Box)
        or len(space.shape) != 1
        or not np.issubdtype(space.dtype, np.floating)
    ):
        raise ConfigurationError(
            f"{where} of a compiled environment must be a one-dimensional Box of floats, or "
            f"Discrete, not {space}"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ConfigurationError(f"{where} is unbounded: {space}. Give finite bounds.")
    box = gym.spaces.Box(
        space.low.astype(np.float64), space.high.astype(np.float64), dtype=np.float64
    )
    return box, box


def check_action(env: CompiledEnv, action: Any) -> Floats:
    """Return a validated action as a vector for the dynamics."""
    if env.has_whole_actions and isinstance(action, (int, np.integer)):  # fast path
        first, last = env._action_ends
        if first <= action <= last:
            return np.array([float(action)])
    low, high = env.action_box.low, env.action_box.high
    try:
        point = np.ascontiguousarray(action, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TransitionError(
            f"{env.name}, step {env._step}: action {short_repr(action)} is not in "
            f"{env.action_space}"
        ) from error
    if env.has_whole_actions:
        if point.size != 1 or not (
            low[0] <= point.flat[0] <= high[0] and float(point.flat[0]).is_integer()
        ):
            raise TransitionError(
                f"{env.name}, step {env._step}: action = {action!r} is not a whole number "
                f"from {low[0]:g} to "
                f"{high[0]:g}; give a value of {env.action_space}"
            )
        return point.reshape(1)
    if point.shape != low.shape:
        raise TransitionError(
            f"{env.name}, step {env._step}: action has shape {point.shape}; expected {low.shape}"
        )
    point, i = clip_rounding(point, low, high)
    if i is not None:
        raise TransitionError(
            f"{env.name}, step {env._step}: action[{i}] = {point[i]} is outside [{low[i]}, "
            f"{high[i]}]; "
            f"clip it to the action space"
        )
    return point


def as_vector(values: Any, what: str) -> Floats:
    """Return a sequence of numbers as a vector. Raise ConfigurationError for anything else."""
    try:
        return as_floats(values).ravel()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{what}={short_repr(values)}: give a sequence of numbers"
        ) from error
