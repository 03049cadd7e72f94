"""Metrics on pairs, the metric space of an agent as arrays, its balls, and covering oracles.

An oracle chooses balls of half the radius that cover the domain of a ball to be split. It answers
one of two questions [SBY19 sec. 3]: which point is not covered by the balls so far (`Greedy`, or a
function of yours), or what is an r-packing of a set, points at distances greater than r
(`Packing`)? If no point can be added to a packing, its balls cover the set.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.errors import ConfigurationError, SpaceError
from zooming.kernels.balls import MAX_DEPTH, PAIRS, point_of
from zooming.metrics import sides
from zooming.metrics.sides import KINDS, MOST_POINTS, NORMS, Discrete, Matrix, Metric, Norm
from zooming.spaces.axes import Axes
from zooming.validation import Floats, Ints, check_float, check_int

MOST_PAIRS = 2**28  # entries of `owner`, which then takes a gigabyte
# The least diameter for which every radius is a normal float.
SMALLEST = float(np.finfo(np.float64).tiny) * 2**MAX_DEPTH
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
            found = sides.measure_pairs(pairs, distance, "Pairs")
        else:
            given = np.asarray(distance)
            if given.shape == shape * 2:
                distance = given.reshape(len(pairs), -1)
            found = sides.as_matrix(distance, "Pairs")
        self.distances = sides.check_metric(found, "Pairs", pairs)

    def __repr__(self) -> str:
        return (
            f"Pairs({len(self.states)} states, {len(self.actions)} actions, diameter "
            f"{self.distances.max():g})"
        )

    def grid(self, axes: Axes) -> Floats:
        """Return one row (low, high, number of points, 1 for integers) per axis."""
        n_state = axes.n_state
        states = sides.grid_row(axes, 0, n_state, "Pairs", len(self.states))
        actions = sides.grid_row(axes, n_state, axes.n_action, "Pairs", len(self.actions))
        return np.concatenate([states, actions])


def _as_points(given: Any, what: str) -> list[Any]:
    """Return the states or the actions of `Pairs` as a list."""
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        given = range(min(check_int(given, f"Pairs: {what}", 1), MOST_POINTS + 1))
    points = sides.as_list(given, "Pairs", what)
    if not points:
        raise ConfigurationError(
            f"Pairs: there are no {what}; give a list of them, or how many there are"
        )
    return points


@dataclass(frozen=True)
class Balls:
    """The active balls of one step, as arrays, oldest first. Returned by `MetricQ.balls(step)`.

    Attributes
    ----------
    state, action : array [n_balls, n_axes]
        Centers, in the environment's units.
    radius, q_value : array [n_balls]
        Radius in the units of the metric, d_max 2^-depth, and Q.
    n_visits, depth, n_points : array [n_balls]
        Visits, those of ancestors included, depth, and number of pairs in the domain.
    owner : array [n_states, n_actions]
        Index, in these arrays, of the ball whose domain contains the pair.
    states, actions : array [n, n_axes]
        All states and all actions of the space, in the environment's units.
    names, paths : tuple of str
        Names of the axes, the state's first, and their places such as "state[0]", if others.
    step : int
        The step, counted from 0.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> class Stops(gym.Env):
    ...     observation_space = action_space = gym.spaces.Discrete(5)
    >>> line = zooming.metrics.Graph([(0, 1), (1, 2), (2, 3), (3, 4)])
    >>> zooming.MetricQ(Stops(), line, horizon=1).balls(0)
    Balls(step=0, n_balls=1, radius 4 to 4, q_value 1.000 to 1.000)
    """

    state: Floats
    action: Floats
    radius: Floats
    q_value: Floats
    n_visits: Ints
    depth: Ints
    n_points: Ints
    owner: Ints
    states: Floats
    actions: Floats
    names: tuple[str, ...]
    step: int
    paths: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.radius)

    def __repr__(self) -> str:
        return (
            f"Balls(step={self.step}, n_balls={len(self)}, radius {self.radius.min():g} to "
            f"{self.radius.max():g}, "
            f"q_value {self.q_value.min():.3f} to {self.q_value.max():.3f})"
        )


class Space:
    """A finite metric space of (state, action) pairs, as arrays that the kernels read.

    For a `Product`, `distances` and `action_distances` are the matrices of states and actions. For
    `Pairs`, `distances` is the matrix of all pairs, numbered state * n_actions + action. They are
    divided by `unit`, a power of two near the diameter, so that nothing is rounded, and then raised
    to the power p of the product, which cannot overflow. All other distances are in the user's
    units.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> class Stops(gym.Env):
    ...     observation_space = action_space = gym.spaces.Discrete(5)
    >>> line = zooming.metrics.Graph([(0, 1), (1, 2), (2, 3), (3, 4)])
    >>> space = zooming.MetricQ(Stops(), line, horizon=1).table.space
    >>> space.n_pairs, space.diameter, space.middle()
    (25, 4.0, (2, 2))
    >>> space.distances_from(0, 0)[0].tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    >>> packing(space.distances_from(0, 0) >= 0, 2.0, space)
    [(0, 0), (0, 4), (4, 0), (4, 4)]
    """

    def __init__(self, metric: Product | Pairs, axes: Axes, horizon: int = 1) -> None:
        self.metric, self.power, self.unit = metric, metric.power, 1.0
        self.is_product = isinstance(metric, Product)
        if isinstance(metric, Product):
            sides = (metric.states, 0, axes.n_state), (metric.actions, axes.n_state, axes.n_action)
            self.n_states, self.n_actions = (one.n_points(axes, *where) for one, *where in sides)
            self._check_size(horizon)  # before distances are computed
            self.states, self.actions = (one.side(axes, *where) for one, *where in sides)
            self.grid = np.concatenate([self.states.grid, self.actions.grid])
            raw, scales = [self.states.distances, self.actions.distances], metric.scale
        else:
            self.grid = metric.grid(axes)
            self.n_states, self.n_actions = len(metric.states), len(metric.actions)
            self._check_size(horizon)
            raw, scales = [metric.distances, np.zeros((1, 1))], (1.0, 1.0)
        # Before scaling, which may round a positive distance to 0.
        is_flat = not any(by > 0.0 and one.any() for one, by in zip(raw, scales, strict=True))
        with np.errstate(over="ignore", under="ignore"):
            both = [np.asarray(one * by) for one, by in zip(raw, scales, strict=True)]
        largest = max(float(one.max()) for one in both)
        if not math.isfinite(2 * largest):
            raise SpaceError(
                "the distances of pairs are beyond floating point; rescale them, scale=..."
            )
        if is_flat and self.n_pairs > 1:
            raise SpaceError(
                "every distance is 0, so all points count as the same one; give one side a "
                "positive scale"
            )
        if largest < SMALLEST and not is_flat:
            raise SpaceError(
                f"the largest distance is {largest:.3g}, and the radii of its smallest balls, "
                f"2^-{MAX_DEPTH} of it, are below floating point; rescale them, scale=..."
            )
        if not is_flat:
            self.unit = 2.0 ** (math.frexp(largest)[1] - 1)  # in (largest / 2, largest]
        with np.errstate(under="ignore"):  # an underflow is below the smallest radius
            self.distances, self.action_distances = (
                np.ascontiguousarray((one / self.unit) ** self.exponent) for one in both
            )
        near = self.action_distances
        if not self.is_product:
            near = self.distances.reshape(-1, self.n_actions)
        # A stable sort breaks ties by number, so that a seed gives the same run on every machine.
        self.orders, self.action_orders = (
            np.argsort(one, axis=1, kind="stable").astype(np.int32)
            for one in (self.distances, near)
        )
        self.everything = np.ones(self.n_actions, np.uint8)

    def _check_size(self, horizon: int) -> None:
        """Raise SpaceError if there are too many pairs for memory."""
        n = horizon * self.n_pairs
        if n > MOST_PAIRS:
            raise SpaceError(
                f"{self.n_states:,} states, {self.n_actions:,} actions and {horizon} steps make "
                f"{n:,} entries (state, action, step); at most {MOST_PAIRS:,} are supported. Give "
                "fewer points: a net of them, or a smaller points_per_axis"
            )

    @property
    def exponent(self) -> float:
        """The exponent p of the stored distances d^p: p if the product is a p-norm, else 1."""
        return self.power if self.power > 0.0 else 1.0

    @property
    def n_pairs(self) -> int:
        """Number of (state, action) pairs."""
        return self.n_states * self.n_actions

    @property
    def reach(self) -> float:
        """The diameter d_max as the kernels store it: divided by `unit`, to the power p."""
        along, across = float(self.distances.max()), float(self.action_distances.max())
        return along + across if self.power > 0.0 else max(along, across)

    @property
    def diameter(self) -> float:
        """The largest distance of two pairs, d_max."""
        return float(self.unit * self.reach ** (1 / self.exponent))

    def pair_distances(
        self, states: Any, actions: Any, other_states: Any, other_actions: Any
    ) -> Floats:
        """Return distances of pairs as the kernels store them. Arrays of indices are broadcast."""
        if not self.is_product:
            ones = states * self.n_actions + actions
            others = other_states * self.n_actions + other_actions
            return np.asarray(self.distances[ones, others])
        along = self.distances[states, other_states]
        across = self.action_distances[actions, other_actions]
        return np.asarray(along + across if self.power > 0.0 else np.maximum(along, across))

    def distances_from(self, state: int, action: int) -> Floats:
        """Return the distances [n_states, n_actions] of all pairs from one pair of indices."""
        every = np.arange(self.n_states)[:, None], np.arange(self.n_actions)[None, :]
        return np.asarray(
            self.unit * self.pair_distances(state, action, *every) ** (1 / self.exponent)
        )

    def points(self, side: int, axes: Axes) -> Floats:
        """Return all states (side 0) or actions (side 1), in the environment's units."""
        first, n_axes = (axes.n_state, axes.n_action) if side else (0, axes.n_state)
        found = np.empty((self.n_actions if side else self.n_states, n_axes))
        for k, point in enumerate(found):
            point_of(self.grid, first, n_axes, k, point)
        return axes.from_unit_cube(found, first)

    def middle(self) -> tuple[int, int]:
        """Return the pair (state, action) with the smallest maximal distance to all pairs."""
        state = int(self.distances.max(axis=1).argmin())  # of `Pairs`, the number of a pair
        if not self.is_product:
            return divmod(state, self.n_actions)
        return state, int(self.action_distances.max(axis=1).argmin())


# (uncovered [n_states, n_actions], radius of the new balls, space) -> an uncovered pair
# (state, action), or None if everything is covered
Oracle = Callable[[NDArray[np.bool_], float, Space], tuple[int, int] | None]


class Greedy:
    """The compiled oracle: the uncovered pair with the nearest state, then the nearest action."""

    def __repr__(self) -> str:
        return "Greedy()"


class Packing:
    """The oracle that covers a ball with balls around `packing` of its domain."""

    def __repr__(self) -> str:
        return "Packing()"


def packing(points: NDArray[np.bool_], radius: float, space: Space) -> list[tuple[int, int]]:
    """Return the indices of an r-packing of a set of pairs to which no pair can be added.

    The first pair of the set comes first. The next one is always the farthest from those chosen.

    Parameters
    ----------
    points : array of bool [n_states, n_actions]
        True for the pairs of the set.
    radius : float
        The distances between chosen pairs are greater than this.
    space : Space
        The metric space.
    """
    found: list[tuple[int, int]] = []
    nearest = np.where(points, np.inf, -1.0)
    while nearest.max() > radius:
        state, action = divmod(int(nearest.argmax()), nearest.shape[1])
        found.append((state, action))
        nearest = np.minimum(nearest, space.distances_from(state, action))
    return found


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
