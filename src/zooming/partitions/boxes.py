"""The ball table of an agent with boxes. Only this module allocates and grows it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.kernels import ACTIVE, BALL, CORE, EITHER, FINE, NO_PARENT, STORED_BALL, WITHIN
from zooming.kernels.boxes import budget, data_cuts, trees
from zooming.kernels.boxes import play as box_kernels
from zooming.kernels.loop.crossing import Boxes, pack
from zooming.partitions.faults import fault, has_same_cuts, has_stats, lengths, levels
from zooming.partitions.table import Answer, Table, n_roots, root_values
from zooming.partitions.view import Partition, about_axes, corners
from zooming.spaces.axes import Axes
from zooming.spaces.masks import Allowed, Feasible
from zooming.validation import Floats, Ints


def cut_into_cells(table: Any, borders: list[Floats]) -> None:
    """Cut every root of a new `BoxTable` at borders[i] along axis i.

    Each split halves the number of cells; if it is odd, the second child gets one more, on which
    `select.draw_tied` relies. A net is cut along its state axes first. Below them, an inner row
    holds the largest Q of one state, so selection finds the maximum at once.
    """
    core = table.core
    n_axes = len(borders)
    row = np.arange(n_roots(core))
    first = np.zeros((len(row), n_axes), np.int64)  # each row covers cells first to last - 1
    sizes = [len(axis_borders) for axis_borders in borders]
    last = np.tile(np.array(sizes, np.int64) + 1, (len(row), 1))
    most = max(sizes, default=0)
    border = np.array([np.pad(one, (0, most - len(one))) for one in borders])
    is_net = bool(core["spacing"][0])
    is_state = is_net & (np.arange(n_axes) < core["n_state"][0])
    while True:
        wide = (last - first > 1).any(axis=1)
        row, first, last = row[wide], first[wide], last[wide]
        if not len(row):
            break
        width = last - first
        is_first = is_state & (width > 1)
        axis = np.argmax(np.where(is_first, width + most + 1, width), axis=1)
        each = np.arange(len(row))
        middle = (first[each, axis] + last[each, axis]) // 2
        child = table.rows_in_use + 2 * each
        table.reserve(2 * len(row))
        table.rows["axis"][row] = axis
        table.rows["cut"][row] = border[axis, middle - 1]
        table.rows["child"][row] = child
        core["n_rows"] += 2 * len(row)
        core["n_balls"] += len(row)
        for side in (0, 1):
            table.rows["value"][child + side] = table.rows["value"][row]
            table.rows["parent"][child + side] = row
            table.rows["due_at"][child + side] = np.inf
        left_last, right_first = last.copy(), first.copy()
        left_last[each, axis] = right_first[each, axis] = middle
        row = np.concatenate([child, child + 1])
        first, last = np.concatenate([first, right_first]), np.concatenate([left_last, last])


def _radii(core: NDArray[Any], depth: Ints, side_lengths: Floats) -> Floats:
    """Return the radius of each ball, as `Partition` defines it."""
    if core["cubes"][0]:
        return np.asarray(0.5**depth)
    if core["spacing"][0]:
        return np.full(len(depth), core["spacing"][0])
    return np.asarray(side_lengths.max(axis=1))


_CACHE_LINE = 64
_NOTHING = np.zeros(0, np.int64)
_EVERYTHING = np.empty((0, kernels.FIRST_VALUE))  # `allowed` of the kernels: all actions
_NO_OTHERS = np.empty((0, 0))
_ROOM = 1024  # spare rows, so that the kernel rarely returns for a larger table


class BoxTable(Table):
    """The boxes of one agent for all steps: rows of `kernels.BALL` and a `kernels.CORE` record."""

    episode_kernels: Any = box_kernels.SCALED_BONUS
    _within_budget: Any = budget.BOXES  # the same for a table that removes balls
    _queries = box_kernels.QUERIES

    _beside: Any  # the handle of what is kept beside the balls; it must outlive `handle`

    def __init__(
        self, axes: Axes, core: NDArray[Any], rows: NDArray[Any], stats: Floats | None = None
    ) -> None:
        self.axes, self.core, self.rows = axes, core, rows
        if stats is None:
            stats = np.zeros((len(rows) if has_stats(core) else 0, int(core["n_stats"][0])))
        self.stats = stats
        self.prepare()

    def prepare(self) -> None:
        """Choose the kernels, and make their scratch memory and handle."""
        if self.has_budget:
            self.episode_kernels = self._within_budget
        elif self.core["bonus_rule"][0] and self.episode_kernels is box_kernels.SCALED_BONUS:
            self.episode_kernels = box_kernels.ANY_BONUS
        n_state, n_action = int(self.core["n_state"][0]), int(self.core["n_action"][0])
        self._place = np.full(kernels.N_PLACES, -1)
        self._scratch = (
            np.empty(n_state), np.empty(n_action),
            np.empty(n_action), np.empty(n_action), kernels.new_stack(self.core),
        )  # fmt: skip
        vars(self).update(self._packed(self.rows, self.stats, {}))

    def _packed(self, rows: NDArray[Any], stats: Floats, more: dict[str, Any]) -> dict[str, Any]:
        """Return the handle of these arrays and of `more`, the arrays of a subclass."""
        beside = self._handle_of_more(more)
        arrays = Boxes(rows, self.core, stats, self.axes.table, self._place, *self._scratch, beside)
        return {"handle": pack(arrays), "_beside": beside}

    @classmethod
    def of_roots(cls, axes: Axes, core: NDArray[Any]) -> BoxTable:
        """Return a table with one root ball per step and no splits."""
        values = root_values(core)
        table = cls(axes, core, allocate(len(values) + len(values) % 2))
        core["n_rows"] = len(table.rows)
        core["n_balls"] = len(values)
        table.rows["parent"] = NO_PARENT
        table.rows["value"][: len(values)] = values
        table.rows["due_at"][: len(values)] = np.inf
        return table

    @classmethod
    def of_cells(cls, axes: Axes, core: NDArray[Any], borders: list[Floats]) -> BoxTable:
        """Return a table in which every root is cut at borders[i] along axis i."""
        table = cls.of_roots(axes, core)
        cut_into_cells(table, borders)
        return table

    def set_due(self) -> None:
        """Set the visits (1 / diameter)^2 at which each ball of an initial partition is due."""
        n, end = self.rows_in_use, n_roots(self.core)
        low, high = np.zeros((1, len(self.axes))), np.array([[1 / n for n in self.axes.n_values]])
        active = self.rows["child"][:n] == ACTIVE
        active[end : end + end % 2] = False
        self.rows["due_at"][:n][active] = kernels.due_after(
            self.core, float(lengths(self.axes.table, low, high).max())
        )
        self._set_sides()

    def _set_sides(self) -> None:
        """Write the first length of each side of the balls, if there is a budget."""
        for step in range(int(self.core["horizon"][0]) if self.has_budget else 0):
            row, low, high = self.boxes(step)
            self.stats[row, -len(self.axes) :] = lengths(self.axes.table, low, high)

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
        draws: bool = False,
        others: Floats = _NO_OTHERS,
    ) -> Answer:
        """Do what `Table.select` says, with (state, action) under way: see `choose`."""
        core = self.core if core is None else core
        axes, rows = self.axes, _EVERYTHING if allowed is None else allowed.allowed
        code, found = self._queries.choose(
            self.handle, core, step, state, ties, rule, rows, action, draws, others
        )
        if code == FINE and allowed is not None:
            played = allowed.between(axes.from_unit_cube(action, axes.n_state))
            action[:] = axes.to_unit_cube(played, axes.n_state)
        return int(code), int(found)

    def select_many(
        self,
        steps: Ints,
        states: Floats,
        actions: Floats,
        *,
        rule: int,
        allowed: Allowed,
        core: NDArray[Any],
        ties: int = EITHER,
    ) -> tuple[int, int]:
        if any(one is not None for one in allowed):
            return super().select_many(
                steps, states, actions, rule=rule, allowed=allowed, core=core, ties=ties
            )
        k, i = self._queries.choose_many(self.handle, core, steps, states, ties, rule, actions)
        return int(k), int(i)

    def locate(self, step: int, state: Floats, action: Floats) -> Answer:
        code, found = self._queries.locate_pair(self.handle, step, state, action)
        return int(code), int(found)

    def _make_room_for_a_split(self) -> None:
        self.reserve(int(kernels.rows_needed(self.core, 1)))

    def make_room(self) -> None:
        n_splits = max(
            int(self.core["horizon"][0]), _ROOM // max(1, int(kernels.rows_per_split(self.core)))
        )
        self.reserve(int(kernels.rows_needed(self.core, n_splits)))

    # --- size -------------------------------------------------------------------------------------

    @property
    def has_budget(self) -> bool:
        """Whether balls are removed when `max_balls` is reached, see `kernels.boxes.budget`."""
        return bool(self.core["rule"][0] >= WITHIN)

    @property
    def is_full(self) -> bool:
        """Whether `max_balls` leaves no room for another split, or each removes a ball."""
        n_children = 2 if self.has_budget else 1 << int(self.core["split_axes"][0])
        return bool(self.n_balls + n_children - 1 > self.core["max_balls"][0])

    @property
    def nbytes(self) -> int:
        return self.rows_in_use * (
            BALL.itemsize + (self.stats.itemsize * self.stats.shape[1] if len(self.stats) else 0)
        )

    def reserve(self, n_rows: int) -> None:
        needed = self.rows_in_use + n_rows
        if needed > len(self.rows):
            # No more than `max_balls` can use: two rows for each further ball.
            most = self.rows_in_use + 2 * int(self.core["max_balls"][0] - self.core["n_balls"][0])
            grown, stats = allocate(max(needed, min(most, len(self.rows) * 3 // 2))), self.stats
            grown[: self.rows_in_use] = self.rows[: self.rows_in_use]
            if len(stats):
                n_more = len(grown) - len(stats)
                stats = np.concatenate([stats, np.zeros((n_more, stats.shape[1]))])
            more = self._grown(len(grown))
            # One call, so that an interrupt finds either all old arrays or all new ones.
            vars(self).update(
                {**more, **self._packed(grown, stats, more), "rows": grown, "stats": stats}
            )

    def _grown(self, n_rows: int) -> dict[str, Any]:
        """Return {attribute name: array} of the subclass's arrays, with room for `n_rows` rows."""
        return {}

    def _handle_of_more(self, more: dict[str, Any]) -> Any:
        """Return the handle of the subclass's arrays. Arrays in `more` replace its attributes."""
        return _NOTHING

    def copy(self) -> BoxTable:
        n = self.rows_in_use
        rows = allocate(n)
        rows[:] = self.rows[:n]
        return type(self)(self.axes, self.core.copy(), rows, self.stats[:n].copy())

    def __deepcopy__(self, memo: dict[int, Any]) -> BoxTable:
        return self.copy()

    # --- what was learned -------------------------------------------------------------------------

    def boxes(self, step: int) -> tuple[Ints, Floats, Floats]:
        """Return (row, low corner, high corner) of a step's active balls, in the unit cube."""
        n_axes = int(self.core["n_state"][0] + self.core["n_action"][0])
        found = [
            (row[active], box_low[active], box_high[active])
            for row, box_low, box_high in levels(
                self.rows, np.array([box_kernels.root_of(self.core, step)]), n_axes
            )
            for active in [self.rows["child"][row] == ACTIVE]
        ]
        row = np.concatenate([rows for rows, _, _ in found])
        order = np.argsort(row)
        low = np.concatenate([box_low for _, box_low, _ in found])[order]
        return row[order], low, np.concatenate([box_high for _, _, box_high in found])[order]

    def q_values(self, step: int, rows: Any) -> Any:
        to_come = self.core["mean_reward"][0] * budget.ahead(self.core, step)
        return self.rows["value"][rows] + to_come

    def view(self, step: int) -> Partition:
        """Return the active balls of a step, sorted by row, in the environment's units."""
        axes = self.axes
        row, low, high = self.boxes(step)
        balls = self.rows[row]
        depth = balls["depth"].astype(np.int64)
        return Partition(
            low=corners(axes, low),
            high=corners(axes, high),
            q_value=np.array(self.q_values(step, row)),
            n_visits=balls["n_visits"].astype(np.int64),
            depth=depth,
            radius=_radii(self.core, depth, lengths(axes.table, low, high)),
            step=step,
            **about_axes(axes),
        )

    def state(self) -> dict[str, NDArray[Any]]:
        stored = super().state()
        return {**stored, "balls": stored["balls"].view(STORED_BALL)}

    def fault(self) -> str | None:
        """Return a sentence on why this table is invalid, or None if it is valid."""
        n = self.rows_in_use
        return fault(self.core, self.rows[:n], self.stats[:n], self.axes.table)

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        core, balls, stats = arrays["core"], arrays["balls"], arrays["stats"]
        are_known = balls.dtype == STORED_BALL and stats.dtype == np.float64
        if not are_known or (balls.ndim, stats.ndim) != (1, 2):
            raise ValueError("the ball table has another layout")
        # Copy into rows with the kernels' alignment and dtype, which the file may not have.
        rows = allocate(len(balls))
        rows.view(STORED_BALL)[:] = balls
        core = core.astype(CORE)
        found = fault(core, rows, stats, self.axes.table)
        if found:
            raise ValueError(found)
        if core["spacing"][0] and not has_same_cuts(rows, self.rows[: self.rows_in_use]):
            raise ValueError(f"the balls are not a net of spacing {core['spacing'][0]}")
        vars(self).update(vars(type(self)(self.axes, core, rows, stats)))


def allocate(n_rows: int) -> NDArray[Any]:
    """Return zeroed rows, aligned so that two siblings share a cache line."""
    memory = np.zeros(n_rows * BALL.itemsize + _CACHE_LINE, np.uint8)
    offset = -memory.ctypes.data % _CACHE_LINE
    return memory[offset : offset + n_rows * BALL.itemsize].view(BALL)


class DataTable(BoxTable):
    """The boxes of an agent that splits by the data in a ball, see `kernels.boxes.data_cuts`.

    The last columns of `stats` have the data. `played` is scratch memory.
    """

    episode_kernels = data_cuts.KERNELS

    def prepare(self) -> None:
        self.played = np.zeros((int(self.core["horizon"][0]), len(self.axes)))
        super().prepare()

    def _handle_of_more(self, more: dict[str, Any]) -> Any:
        return pack(data_cuts.Played(self.played))


class TreeTable(BoxTable):
    """The boxes of optimistic trees. `stats` has the statistics of `kernels.boxes.trees`."""

    episode_kernels = trees.KERNELS
    _within_budget = budget.TREES
    _queries = trees.QUERIES

    def set_due(self) -> None:
        """Write the optimistic index and `due_at` of each ball of a new table."""
        high = float(self.core["reward_high"][0])
        self.stats[:, trees.REWARD] = high
        # If no reward is positive, the best case is that the episode ends after the next one.
        self.stats[:, trees.FUTURE] = max(high, 0.0)
        self._write_rows(True)
        self._set_sides()

    def rescale(self, span: float, unknown: float | None) -> None:
        """Set the unit of rewards, and the reward assumed for balls without samples."""
        stats, core = self.stats, self.core
        for _ in range(2):  # a variance; the square of the ratio may be too large for a float
            stats[:, trees.NOISE] *= float(core["reward_span"][0]) / span
        core["reward_span"] = span
        if unknown is not None:
            fresh = stats[:, trees.WEIGHT] == 0.0
            stats[fresh, trees.REWARD], stats[fresh, trees.FUTURE] = unknown, max(unknown, 0.0)
        self._write_rows(False)

    def _write_rows(self, are_new: bool) -> None:
        """Write the indices of all rows and, if they are new, `due_at` of their balls."""
        n = self.rows_in_use
        trees.write_rows(self.rows, self.core, self.stats, self.axes.table, 0, n, are_new)

    def q_values(self, step: int, rows: Any) -> Any:
        """Return the index (optimistic value) of a ball, or of an array of balls, at a step."""
        share = float(trees.share_of_first(self.core, step))
        last, first = self.rows["value"][rows], self.stats[rows, trees.FIRST_INDEX]
        return (1.0 - share) * last + share * first  # `kernels.boxes.trees.index_of`
