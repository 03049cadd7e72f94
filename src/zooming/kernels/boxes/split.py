"""Splits of boxes: when a ball is due, which of its sides are cut and where, and its children.

After its update, a ball B is split when n(B) >= (d_max / diam(B))^2, which is 4^depth for cubes.
[SBY19 Alg. 1]
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.boxes.layout import ACTIVE, ATOMS, LENGTH_TOLERANCE, LONGEST, SCALED
from zooming.kernels.boxes.select import cube_sides, diameter, length, sides
from zooming.kernels.loop.jit import jit_kernel, jit_no_refcount


@jit_no_refcount
def due_at(diameter):
    """Return the number of visits at which a ball is due: (d_max / diam)^2, with d_max = 1.

    It is infinite for a ball of diameter 0.
    """
    # The factor absorbs rounding: 1 / (1/3)^2 must not exceed 9.
    return (1.0 - 1e-12) / (diameter * diameter) if diameter > 0.0 else np.inf


@jit_no_refcount
def due_after(core, diameter):
    """Return the number of visits at which a ball is due: due_factor / diam^due_power."""
    if core[0]["due_power"] == 2.0 and core[0]["due_factor"] == 1.0:
        return due_at(diameter)
    if diameter == 0.0:
        return np.inf
    return core[0]["due_factor"] * (1.0 - 1e-12) / diameter ** core[0]["due_power"]


@jit_no_refcount
def sides_to_halve(core, axes, low, high):
    """Return the axes that the rule halves, as bits: bit i is set for axis i.

    ALL halves every side longer than half the diameter, LONGEST halves one longest side.
    """
    longest = 0.0
    first = 0
    for axis in range(axes.shape[0]):
        side = length(axes, axis, low[axis], high[axis])
        if side > longest * (1.0 + LENGTH_TOLERANCE):
            longest = side
            first = axis
    if core[0]["rule"] == LONGEST:
        return np.int64(1) << first
    halved = np.int64(0)
    for axis in range(axes.shape[0]):
        if length(axes, axis, low[axis], high[axis]) > 0.5 * longest * (1.0 + LENGTH_TOLERANCE):
            halved |= np.int64(1) << axis
    return halved


@jit_no_refcount
def middle(axes, axis, low, high):
    """Return the place at which a side is halved.

    On an axis of integers, it is between two values.
    """
    n_values = axes[axis, ATOMS]
    if n_values == 0.0:
        return 0.5 * (low + high)
    return np.floor(0.5 * (np.rint(low * n_values) + np.rint(high * n_values))) / n_values


@jit_kernel
def cut(table, core, stats, axes, row, halved, at):
    """Replace an active ball by its parts, cut along the axes in `halved`. They inherit Q and n.

    `at[axis]` is the place of the cut, strictly inside the ball. Every split of every rule is made
    here. The caller has reserved the rows. [SBY19 Split Ball]
    """
    depth = np.int64(table[row]["depth"])
    first_parent = row
    n_parents = 1
    next_row = core[0]["n_rows"]
    for axis in range(axes.shape[0]):
        if halved >> axis & 1 == 0:
            continue
        is_last = halved >> (axis + 1) == 0
        for i in range(n_parents):
            parent = first_parent + i
            child = next_row + 2 * i
            table[parent]["axis"] = axis
            table[parent]["cut"] = at[axis]
            table[parent]["child"] = child
            for c in range(child, child + 2):
                table[c]["value"] = table[row]["value"]
                table[c]["n_visits"] = table[row]["n_visits"]
                table[c]["parent"] = parent
                table[c]["child"] = ACTIVE
                table[c]["depth"] = min(depth + 1, 255) if is_last else depth
                if core[0]["bonus_rule"] != SCALED:
                    for i in range(stats.shape[1]):
                        stats[c, i] = stats[row, i]
        first_parent = next_row
        n_parents *= 2
        next_row += n_parents
    # All parts of a cube have the same diameter; the two halves of five integers do not.
    due = due_after(core, diameter(table, core, axes, first_parent))
    for c in range(first_parent, next_row):
        table[c]["due_at"] = (
            due if core[0]["cubes"] == 1 else due_after(core, diameter(table, core, axes, c))
        )
    core[0]["n_rows"] = next_row
    core[0]["n_balls"] += n_parents - 1


@jit_kernel
def split(table, core, stats, axes, row):
    """Split a due ball by the agent's rule, unless its parts would exceed `max_balls`.

    The caller has reserved the rows.
    """
    n_axes = axes.shape[0]
    if (
        core[0]["cubes"] == 1
        and core[0]["n_balls"] + (np.int64(1) << n_axes) - 1 > core[0]["max_balls"]
    ):
        return
    low = np.empty(n_axes)
    high = np.empty(n_axes)
    halved = (np.int64(1) << n_axes) - 1
    if core[0]["cubes"] == 1:
        cube_sides(table, row, 0, low, high)
    else:
        sides(table, row, 0, low, high)
        halved = sides_to_halve(core, axes, low, high)
        n_children = np.int64(1)
        for axis in range(n_axes):
            n_children <<= halved >> axis & 1
        if core[0]["n_balls"] + n_children - 1 > core[0]["max_balls"]:
            return
    at = np.empty(n_axes)
    for axis in range(n_axes):
        at[axis] = middle(axes, axis, low[axis], high[axis])
    cut(table, core, stats, axes, row, halved, at)


@jit_no_refcount
def rows_per_split(core):
    """Return the largest number of rows that one split can take."""
    return 2 * ((np.int64(1) << core[0]["split_axes"]) - 1)


@jit_no_refcount
def rows_needed(core, n_splits):
    """Return the largest number of rows that `n_splits` splits can take, given `max_balls`."""
    return min(n_splits * rows_per_split(core), 2 * (core[0]["max_balls"] - core[0]["n_balls"]))
