"""Validate a table of boxes that comes from a file.

The kernels check nothing. They rely on the following facts:

- rows are in range and form trees without cycles (every walk);
- no path has more splits than `kernels.most_splits` (the stack of a selection);
- values are finite, and inner rows hold maxima (branch and bound);
- borders lie between integers;
- the axes of cubes were split in turn (`cube_sides`);
- a due ball can be halved (`split`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.kernels.boxes.data_cuts import PER_AXIS
from zooming.kernels.boxes.layout import INDEX
from zooming.kernels.boxes.trees import FINEST, FIRST_INDEX, N_TREE_STATS, NOISE, WEIGHT
from zooming.partitions.table import n_roots as count_roots
from zooming.validation import LARGEST_REWARD, Floats, Ints


def fault(core: NDArray[Any], rows: NDArray[Any], stats: Floats, axes: Floats) -> str | None:
    """Return a sentence on why a table is invalid, or None if it is valid.

    `core`, `rows` and `stats` are those of a `BoxTable` without reserved rows. `axes` has the
    layout of the kernels, see `kernels.LOW`.
    """
    n_rows = int(core["n_rows"][0])
    n_roots = count_roots(core)
    n_axes = int(core["n_state"][0] + core["n_action"][0])
    first_free = n_roots + n_roots % 2
    if n_rows != len(rows) or len(rows) < first_free or len(rows) % 2:
        return f"{n_rows} rows in use do not fit {len(rows)} stored rows and {n_roots} roots"
    used = np.ones(len(rows), bool)
    used[n_roots:first_free] = False
    child = rows["child"].astype(np.int64)
    inner = np.flatnonzero(used & (child != kernels.ACTIVE))
    first_child = child[inner]
    if (
        (first_child % 2 != 0)
        | (first_child < first_free)
        | (first_child >= len(rows))
        | ((first_child <= inner) & (core["rule"][0] < kernels.WITHIN))  # removals free lower rows
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
    if (parent[:n_roots] != kernels.NO_PARENT).any() or any(
        (parent[first_child + side] != inner).any() for side in (0, 1)
    ):
        return "a row names the wrong parent"
    found = _fault_of_values(core, rows, stats, used, inner)
    if found:
        return found
    if (rows["axis"][inner] >= n_axes).any():
        return "an axis is out of range"
    if int(core["n_balls"][0]) != used.sum() - len(inner):
        return "the number of active balls is wrong"
    if core["n_balls"][0] > core["max_balls"][0]:
        return f"there are more than {core['max_balls'][0]} active balls"
    if any(
        (rows["n_visits"][first_child + side] < rows["n_visits"][inner]).any() for side in (0, 1)
    ):
        return "a ball has fewer visits than the one it was split from"
    return _fault_of_boxes(core, rows, stats, axes, n_roots, n_axes)


def _fault_of_boxes(
    core: NDArray[Any], rows: NDArray[Any], stats: Floats, axes: Floats, n_roots: int, n_axes: int
) -> str | None:
    """Return a sentence on the first fault of the boxes, or None. Rows must form a forest."""
    cubes, atoms = bool(core["cubes"][0]), axes[:, kernels.ATOMS]
    has_budget = core["rule"][0] >= kernels.WITHIN
    is_halved = not core["spacing"][0] and not has_budget
    by_data = core["rule"][0] < 0
    n_state, most_forks = int(core["n_state"][0]), kernels.most_splits(int(core["n_action"][0]))
    n_forks = np.zeros(len(rows), np.int64)  # splits along action axes above each row
    n_found = 0
    for level, (row, low, high) in enumerate(levels(rows, np.arange(n_roots), n_axes)):
        n_found += len(row)
        split = rows["child"][row] != kernels.ACTIVE
        if level > kernels.most_splits(n_axes) or (n_forks[row] > most_forks).any():
            return "there are more splits above a ball than its visits can have made"
        edges, slack = high * atoms, kernels.LENGTH_TOLERANCE * np.maximum(atoms, 1)
        if (np.abs(edges - np.rint(edges)) > slack).any():
            return "a border runs through a whole value"
        side_lengths = lengths(axes, low[~split], high[~split])
        if has_budget:
            kept = stats[row[~split], -n_axes:]
            is_longer = kept > side_lengths * (1 + kernels.LENGTH_TOLERANCE)
            if is_longer[:, atoms == 0].any():
                return "a side is longer than its ball"
            side_lengths = np.minimum(kept, side_lengths)
        if not _is_due_as_it_should(core, axes, rows["due_at"][row[~split]], side_lengths):
            return "a ball is due at another number of visits than its diameter says"
        each, inner = np.flatnonzero(split), rows[row[split]]
        axis, cut, first_child = inner["axis"], inner["cut"], inner["child"]
        if not ((low[each, axis] < cut) & (cut < high[each, axis])).all():
            return "a threshold lies outside its ball"
        is_off = cut != (low[each, axis] + high[each, axis]) / 2
        if by_data:
            quarters = 4 * (cut - low[each, axis]) / (high[each, axis] - low[each, axis])
            is_off &= np.abs(quarters - np.rint(quarters)) > kernels.LENGTH_TOLERANCE
        if is_halved and is_off[atoms[axis] == 0].any():
            place = "at a quarter" if by_data else "in the middle"
            return f"a threshold is not {place} of its ball"
        if cubes and (axis != level % n_axes).any():
            return "the axes above a cube were not split in turn"
        is_whole_cube = level % n_axes == 0 or split.all()
        if cubes and not (is_whole_cube and (rows["depth"][row[~split]] == level // n_axes).all()):
            return "a ball is not the cube that its depth says"
        n_forks[first_child] = n_forks[first_child + 1] = n_forks[row[split]] + (axis >= n_state)
    if n_found != len(rows) - n_roots % 2:
        return "some rows form a cycle"
    return None


def _fault_of_values(
    core: NDArray[Any], rows: NDArray[Any], stats: Floats, used: NDArray[np.bool_], inner: Ints
) -> str | None:
    """Return a sentence on the first fault of values and statistics, or None."""
    largest = LARGEST_REWARD**2.5  # so that what is learned next is finite
    if not ((np.abs(rows["value"][used]) < largest).all() and (np.abs(stats) < largest).all()):
        return "a value is not finite, or too large"
    most = max(abs(core["reward_low"][0]), abs(core["reward_high"][0])) * (
        1 + kernels.LENGTH_TOLERANCE
    )
    if not abs(core["mean_reward"][0]) <= most:
        return "the mean reward is not one of its range"
    if stats.shape != (len(rows) if has_stats(core) else 0, core["n_stats"][0]):
        return "the numbers that balls keep do not fit the rows"
    is_tree = core["bonus_rule"][0] == INDEX
    if is_tree:
        never_negative = stats[:, [NOISE, WEIGHT, *range(N_TREE_STATS, stats.shape[1])]]
    else:
        # The mean of the Bernstein bonus may be negative, and so may copies of Q.
        first_stat = 1 if core["bonus_rule"][0] == kernels.BERNSTEIN else 0
        is_randomized = core["bonus_rule"][0] == kernels.RANDOMIZED
        last_stat = kernels.FIRST_COPY if is_randomized else stats.shape[1]
        if core["rule"][0] < 0:  # the sums of targets follow
            last_stat -= PER_AXIS * int(core["n_state"][0] + core["n_action"][0])
        never_negative = stats[:, first_stat:last_stat]
    if (never_negative < 0).any():
        return "a number that a ball keeps is negative"  # bonuses take square roots of it
    if core["rule"][0] >= kernels.WITHIN:
        last = stats[:, -1 - int(core["n_state"][0] + core["n_action"][0])]
        if (last > core["episode"][0]).any():
            return "a ball was visited after the last episode"
    first_child = rows["child"][inner]
    for values in (rows["value"], stats[:, FIRST_INDEX]) if is_tree else (rows["value"],):
        largest = np.maximum(values[first_child], values[first_child + 1])
        if (values[inner] != largest).any():
            return "an inner row does not hold the largest value below it"
    return None


def _is_due_as_it_should(
    core: NDArray[Any], axes: Floats, due: Floats, side_lengths: Floats
) -> bool:
    """Return whether the stored `due` numbers follow from the diameters of the active balls."""
    if core["spacing"][0]:
        return bool(np.isposinf(due).all())
    longest = side_lengths.max(axis=1)
    is_tree = core["bonus_rule"][0] == INDEX
    expected = _tree_due_at(longest) if is_tree else _due_after(core, longest)
    is_right = np.isclose(due, expected, rtol=1e-9)
    if core["rule"][0] >= kernels.WITHIN:
        # If no ball can be removed, none is due. An integer that was joined with others is due
        # late.
        is_right |= np.isposinf(due) | ((due >= expected) & (axes[:, kernels.ATOMS] > 0).any())
    return bool(is_right.all())


def _due_after(core: NDArray[Any], diameter: Floats) -> Floats:
    """Compute `kernels.due_after` for many balls."""
    with np.errstate(divide="ignore"):
        return np.asarray(core["due_factor"][0] * (1.0 - 1e-12) / diameter ** core["due_power"][0])


def _tree_due_at(diameter: Floats) -> Floats:
    """Compute `trees.due_at` for many balls."""
    return np.where(diameter > FINEST, (1.0 - 1e-12) / np.maximum(diameter, FINEST), np.inf)


def has_stats(core: NDArray[Any]) -> bool:
    """Return whether the balls keep numbers beside Q and n."""
    is_plain = core["rule"][0] in (kernels.ALL, kernels.LONGEST)
    return bool(core["bonus_rule"][0] != kernels.SCALED or not is_plain)


def has_same_cuts(rows: NDArray[Any], others: NDArray[Any]) -> bool:
    """Return whether two tables have the same balls, cut at the same places."""
    return len(rows) == len(others) and all(
        bool((rows[name] == others[name]).all()) for name in ("child", "axis", "cut")
    )


def lengths(axes: Floats, low: Floats, high: Floats) -> Floats:
    """Return the weighted side lengths [n, n_axes] of many boxes, like `kernels.length`."""
    n_values, weight = axes[:, kernels.ATOMS], axes[:, kernels.WEIGHT]
    atoms = (np.rint((high - low) * n_values) - 1) / np.maximum(n_values - 1, 1)
    return np.asarray(weight * np.where(n_values == 0, high - low, np.maximum(atoms, 0.0)))


def levels(rows: NDArray[Any], roots: Ints, n_axes: int) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Yield (rows, low corners, high corners) of each level below `roots`, in the unit cube."""
    row, low, high = roots, np.zeros((len(roots), n_axes)), np.ones((len(roots), n_axes))
    while len(row):
        yield row, low, high
        inner = rows["child"][row] != kernels.ACTIVE
        row, low, high = row[inner], low[inner], high[inner]
        each, axis, cut = np.arange(len(row)), rows["axis"][row], rows["cut"][row]
        left_high, right_low = high.copy(), low.copy()
        left_high[each, axis] = right_low[each, axis] = cut
        child = rows["child"][row].astype(np.int64)
        row = np.concatenate([child, child + 1])
        low, high = np.concatenate([low, right_low]), np.concatenate([left_high, high])
