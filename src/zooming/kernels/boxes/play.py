"""The `Parts` of boxes, and the kernels that Python calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.boxes.layout import BAD_STATE, BERNSTEIN, EXACT, FINE, N_PLACES, N_STATS
from zooming.kernels.boxes.points import to_unit
from zooming.kernels.boxes.select import (
    diameter,
    find,
    keep_maxima,
    new_stack,
    play_action,
    select,
    select_feasible,
    update_ball,
    update_scaled,
    write_feasible,
)
from zooming.kernels.boxes.split import rows_needed
from zooming.kernels.boxes.split import split as split_box
from zooming.kernels.boxes.update_rule import ceiling, kept_bonus
from zooming.kernels.loop.crossing import Boxes, boxes_at
from zooming.kernels.loop.episodes import Parts, compile_later
from zooming.kernels.loop.jit import compile_kernel, jit_inline, jit_kernel
from zooming.kernels.loop.numba_parts import REFCOUNT


@jit_kernel
def with_own_scratch(t):
    """Return a copy of the record that has scratch memory of its own."""
    n_state, n_action = t.core[0]["n_state"], t.core[0]["n_action"]
    return Boxes(
        t.rows, t.core, t.stats, t.axes, np.zeros(N_PLACES, np.int64), np.empty(n_state),
        np.empty(n_action), np.empty(n_action), np.empty(n_action), new_stack(t.core), t.more,
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
    """Return whether the table has rows for the children of `n_splits` splits."""
    return t.core[0]["n_rows"] + rows_needed(t.core, n_splits) <= t.rows.shape[0]


@jit_inline
def read(t, point):
    """Read a state into scratch memory. Return the index of a bad coordinate, or -1."""
    return to_unit(t.axes, 0, point, t.state)


@jit_inline
def root_of(core, step):
    """Return the row of the root ball of a step's partition."""
    n_together = core[0]["shared"]
    return np.int64(step) // n_together if n_together > 0 else np.int64(step)


@jit_inline
def best_row(t, core, step, ties):
    """Return (row of the best ball for the state that was read, number of rows visited)."""
    return select(t.rows, core, root_of(core, step), t.state, ties, t.stack)


@jit_inline
def best(t, step, ties):
    """Return (row of the best ball, V) for the state that was read."""
    row, _ = best_row(t, t.core, step, ties)
    return row, min(ceiling(t.core, step), t.rows[row]["value"])


@jit_inline
def act(t, row, step, rule, action):
    """Write the action to play in a ball. Return the row of the ball that contains the action."""
    if not play_action(t.rows, t.core, t.axes, row, rule, t.low, t.high, action):
        n_state = t.core[0]["n_state"]
        to_unit(t.axes, n_state, action, t.action)
        row = find(t.rows, n_state, root_of(t.core, step), t.state, t.action)
    return row


@jit_kernel
def split(t, row):
    """Split a ball, unless its parts would exceed `max_balls`. Return True: Python does nothing."""
    split_box(t.rows, t.core, t.stats, t.axes, row)
    return True


@jit_inline
def n_balls(t):
    """Return the number of active balls."""
    return t.core[0]["n_balls"]


@jit_inline
def locate(t, step, point, action):
    """Return (FINE, row) of the ball that contains a pair, or (BAD_STATE, coordinate index)."""
    n_state = t.core[0]["n_state"]
    bad = to_unit(t.axes, 0, point, t.state)
    if bad >= 0:
        return BAD_STATE, bad
    bad = to_unit(t.axes, n_state, action, t.action)
    if bad >= 0:
        return BAD_STATE, n_state + bad
    return FINE, find(t.rows, n_state, root_of(t.core, step), t.state, t.action)


PARTS = Parts(
    boxes_at, with_own_scratch, options, has_room, read, best, act, update_scaled, split, n_balls,
    sizes, locate,
)  # fmt: skip
# The kernels for a bonus c / sqrt(t), and for every bonus. An agent compiles those that it uses.
SCALED_BONUS = compile_later("boxes", PARTS)
ANY_BONUS = compile_later("boxes_any_bonus", PARTS._replace(learn=update_ball))


class Queries(NamedTuple):
    """The compiled functions that Python calls. Points are in the environment's units."""

    locate_pair: Callable[..., Any]  # (handle, step, point, action) -> code, row or coordinate
    choose: Callable[..., Any]
    choose_many: Callable[..., Any]


def make_queries(name: str, best_row: Any, best_feasible: Any) -> Queries:
    """Compile the functions that Python calls on one kind of box table.

    `best_row(t, core, step, ties)` returns (row of the best ball, number of rows read).
    `best_feasible(t, core, step, ties, allowed, draws)` returns the row of the best feasible ball
    or, with `draws`, of one drawn by its value.
    """

    def locate_pair(handle, step, point, action):
        return locate(boxes_at(handle), step, point, action)

    def choose(handle, core, step, point, ties, rule, allowed, action, draws, others):
        """Write the action of the best ball. Return (FINE, row), or (BAD_STATE, coordinate).

        Random numbers are drawn from `core`. If `allowed` has rows, actions must be feasible, and
        there must be one. Each of `others`, a (state, action) under way, lowers Q of its ball
        during the call: by alpha_t b(t), as if visit t had lost its bonus.
        """
        t = boxes_at(handle)
        bad = read(t, point)
        if bad >= 0:
            return BAD_STATE, bad
        n, n_state, horizon = others.shape[0], core[0]["n_state"], np.float64(core[0]["horizon"])
        lowered, values = np.empty(n, np.int64), np.empty(n)
        is_kept = core[0]["bonus_rule"] == EXACT or core[0]["bonus_rule"] == BERNSTEIN
        stats = np.empty((n, N_STATS))
        for i in range(n):
            _, ball = locate(t, step, others[i, :n_state], others[i, n_state:])
            visit = np.int64(t.rows[ball]["n_visits"]) + 1
            for k in range(i):
                visit += lowered[k] == ball
            lowered[i], values[i] = ball, t.rows[ball]["value"]
            rate = (horizon + 1.0) / (horizon + min(visit, core[0]["memory"]))
            bonus = core[0]["bonus"] / np.sqrt(np.float64(visit))
            if is_kept:  # V' as it was on average: a Bernstein bonus keeps that first
                for j in range(N_STATS):
                    stats[i, j] = t.stats[ball, j]
                across = diameter(t.rows, core, t.axes, ball)
                usual = t.stats[ball, 0]
                bonus = kept_bonus(core, t.stats, step, ball, visit, across, rate, usual)
            t.rows[ball]["value"] -= rate * bonus
            keep_maxima(t.rows, ball)
        read(t, point)
        if allowed.shape[0] > 0:
            row = best_feasible(t, core, step, ties, allowed, draws)
            write_feasible(t.rows, core, t.axes, row, rule, allowed, t.low, t.high, action)
        else:
            row, _ = best_row(t, core, step, ties)
            play_action(t.rows, core, t.axes, row, rule, t.low, t.high, action)
        for i in range(n - 1, -1, -1):
            if is_kept:
                for j in range(N_STATS):
                    t.stats[lowered[i], j] = stats[i, j]
            t.rows[lowered[i]]["value"] = values[i]
            keep_maxima(t.rows, lowered[i])
        return FINE, row

    def choose_many(handle, core, steps, points, ties, rule, actions):
        """Write the action of each (step, point). Return (k, i) of a bad one, or (-1, -1)."""
        t = with_own_scratch(boxes_at(handle))
        for k in range(steps.shape[0]):
            bad = read(t, points[k])
            if bad >= 0:
                return k, bad
            row, _ = best_row(t, core, steps[k], ties)
            play_action(t.rows, core, t.axes, row, rule, t.low, t.high, actions[k])
        return -1, -1

    return Queries(*(
        compile_kernel(query, name=f"{query.__name__}_{name}", **REFCOUNT)
        for query in (locate_pair, choose, choose_many)
    ))  # fmt: skip


@jit_kernel
def best_feasible(t, core, step, ties, allowed, draws):
    """Return the row of the best feasible ball. Only a search draws, see `searching`."""
    return select_feasible(t, core, root_of(core, step), ties, allowed)


QUERIES = make_queries("boxes", best_row, best_feasible)
