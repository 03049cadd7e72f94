"""The functions of `table_parts` for boxes. `box_queries` has the kernels that Python calls.

`searching` and `models` replace some of them for agents of other papers.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.boxes import find, new_stack, play_action, select, update_ball, update_scaled
from zooming.kernels.episodes import compile_later
from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.layout import BAD_STATE, FINE, N_PLACES, OWN
from zooming.kernels.points import to_unit
from zooming.kernels.records import Boxes, boxes_at
from zooming.kernels.splitting import rows_needed
from zooming.kernels.splitting import split as split_box
from zooming.kernels.table_parts import Parts
from zooming.kernels.update_rule import ceiling


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
    return np.int64(0) if core[0]["shared"] == 1 else np.int64(step)


@jit_inline
def best_row(t, core, step, ties):
    """Return (row of the best ball for the state that was read, number of rows visited).

    Random numbers are drawn from `core`.
    """
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
    """Split a ball, unless a user wrote the split rule. Return whether the ball was split."""
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
