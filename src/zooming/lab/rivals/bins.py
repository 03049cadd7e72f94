"""Grids of states and actions with a given number of bins per axis."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.kernels import LOW, WIDTH
from zooming.spaces.axes import Axes
from zooming.spaces.axis import Axis
from zooming.spaces.flatten import CATEGORICAL, INTERVAL
from zooming.spaces.masks import Feasible
from zooming.validation import Floats, check_int

MOST_ACTIONS = 100_000
MOST_BINS = 100_000


class StateGrid:
    """Cells of states: each axis is cut into `bins` equal parts, a categorical one into its values.

    An axis of integers has at most one cell for each value.
    """

    def __init__(self, axes: Axes, bins: int) -> None:
        bins = check_int(bins, "bins", 1, MOST_BINS)
        self._n = np.array([_n_cells(axes[i], bins) for i in range(axes.n_state)])
        width = axes.table[: axes.n_state, WIDTH]
        self._low = axes.table[: axes.n_state, LOW]
        self._scale = self._n / np.where(width > 0, width, 1.0)
        self._strides = np.cumprod(np.concatenate([[1], self._n[:0:-1]]))[::-1]
        self.n_cells = math.prod(self._n.tolist())

    def cells(self, states: Floats) -> NDArray[np.int64]:
        """Return the index of the cell of each flat state. `states` is [..., n_state]."""
        parts = ((states - self._low) * self._scale).astype(np.int64)
        found: NDArray[np.int64] = np.minimum(parts, self._n - 1) @ self._strides
        return found


class ActionGrid:
    """Flat actions on a grid with `bins` evenly spaced points per axis.

    The points include both ends of an axis. A categorical axis has one point per value, and an axis
    of integers has at most one.

    Attributes
    ----------
    actions
        The actions, [n, n_action].
    """

    def __init__(self, axes: Axes, bins: int) -> None:
        bins = check_int(bins, "bins", 1, MOST_BINS)
        self._axes = axes
        points = [_points(axes[axes.n_state + i], bins) for i in range(axes.n_action)]
        n_actions = math.prod(len(values) for values in points)
        if n_actions > MOST_ACTIONS:
            raise ConfigurationError(
                f"bins={bins} on {axes.n_action} action axes makes {n_actions:,} actions, more "
                f"than {MOST_ACTIONS:,}; give fewer bins"
            )
        self.actions = np.stack(np.meshgrid(*points, indexing="ij"), -1).reshape(n_actions, -1)
        self._scale = np.array([max(float(np.ptp(values)), 1e-300) for values in points])

    def __len__(self) -> int:
        return len(self.actions)

    def nearest(self, action: Floats) -> int:
        """Return the index of the grid point that is nearest to a flat action."""
        return int((np.abs(self.actions - action) / self._scale).max(axis=1).argmin())

    def feasible(self, allowed: Feasible | None) -> NDArray[np.int64]:
        """Return the indices of the allowed actions, or all indices if no action is allowed."""
        if allowed is None:
            return np.arange(len(self))
        n_state, axes = self._axes.n_state, self._axes
        real = axes.from_unit_cube(self.actions, n_state)
        kept = [k for k, one in enumerate(real) if (allowed.nearest(one.copy()) == one).all()]
        return np.array(kept if kept else range(len(self)))


def _n_cells(axis: Axis, bins: int) -> int:
    if axis.kind == INTERVAL:
        return bins if axis.weight > 0 and (axis.squash or axis.low < axis.high) else 1
    n_values = int(axis.high - axis.low) + 1
    return n_values if axis.kind == CATEGORICAL else min(bins, n_values)


def _points(axis: Axis, bins: int) -> Floats:
    middles = (np.arange(bins) + 0.5) / bins
    if axis.squash:  # its ends are infinite
        return middles
    if axis.kind == CATEGORICAL:
        return np.arange(axis.low, axis.high + 1)
    shares = middles if bins == 1 else np.linspace(0.0, 1.0, bins)
    points = axis.low + shares * (axis.high - axis.low)
    return np.unique(points if axis.kind == INTERVAL else np.rint(points))
