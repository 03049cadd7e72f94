"""Norms on a box, which is represented by a net of points."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from zooming.errors import ConfigurationError
from zooming.kernels import LOW
from zooming.metrics.finite import COMBINE, MOST_POINTS, Metric, Side
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL, INTERVAL
from zooming.validation import Floats, check_float, check_int

NET_POINTS: dict[int, float] = {1: 129, 2: 33, 3: 9}  # number of axes of a box -> points along each


class Norm(Metric):
    """The base class of `L1`, `L2` and `LInf`: a box under a norm.

    Every axis is rescaled to length 1 and then multiplied by its `scale`. A net of points
    represents the box, and each value is rounded to the nearest one. Integers are points
    themselves.

    Parameters
    ----------
    points_per_axis : int, optional
        Points of the net along each axis. Default: 129, 33 or 9 for 1, 2 or 3 axes.
    scale : float or sequence of float
        Length of the axes: one number for all, or one per axis.

    Examples
    --------
    >>> L2(points_per_axis=17, scale=[1.0, 0.5])
    L2(points_per_axis=17, scale=[1.0, 0.5])
    """

    power: float

    def __init__(
        self, points_per_axis: int | None = None, scale: float | Sequence[float] = 1.0
    ) -> None:
        name = type(self).__name__
        if points_per_axis is not None:
            points_per_axis = check_int(points_per_axis, "points_per_axis", 2)
        self.points_per_axis = points_per_axis
        if scale is None or isinstance(scale, (str, bytes)):
            raise ConfigurationError(f"{name}: scale={scale!r}: give a number, or one per axis")
        scales = np.atleast_1d(np.asarray(scale, object)).tolist()
        self.scale = [check_float(one, f"{name}: scale", 0.0, math.inf) for one in scales]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(points_per_axis={self.points_per_axis}, scale={self.scale})"

    def n_points(self, axes: Axes, first: int, n_axes: int) -> int:
        return math.prod(int(n) for n in self._net(axes, first, n_axes)[:, 2])

    def side(self, axes: Axes, first: int, n_axes: int) -> Side:
        kind, net = type(self).__name__, self._net(axes, first, n_axes)
        if len(self.scale) not in (1, n_axes):
            raise ConfigurationError(
                f"{kind}: scale has {len(self.scale)} numbers for the {n_axes} axes "
                f"{', '.join(axes.names[first : first + n_axes])}"
            )
        along = [np.linspace(0.0, 1.0, int(n)) for n in net[:, 2]]
        unit = np.stack(np.meshgrid(*along, indexing="ij"), axis=-1).reshape(-1, n_axes)
        found = norms(unit * self.scale, self.power)
        if not math.isfinite(float(found.max())):
            raise ConfigurationError(
                f"{kind}: the distances are beyond floating point; give a smaller scale than "
                f"{self.scale}"
            )
        return Side(found, net)

    def _net(self, axes: Axes, first: int, n_axes: int) -> Floats:
        """Return one row (low, high, number of points, 1 for integers) per axis."""
        kind, names = type(self).__name__, axes.names[first : first + n_axes]
        n_along, rows = self.points_per_axis or NET_POINTS.get(n_axes, math.inf), []
        for i in range(first, first + n_axes):
            if axes.kinds[i] == CATEGORICAL:
                raise ConfigurationError(
                    f"{kind} is for boxes, and {axes.names[i]} has categories, whose "
                    "numbers say nothing about distance. "
                    + (COMBINE if n_axes > 1 else "Use Matrix, Points, Graph or Discrete")
                )
            if axes.kinds[i] == INTERVAL:
                rows.append([axes.table[i, LOW], axes.ends[i], n_along, 0.0])
            else:
                rows.append([axes.low[i], axes.high[i], axes.high[i] - axes.low[i] + 1, 1.0])
        net = np.array(rows, np.float64)
        if net[:, 2].prod() > MOST_POINTS:
            raise ConfigurationError(
                f"{kind}: a net of the {n_axes} axes {', '.join(names)} would have more than "
                f"{MOST_POINTS:,} points; give points_per_axis=..., or use AdaptiveQ, whose boxes "
                "need no net"
            )
        return net


class L1(Norm):
    """A box under the sum of the differences along its axes. See `Norm`."""

    power = 1.0


class L2(Norm):
    """A box under the Euclidean distance. See `Norm`."""

    power = 2.0


class LInf(Norm):
    """A box under the largest difference along an axis, as in AdaptiveQ. See `Norm`."""

    power = math.inf


def norms(points: Floats, power: float) -> Floats:
    """Return the norms of the differences of all pairs of points [n, n_axes], infinity on overflow.

    Differences are divided by their maximum before the power is taken, so that a large scale does
    not overflow.
    """
    largest = np.zeros((len(points), len(points)))
    for along in points.T:
        np.maximum(largest, _differences(along), out=largest)
    if math.isinf(power) or points.shape[1] == 1:
        return largest
    if power == 1.0:
        largest[:] = 1.0  # a sum cannot overflow early, and without the division it is more exact
    apart = np.where(largest > 0.0, largest, 1.0)
    with np.errstate(over="ignore", under="ignore"):
        total = sum((_differences(along) / apart) ** power for along in points.T)
        return np.asarray(total ** (1.0 / power) * largest)


def _differences(along: Floats) -> Floats:
    """Return the distances of all pairs of points along one axis."""
    return np.asarray(np.abs(along[:, None] - along[None, :]))
