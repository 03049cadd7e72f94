"""The ball table of an agent with boxes. Only this module allocates, grows and validates it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.kernels import (
    ACTIVE,
    ATOMS,
    BALL,
    BERNSTEIN,
    LOW,
    N_STATS,
    NO_PARENT,
    OWN,
    SAME,
    WEIGHT,
    WIDTH,
    most_splits,
    sides,
)
from zooming.partitions.view import Partition

Floats = NDArray[np.float64]
_CACHE_LINE = 64


class BallTable:
    """The balls of one agent for all steps: rows of `kernels.BALL` and a `kernels.CORE` record."""

    def __init__(self, core: NDArray[Any], rows: NDArray[Any], stats: Floats | None = None) -> None:
        self.core = core
        self.raw_core: Floats = core.view(np.float64)
        self._use(rows)
        # The statistics that some bonuses keep per ball; empty for the others.
        self.stats = (
            np.zeros((len(rows) if core["bonus_rule"][0] else 0, N_STATS))
            if stats is None
            else stats
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore an unpickled table: its views must be of its own memory."""
        self.core, self.stats = state["core"], state["stats"]
        self.raw_core = self.core.view(np.float64)
        self._use(state["rows"])

    def _use(self, rows: NDArray[Any]) -> None:
        """Set the rows and their float64 view, which the kernels called once per step take."""
        self.rows = rows
        self.raw_rows: Floats = rows.view(np.float64)

    @classmethod
    def of_roots(cls, core: NDArray[Any], root_values: Floats) -> BallTable:
        """Return a table with one root ball per step and no splits."""
        table = cls(core, _allocate(len(root_values) + len(root_values) % 2))
        core["n_rows"] = len(table.rows)
        core["n_balls"] = len(root_values)
        table.rows["parent"] = NO_PARENT
        table.rows["value"][: len(root_values)] = root_values
        table.rows["threshold"][: len(root_values)] = np.inf
        return table

    @classmethod
    def of_cells(cls, core: NDArray[Any], root_values: Floats, borders: list[Floats]) -> BallTable:
        """Return a table in which every root is cut at borders[i] along axis i.

        The borders of an axis are ascending and inside (0, 1). Each split halves the number of
        cells. If it is odd, the second child gets one more; `kernels.draw_tied` relies on this.
        A net is cut along its state axes first, so that below them the value of an inner row is
        the largest Q of one state: selection finds the maximum at once, and can draw among ties.
        """
        table = cls.of_roots(core, root_values)
        n_axes = len(borders)
        row = np.arange(len(root_values))
        first = np.zeros((len(row), n_axes), np.int64)  # each row covers cells first to last - 1
        last = np.tile(
            np.array([len(axis_borders) + 1 for axis_borders in borders], np.int64), (len(row), 1)
        )
        most = max((len(axis_borders) for axis_borders in borders), default=0)
        border = np.array(
            [np.pad(axis_borders, (0, most - len(axis_borders))) for axis_borders in borders]
        )
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
            table.rows["threshold"][row] = border[axis, middle - 1]
            table.rows["child"][row] = child
            core["n_rows"] += 2 * len(row)
            core["n_balls"] += len(row)
            for side in (0, 1):
                table.rows["value"][child + side] = table.rows["value"][row]
                table.rows["parent"][child + side] = row
                table.rows["threshold"][child + side] = np.inf
            left_last, right_first = last.copy(), first.copy()
            left_last[each, axis] = right_first[each, axis] = middle
            row = np.concatenate([child, child + 1])
            first, last = np.concatenate([first, right_first]), np.concatenate([left_last, last])
        return table

    def set_due(self, due: float) -> None:
        """Make every active ball due at the same number of visits."""
        n = self.rows_in_use
        horizon = int(self.core["horizon"][0])
        active = self.rows["child"][:n] == ACTIVE
        active[horizon : horizon + horizon % 2] = False
        self.rows["threshold"][:n][active] = due

    @property
    def rows_in_use(self) -> int:
        """Number of rows in use, inner rows included."""
        return int(self.core["n_rows"][0])

    @property
    def nbytes(self) -> int:
        """Size in bytes of the rows in use, as in a checkpoint. Reserved rows are not counted."""
        return self.rows_in_use * (
            BALL.itemsize + (self.stats.itemsize * N_STATS if len(self.stats) else 0)
        )

    def reserve(self, n_more: int) -> None:
        """Make room for `n_more` rows. Tables grow only here."""
        needed = self.rows_in_use + n_more
        if needed > len(self.rows):
            grown, stats = _allocate(max(needed, len(self.rows) * 3 // 2)), self.stats
            grown[: self.rows_in_use] = self.rows[: self.rows_in_use]
            if len(stats):
                stats = np.concatenate([stats, np.zeros((len(grown) - len(stats), N_STATS))])
            # One call, so that an interrupt finds either all old arrays or all new ones.
            vars(self).update(rows=grown, raw_rows=grown.view(np.float64), stats=stats)

    def copy(self) -> BallTable:
        """Return an independent table with the same balls and no reserved rows."""
        n = self.rows_in_use
        rows = _allocate(n)
        rows[:] = self.rows[:n]
        return BallTable(self.core.copy(), rows, self.stats[:n].copy())

    def __deepcopy__(self, memo: dict[int, Any]) -> BallTable:
        return self.copy()

    def boxes(self, step: int) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return (row, low corner, high corner) of the active balls of a step, sorted by row.

        The corners are in the unit cube.
        """
        n_axes = int(self.core["n_state"][0] + self.core["n_action"][0])
        found = [
            (row[active], box_low[active], box_high[active])
            for row, box_low, box_high in _levels(self.rows, np.array([step]), n_axes)
            for active in [self.rows["child"][row] == ACTIVE]
        ]
        row = np.concatenate([rows for rows, _, _ in found])
        order = np.argsort(row)
        low = np.concatenate([box_low for _, box_low, _ in found])[order]
        return row[order], low, np.concatenate([box_high for _, _, box_high in found])[order]

    def box(self, row: int) -> tuple[Floats, Floats]:
        """Return the low and the high corner of one ball in the unit cube."""
        n_axes = int(self.core["n_state"][0] + self.core["n_action"][0])
        low, high = np.empty(n_axes), np.empty(n_axes)
        sides(self.rows, row, 0, low, high)
        return low, high

    def partition(self, step: int, names: list[str], axes: Floats, ends: Floats) -> Partition:
        """Return the active balls of a step, sorted by row.

        `axes` (see `kernels.LOW`) and the `ends` of the axes define the environment's units.
        """
        row, unit_low, unit_high = self.boxes(step)
        balls = self.rows[row]
        depth = balls["depth"].astype(np.int64)
        return Partition(
            low=_in_units(unit_low, axes, ends),
            high=_in_units(unit_high, axes, ends),
            q_value=balls["value"].copy(),
            n_visits=balls["n_visits"].astype(np.int64),
            depth=depth,
            radius=self._radii(depth, lengths(axes, unit_low, unit_high)),
            names=tuple(names),
            step=step,
        )

    def _radii(self, depth: NDArray[np.int64], side_lengths: Floats) -> Floats:
        """Return the radius of each ball: see `Partition`."""
        if self.core["cubes"][0]:
            return np.asarray(0.5**depth)
        if self.core["spacing"][0]:
            return np.full(len(depth), self.core["spacing"][0])
        return np.asarray(side_lengths.max(axis=1))

    def fault(self, axes: Floats) -> str | None:
        """Return a sentence that says why this table is invalid, or None. For tables from a file.

        The kernels check nothing. They rely on the following facts:

        - rows are in range and form trees without cycles (every walk);
        - no path has more splits than `kernels.most_splits` (the stack of a selection);
        - values are finite, and inner rows hold maxima (branch and bound);
        - borders lie between integers;
        - the axes of cubes were split in turn (`cube_sides`);
        - a due ball can be halved (`split`).
        """
        horizon = int(self.core["horizon"][0])
        n_axes = int(self.core["n_state"][0] + self.core["n_action"][0])
        first_free = horizon + horizon % 2
        if self.rows_in_use != len(self.rows) or len(self.rows) < first_free or len(self.rows) % 2:
            return (
                f"{self.rows_in_use} rows in use do not fit {len(self.rows)} stored rows and "
                f"{horizon} roots"
            )
        rows = self.rows
        used = np.ones(len(rows), bool)
        used[horizon:first_free] = False
        child = rows["child"].astype(np.int64)
        inner = np.flatnonzero(used & (child != ACTIVE))
        first_child = child[inner]
        if (
            (first_child % 2 != 0)
            | (first_child < first_free)
            | (first_child >= len(rows))
            | (first_child <= inner)
        ).any():
            return "a row names a child outside the table"
        claims = np.bincount(first_child // 2, minlength=len(rows) // 2)[first_free // 2 :]
        if (claims != 1).any():
            orphan = first_free + 2 * int(np.flatnonzero(claims != 1)[0])
            return (
                f"row {orphan} is the child of {int(claims[(orphan - first_free) // 2])} rows, "
                "not of one"
            )
        parent = rows["parent"]
        if (parent[:horizon] != NO_PARENT).any() or any(
            (parent[first_child + side] != inner).any() for side in (0, 1)
        ):
            return "a row names the wrong parent"
        if not (np.isfinite(rows["value"][used]).all() and np.isfinite(self.stats).all()):
            return "a value is not finite"
        if self.stats.shape != (len(rows) if self.core["bonus_rule"][0] else 0, N_STATS):
            return "the numbers that the bonus keeps do not fit the rows"
        first_stat = 1 if self.core["bonus_rule"][0] == BERNSTEIN else 0  # its mean may be negative
        if (self.stats[:, first_stat:] < 0).any():
            return "a number that the bonus keeps is negative"  # bonuses take square roots
        if (
            rows["value"][inner]
            != np.maximum(rows["value"][first_child], rows["value"][first_child + 1])
        ).any():
            return "an inner row does not hold the largest value below it"
        if (rows["axis"][inner] >= n_axes).any():
            return "an axis is out of range"
        if int(self.core["n_balls"][0]) != used.sum() - len(inner):
            return "the number of active balls is wrong"
        if self.core["n_balls"][0] > self.core["max_balls"][0]:
            return f"there are more than {self.core['max_balls'][0]} active balls"
        if any(
            (rows["n_visits"][first_child + side] < rows["n_visits"][inner]).any()
            for side in (0, 1)
        ):
            return "a ball has fewer visits than the one it was split from"
        return self._fault_of_boxes(axes, horizon, n_axes)

    def _fault_of_boxes(self, axes: Floats, horizon: int, n_axes: int) -> str | None:
        """Check the boxes of the balls level by level, given that the rows are a forest."""
        rows, cubes = self.rows, bool(self.core["cubes"][0])
        is_halved = self.core["rule"][0] != OWN and not self.core["spacing"][0]
        n_state, n_action = int(self.core["n_state"][0]), int(self.core["n_action"][0])
        n_forks = np.zeros(len(rows), np.int64)  # splits along action axes above each row
        for level, (row, low, high) in enumerate(_levels(rows, np.arange(horizon), n_axes)):
            split = rows["child"][row] != ACTIVE
            if level > most_splits(n_axes) or (n_forks[row] > most_splits(n_action)).any():
                return "there are more splits above a ball than its visits can have made"
            whole = axes[:, ATOMS] > 0
            edges = np.where(whole, high * axes[:, ATOMS], 0.0)
            if (np.abs(edges - np.rint(edges)) > SAME * np.maximum(axes[:, ATOMS], 1)).any():
                return "a border runs through a whole value"
            if not self._is_due_as_it_should(
                rows["threshold"][row[~split]], lengths(axes, low[~split], high[~split])
            ):
                return "a ball is due at another number of visits than its diameter says"
            each, axis, threshold = (
                np.flatnonzero(split),
                rows["axis"][row[split]],
                rows["threshold"][row[split]],
            )
            if not ((low[each, axis] < threshold) & (threshold < high[each, axis])).all():
                return "a threshold lies outside its ball"
            intervals = axes[axis, ATOMS] == 0
            if (
                is_halved
                and (threshold != (low[each, axis] + high[each, axis]) / 2)[intervals].any()
            ):
                return "a threshold is not in the middle of its ball"
            if cubes and (axis != level % n_axes).any():
                return "the axes above a cube were not split in turn"
            is_whole_cube = level % n_axes == 0 or split.all()
            if cubes and not (
                is_whole_cube and (rows["depth"][row[~split]] == level // n_axes).all()
            ):
                return "a ball is not the cube that its depth says"
            first_child = rows["child"][row[split]]
            n_forks[first_child] = n_forks[first_child + 1] = n_forks[row[split]] + (
                axis >= n_state
            )
        return None

    def _is_due_as_it_should(self, due: Floats, side_lengths: Floats) -> bool:
        """Return whether the thresholds of active balls follow from their diameters."""
        if self.core["rule"][0] == OWN:
            return bool((due > 0).all())  # false for NaN; a file does not contain the user's rule
        if self.core["spacing"][0]:
            return bool(np.isposinf(due).all())
        return bool(np.allclose(due, _due_at(side_lengths.max(axis=1)), rtol=1e-9))


def _due_at(diameter: Floats) -> Floats:
    """Return `kernels.due_at` of many balls."""
    with np.errstate(divide="ignore"):
        return np.asarray((1.0 - 1e-12) / (diameter * diameter))


def lengths(axes: Floats, low: Floats, high: Floats) -> Floats:
    """Return the weighted side lengths [n, n_axes] of many boxes, as `kernels.length` does."""
    n_values, weight = axes[:, ATOMS], axes[:, WEIGHT]
    atoms = (np.rint((high - low) * n_values) - 1) / np.maximum(n_values - 1, 1)
    return np.asarray(weight * np.where(n_values == 0, high - low, np.maximum(atoms, 0.0)))


def _allocate(n_rows: int) -> NDArray[Any]:
    """Return zeroed rows that start on a cache line, so that two siblings share one."""
    memory = np.zeros(n_rows * BALL.itemsize + _CACHE_LINE, np.uint8)
    offset = -memory.ctypes.data % _CACHE_LINE
    return memory[offset : offset + n_rows * BALL.itemsize].view(BALL)


def _in_units(unit: Floats, axes: Floats, ends: Floats) -> Floats:
    """Convert borders from the unit cube to the environment's units.

    A border is the smallest number that `kernels.to_unit` maps to the border or above it.
    """
    low, width, n_values = axes[:, LOW], axes[:, WIDTH], axes[:, ATOMS]
    # On an axis of integers, `low` is a half-integer, so borders are exact half-integers.
    inner = low + np.where(n_values > 0, np.rint(width * unit), width * unit)
    border = np.where(unit == 1.0, ends, inner)
    return np.where(
        (n_values == 0) & ((border - low) / width < unit), np.nextafter(border, np.inf), border
    )


def _levels(
    rows: NDArray[Any], roots: NDArray[np.int64], n_axes: int
) -> Iterator[tuple[NDArray[np.int64], Floats, Floats]]:
    """Yield (rows, low corners, high corners) of each level below `roots`, in the unit cube."""
    row, low, high = roots, np.zeros((len(roots), n_axes)), np.ones((len(roots), n_axes))
    while len(row):
        yield row, low, high
        inner = rows["child"][row] != ACTIVE
        row, low, high = row[inner], low[inner], high[inner]
        each, axis, threshold = np.arange(len(row)), rows["axis"][row], rows["threshold"][row]
        left_high, right_low = high.copy(), low.copy()
        left_high[each, axis] = right_low[each, axis] = threshold
        child = rows["child"][row].astype(np.int64)
        row = np.concatenate([child, child + 1])
        low, high = np.concatenate([low, right_low]), np.concatenate([left_high, high])
