"""The functions of `table_parts` for balls of a metric, and kernels that Python calls on them."""

from __future__ import annotations

import numpy as np

from zooming.kernels.balls import add_ball, index_of, play_action, point_of, select, update_ball
from zooming.kernels.episodes import compile_later
from zooming.kernels.jit import jit_inline, jit_kernel, jit_no_refcount
from zooming.kernels.layout import (
    ACTION_PLAYED,
    BAD_STATE,
    FINE,
    LAST_READ,
    N_PLACES,
    STATE_PLAYED,
)
from zooming.kernels.records import Balls, balls_at
from zooming.kernels.table_parts import Parts
from zooming.kernels.update_rule import ceiling


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
