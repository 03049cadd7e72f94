"""Boxes: find the ball of a point, select the best relevant ball, play an action in it, update it.

Selection is branch and bound over the binary tree of `layout`: visit the better child first and
skip subtrees that cannot win.

    V(x) = min(cap, max of Q over the balls relevant for x)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.kernels.boxes.layout import (
    ACTIVE,
    ATOMS,
    CENTER,
    EXACT,
    FIRST,
    FIRST_VALUE,
    LOW,
    NO_PARENT,
    POINT,
    RANDOM,
    UNIFORM,
    WEIGHT,
    WITHIN,
)
from zooming.kernels.boxes.points import in_units, net_point, play_value
from zooming.kernels.boxes.update_rule import draw, draw_share, index, learn, learn_scaled
from zooming.kernels.loop.jit import compile_kernel, jit_inline, jit_kernel, jit_no_refcount
from zooming.kernels.loop.numba_parts import NO_REFCOUNT, REFCOUNT, branch_on

HALVED = 0.5 ** np.arange(256)  # side of a cube by its depth; a division would take longer


@jit_no_refcount
def sides(table, row, first_axis, low, high):
    """Write the sides of a ball of any shape along len(low) axes, starting at `first_axis`."""
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

    The last splits of a cube were along the axes D-1, D-2, ..., so one row per axis is enough.
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
def side_along(table, axes, row, axis):
    """Return the weighted length of one side of a ball of any shape."""
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
    return length(axes, axis, low, high)


@jit_no_refcount
def diameter(table, core, axes, row):
    """Return the length of the longest side of a ball. Nothing is allocated."""
    if core[0]["cubes"] == 1:
        return HALVED[table[row]["depth"]]
    longest = 0.0
    for axis in range(axes.shape[0]):
        longest = max(longest, side_along(table, axes, row, axis))
    return longest


MOST_WALKED = 16  # number of tied balls to visit one by one before trying a random draw


@jit_no_refcount
def find(table, n_state, root, state, action):
    """Return the row of the active ball whose domain contains (state, action)."""
    row = root
    while table[row]["child"] != ACTIVE:
        axis = np.int64(table[row]["axis"])
        coordinate = state[axis] if axis < n_state else action[axis - n_state]
        row = np.int64(table[row]["child"]) + np.int64(coordinate >= table[row]["cut"])
    return row


@jit_no_refcount
def most_splits(n_axes):
    """Return the largest number of splits along `n_axes` axes on a path from the root.

    A side becomes no shorter than 2^-19, since visits stay below 2^32, and `data_cuts` leaves three
    quarters of it. So learning cuts each axis at most 46 times. An initial partition adds at most
    40 splits, since a table has fewer than 2^31 rows. `faults` refuses longer paths.
    """
    return 40 + 46 * n_axes


@jit_kernel
def new_stack(core):
    """Return a stack for `select`: the root, every fork of a path, and an entry never read."""
    return np.empty(most_splits(core[0]["n_action"]) + 2, np.int64)


@jit_no_refcount
def draw_tied(table, core, root, state, best, n_tries):
    """Draw one of the relevant balls of a net with the value `best`, all equally likely.

    Return -1 if no try found one. A try follows a random path: one bit for each split along an
    action axis. A ball below n such splits is reached with probability 2^-n, and accepted if the
    next most - n bits are 0. `most` is the number of splits on the path of second children, which
    have the larger half of the cells.
    """
    n_state = core[0]["n_state"]
    most = 0
    row = root
    while table[row]["child"] != ACTIVE:
        axis = np.int64(table[row]["axis"])
        if axis < n_state:
            row = np.int64(table[row]["child"]) + np.int64(state[axis] >= table[row]["cut"])
        else:
            row = np.int64(table[row]["child"]) + 1
            most += 1
    for _ in range(n_tries):
        bits = draw(core)
        n = 0
        row = root
        while table[row]["child"] != ACTIVE and table[row]["value"] >= best:
            axis = np.int64(table[row]["axis"])
            if axis < n_state:
                row = np.int64(table[row]["child"]) + np.int64(state[axis] >= table[row]["cut"])
            else:
                row = np.int64(table[row]["child"]) + np.int64(bits & np.uint64(1))
                bits >>= np.uint64(1)
                n += 1
        if table[row]["child"] == ACTIVE and table[row]["value"] == best:
            unused = (np.uint64(1) << np.uint64(most - n)) - np.uint64(1)
            if bits & unused == np.uint64(0):
                return row
    return np.int64(-1)


@jit_inline
def stored_value(table, row):
    """Return the value of a row."""
    return table[index(row)]["value"]


def make_select(name: str, value_of: Any) -> Any:
    """Return the compiled selection rule for rows whose value is `value_of(table, row, *lens)`.

    The value of an inner row must be at least that of each row below it.
    """

    def select(table, core, root, state, ties, stack, *lens):
        """Return the relevant ball with the largest Q, and how many rows were read to find it.

        An inner row on a state axis has one relevant side. On an action axis both are relevant:
        descend into the better one and push the other on the stack. `rival` is the largest value on
        the stack. So most selections end without reading the stack again. [SBY19 Alg. 1]

        With random ties, the m-th tied ball replaces the current choice with probability 1/m. A net
        may have very many. After MOST_WALKED of them, and whenever their number has doubled, as
        many random draws are tried as balls were visited. If a share p of n balls is tied, this
        takes about 1/p draws or n p visits, whichever is less. If a path has more forks than any
        table should have, the last of them is lost.

        Both sides of a branch read the value, so that LLVM keeps the branch: see `branch_on`.
        """
        n_state = core[0]["n_state"]
        all_ties = ties == RANDOM
        in_order = ties == FIRST
        n_tied = 0
        best = -np.inf
        rival = -np.inf
        found = root
        row = root
        value = value_of(table, row, *lens)
        top = 0
        most = stack.shape[0] - 1
        n_read = 1
        while True:
            while True:
                child = np.int64(table[index(row)]["child"])
                if child == ACTIVE:
                    break
                if not branch_on(value > best) and (value < best or not all_ties):
                    break
                axis = np.int64(table[index(row)]["axis"])
                if axis < n_state:
                    if branch_on(state[index(axis)] >= table[index(row)]["cut"]):
                        row = child + 1
                        value = value_of(table, child + 1, *lens)
                    else:
                        row = child
                        value = value_of(table, child, *lens)
                else:
                    first = value_of(table, child, *lens)
                    second = value_of(table, child + 1, *lens)
                    if branch_on(second > first and not in_order):
                        stack[index(top)] = child
                        rival = max(rival, first)
                        row = child + 1
                        value = second
                    else:
                        stack[index(top)] = child + 1
                        rival = max(rival, second)
                        row = child
                        value = first
                    top = min(top + 1, most)
                    n_read += 1
                n_read += 1
            if child == ACTIVE:
                if value > best:
                    best = value
                    found = row
                    n_tied = 1
                elif all_ties and value == best:
                    n_tied += 1
                    if draw(core) % np.uint64(n_tied) == np.uint64(0):
                        found = row
                    # Only in a net, and only if no row on the stack has a larger value.
                    is_net = core[0]["spacing"] > 0.0 and rival <= best
                    if n_tied >= MOST_WALKED and n_tied & (n_tied - 1) == 0 and is_net:
                        drawn = draw_tied(table, core, root, state, best, n_tied)
                        n_read += n_tied
                        if drawn >= 0:
                            found = drawn
                            rival = -np.inf  # ends the search
            if rival < best or (rival == best and not all_ties):
                return found, n_read
            while True:
                if top == 0:
                    return found, n_read
                top -= 1
                row = stack[index(top)]
                value = value_of(table, row, *lens)
                if value > best or (value == best and all_ties):
                    break

    return compile_kernel(select, name=f"select_{name}", **NO_REFCOUNT, forceinline=True)


select = make_select("boxes", stored_value)


@jit_inline
def play_action(table, core, axes, row, rule, low, high, action):
    """Write the action to play in a ball, in the environment's units.

    Return whether it is still inside the ball after rounding.
    """
    n_state = core[0]["n_state"]
    if core[0]["cubes"] == 1:
        cube_sides(table, row, n_state, low, high)
    else:
        sides(table, row, n_state, low, high)
    inside = True
    for i in range(action.shape[0]):
        axis = n_state + i
        if axes[axis, ATOMS] > 0.0:
            action[i] = play_value(core, axes, axis, rule, low[i], high[i])
            continue
        unit = low[i]
        if rule == CENTER:
            unit = 0.5 * (low[i] + high[i])
        elif rule == POINT:
            unit = net_point(core, axes, axis, low[i])
        elif rule == UNIFORM:
            unit = low[i] + draw_share(core) * (high[i] - low[i])
        action[i], back = in_units(axes, axis, unit, low[i])
        inside = inside and (back < high[i] or high[i] == 1.0)
    return inside


@jit_inline
def keep_maxima(table, row):
    """Restore the invariant that each inner row above `row` holds the largest Q below it."""
    value = table[index(row)]["value"]
    while True:
        parent = np.int64(table[index(row)]["parent"])
        if parent == NO_PARENT:
            break
        value = max(value, table[index(row ^ 1)]["value"])
        if value == table[index(parent)]["value"]:
            break
        table[index(parent)]["value"] = value
        row = parent


@jit_inline
def may_split(core):
    """Return whether the table has room for one more ball, or makes room, see `budget`."""
    return core[0]["n_balls"] < core[0]["max_balls"] or core[0]["rule"] >= WITHIN


@jit_inline
def is_due(t, row, n_visits):
    """Return whether a ball is due to split after its update."""
    return n_visits >= t.rows[row]["due_at"] and may_split(t.core)


@jit_inline
def update_scaled(t, step, row, reward, next_value, action):
    """Apply the update rule with a bonus c / sqrt(t). Return whether the ball is due to split.

    `t` is a `crossing.Boxes`. Only heuristics use `action`.
    """
    n_visits = learn_scaled(t.rows, t.core, step, row, reward, next_value)
    keep_maxima(t.rows, row)
    return is_due(t, row, n_visits)


@jit_inline
def update_ball(t, step, row, reward, next_value, action):
    """Apply the update rule with any bonus. Return whether the ball is due to split."""
    table, core, stats, axes = t.rows, t.core, t.stats, t.axes
    across = diameter(table, core, axes, row) if core[0]["bonus_rule"] == EXACT else 0.0
    n_visits = learn(table, core, stats, step, row, across, reward, next_value)
    keep_maxima(table, row)
    return is_due(t, row, n_visits)


# --- feasible actions -----------------------------------------------------------------------------
# `allowed` has one row per action axis. The first two entries of a row are the low and the high end
# of the feasible interval, in the unit cube. On an axis of integers, a 0/1 mask of the values
# follows. It has no rows if all actions are feasible.


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


def make_next_relevant(name: str, value_of: Any) -> Any:
    """Return the compiled step of a walk over relevant balls. `value_of` is as in `make_select`."""

    def next_relevant(t, core, top, least, in_order, allowed, *lens):
        """Pop a row off `t.stack` and push its relevant children. Return (row, new top).

        The row is -1 unless it is an active ball with a feasible action and a value of at least
        `least`. Children are visited from low to high actions if `in_order`, else the better first.
        """
        table, n_state = t.rows, core[0]["n_state"]
        most = t.stack.shape[0] - 1
        top -= 1
        row = np.int64(t.stack[top])
        if value_of(table, row, *lens) < least:
            return np.int64(-1), top
        child = np.int64(table[row]["child"])
        if child == ACTIVE:
            if allowed.shape[0] > 0:
                sides(table, row, n_state, t.low, t.high)
                if not has_feasible(t.axes, n_state, allowed, t.low, t.high):
                    return np.int64(-1), top
            return row, top
        axis = np.int64(table[row]["axis"])
        cut = table[row]["cut"]
        if axis < n_state:
            t.stack[top] = child + np.int64(t.state[axis] >= cut)
            return np.int64(-1), min(top + 1, most)
        has_first = allowed.shape[0] == 0 or allowed[axis - n_state, 0] < cut
        has_second = allowed.shape[0] == 0 or allowed[axis - n_state, 1] >= cut
        is_better = value_of(table, child, *lens) >= value_of(table, child + 1, *lens)
        first_is_last = in_order or is_better  # the row pushed last is popped first
        if has_second and first_is_last:
            t.stack[top] = child + 1
            top = min(top + 1, most)  # as in `select`
        if has_first:
            t.stack[top] = child
            top = min(top + 1, most)
        if has_second and not first_is_last:
            t.stack[top] = child + 1
            top = min(top + 1, most)
        return np.int64(-1), top

    return compile_kernel(next_relevant, name=f"next_relevant_{name}", **REFCOUNT)


def make_select_feasible(name: str, value_of: Any, next_relevant: Any) -> Any:
    """Return the compiled `select_feasible`. `value_of` is as in `make_select`."""

    def select_feasible(t, core, root, ties, allowed, *lens):
        """Return the best relevant ball with a feasible action, or -1 if there is none.

        The value of an inner row may come from a ball without one, so more balls are visited.
        """
        t.stack[0] = root
        top, n_tied = 1, 0
        best = least = -np.inf
        found = np.int64(-1)
        while top > 0:
            row, top = next_relevant(t, core, top, least, ties == FIRST, allowed, *lens)
            if row < 0:
                continue
            value = value_of(t.rows, row, *lens)
            if value > best:
                best, found, n_tied = value, row, 1
                least = best if ties == RANDOM else np.nextafter(best, np.inf)
            else:
                n_tied += 1
                if draw(core) % np.uint64(n_tied) == np.uint64(0):
                    found = row
        return found

    return compile_kernel(select_feasible, name=f"select_feasible_{name}", **REFCOUNT)


next_relevant = make_next_relevant("boxes", stored_value)
select_feasible = make_select_feasible("boxes", stored_value, next_relevant)


@jit_kernel
def write_feasible(table, core, axes, row, rule, allowed, low, high, action):
    """Write a feasible action of a ball, in the environment's units. The ball must have one.

    CENTER plays the middle of the feasible part, or the feasible integer nearest to the middle.
    """
    n_state = core[0]["n_state"]
    n_action = core[0]["n_action"]
    sides(table, row, n_state, low, high)
    for i in range(n_action):
        axis = n_state + i
        n_values = axes[axis, ATOMS]
        share = draw_share(core) if rule == UNIFORM else 0.5 if rule == CENTER else 0.0
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
