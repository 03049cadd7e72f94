"""The metric space of an agent, as arrays that the kernels read, its balls, and covering oracles.

An oracle chooses balls of half the radius that cover the domain of a ball to be split. It answers
one of two questions [SBY19 sec. 3]: which point is not covered by the balls so far (`Greedy`, or a
function of yours), or what is an r-packing of a set, points at distances greater than r
(`Packing`)? If no point can be added to a packing, its balls cover the set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError
from zooming.kernels.balls import MAX_DEPTH, point_of
from zooming.metrics.pairs import Pairs, Product
from zooming.spaces.axes import Axes
from zooming.validation import Floats

MOST_PAIRS = 2**28  # entries of `owner`, which then takes a gigabyte
# The least diameter for which every radius is a normal float.
SMALLEST = float(np.finfo(np.float64).tiny) * 2**MAX_DEPTH


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
