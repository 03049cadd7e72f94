"""Metrics on finitely many points: by matrix, function or graph, or all at distance 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from zooming.errors import ConfigurationError
from zooming.kernels.balls import distances
from zooming.metrics import axioms
from zooming.metrics.axioms import MOST_POINTS, as_list
from zooming.metrics.sides import COMBINE, Metric, Side
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import INTERVAL


class Finite(Metric):
    """A metric on finitely many points, numbered 0, 1, ... by the environment.

    The states or the actions that it measures must be a space `Discrete(n)`.

    Parameters
    ----------
    distances : array [n, n]
        The distance matrix.
    points : iterable
        A name for each point.

    Raises
    ------
    ConfigurationError
        If the distances are not a metric.

    Examples
    --------
    >>> Finite([[0, 2], [2, 0]], ["left", "right"]).index("right")
    1
    """

    def __init__(self, distances: ArrayLike, points: Iterable[Any]) -> None:
        name = type(self).__name__
        self.points = as_list(points, name, "a list of points")
        self.distances = axioms.check_metric(axioms.as_matrix(distances, name), name, self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} points, diameter {self.distances.max():g})"

    def index(self, point: Any) -> int:
        """Return the number of a point, by which the environment and the agent refer to it.

        Parameters
        ----------
        point : object
            The name of the point.

        Returns
        -------
        int
            Its index in `points`.

        Raises
        ------
        ConfigurationError
            If there is no such point.
        """
        for i, known in enumerate(self.points):
            if axioms.is_same(known, point):
                return i
        raise ConfigurationError(
            f"{point!r} is not one of the {len(self)} points of this {type(self).__name__}; "
            "`points` lists them: "
            f"{', '.join(map(repr, self.points[:3]))}{', ...' if len(self) > 3 else ''}"
        )

    def n_points(self, axes: Axes, first: int, n_axes: int) -> int | None:
        return len(self)

    def side(self, axes: Axes, first: int, n_axes: int) -> Side:
        n, name = n_values(axes, first, n_axes, type(self).__name__)
        if n != len(self):
            raise ConfigurationError(
                f"{type(self).__name__} has {len(self)} points, but {name} has {n} values; they "
                "must be the same"
            )
        return Side(self.distances, np.array([[axes.low[first], axes.high[first], n, 1.0]]))


class Matrix(Finite):
    """The metric given by a distance matrix.

    Parameters
    ----------
    distances : array [n, n]
        The distance matrix.
    points : iterable, optional
        A name for each point. Default: 0, 1, ...

    Raises
    ------
    ConfigurationError
        If the distances are not a metric.

    Examples
    --------
    >>> Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    Matrix(3 points, diameter 2)
    >>> try:
    ...     Matrix([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    ... except ValueError as error:
    ...     print(error)
    Matrix breaks the triangle inequality: d(0, 2) = 5, but d(0, 1) + d(1, 2) = 1 + 1 = 2
    """

    def __init__(self, distances: ArrayLike, points: Iterable[Any] | None = None) -> None:
        found = axioms.as_matrix(distances, "Matrix")
        super().__init__(found, range(len(found)) if points is None else points)


class Points(Finite):
    """Any points, under a distance function of your own.

    Parameters
    ----------
    points : iterable
        The points.
    distance : callable
        Function of two points. It is called once for each ordered pair.

    Raises
    ------
    ConfigurationError
        If the distances are not a metric.

    Examples
    --------
    >>> Points([(0, 0), (3, 4)], lambda one, other: abs(one[0] - other[0]) + abs(one[1] - other[1]))
    Points(2 points, diameter 7)
    """

    def __init__(self, points: Iterable[Any], distance: Callable[[Any, Any], float]) -> None:
        found = as_list(points, "Points", "a list of points")
        super().__init__(axioms.measure_pairs(found, distance, "Points"), found)


class Graph(Finite):
    """The nodes of a graph, under the length of the shortest path.

    Parameters
    ----------
    edges : iterable or mapping
        Pairs (node, node) or triples (node, node, length), each for both directions. The default
        length is 1. Or an adjacency mapping {node: {node: length}} that has every edge in both
        directions. Nodes are any hashable objects. Integers are sorted. Other nodes are numbered
        in the order of their appearance.

    Raises
    ------
    ConfigurationError
        If there are no edges, or two nodes are not connected, or the lengths are not symmetric.

    Examples
    --------
    >>> edges = [("north", "east"), ("east", "south"), ("south", "west"), ("west", "north", 5.0)]
    >>> ring = Graph(edges)
    >>> ring.points, ring.distances[0].tolist()
    (['north', 'east', 'south', 'west'], [0.0, 1.0, 2.0, 3.0])
    """

    def __init__(self, edges: Iterable[Sequence[Any]] | Mapping[Any, Mapping[Any, float]]) -> None:
        every = axioms.as_edges(edges)
        alone = edges if isinstance(edges, Mapping) else ()  # may have nodes without an edge
        nodes = as_list(
            dict.fromkeys([*alone, *(node for edge in every for node in edge[:2])]),
            "Graph",
            "nodes",
        )
        if all(isinstance(node, (int, np.integer)) for node in nodes):
            nodes = sorted(int(node) for node in nodes)  # the order of Discrete(n, start=...)
        if not nodes:
            raise ConfigurationError(
                "Graph: there are no edges; give pairs of nodes, for example [(0, 1), (1, 2)]"
            )
        number = {node: i for i, node in enumerate(nodes)}
        lengths = np.full((len(nodes), len(nodes)), np.inf)
        np.fill_diagonal(lengths, 0.0)
        for one, other, length in every:
            i, j = number[one], number[other]
            lengths[i, j] = min(lengths[i, j], length)
            if not isinstance(edges, Mapping):
                lengths[j, i] = min(lengths[j, i], length)
        if (lengths != lengths.T).any():
            i, j = np.argwhere(lengths != lengths.T)[0]
            raise ConfigurationError(
                f"Graph is not symmetric: the edge from {nodes[i]!r} to {nodes[j]!r} has the "
                f"length {lengths[i, j]:g}, the "
                f"one back {lengths[j, i]:g}; a metric goes both ways"
            )
        one_hop = np.where(np.isinf(lengths), np.inf, 0.0)
        distances.shortest_paths(lengths)
        if np.isinf(lengths).any():
            i, j = np.argwhere(np.isinf(lengths))[0]
            distances.shortest_paths(one_hop)
            if np.isfinite(one_hop[i, j]):
                raise ConfigurationError(
                    f"Graph: the path from {nodes[i]!r} to {nodes[j]!r} is beyond floating point; "
                    "shorten the edges"
                )
            raise ConfigurationError(
                f"Graph: there is no path from {nodes[i]!r} to {nodes[j]!r}, so their distance "
                "is infinite; connect them"
            )
        # The sums along a path and back may round differently: make the matrix symmetric.
        super().__init__(np.minimum(lengths, lengths.T), nodes)


class Discrete(Metric):
    """The discrete metric: any two values are at distance 1. Nothing is learned across values.

    Examples
    --------
    >>> Discrete()
    Discrete()
    """

    def n_points(self, axes: Axes, first: int, n_axes: int) -> int | None:
        return n_values(axes, first, n_axes, "Discrete")[0]

    def side(self, axes: Axes, first: int, n_axes: int) -> Side:
        n, name = n_values(axes, first, n_axes, "Discrete")
        if n > MOST_POINTS:
            raise ConfigurationError(
                f"Discrete: {name} has {n:,} values, too many; at most {MOST_POINTS:,}, since all "
                "distances are kept"
            )
        return Side(1.0 - np.eye(n), np.array([[axes.low[first], axes.high[first], n, 1.0]]))

    def __repr__(self) -> str:
        return "Discrete()"


def n_values(axes: Axes, first: int, n_axes: int, kind: str) -> tuple[int, str]:
    """Return (number of values, name) of the single integer axis that a finite metric measures."""
    names = ", ".join(axes.names[first : first + n_axes])
    low, high = float(axes.low[first]), float(axes.high[first])
    if n_axes != 1:
        raise ConfigurationError(
            f"{kind} needs one axis of whole numbers, got {n_axes} axes: {names}. {COMBINE}"
        )
    if axes.kinds[first] == INTERVAL:
        raise ConfigurationError(
            f"{kind} needs one axis of whole numbers, a space Discrete(n), got {names}. For "
            "boxes use L1, L2 or LInf"
        )
    return int(high - low) + 1, names
