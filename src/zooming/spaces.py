"""Gymnasium spaces as axes of the unit cube, and back: the one place that knows an environment's units.

Axis i maps x to (x - low_i) / (high_i - low_i). The state's axes come first, then the action's. The maps themselves are
kernels (`kernels.to_unit`, `kernels.play_action`), so that every driver rounds alike; this module builds their table.
"""

from __future__ import annotations

import numbers
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError

MAX_AXES = 12  # a split makes 2^axes balls: beyond this the first split alone would fill a small device


class Axes:
    """The axes of a (state, action) pair: bounds, names, and the shape and dtype that actions must have.

    >>> import gymnasium as gym
    >>> axes = Axes(gym.spaces.Box(0.0, 10.0), gym.spaces.Box(-1.0, 1.0, (2,)))
    >>> axes.names
    ['state[0]', 'action[0]', 'action[1]']
    >>> axes.low.tolist(), axes.high.tolist()
    ([0.0, -1.0, -1.0], [10.0, 1.0, 1.0])
    """

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        self.state_space = _finite_box(observation_space, "observation_space", "state")
        self.action_space = _finite_box(action_space, "action_space", "action")
        self.n_state = int(np.prod(self.state_space.shape))
        self.n_action = int(np.prod(self.action_space.shape))
        if self.n_state + self.n_action > MAX_AXES:
            raise SpaceError(
                f"{self.n_state} state and {self.n_action} action axes are too many: a split makes 2^axes balls, so at most "
                f"{MAX_AXES} axes are supported. Give the agent fewer features (a wrapper)."
            )
        self.low = np.concatenate([self.state_space.low.ravel(), self.action_space.low.ravel()]).astype(np.float64)
        self.high = np.concatenate([self.state_space.high.ravel(), self.action_space.high.ravel()]).astype(np.float64)
        self.names = [f"state[{i}]" for i in range(self.n_state)] + [f"action[{i}]" for i in range(self.n_action)]
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if not low < high:
                raise SpaceError(f"axis {name} runs from {low} to {high}: it has no width. Drop it from the space (a wrapper).")
        with np.errstate(all="ignore"):
            width = self.high - self.low
            self.table = np.ascontiguousarray(np.stack([self.low, width], axis=1))
            scale = 1.0 / width
        for name, low, high, factor in zip(self.names, self.low, self.high, scale, strict=True):
            if not (np.isfinite(factor) and factor > 0):
                raise SpaceError(
                    f"axis {name} runs from {low} to {high}: its width is beyond floating point. Rescale the axis."
                )
        # Float64 vectors go to the kernels as they are; anything else is made one first: being refused costs 0.3 ms.
        self.has_plain_states = self.state_space.dtype == np.float64 and len(self.state_space.shape) == 1
        self.has_plain_actions = self.action_space.dtype == np.float64 and len(self.action_space.shape) == 1

    def __len__(self) -> int:
        return self.n_state + self.n_action

    def flat_state(self, observation: Any) -> NDArray[np.float64]:
        """One observation as a float64 vector of its own, whatever it was: a list, float32, read-only, strided."""
        return _flat(observation, "observation", self.state_space)

    def flat_action(self, action: Any) -> NDArray[np.float64]:
        """One action as a float64 vector of its own."""
        return _flat(action, "action", self.action_space)

    def flat_states(self, observations: Any) -> tuple[NDArray[np.float64], bool]:
        """One observation or a batch as [n, n_state], and whether it was a batch."""
        array = _numbers(observations, "observation")
        shape = self.state_space.shape
        if array.shape == shape:
            return array.reshape(1, self.n_state), False
        if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
            return array.reshape(len(array), self.n_state), True
        if array.size == self.n_state and array.ndim <= 1:
            return array.reshape(1, self.n_state), False
        raise SpaceError(f"observation has shape {array.shape}; expected {shape}, or a batch of these")

    def shaped_action(self, flat: NDArray[np.float64]) -> NDArray[Any]:
        """An action (or a batch of them) with the dtype and shape of the action space."""
        if self.has_plain_actions:
            return flat
        return flat.astype(self.action_space.dtype).reshape(flat.shape[:-1] + self.action_space.shape)

    def describe(self) -> list[list[Any]]:
        """What a checkpoint keeps of the spaces, and what loading compares."""
        return [[name, low, high] for name, low, high in zip(self.names, self.low.tolist(), self.high.tolist(), strict=True)]


def _finite_box(space: gym.Space[Any], where: str, kind: str) -> gym.spaces.Box:
    if not isinstance(space, gym.spaces.Box):
        raise SpaceError(
            f"{where} is {type(space).__name__}; only Box is supported. Wrap the environment so that its {where} is a Box."
        )
    if space.dtype not in (np.float32, np.float64):
        raise SpaceError(
            f"{where} is a Box of {space.dtype}; only boxes of float32 or float64 are supported. Wrap the environment."
        )
    for i, (low, high) in enumerate(zip(space.low.ravel(), space.high.ravel(), strict=True)):
        if not (np.isfinite(low) and np.isfinite(high)):
            raise SpaceError(
                f"{where} is unbounded: axis {kind}[{i}] runs from {low} to {high}. Wrap the environment with finite bounds, "
                f"for example gymnasium.wrappers.TransformObservation with a finite Box."
            )
    return space


def _numbers(values: Any, what: str) -> NDArray[np.float64]:
    if type(values) is np.ndarray and values.dtype.kind == "f":
        return np.array(values, np.float64, order="C")
    try:
        array = np.asarray(values)
        is_real = array.dtype.kind in "fiub" or all(isinstance(value, numbers.Real) for value in array.ravel().tolist())
        if is_real:
            return np.array(array, np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise SpaceError(f"{what} is not an array of numbers: {values!r}") from error
    raise SpaceError(f"{what} is not an array of real numbers: {values!r}")


def _flat(values: Any, what: str, space: gym.spaces.Box) -> NDArray[np.float64]:
    array = _numbers(values, what)
    if array.size != space.low.size:
        raise SpaceError(f"{what} has shape {array.shape}; expected {space.shape}")
    return array.ravel()
