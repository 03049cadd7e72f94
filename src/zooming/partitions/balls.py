"""The ball table of an agent on a finite metric space.

Only this module allocates the table and calls the covering oracle.
"""

from __future__ import annotations

import copy
import operator
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
    balls,
)
from zooming.kernels.balls import MAX_DEPTH
from zooming.kernels.loop.crossing import Balls, pack
from zooming.metrics import space as metric_space
from zooming.metrics.space import Greedy, Oracle, Packing, Space, packing
from zooming.partitions.table import Answer, Table, root_values
from zooming.spaces.axes import Axes
from zooming.spaces.masks import Feasible
from zooming.validation import Floats, Ints

_ROOM = 1024  # spare rows for lazy children, so that the kernel rarely returns for a larger table


class BallTable(Table):
    """The balls of one agent, and the owner of each pair at each step.

    The owner of a pair is the ball whose domain contains it. `oracle` chooses the children of a
    ball, unless they are lazy.
    """

    seen: Ints
    episode_kernels = balls.KERNELS

    def __init__(
        self, axes: Axes, core: NDArray[Any], space: Space, oracle: Greedy | Packing | Oracle
    ) -> None:
        values = root_values(core)
        horizon = len(values)
        self.axes, self.core, self.space, self.oracle = axes, core, space, oracle
        vars(self).update(self._allocated(max(64, horizon)))
        state, action = space.middle()
        roots = self.rows[:horizon]
        roots["value"], roots["radius"], roots["reach"] = values, space.diameter, space.reach
        roots["state"], roots["action"], roots["parent"] = state, action, NO_PARENT
        roots["n_points"], roots["step"] = space.n_pairs, np.arange(horizon)
        core["n_rows"] = core["n_balls"] = horizon
        self.owner = np.empty((horizon, space.n_states, space.n_actions), np.int32)
        self.owner[:] = np.arange(horizon, dtype=np.int32)[:, None, None]
        self.prepare()

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
        code, found = balls.choose(
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
        code, found = balls.locate_pair(self.handle, step, state, action)
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
        """Cover the domain of a ball with balls of half its radius. Stop at `max_balls`.

        An interrupted split can be called again.
        """
        if isinstance(self.oracle, Greedy):
            while balls.cover_domain(self.handle, row) == FULL:
                self.reserve(1)
            return
        step, radius = int(self.rows["step"][row]), float(self.rows["radius"][row]) / 2
        while self._has_room():
            uncovered = self.owner[step] == row
            if not isinstance(self.oracle, Packing):
                pair = self._ask(self.oracle, uncovered, radius)
                if pair is None:
                    return
                self.add(row, *pair)
                continue
            if not uncovered.any():
                return
            for x, a in packing(uncovered, radius, self.space):
                if self._has_room() and self.owner[step, x, a] == row:  # else a new ball holds it
                    self.add(row, x, a)

    def _has_room(self) -> bool:
        return bool(self.core["n_balls"][0] < self.core["max_balls"][0])

    def _ask(
        self, oracle: Oracle, uncovered: NDArray[np.bool_], radius: float
    ) -> tuple[int, int] | None:
        """Return the answer of a user's oracle. Raise ConfigurationError if it is wrong."""
        try:
            answer: Any = oracle(uncovered.copy(), radius, self.space)
        except Exception as error:
            raise ConfigurationError(
                f"the oracle, called with (uncovered, radius, space), failed: {error!r}"
            ) from error
        if answer is None:
            if uncovered.any():
                x, a = np.argwhere(uncovered)[0].tolist()
                raise ConfigurationError(
                    f"the oracle says that all is covered, but the pair (state {x}, action "
                    f"{a}) is not"
                )
            return None
        try:
            x, a = (operator.index(part) for part in answer)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the oracle gave {answer!r}; expected a pair (state, action) of whole numbers, or "
                "None"
            ) from error
        if not (0 <= x < uncovered.shape[0] and 0 <= a < uncovered.shape[1] and uncovered[x, a]):
            raise ConfigurationError(
                f"the oracle gave the pair (state {x}, action {a}), which is covered already or "
                "not in the ball's domain; it must give one where uncovered[state, action] is "
                "true, or None"
            )
        return x, a

    # --- size -------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        per_ball = METRIC_BALL.itemsize + (self.stats.itemsize * N_STATS if len(self.stats) else 0)
        return self.rows_in_use * per_ball + self.owner.nbytes

    def reserve(self, n_rows: int) -> None:
        if self.rows_in_use + n_rows > len(self.rows):
            grown = self._allocated(max(self.rows_in_use + n_rows, 2 * len(self.rows)))
            grown["rows"][: len(self.rows)] = self.rows
            grown["stats"][: len(self.stats)] = self.stats
            # One call, so that an interrupt finds either all old arrays or all new ones.
            vars(self).update(grown, handle=self._packed(**grown))

    def copy(self) -> BallTable:
        """Return an independent table with the same balls and the same space."""
        return copy.deepcopy(self, {id(one): one for one in (self.space, self.axes, self.oracle)})

    def prepare(self) -> None:
        """Make the handle for the kernels."""
        self._place = np.full(N_PLACES, -1)
        self.handle = self._packed(self.rows, self.stats, self.seen)

    def _allocated(self, n_rows: int) -> dict[str, Any]:
        """Return {attribute name: new array with `n_rows` rows}."""
        rows = np.zeros(n_rows, METRIC_BALL)
        stats = np.zeros((n_rows if self.core["bonus_rule"][0] else 0, N_STATS))
        seen = np.zeros(n_rows + 1, np.int64)  # scratch memory of `balls.select`
        return {"rows": rows, "stats": stats, "seen": seen}

    def _packed(self, rows: NDArray[Any], stats: Floats, seen: Ints) -> Any:
        space = self.space
        record = Balls(
            rows, self.core, stats, self.owner, space.distances, space.action_distances,
            space.orders, space.action_orders, space.grid, space.everything, self._place, seen,
        )  # fmt: skip
        return pack(record)

    # --- what was learned -------------------------------------------------------------------------

    def view(self, step: int) -> metric_space.Balls:
        """Return the active balls of a step."""
        axes = self.axes
        used = self.rows[: self.rows_in_use]
        rows = np.flatnonzero((used["step"] == step) & (used["n_points"] > 0))
        found = used[rows]
        states, actions = (self.space.points(side, axes) for side in (0, 1))
        whole_numbers = {
            name: found[name].astype(np.int64) for name in ("n_visits", "depth", "n_points")
        }
        return metric_space.Balls(
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
        if rows.dtype != METRIC_BALL or rows.ndim != 1 or not core["n_rows"][0] == n >= horizon:
            raise ValueError("the balls have another layout")
        if stats.dtype != np.float64 or stats.shape != (n if len(self.stats) else 0, N_STATS):
            raise ValueError("the statistics of the balls have another layout")
        parents = rows["parent"].astype(np.int64)
        are_older = (parents[horizon:] >= 0) & (parents[horizon:] < np.arange(horizon, n))
        if (parents[:horizon] != NO_PARENT).any() or not are_older.all():
            raise ValueError("a ball names a parent that is not older")
        if not (np.isfinite(rows["value"]).all() and np.isfinite(stats).all()):
            raise ValueError("a value or a statistic is not finite")
        if (rows["n_visits"] < 0).any() or (rows["depth"] > MAX_DEPTH).any():
            raise ValueError("a number of visits or a depth is out of range")
        for name, n_points in zip(("state", "action"), self.owner.shape[1:], strict=True):
            if not ((rows[name] >= 0) & (rows[name] < n_points)).all():
                raise ValueError("a center is not a point of the space")
        for name in self.core.dtype.names or ():
            if name not in ("n_rows", "n_balls"):
                self.core[name] = core[name]
        self.reserve(n - horizon)
        for row in range(horizon, n):
            parent, state, action = (int(rows[name][row]) for name in ("parent", "state", "action"))
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
