"""Convert borders of boxes to the environment's units."""

from __future__ import annotations

import numpy as np

from zooming.kernels import ATOMS, LOW, WIDTH
from zooming.kernels.plan_layout import Grid
from zooming.spaces.axes import Axes
from zooming.validation import Floats


def corners(axes: Axes, unit: Floats) -> Floats:
    """Convert corners of boxes from the unit cube to the environment's units.

    On a squashed axis, outer boxes are unbounded, although the inverse map would end at 1e6 scales.
    """
    found = axes.from_unit_cube(in_units(unit, axes.table, axes.ends), 0)
    for i in range(len(axes)):
        if axes[i].squash:
            found[unit[:, i] == 0.0, i] = axes[i].low
            found[unit[:, i] == 1.0, i] = axes[i].high
    return found


def in_units(unit: Floats, axes: Floats, ends: Floats) -> Floats:
    """Convert borders from the unit cube to the environment's units.

    The result is the smallest number that `kernels.to_unit` maps to the border or above it.
    """
    low, width, n_values = axes[:, LOW], axes[:, WIDTH], axes[:, ATOMS]
    # On an axis of integers, `low` is a half-integer, so borders are exact half-integers.
    border = np.where(unit == 1.0, ends, low + np.rint(width * unit))
    for i in np.flatnonzero(n_values == 0):
        inner, where = np.unique(unit[:, i], return_inverse=True)
        found = _first_at(inner, low[i], width[i])
        border[:, i] = np.where(unit[:, i] == 1.0, ends[i], found[where])
    return border


def bin_borders(grid: Grid, axis: int) -> Floats:
    """Return the smallest coordinate of the unit cube in each bin of an axis of a planner.

    It is the smallest float u with floor(u * units) >= edge, rounding included.
    """
    edges, units = grid.edges[axis, : grid.bins[axis]], int(grid.units[axis])
    found = edges / units
    while True:
        before, after = np.nextafter(found, 0.0), np.nextafter(found, 1.0)
        is_high = (found > 0.0) & (np.floor(before * units) >= edges)
        is_low = np.floor(found * units) < edges
        if not (is_high | is_low).any():
            return np.asarray(found)
        found = np.where(is_high, before, np.where(is_low, after, found))


def _first_at(unit: Floats, low: float, width: float) -> Floats:
    """Return the smallest float x with (x - low) / width >= unit, rounding included."""
    guess = low + width * unit
    slack = 8 * np.spacing(np.maximum(np.abs(guess), max(abs(low), abs(width))))
    # Below the border, and not below it. The first border is `low` itself, and is not searched: if
    # it is 0, more than a thousand floats lie on a bisection's way to it.
    before = np.where(unit == 0.0, low, guess - slack)
    found = np.where(unit == 0.0, low, guess + slack)
    while True:
        middle = before + (found - before) / 2
        is_between = (before < middle) & (middle < found)
        if not is_between.any():
            return found
        is_below = (middle - low) / width < unit
        before = np.where(is_between & is_below, middle, before)
        found = np.where(is_between & ~is_below, middle, found)
