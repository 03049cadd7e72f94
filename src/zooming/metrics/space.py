"""The metric space of an agent, as arrays that the kernels read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError
from zooming.kernels.balls import balls
from zooming.kernels.balls.balls import COUNT, MAX_DEPTH
from zooming.metrics.axioms import as_matrix, check_metric
from zooming.metrics.finite import Discrete, Finite
from zooming.metrics.norms import Norm
from zooming.metrics.pairs import Pairs, Product
from zooming.metrics.sides import Metric, Side
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import as_numbers
from zooming.validation import Floats


@dataclass(frozen=True)
class Balls:
    """The active balls of one step, as arrays, oldest first. Returned by `MetricQ.balls(step)`.

    Attributes
    ----------
    state, action : array [n_balls, n_axes]
        Centers, in the environment's units.
    radius, q_value : array [n_balls]
        Radius in the units of the metric, and Q.
    n_visits : array [n_balls]
        Visits of each ball, those of its ancestors included.
    depth : array [n_balls]
        The radius is d_max 2^-depth.
    n_points : array [n_balls]
        Number of pairs in the domain.
    owner : array [n_states, n_actions]
        Index, in these arrays, of the ball whose domain contains the pair.
    states, actions : array [n, n_axes]
        All states and all actions of the space, in the environment's units.
    names : tuple of str
        Names of the axes, the state's first.
    step : int
        The step, counted from 0.
    paths : tuple of str
        Places of the axes in the spaces, such as "state[0]". Empty if these are the names.

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
    n_visits: NDArray[np.int64]
    depth: NDArray[np.int64]
    n_points: NDArray[np.int64]
    owner: NDArray[np.int64]
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


MOST_PAIRS = 2**28  # entries of `owner`, which then takes a gigabyte
# The least diameter for which every radius is a normal float.
SMALLEST = float(np.finfo(np.float64).tiny) * 2**MAX_DEPTH
GRID = "(low, high, number of points, 1 if whole)"  # columns of a side's `grid`


class Space:
    """A finite metric space of (state, action) pairs, as arrays that the kernels read.

    For a `Product`, `distances` and `action_distances` are the matrices of states and actions. For
    `Pairs`, `distances` is the matrix of all pairs. The index of a pair is state * n_actions +
    action. These matrices are divided by `unit`, a power of two near the diameter, so that nothing
    is rounded. Then they are raised to the power p of the product, which cannot overflow. All other
    distances and radii are in the user's units.

    Parameters
    ----------
    metric : Product or Pairs
        The metric.
    axes : Axes
        The axes of the environment.
    horizon : int
        Number of steps; each needs memory for all pairs.

    Raises
    ------
    SpaceError
        If the metric does not fit the axes, or the pairs are too many, or all distances are 0, or
        they are beyond floating point.

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
    """

    def __init__(self, metric: Product | Pairs, axes: Axes, horizon: int = 1) -> None:
        self.metric, self.power, self.unit = metric, metric.power, 1.0
        self.n_state, self.n_action = axes.n_state, axes.n_action
        self.is_product = isinstance(metric, Product)
        both = (
            self._of_product(metric, axes, horizon)
            if isinstance(metric, Product)
            else self._of_pairs(metric, axes, horizon)
        )
        largest = max(float(one.max()) for one in both)
        if not math.isfinite(2 * largest):
            raise SpaceError(
                "the distances of pairs are beyond floating point; rescale them, scale=..."
            )
        is_flat = not self._has_positive_distance()
        if is_flat and self.n_pairs > 1:
            raise SpaceError(
                "every distance is 0, so all points count as the same one; give one side a "
                "positive scale"
            )
        if largest < SMALLEST and not is_flat:
            raise SpaceError(
                f"the largest distance is {largest:.3g}, and the radii of its smallest balls, "
                f"2^-{MAX_DEPTH} of it, are below "
                f"floating point; rescale them, scale=..."
            )
        if not is_flat:
            self.unit = 2.0 ** (math.frexp(largest)[1] - 1)  # in (largest / 2, largest]
        with np.errstate(under="ignore"):  # an underflow is below the smallest radius
            self.distances, self.action_distances = (
                np.ascontiguousarray((one / self.unit) ** self.exponent) for one in both
            )
        # A stable sort breaks ties by number, so that a seed gives the same run on every machine.
        near = (
            self.action_distances if self.is_product else self.distances.reshape(-1, self.n_actions)
        )
        self.orders, self.action_orders = (
            np.argsort(one, axis=1, kind="stable").astype(np.int32)
            for one in (self.distances, near)
        )
        self.everything = np.ones(self.n_actions, np.uint8)

    def _of_product(self, metric: Product, axes: Axes, horizon: int) -> list[Floats]:
        """Return the distances of the two sides, multiplied by their scales."""
        n_states, n_actions = metric.states.n_points(axes, 0, axes.n_state), None
        if n_states is not None:
            n_actions = metric.actions.n_points(axes, axes.n_state, axes.n_action)
        if n_states is not None and n_actions is not None:  # refuse before computing distances
            _check_pairs(n_states, n_actions, horizon)
        self.states = _check_side(metric.states, axes, 0, axes.n_state)
        self.actions = _check_side(metric.actions, axes, axes.n_state, axes.n_action)
        self.n_states, self.n_actions = len(self.states.distances), len(self.actions.distances)
        _check_pairs(self.n_states, self.n_actions, horizon)
        self.grid = np.ascontiguousarray(np.concatenate([self.states.grid, self.actions.grid]))
        with np.errstate(over="ignore", under="ignore"):
            both = [
                np.asarray(one.distances * by)
                for one, by in zip((self.states, self.actions), metric.scale, strict=True)
            ]
        return both

    def _of_pairs(self, metric: Pairs, axes: Axes, horizon: int) -> list[Floats]:
        """Return the distances of all pairs, and a placeholder for the actions."""
        self.grid = metric.grid(axes)
        self.n_states, self.n_actions = len(metric.states), len(metric.actions)
        _check_pairs(self.n_states, self.n_actions, horizon)
        return [metric.distances, np.zeros((1, 1))]

    def _has_positive_distance(self) -> bool:
        """Return whether any distance is positive before scaling, which may round it to 0."""
        if isinstance(self.metric, Pairs):
            return bool(self.metric.distances.any())
        sides = zip((self.states, self.actions), self.metric.scale, strict=True)
        return any(by > 0.0 and bool(one.distances.any()) for one, by in sides)

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
            return np.asarray(
                self.distances[
                    states * self.n_actions + actions, other_states * self.n_actions + other_actions
                ]
            )
        along, across = (
            self.distances[states, other_states],
            self.action_distances[actions, other_actions],
        )
        return np.asarray(along + across if self.power > 0.0 else np.maximum(along, across))

    def distances_from(self, state: int, action: int) -> Floats:
        """Return the distances of all pairs from one pair.

        Parameters
        ----------
        state, action : int
            Indices of the pair.

        Returns
        -------
        array [n_states, n_actions]
            Distances in the user's units.
        """
        every = np.arange(self.n_states)[:, None], np.arange(self.n_actions)[None, :]
        return np.asarray(
            self.unit * self.pair_distances(state, action, *every) ** (1 / self.exponent)
        )

    def points(self, side: int, axes: Axes) -> Floats:
        """Return all states or all actions of the space.

        Parameters
        ----------
        side : int
            0 for the states, 1 for the actions.
        axes : Axes
            The axes of the environment.

        Returns
        -------
        array [n, n_axes]
            The points in the environment's units.
        """
        first, n_axes = (axes.n_state, axes.n_action) if side else (0, axes.n_state)
        found = np.empty((self.n_actions if side else self.n_states, n_axes))
        for k, point in enumerate(found):
            balls.point_of(self.grid, first, n_axes, k, point)
        return axes.from_unit_cube(found, first)

    def middle(self) -> tuple[int, int]:
        """Return the pair (state, action) with the smallest maximal distance to all pairs."""
        if not self.is_product:
            return divmod(int(self.distances.max(axis=1).argmin()), self.n_actions)
        return int(self.distances.max(axis=1).argmin()), int(
            self.action_distances.max(axis=1).argmin()
        )


def _check_pairs(n_states: int, n_actions: int, horizon: int) -> None:
    """Raise SpaceError if there are too many pairs for memory."""
    n = horizon * n_states * n_actions
    if n > MOST_PAIRS:
        raise SpaceError(
            f"{n_states:,} states, {n_actions:,} actions and {horizon} steps make {n:,} "
            f"entries (state, action, step); at most {MOST_PAIRS:,} are supported. Give "
            "fewer points: a net of them, or a smaller points_per_axis"
        )


def _check_side(metric: Metric, axes: Axes, first: int, n_axes: int) -> Side:
    """Return one side of a product. Validate it if the metric is a class of the user's own."""
    side, kind = metric.side(axes, first, n_axes), type(metric).__name__
    if type(metric).side in (Finite.side, Norm.side, Discrete.side):
        return side
    grid = as_numbers(side.grid, f"{kind}: the grid") if isinstance(side, Side) else np.empty(0)
    if (
        grid.shape != (n_axes, 4)
        or not np.isfinite(grid).all()
        or (grid[:, COUNT] != np.maximum(1, np.rint(grid[:, COUNT]))).any()
    ):
        raise SpaceError(
            f"{kind}.side gave the grid {getattr(side, 'grid', None)!r}; give a Side with a row "
            f"{GRID} of `grid` for each "
            f"of the {n_axes} axes"
        )
    n_points = math.prod(grid[:, COUNT].astype(int).tolist())
    return Side(check_metric(as_matrix(side.distances, kind), kind, range(n_points)), grid)
