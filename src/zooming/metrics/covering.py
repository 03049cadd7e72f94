"""The balls of an agent on a metric space of finitely many pairs: the one place that allocates them, and asks the oracle."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError
from zooming.kernels import FULL, N_STATS, NO_PARENT, SAME, balls
from zooming.kernels.balls import BALL, COUNT, MAX_DEPTH
from zooming.metrics.axioms import checked, matrix
from zooming.metrics.distances import Discrete, Finite, Metric, Norm, Pairs, Product, Side
from zooming.metrics.oracles import Greedy, Oracle, Packing
from zooming.spaces import Axes
from zooming.structure import numeric

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
        return axes.outwards(found, first)

    def middle(self) -> tuple[int, int]:
        """A pair from which the farthest is as near as can be."""
        if not self.is_product:
            return divmod(int(self.distances.max(axis=1).argmin()), self.n_actions)
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

    rows: NDArray[Any]
    stats: Floats
    seen: NDArray[np.int64]
    raw: tuple[Floats, Floats]

    def __init__(self, space: Space, core: NDArray[Any], root_values: Floats) -> None:
        horizon = len(root_values)
        self.space, self.core = space, core
        self._covering: Any = None  # (row, points, n_left) of a split under way, to go on with after an interrupt
        vars(self).update(self._allocated(max(64, horizon)))
        state, action = space.middle()
        roots = self.rows[:horizon]
        roots["value"], roots["radius"], roots["reach"] = root_values, space.diameter, space.reach
        roots["state"], roots["action"], roots["parent"] = state, action, NO_PARENT
        roots["n_points"], roots["step"] = space.n_pairs, np.arange(horizon)
        core["n_rows"] = core["n_balls"] = horizon
        shape = (horizon, space.n_states, space.n_actions)
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
            grown = self._allocated(max(self.rows_in_use + n, 2 * len(self.rows)))
            grown["rows"][: len(self.rows)], grown["stats"][: len(self.stats)] = self.rows, self.stats
            vars(self).update(grown)  # in one call, so that an interrupt finds all of them old or all of them new

    def copy(self) -> BallTable:
        """A table of its own with the same balls of the same space."""
        return copy.deepcopy(self, {id(self.space): self.space})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A table that was copied or unpickled has memory of its own, and its views must be of that."""
        vars(self).update(state)
        self.raw = self._raw(self.rows)

    def _allocated(self, n_rows: int) -> dict[str, Any]:
        """Return new memory for so many rows, by the names of the attributes."""
        rows = np.zeros(n_rows, BALL)
        stats = np.zeros((n_rows if self.core["bonus_rule"][0] else 0, N_STATS))  # a row per ball, if the bonus keeps any
        seen = np.zeros(n_rows + 1, np.int64)  # scratch of `balls.select`
        return {"rows": rows, "stats": stats, "seen": seen, "raw": self._raw(rows)}

    def _raw(self, rows: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return rows and core as plain memory, which crosses into compiled code faster than records."""
        return rows.view(np.float64), self.core.view(np.float64)

    def add(self, parent: int, state: int, action: int) -> None:
        """A child of a ball, around a pair of its domain."""
        self.reserve(1)
        space = self.space
        balls.add_ball(
            self.rows, self.core, self.stats, self.owner, space.distances, space.action_distances, space.orders,
            space.action_orders, parent, state, action,
        )  # fmt: skip

    def split(self, row: int, oracle: Greedy | Packing | Oracle) -> None:
        """Covers the domain of a ball by balls of half its radius, as far as `max_balls` allows."""
        if not isinstance(oracle, Greedy):
            self._ask(row, oracle)
            return
        space = self.space
        metric = space.distances, space.action_distances, space.orders, space.action_orders
        if self._covering is None or self._covering[0] != row:
            points = np.empty(int(self.rows["n_points"][row]), np.int64)
            n_left = np.array([balls.domain(self.rows, self.core, self.owner, *metric, row, points)])
            self._covering = row, points, n_left
        _, points, n_left = self._covering
        answer = FULL
        while answer == FULL:
            self.reserve(1)
            answer = balls.cover(self.rows, self.core, self.stats, self.owner, *metric, row, oracle.tries, points, n_left)
        self._covering = None

    def _ask(self, row: int, oracle: Packing | Oracle) -> None:
        """The same with an oracle that is not compiled, whose every answer is checked."""
        step, radius = int(self.rows["step"][row]), float(self.rows["radius"][row]) / 2
        while self.core["n_balls"][0] < self.core["max_balls"][0]:
            uncovered = self.owner[step] == row
            if isinstance(oracle, Packing):
                if not uncovered.any():
                    return
                self._add_packing(row, _answer(oracle.give, uncovered, radius, self.space), uncovered, radius)
                continue
            answer = _answer(oracle, uncovered, radius, self.space)
            if answer is None:
                if uncovered.any():
                    x, a = np.argwhere(uncovered)[0].tolist()
                    raise SpaceError(f"the oracle says that all is covered, but the pair (state {x}, action {a}) is not")
                return
            x, a = _pair(answer, "expected a pair (state, action) of whole numbers, or None")
            if not (0 <= x < uncovered.shape[0] and 0 <= a < uncovered.shape[1] and uncovered[x, a]):
                raise SpaceError(
                    f"the oracle gave the pair (state {x}, action {a}), which is covered already or not in the ball's domain; "
                    f"it must give one where uncovered[state, action] is true, or None"
                )
            self.add(row, x, a)

    def _add_packing(self, row: int, answer: Any, uncovered: NDArray[np.bool_], radius: float) -> None:
        """Balls around the points of a packing of what is not covered, as many as fit in."""
        hint = "expected a list of pairs (state, action) of whole numbers"
        if isinstance(answer, str) or not isinstance(answer, Iterable) or not (listed := list(answer)):
            raise SpaceError(f"the oracle gave {answer!r} for a packing of {int(uncovered.sum())} pairs; {hint}, at least one")
        step = int(self.rows["step"][row])
        centers: list[tuple[int, int]] = []
        for given in listed:
            x, a = _pair(given, hint)
            if not (0 <= x < uncovered.shape[0] and 0 <= a < uncovered.shape[1] and uncovered[x, a]):
                raise SpaceError(f"the oracle's packing has the pair (state {x}, action {a}), which is not in the set")
            if self.owner[step, x, a] != row:  # the ball of another one holds it
                away = self.space.distances_from(x, a)
                other = min(centers, key=lambda center: float(away[center]))
                if away[other] < radius * (1 - SAME):
                    raise SpaceError(
                        f"the oracle's packing has the pairs (state {x}, action {a}) and (state {other[0]}, action "
                        f"{other[1]}) at the distance {away[other]:g}; they must be further than {radius:g} from each other"
                    )
            elif self.core["n_balls"][0] < self.core["max_balls"][0]:
                centers.append((x, a))
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


def _answer(oracle: Callable[..., Any], uncovered: NDArray[np.bool_], radius: float, space: Space) -> Any:
    try:
        return oracle(uncovered.copy(), radius, space)
    except Exception as error:
        raise SpaceError(f"the oracle, called with (uncovered, radius, space), failed: {error!r}") from error


def _pair(given: Any, hint: str) -> tuple[int, int]:
    try:
        x, a = (operator.index(part) for part in given)
    except (TypeError, ValueError) as error:
        raise SpaceError(f"the oracle gave {given!r}; {hint}") from error
    return x, a


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
