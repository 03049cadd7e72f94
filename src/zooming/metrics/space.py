"""The metric space of an agent as the kernels take it: finitely many (state, action) pairs and their distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError
from zooming.kernels import balls
from zooming.kernels.balls import COUNT, MAX_DEPTH
from zooming.metrics.axioms import checked, matrix
from zooming.metrics.distances import Discrete, Finite, Metric, Norm, Side
from zooming.metrics.pairs import Pairs, Product
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import numeric

Floats = NDArray[np.float64]
MOST_PAIRS = 2**28  # entries of `owner`: a gigabyte
SMALLEST = float(np.finfo(np.float64).tiny) * 2**MAX_DEPTH  # a diameter of which every radius is a normal float
GRID = "(low, high, number of points, 1 if whole)"  # columns of a side's `grid`


class Space:
    """A metric space of finitely many (state, action) pairs as the kernels take it: a `Product`, or any other, `Pairs`.

    `distances` and `action_distances` are those of the two sides of a product; of any other metric `distances` are those of
    all pairs, numbered state n_actions + action. They are divided by `unit`, a power of two (so nothing is rounded) of about
    the diameter, and then taken to the power p of the product: only their ratios to the diameter matter, and no power over- or
    underflows.
    What has the name of a distance or a radius elsewhere is in the user's units.
    """

    def __init__(self, metric: Product | Pairs, axes: Axes, horizon: int = 1) -> None:
        self.metric, self.power, self.unit = metric, metric.power, 1.0
        self.n_state, self.n_action = axes.n_state, axes.n_action
        self.is_product = isinstance(metric, Product)
        both = self._of_product(metric, axes, horizon) if isinstance(metric, Product) else self._of_pairs(metric, axes, horizon)
        largest = max(float(one.max()) for one in both)
        if not math.isfinite(2 * largest):
            raise SpaceError("the distances of pairs are beyond floating point; rescale them, scale=...")
        is_flat = not self._tells_apart()
        if is_flat and self.n_pairs > 1:
            raise SpaceError("every distance is 0, so that no two points are told apart; give one side a positive scale")
        if largest < SMALLEST and not is_flat:
            raise SpaceError(
                f"the largest distance is {largest:.3g}, and the radii of its smallest balls, 2^-{MAX_DEPTH} of it, are below "
                f"floating point; rescale them, scale=..."
            )
        if not is_flat:
            self.unit = 2.0 ** (math.frexp(largest)[1] - 1)  # at most the largest, and more than half of it
        with np.errstate(under="ignore"):  # what is 0 then is so in the smallest ball, too
            self.distances, self.action_distances = (np.ascontiguousarray((one / self.unit) ** self.exponent) for one in both)
        # Stable, so that ties go by number and a seed repeats everywhere.
        near = self.action_distances if self.is_product else self.distances.reshape(-1, self.n_actions)
        self.orders, self.action_orders = (
            np.argsort(one, axis=1, kind="stable").astype(np.int32) for one in (self.distances, near)
        )
        self.everything = np.ones(self.n_actions, np.uint8)

    def _of_product(self, metric: Product, axes: Axes, horizon: int) -> list[Floats]:
        """The distances of the two sides, each by its scale."""
        n_states, n_actions = metric.states.n_points(axes, 0, axes.n_state), None
        if n_states is not None:
            n_actions = metric.actions.n_points(axes, axes.n_state, axes.n_action)
        if n_states is not None and n_actions is not None:  # known before any distance is computed
            _check_pairs(n_states, n_actions, horizon)
        self.states = _checked_side(metric.states, axes, 0, axes.n_state)
        self.actions = _checked_side(metric.actions, axes, axes.n_state, axes.n_action)
        self.n_states, self.n_actions = len(self.states.distances), len(self.actions.distances)
        _check_pairs(self.n_states, self.n_actions, horizon)
        self.grid = np.ascontiguousarray(np.concatenate([self.states.grid, self.actions.grid]))
        with np.errstate(over="ignore", under="ignore"):
            both = [np.asarray(one.distances * by) for one, by in zip((self.states, self.actions), metric.scale, strict=True)]
        return both

    def _of_pairs(self, metric: Pairs, axes: Axes, horizon: int) -> list[Floats]:
        """The distances of all pairs, and nothing of the actions."""
        self.grid = metric.grid(axes)
        self.n_states, self.n_actions = len(metric.states), len(metric.actions)
        _check_pairs(self.n_states, self.n_actions, horizon)
        return [metric.distances, np.zeros((1, 1))]

    def _tells_apart(self) -> bool:
        """Whether any distance is positive, also if its product with a scale is too small for a float."""
        if isinstance(self.metric, Pairs):
            return bool(self.metric.distances.any())
        sides = zip((self.states, self.actions), self.metric.scale, strict=True)
        return any(by > 0.0 and bool(one.distances.any()) for one, by in sides)

    @property
    def exponent(self) -> float:
        """P of a p-norm; 1 where distances are kept as they are."""
        return self.power if self.power > 0.0 else 1.0

    @property
    def n_pairs(self) -> int:
        return self.n_states * self.n_actions

    @property
    def reach(self) -> float:
        """The diameter d_max as the kernels take it: in units of `unit`, and to the power p."""
        along, across = float(self.distances.max()), float(self.action_distances.max())
        return along + across if self.power > 0.0 else max(along, across)

    @property
    def diameter(self) -> float:
        """d_max: the largest distance of two pairs."""
        return float(self.unit * self.reach ** (1 / self.exponent))

    def apart(self, states: Any, actions: Any, other_states: Any, other_actions: Any) -> Floats:
        """Distances of pairs, as the kernels take them; the arrays of their numbers are broadcast."""
        if not self.is_product:
            return np.asarray(self.distances[states * self.n_actions + actions, other_states * self.n_actions + other_actions])
        along, across = self.distances[states, other_states], self.action_distances[actions, other_actions]
        return np.asarray(along + across if self.power > 0.0 else np.maximum(along, across))

    def distances_from(self, state: int, action: int) -> Floats:
        """The distances [n_x, n_a] of all pairs from one."""
        every = np.arange(self.n_states)[:, None], np.arange(self.n_actions)[None, :]
        return np.asarray(self.unit * self.apart(state, action, *every) ** (1 / self.exponent))

    def points(self, side: int, axes: Axes) -> Floats:
        """All states (side 0) or actions (side 1), [n, n_axes], in the environment's units."""
        first, n_axes = (axes.n_state, axes.n_action) if side else (0, axes.n_state)
        found = np.empty((self.n_actions if side else self.n_states, n_axes))
        for k, point in enumerate(found):
            balls.point_of(self.grid, first, n_axes, k, point)
        return axes.from_unit_cube(found, first)

    def middle(self) -> tuple[int, int]:
        """A pair from which the farthest is as near as can be."""
        if not self.is_product:
            return divmod(int(self.distances.max(axis=1).argmin()), self.n_actions)
        return int(self.distances.max(axis=1).argmin()), int(self.action_distances.max(axis=1).argmin())


def _check_pairs(n_states: int, n_actions: int, horizon: int) -> None:
    n = horizon * n_states * n_actions
    if n > MOST_PAIRS:
        raise SpaceError(
            f"{n_states:,} states, {n_actions:,} actions and {horizon} steps make {n:,} pairs to look after; at most "
            f"{MOST_PAIRS:,} are supported. Give fewer points: a net of them, or a smaller points_per_axis"
        )


def _checked_side(metric: Metric, axes: Axes, first: int, n_axes: int) -> Side:
    """One side of the product; that of a metric of the user's own only if it is what the kernels may rely on."""
    side, kind = metric.side(axes, first, n_axes), type(metric).__name__
    if type(metric).side in (Finite.side, Norm.side, Discrete.side):
        return side
    grid = numeric(side.grid, f"{kind}: the grid") if isinstance(side, Side) else np.empty(0)
    if (
        grid.shape != (n_axes, 4)
        or not np.isfinite(grid).all()
        or (grid[:, COUNT] != np.maximum(1, np.rint(grid[:, COUNT]))).any()
    ):
        raise SpaceError(
            f"{kind}.side gave the grid {getattr(side, 'grid', None)!r}; give a Side with a row {GRID} of `grid` for each "
            f"of the {n_axes} axes"
        )
    n_points = math.prod(grid[:, COUNT].astype(int).tolist())
    return Side(checked(matrix(side.distances, kind), kind, range(n_points)), grid)
