"""Splits of boxes: when a ball is due, which of its sides are cut and where, and its children.

After its update, a ball B is split when n(B) >= (d_max / diam(B))^2, which is 4^depth for cubes.
[SBY19 Alg. 1]
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.boxes.layout import ACTIVE, ATOMS, LENGTH_TOLERANCE, LONGEST
from zooming.kernels.boxes.select import cube_sides, diameter, length, sides
from zooming.kernels.loop.jit import jit_kernel, jit_no_refcount


@jit_no_refcount
def due_at(diameter):
    """Return the visits at which a ball is due: (d_max / diam)^2, with d_max = 1."""
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
def longest_side(lengths):
    """Return the first axis with the largest length."""
    first = 0
    for axis in range(1, lengths.shape[0]):
        if lengths[axis] > lengths[first] * (1.0 + LENGTH_TOLERANCE):
            first = axis
    return first


@jit_no_refcount
def sides_to_halve(core, lengths):
    """Return the axes that the rule ALL or LONGEST halves, as bits."""
    first = longest_side(lengths)
    halved = np.int64(1) << first
    if core[0]["rule"] & LONGEST == 0:
        for axis in range(lengths.shape[0]):
            if lengths[axis] > 0.5 * lengths[first] * (1.0 + LENGTH_TOLERANCE):
                halved |= np.int64(1) << axis
    return halved


@jit_no_refcount
def n_parts(halved):
    """Return the number of parts of a ball that is halved along these axes."""
    parts = np.int64(1)
    while halved > 0:
        parts <<= halved & 1
        halved >>= 1
    return parts


@jit_no_refcount
def middle(axes, axis, low, high):
    """Return the place at which a side is halved, between two values of an integer axis."""
    n_values = axes[axis, ATOMS]
    if n_values == 0.0:
        return 0.5 * (low + high)
    return np.floor(0.5 * (np.rint(low * n_values) + np.rint(high * n_values))) / n_values


@jit_kernel
def cut(table, core, stats, axes, row, halved, at, next_row):
    """Replace an active ball by its parts, cut along the axes in `halved`. They inherit Q and n.

    `at[axis]` is the place of the cut. The new rows begin at `next_row`, which the caller has
    reserved. Return (row of the first part, row after the last). [SBY19 Split Ball]
    """
    depth = np.int64(table[row]["depth"])
    first_parent = row
    n_parents = 1
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
                if stats.shape[0] > 0:
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
    core[0]["n_rows"] = max(core[0]["n_rows"], next_row)
    core[0]["n_balls"] += n_parents - 1
    return first_parent, next_row


@jit_kernel
def split(table, core, stats, axes, row):
    """Split a due ball by the agent's rule, unless its parts would exceed `max_balls`."""
    n_axes = axes.shape[0]
    n_more = core[0]["max_balls"] - core[0]["n_balls"]
    if core[0]["cubes"] == 1 and (np.int64(1) << n_axes) - 1 > n_more:
        return
    low = np.empty(n_axes)
    high = np.empty(n_axes)
    at = np.empty(n_axes)
    halved = (np.int64(1) << n_axes) - 1
    if core[0]["cubes"] == 1:
        cube_sides(table, row, 0, low, high)
    else:
        sides(table, row, 0, low, high)
        for axis in range(n_axes):
            at[axis] = length(axes, axis, low[axis], high[axis])
        halved = sides_to_halve(core, at)
        if n_parts(halved) - 1 > n_more:
            return
    for axis in range(n_axes):
        at[axis] = middle(axes, axis, low[axis], high[axis])
    cut(table, core, stats, axes, row, halved, at, core[0]["n_rows"])


@jit_no_refcount
def rows_per_split(core):
    """Return the largest number of rows that one split can take."""
    return 2 * ((np.int64(1) << core[0]["split_axes"]) - 1)


@jit_no_refcount
def rows_needed(core, n_splits):
    """Return the largest number of rows that `n_splits` splits can take, given `max_balls`."""
    return min(n_splits * rows_per_split(core), 2 * (core[0]["max_balls"] - core[0]["n_balls"]))
