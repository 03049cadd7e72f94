"""The active balls of one step of `MetricQ`, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.upper import UpperMethod
from zooming.validation import Floats


@dataclass(frozen=True)
class Balls:
    """The active balls of one step, as arrays, oldest first. Returned by `MetricQ.balls(step)`.

    Attributes
    ----------
    state, action : array [n_balls, n_axes]
        Centers, in the environment's units.
    radius, q_value : array [n_balls]
        Radius in the units of the metric, and Q.
    n_visits : array [n_balls]
        Visits of each ball, those of its ancestors included.
    depth : array [n_balls]
        The radius is d_max 2^-depth.
    n_points : array [n_balls]
        Number of pairs in the domain.
    owner : array [n_states, n_actions]
        Index, in these arrays, of the ball whose domain contains the pair.
    states, actions : array [n, n_axes]
        All states and all actions of the space, in the environment's units.
    names : tuple of str
        Names of the axes, the state's first.
    step : int
        The step, counted from 0.
    value_names : dict
        {axis: names} of the points along an axis, if the metric has names.
    paths : tuple of str
        Places of the axes in the spaces, such as "state[0]". Empty if these are the names.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> class Stops(gym.Env):
    ...     observation_space = action_space = gym.spaces.Discrete(5)
    >>> line = zooming.metrics.Graph([(0, 1), (1, 2), (2, 3), (3, 4)])
    >>> zooming.MetricQ(Stops(), line, horizon=1).balls(0)
    Balls(step=0, n_balls=1, radius 4 to 4, q_value 1.000 to 1.000)
    """

    state: Floats
    action: Floats
    radius: Floats
    q_value: Floats
    n_visits: NDArray[np.int64]
    depth: NDArray[np.int64]
    n_points: NDArray[np.int64]
    owner: NDArray[np.int64]
    states: Floats
    actions: Floats
    names: tuple[str, ...]
    step: int
    value_names: Any = field(default_factory=dict)
    paths: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.radius)

    def __repr__(self) -> str:
        return (
            f"Balls(step={self.step}, n_balls={len(self)}, radius {self.radius.min():g} to "
            f"{self.radius.max():g}, "
            f"q_value {self.q_value.min():.3f} to {self.q_value.max():.3f})"
        )

    plot = UpperMethod()
