"""Metrics on the states or on the actions of an environment, validated when they are constructed.

A metric on finitely many points is its distance matrix. A box is represented by a net of points,
and each value counts as the nearest of them, so nothing finer than the net is distinguished.
`pairs` combines a metric of the states and one of the actions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.errors import ConfigurationError
from zooming.kernels import LOW, distances
from zooming.metrics import axioms
from zooming.metrics.axioms import MOST_POINTS, as_list
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL, INTERVAL
from zooming.validation import as_float, check_float, check_int

Floats = NDArray[np.float64]
COMBINE = (
    "Number the combinations as one Discrete(n) and use Points(combinations, distance), or "
    "use AdaptiveQ, which takes any space"
)
NET_POINTS = {1: 129, 2: 33, 3: 9}  # number of axes of a box -> points along each


@dataclass(frozen=True)
class Side:
    """One side of a product, as `Metric.side` returns it.

    Attributes
    ----------
    distances : array [n, n]
        Distances of its points.
    grid : array [n_axes, 4]
        A row (low, high, number of points, 1 for integers) per axis.
    """

    distances: Floats
    grid: Floats


class Metric(ABC):
    """A metric on the states, or on the actions. Base class of all metrics of one side."""

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
        """Return the number of points of `side`, or None if it is unknown without computing
        distances.
        """
        return None


class Finite(Metric):
    """A metric on finitely many points, which the environment numbers 0, 1, ... (space
    Discrete(n)).

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
        Pairs (node, node) or triples (node, node, length), each for both directions; the default
        length is 1. Or an adjacency mapping {node: {node: length}} that has every edge in both
        directions. Nodes are any hashable objects. Integers are sorted, other nodes are numbered in
        the order of their appearance.

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
                f"Graph: there is no path from {nodes[i]!r} to {nodes[j]!r}, so that their "
                "distance is not finite; connect them"
            )
        # The sums along a path and back may round differently: make the matrix symmetric.
        super().__init__(np.minimum(lengths, lengths.T), nodes)


class Strings(Finite):
    """Strings under the edit distance: the least number of letters to insert, delete or change.

    Parameters
    ----------
    strings : iterable of str
        The strings, each once.

    Raises
    ------
    ConfigurationError
        If there is no string, or one comes twice.

    Examples
    --------
    >>> Strings(["cat", "cart", "dog"]).distances[0].tolist()
    [0.0, 1.0, 3.0]
    """

    def __init__(self, strings: Iterable[str]) -> None:
        words = [] if isinstance(strings, str) else as_list(strings, "Strings", "a list of strings")
        if not words or not all(isinstance(word, str) for word in words):
            raise ConfigurationError("Strings: give a list of strings, at least one")
        if len(set(words)) < len(words):
            twice = next(word for i, word in enumerate(words) if word in words[:i])
            raise ConfigurationError(
                f"Strings: {twice!r} is there twice, and the two could not be told apart; give "
                "each string once"
            )
        letters = np.array([ord(letter) for word in words for letter in word], np.int64)
        ends = np.cumsum([0, *(len(word) for word in words)])
        super().__init__(distances.edit_distances(letters, ends), words)


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


class Norm(Metric):
    """A box under a p-norm. Subclasses set `power` to p >= 1; `L1`, `L2` and `LInf` are ready-made.

    Every axis is rescaled to length 1 and then multiplied by its `scale`. A net of points
    represents the box. On an axis of integers, all values are points.

    Parameters
    ----------
    points_per_axis : int, optional
        Number of points along each axis of the net. Default: 129, 33 or 9 for a box with 1, 2 or 3
        axes.
    scale : float or sequence of float
        Length of the axes: one number for all, or one per axis.

    Raises
    ------
    ConfigurationError
        If an argument is out of range.

    Examples
    --------
    >>> L2(points_per_axis=17, scale=[1.0, 0.5])
    L2(points_per_axis=17, scale=[1.0, 0.5])
    """

    power: float

    def __init__(
        self, points_per_axis: int | None = None, scale: float | Sequence[float] = 1.0
    ) -> None:
        self.points_per_axis = (
            None if points_per_axis is None else check_int(points_per_axis, "points_per_axis", 2)
        )
        if not isinstance(scale, (int, float, np.number, Sequence, np.ndarray)) or isinstance(
            scale, (str, bytes)
        ):
            raise ConfigurationError(
                f"{type(self).__name__}: scale={scale!r}: give a number, or one per axis"
            )
        scales = (
            [scale]
            if isinstance(scale, (int, float, np.number))
            else list(np.atleast_1d(np.asarray(scale, object)))
        )
        self.scale = [
            check_float(one, f"{type(self).__name__}: scale", 0.0, math.inf) for one in scales
        ]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(points_per_axis={self.points_per_axis}, scale={self.scale})"

    def _check_power(self) -> float:
        """Return the exponent p; raise ConfigurationError if it is not a number >= 1."""
        kind, power = type(self).__name__, getattr(self, "power", None)
        if (
            isinstance(power, bool)
            or not isinstance(power, (int, float, np.number))
            or not power >= 1
        ):
            raise ConfigurationError(
                f"{kind}: power={power!r}: a norm needs a number p >= 1, or infinity; below 1 the "
                "triangle inequality fails, "
                f"(1 + 1)^(1/p) > 1 + 1. L1, L2 and LInf are ready"
            )
        return as_float(power)

    def n_points(self, axes: Axes, first: int, n_axes: int) -> int | None:
        return math.prod(int(n) for n in self._net(axes, first, n_axes)[:, 2])

    def side(self, axes: Axes, first: int, n_axes: int) -> Side:
        kind, names, net = (
            type(self).__name__,
            axes.names[first : first + n_axes],
            self._net(axes, first, n_axes),
        )
        if len(self.scale) not in (1, n_axes):
            raise ConfigurationError(
                f"{kind}: scale has {len(self.scale)} numbers for the {n_axes} axes "
                f"{', '.join(names)}"
            )
        along = [np.linspace(0.0, 1.0, int(n)) for n in net[:, 2]]
        unit = np.stack(np.meshgrid(*along, indexing="ij"), axis=-1).reshape(-1, n_axes)
        found = distances.norms(unit * self.scale, self._check_power())
        if not math.isfinite(float(found.max())):
            raise ConfigurationError(
                f"{kind}: the distances are beyond floating point; give a smaller scale than "
                f"{self.scale}"
            )
        return Side(found, net)

    def _net(self, axes: Axes, first: int, n_axes: int) -> Floats:
        """Return a row (low, high, number of points, 1 for integers) per axis."""
        kind, names = type(self).__name__, axes.names[first : first + n_axes]
        n_along, rows = self.points_per_axis or NET_POINTS.get(n_axes), []
        for i in range(first, first + n_axes):
            if axes.kinds[i] == CATEGORICAL:
                raise ConfigurationError(
                    f"{kind} is for boxes, and {axes.names[i]} has categories, of which none is "
                    "near another by its number. "
                    + (COMBINE if n_axes > 1 else "Use Matrix, Points, Graph or Discrete")
                )
            is_whole = axes.kinds[i] != INTERVAL
            low, high = (
                (axes.low[i], axes.high[i]) if is_whole else (axes.table[i, LOW], axes.ends[i])
            )
            rows.append([low, high, high - low + 1 if is_whole else n_along or math.inf, is_whole])
        net = np.array(rows, np.float64)
        if net[:, 2].prod() > MOST_POINTS:
            raise ConfigurationError(
                f"{kind}: a net of the {n_axes} axes {', '.join(names)} would have more than "
                f"{MOST_POINTS:,} points; "
                f"give points_per_axis=..., or use AdaptiveQ, whose boxes need no net"
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


KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Matrix, Points, Graph, Strings, Discrete, L1, L2, LInf)
}


def n_values(axes: Axes, first: int, n_axes: int, kind: str) -> tuple[int, str]:
    """Return the number of values of the single integer axis that a finite metric needs, and its
    name.
    """
    names = ", ".join(axes.names[first : first + n_axes])
    low, high = float(axes.low[first]), float(axes.high[first])
    if n_axes != 1:
        raise ConfigurationError(
            f"{kind} is for points named by one whole number, and here are {n_axes} axes: "
            f"{names}. {COMBINE}"
        )
    if axes.kinds[first] == INTERVAL:
        raise ConfigurationError(
            f"{kind} is for points named by one whole number: a space Discrete(n); here are "
            f"{names}. For boxes there are "
            f"L1, L2 and LInf"
        )
    return int(high - low) + 1, names
