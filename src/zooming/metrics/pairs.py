"""Metrics on (state, action) pairs: `Product`, and `Pairs` for a metric that is not a product."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.errors import ConfigurationError
from zooming.kernels.balls import PAIRS
from zooming.metrics import finite
from zooming.metrics.finite import MOST_POINTS, Discrete, Graph, Matrix, Metric, Points
from zooming.metrics.norms import L1, L2, LInf, Norm
from zooming.spaces.axes import Axes
from zooming.validation import Floats, check_float, check_int

NORMS: dict[str, type[Norm]] = {kind.__name__: kind for kind in (L1, L2, LInf)}
KINDS: dict[str, type[Any]] = {
    **{kind.__name__: kind for kind in (Matrix, Points, Graph, Discrete)},
    **NORMS,
}
POWERS = {"max": 0.0, "sum": 1.0, 1.0: 1.0, 2.0: 2.0}  # `combine` -> p, as the kernels store it
SIDES = ("states", "actions")


class Product:
    """Combine a metric of the states and one of the actions to a distance of (state, action) pairs.

    Parameters
    ----------
    states, actions : Metric
        The two metrics.
    combine : {"max", "sum", 2.0}
        How to combine the two distances. 2 is the Euclidean norm of the two.
    scale : (float, float)
        Factors of the two distances, the states' first. Distances with factor 0 are ignored.

    Examples
    --------
    >>> from zooming.metrics import Discrete, Graph
    >>> Product(Graph([(0, 1)]), Discrete(), combine="sum", scale=(1.0, 4.0))
    Product(Graph(2 points, diameter 1), Discrete(), combine='sum', scale=(1.0, 4.0))
    """

    def __init__(
        self,
        states: Metric,
        actions: Metric,
        combine: str | float = "max",
        scale: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        for metric, what in zip((states, actions), SIDES, strict=True):
            if not isinstance(metric, Metric):
                raise ConfigurationError(
                    f"Product: {metric!r} is not a metric of the {what}; give one of "
                    f"{', '.join(KINDS)}"
                )
        if not isinstance(combine, str):
            combine = check_float(combine, "Product: combine", -math.inf, math.inf)
        if combine not in POWERS:
            raise ConfigurationError(
                f'Product: combine={combine!r}: choose "max", "sum" (or 1), or 2'
            )
        if not isinstance(scale, (tuple, list)) or len(scale) != 2:
            raise ConfigurationError(
                f"Product: scale={scale!r}: give two numbers, (of the states, of the actions)"
            )
        first, second = (check_float(one, "Product: scale", 0.0, math.inf) for one in scale)
        self.states, self.actions, self.combine = states, actions, combine
        self.scale = (first, second)

    @property
    def power(self) -> float:
        """The exponent p of the norm, as the kernels store it: 0 means the maximum."""
        return POWERS[self.combine]

    def __repr__(self) -> str:
        return (
            f"Product({self.states!r}, {self.actions!r}, combine={self.combine!r}, "
            f"scale={self.scale})"
        )


class Pairs:
    """A metric on (state, action) pairs that is not a product. Both spaces must be Discrete.

    Parameters
    ----------
    states, actions : int or iterable
        The points of each side, or their number.
    distance : callable or array
        A function of two pairs, `distance((state, action), (state, action))`, called once for all
        ordered combinations. Or an array of all distances, [n_states, n_actions, n_states,
        n_actions], or a square matrix over the pairs, where pairs of the first state come first.

    Examples
    --------
    >>> Pairs(3, 3, lambda one, other: abs(sum(one) - sum(other)))  # only state + action matters
    Pairs(3 states, 3 actions, diameter 4)
    """

    power = PAIRS

    def __init__(
        self,
        states: int | Iterable[Any],
        actions: int | Iterable[Any],
        distance: Callable[[tuple[Any, Any], tuple[Any, Any]], float] | ArrayLike,
    ) -> None:
        self.states, self.actions = _as_points(states, "states"), _as_points(actions, "actions")
        shape = len(self.states), len(self.actions)
        if shape[0] * shape[1] > MOST_POINTS:
            raise ConfigurationError(
                f"Pairs: {shape[0]:,} states and {shape[1]:,} actions make too many pairs; at most "
                f"{MOST_POINTS:,}, since all their distances are kept. A Product keeps those of "
                "the two sides only"
            )
        pairs = list(itertools.product(self.states, self.actions))
        if callable(distance):
            found = finite.measure_pairs(pairs, distance, "Pairs")
        else:
            given = np.asarray(distance)
            if given.shape == shape * 2:
                distance = given.reshape(len(pairs), -1)
            found = finite.as_matrix(distance, "Pairs")
        self.distances = finite.check_metric(found, "Pairs", pairs)

    def __repr__(self) -> str:
        return (
            f"Pairs({len(self.states)} states, {len(self.actions)} actions, diameter "
            f"{self.distances.max():g})"
        )

    def grid(self, axes: Axes) -> Floats:
        """Return one row (low, high, number of points, 1 for integers) per axis."""
        n_state = axes.n_state
        states = finite.grid_row(axes, 0, n_state, "Pairs", len(self.states))
        actions = finite.grid_row(axes, n_state, axes.n_action, "Pairs", len(self.actions))
        return np.concatenate([states, actions])


def _as_points(given: Any, what: str) -> list[Any]:
    """Return the states or the actions of `Pairs` as a list."""
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        given = range(min(check_int(given, f"Pairs: {what}", 1), MOST_POINTS + 1))
    points = finite.as_list(given, "Pairs", what)
    if not points:
        raise ConfigurationError(
            f"Pairs: there are no {what}; give a list of them, or how many there are"
        )
    return points


# --- files ----------------------------------------------------------------------------------------


def metric_to_json(metric: Product | Pairs) -> dict[str, Any]:
    """Return a metric as JSON values. The distances of finite sets are stored as arrays."""
    if isinstance(metric, Pairs):
        points = {name: getattr(metric, name) for name in SIDES}
        return {"kind": "Pairs", **{name: _as_json(of) or len(of) for name, of in points.items()}}
    sides = {name: _side_to_json(getattr(metric, name)) for name in SIDES}
    return {"combine": metric.combine, "scale": list(metric.scale), **sides}


def _side_to_json(metric: Metric) -> dict[str, Any]:
    kind = type(metric).__name__
    if isinstance(metric, (Matrix, Discrete)):
        return {"kind": "Matrix", "points": _as_json(getattr(metric, "points", None))}
    if not isinstance(metric, Norm) or NORMS.get(kind) is not type(metric):
        raise ConfigurationError(
            f"a metric of your own ({kind}) cannot be saved; one that is made by metrics.Matrix "
            "or metrics.Points can"
        )
    return {"kind": kind, "points_per_axis": metric.points_per_axis, "scale": metric.scale}


def metric_from_json(stored: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Product | Pairs:
    """Return the metric that `metric_to_json` described, with distances from the file's arrays."""
    if stored.get("kind") == "Pairs":
        states, actions = (_from_json(stored[name]) for name in SIDES)
        return Pairs(states, actions, np.array(arrays.get("pair_distances"), np.float64))
    states, actions = (
        _side_from_json(stored[name], arrays.get(f"{name}_distances")) for name in SIDES
    )
    return Product(states, actions, stored["combine"], tuple(stored["scale"]))


def _side_from_json(stored: dict[str, Any], found: NDArray[Any] | None) -> Metric:
    if stored["kind"] == "Matrix":
        return Matrix(np.array(found, np.float64), _from_json(stored["points"]))
    if stored["kind"] not in NORMS:
        raise ValueError(f"the metric {stored['kind']} is unknown")
    return NORMS[stored["kind"]](stored["points_per_axis"], stored["scale"])


def _as_json(points: list[Any] | None) -> list[Any] | None:
    """Return the names of points as JSON. Warn and return None if a file cannot hold them."""

    def name_as_json(point: Any) -> Any:
        if isinstance(point, tuple):
            return [name_as_json(part) for part in point]
        if isinstance(point, np.generic):
            return point.item()
        if not isinstance(point, (str, int, float)):
            raise TypeError(f"{point!r} is neither a string, a number, nor a tuple of these")
        return point

    try:
        return None if points is None else [name_as_json(point) for point in points]
    except TypeError as error:
        message = (
            f"{error}: the names of the points are not in the file, which numbers them 0, "
            "1, ..., as predict does"
        )
        warnings.warn(message, stacklevel=6)
        return None


def _from_json(stored: Any) -> Any:
    """Return stored names of points. Inner lists become tuples again."""

    def make_name(point: Any) -> Any:
        return tuple(make_name(part) for part in point) if isinstance(point, list) else point

    return [make_name(point) for point in stored] if isinstance(stored, list) else stored
