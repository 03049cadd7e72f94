"""Validate metrics: the axioms, and the distances, points and edges that a user gives.

Invalid input raises a ConfigurationError that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.errors import ConfigurationError
from zooming.spaces.flatten import as_numbers
from zooming.validation import Floats

SUM_TOLERANCE = 1e-9  # tolerance for rounding errors of sums, as a share of the largest distance
N_MIDDLES = 64  # the triangle inequality is checked through this many points
MOST_POINTS = 8_000  # the matrix then takes half a gigabyte, and sorting it as much again


def check_metric(distances: Floats, name: str, points: Sequence[Any]) -> Floats:
    """Return a distance matrix. Raise ConfigurationError if it is not a metric.

    Distances must be finite, >= 0, symmetric, and 0 from a point to itself. They must satisfy the
    triangle inequality, which is checked for all pairs through up to 64 middle points, drawn with a
    fixed seed. Different points may have distance 0. The agent then does not distinguish them.
    """
    n = len(distances)
    if len(points) != n:
        raise ConfigurationError(
            f"{name}: {len(points)} points for a {n} by {n} matrix; give one per row"
        )

    def describe(i: int, j: int) -> str:
        return f"d({points[i]!r}, {points[j]!r}) = {distances[i, j]:g}"

    def first(wrong: NDArray[np.bool_]) -> tuple[int, int]:
        i, j = np.argwhere(wrong)[0]
        return int(i), int(j)

    if not np.isfinite(distances).all():
        raise ConfigurationError(
            f"{name}: {describe(*first(~np.isfinite(distances)))}; distances must be finite"
        )
    if (distances < 0).any():
        raise ConfigurationError(
            f"{name}: {describe(*first(distances < 0))}; distances must not be negative"
        )
    slack = SUM_TOLERANCE * distances.max()
    if (np.diagonal(distances) > slack).any():
        i = int(np.flatnonzero(np.diagonal(distances) > slack)[0])
        raise ConfigurationError(
            f"{name}: {describe(i, i)}; the distance of a point from itself must be 0"
        )
    uneven = np.abs(distances - distances.T) > slack
    if uneven.any():
        i, j = first(uneven)
        raise ConfigurationError(f"{name} is not symmetric: {describe(i, j)}, but {describe(j, i)}")
    middles = (
        range(n)
        if n <= N_MIDDLES
        else np.random.default_rng(0).choice(n, N_MIDDLES, replace=False).tolist()
    )
    for k in middles:
        with np.errstate(over="ignore"):  # an infinite sum violates nothing
            around = distances[:, k, None] + distances[None, k, :]
        shorter = distances > around + slack
        if shorter.any():
            i, j = first(shorter)
            raise ConfigurationError(
                f"{name} breaks the triangle inequality: {describe(i, j)}, but d({points[i]!r}, "
                f"{points[k]!r}) + "
                f"d({points[k]!r}, {points[j]!r}) = {distances[i, k]:g} + {distances[k, j]:g} = "
                f"{around[i, j]:g}"
            )
    return distances


def as_matrix(distances: ArrayLike, name: str) -> Floats:
    """Return a square matrix as a float64 array. Raise ConfigurationError for anything else."""
    try:
        found = as_numbers(distances, "the matrix")
    except (ConfigurationError, OverflowError) as error:
        raise ConfigurationError(
            f"{name}: the rows must hold numbers, equally many in each; give a square "
            "matrix, for example [[0, 2], [2, 0]]"
        ) from error
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not found.size:
        raise ConfigurationError(
            f"{name}: the distances have the shape {found.shape}; give a square matrix, one row "
            "per point"
        )
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


def as_distance(value: Any) -> float:
    """Return a distance or a length as a float. A string of digits is refused.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If it is not a real number.
    """
    if isinstance(value, (str, bytes)) or np.iscomplexobj(value):
        raise TypeError(f"{value!r} is not a real number")
    return float(value)


def measure_pairs(points: Sequence[Any], distance: Any, name: str) -> Floats:
    """Call the user's function for all ordered pairs of points. Return the distances [n, n]."""
    if not callable(distance):
        raise ConfigurationError(f"{name}: distance={distance!r} is not a function of two points")
    found = np.empty((len(points), len(points)))
    for i, one in enumerate(points):
        for j, other in enumerate(points):
            try:
                value = distance(one, other)
            except Exception as error:  # a user's function may raise anything
                raise ConfigurationError(
                    f"{name}: distance({one!r}, {other!r}) raised {type(error).__name__}: "
                    f"{error}; give a function of two "
                    f"points that returns a number"
                ) from error
            try:
                found[i, j] = as_distance(value)
            except (TypeError, ValueError, OverflowError) as error:
                raise ConfigurationError(
                    f"{name}: distance({one!r}, {other!r}) gave {value!r}; it must return a number"
                ) from error
    return found


def as_edges(edges: Any) -> list[tuple[Any, Any, float]]:
    """Return the edges of a graph as (node, node, length)."""
    hint = "give edges as (node, node) or (node, node, length), or {node: {node: length}}"
    if isinstance(edges, Mapping):
        for one, near in edges.items():
            if not isinstance(near, Mapping):
                raise ConfigurationError(f"Graph: {one!r} has {near!r} for its neighbors; {hint}")
        found: Any = [
            (one, other, length) for one, near in edges.items() for other, length in near.items()
        ]
    elif isinstance(edges, str) or not isinstance(edges, Iterable):
        raise ConfigurationError(f"Graph: {edges!r} is not a list of edges; {hint}")
    else:
        found = list(edges)
    return [_as_edge(edge, hint) for edge in found]


def _as_edge(edge: Any, hint: str) -> tuple[Any, Any, float]:
    """Return one edge as (node, node, length)."""
    if (
        not isinstance(edge, (Sequence, np.ndarray))
        or isinstance(edge, (str, bytes))
        or len(edge) not in (2, 3)
    ):
        raise ConfigurationError(f"Graph: {edge!r} is not an edge; {hint}")
    for node in edge[:2]:
        try:
            hash(node)
        except TypeError as error:
            raise ConfigurationError(
                f"Graph: {node!r} cannot name a node, since it is not hashable; name nodes by "
                "numbers, strings or tuples"
            ) from error
    try:
        length = as_distance(edge[2]) if len(edge) > 2 else 1.0
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"Graph: the edge from {edge[0]!r} to {edge[1]!r} has the length {edge[2]!r}; {hint}"
        ) from error
    if not (np.isfinite(length) and length >= 0.0):
        raise ConfigurationError(
            f"Graph: the edge from {edge[0]!r} to {edge[1]!r} has the length {length}; give a "
            "finite one, >= 0"
        )
    return edge[0], edge[1], length


def is_same(one: Any, other: Any) -> bool:
    """Return whether two names of points are equal. Arrays are compared entry by entry."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        try:
            return bool(np.array_equal(one, other))
        except (TypeError, ValueError):
            return False
    return bool(one == other)
