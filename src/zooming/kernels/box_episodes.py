"""Boxes in the drivers of `episodes`, and what Python asks about them."""

from __future__ import annotations

import numpy as np

from zooming.kernels.boxes import find, new_stack, play_action, select, update_ball
from zooming.kernels.episodes import Parts, compile_later
from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.layout import BAD_STATE, EITHER, FINE, N_PLACES, OWN
from zooming.kernels.masks import select_feasible, write_feasible
from zooming.kernels.points import to_unit
from zooming.kernels.records import Boxes, boxes_at
from zooming.kernels.replay import compile_replay
from zooming.kernels.splitting import rows_needed
from zooming.kernels.splitting import split as split_box
from zooming.kernels.update_rule import ceiling


@jit_kernel
def with_own_scratch(t):
    """Return the record with scratch memory of its own."""
    n_state, n_action = t.core[0]["n_state"], t.core[0]["n_action"]
    return Boxes(
        t.rows, t.core, t.stats, t.axes, np.empty(N_PLACES, np.int64), np.empty(n_state),
        np.empty(n_action), np.empty(n_action), np.empty(n_action), new_stack(t.core),
    )  # fmt: skip


@jit_inline
def options(t):
    """Return (ties, action rule)."""
    return t.core[0]["ties"], t.core[0]["action_rule"]


@jit_inline
def sizes(t):
    """Return (n_state, n_action, horizon)."""
    return t.core[0]["n_state"], t.core[0]["n_action"], t.core[0]["horizon"]


@jit_inline
def has_room(t, n_splits):
    """Return whether the children of so many splits fit in."""
    return t.core[0]["n_rows"] + rows_needed(t.core, n_splits) <= t.rows.shape[0]


@jit_inline
def read(t, point):
    """Read a state; return -1, or the index of a bad coordinate."""
    return to_unit(t.axes, 0, point, t.state)


@jit_inline
def best(t, step, ties):
    """Return (row of the best ball for the state, V of the state)."""
    row, _ = select(t.rows, t.core, step, t.state, ties, t.stack)
    return row, min(ceiling(t.core, step), t.rows[row]["value"])


@jit_inline
def act(t, row, step, rule, action):
    """Write the action played in a ball; return the row of the ball that contains it."""
    if not play_action(t.rows, t.core, t.axes, row, rule, t.low, t.high, action):
        n_state = t.core[0]["n_state"]
        to_unit(t.axes, n_state, action, t.action)
        row = find(t.rows, n_state, step, t.state, t.action)
    return row


@jit_kernel
def split(t, row):
    """Split a ball, unless its rule is a user's; return whether that is done."""
    if t.core[0]["rule"] == OWN:
        return False
    split_box(t.rows, t.core, t.stats, t.axes, row)
    return True


@jit_inline
def n_balls(t):
    """Return the number of active balls."""
    return t.core[0]["n_balls"]


@jit_inline
def locate(t, step, point, action):
    """Return (FINE, row) of the ball that contains a pair, or (BAD_STATE, coordinate)."""
    n_state = t.core[0]["n_state"]
    bad = to_unit(t.axes, 0, point, t.state)
    if bad >= 0:
        return BAD_STATE, bad
    bad = to_unit(t.axes, n_state, action, t.action)
    if bad >= 0:
        return BAD_STATE, n_state + bad
    return FINE, find(t.rows, n_state, step, t.state, t.action)


PARTS = Parts(
    boxes_at, with_own_scratch, options, has_room, read, best, act, update_ball, split, n_balls,
    sizes, locate,
)  # fmt: skip


# Functions that return the kernels of `episodes` for boxes, compiled on first use.
play, act_once, update, next_step = compile_later("boxes", PARTS)
replay = compile_replay("boxes", update)


# --- what Python asks -----------------------------------------------------------------------------


@jit_kernel
def locate_pair(handle, step, point, action):
    """Return `locate` of a pair."""
    return locate(boxes_at(handle), step, point, action)


@jit_kernel
def choose(handle, core, step, point, ties, rule, action):
    """Write the action of the best ball (environment's units); return (FINE, row).

    Return (BAD_STATE, i) for a bad coordinate i. `core` is drawn from instead of the table's own.
    """
    t = boxes_at(handle)
    bad = read(t, point)
    if bad >= 0:
        return BAD_STATE, bad
    row, _ = select(t.rows, core, step, t.state, ties, t.stack)
    play_action(t.rows, core, t.axes, row, rule, t.low, t.high, action)
    return FINE, row


@jit_kernel
def choose_feasible(handle, core, step, point, ties, rule, allowed, action):
    """Return `choose` among the feasible actions; see `masks`. At least one is feasible."""
    t = boxes_at(handle)
    bad = read(t, point)
    if bad >= 0:
        return BAD_STATE, bad
    row = select_feasible(t.rows, core, t.axes, step, t.state, ties, allowed, t.low, t.high)
    write_feasible(t.rows, core, t.axes, row, rule, allowed, t.low, t.high, action)
    return FINE, row


@jit_kernel
def choose_many(handle, core, steps, points, rule, actions):
    """Write the action of the best ball for each (step, point).

    Return (k, i) if coordinate i of point k is bad, else (-1, -1).
    """
    t = with_own_scratch(boxes_at(handle))
    for k in range(steps.shape[0]):
        bad = read(t, points[k])
        if bad >= 0:
            return k, bad
        row, _ = select(t.rows, core, steps[k], t.state, EITHER, t.stack)
        play_action(t.rows, core, t.axes, row, rule, t.low, t.high, actions[k])
    return -1, -1


@jit_kernel
def n_read(handle, step, point):
    """Return how many rows a selection reads."""
    t = boxes_at(handle)
    read(t, point)
    _, n = select(t.rows, t.core, step, t.state, EITHER, t.stack)
    return n
