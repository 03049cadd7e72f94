"""Points: from the environment's units into the unit cube, and back.

All states and actions of boxes are points of the unit cube, except where a docstring says "environment's units". The k-th of
m whole values of an axis is the point (k + 1/2) / m, and borders lie between values.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import compiled, jit_inline, jit_no_refcount
from zooming.kernels.layout import ATOMS, CENTER, LOW, POINT, ROUNDING, SINGLE, UNIFORM, WEIGHT, WIDTH
from zooming.kernels.update import draw


@jit_inline
def to_unit(axes, first_axis, point, unit):
    """Writes `point` (environment's units) into the unit cube; the index of the first bad coordinate, or -1.

    Rounding just outside a bound is clipped; NaN, infinities and anything further out are bad, and so is what is not whole
    along an axis of whole values.
    """
    for i in range(unit.shape[0]):
        u = (point[i] - axes[first_axis + i, LOW]) / axes[first_axis + i, WIDTH]
        if not (u >= -ROUNDING and u <= 1.0 + ROUNDING):
            return i
        if axes[first_axis + i, ATOMS] > 0.0 and (abs(point[i] - np.rint(point[i])) > ROUNDING or u < 0.0 or u > 1.0):
            return i
        unit[i] = min(1.0, max(0.0, u))
    return -1


@compiled
def bend(points, bends, first_axis):
    """Clips and squashes many points in place (environment's units); NaN and infinities stay, to be refused.

    A row of `bends` is (scale, low, high, largest). Scale 0 clips to [low, high]. Else the axis lacks an end, or both, and is
    squashed to [0, 1]: z / (1 + |z|), with z the distance in scales from the end that it has, or from 0.
    """
    for i in range(points.shape[1]):
        scale, low, high = bends[first_axis + i, 0], bends[first_axis + i, 1], bends[first_axis + i, 2]
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


@compiled
def unbend(points, bends, first_axis):
    """The way back from [0, 1] of what `bend` squashed; an end that is not there is a million scales away."""
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
    """A point of an interval in the environment's units and dtype, not below the border `low`; and back in the unit cube."""
    value = axes[axis, LOW] + unit * axes[axis, WIDTH]
    if axes[axis, SINGLE] == 1.0:
        value = np.float64(np.float32(value))
    back = (value - axes[axis, LOW]) / axes[axis, WIDTH]
    while back < low:
        # A corner is on the border: rounded down it would belong to the neighbor, and its own ball never be updated.
        if axes[axis, SINGLE] == 1.0:
            value = np.float64(np.nextafter(np.float32(value), np.float32(np.inf)))
        else:
            value = np.nextafter(value, np.inf)
        back = (value - axes[axis, LOW]) / axes[axis, WIDTH]
    return value, back


@jit_inline
def net_point(core, axes, axis, low):
    """The multiple of the spacing in a cell of a published net, by its low border, half a spacing below the point."""
    if low == 0.0:
        return 0.0  # the first cell is cut off by the end of the axis
    spacing = core[0]["spacing"] / axes[axis, WEIGHT]
    return np.rint(low / spacing + 0.5) * spacing


@jit_no_refcount
def play_value(core, axes, axis, rule, low, high):
    """The whole value played along a side of a ball: its middle, or the upper of two, its first, or any."""
    first = np.rint(low * axes[axis, ATOMS])
    n_inside = np.rint(high * axes[axis, ATOMS]) - first
    k = 0.0
    if rule in (CENTER, POINT):
        k = np.floor(0.5 * n_inside)
    elif rule == UNIFORM:
        k = np.floor(np.float64(draw(core) >> np.uint64(11)) * 2.0**-53 * n_inside)
    return axes[axis, LOW] + 0.5 + first + k
