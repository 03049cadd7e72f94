"""Metrics on (state, action) pairs: `Product`, and `Pairs` for a metric that is not a product."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from zooming.errors import ConfigurationError
from zooming.kernels.balls import balls
from zooming.metrics import axioms
from zooming.metrics.axioms import MOST_POINTS, as_list
from zooming.metrics.finite import Discrete, Graph, Matrix, Points, n_values
from zooming.metrics.norms import L1, L2, LInf
from zooming.metrics.sides import Metric
from zooming.spaces.axes import Axes
from zooming.validation import Floats, check_float, check_int

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Matrix, Points, Graph, Discrete, L1, L2, LInf)
}


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

    Raises
    ------
    ConfigurationError
        If an argument is not of this form.

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
        for metric, what in ((states, "states"), (actions, "actions")):
            if not isinstance(metric, Metric):
                raise ConfigurationError(
                    f"Product: {metric!r} is not a metric of the {what}; give one of "
                    f"{', '.join(KINDS)}"
                )
        if not isinstance(combine, str):
            combine = check_float(combine, "Product: combine", -math.inf, math.inf)
        if combine not in ("max", "sum", 1.0, 2.0):
            raise ConfigurationError(
                f'Product: combine={combine!r}: choose "max", "sum" (or 1), or 2; other p-norms '
                "are no longer offered"
            )
        if not isinstance(scale, (tuple, list)) or len(scale) != 2:
            raise ConfigurationError(
                f"Product: scale={scale!r}: give two numbers, (of the states, of the actions)"
            )
        first, second = (check_float(one, "Product: scale", 0.0, math.inf) for one in scale)
        self.states, self.actions, self.combine, self.scale = (
            states,
            actions,
            combine,
            (first, second),
        )

    @property
    def power(self) -> float:
        """The exponent p of the norm, as the kernels store it: 0 means the maximum."""
        return (
            0.0 if self.combine == "max" else 1.0 if self.combine == "sum" else float(self.combine)
        )

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
        A function of two pairs, `distance((state, action), (state, action))`, which is called once
        for all ordered combinations. Or an array of all distances, [n_states, n_actions, n_states,
        n_actions]. Or a square matrix over the pairs, where pairs of the first state come first.

    Raises
    ------
    ConfigurationError
        If there are too many pairs, or the distances are not a metric.

    Examples
    --------
    >>> Pairs(3, 3, lambda one, other: abs(sum(one) - sum(other)))  # only state + action matters
    Pairs(3 states, 3 actions, diameter 4)
    """

    power = balls.PAIRS

    def __init__(
        self,
        states: int | Iterable[Any],
        actions: int | Iterable[Any],
        distance: Callable[[tuple[Any, Any], tuple[Any, Any]], float] | ArrayLike,
    ) -> None:
        self.states, self.actions = (
            _as_points(given, what) for given, what in ((states, "states"), (actions, "actions"))
        )
        n_pairs = len(self.states) * len(self.actions)
        if n_pairs > MOST_POINTS:
            raise ConfigurationError(
                f"Pairs: {len(self.states):,} states and {len(self.actions):,} actions make "
                f"{n_pairs:,} pairs, too many; "
                f"at most {MOST_POINTS:,}, since all their distances are kept. A Product keeps "
                "those of the two sides only"
            )
        pairs = list(itertools.product(self.states, self.actions))
        if callable(distance):
            found = axioms.measure_pairs(pairs, distance, "Pairs")
        else:
            given = np.asarray(distance)
            shape = (len(self.states), len(self.actions))
            found = axioms.as_matrix(
                given.reshape(len(pairs), -1) if given.shape == shape * 2 else distance, "Pairs"
            )
        self.distances = axioms.check_metric(found, "Pairs", pairs)

    def __repr__(self) -> str:
        return (
            f"Pairs({len(self.states)} states, {len(self.actions)} actions, diameter "
            f"{self.distances.max():g})"
        )

    def grid(self, axes: Axes) -> Floats:
        """Return one row (low, high, number of points, 1 for integers) per axis.

        Raises
        ------
        ConfigurationError
            If the environment has another number of states or actions.
        """
        rows = []
        for points, first, n_axes, what in (
            (self.states, 0, axes.n_state, "states"),
            (self.actions, axes.n_state, axes.n_action, "actions"),
        ):
            n, name = n_values(axes, first, n_axes, "Pairs")
            if n != len(points):
                raise ConfigurationError(
                    f"Pairs has {len(points)} {what}, but {name} has {n} values; they must be the "
                    "same"
                )
            rows.append([axes.low[first], axes.high[first], n, 1.0])
        return np.array(rows, np.float64)


def _as_points(given: Any, what: str) -> list[Any]:
    """Return the states or the actions of `Pairs` as a list."""
    found: Iterable[Any] = given
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        found = range(min(check_int(given, f"Pairs: {what}", 1), MOST_POINTS + 1))
    if isinstance(found, range) and len(found) > MOST_POINTS:
        raise ConfigurationError(
            f"Pairs: {given:,} {what} are too many; at most {MOST_POINTS:,} pairs, since all "
            "distances are kept"
        )
    points = as_list(found, "Pairs", what)
    if not points:
        raise ConfigurationError(
            f"Pairs: there are no {what}; give a list of them, or how many there are"
        )
    return points
