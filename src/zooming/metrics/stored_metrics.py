"""Convert metrics to JSON and arrays for the file of an agent, and back."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.metrics.finite import Discrete, Finite, Matrix
from zooming.metrics.norms import Norm
from zooming.metrics.pairs import KINDS, Pairs, Product
from zooming.metrics.sides import Metric

SIDES = ("states", "actions")


def metric_to_json(metric: Product | Pairs) -> dict[str, Any]:
    """Return a `Product` or `Pairs` as JSON values."""
    if isinstance(metric, Pairs):
        return {
            "kind": "Pairs",
            **{
                name: _as_json(getattr(metric, name)) or len(getattr(metric, name))
                for name in SIDES
            },
        }
    sides = {name: side_to_json(getattr(metric, name)) for name in SIDES}
    return {"combine": metric.combine, "scale": list(metric.scale), **sides}


def side_to_json(metric: Metric) -> dict[str, Any]:
    """Return a metric on one side as JSON. The distances of a finite set are stored as an array."""
    kind = type(metric).__name__
    is_own_norm = isinstance(metric, Norm) and KINDS.get(kind) is not type(metric)
    if is_own_norm or not isinstance(metric, (Norm, Finite, Discrete)):
        raise ConfigurationError(
            f"a metric of your own ({kind}) cannot be saved; one that is made by metrics.Matrix "
            "or metrics.Points can"
        )
    if isinstance(metric, Norm):
        return {"kind": kind, "points_per_axis": metric.points_per_axis, "scale": metric.scale}
    return {"kind": "Matrix", "points": _as_json(getattr(metric, "points", None))}


def metric_from_json(stored: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Product | Pairs:
    """Return the metric that `metric_to_json` described, with distances from the file's arrays."""
    if stored.get("kind") == "Pairs":
        states, actions = (_from_json(stored[name]) for name in SIDES)
        return Pairs(states, actions, np.array(arrays.get("pair_distances"), np.float64))
    states, actions = (_rebuild(stored[name], arrays.get(f"{name}_distances")) for name in SIDES)
    return Product(states, actions, stored["combine"], tuple(stored["scale"]))


def _rebuild(stored: dict[str, Any], found: NDArray[Any] | None) -> Metric:
    if stored["kind"] == "Matrix":
        return Matrix(np.array(found, np.float64), _from_json(stored["points"]))
    if stored["kind"] not in ("L1", "L2", "LInf"):
        raise ValueError(f"the metric {stored['kind']} is unknown")
    norm: Metric = KINDS[stored["kind"]](stored["points_per_axis"], stored["scale"])
    return norm


def _as_json(points: list[Any] | None) -> list[Any] | None:
    """Return the names of points as JSON. Warn and return None if a file cannot hold them."""
    if points is None:
        return None
    try:
        return [_name_as_json(point) for point in points]
    except TypeError as error:
        message = (
            f"{error}: the names of the points are not in the file, which numbers them 0, "
            "1, ..., as predict does"
        )
        warnings.warn(message, stacklevel=6)
        return None


def _name_as_json(point: Any) -> Any:
    if isinstance(point, tuple):
        return [_name_as_json(part) for part in point]
    if isinstance(point, np.generic):
        return point.item()
    if not isinstance(point, (str, int, float)):
        raise TypeError(f"{point!r} is neither a string, a number, nor a tuple of these")
    return point


def _from_json(stored: Any) -> Any:
    """Return stored names of points. Inner lists become tuples again."""

    def make_name(point: Any) -> Any:
        return tuple(make_name(part) for part in point) if isinstance(point, list) else point

    return [make_name(point) for point in stored] if isinstance(stored, list) else stored
