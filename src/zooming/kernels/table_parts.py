"""The compiled functions in which tables differ. `episodes` is written once for all tables."""

from __future__ import annotations

from typing import Any, NamedTuple

from zooming.kernels.jit import jit_inline, jit_kernel


@jit_inline
def keep_row(t, step, row, ties):
    """Return `row`: the `choose` of tables in which learning cannot change the best ball."""
    return row


class Parts(NamedTuple):
    """The compiled functions of one kind of table. `t` is its record of arrays.

    A point that was read stays in the scratch memory of `t` until the next one is read. It is the
    state for which `best` selects and `act` plays.
    """

    open: Any  # (handle) -> t
    with_own_scratch: Any  # (t) -> t with scratch memory of its own
    options: Any  # (t) -> (ties, action rule)
    has_room: Any  # (t, n_steps) -> whether so many steps can be played before Python acts
    read: Any  # (t, point) -> -1, or the index of a bad coordinate
    best: Any  # (t, step, ties) -> (row of the best relevant ball, its capped Q)
    act: Any  # (t, row, step, rule, action) -> row of the ball that contains the action written
    learn: Any  # (t, step, row, reward, next value, action) -> whether the ball is due
    split: Any  # (t, row) -> whether the ball was split; if not, Python must do it
    n_balls: Any  # (t) -> number of active balls
    sizes: Any = None  # (t) -> (n_state, n_action, horizon); this and the next: Python driver only
    locate: Any = None  # (t, step, point, action) -> (FINE, row) or (BAD_STATE, coordinate)
    choose: Any = keep_row  # (t, step, row of `best`, ties) -> row to play, asked last


@jit_kernel
def itself(t):
    """Return `t`: the `with_own_scratch` of tables whose `open` makes new scratch memory."""
    return t


@jit_inline
def no_split(t, row):
    """Return True: the `split` of tables that have nothing to split."""
    return True
