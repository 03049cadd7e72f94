"""Propose the reward range of an environment from a pilot run."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.agents.base.problem import (
    check_env,
    horizon_of,
    name_of,
    reset,
    stated_range,
    take_step,
)
from zooming.envs.gymnasium_parts import generator_of, set_generator
from zooming.errors import TransitionError
from zooming.spaces.axes import Axes
from zooming.spaces.masks import feasible, has_mask
from zooming.validation import as_float, check_int, known_options, short_repr

MARGIN = 0.1  # by which the range is widened on both sides, as a share of its width


@known_options
def reward_range(
    env: Any, episodes: int = 100, *, horizon: int | None = None, seed: int = 0
) -> tuple[float, float]:
    """Propose (low, high) for an agent's `reward_range`, from a pilot run.

    If the environment states its own `reward_range`, that is returned, and nothing is played. The
    episodes alternate between four kinds: random actions, one random action throughout, random
    corners of the action space, and one corner throughout (first all lows, then all highs, then
    random ones). The estimate is wider on both sides than the rewards that were seen, by a tenth of
    their range; if all are equal, by a tenth of their absolute value, or by 0.1 if they are 0. The
    random generators of the environment are left unchanged. The run ends any episode in progress,
    so call `env.reset()` afterwards.

    Parameters
    ----------
    env, episodes, seed
        The environment, the number of episodes to play, and the seed of the pilot run.
    horizon
        Number of steps in an episode. Needed if the environment does not define it.

    Returns
    -------
    tuple of float
        The proposed (low, high).

    Raises
    ------
    TransitionError
        If a reward is not finite.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> low, high = zooming.reward_range(gym.make("Pendulum-v1"), episodes=20)
    >>> f"{low:.1f} to {high:.1f}"  # the rewards of Pendulum lie between -16.3 and 0
    '-17.9 to 1.6'
    """
    check_env(env)
    episodes = check_int(episodes, "episodes", 1)
    seed, stated = check_int(seed, "seed", 0), stated_range(env)
    if stated is not None:
        return stated
    n_steps, low, high = horizon_of(env, horizon), np.inf, -np.inf
    space = copy.deepcopy(env.action_space)
    space.seed(seed)
    rng = np.random.default_rng(seed)
    with _restore_generator(env):
        for episode in range(episodes):
            actions = _actions(space, rng, episode)
            _, info = reset(env, seed if episode == 0 else None)
            for step in range(n_steps):
                action = _make_feasible(env, next(actions), info, step)
                _, reward, terminated, truncated, info = take_step(env, action)
                number = as_float(reward)
                if not np.isfinite(number):
                    where = f"{name_of(env)}, step {step}"
                    raise TransitionError(
                        f"{where}: reward {short_repr(reward)} is not finite; check the environment"
                    )
                low, high = min(low, number), max(high, number)
                if terminated or truncated:
                    break
    width = high - low or abs(low) or 1.0
    return low - MARGIN * width, high + MARGIN * width


def _actions(space: gym.Space[Any], rng: np.random.Generator, episode: int) -> Iterator[Any]:
    """Yield the actions of one episode, whose kind depends on its number: see `reward_range`."""
    kind, n_before = episode % 4, episode // 4
    side = {0: 0, 1: 1}.get(n_before)  # one corner throughout: all lows, all highs, then random
    same = _corner(space, rng, side) if kind == 3 else space.sample()
    while True:
        yield (space.sample(), same, _corner(space, rng, None), same)[kind]


def _corner(space: gym.Space[Any], rng: np.random.Generator, side: int | None) -> Any:
    """Return a corner of a space: all lows (side 0), all highs (side 1), or random (None)."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _corner(part, rng, side) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_corner(part, rng, side) for part in space.spaces)
    drawn = space.sample()
    if isinstance(space, gym.spaces.Box):  # an unbounded coordinate has no corner
        low = np.where(np.isfinite(space.low), space.low, drawn)
        high = np.where(np.isfinite(space.high), space.high, drawn)
    elif isinstance(space, (gym.spaces.Discrete, gym.spaces.MultiDiscrete)):
        n = space.n if isinstance(space, gym.spaces.Discrete) else space.nvec
        low, high = space.start, space.start + n - 1
    elif isinstance(space, gym.spaces.MultiBinary):
        low, high = np.zeros_like(drawn), np.ones_like(drawn)
    else:
        return drawn
    is_high = rng.integers(0, 2, np.shape(drawn)) if side is None else side
    return np.where(is_high, high, low).astype(space.dtype)[()]


def _make_feasible(env: Any, action: Any, info: Any, step: int) -> Any:
    """Return the feasible action nearest to `action`, or `action` if `info` has no mask."""
    if not (info and has_mask(info)):
        return action
    axes = Axes(gym.spaces.Discrete(1), env.action_space)  # the state space is not used
    allowed = feasible(axes, info, f"{name_of(env)}, step {step}")
    return axes.shaped_action(
        allowed.nearest(axes.from_unit_cube(axes.flat_action(action), axes.n_state))
    )


@contextmanager
def _restore_generator(env: Any) -> Iterator[None]:
    """Restore the environment's random generator at the end of the block."""
    inner = env.unwrapped
    generator, seed = generator_of(inner)
    state = None if generator is None else generator.bit_generator.state
    try:
        yield
    finally:
        if generator is not None:
            generator.bit_generator.state = state
        set_generator(inner, generator, seed)
