"""Convert Gymnasium spaces to axes of the unit cube, and back. Only this module converts units.

The axes of the state come first, then those of the action. An interval maps x to (x - low) / (high
- low). The k-th of m integers becomes (k + 1/2) / m. A squashed (unbounded) axis maps x to x / (1 +
|x|) first. The linear maps are kernels (`kernels.to_unit`, `kernels.play_action`), so that all
drivers round in the same way. This module builds their table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.errors import SpaceError
from zooming.kernels import ATOMS, bend, unbend
from zooming.spaces.axis import (
    Axis,
    check_axes,
    names_of,
    set_bounds,
    set_names,
    set_order,
    set_squash,
    set_weights,
)
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, Node, build_tree
from zooming.validation import Floats

MAX_AXES = 48  # a split has a bit mask of axes


class Axes:
    """The axes of a (state, action) pair: kinds, bounds, names, and the form of actions.

    The options are those of `Agent`. The name of a space means all of its axes.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
        The spaces of the environment.
    bounds : dict, optional
        {axis: (low, high)}. Values beyond these ends count as the ends.
    ordered : bool or names of axes, default False
        Discrete axes whose neighboring values are similar. True means all of them.
    squash : bool, float or dict, default False
        Maps unbounded axes to an interval: True, a scale, or {axis: scale}.
    weights : dict or sequence, optional
        Weight of each axis in the metric: {axis: weight}, or one number per axis.
    names : dict or sequence, optional
        Names of the axes for everything that is printed, drawn or written: {axis: name}, or one
        name per axis, the state's first.

    Examples
    --------
    >>> import gymnasium as gym
    >>> gas = gym.spaces.Box(-1.0, 1.0, (2,))
    >>> gears = gym.spaces.Dict({"gear": gym.spaces.Discrete(3), "gas": gas})
    >>> axes = Axes(gym.spaces.Box(0.0, 10.0), gears, weights={"action": 0.5})
    >>> axes.names
    ['state[0]', 'action["gas"][0]', 'action["gas"][1]', 'action["gear"]']
    >>> axes.kinds
    ['interval', 'interval', 'interval', 'categorical']
    >>> axes.low.tolist(), axes.high.tolist()
    ([0.0, -1.0, -1.0, 0.0], [10.0, 1.0, 1.0, 2.0])
    >>> axes.shaped_action(np.array([0.5, -0.5, 2.0]))
    {'gas': array([ 0.5, -0.5], dtype=float32), 'gear': np.int64(2)}
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        names: Mapping[str, str] | Iterable[str] | None = None,
    ) -> None:
        self.state_space, self.action_space = observation_space, action_space
        self.states = build_tree(observation_space, "state", "observation_space")
        self.actions = build_tree(action_space, "action", "action_space")
        ordered = ordered if isinstance(ordered, bool) else names_of(ordered)
        self._axes = axes_of(self.states, self.actions, ordered, names)
        self.n_state = sum(len(leaf.low) for leaf in self.states.leaves())
        self.n_action = len(self._axes) - self.n_state
        self.names = [axis.name for axis in self._axes]
        self.paths = [axis.path for axis in self._axes]
        if not self.n_state or not self.n_action:
            raise SpaceError(
                f"the {'state' if not self.n_state else 'action'} has no axes: its space is empty"
            )
        if len(self) > MAX_AXES:
            raise SpaceError(
                f"{self.n_state} state and {self.n_action} action axes are too many: at most "
                f"{MAX_AXES} axes are supported. "
                f"Give the agent fewer features (a wrapper)."
            )
        set_bounds(self._axes, bounds)
        set_squash(self._axes, squash)
        for axis in self._axes:
            check_axes(axis)
        set_weights(self._axes, weights)
        self._tabulate()
        # The options that rebuild these axes, as JSON. They refer to axes by path.
        self.options: dict[str, Any] = {
            "bounds": None
            if bounds is None
            else {axis.path: [axis.low, axis.high] for axis in self._axes if axis.clips},
            "ordered": ordered
            if isinstance(ordered, bool)
            else [dict(zip(self.names, self.paths, strict=True)).get(one, one) for one in ordered],
            "squash": squash
            if isinstance(squash, bool)
            else {axis.path: axis.squash for axis in self._axes if axis.squash is not None},
            "weights": None if weights is None else self.weights,
            "names": None if names is None else self.names,
        }

    def __len__(self) -> int:
        return len(self._axes)

    def __getitem__(self, i: int) -> Axis:
        return self._axes[i]

    @property
    def kinds(self) -> list[str]:
        return [axis.kind for axis in self._axes]

    @property
    def weights(self) -> list[float]:
        return [axis.weight for axis in self._axes]

    @property
    def n_wide(self) -> int:
        """Number of axes that a split may halve: not categorical, several values, weight > 0."""
        return sum(
            axis.kind != CATEGORICAL and axis.weight > 0 and axis.low < axis.high
            for axis in self._axes
        )

    @property
    def are_plain(self) -> bool:
        """Whether no axis is clipped or squashed. The fused driver requires this."""
        return not self._bent

    @property
    def are_cubes(self) -> bool:
        """Whether halving every axis of a ball makes cubes."""
        return all(axis.kind == INTERVAL and axis.weight == 1.0 for axis in self._axes)

    @property
    def n_values(self) -> list[int]:
        """Number of categories per axis; 1 for axes that are not categorical or have weight 0."""
        return [
            int(axis.high - axis.low) + 1 if axis.kind == CATEGORICAL and axis.weight > 0 else 1
            for axis in self._axes
        ]

    @property
    def action_ends(self) -> tuple[Floats, Floats]:
        """Lowest and highest flat action.

        On squashed axes these are 0 and 1, as in `flat_action`.
        """
        squashed = np.array([bool(axis.squash) for axis in self._axes[self.n_state :]])
        return np.where(squashed, 0.0, self.low[self.n_state :]), np.where(
            squashed, 1.0, self.high[self.n_state :]
        )

    @property
    def are_intervals(self) -> list[bool]:
        """Whether each axis is a continuous interval with a positive weight."""
        n_atoms = self.table[:, ATOMS]
        return [axis.weight > 0 and n == 0 for axis, n in zip(self._axes, n_atoms, strict=True)]

    def cells(self) -> list[Floats]:
        """Return the borders of the initial partition, in which each category is a cell."""
        return [np.arange(1, n) / n for n in self.n_values]

    # --- values as numbers, and back --------------------------------------------------------------

    def flat_state(self, observation: Any) -> Floats:
        """Return one observation (any array, list or nested value) as a new float64 vector."""
        flat = self.states.flat(observation, "observation")
        return self.to_unit_cube(flat, 0) if self._bent else flat

    def flat_action(self, action: Any) -> Floats:
        """Return one action as a new float64 vector."""
        flat = self.actions.flat(action, "action")
        return self.to_unit_cube(flat, self.n_state) if self._bent else flat

    def flat_states(self, observations: Any) -> tuple[Floats, bool]:
        """Return one observation or a batch as [n, n_state], and whether it was a batch."""
        flat, is_batch = self.states.batch(observations, "observation")
        return self.to_unit_cube(flat, 0), is_batch

    def shaped_action(self, flat: Floats) -> Any:
        """Return a flat action, or a batch, with dtype, shape and structure of the action space."""
        if self.has_plain_actions:
            return flat
        return self.actions.shaped(self.from_unit_cube(flat, self.n_state))

    def to_unit_cube(self, flat: Floats, first: int) -> Floats:
        """Clip and squash flat values of the axes from `first` on, in place, and return them."""
        if self._bent:
            bend(flat.reshape(-1, flat.shape[-1]), self._bends, first)
        return flat

    def from_unit_cube(self, flat: Floats, first: int) -> Floats:
        """Convert flat values of the axes from `first` on to the environment's units."""
        if not self._bent:
            return flat
        flat = flat.copy()
        unbend(flat.reshape(-1, flat.shape[-1]), self._bends, first)
        return flat

    def describe(self) -> list[list[Any]]:
        """Return [path, low, high, kind] of each axis, for files."""
        return [[axis.path, axis.low, axis.high, axis.kind] for axis in self._axes]

    def _tabulate(self) -> None:
        """Set `table`, one row per axis with the columns of `kernels.boxes.layout`, and `ends`.

        `ends` holds the exact upper bounds. LOW + WIDTH may differ from them by rounding.
        """
        largest = (
            max((axis.weight for axis in self._axes if axis.kind != CATEGORICAL), default=0.0)
            or 1.0
        )
        rows, ends = [], []
        for axis in self._axes:
            weight = axis.weight / largest  # d_max = 1: only ratios of weights matter
            if axis.kind != INTERVAL:
                rows.append(
                    (
                        axis.low - 0.5,
                        axis.high - axis.low + 1,
                        weight,
                        axis.high - axis.low + 1,
                        0.0,
                    )
                )
                ends.append(axis.high + 0.5)
            elif axis.squash:
                rows.append((0.0, 1.0, weight, 0.0, 0.0))
                ends.append(1.0)
            else:
                rows.append((axis.low, axis.high - axis.low, weight, 0.0, float(axis.single)))
                ends.append(axis.high)
        self.table = np.array(rows)
        self.ends = np.array(ends)
        self.low = np.array([axis.low for axis in self._axes])
        self.high = np.array([axis.high for axis in self._axes])
        self._bent = [i for i, axis in enumerate(self._axes) if axis.clips or axis.squash]
        self._bends = np.array([_bend(axis) for axis in self._axes])
        # Float64 vectors go to the kernels unchanged. Others are converted first, because a
        # refused call costs 0.3 ms.
        self.has_plain_states = _is_plain(self.state_space) and all(
            i >= self.n_state for i in self._bent
        )
        self.has_plain_actions = _is_plain(self.action_space) and all(
            i < self.n_state for i in self._bent
        )


def axes_of(
    states: Node, actions: Node, ordered: bool | Iterable[str] = False, names: Any = None
) -> list[Axis]:
    """Return the axes of two spaces with their names. Those named in `ordered` are ordered."""
    axes = [
        Axis(path, leaf.kind, low, high, single=leaf.dtype == np.float32)
        for node in (states, actions)
        for leaf in node.leaves()
        for path, low, high in zip(leaf.names, leaf.low.tolist(), leaf.high.tolist(), strict=True)
    ]
    set_names(axes, names)
    set_order(axes, ordered if isinstance(ordered, bool) else names_of(ordered))
    return axes


def _is_plain(space: gym.Space[Any]) -> bool:
    return isinstance(space, gym.spaces.Box) and space.dtype == np.float64 and len(space.shape) == 1


def _bend(axis: Axis) -> tuple[float, float, float, float]:
    """Return the row of `kernels.bend`: scale (0: clip only), ends, largest squashed action."""
    largest = float(np.finfo(np.float32 if axis.single else np.float64).max)
    if axis.squash or axis.clips:
        return axis.squash or 0.0, axis.low, axis.high, largest
    return 0.0, -math.inf, math.inf, largest
