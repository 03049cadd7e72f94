"""Balls of a finite metric space, compiled: selection, update, new balls.

The space is the product of n_x states and n_a actions, two finite sets with a distance matrix each.
Its points are the pairs (x, a). One structured array holds every ball of an agent, one row each.
Rows 0 to H-1 are the roots. `owner[h, x, a]` is the row of the ball whose domain contains (x, a) at
step h. So a ball is found by one lookup, and the balls relevant for x are the entries of owner[h,
x]. The distances between pairs of a product are never stored.

A metric that is not a product is given by the distances between all pairs (power = PAIRS). Then
`distances` and `orders` are indexed by pairs, numbered x n_a + a. Row (pair n_x + x) of
`action_orders` lists the actions in x by their distance from that pair, nearest first.

    B = {(x, a) : d((x, a), center) <= r(B)}
    dom(B) = B without all balls of smaller radius and without older balls of the same radius
    split B, after its update, when n(B) >= split_after (d_max / r(B))^2 = split_after 4^depth
                                                                                     [SBY19 Alg. 1]

There are two deviations from the paper. Balls are closed, because an open ball loses the points at
distance exactly r(B), which are many if distances are integers. Domains exclude older balls of the
same radius, so they are disjoint.

A split covers dom(B) with balls of radius r(B) / 2 around points of dom(B). A new center is outside
all balls of this radius and of smaller ones. So the distance between two centers of the same radius
exceeds that radius.

Distances of a p-norm product are stored to the power p, so that the distance of pairs is a sum and
needs no root (power 0 is the maximum). `orders[x]` lists the points by their distance from x,
nearest first. So a loop over a ball can stop at its border.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_inline, jit_kernel, jit_no_refcount
from zooming.kernels.layout import (
    BAD_STATE,
    BOUND_TOLERANCE,
    CENTER,
    EXACT,
    FINE,
    N_STATS,
    RANDOM,
    SCALED,
)
from zooming.kernels.records import balls_at
from zooming.kernels.update_rule import draw, learn

PAIRS = -1.0
MAX_DEPTH = 26  # balls are split up to this depth; the next split would take about 4^26 visits
# Columns of `grid`, one row per axis: ends, number of points, 1 for an axis of integers.
LOW, HIGH, COUNT, WHOLE = 0, 1, 2, 3


@jit_no_refcount
def index_of(grid, first, n_axes, point):
    """Return the index of the grid point nearest to a point in the environment's units.

    The result is (FINE, index), or (BAD_STATE, i) for a bad coordinate i.
    """
    index = np.int64(0)
    for i in range(n_axes):
        low = grid[first + i, LOW]
        n = grid[first + i, COUNT]
        if grid[first + i, WHOLE] == 1.0:
            k = np.rint(point[i] - low)
            if not (abs(point[i] - low - k) <= BOUND_TOLERANCE and k >= 0.0 and k < n):
                return BAD_STATE, i
        else:
            unit = (point[i] - low) / (grid[first + i, HIGH] - low)
            if not (unit >= -BOUND_TOLERANCE and unit <= 1.0 + BOUND_TOLERANCE):
                return BAD_STATE, i
            k = np.rint(min(1.0, max(0.0, unit)) * (n - 1.0))
        index = index * np.int64(n) + np.int64(k)
    return FINE, index


@jit_no_refcount
def point_of(grid, first, n_axes, index, point):
    """Write grid point number `index`, in the environment's units, to `point`."""
    for j in range(n_axes):
        i = n_axes - 1 - j
        n = np.int64(grid[first + i, COUNT])
        k = index % n
        index //= n
        low, high = grid[first + i, LOW], grid[first + i, HIGH]
        if k == n - 1:
            point[i] = high  # exactly, without a rounding error
        elif grid[first + i, WHOLE] == 1.0:
            point[i] = low + k
        else:
            point[i] = low + (high - low) * (k / (n - 1))


@jit_inline
def combine_distances(core, along_state, along_action):
    """Return the distance of two pairs from the distances of their states and of their actions.

    All three distances are stored to the power p.
    """
    if core[0]["power"] == 0.0:
        return max(along_state, along_action)
    return along_state + along_action


@jit_inline
def pair_distance(t, state, action, other_state, other_action):
    """Return the distance of two pairs in stored form: to the power p."""
    core, distances, n_actions = t.core, t.distances, t.owner.shape[2]
    if core[0]["power"] == PAIRS:
        return distances[state * n_actions + action, other_state * n_actions + other_action]
    return combine_distances(
        core, distances[state, other_state], t.action_distances[action, other_action]
    )


# --- selection ------------------------------------------------------------------------------------


@jit_inline
def select(t, core, mask, step, state, ties):
    """Return the relevant ball with the largest Q. [SBY19, selection rule]

    A ball is relevant if it owns (state, a) for some a with mask[a] = 1. With random ties, the m-th
    tied ball replaces the current choice with probability 1/m. A ball that owns several actions
    must be counted once. For this, seen[row] is the number of the last selection that met the ball,
    and seen[-1] counts the selections.
    """
    table, owner, seen = t.rows, t.owner, t.seen
    best = -np.inf
    found = np.int64(-1)
    is_tied = False
    for a in range(mask.shape[0]):
        row = owner[step, state, a]
        value = table[row]["value"]
        if value >= best and row != found and mask[a] == 1:
            if value > best:
                best = value
                found = np.int64(row)
                is_tied = False
            else:
                is_tied = True
                if row < found:
                    found = np.int64(row)
    if ties != RANDOM or not is_tied:
        return found
    stamp = seen[seen.shape[0] - 1] + 1
    seen[seen.shape[0] - 1] = stamp
    n_tied = 0
    for a in range(mask.shape[0]):
        row = owner[step, state, a]
        if table[row]["value"] == best and mask[a] == 1 and seen[row] != stamp:
            seen[row] = stamp
            n_tied += 1
            if (n_tied > 1 and draw(core) % np.uint64(n_tied) == np.uint64(0)) or n_tied == 1:
                found = np.int64(row)
    return found


@jit_inline
def play_action(t, core, mask, row, step, state, rule):
    """Return an action a with (state, a) in dom(B): the nearest to the center, or a random one."""
    table, owner, order = t.rows, t.owner, t.action_orders
    if rule == CENTER:
        center = np.int64(table[row]["action"])
        if core[0]["power"] == PAIRS:
            center = (np.int64(table[row]["state"]) * mask.shape[0] + center) * owner.shape[
                1
            ] + state
        for j in range(mask.shape[0]):
            a = order[center, j]
            if owner[step, state, a] == row and mask[a] == 1:
                return np.int64(a)
    n = 0
    for a in range(mask.shape[0]):
        n += np.int64(owner[step, state, a] == row and mask[a] == 1)
    left = np.int64(draw(core) % np.uint64(n))
    for a in range(mask.shape[0]):
        if owner[step, state, a] == row and mask[a] == 1:
            if left == 0:
                return np.int64(a)
            left -= 1
    return np.int64(-1)


# --- update and split -----------------------------------------------------------------------------


@jit_no_refcount
def diameter(table, row):
    """Return the largest distance from a pair played in a ball to a pair of its domain.

    Domains of descendants count as well. The result is an upper bound: 3 r, in units of d_max and
    at most 1. The played pair is within r of the center. A pair of a descendant is within r + r/2 +
    r/4 + ... <= 2 r of it. For a domain of one pair, which has no descendants, the distance is 0.
    """
    return (
        min(1.0, 3.0 / np.float64(np.int64(1) << table[row]["depth"]))
        if table[row]["n_points"] > 1
        else 0.0
    )


@jit_inline
def update_ball(t, step, row, reward, next_value, action):
    """Apply the update rule to a ball. Return whether it is due to split."""
    table, core, stats = t.rows, t.core, t.stats
    across = diameter(table, row) if core[0]["bonus_rule"] == EXACT else 0.0
    learn(table, core, stats, step, row, across, reward, next_value)
    return is_due(table, core, row) and core[0]["n_balls"] < core[0]["max_balls"]


@jit_no_refcount
def is_due(table, core, row):
    """Return whether n(B) >= split_after (d_max / r(B))^2. A domain of one point is never due."""
    depth = table[row]["depth"]
    due_at = core[0]["split_after"] * np.float64(np.int64(1) << (2 * depth))
    return table[row]["n_points"] > 1 and depth < MAX_DEPTH and table[row]["n_visits"] >= due_at


@jit_no_refcount
def add_ball(t, parent, state, action):
    """Add a child of `parent` around a pair, with the parent's Q and n.

    The child takes over the pairs within its radius that larger balls own. The caller has reserved
    a row.
    """
    table, core, stats, owner = t.rows, t.core, t.stats, t.owner
    distances, action_distances = t.distances, t.action_distances
    orders, action_orders = t.orders, t.action_orders
    row = core[0]["n_rows"]
    step = table[parent]["step"]
    radius = 0.5 * table[parent]["radius"]
    reach = table[parent]["reach"] * 0.5 ** (core[0]["power"] if core[0]["power"] > 0.0 else 1.0)
    n_points = 0
    n_actions = owner.shape[2]
    is_product = core[0]["power"] != PAIRS
    center = np.int64(state) if is_product else np.int64(state) * n_actions + action
    for i in range(orders.shape[0]):
        x = np.int64(orders[center, i])
        along = distances[center, x]
        if along > reach:
            break
        for j in range(n_actions if is_product else 1):
            if is_product:
                a = np.int64(action_orders[action, j])
                if combine_distances(core, along, action_distances[action, a]) > reach:
                    break
            else:
                a = x % n_actions
                x = x // n_actions
            old = owner[step, x, a]
            if table[old]["radius"] > radius:
                owner[step, x, a] = row
                n_points += 1
                table[old]["n_points"] -= 1
                if table[old]["n_points"] == 0:
                    core[0]["n_balls"] -= 1
    table[row]["value"] = table[parent]["value"]
    table[row]["n_visits"] = table[parent]["n_visits"]
    if core[0]["bonus_rule"] != SCALED:
        for i in range(N_STATS):
            stats[row, i] = stats[parent, i]
    table[row]["radius"] = radius
    table[row]["reach"] = reach
    table[row]["state"] = state
    table[row]["action"] = action
    table[row]["parent"] = parent
    table[row]["depth"] = table[parent]["depth"] + 1
    table[row]["step"] = step
    table[row]["n_points"] = n_points
    core[0]["n_rows"] = row + 1
    core[0]["n_balls"] += 1


# --- kernels that Python calls --------------------------------------------------------------------


@jit_kernel
def add_child(handle, parent, state, action):
    """Call `add_ball` on the table with this handle."""
    add_ball(balls_at(handle), parent, state, action)
