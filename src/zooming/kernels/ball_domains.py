"""Domains of balls of a finite metric space, and how children cover them. See `balls`."""

from __future__ import annotations

import numpy as np

from zooming.kernels.balls import PAIRS, add_ball, combine_distances, pair_distance
from zooming.kernels.jit import jit_kernel, jit_no_refcount
from zooming.kernels.layout import FINE, FULL
from zooming.kernels.records import balls_at

SAMPLE = 256  # the most points of a domain on which a candidate for a center is judged


@jit_no_refcount
def n_within(t, row, step, reach, points, n_points, point):
    """Return how many points of a domain a child around `point` would take over.

    At most SAMPLE points are counted, evenly spaced in `points`.
    """
    owner = t.owner
    n_actions = owner.shape[2]
    state = point // n_actions
    action = point % n_actions
    n_looks = min(n_points, SAMPLE)
    n = 0
    for k in range(n_looks):
        other = points[k * n_points // n_looks]
        x = other // n_actions
        a = other % n_actions
        if pair_distance(t, state, action, x, a) <= reach:
            n += np.int64(owner[step, x, a] == row)
    return n


@jit_no_refcount
def domain(t, row, points):
    """Write the points of a domain, as x * n_a + a, and return their number.

    The points are sorted by the distance of the state from the center's state, then by the distance
    of the action from the center's action. If the metric is not a product, they are sorted by the
    distance of the pair.
    """
    table, core, owner = t.rows, t.core, t.owner
    distances, action_distances = t.distances, t.action_distances
    orders, action_orders = t.orders, t.action_orders
    step = table[row]["step"]
    state = table[row]["state"]
    action = table[row]["action"]
    reach = table[row]["reach"]
    n_actions = owner.shape[2]
    is_product = core[0]["power"] != PAIRS
    center = np.int64(state) if is_product else np.int64(state) * n_actions + action
    n = 0
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
            if owner[step, x, a] == row:
                points[n] = x * n_actions + a
                n += 1
    return n


@jit_no_refcount
def cover(t, row, most_tries, points, n_left):
    """Cover dom(B) with children. Return FINE, or FULL if the table has no free row.

    This is the oracle `metrics.Greedy`. For each child, it compares `most_tries` uncovered points,
    evenly spaced in `points`, and chooses the one whose ball takes the most points. `points` is the
    domain before the split. Its first n_left[0] entries contain all uncovered points. Covering
    stops at `max_balls`. After FULL, make room and call again with the same `points` and `n_left`.
    """
    table, core, owner = t.rows, t.core, t.owner
    step = table[row]["step"]
    reach = table[row]["reach"] * 0.5 ** (core[0]["power"] if core[0]["power"] > 0.0 else 1.0)
    n_actions = owner.shape[2]
    while table[row]["n_points"] > 0:
        if core[0]["n_balls"] >= core[0]["max_balls"]:
            return FINE
        if core[0]["n_rows"] >= table.shape[0]:
            return FULL
        if 2 * table[row]["n_points"] <= n_left[0]:  # half are covered: so the total time is linear
            n = 0
            for i in range(n_left[0]):
                if owner[step, points[i] // n_actions, points[i] % n_actions] == row:
                    points[n] = points[i]
                    n += 1
            n_left[0] = n
        best = np.int64(-1)
        most = -1
        n_tries = min(most_tries, np.int64(table[row]["n_points"]))
        for c in range(n_tries):
            i = c * n_left[0] // n_tries
            while owner[step, points[i] // n_actions, points[i] % n_actions] != row:
                i = (i + 1) % n_left[0]
            if n_tries == 1:
                best = points[i]
                break
            n = n_within(t, row, step, reach, points, n_left[0], points[i])
            if n > most:
                most = n
                best = points[i]
        add_ball(t, row, best // n_actions, best % n_actions)
    return FINE


@jit_kernel
def write_domain(handle, row, points):
    """Call `domain` on the table with this handle."""
    return domain(balls_at(handle), row, points)


@jit_kernel
def cover_domain(handle, row, most_tries, points, n_left):
    """Call `cover` on the table with this handle."""
    return cover(balls_at(handle), row, most_tries, points, n_left)
