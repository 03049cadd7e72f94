"""Sides, lengths and diameters of boxes.

A row of the ball table stores one cut. So the sides of a box are found on the path to its root. The
metric is the largest weighted distance along an axis, with d_max = 1. A side with a single integer
value has length 0.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_inline, jit_no_refcount
from zooming.kernels.layout import ATOMS, NO_PARENT, WEIGHT
from zooming.kernels.update_rule import index

HALVED = 0.5 ** np.arange(256)  # side of a cube by its depth; a division would take longer


@jit_no_refcount
def sides(table, row, first_axis, low, high):
    """Write the sides of a ball of any shape along len(low) axes, starting at `first_axis`.

    The rows are followed towards the root until all sides are known.
    """
    n_axes = low.shape[0]
    for i in range(n_axes):
        low[i] = 0.0
        high[i] = 1.0
    unknown = 2 * n_axes
    while unknown > 0:
        parent = np.int64(table[row]["parent"])
        if parent == NO_PARENT:
            break
        i = np.int64(table[parent]["axis"]) - first_axis
        if i >= 0 and i < n_axes:
            if row & 1:
                if low[i] == 0.0:  # cuts lie strictly inside (0, 1)
                    low[i] = table[parent]["cut"]
                    unknown -= 1
            elif high[i] == 1.0:
                high[i] = table[parent]["cut"]
                unknown -= 1
        row = parent


@jit_inline
def cube_sides(table, row, first_axis, low, high):
    """Write the sides of a cube along len(low) axes, starting at `first_axis`.

    The last splits of a cube were along the axes D-1, D-2, ... in this order. So one row per axis
    is followed towards the root.
    """
    side = HALVED[table[index(row)]["depth"]]
    for i in range(low.shape[0] - 1, -1, -1):
        parent = np.int64(table[index(row)]["parent"])
        low[i] = 0.0
        if parent != NO_PARENT:
            low[i] = table[index(parent)]["cut"] - (0.0 if row & 1 else side)
            row = parent
        high[i] = low[i] + side


@jit_no_refcount
def length(axes, axis, low, high):
    """Return the weighted length of a side: the largest distance between two of its points."""
    n_values = axes[axis, ATOMS]
    if n_values == 0.0:
        return axes[axis, WEIGHT] * (high - low)
    n_inside = np.rint((high - low) * n_values)
    return axes[axis, WEIGHT] * (n_inside - 1.0) / (n_values - 1.0) if n_inside > 1.0 else 0.0


@jit_no_refcount
def diameter(table, core, axes, row):
    """Return the length of the longest side of a ball.

    The path to the root is followed once per axis, so that nothing is allocated.
    """
    if core[0]["cubes"] == 1:
        return HALVED[table[row]["depth"]]
    longest = 0.0
    for axis in range(axes.shape[0]):
        low = 0.0
        high = 1.0
        child = row
        while (low == 0.0 or high == 1.0) and np.int64(table[child]["parent"]) != NO_PARENT:
            parent = np.int64(table[child]["parent"])
            if np.int64(table[parent]["axis"]) == axis:
                if child & 1:
                    if low == 0.0:
                        low = table[parent]["cut"]
                elif high == 1.0:
                    high = table[parent]["cut"]
            child = parent
        longest = max(longest, length(axes, axis, low, high))
    return longest
