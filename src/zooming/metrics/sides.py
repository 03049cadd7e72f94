"""Base class of metrics on one side: on the states, or on the actions.

Metrics are validated when they are constructed. A metric on finitely many points is its distance
matrix. A box is represented by a net of points, and each value is rounded to the nearest one. So
nothing finer than the net is distinguished. `pairs` combines a metric on the states and one on the
actions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from zooming.spaces.axes import Axes
from zooming.validation import Floats

COMBINE = (
    "Number the combinations as one Discrete(n) and use Points(combinations, distance), or "
    "use AdaptiveQ, which takes any space"
)


@dataclass(frozen=True)
class Side:
    """The states or the actions with their distances, as `Metric.side` returns them.

    Attributes
    ----------
    distances : array [n, n]
        Distances of its points.
    grid : array [n_axes, 4]
        A row (low, high, number of points, 1 for integers) per axis.

    Examples
    --------
    >>> import numpy as np
    >>> side = Side(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 1.0, 2.0, 1.0]]))
    >>> side.distances.shape, side.grid.tolist()
    ((2, 2), [[0.0, 1.0, 2.0, 1.0]])
    """

    distances: Floats
    grid: Floats


class Metric(ABC):
    """Base class of metrics on one side: a metric on the states, or on the actions."""

    @abstractmethod
    def side(self, axes: Axes, first: int, n_axes: int) -> Side:
        """Return the metric on some axes of an environment.

        Parameters
        ----------
        axes : Axes
            The axes of the environment.
        first, n_axes : int
            The metric is for the axes first to first + n_axes - 1.

        Returns
        -------
        Side
            The distances and the grid.

        Raises
        ------
        ConfigurationError
            If the metric does not fit these axes.
        """

    def n_points(self, axes: Axes, first: int, n_axes: int) -> int | None:
        """Return the number of points of `side`, or None if it is not known in advance."""
        return None
