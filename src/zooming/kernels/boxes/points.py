"""Convert points from the environment's units to the unit cube, and back.

All states and actions of boxes are points of the unit cube, unless a docstring says "environment's
units". On an axis of m integers, value number k (from 0) is the point (k + 1/2) / m, and borders
lie between values.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.boxes.layout import (
    ATOMS,
    BOUND_TOLERANCE,
    CENTER,
    LOW,
    POINT,
    SINGLE,
    UNIFORM,
    WEIGHT,
    WIDTH,
)
from zooming.kernels.boxes.update_rule import draw_share
from zooming.kernels.loop.jit import jit_inline, jit_kernel, jit_no_refcount


@jit_inline
def unit_of(axes, axis, value):
    """Convert a coordinate from the environment's units to the unit cube. Most widths are 1."""
    unit = value - axes[axis, LOW]
    return unit if axes[axis, WIDTH] == 1.0 else unit / axes[axis, WIDTH]


@jit_inline
def to_unit(axes, first_axis, point, unit):
    """Convert `point` from the environment's units to the unit cube, and write it to `unit`.

    Return the index of the first bad coordinate, or -1. Rounding errors outside a bound are
    clipped. Values further outside, NaN, and non-integers on an axis of integers are bad.
    """
    for i in range(unit.shape[0]):
        u = unit_of(axes, first_axis + i, point[i])
        if not (u >= -BOUND_TOLERANCE and u <= 1.0 + BOUND_TOLERANCE):
            return i
        if axes[first_axis + i, ATOMS] > 0.0 and (
            abs(point[i] - np.rint(point[i])) > BOUND_TOLERANCE or u < 0.0 or u > 1.0
        ):
            return i
        unit[i] = min(1.0, max(0.0, u))
    return -1


@jit_kernel
def bend(points, bends, first_axis):
    """Clip and squash many points in place, in the environment's units.

    A row of `bends` is (scale, low, high, largest). Scale 0 clips to [low, high]. Another scale
    squashes an unbounded axis to [0, 1] by z / (1 + |z|), where z is the distance, in scales, from
    the finite end, or from 0. NaN and infinities stay, so that a later check refuses them.
    """
    for i in range(points.shape[1]):
        scale, low, high, _ = bends[first_axis + i]
        for k in range(points.shape[0]):
            x = points[k, i]
            if not np.isfinite(x):
                continue
            if scale == 0.0:
                points[k, i] = min(high, max(low, x))
            elif np.isfinite(low):
                z = (x - low) / scale
                points[k, i] = z / (1.0 + abs(z))
            elif np.isfinite(high):
                z = (high - x) / scale
                points[k, i] = 1.0 - z / (1.0 + abs(z))
            else:
                z = x / scale
                points[k, i] = 0.5 + 0.5 * z / (1.0 + abs(z))


@jit_kernel
def unbend(points, bends, first_axis):
    """Undo the squashing of `bend`, in place. An infinite end is mapped to a million scales."""
    for i in range(points.shape[1]):
        scale, low, high, largest = bends[first_axis + i]
        if scale == 0.0:
            continue
        for k in range(points.shape[0]):
            u = points[k, i]
            if not np.isfinite(u):
                continue
            share = u if np.isfinite(low) else 1.0 - u if np.isfinite(high) else 2.0 * u - 1.0
            z = share / max(1.0 - abs(share), 1e-6) * scale
            x = low + z if np.isfinite(low) else high - z if np.isfinite(high) else z
            points[k, i] = min(high, largest, max(low, -largest, x))


@jit_inline
def in_units(axes, axis, unit, low):
    """Convert a coordinate of the unit cube to the environment's units and dtype.

    Rounding never moves it below `low`, the low border of its ball. Return the value, and its
    coordinate in the unit cube.
    """
    value = axes[axis, LOW] + unit * axes[axis, WIDTH]
    if axes[axis, SINGLE] == 1.0:
        value = np.float64(np.float32(value))
    back = unit_of(axes, axis, value)
    while back < low:
        # A corner lies on the border. Rounded down, it would belong to the neighboring ball, and
        # its own ball would never be updated.
        if axes[axis, SINGLE] == 1.0:
            value = np.float64(np.nextafter(np.float32(value), np.float32(np.inf)))
        else:
            value = np.nextafter(value, np.inf)
        back = unit_of(axes, axis, value)
    return value, back


@jit_inline
def net_point(core, axes, axis, low):
    """Return the multiple of the spacing in a cell of a published net with low border `low`."""
    if low == 0.0:
        return 0.0  # the first cell is half a cell, cut by the end of the axis
    spacing = core[0]["spacing"] / axes[axis, WEIGHT]
    return np.rint(low / spacing + 0.5) * spacing


@jit_no_refcount
def play_value(core, axes, axis, rule, low, high):
    """Return the integer to play along a side: the middle one, the first, or a uniform draw."""
    first = np.rint(low * axes[axis, ATOMS])
    n_inside = np.rint(high * axes[axis, ATOMS]) - first
    k = 0.0
    if rule in (CENTER, POINT):
        k = np.floor(0.5 * n_inside)
    elif rule == UNIFORM:
        k = np.floor(draw_share(core) * n_inside)
    return axes[axis, LOW] + 0.5 + first + k
