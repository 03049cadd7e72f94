"""Covering oracles, and the balls that they make: the one place that allocates them.

An oracle answers the question of the paper's section 3: given a set and the balls so far, say "covered", or give a point that
is not. Covering dom(B) greedily, a ball around each point that it gives, is an r/2-net of dom(B).
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.checks import whole
from zooming.errors import SpaceError
from zooming.kernels import FULL, N_STATS, NO_PARENT, balls
from zooming.kernels.balls import BALL, COUNT, MAX_DEPTH
from zooming.metrics.axioms import checked, matrix
from zooming.metrics.distances import Discrete, Finite, Metric, Norm, Product, Side
from zooming.spaces import Axes
from zooming.structure import numeric

Floats = NDArray[np.float64]
MOST_PAIRS = 2**28  # entries of `owner`: a gigabyte
SMALLEST = float(np.finfo(np.float64).tiny) * 2**MAX_DEPTH  # a diameter of which every radius is a normal float
GRID = "(low, high, number of points, 1 if whole)"  # columns of a side's `grid`
# (uncovered [n_x, n_a], radius of the balls to be added, the space) -> a pair (state, action), or None for "covered"
Oracle = Callable[[NDArray[np.bool_], float, "Space"], tuple[int, int] | None]


class Greedy:
    """The compiled oracle: the point not covered yet that is nearest to the parent's center, first its state, then its action.

    With more than one of `tries`, evenly spread over what is not covered, it is the one whose ball takes the most.
    """

    def __init__(self, tries: int = 1) -> None:
        self.tries = whole(tries, "Greedy: tries", 1)

    def __repr__(self) -> str:
        return f"Greedy({self.tries})"


class Space:
    """The product of a metric space of states and one of actions, both finite, as the kernels take it.

    `distances` and `action_distances` are divided by `unit`, a power of two (so nothing is rounded) of about the diameter, and
    then taken to the power p of the product: only their ratios to the diameter matter, and no power over- or underflows.
    What has the name of a distance or a radius elsewhere is in the user's units.
    """

    def __init__(self, metric: Product, axes: Axes, horizon: int = 1) -> None:
        self.metric = metric
        self.n_state, self.n_action = axes.n_state, axes.n_action
        n_states, n_actions = metric.states.n_points(axes, 0, axes.n_state), None
        if n_states is not None:
            n_actions = metric.actions.n_points(axes, axes.n_state, axes.n_action)
        if n_states is not None and n_actions is not None:  # known before any distance is computed
            _check_pairs(n_states, n_actions, horizon)
        self.states = _checked_side(metric.states, axes, 0, axes.n_state)
        self.actions = _checked_side(metric.actions, axes, axes.n_state, axes.n_action)
        _check_pairs(len(self.states.distances), len(self.actions.distances), horizon)
        self.grid = np.ascontiguousarray(np.concatenate([self.states.grid, self.actions.grid]))
        self.power, self.unit = metric.power, 1.0
        sides = list(zip((self.states, self.actions), metric.scale, strict=True))
        with np.errstate(over="ignore", under="ignore"):
            both = [np.asarray(side.distances * by) for side, by in sides]
        largest = max(float(one.max()) for one in both)
        if not math.isfinite(2 * largest):
            raise SpaceError("the distances of pairs are beyond floating point; rescale them, scale=...")
        is_flat = not any(by > 0.0 and side.distances.any() for side, by in sides)
        if is_flat and len(both[0]) * len(both[1]) > 1:
            raise SpaceError("every distance is 0, so that no two points are told apart; give one side a positive scale")
        if largest < SMALLEST and not is_flat:
            raise SpaceError(
                f"the largest distance is {largest:.3g}, and the radii of its smallest balls, 2^-{MAX_DEPTH} of it, are below "
                f"floating point; rescale them, scale=..."
            )
        if not is_flat:
            self.unit = 2.0 ** (math.frexp(largest)[1] - 1)  # at most the largest, and more than half of it
        with np.errstate(under="ignore"):  # what is 0 then is so in the smallest ball, too
            self.distances, self.action_distances = (
                np.ascontiguousarray((one / self.unit) ** (self.power or 1.0)) for one in both
            )
        # Stable, so that ties go by number and a seed repeats everywhere.
        self.orders, self.action_orders = (
            np.argsort(one, axis=1, kind="stable").astype(np.int32) for one in (self.distances, self.action_distances)
        )
        self.everything = np.ones(len(self.action_distances), np.uint8)

    @property
    def n_pairs(self) -> int:
        return len(self.distances) * len(self.action_distances)

    @property
    def reach(self) -> float:
        """The diameter d_max as the kernels take it: in units of `unit`, and to the power p."""
        along, across = float(self.distances.max()), float(self.action_distances.max())
        return along + across if self.power else max(along, across)

    @property
    def diameter(self) -> float:
        """d_max: the largest distance of two pairs."""
        return float(self.unit * self.reach ** (1 / (self.power or 1.0)))

    def distances_from(self, state: int, action: int) -> Floats:
        """The distances [n_x, n_a] of all pairs from one."""
        along, across = self.distances[state][:, None], self.action_distances[action][None, :]
        if not self.power:
            return np.asarray(self.unit * np.maximum(along, across))
        return np.asarray(self.unit * (along + across) ** (1 / self.power))

    def points(self, side: int, axes: Axes) -> Floats:
        """All states (side 0) or actions (side 1), [n, n_axes], in the environment's units."""
        first, n_axes = (axes.n_state, axes.n_action) if side else (0, axes.n_state)
        found = np.empty((len(self.action_distances if side else self.distances), n_axes))
        for k, point in enumerate(found):
            balls.point_of(self.grid, first, n_axes, k, point)
        return axes.outwards(found, first)

    def middle(self) -> tuple[int, int]:
        """A pair from which the farthest is as near as can be."""
        return int(self.distances.max(axis=1).argmin()), int(self.action_distances.max(axis=1).argmin())


@dataclass(frozen=True)
class Balls:
    """The active balls of a step as arrays, in the order of their age.

    `state` and `action` [n_balls, n_axes] are the centers, in the environment's units, and `n_points` counts the pairs of the
    domain. `owner` [n_states, n_actions] is the number, in these arrays, of the ball whose domain holds a pair; the pairs are
    those of `states` and `actions`, whose axes are called `names`.
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

    def __len__(self) -> int:
        return len(self.radius)

    def __repr__(self) -> str:
        return (
            f"Balls(step={self.step}, n_balls={len(self)}, radius {self.radius.min():g} to {self.radius.max():g}, "
            f"q_value {self.q_value.min():.3f} to {self.q_value.max():.3f})"
        )

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draws the domains on a matplotlib Axes and returns it; see `zooming.plots.balls`."""
        from zooming import plots  # the core never needs matplotlib

        return plots.balls(self, ax, **options)


class BallTable:
    """The balls of one agent, and which of them owns each pair at each step; grows here and nowhere else."""

    def __init__(self, space: Space, core: NDArray[Any], root_values: Floats) -> None:
        horizon = len(root_values)
        self.space, self.core = space, core
        self.stats = np.zeros((0, N_STATS))  # a row per ball, if the bonus keeps any
        self._allocate(max(64, horizon))
        state, action = space.middle()
        roots = self.rows[:horizon]
        roots["value"], roots["radius"], roots["reach"] = root_values, space.diameter, space.reach
        roots["state"], roots["action"], roots["parent"] = state, action, NO_PARENT
        roots["n_points"], roots["step"] = space.n_pairs, np.arange(horizon)
        core["n_rows"] = core["n_balls"] = horizon
        shape = (horizon, len(space.distances), len(space.action_distances))
        self.owner = np.empty(shape, np.int32)
        self.owner[:] = np.arange(horizon, dtype=np.int32)[:, None, None]

    @property
    def rows_in_use(self) -> int:
        return int(self.core["n_rows"][0])

    @property
    def nbytes(self) -> int:
        """Of the balls and of the index that finds them."""
        per_ball = BALL.itemsize + (self.stats.itemsize * N_STATS if len(self.stats) else 0)
        return self.rows_in_use * per_ball + self.owner.nbytes

    def reserve(self, n: int) -> None:
        """Makes room for n more balls."""
        if self.rows_in_use + n > len(self.rows):
            old, stats = self.rows, self.stats
            self._allocate(max(self.rows_in_use + n, 2 * len(old)))
            self.rows[: len(old)], self.stats[: len(stats)] = old, stats

    def copy(self) -> BallTable:
        """A table of its own with the same balls of the same space."""
        return copy.deepcopy(self, {id(self.space): self.space})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A table that was copied or unpickled has memory of its own, and its views must be of that."""
        vars(self).update(state)
        self._view()

    def _allocate(self, n_rows: int) -> None:
        self.rows = np.zeros(n_rows, BALL)
        self.stats = np.zeros((n_rows if self.core["bonus_rule"][0] else 0, N_STATS))
        self.seen = np.zeros(n_rows + 1, np.int64)  # scratch of `balls.select`
        self._view()

    def _view(self) -> None:
        # The same as plain memory, which crosses into compiled code faster than records.
        self.raw = self.rows.view(np.float64), self.core.view(np.float64)

    def add(self, parent: int, state: int, action: int) -> None:
        """A child of a ball, around a pair of its domain."""
        self.reserve(1)
        space = self.space
        balls.add_ball(
            self.rows, self.core, self.stats, self.owner, space.distances, space.action_distances, space.orders,
            space.action_orders, parent, state, action,
        )  # fmt: skip

    def split(self, row: int, oracle: Greedy | Oracle) -> None:
        """Covers the domain of a ball by balls of half its radius, as far as `max_balls` allows."""
        if not isinstance(oracle, Greedy):
            self._ask(row, oracle)
            return
        space, points = self.space, np.empty(int(self.rows["n_points"][row]), np.int64)
        metric = space.distances, space.action_distances, space.orders, space.action_orders
        n_left = np.array([balls.domain(self.rows, self.core, self.owner, *metric, row, points)])
        answer = FULL
        while answer == FULL:
            self.reserve(1)
            answer = balls.cover(self.rows, self.core, self.stats, self.owner, *metric, row, oracle.tries, points, n_left)

    def _ask(self, row: int, oracle: Oracle) -> None:
        """The same with an oracle of the user's own, whose every answer is checked."""
        step, radius = int(self.rows["step"][row]), float(self.rows["radius"][row]) / 2
        while self.core["n_balls"][0] < self.core["max_balls"][0]:
            uncovered = self.owner[step] == row
            try:
                answer = oracle(uncovered.copy(), radius, self.space)
            except Exception as error:
                raise SpaceError(f"the oracle, called with (uncovered, radius, space), failed: {error!r}") from error
            if answer is None:
                if uncovered.any():
                    x, a = np.argwhere(uncovered)[0].tolist()
                    raise SpaceError(f"the oracle says that all is covered, but the pair (state {x}, action {a}) is not")
                return
            try:
                x, a = (operator.index(part) for part in answer)
            except (TypeError, ValueError) as error:
                raise SpaceError(
                    f"the oracle gave {answer!r}; expected a pair (state, action) of whole numbers, or None"
                ) from error
            if not (0 <= x < uncovered.shape[0] and 0 <= a < uncovered.shape[1] and uncovered[x, a]):
                raise SpaceError(
                    f"the oracle gave the pair (state {x}, action {a}), which is covered already or not in the ball's domain; "
                    f"it must give one where uncovered[state, action] is true, or None"
                )
            self.add(row, x, a)

    def balls(self, step: int, axes: Axes) -> Balls:
        """The active balls of a step."""
        used = self.rows[: self.rows_in_use]
        rows = np.flatnonzero((used["step"] == step) & (used["n_points"] > 0))
        found = used[rows]
        states, actions = (self.space.points(side, axes) for side in (0, 1))
        whole_numbers = {name: found[name].astype(np.int64) for name in ("n_visits", "depth", "n_points")}
        return Balls(
            state=states[found["state"]], action=actions[found["action"]], radius=found["radius"].copy(),
            q_value=found["value"].copy(), **whole_numbers, owner=np.searchsorted(rows, self.owner[step]),
            states=states, actions=actions, names=tuple(axes.names), step=step,
        )  # fmt: skip

    def restore(self, core: NDArray[Any], rows: NDArray[Any], stats: NDArray[Any]) -> None:
        """Takes back the balls of a file, in the order in which they were made; ValueError, in words, if they cannot be."""
        n, horizon = len(rows), len(self.owner)
        if rows.dtype != BALL or rows.ndim != 1 or int(core["n_rows"][0]) != n or n < horizon:
            raise ValueError("the balls have another layout")
        if stats.dtype != np.float64 or stats.shape != (n if len(self.stats) else 0, N_STATS):
            raise ValueError("the statistics of the balls have another layout")
        parents = rows["parent"].astype(np.int64)
        if (parents[:horizon] != NO_PARENT).any() or (parents[horizon:] < 0).any() or (parents >= np.arange(n)).any():
            raise ValueError("a ball names a parent that is not older")
        if not (np.isfinite(rows["value"]).all() and np.isfinite(stats).all()):
            raise ValueError("a value or a statistic is not finite")
        if (rows["n_visits"] < 0).any() or (rows["depth"] > MAX_DEPTH).any():
            raise ValueError("a number of visits or a depth is out of range")
        inside = (rows["state"] >= 0) & (rows["state"] < self.owner.shape[1])
        if not (inside & (rows["action"] >= 0) & (rows["action"] < self.owner.shape[2])).all():
            raise ValueError("a center is not a point of the space")
        for name in self.core.dtype.names or ():
            if name not in ("n_rows", "n_balls"):
                self.core[name] = core[name]
        self.reserve(n - horizon)
        for row in range(horizon, n):
            parent, state, action = int(parents[row]), int(rows["state"][row]), int(rows["action"][row])
            if self.owner[self.rows["step"][parent], state, action] != parent:
                raise ValueError(f"the center of ball {row} is not in the domain of its parent")
            self.add(parent, state, action)
        for name in ("value", "n_visits"):
            self.rows[name][:n] = rows[name]
        self.stats[: len(stats)] = stats
        for name in BALL.names or ():
            if (self.rows[name][:n] != rows[name]).any():
                raise ValueError(f"the {name} of a ball does not follow from the centers and the metric")
        if self.core["n_balls"][0] != core["n_balls"][0]:
            raise ValueError("the number of active balls is wrong")


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
