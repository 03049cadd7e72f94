"""Optimistic trees: the statistics of a ball, its index, its update, and the split rule.

A ball B keeps the mean reward r of its samples, the mean v of their future reward per remaining
step, the variance m of their targets, and a weight n. With `left` = H - 1 - h steps after step h,
w = diam(B), and rewards that span `span`:

    index_h(B) = r + left v + span slope w^3 / (w^2 + 8 m)

    n += 1;  alpha = (H + 1) / (H + n);  y = V_{h+1}(x') / left
    e = (R - r + left (y - v)) / span;  m <- (1 - alpha)(m + alpha e^2), from the second sample on
    r += alpha (R - r);  v += alpha (y - v), unless left = 0

    split B when n >= 1 / w and n w^2 >= 16 m; its parts inherit r, v, m, and n / 2, at least 1

Without noise, the bonus is slope w, as for a Lipschitz function. It shrinks where the variance m
exceeds w^2. Since v is per remaining step, one ball can serve all steps. `docs/trees.md` has the
experiments behind the constants.

The index is linear in `left`. So a row stores two numbers: the index at the last step in `value`,
and the index at step 0 in `stats`. At other steps, the index is their weighted mean. An inner row
stores the maximum of each number over its subtree. The weighted mean of these maxima is an upper
bound at every step, since the maximum of linear functions is convex. So selection by branch and
bound is exact.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.boxes.layout import ACTIVE, EITHER, MAX_VISITS, NO_PARENT
from zooming.kernels.boxes.play import (
    act,
    has_room,
    locate,
    make_queries,
    n_balls,
    options,
    read,
    root_of,
    sizes,
    with_own_scratch,
)
from zooming.kernels.boxes.select import (
    diameter,
    make_next_relevant,
    make_select,
    make_select_feasible,
    may_split,
)
from zooming.kernels.boxes.split import split as split_box
from zooming.kernels.boxes.update_rule import ceiling
from zooming.kernels.loop.crossing import boxes_at
from zooming.kernels.loop.episodes import Parts, compile_later
from zooming.kernels.loop.jit import jit_inline, jit_kernel, jit_no_refcount

# Columns of `stats`: r, v, m, n, and the index at step 0.
REWARD, FUTURE, NOISE, WEIGHT, FIRST_INDEX = 0, 1, 2, 3, 4
N_TREE_STATS = 5
SHRINKS = 8.0  # factor of the noise: if m = w^2, the bonus is a ninth of slope w
SPLIT_NOISE = 16.0  # a ball is split if the standard error of its mean is at most w / 4
FINEST = 2.0**-18  # balls of this diameter are not split; see `boxes.most_splits`


@jit_inline
def share_of_first(core, step):
    """Return s = left / (H - 1), with index_h = s index_0 + (1 - s) index_{H-1} and h = `step`."""
    last = core[0]["horizon"] - 1
    return (last - step) / np.float64(last) if last > 0 else 0.0


@jit_inline
def index_of(table, row, stats, share):
    """Return the index of a ball; for an inner row, an upper bound of those in its subtree."""
    return (1.0 - share) * table[row]["value"] + share * stats[row, FIRST_INDEX]


@jit_no_refcount
def due_at(across):
    """Return the weight from which a ball of diameter `across` may be split."""
    # The factor absorbs rounding, as in `splitting.due_at`.
    return (1.0 - 1e-12) / across if across > FINEST else np.inf


@jit_inline
def write_index(table, core, stats, row, across):
    """Write the index of a ball of diameter `across` at the last and at the first step."""
    bonus = 0.0
    if across > 0.0:
        squared = across * across
        bonus = core[0]["lipschitz"] * squared * across / (squared + SHRINKS * stats[row, NOISE])
    last = stats[row, REWARD] + core[0]["reward_span"] * bonus
    table[row]["value"] = last
    stats[row, FIRST_INDEX] = last + (core[0]["horizon"] - 1.0) * stats[row, FUTURE]


@jit_inline
def join(table, stats, row):
    """Write the maxima of `row` and its sibling into their parent; return whether they changed."""
    parent = np.int64(table[row]["parent"])
    if parent == NO_PARENT:
        return False
    last = max(table[row]["value"], table[row ^ 1]["value"])
    first = max(stats[row, FIRST_INDEX], stats[row ^ 1, FIRST_INDEX])
    if table[parent]["value"] == last and stats[parent, FIRST_INDEX] == first:
        return False
    table[parent]["value"] = last
    stats[parent, FIRST_INDEX] = first
    return True


@jit_inline
def climb(table, stats, row):
    """Update the maxima of all ancestors of `row`."""
    while join(table, stats, row):
        row = np.int64(table[row]["parent"])


@jit_kernel
def write_rows(table, core, stats, axes, first, last, are_new):
    """Write the indices of these rows and, if they are new, `due_at` of their balls."""
    for row in range(first, last):
        if table[row]["child"] != ACTIVE:
            table[row]["value"] = stats[row, FIRST_INDEX] = -np.inf
    for row in range(first, last):
        if table[row]["child"] == ACTIVE:
            across = diameter(table, core, axes, row)
            if are_new:
                table[row]["due_at"] = due_at(across)
            write_index(table, core, stats, row, across)
            climb(table, stats, row)


@jit_inline
def update_ball(t, step, row, reward, next_value, action):
    """Learn from one sample of a ball; return whether it is due to split."""
    table, core, stats = t.rows, t.core, t.stats
    if step == 0:  # an episode begins, in either driver
        core[0]["episode"] += 1
    horizon = core[0]["horizon"]
    left = horizon - 1.0 - step
    weight = stats[row, WEIGHT] + 1.0
    rate = (horizon + 1.0) / (horizon + weight)
    off_reward = reward - stats[row, REWARD]
    off_future = next_value / left - stats[row, FUTURE] if left > 0.0 else 0.0
    error = (off_reward + left * off_future) / core[0]["reward_span"]
    if weight > 1.0:
        stats[row, NOISE] = (1.0 - rate) * (stats[row, NOISE] + rate * error * error)
    stats[row, REWARD] += rate * off_reward
    stats[row, FUTURE] += rate * off_future
    stats[row, WEIGHT] = weight
    table[row]["n_visits"] = min(np.int64(table[row]["n_visits"]) + 1, MAX_VISITS)
    across = diameter(table, core, t.axes, row)
    write_index(table, core, stats, row, across)
    climb(table, stats, row)
    return (
        weight >= table[row]["due_at"]
        and weight * across * across >= SPLIT_NOISE * stats[row, NOISE]
        and may_split(core)
    )


@jit_kernel
def split(t, row):
    """Split a ball, unless its parts would exceed `max_balls`; return True."""
    first = t.core[0]["n_rows"]
    split_box(t.rows, t.core, t.stats, t.axes, row)
    settle(t, row, first, t.core[0]["n_rows"])
    return True


@jit_kernel
def settle(t, row, first, last):
    """Give the new rows below `row`, from `first` to `last` - 1, their weight and index."""
    for child in range(first, last):
        t.stats[child, WEIGHT] = max(1.0, 0.5 * t.stats[row, WEIGHT])
    write_rows(t.rows, t.core, t.stats, t.axes, first, last, True)


select = make_select("trees", index_of)
select_feasible = make_select_feasible("trees", index_of, make_next_relevant("trees", index_of))


@jit_inline
def best_row(t, core, step, ties):
    """Return (row of the best ball for the state, number of rows read)."""
    share = share_of_first(core, step)
    return select(t.rows, core, root_of(core, step), t.state, ties, t.stack, t.stats, share)


@jit_inline
def best(t, step, ties):
    """Return (row of the best ball for the state, V of the state)."""
    ties = EITHER if t.core[0]["shared"] > 0 else ties  # `choose` draws among ties
    row, _ = best_row(t, t.core, step, ties)
    index = index_of(t.rows, row, t.stats, share_of_first(t.core, step))
    return row, min(ceiling(t.core, step), index)


@jit_inline
def choose(t, step, row, ties):
    """Return the ball to play. If all steps share a partition, learning may have changed it."""
    if t.core[0]["shared"] > 0:
        row, _ = best_row(t, t.core, step, ties)
    return row


@jit_kernel
def best_feasible(t, core, step, ties, allowed, draws):
    """Return the row of the best feasible ball for the state."""
    share = share_of_first(core, step)
    return select_feasible(t, core, root_of(core, step), ties, allowed, t.stats, share)


PARTS = Parts(
    boxes_at, with_own_scratch, options, has_room, read, best, act, update_ball, split, n_balls,
    sizes, locate, choose,
)  # fmt: skip

KERNELS = compile_later("trees", PARTS)
QUERIES = make_queries("trees", best_row, best_feasible)
