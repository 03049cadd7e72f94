"""Laws of the start state, as a compiled function and as weighted states.

A law is FIXED (one state), FINITE (states with weights, or "uniform" over Discrete), UNIFORM over a
box, or a FUNCTION of the user, which can only be sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.envs.functions import compile_as
from zooming.errors import ConfigurationError
from zooming.kernels import START
from zooming.validation import Floats, as_floats, clip_rounding, short_repr

Start = Callable[..., None]
Weighted = tuple[Floats, Floats]  # values [n, k], and their weights [n]
FIXED, FINITE, UNIFORM, FUNCTION = "fixed", "finite", "uniform", "function"
N_STARTS = 4096  # states that represent a start law that is not finite
FORMS = 'give a state, (states, weights), "uniform", or a function start(params, rng, state)'
_NONE = np.empty(0)


@dataclass(frozen=True)
class StartLaw:
    """A law of the start state.

    `draw(params, rng, state)` writes a start state. It reads `packed` from the end of `params`.
    """

    kind: str
    draw: Start
    packed: Floats = field(default_factory=lambda: _NONE)
    states: Floats = field(default_factory=lambda: _NONE)  # if the law is FIXED or FINITE
    weights: Floats = field(default_factory=lambda: _NONE)


def make_law(start: Any, space: gym.Space[Any], box: gym.spaces.Box) -> StartLaw:
    """Return the law for a user's `start`. The dynamics use `box` in place of `space`."""
    is_whole = isinstance(space, gym.spaces.Discrete)
    if callable(start):
        return StartLaw(FUNCTION, compile_as(start, START, "start(params, rng, state)"))
    if isinstance(start, str):
        if start != "uniform":
            raise ConfigurationError(f"start={start!r}: {FORMS}")
        ends = np.concatenate([box.low, box.high])
        if not is_whole:
            return StartLaw(UNIFORM, compile_as(uniform_start, START, "start"), ends)
        values = np.arange(box.low[0], box.high[0] + 1.0)[:, None]
        equal = np.full(len(values), 1 / len(values))
        return StartLaw(FINITE, compile_as(integer_start, START, "start"), ends, values, equal)
    if _is_weighted(start):
        states, weights = check_weighted(start, "start", "state")
        states = np.array([_state(state, state.tolist(), space, box) for state in states])
        packed = np.concatenate([states.ravel(), np.cumsum(weights), [float(len(weights))]])
        return StartLaw(FINITE, compile_as(weighted_start, START, "start"), packed, states, weights)
    try:
        state = as_floats(start)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"start={short_repr(start)} is not a state of {box.shape[0]} coordinates ({error}); "
            f"{FORMS}"
        ) from error
    state = _state(np.full(box.shape, state) if state.ndim == 0 else state, start, space, box)
    return StartLaw(FIXED, compile_as(fixed_start, START, "start"), state, state[None], np.ones(1))


def check_weighted(given: Any, what: str, one: str = "value") -> Weighted:
    """Validate a (values, weights) pair and drop entries of weight 0."""
    try:
        values, weights = (as_floats(part) for part in (() if isinstance(given, dict) else given))
    except (TypeError, ValueError) as error:
        form = f"give ({one}s, weights), one weight per {one}, for example ([0.0, 1.0], [0.5, 0.5])"
        raise ConfigurationError(f"{what}={short_repr(given)}: {form}") from error
    values = values.reshape(len(values), -1) if values.ndim else values
    if values.ndim != 2 or weights.shape != (len(values),) or not len(values):
        raise ConfigurationError(
            f"{what}: {values.shape} {one}s and {weights.shape} weights; give one weight per "
            f"{one}, at least one"
        )
    for i, (value, weight) in enumerate(zip(values, weights, strict=True)):
        if not np.isfinite(value).all():
            said = value[0] if len(value) == 1 else value
            raise ConfigurationError(f"{what}: {one} {i} is {said}; give finite {one}s")
        if not weight >= 0:
            raise ConfigurationError(
                f"{what}: weight {i} is {weight}; give weights >= 0, with sum 1"
            )
    if abs(weights.sum() - 1) >= 1e-9:
        raise ConfigurationError(
            f"{what}: weights sum to {weights.sum():.12g}, not to 1; divide them by their sum"
        )
    return values[weights > 0], weights[weights > 0]


def midpoints(box: gym.spaces.Box, n: int) -> Weighted:
    """Return about n midpoints of a uniform grid over a box, with equal weights."""
    per_axis = max(1, round(n ** (1 / len(box.low))))
    axes = [
        a + (b - a) * (np.arange(per_axis) + 0.5) / per_axis
        for a, b in zip(box.low, box.high, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(box.low))
    return grid, np.full(len(grid), 1 / len(grid))


def _is_weighted(start: Any) -> bool:
    """Return whether `start` is (states, weights): a pair whose first part is not a number."""
    is_pair = isinstance(start, (tuple, list)) and len(start) == 2
    return is_pair and (
        isinstance(start[0], (tuple, list, range)) or getattr(start[0], "ndim", 0) > 0
    )


def _state(state: Floats, said: Any, space: gym.Space[Any], box: gym.spaces.Box) -> Floats:
    if state.shape != box.shape:
        raise ConfigurationError(
            f"start={said!r} is not a state of {box.shape[0]} coordinates (it has shape "
            f"{state.shape}); {FORMS}"
        )
    state, bad = clip_rounding(state, box.low, box.high)
    is_whole = isinstance(space, gym.spaces.Discrete)
    if is_whole and (bad is not None or state[0] != np.rint(state[0])):
        raise ConfigurationError(
            f"start={said!r} is not a whole number from {box.low[0]:g} to {box.high[0]:g}; {FORMS}"
        )
    if bad is not None:
        raise ConfigurationError(f"start={said!r} lies outside the observation space {space}")
    return state


def fixed_start(params: Any, rng: Any, state: Any) -> None:
    """Write the fixed start state, stored at the end of `params`."""
    first = params.shape[0] - state.shape[0]
    for i in range(state.shape[0]):
        state[i] = params[first + i]


def uniform_start(params: Any, rng: Any, state: Any) -> None:
    """Write a uniform state of a box. `params` ends with the low and the high corner."""
    n = state.shape[0]
    first = params.shape[0] - 2 * n
    for i in range(n):
        state[i] = params[first + i] + rng.random() * (params[first + n + i] - params[first + i])


def integer_start(params: Any, rng: Any, state: Any) -> None:
    """Write a uniform integer. `params` ends with the smallest and the largest one."""
    low, high = params[params.shape[0] - 2], params[params.shape[0] - 1]
    state[0] = low + float(int(rng.random() * (high - low + 1.0)))


def weighted_start(params: Any, rng: Any, state: Any) -> None:
    """Write one of n states. `params` ends with the states, their cumulative weights, and n."""
    width = state.shape[0]
    n = int(params[params.shape[0] - 1])
    weights = params.shape[0] - 1 - n
    share = rng.random()
    i = 0
    while i < n - 1 and share >= params[weights + i]:
        i += 1
    first = weights - n * width + i * width
    for axis in range(width):
        state[axis] = params[first + axis]
