"""Kernels on boxes that Python calls, written once for all kinds of box tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from zooming.kernels.box_episodes import best_row, locate, read, root_of, with_own_scratch
from zooming.kernels.boxes import play_action
from zooming.kernels.jit import compile_kernel, jit_kernel
from zooming.kernels.layout import BAD_STATE, EITHER, FINE
from zooming.kernels.masks import select_feasible, write_feasible
from zooming.kernels.numba_parts import REFCOUNT
from zooming.kernels.records import boxes_at


class Queries(NamedTuple):
    """The compiled functions that Python calls. Points are in the environment's units."""

    locate_pair: Callable[..., Any]  # (handle, step, point, action) -> code, row or coordinate
    choose_once: Callable[..., Any]
    choose_feasible: Callable[..., Any]
    choose_many: Callable[..., Any]
    n_read: Callable[..., Any]  # (handle, step, point) -> number of rows that a selection reads


def make_queries(name: str, best_row: Any, best_feasible: Any) -> Queries:
    """Compile the functions that Python calls on one kind of box table.

    `best_row(t, core, step, ties)` returns (row of the best ball, number of rows read) for the
    state that was read. `best_feasible(t, core, step, ties, allowed, draws)` returns the row of the
    best feasible ball. With `draws`, it returns a random feasible
    ball, drawn as in a search.
    """

    def locate_pair(handle, step, point, action):
        return locate(boxes_at(handle), step, point, action)

    def choose_once(handle, core, step, point, ties, rule, action):
        """Write the action of the best ball, in the environment's units. Return (FINE, row).

        Return (BAD_STATE, i) for a bad coordinate i. Random numbers are drawn from `core` instead
        of the table's own core.
        """
        t = boxes_at(handle)
        bad = read(t, point)
        if bad >= 0:
            return BAD_STATE, bad
        row, _ = best_row(t, core, step, ties)
        play_action(t.rows, core, t.axes, row, rule, t.low, t.high, action)
        return FINE, row

    def choose_feasible(handle, core, step, point, ties, rule, allowed, action, draws):
        """Call `choose_once` restricted to feasible actions. See `masks`.

        At least one action must be feasible. With `draws`, the ball is drawn by its value, as in a
        search.
        """
        t = boxes_at(handle)
        bad = read(t, point)
        if bad >= 0:
            return BAD_STATE, bad
        row = best_feasible(t, core, step, ties, allowed, draws)
        write_feasible(t.rows, core, t.axes, row, rule, allowed, t.low, t.high, action)
        return FINE, row

    def choose_many(handle, core, steps, points, rule, actions):
        """Write the action of the best ball for each (step, point).

        Return (k, i) if coordinate i of point k is bad, else (-1, -1).
        """
        t = with_own_scratch(boxes_at(handle))
        for k in range(steps.shape[0]):
            bad = read(t, points[k])
            if bad >= 0:
                return k, bad
            row, _ = best_row(t, core, steps[k], EITHER)
            play_action(t.rows, core, t.axes, row, rule, t.low, t.high, actions[k])
        return -1, -1

    def n_read(handle, step, point):
        t = boxes_at(handle)
        read(t, point)
        _, n = best_row(t, t.core, step, EITHER)
        return n

    return Queries(*(
        compile_kernel(query, name=f"{query.__name__}_{name}", **REFCOUNT)
        for query in (locate_pair, choose_once, choose_feasible, choose_many, n_read)
    ))  # fmt: skip


@jit_kernel
def best_feasible(t, core, step, ties, allowed, draws):
    """Return the row of the best feasible ball. Only a search draws, see `searching`."""
    root = root_of(core, step)
    return select_feasible(t.rows, core, t.axes, root, t.state, ties, allowed, t.low, t.high)


QUERIES = make_queries("boxes", best_row, best_feasible)
