"""The ball table of an agent on a finite metric space.

Only this module allocates the table and calls the covering oracle.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.kernels import (
    FINE,
    FIRST_VALUE,
    FULL,
    LOW,
    METRIC_BALL,
    N_PLACES,
    N_STATS,
    NO_PARENT,
    WIDTH,
)
from zooming.kernels.balls import balls
from zooming.kernels.balls import balls as ball_domains
from zooming.kernels.balls import balls as ball_episodes
from zooming.kernels.balls.balls import MAX_DEPTH
from zooming.kernels.loop.crossing import Balls, pack
from zooming.metrics import space as ball_view
from zooming.metrics.oracles import Greedy, Oracle, Packing, packing
from zooming.metrics.space import Space
from zooming.partitions.table import Answer, Table, root_values
from zooming.spaces.axes import Axes
from zooming.spaces.masks import Feasible
from zooming.validation import Floats


def split_by_oracle(table: BallTable, row: int, oracle: Packing | Oracle) -> None:
    """Split a ball with an oracle that is not compiled. Each answer of a user's is checked."""
    step, radius = int(table.rows["step"][row]), float(table.rows["radius"][row]) / 2
    while table.core["n_balls"][0] < table.core["max_balls"][0]:
        uncovered = table.owner[step] == row
        if isinstance(oracle, Packing):
            if not uncovered.any():
                return
            for x, a in packing(uncovered, radius, table.space):
                has_room = table.core["n_balls"][0] < table.core["max_balls"][0]
                if has_room and table.owner[step, x, a] == row:  # else a new ball contains it
                    table.add(row, x, a)
            continue
        answer = _answer(oracle, uncovered, radius, table.space)
        if answer is None:
            if uncovered.any():
                x, a = np.argwhere(uncovered)[0].tolist()
                raise ConfigurationError(
                    f"the oracle says that all is covered, but the pair (state {x}, action "
                    f"{a}) is not"
                )
            return
        x, a = _pair(answer, "expected a pair (state, action) of whole numbers, or None")
        if not (0 <= x < uncovered.shape[0] and 0 <= a < uncovered.shape[1] and uncovered[x, a]):
            raise ConfigurationError(
                f"the oracle gave the pair (state {x}, action {a}), which is covered already "
                "or not in the ball's domain; "
                f"it must give one where uncovered[state, action] is true, or None"
            )
        table.add(row, x, a)


def _answer(
    oracle: Callable[..., Any], uncovered: NDArray[np.bool_], radius: float, space: Space
) -> Any:
    """Call the oracle and return its answer. Raise ConfigurationError if it fails."""
    try:
        return oracle(uncovered.copy(), radius, space)
    except Exception as error:
        raise ConfigurationError(
            f"the oracle, called with (uncovered, radius, space), failed: {error!r}"
        ) from error


def _pair(given: Any, hint: str) -> tuple[int, int]:
    """Return the oracle's answer as two integers.

    Raise ConfigurationError if it is not a pair of integers.
    """
    try:
        x, a = (operator.index(part) for part in given)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the oracle gave {given!r}; {hint}") from error
    return x, a


_ROOM = 1024  # spare rows for lazy children, so that the kernel rarely returns for a larger table


class BallTable(Table):
    """The balls of one agent, and the owner of each pair at each step.

    The owner of a pair is the ball whose domain contains it. `oracle` chooses the children of a
    ball, unless they are lazy.
    """

    seen: NDArray[np.int64]
    _episodes = ball_episodes.KERNELS

    def __init__(
        self, axes: Axes, core: NDArray[Any], space: Space, oracle: Greedy | Packing | Oracle
    ) -> None:
        values = root_values(core)
        horizon = len(values)
        self.axes, self.core, self.space, self.oracle = axes, core, space, oracle
        self._covering: Any = None  # (row, points, n_left) of an interrupted split
        vars(self).update(self._allocated(max(64, horizon)))
        state, action = space.middle()
        roots = self.rows[:horizon]
        roots["value"], roots["radius"], roots["reach"] = values, space.diameter, space.reach
        roots["state"], roots["action"], roots["parent"] = state, action, NO_PARENT
        roots["n_points"], roots["step"] = space.n_pairs, np.arange(horizon)
        core["n_rows"] = core["n_balls"] = horizon
        shape = (horizon, space.n_states, space.n_actions)
        self.owner = np.empty(shape, np.int32)
        self.owner[:] = np.arange(horizon, dtype=np.int32)[:, None, None]
        self._prepare()

    # --- learning ---------------------------------------------------------------------------------

    def select(
        self,
        step: int,
        state: Floats,
        action: Floats,
        *,
        ties: int,
        rule: int,
        allowed: Feasible | None = None,
        core: NDArray[Any] | None = None,
    ) -> Answer:
        axes = self.axes
        code, found = ball_episodes.choose(
            self.handle, self.core if core is None else core, self._mask(allowed), step, state,
            ties, rule, action,
        )  # fmt: skip
        if code == FINE and allowed is not None:
            played = allowed.nearest(axes.from_unit_cube(action, axes.n_state))
            action[:] = axes.to_unit_cube(played, axes.n_state)
        return int(code), int(found)

    def _mask(self, allowed: Feasible | None) -> NDArray[np.uint8]:
        """Return 1 for each feasible action point, else 0.

        If an interval has no feasible point, the nearest point counts as feasible.
        """
        space, axes = self.space, self.axes
        if allowed is None:
            return space.everything
        found = np.ones(1, np.uint8)
        for i, (low, high, n, is_whole) in enumerate(space.grid[axes.n_state :]):
            row, first = allowed.allowed[i], axes.table[axes.n_state + i]
            points = low + np.arange(int(n)) if is_whole else np.linspace(low, high, int(n))
            unit = (points - first[LOW]) / first[WIDTH]
            one = (unit >= row[0] - 1e-12) & (unit <= row[1] + 1e-12)
            if row[FIRST_VALUE:].any():
                one &= row[FIRST_VALUE : FIRST_VALUE + int(n)] == 1.0
            if not one.any():
                one[np.abs(unit - np.clip(unit, row[0], row[1])).argmin()] = True
            found = np.multiply.outer(found, one.astype(np.uint8)).ravel()
        return found

    def locate(self, step: int, state: Floats, action: Floats) -> Answer:
        code, found = ball_episodes.locate_pair(self.handle, step, state, action)
        return int(code), int(found)

    def is_due(self, row: int) -> bool:
        return bool(balls.is_due(self.rows, self.core, row))

    def _make_room_for_a_split(self) -> None:
        self.reserve(1)

    def make_room(self) -> None:
        self.reserve(max(_ROOM, len(self.owner)))

    def add(self, parent: int, state: int, action: int) -> None:
        """Add a child of ball `parent` around a pair of its domain."""
        self.reserve(1)
        balls.add_child(self.handle, parent, state, action)

    def split(self, row: int) -> None:
        """Cover the domain of a ball with balls of half its radius. Stop at `max_balls`."""
        oracle = self.oracle
        if not isinstance(oracle, Greedy):
            split_by_oracle(self, row, oracle)
            return
        if self._covering is None or self._covering[0] != row:
            points = np.empty(int(self.rows["n_points"][row]), np.int64)
            n_left = np.array([ball_domains.write_domain(self.handle, row, points)])
            self._covering = row, points, n_left
        _, points, n_left = self._covering
        answer = FULL
        while answer == FULL:
            self.reserve(1)
            answer = ball_domains.cover_domain(self.handle, row, oracle.tries, points, n_left)
        self._covering = None

    # --- size -------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        per_ball = METRIC_BALL.itemsize + (self.stats.itemsize * N_STATS if len(self.stats) else 0)
        return self.rows_in_use * per_ball + self.owner.nbytes

    def reserve(self, n_rows: int) -> None:
        if self.rows_in_use + n_rows > len(self.rows):
            grown = self._allocated(max(self.rows_in_use + n_rows, 2 * len(self.rows)))
            grown["rows"][: len(self.rows)], grown["stats"][: len(self.stats)] = (
                self.rows,
                self.stats,
            )
            # One call, so that an interrupt finds either all old arrays or all new ones.
            vars(self).update(grown, handle=self._packed(**grown))

    def copy(self) -> BallTable:
        """Return an independent table with the same balls and the same space."""
        return copy.deepcopy(self, {id(one): one for one in (self.space, self.axes, self.oracle)})

    def _prepare(self) -> None:
        """Make the handle for the kernels."""
        self._place = np.full(N_PLACES, -1)
        self.handle = self._packed(self.rows, self.stats, self.seen)

    def _allocated(self, n_rows: int) -> dict[str, Any]:
        """Return {attribute name: new array with `n_rows` rows}."""
        rows = np.zeros(n_rows, METRIC_BALL)
        stats = np.zeros((n_rows if self.core["bonus_rule"][0] else 0, N_STATS))
        seen = np.zeros(n_rows + 1, np.int64)  # scratch memory of `balls.select`
        return {"rows": rows, "stats": stats, "seen": seen}

    def _packed(self, rows: NDArray[Any], stats: Floats, seen: NDArray[np.int64]) -> Any:
        space = self.space
        record = Balls(
            rows, self.core, stats, self.owner, space.distances, space.action_distances,
            space.orders, space.action_orders, space.grid, space.everything, self._place, seen,
        )  # fmt: skip
        return pack(record)

    # --- what was learned -------------------------------------------------------------------------

    def view(self, step: int) -> ball_view.Balls:
        """Return the active balls of a step."""
        axes = self.axes
        used = self.rows[: self.rows_in_use]
        rows = np.flatnonzero((used["step"] == step) & (used["n_points"] > 0))
        found = used[rows]
        states, actions = (self.space.points(side, axes) for side in (0, 1))
        whole_numbers = {
            name: found[name].astype(np.int64) for name in ("n_visits", "depth", "n_points")
        }
        return ball_view.Balls(
            state=states[found["state"]], action=actions[found["action"]],
            radius=found["radius"].copy(),
            q_value=found["value"].copy(), **whole_numbers,
            owner=np.searchsorted(rows, self.owner[step]),
            states=states, actions=actions, names=tuple(axes.names), step=step,
            paths=tuple(axes.paths),
        )  # fmt: skip

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Rebuild the table from the balls of a file, in the order in which they were added.

        Raises
        ------
        ValueError
            If they cannot be the balls of this space; the message says why.
        """
        core, rows, stats = arrays["core"], arrays["balls"], arrays["stats"]
        n, horizon = len(rows), len(self.owner)
        if (
            rows.dtype != METRIC_BALL
            or rows.ndim != 1
            or int(core["n_rows"][0]) != n
            or n < horizon
        ):
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
        for name in METRIC_BALL.names or ():
            if (self.rows[name][:n] != rows[name]).any():
                raise ValueError(
                    f"the {name} of a ball does not follow from the centers and the metric"
                )
        if self.core["n_balls"][0] != core["n_balls"][0]:
            raise ValueError("the number of active balls is wrong")
