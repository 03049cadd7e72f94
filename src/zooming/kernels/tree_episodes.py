"""Compile the kernels of optimistic trees: the drivers of `episodes`, and queries from Python."""

from __future__ import annotations

from zooming.kernels.box_episodes import (
    act,
    has_room,
    locate,
    n_balls,
    options,
    read,
    root_of,
    sizes,
    with_own_scratch,
)
from zooming.kernels.box_queries import make_queries
from zooming.kernels.boxes import make_select
from zooming.kernels.episodes import compile_later
from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.layout import EITHER
from zooming.kernels.masks import make_select_feasible
from zooming.kernels.records import boxes_at
from zooming.kernels.table_parts import Parts
from zooming.kernels.trees import index_of, share_of_first, split, update_ball
from zooming.kernels.update_rule import ceiling

select = make_select("trees", index_of)
select_feasible = make_select_feasible("trees", index_of)


@jit_inline
def best_row(t, core, step, ties):
    """Return (row of the best ball for the state, number of rows read).

    Random ties are drawn from the generator in `core`.
    """
    share = share_of_first(core, step)
    return select(t.rows, core, root_of(core, step), t.state, ties, t.stack, t.stats, share)


@jit_inline
def best(t, step, ties):
    """Return (row of the best ball for the state, V of the state)."""
    ties = EITHER if t.core[0]["shared"] == 1 else ties  # `choose` draws among ties
    row, _ = best_row(t, t.core, step, ties)
    index = index_of(t.rows, row, t.stats, share_of_first(t.core, step))
    return row, min(ceiling(t.core, step), index)


@jit_inline
def choose(t, step, row, ties):
    """Return the row of the ball to play.

    Select again if all steps share one partition: learning may have changed the best ball.
    """
    if t.core[0]["shared"] == 1:
        row, _ = best_row(t, t.core, step, ties)
    return row


@jit_kernel
def best_feasible(t, core, step, ties, allowed, draws):
    """Return the row of the best feasible ball for the state, see `masks`."""
    return select_feasible(
        t.rows, core, t.axes, root_of(core, step), t.state, ties, allowed, t.low, t.high,
        t.stats, share_of_first(core, step),
    )  # fmt: skip


PARTS = Parts(
    boxes_at, with_own_scratch, options, has_room, read, best, act, update_ball, split, n_balls,
    sizes, locate, choose,
)  # fmt: skip

KERNELS = compile_later("trees", PARTS)
QUERIES = make_queries("trees", best_row, best_feasible)
