"""Splits that see the data: where the samples of a ball differ most, or where they are. [Thm 6.1]

A ball is due as in `split`. One side is then cut, at a quarter, at the middle or at three quarters.
Sides longer than half the diameter may be cut, so aspect ratios stay below 8. Along each axis, a
ball counts the samples in the four quarters of its side, and adds up their targets r + V(x'). With
n1 samples of mean m1 below a cut, and n2 of mean m2 above it, the rules take the largest of

    VARIANCE:  n1 n2 / (n1 + n2) (m1 - m2)^2, by which the cut reduces the squares: any axis
    MEDIAN:    min(n1, n2): the longest side

If no cut has a positive number, the longest side is halved. Integers are only halved. Both parts
begin to count anew along the axis that was cut. Along the others, they keep the ball's numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.boxes import play
from zooming.kernels.boxes.layout import ATOMS, FINE, LENGTH_TOLERANCE, MEDIAN
from zooming.kernels.boxes.points import to_unit
from zooming.kernels.boxes.select import length, sides, update_ball
from zooming.kernels.boxes.split import cut, longest_side, middle
from zooming.kernels.loop.crossing import itself, matrix_at
from zooming.kernels.loop.episodes import compile_later
from zooming.kernels.loop.jit import (
    IS_JIT_DISABLED,
    jit_inline,
    jit_inline_refcount,
    jit_kernel,
    jit_no_refcount,
)

QUARTERS = 4
PER_AXIS = 2 * QUARTERS  # the last columns of `stats`, for each axis: four counts, four sums


class Played(NamedTuple):
    """`Boxes.more` of a table that keeps data: the last pair of each step, in the unit cube."""

    points: Any  # float64 [horizon, n_axes]


@jit_inline_refcount
def _open_played(words):
    return Played(matrix_at(words, 0, np.float64))


played_at = itself if IS_JIT_DISABLED else _open_played
box_act, box_locate = play.act, play.locate


@jit_kernel
def note(t, step):
    """Keep the pair in scratch memory as that of the step."""
    points, n_state = played_at(t.more).points, t.state.shape[0]
    for axis in range(points.shape[1]):
        points[step, axis] = t.state[axis] if axis < n_state else t.action[axis - n_state]


@jit_kernel
def act(t, row, step, rule, action):
    """Write the action to play, and keep the pair. Return the row of its ball."""
    row = box_act(t, row, step, rule, action)
    to_unit(t.axes, t.core[0]["n_state"], action, t.action)
    note(t, step)
    return row


@jit_kernel
def locate(t, step, point, action):
    """Return what `play.locate` returns, and keep the pair."""
    code, found = box_locate(t, step, point, action)
    if code == FINE:
        note(t, step)
    return code, found


@jit_inline
def place(axes, axis, low, high, quarter):
    """Return where a side is cut after `quarter` quarters."""
    if axes[axis, ATOMS] > 0.0:
        return middle(axes, axis, low, high)
    return low + 0.25 * quarter * (high - low)


@jit_kernel
def learn(t, step, row, reward, next_value, action):
    """Apply the update rule and count the sample. Return whether the ball is due to split."""
    is_due = update_ball(t, step, row, reward, next_value, action)
    points, n_axes = played_at(t.more).points, t.axes.shape[0]
    low, high = np.empty(n_axes), np.empty(n_axes)
    sides(t.rows, row, 0, low, high)
    first = t.stats.shape[1] - n_axes * PER_AXIS
    for axis in range(n_axes):
        quarter = 0
        for i in range(1, QUARTERS):
            quarter += points[step, axis] >= place(t.axes, axis, low[axis], high[axis], i)
        t.stats[row, first + quarter] += 1.0
        t.stats[row, first + QUARTERS + quarter] += reward + next_value
        first += PER_AXIS
    return is_due


@jit_no_refcount
def gain(rule, stats, row, first, quarter):
    """Return the number by which the rule compares cuts. The axis has columns from `first` on."""
    n1 = n2 = sum1 = sum2 = 0.0
    for i in range(QUARTERS):
        if i < quarter:
            n1 += stats[row, first + i]
            sum1 += stats[row, first + QUARTERS + i]
        else:
            n2 += stats[row, first + i]
            sum2 += stats[row, first + QUARTERS + i]
    if n1 == 0.0 or n2 == 0.0:
        return 0.0
    if rule == MEDIAN:
        return min(n1, n2)
    apart = sum1 / n1 - sum2 / n2
    return n1 * n2 / (n1 + n2) * apart * apart


@jit_kernel
def split(t, row):
    """Cut a due ball in two by its data, unless the table is full. Return True."""
    rule, axes, stats, n_axes = t.core[0]["rule"], t.axes, t.stats, t.axes.shape[0]
    low, high, lengths, at = np.empty(n_axes), np.empty(n_axes), np.empty(n_axes), np.empty(n_axes)
    sides(t.rows, row, 0, low, high)
    for axis in range(n_axes):
        lengths[axis] = length(axes, axis, low[axis], high[axis])
    longest = longest_side(lengths)
    chosen = longest
    at[longest] = middle(axes, longest, low[longest], high[longest])
    best = 0.0
    first_bin = stats.shape[1] - n_axes * PER_AXIS
    for axis in range(n_axes):
        is_long = lengths[axis] > 0.5 * lengths[longest] * (1.0 + LENGTH_TOLERANCE)
        if axis != longest and (rule == MEDIAN or not is_long):
            continue
        for quarter in (2, 1, 3):  # of equal cuts, that at the middle
            if quarter != 2 and axes[axis, ATOMS] > 0.0:
                continue
            found = gain(rule, stats, row, first_bin + axis * PER_AXIS, quarter)
            if found > best:
                best, chosen = found, axis
                at[axis] = place(axes, axis, low[axis], high[axis], quarter)
    next_row = t.core[0]["n_rows"]
    first, last = cut(t.rows, t.core, stats, axes, row, np.int64(1) << chosen, at, next_row)
    for part in range(first, last):
        for i in range(first_bin + chosen * PER_AXIS, first_bin + (chosen + 1) * PER_AXIS):
            stats[part, i] = 0.0
    return True


KERNELS = compile_later(
    "boxes_by_data", play.PARTS._replace(act=act, learn=learn, split=split, locate=locate)
)
