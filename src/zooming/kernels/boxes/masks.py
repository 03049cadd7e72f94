"""Selection and actions of boxes when only some actions are feasible.

`allowed` has one row per action axis. The first two entries of a row are the low and the high end
of the feasible interval, in the unit cube. On an axis of integers, a 0/1 mask of the values
follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.kernels.boxes.layout import (
    ACTIVE,
    ATOMS,
    CENTER,
    FIRST,
    FIRST_VALUE,
    LOW,
    POINT,
    RANDOM,
    UNIFORM,
)
from zooming.kernels.boxes.points import in_units, net_point
from zooming.kernels.boxes.select import new_stack, sides, stored_value
from zooming.kernels.boxes.update_rule import draw
from zooming.kernels.loop.jit import compile_kernel, jit_kernel, jit_no_refcount
from zooming.kernels.loop.numba_parts import REFCOUNT


@jit_no_refcount
def read_mask(row):
    """Set the ends of a row of `allowed` from its mask. Return the number of feasible values.

    Return -1 if an entry of the mask is neither 0 nor 1.
    """
    n_values = row.shape[0] - FIRST_VALUE
    n_feasible = 0
    for k in range(n_values):
        if row[FIRST_VALUE + k] == 1.0:
            row[1] = (k + 0.5) / n_values
            if n_feasible == 0:
                row[0] = row[1]
            n_feasible += 1
        elif row[FIRST_VALUE + k] != 0.0:
            return -1
    return n_feasible


@jit_no_refcount
def has_feasible(axes, n_state, allowed, low, high):
    """Return whether a ball with these action sides contains a feasible action."""
    for i in range(allowed.shape[0]):
        n_values = axes[n_state + i, ATOMS]
        if n_values == 0.0:
            if allowed[i, 1] < low[i] or not (allowed[i, 0] < high[i] or high[i] == 1.0):
                return False
        else:
            found = False
            for k in range(
                np.int64(np.rint(low[i] * n_values)), np.int64(np.rint(high[i] * n_values))
            ):
                found = found or allowed[i, FIRST_VALUE + k] == 1.0
            if not found:
                return False
    return True


def make_select_feasible(name: str, value_of: Any) -> Any:
    """Return the compiled `select_feasible`. `value_of` is as in `boxes.make_select`."""

    def select_feasible(table, core, axes, root, state, ties, allowed, low, high, *lens):
        """Return the best relevant ball with a feasible action, or -1 if there is none.

        The value of an inner row may come from a ball without a feasible action. It is still an
        upper bound, but a looser one than in `select`, so more balls are visited.
        """
        n_state = core[0]["n_state"]
        stack = new_stack(core)
        most = stack.shape[0] - 1
        stack[0] = root
        top = 1
        best = -np.inf
        found = np.int64(-1)
        n_tied = 0
        while top > 0:
            top -= 1
            row = stack[top]
            value = value_of(table, row, *lens)
            if value < best or (value == best and ties != RANDOM):
                continue
            child = np.int64(table[row]["child"])
            if child == ACTIVE:
                sides(table, row, n_state, low, high)
                if not has_feasible(axes, n_state, allowed, low, high):
                    continue
                if value > best:
                    best = value
                    found = row
                    n_tied = 1
                else:
                    n_tied += 1
                    if draw(core) % np.uint64(n_tied) == np.uint64(0):
                        found = row
                continue
            axis = np.int64(table[row]["axis"])
            cut = table[row]["cut"]
            if axis < n_state:
                stack[top] = child + np.int64(state[axis] >= cut)
                top += 1
                continue
            has_first = allowed[axis - n_state, 0] < cut
            has_second = allowed[axis - n_state, 1] >= cut
            # The row pushed last is popped first: the better child, or the first one if ties are
            # broken so.
            first = value_of(table, child, *lens)
            first_is_last = ties == FIRST or first >= value_of(table, child + 1, *lens)
            if has_second and first_is_last:
                stack[top] = child + 1
                top = min(top + 1, most)  # as in `select`
            if has_first:
                stack[top] = child
                top = min(top + 1, most)
            if has_second and not first_is_last:
                stack[top] = child + 1
                top = min(top + 1, most)
        return found

    return compile_kernel(select_feasible, name=f"select_feasible_{name}", **REFCOUNT)


select_feasible = make_select_feasible("boxes", stored_value)


@jit_kernel
def write_feasible(table, core, axes, row, rule, allowed, low, high, action):
    """Write a feasible action of a ball, in the environment's units. The ball must have one.

    The rule CENTER plays the middle of the feasible part of the ball. On an axis of integers, it
    plays the feasible value nearest to the middle of the ball.
    """
    n_state = core[0]["n_state"]
    n_action = core[0]["n_action"]
    sides(table, row, n_state, low, high)
    for i in range(n_action):
        axis = n_state + i
        n_values = axes[axis, ATOMS]
        share = 0.5 if rule == CENTER else 0.0
        if rule == UNIFORM:
            share = np.float64(draw(core) >> np.uint64(11)) * 2.0**-53
        if n_values == 0.0:
            least = max(low[i], allowed[i, 0])
            most = min(high[i], allowed[i, 1])
            unit = least + share * (most - least)
            if rule == POINT:
                unit = min(most, max(least, net_point(core, axes, axis, low[i])))
            action[i], _ = in_units(axes, axis, unit, low[i])
            continue
        first = np.int64(np.rint(low[i] * n_values))
        last = np.int64(np.rint(high[i] * n_values)) - 1
        played = np.int64(-1)
        n_feasible = 0
        for k in range(first, last + 1):
            n_feasible += np.int64(allowed[i, FIRST_VALUE + k])
        pick = np.int64(share * n_feasible)
        for k in range(first, last + 1):
            if allowed[i, FIRST_VALUE + k] == 1.0:
                if rule in (CENTER, POINT):
                    if played < 0 or abs(2 * k - first - last) < abs(2 * played - first - last):
                        played = k
                elif pick == 0:
                    played = k
                pick -= 1
        action[i] = axes[axis, LOW] + 0.5 + played
