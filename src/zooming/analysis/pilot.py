"""A pilot run that proposes the range of an environment's rewards."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.agents.problem import bad_step, check_env, horizon_of, name_of, reset
from zooming.errors import TransitionError
from zooming.spaces.axes import Axes
from zooming.spaces.masks import feasible, has_mask
from zooming.validation import as_float, check_float, check_int, known_options, shown


@known_options
def reward_range(
    env: Any, episodes: int = 100, *, margin: float = 0.1, horizon: int | None = None, seed: int = 0
) -> tuple[float, float]:
    """Propose (low, high) for an agent's `reward_range`, from a pilot run.

    A quarter of the episodes each plays random actions, one random action throughout, random corners of the action space,
    and one corner throughout (first all lows, then all highs, then others). The range is that of the rewards seen, widened
    on both sides by `margin` times its width. It is an estimate: rewards that no such episode meets may lie outside.
    A reward that is always the same is widened by `margin` times its size, or by `margin` if it is 0.

    The run has a `seed` of its own. The environment's generator and its action space are left as they were; an episode that
    was under way is not, so call reset() next. `horizon` is for an environment that does not say how long an episode is.

    >>> import gymnasium as gym, zooming
    >>> low, high = zooming.reward_range(gym.make("Pendulum-v1"), episodes=20)
    >>> f"{low:.1f} to {high:.1f}"  # the rewards of Pendulum lie between -16.3 and 0
    '-17.9 to 1.6'
    """
    check_env(env)
    episodes, margin = check_int(episodes, "episodes", 1), check_float(margin, "margin", 0.0, np.inf)
    n_steps, low, high = horizon_of(env, horizon), np.inf, -np.inf
    space = copy.deepcopy(env.action_space)
    space.seed(check_int(seed, "seed", 0))
    rng = np.random.default_rng(seed)
    with _generator_kept(env):
        for episode in range(episodes):
            actions = _actions(space, rng, episode)
            _, info = reset(env, seed if episode == 0 else None)
            for step in range(n_steps):
                answer = env.step(_allowed(env, next(actions), info, step))
                if not (isinstance(answer, tuple) and len(answer) == 5):
                    raise bad_step(env, answer)
                _, reward, terminated, truncated, info = answer
                number = as_float(reward)
                if not np.isfinite(number):
                    where = f"{name_of(env)}, step {step}"
                    raise TransitionError(f"{where}: reward {shown(reward)} is not finite; check the environment")
                low, high = min(low, number), max(high, number)
                if terminated or truncated:
                    break
    width = high - low or abs(low) or 1.0
    return low - margin * width, high + margin * width


def _actions(space: gym.Space[Any], rng: np.random.Generator, episode: int) -> Iterator[Any]:
    """The actions of one episode: random ones or corners, new ones at every step or the same throughout."""
    kind, n_before = episode % 4, episode // 4
    side = {0: 0, 1: 1}.get(n_before)  # of the corners that are played throughout: all lows, all highs, then any
    same = _corner(space, rng, side) if kind == 3 else space.sample()
    while True:
        yield (space.sample(), same, _corner(space, rng, None), same)[kind]


def _corner(space: gym.Space[Any], rng: np.random.Generator, side: int | None) -> Any:
    """An action whose every coordinate is the lowest (side 0) or the highest (1) there is, or either (None)."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _corner(part, rng, side) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_corner(part, rng, side) for part in space.spaces)
    drawn = space.sample()
    if isinstance(space, gym.spaces.Discrete):
        low, high = space.start, space.start + space.n - 1
    elif isinstance(space, gym.spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    elif isinstance(space, gym.spaces.MultiBinary):
        low, high = np.zeros_like(drawn), np.ones_like(drawn)
    elif isinstance(space, gym.spaces.Box):
        low = np.where(np.isfinite(space.low), space.low, drawn)  # a coordinate without an end has no corner
        high = np.where(np.isfinite(space.high), space.high, drawn)
    else:
        return drawn
    is_high = rng.integers(0, 2, np.shape(drawn)) if side is None else side
    return np.where(is_high, high, low).astype(space.dtype)[()]


def _allowed(env: Any, action: Any, info: Any, step: int) -> Any:
    """The action, moved to the nearest one that is feasible, if `info` says what is."""
    if not (info and has_mask(info)):
        return action
    axes = Axes(gym.spaces.Discrete(1), env.action_space)  # states do not matter here
    allowed = feasible(axes, info, f"{name_of(env)}, step {step}")
    return axes.shaped_action(allowed.nearest(axes.from_unit_cube(axes.flat_action(action), axes.n_state)))


@contextmanager
def _generator_kept(env: Any) -> Iterator[None]:
    """Puts the environment's generator back where it was."""
    inner = env.unwrapped
    generator, seed = getattr(inner, "_np_random", None), getattr(inner, "_np_random_seed", None)
    state = None if generator is None else generator.bit_generator.state
    try:
        yield
    finally:
        if generator is not None:
            generator.bit_generator.state = state
        inner._np_random, inner._np_random_seed = generator, seed
