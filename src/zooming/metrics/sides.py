"""Metrics on one side, the states or the actions: finitely many points, or a box under a norm.

A metric is validated when it is constructed; if it is none, a ConfigurationError says why. On
finitely many points it is a distance matrix. A box is represented by a net of points.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.errors import ConfigurationError
from zooming.kernels import LOW
from zooming.kernels.balls import shortest_paths
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, as_numbers
from zooming.validation import Floats, check_float, check_int

SUM_TOLERANCE = 1e-9  # tolerance for rounding errors of sums, as a share of the largest distance
N_MIDDLES = 64  # the triangle inequality is checked through this many points
MOST_POINTS = 8_000  # the matrix then takes half a gigabyte, and sorting it as much again
NET_POINTS: dict[int, float] = {1: 129, 2: 33, 3: 9}  # number of axes of a box -> points along each
COMBINE = (
    "Number the combinations as one Discrete(n) and use Points(combinations, distance), or "
    "use AdaptiveQ, which takes any space"
)
EDGE_HINT = (
    "give edges as (node, node) or (node, node, length), nodes as numbers, strings or tuples"
)


class Side(NamedTuple):
    """The states or the actions of an environment, with their distances."""

    distances: Floats  # [n, n]
    grid: Floats  # [n_axes, 4]: low, high, number of points, 1 for integers


class Metric(ABC):
    """Base class of metrics on one side: on the states, or on the actions."""

    @abstractmethod
    def n_points(self, axes: Axes, first: int, n_axes: int) -> int:
        """Return the number of points of `side`."""

    @abstractmethod
    def side(self, axes: Axes, first: int, n_axes: int) -> Side:
        """Return the metric on the axes first to first + n_axes - 1 of an environment.

        Raise ConfigurationError if it does not fit these axes.
        """


class Matrix(Metric):
    """The metric given by a distance matrix, on points numbered 0, 1, ... by the environment.

    The states or the actions that it measures must be a space `Discrete(n)`.

    Parameters
    ----------
    distances : array [n, n]
        The distance matrix.
    points : iterable, optional
        A name for each point. Default: 0, 1, ...

    Examples
    --------
    >>> Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    Matrix(3 points, diameter 2)
    """

    def __init__(self, distances: ArrayLike, points: Iterable[Any] | None = None) -> None:
        name = type(self).__name__
        found = as_matrix(distances, name)
        names = range(len(found)) if points is None else points
        self.points = as_list(names, name, "a list of points")
        self.distances = check_metric(found, name, self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} points, diameter {self.distances.max():g})"

    def index(self, point: Any) -> int:
        """Return the number of a point, by which the environment and the agent refer to it.

        Raise ConfigurationError if there is no such point.

        Examples
        --------
        >>> Matrix([[0, 2], [2, 0]], ["left", "right"]).index("right")
        1
        """
        for i, known in enumerate(self.points):
            is_array = isinstance(known, np.ndarray) or isinstance(point, np.ndarray)
            if np.array_equal(known, point) if is_array else known == point:
                return i
        some = ", ".join(map(repr, self.points[:3]))
        raise ConfigurationError(
            f"{point!r} is not one of the {len(self)} points of this {type(self).__name__}; "
            f"`points` lists them: {some}{', ...' if len(self) > 3 else ''}"
        )

    def n_points(self, axes: Axes, first: int, n_axes: int) -> int:
        return len(self)

    def side(self, axes: Axes, first: int, n_axes: int) -> Side:
        return Side(self.distances, grid_row(axes, first, n_axes, type(self).__name__, len(self)))


class Points(Matrix):
    """Any points, under a distance function of your own.

    Parameters
    ----------
    points : iterable
        The points.
    distance : callable
        Function of two points. It is called once for each ordered pair.

    Examples
    --------
    >>> Points([(0, 0), (3, 4)], lambda one, other: abs(one[0] - other[0]) + abs(one[1] - other[1]))
    Points(2 points, diameter 7)
    """

    def __init__(self, points: Iterable[Any], distance: Callable[[Any, Any], float]) -> None:
        found = as_list(points, "Points", "a list of points")
        super().__init__(measure_pairs(found, distance, "Points"), found)


class Graph(Matrix):
    """The nodes of a graph, under the length of the shortest path.

    Parameters
    ----------
    edges : iterable
        Pairs (node, node) or triples (node, node, length), each for both directions. The default
        length is 1. Integer nodes are sorted. Others, any hashable objects, are numbered in the
        order of their appearance.

    Examples
    --------
    >>> edges = [("north", "east"), ("east", "south"), ("south", "west"), ("west", "north", 5.0)]
    >>> ring = Graph(edges)
    >>> ring.points, ring.distances[0].tolist()
    (['north', 'east', 'south', 'west'], [0.0, 1.0, 2.0, 3.0])
    """

    def __init__(self, edges: Iterable[Sequence[Any]]) -> None:
        if isinstance(edges, (str, dict)) or not isinstance(edges, Iterable):
            raise ConfigurationError(f"Graph: {edges!r} is not a list of edges; {EDGE_HINT}")
        every = [_as_edge(edge) for edge in edges]
        found = dict.fromkeys(node for edge in every for node in edge[:2])
        nodes = as_list(found, "Graph", "nodes")
        if not nodes:
            raise ConfigurationError(f"Graph: there are no edges; {EDGE_HINT}")
        if all(isinstance(node, (int, np.integer)) for node in nodes):
            nodes = sorted(int(node) for node in nodes)  # the order of Discrete(n, start=...)
        number = {node: i for i, node in enumerate(nodes)}
        lengths = np.full((len(nodes), len(nodes)), np.inf)
        np.fill_diagonal(lengths, 0.0)
        for one, other, length in every:
            i, j = number[one], number[other]
            lengths[i, j] = lengths[j, i] = min(lengths[i, j], length)
        shortest_paths(lengths)
        if np.isinf(lengths).any():
            i, j = np.argwhere(np.isinf(lengths))[0]
            raise ConfigurationError(
                f"Graph: there is no path of finite length from {nodes[i]!r} to {nodes[j]!r}; "
                "connect them, by edges that are not beyond floating point"
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

    def n_points(self, axes: Axes, first: int, n_axes: int) -> int:
        return int(grid_row(axes, first, n_axes, "Discrete")[0, 2])

    def side(self, axes: Axes, first: int, n_axes: int) -> Side:
        n = self.n_points(axes, first, n_axes)
        if n > MOST_POINTS:
            raise ConfigurationError(
                f"Discrete: {axes.names[first]} has {n:,} values, too many; at most "
                f"{MOST_POINTS:,}, since all distances are kept"
            )
        return Side(1.0 - np.eye(n), grid_row(axes, first, n_axes, "Discrete"))

    def __repr__(self) -> str:
        return "Discrete()"


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


NORMS: dict[str, type[Norm]] = {kind.__name__: kind for kind in (L1, L2, LInf)}
KINDS: dict[str, type[Any]] = {
    **{kind.__name__: kind for kind in (Matrix, Points, Graph, Discrete)},
    **NORMS,
}


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


def grid_row(axes: Axes, first: int, n_axes: int, kind: str, n: int | None = None) -> Floats:
    """Return the grid [1, 4] of the one integer axis that a metric on n points measures."""
    names = ", ".join(axes.names[first : first + n_axes])
    rule = f"{kind} needs one axis of whole numbers, a space Discrete(n)"
    if n_axes != 1:
        raise ConfigurationError(f"{rule}, got {n_axes} axes: {names}. {COMBINE}")
    if axes.kinds[first] == INTERVAL:
        raise ConfigurationError(f"{rule}, got {names}. For boxes use L1, L2 or LInf")
    low, high = float(axes.low[first]), float(axes.high[first])
    if n is not None and n != high - low + 1:
        raise ConfigurationError(
            f"{kind} has {n} points, but {names} has {int(high - low) + 1} values; they must be "
            "the same"
        )
    return np.array([[low, high, high - low + 1, 1.0]])


# --- validation -----------------------------------------------------------------------------------


def check_metric(distances: Floats, name: str, points: Sequence[Any]) -> Floats:
    """Return a distance matrix. Raise ConfigurationError if it is not a metric.

    The triangle inequality is checked through up to 64 middle points, drawn with a fixed seed.
    Different points may have distance 0. The agent then does not distinguish them.
    """
    n = len(distances)
    if len(points) != n:
        raise ConfigurationError(
            f"{name}: {len(points)} points for a {n} by {n} matrix; give one per row"
        )

    def refuse_if(wrong: NDArray[np.bool_], rule: str) -> None:
        if wrong.any():
            i, j = np.argwhere(wrong)[0].tolist()
            back = f", d({points[j]!r}, {points[i]!r}) = {distances[j, i]:g}" if i != j else ""
            raise ConfigurationError(
                f"{name}{rule}: d({points[i]!r}, {points[j]!r}) = {distances[i, j]:g}{back}"
            )

    refuse_if(~np.isfinite(distances), ": distances must be finite")
    refuse_if(distances < 0, ": distances must not be negative")
    slack = SUM_TOLERANCE * distances.max()
    itself = np.eye(n, dtype=bool) & (distances > slack)
    refuse_if(itself, ": the distance of a point from itself must be 0")
    refuse_if(np.abs(distances - distances.T) > slack, " is not symmetric")
    middles = np.arange(n)
    if n > N_MIDDLES:
        middles = np.random.default_rng(0).choice(n, N_MIDDLES, replace=False)
    for k in middles.tolist():
        with np.errstate(over="ignore"):  # an infinite sum violates nothing
            around = distances[:, k, None] + distances[None, k, :]
        shorter = distances > around + slack
        if shorter.any():
            i, j = np.argwhere(shorter)[0].tolist()
            raise ConfigurationError(
                f"{name} breaks the triangle inequality: d({points[i]!r}, {points[j]!r}) = "
                f"{distances[i, j]:g}, but d({points[i]!r}, {points[k]!r}) + d({points[k]!r}, "
                f"{points[j]!r}) = {distances[i, k]:g} + {distances[k, j]:g} = {around[i, j]:g}"
            )
    return distances


def as_matrix(distances: ArrayLike, name: str) -> Floats:
    """Return a square matrix as a float64 array. Raise ConfigurationError for anything else."""
    rule = "give a square matrix, one row per point, for example [[0, 2], [2, 0]]"
    try:
        found = as_numbers(distances, "the matrix")
    except (ConfigurationError, OverflowError) as error:
        raise ConfigurationError(
            f"{name}: the rows must hold numbers, equally many in each; {rule}"
        ) from error
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not found.size:
        raise ConfigurationError(f"{name}: the distances have the shape {found.shape}; {rule}")
    return found


def as_list(given: Any, name: str, what: str) -> list[Any]:
    """Return the given points as a list; raise ConfigurationError if there are too many."""
    if not isinstance(given, Iterable) or (isinstance(given, np.ndarray) and given.ndim == 0):
        raise ConfigurationError(f"{name}: {given!r} is not {what}; give a list of them")
    found = list(given)
    if len(found) > MOST_POINTS:
        raise ConfigurationError(
            f"{name}: {len(found):,} points are too many; at most {MOST_POINTS:,}, since all "
            "distances are kept"
        )
    return found


def measure_pairs(points: Sequence[Any], distance: Any, name: str) -> Floats:
    """Call the user's function for all ordered pairs of points. Return the distances [n, n]."""
    if not callable(distance):
        raise ConfigurationError(f"{name}: distance={distance!r} is not a function of two points")
    found = np.empty((len(points), len(points)))
    for i, one in enumerate(points):
        for j, other in enumerate(points):
            try:
                found[i, j] = _as_distance(distance(one, other))
            except Exception as error:  # a user's function may raise anything
                raise ConfigurationError(
                    f"{name}: distance({one!r}, {other!r}) failed with {error!r}; give a function "
                    "of two points that returns a number"
                ) from error
    return found


def _as_distance(value: Any) -> float:
    """Return a distance or a length as a float. Raise TypeError for a string of digits."""
    if isinstance(value, (str, bytes)) or np.iscomplexobj(value):
        raise TypeError(f"{value!r} is not a real number")
    return float(value)


def _as_edge(edge: Any) -> tuple[Any, Any, float]:
    """Return one edge as (node, node, length). Raise ConfigurationError if it is none."""
    try:
        one, other, *rest = edge
        hash((one, other))
        length = _as_distance(rest[0]) if rest else 1.0
        is_edge = not isinstance(edge, (str, bytes)) and len(rest) < 2 and 0.0 <= length < np.inf
    except (TypeError, ValueError, OverflowError):
        is_edge = False
    if not is_edge:
        raise ConfigurationError(
            f"Graph: {edge!r} is not an edge with a finite length >= 0; {EDGE_HINT}"
        )
    return one, other, length
