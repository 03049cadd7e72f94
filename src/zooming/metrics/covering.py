"""The balls of an agent on a finite metric space. Only this module allocates them and asks the
oracle.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.kernels import FULL, N_STATS, NO_PARENT, SAME, balls
from zooming.kernels.balls import BALL, MAX_DEPTH
from zooming.metrics.oracles import Greedy, Oracle, Packing
from zooming.metrics.space import Space
from zooming.spaces.axes import Axes

Floats = NDArray[np.float64]


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
    value_names : dict
        {axis: names} of the points along an axis, if the metric has names.

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
    value_names: Any = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.radius)

    def __repr__(self) -> str:
        return (
            f"Balls(step={self.step}, n_balls={len(self)}, radius {self.radius.min():g} to "
            f"{self.radius.max():g}, "
            f"q_value {self.q_value.min():.3f} to {self.q_value.max():.3f})"
        )

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the domains on a matplotlib Axes and return it; see `zooming.plots.balls`."""
        import zooming  # plots are a layer above: loaded only when asked for

        return zooming.plots.balls(self, ax, **options)


class BallTable:
    """The balls of one agent, and the owner of each pair at each step. It grows only here."""

    rows: NDArray[Any]
    stats: Floats
    seen: NDArray[np.int64]
    raw: tuple[Floats, Floats]

    def __init__(self, space: Space, core: NDArray[Any], root_values: Floats) -> None:
        horizon = len(root_values)
        self.space, self.core = space, core
        self._covering: Any = None  # (row, points, n_left) of an interrupted split
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
        """Number of rows in use, those of balls without a domain included."""
        return int(self.core["n_rows"][0])

    @property
    def nbytes(self) -> int:
        """Size in bytes of the balls and of `owner`."""
        per_ball = BALL.itemsize + (self.stats.itemsize * N_STATS if len(self.stats) else 0)
        return self.rows_in_use * per_ball + self.owner.nbytes

    def reserve(self, n: int) -> None:
        """Make room for `n` more balls."""
        if self.rows_in_use + n > len(self.rows):
            grown = self._allocated(max(self.rows_in_use + n, 2 * len(self.rows)))
            grown["rows"][: len(self.rows)], grown["stats"][: len(self.stats)] = (
                self.rows,
                self.stats,
            )
            # One call, so that an interrupt finds either all old arrays or all new ones.
            vars(self).update(grown)

    def copy(self) -> BallTable:
        """Return an independent table with the same balls and the same space."""
        return copy.deepcopy(self, {id(self.space): self.space})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copied or unpickled table: its views must be of its own memory."""
        vars(self).update(state)
        self.raw = self._raw(self.rows)

    def _allocated(self, n_rows: int) -> dict[str, Any]:
        """Return new arrays with `n_rows` rows, by attribute name."""
        rows = np.zeros(n_rows, BALL)
        stats = np.zeros((n_rows if self.core["bonus_rule"][0] else 0, N_STATS))
        seen = np.zeros(n_rows + 1, np.int64)  # scratch memory of `balls.select`
        return {"rows": rows, "stats": stats, "seen": seen, "raw": self._raw(rows)}

    def _raw(self, rows: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return rows and core as float64 memory, which is passed to compiled code faster than
        records.
        """
        return rows.view(np.float64), self.core.view(np.float64)

    def add(self, parent: int, state: int, action: int) -> None:
        """Add a child of a ball around a pair of its domain."""
        self.reserve(1)
        space = self.space
        balls.add_ball(
            self.rows, self.core, self.stats, self.owner, space.distances, space.action_distances,
            space.orders,
            space.action_orders, parent, state, action,
        )  # fmt: skip

    def split(self, row: int, oracle: Greedy | Packing | Oracle) -> None:
        """Cover the domain of a ball by balls of half its radius, as far as `max_balls` allows."""
        if not isinstance(oracle, Greedy):
            self._ask(row, oracle)
            return
        space = self.space
        metric = space.distances, space.action_distances, space.orders, space.action_orders
        if self._covering is None or self._covering[0] != row:
            points = np.empty(int(self.rows["n_points"][row]), np.int64)
            n_left = np.array(
                [balls.domain(self.rows, self.core, self.owner, *metric, row, points)]
            )
            self._covering = row, points, n_left
        _, points, n_left = self._covering
        answer = FULL
        while answer == FULL:
            self.reserve(1)
            answer = balls.cover(
                self.rows,
                self.core,
                self.stats,
                self.owner,
                *metric,
                row,
                oracle.tries,
                points,
                n_left,
            )
        self._covering = None

    def _ask(self, row: int, oracle: Packing | Oracle) -> None:
        """Split a ball with an oracle that is not compiled, and check each of its answers."""
        step, radius = int(self.rows["step"][row]), float(self.rows["radius"][row]) / 2
        while self.core["n_balls"][0] < self.core["max_balls"][0]:
            uncovered = self.owner[step] == row
            if isinstance(oracle, Packing):
                if not uncovered.any():
                    return
                self._add_packing(
                    row, _answer(oracle.give, uncovered, radius, self.space), uncovered, radius
                )
                continue
            answer = _answer(oracle, uncovered, radius, self.space)
            if answer is None:
                if uncovered.any():
                    x, a = np.argwhere(uncovered)[0].tolist()
                    raise ConfigurationError(
                        f"the oracle says that all is covered, but the pair (state {x}, action "
                        f"{a}) is not"
                    )
                return
            x, a = _pair(answer, "expected a pair (state, action) of whole numbers, or None")
            if not (
                0 <= x < uncovered.shape[0] and 0 <= a < uncovered.shape[1] and uncovered[x, a]
            ):
                raise ConfigurationError(
                    f"the oracle gave the pair (state {x}, action {a}), which is covered already "
                    "or not in the ball's domain; "
                    f"it must give one where uncovered[state, action] is true, or None"
                )
            self.add(row, x, a)

    def _add_packing(
        self, row: int, answer: Any, uncovered: NDArray[np.bool_], radius: float
    ) -> None:
        """Add balls around the points of a packing of the uncovered pairs, up to `max_balls`."""
        hint = "expected a list of pairs (state, action) of whole numbers"
        if (
            isinstance(answer, str)
            or not isinstance(answer, Iterable)
            or not (listed := list(answer))
        ):
            raise ConfigurationError(
                f"the oracle gave {answer!r} for a packing of {int(uncovered.sum())} pairs; "
                f"{hint}, at least one"
            )
        step = int(self.rows["step"][row])
        centers: list[tuple[int, int]] = []
        for given in listed:
            x, a = _pair(given, hint)
            if not (
                0 <= x < uncovered.shape[0] and 0 <= a < uncovered.shape[1] and uncovered[x, a]
            ):
                raise ConfigurationError(
                    f"the oracle's packing has the pair (state {x}, action {a}), which is not in "
                    "the set"
                )
            if self.owner[step, x, a] != row:  # a ball just added contains it
                away = self.space.distances_from(x, a)
                other = min(centers, key=lambda center: float(away[center]))
                if away[other] < radius * (1 - SAME):
                    raise ConfigurationError(
                        f"the oracle's packing has the pairs (state {x}, action {a}) and (state "
                        f"{other[0]}, action "
                        f"{other[1]}) at the distance {away[other]:g}; they must be further than "
                        f"{radius:g} from each other"
                    )
            elif self.core["n_balls"][0] < self.core["max_balls"][0]:
                centers.append((x, a))
                self.add(row, x, a)

    def balls(self, step: int, axes: Axes) -> Balls:
        """Return the active balls of a step."""
        used = self.rows[: self.rows_in_use]
        rows = np.flatnonzero((used["step"] == step) & (used["n_points"] > 0))
        found = used[rows]
        states, actions = (self.space.points(side, axes) for side in (0, 1))
        whole_numbers = {
            name: found[name].astype(np.int64) for name in ("n_visits", "depth", "n_points")
        }
        return Balls(
            state=states[found["state"]], action=actions[found["action"]],
            radius=found["radius"].copy(),
            q_value=found["value"].copy(), **whole_numbers,
            owner=np.searchsorted(rows, self.owner[step]),
            states=states, actions=actions, names=tuple(axes.names), step=step,
        )  # fmt: skip

    def restore(self, core: NDArray[Any], rows: NDArray[Any], stats: NDArray[Any]) -> None:
        """Rebuild the table from the balls of a file, in the order in which they were added.

        Raises
        ------
        ValueError
            If they cannot be the balls of this space; the message says why.
        """
        n, horizon = len(rows), len(self.owner)
        if rows.dtype != BALL or rows.ndim != 1 or int(core["n_rows"][0]) != n or n < horizon:
            raise ValueError("the balls have another layout")
        if stats.dtype != np.float64 or stats.shape != (n if len(self.stats) else 0, N_STATS):
            raise ValueError("the statistics of the balls have another layout")
        parents = rows["parent"].astype(np.int64)
        if (
            (parents[:horizon] != NO_PARENT).any()
            or (parents[horizon:] < 0).any()
            or (parents >= np.arange(n)).any()
        ):
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
            parent, state, action = (
                int(parents[row]),
                int(rows["state"][row]),
                int(rows["action"][row]),
            )
            if self.owner[self.rows["step"][parent], state, action] != parent:
                raise ValueError(f"the center of ball {row} is not in the domain of its parent")
            self.add(parent, state, action)
        for name in ("value", "n_visits"):
            self.rows[name][:n] = rows[name]
        self.stats[: len(stats)] = stats
        for name in BALL.names or ():
            if (self.rows[name][:n] != rows[name]).any():
                raise ValueError(
                    f"the {name} of a ball does not follow from the centers and the metric"
                )
        if self.core["n_balls"][0] != core["n_balls"][0]:
            raise ValueError("the number of active balls is wrong")


def _answer(
    oracle: Callable[..., Any], uncovered: NDArray[np.bool_], radius: float, space: Space
) -> Any:
    """Call the oracle; raise ConfigurationError if it fails."""
    try:
        return oracle(uncovered.copy(), radius, space)
    except Exception as error:
        raise ConfigurationError(
            f"the oracle, called with (uncovered, radius, space), failed: {error!r}"
        ) from error


def _pair(given: Any, hint: str) -> tuple[int, int]:
    """Return the oracle's answer as two integers; raise ConfigurationError if it is none."""
    try:
        x, a = (operator.index(part) for part in given)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the oracle gave {given!r}; {hint}") from error
    return x, a
