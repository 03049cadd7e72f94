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

from zooming.kernels.boxes.layout import (
    ACTION_PLAYED,
    BAD_STATE,
    BOUND_TOLERANCE,
    CENTER,
    EXACT,
    FINE,
    FULL,
    LAST_READ,
    N_PLACES,
    N_STATS,
    RANDOM,
    SCALED,
    STATE_PLAYED,
)
from zooming.kernels.boxes.update_rule import ceiling, draw, learn
from zooming.kernels.loop.crossing import Balls, balls_at
from zooming.kernels.loop.episodes import Parts, compile_later
from zooming.kernels.loop.jit import jit_inline, jit_kernel, jit_no_refcount

PAIRS = -1.0  # `power` of a metric on pairs that is not a product
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


@jit_no_refcount
def cover(t, row):
    """Cover dom(B) with children. Return FINE, or FULL if the table has no free row.

    This is the oracle `metrics.Greedy`: each child is centered at the uncovered pair whose state is
    nearest to the center's, and then whose action is. Covering stops at `max_balls`. After FULL,
    make room and call again.
    """
    table, core, owner = t.rows, t.core, t.owner
    step, state, action = table[row]["step"], table[row]["state"], table[row]["action"]
    reach = table[row]["reach"]
    n_actions = owner.shape[2]
    is_product = core[0]["power"] != PAIRS
    center = np.int64(state) if is_product else np.int64(state) * n_actions + action
    for i in range(t.orders.shape[0]):
        x = np.int64(t.orders[center, i])
        along = t.distances[center, x]
        if along > reach:
            break
        for j in range(n_actions if is_product else 1):
            if is_product:
                a = np.int64(t.action_orders[action, j])
                if combine_distances(core, along, t.action_distances[action, a]) > reach:
                    break
            else:
                a = x % n_actions
                x = x // n_actions
            if owner[step, x, a] == row:
                if core[0]["n_balls"] >= core[0]["max_balls"]:
                    return FINE
                if core[0]["n_rows"] >= table.shape[0]:
                    return FULL
                add_ball(t, row, x, a)
    return FINE


# --- the parts of the training loop ---------------------------------------------------------------


@jit_kernel
def with_own_scratch(t):
    """Return a copy of the record with its own `place`, the scratch memory of the point read.

    `seen` is still shared with the table. A selection marks the balls of a tie there with its own
    number, and ignores the marks of other selections.
    """
    return Balls(
        t.rows, t.core, t.stats, t.owner, t.distances, t.action_distances, t.orders,
        t.action_orders, t.grid, t.everything, np.empty(N_PLACES, np.int64), t.seen,
    )  # fmt: skip


@jit_inline
def options(t):
    """Return two codes of `layout`: how ties are broken, and where in a ball to play."""
    return t.core[0]["ties"], t.core[0]["action_rule"]


@jit_inline
def sizes(t):
    """Return (n_state, n_action, horizon)."""
    return t.core[0]["n_state"], t.core[0]["n_action"], t.core[0]["horizon"]


@jit_inline
def has_room(t, n_splits):
    """Return whether the table has rows for `n_splits` lazy children.

    Return True if children are not lazy, because Python then makes room for them.
    """
    return t.core[0]["lazy"] == 0 or t.core[0]["n_rows"] + n_splits <= t.rows.shape[0]


@jit_inline
def read(t, point):
    """Read a state into scratch memory. Return the index of a bad coordinate, or -1."""
    code, found = index_of(t.grid, 0, t.core[0]["n_state"], point)
    if code != FINE:
        return found
    t.place[LAST_READ] = found
    return np.int64(-1)


@jit_inline
def best(t, step, ties):
    """Return (row of the best ball for the state, V of the state)."""
    row = select(t, t.core, t.everything, step, t.place[LAST_READ], ties)
    return row, min(ceiling(t.core, step), t.rows[row]["value"])


@jit_inline
def act(t, row, step, rule, action):
    """Write the action to play in a ball. Return the row of the ball."""
    state = t.place[LAST_READ]
    played = play_action(t, t.core, t.everything, row, step, state, rule)
    t.place[STATE_PLAYED], t.place[ACTION_PLAYED] = state, played
    point_of(t.grid, t.core[0]["n_state"], t.core[0]["n_action"], played, action)
    return row


@jit_no_refcount
def split(t, row):
    """Add a lazy child around the pair that was played. Return False if children are not lazy."""
    if t.core[0]["lazy"] == 0:
        return False
    add_ball(t, row, t.place[STATE_PLAYED], t.place[ACTION_PLAYED])
    return True


@jit_inline
def n_balls(t):
    """Return the number of active balls."""
    return t.core[0]["n_balls"]


@jit_inline
def locate(t, step, point, action):
    """Return (FINE, row) of the ball that contains a pair, or (BAD_STATE, coordinate index)."""
    n_state = t.core[0]["n_state"]
    code, state = index_of(t.grid, 0, n_state, point)
    if code != FINE:
        return BAD_STATE, state
    code, played = index_of(t.grid, n_state, t.core[0]["n_action"], action)
    if code != FINE:
        return BAD_STATE, n_state + played
    t.place[STATE_PLAYED], t.place[ACTION_PLAYED] = state, played
    return FINE, np.int64(t.owner[step, state, played])


PARTS = Parts(
    balls_at, with_own_scratch, options, has_room, read, best, act, update_ball, split, n_balls,
    sizes, locate,
)  # fmt: skip

KERNELS = compile_later("balls", PARTS)


# --- kernels that Python calls --------------------------------------------------------------------


@jit_kernel
def add_child(handle, parent, state, action):
    """Call `add_ball` on the table with this handle."""
    add_ball(balls_at(handle), parent, state, action)


@jit_kernel
def cover_domain(handle, row):
    """Call `cover` on the table with this handle."""
    return cover(balls_at(handle), row)


@jit_kernel
def locate_pair(handle, step, point, action):
    """Call `locate` on the table with this handle."""
    return locate(balls_at(handle), step, point, action)


@jit_kernel
def choose(handle, core, mask, step, point, ties, rule, action):
    """Write the action of the best ball, in the environment's units. Return (FINE, row).

    Return (BAD_STATE, i) for a bad coordinate i. Random numbers are drawn from `core` instead of
    the table's own core. Only actions a with mask[a] = 1 are played.
    """
    t = balls_at(handle)
    n_state = core[0]["n_state"]
    code, state = index_of(t.grid, 0, n_state, point)
    if code != FINE:
        return BAD_STATE, state
    row = select(t, core, mask, step, state, ties)
    played = play_action(t, core, mask, row, step, state, rule)
    point_of(t.grid, n_state, core[0]["n_action"], played, action)
    return FINE, row


@jit_kernel
def shortest_paths(lengths):
    """Replace the lengths of edges by the lengths of shortest paths, in place (Floyd-Warshall).

    The length of a missing edge is infinite.
    """
    n = lengths.shape[0]
    for k in range(n):
        for i in range(n):
            first = lengths[i, k]
            if first == np.inf:
                continue
            for j in range(n):
                lengths[i, j] = min(lengths[i, j], first + lengths[k, j])
