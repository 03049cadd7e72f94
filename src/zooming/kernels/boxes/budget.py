"""A budget of balls: when the table is full, the ball that matters least makes room for a split.

`max_balls` = M. Every ball B keeps `last`, the episode of its last visit, and along each axis i a
length side_i(B): at first that of its box, halved by every cut along the axis, and never enlarged.
Until M balls are there, splits are those of `split`. From then on, a ball B that is due is cut in
two along its longest side_i, after one other ball was removed:

    L = argmin over active balls L != B, no root, of  width / age^2
        width: side of the parent P of L along the axis that P cuts
        age:   episode - last(L) + 1; if P cuts an action axis, the smallest age among L and the
               balls of the sibling subtree S that touch the cut, since their actions would move

    remove L:  S takes the place of P, and its balls that touch the cut reach over the domain of L.
               Their Q becomes at least Q(L): V(x) does not fall.

A removal frees two rows, and the cut takes these. Categories are never joined. No regret bound is
known: diam(B) may exceed what n(B) implies.

With few balls, g steps in a row share a partition: each g, counted from 0. A step counts the mean
reward m of a step for each of the a(h) later ones that do not begin a partition:

    Q_h(B) = Q(B) + m a(h),    m <- m + (r - m) / (H min(episode, RECENT))

So m is subtracted whenever an episode stays in a partition, and as m grows, no Q is left too low.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.kernels.boxes import play, trees
from zooming.kernels.boxes.layout import ACTIVE, EITHER, INDEX, KEPT_STEP, NO_PARENT
from zooming.kernels.boxes.select import (
    diameter,
    keep_maxima,
    length,
    side_along,
    sides,
    update_ball,
)
from zooming.kernels.boxes.split import (
    cut,
    due_after,
    longest_side,
    middle,
    n_parts,
    sides_to_halve,
)
from zooming.kernels.boxes.update_rule import ceiling
from zooming.kernels.loop.episodes import compile_later
from zooming.kernels.loop.jit import compile_kernel, jit_inline, jit_kernel, jit_no_refcount
from zooming.kernels.loop.numba_parts import NO_REFCOUNT

RECENT = 50  # episodes that the mean reward looks back
EASES = 4.0  # a single integer that is joined with others is due at so many times its visits


@jit_inline
def last_of(t):
    """Return the column of `stats` with the episode of the last visit. Those of side_i follow."""
    return t.stats.shape[1] - t.axes.shape[0] - 1


@jit_kernel
def split(t, row):
    """Split a due ball. If the table has no room, remove another ball first. Return True."""
    table, core, stats, axes = t.rows, t.core, t.stats, t.axes
    n_axes = axes.shape[0]
    low, high, lengths = np.empty(n_axes), np.empty(n_axes), np.empty(n_axes)
    measure(t, row, low, high, lengths)
    halved = sides_to_halve(core, lengths)
    next_row = core[0]["n_rows"]
    n_more = core[0]["max_balls"] - core[0]["n_balls"]
    if n_parts(halved) - 1 > n_more:
        if n_more == 0:
            removed = find_least(t, row)
            if removed < 0:
                table[row]["due_at"] = np.inf  # all others are roots, and stay so
                return True
            row = remove(t, removed, row, low, high, lengths)
            next_row = removed & ~1
            measure(t, row, low, high, lengths)
        halved = np.int64(1) << longest_side(lengths)
    at = np.empty(n_axes)
    for axis in range(n_axes):
        at[axis] = middle(axes, axis, low[axis], high[axis])
    first, last = cut(table, core, stats, axes, row, halved, at, next_row)
    if core[0]["bonus_rule"] == INDEX:
        trees.settle(t, row, next_row, last)
    first_side = last_of(t) + 1
    for part in range(first, last):
        for axis in range(n_axes):
            if halved >> axis & 1:
                stats[part, first_side + axis] *= 0.5
        table[part]["due_at"] = due_at(t, part, low, high, lengths)
    return True


@jit_no_refcount
def measure(t, row, low, high, lengths):
    """Write the box of a ball, and the length of each side: side_i, or less if the box is less."""
    first_side = last_of(t) + 1
    sides(t.rows, row, 0, low, high)
    for axis in range(lengths.shape[0]):
        lengths[axis] = min(
            t.stats[row, first_side + axis], length(t.axes, axis, low[axis], high[axis])
        )


@jit_no_refcount
def due_at(t, row, low, high, lengths):
    """Return the number of visits at which a ball is due."""
    measure(t, row, low, high, lengths)
    longest = lengths[longest_side(lengths)]
    is_tree = t.core[0]["bonus_rule"] == INDEX
    return trees.due_at(longest) if is_tree else due_after(t.core, longest)


@jit_no_refcount
def find_least(t, kept):
    """Return the row of the ball to remove, the first of those that matter least, or -1."""
    table, core, stats = t.rows, t.core, t.stats
    last = last_of(t)
    found = np.int64(-1)
    least = np.inf
    for row in range(core[0]["n_rows"]):
        parent = np.int64(table[row]["parent"])
        if table[row]["child"] != ACTIVE or parent == NO_PARENT or row == kept:
            continue
        axis = np.int64(table[parent]["axis"])
        if stats[row, last + 1 + axis] == 0.0:  # a category
            continue
        age = core[0]["episode"] - stats[row, last] + 1.0
        width = side_along(table, t.axes, parent, axis)
        if width / (age * age) >= least:
            continue
        if axis >= core[0]["n_state"]:
            ball = descend(table, row ^ 1, axis, row & 1)
            while ball >= 0:
                age = min(age, core[0]["episode"] - stats[ball, last] + 1.0)
                ball = next_touching(table, ball, row ^ 1, axis, row & 1)
        score = width / (age * age)
        if score < least:
            least = score
            found = row
    return found


@jit_no_refcount
def descend(table, row, axis, upper):
    """Return the first ball below `row` that touches the upper or lower end of its `axis`."""
    while table[row]["child"] != ACTIVE:
        is_along = np.int64(table[row]["axis"]) == axis
        row = np.int64(table[row]["child"]) + (upper if is_along else 0)
    return np.int64(row)


@jit_no_refcount
def next_touching(table, row, top, axis, upper):
    """Return the ball after `row` below `top` that touches this end of its `axis`, or -1."""
    while row != top:
        parent = np.int64(table[row]["parent"])
        if row & 1 == 0 and np.int64(table[parent]["axis"]) != axis:
            return descend(table, row + 1, axis, upper)
        row = parent
    return np.int64(-1)


@jit_kernel
def remove(t, removed, kept, low, high, lengths):
    """Remove a ball: its sibling subtree takes the place of its parent. Return the row of `kept`.

    The rows `removed` and `removed ^ 1` are free afterwards. The last arguments are scratch memory.
    """
    table, core, stats = t.rows, t.core, t.stats
    parent, other = np.int64(table[removed]["parent"]), removed ^ 1
    axis, value = np.int64(table[parent]["axis"]), table[removed]["value"]
    table[parent]["value"] = table[other]["value"]
    table[parent]["cut"] = table[other]["cut"]  # or `due_at`, in the same place
    table[parent]["n_visits"] = table[other]["n_visits"]
    table[parent]["child"] = table[other]["child"]
    table[parent]["depth"] = table[other]["depth"]
    table[parent]["axis"] = table[other]["axis"]
    for i in range(stats.shape[1]):
        stats[parent, i] = stats[other, i]
    child = np.int64(table[other]["child"])
    if child != ACTIVE:
        table[child]["parent"] = table[child + 1]["parent"] = parent
    core[0]["n_balls"] -= 1
    t.place[KEPT_STEP] = -1  # its row may be another ball now
    climb(t, parent)
    upper = removed & 1
    ball = descend(table, parent, axis, upper)
    while ball >= 0:
        stretch(t, ball, value, low, high, lengths)
        ball = next_touching(table, ball, parent, axis, upper)
    return parent if kept == other else kept


@jit_kernel
def stretch(t, row, value, low, high, lengths):
    """Let an enlarged ball have at least this Q, and let a single integer become due."""
    table, core = t.rows, t.core
    if core[0]["bonus_rule"] == INDEX:
        trees.write_index(table, core, t.stats, row, diameter(table, core, t.axes, row))
    else:
        table[row]["value"] = max(table[row]["value"], value)
    climb(t, row)
    if table[row]["due_at"] == np.inf:
        is_tree = core[0]["bonus_rule"] == INDEX
        n = t.stats[row, trees.WEIGHT] if is_tree else np.float64(table[row]["n_visits"])
        table[row]["due_at"] = max(EASES * n, due_at(t, row, low, high, lengths))


@jit_inline
def climb(t, row):
    """Restore the maxima in all rows above `row`."""
    if t.core[0]["bonus_rule"] == INDEX:
        trees.climb(t.rows, t.stats, row)
    else:
        keep_maxima(t.rows, row)


@jit_inline
def ahead(core, step):
    """Return a(h), the number of steps after h that do not begin a partition."""
    n_together, horizon = core[0]["shared"], core[0]["horizon"]
    if n_together == 0:
        return np.int64(0)
    return horizon - 1 - step - ((horizon - 1) // n_together - step // n_together)


@jit_inline
def best(t, step, ties):
    """Return (row of the best ball, V) for the state that was read."""
    core = t.core
    row, _ = play.best_row(t, core, step, ties)
    to_come = core[0]["mean_reward"] * ahead(core, step)
    return row, min(ceiling(core, step), t.rows[row]["value"] + to_come)


@jit_inline
def update(t, step, row, reward, next_value, action):
    """Learn from one sample of a ball; return whether it is due to split."""
    core = t.core
    to_come = core[0]["mean_reward"] * ahead(core, step)
    is_due = update_ball(t, step, row, reward, next_value - to_come, action)
    if core[0]["shared"] > 0:
        n_recent = core[0]["horizon"] * min(max(core[0]["episode"], 1), RECENT)
        core[0]["mean_reward"] += (reward - core[0]["mean_reward"]) / n_recent
    return is_due


def make_kernels(name: str, parts: Any, update: Any, best_row: Any) -> Any:
    """Return the kernels of a table that notes visits, and removes balls when it is full.

    A removal may take the ball that was found for the next state. So V is read without a draw
    among ties, and the ball to play is chosen after the split: the same draws in the same order.
    """
    best = parts.best

    def update_and_note(t, step, row, reward, next_value, action):
        is_due = update(t, step, row, reward, next_value, action)
        t.stats[row, last_of(t)] = t.core[0]["episode"]
        return is_due

    def best_within(t, step, ties):
        return best(t, step, EITHER)

    def choose(t, step, row, ties):
        return best_row(t, t.core, step, ties)[0]

    learn, best_either, choose_last = (
        compile_kernel(one, name=f"{one.__name__}_{name}", **NO_REFCOUNT, forceinline=True)
        for one in (update_and_note, best_within, choose)
    )
    own = parts._replace(learn=learn, best=best_either, split=split, choose=choose_last)
    return compile_later(name, own)


BOXES = make_kernels("boxes_within", play.PARTS._replace(best=best), update, play.best_row)
TREES = make_kernels("trees_within", trees.PARTS, trees.update_ball, trees.best_row)
