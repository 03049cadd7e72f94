"""Split the balls of a `BoxTable` by a user's rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zooming import kernels
from zooming.partitions import split_answers

if TYPE_CHECKING:
    from zooming.partitions.boxes import BoxTable


def split_by_rule(table: BoxTable, row: int) -> None:
    """Split a due ball by the table's rule, or set when it is due again."""
    axes, rows = table.axes, table.rows
    bits, at = split_answers.cuts(
        table.rule, split_answers.ball_at(table, row, axes.names, axes.table), axes.table
    )
    n_children = 1 << bits.bit_count()
    if not bits:
        # A TreeRule may give a later number of visits; for any other rule the ball stays whole.
        later = due_at_row(table, row) if split_answers.sees_statistics(table.rule) else 0.0
        rows["due_at"][row] = later if later > rows["n_visits"][row] else np.inf
    elif not _has_room(table, row, bits):
        rows["due_at"][row] = np.inf
    elif table.n_balls + n_children - 1 > table.core["max_balls"][0]:
        rows["due_at"][row] = np.inf  # balls never disappear: never due again
        table.is_full = True
    else:
        table.reserve(2 * (n_children - 1))  # may replace the rows
        ball, core = table.rows[row].copy(), table.core.copy()
        try:
            kernels.cut(table.rows, table.core, table.stats, axes.table, row, bits, at)
            children = range(table.rows_in_use - n_children, table.rows_in_use)
            table.rows["due_at"][children.start : children.stop] = [
                due_at_row(table, child) for child in children
            ]
        except BaseException:  # from the rule, or an interrupt: restore the ball, still due
            table.rows[row], table.core[:] = ball, core
            raise


def due_at_row(table: BoxTable, row: int) -> float:
    """Return the number of visits at which the rule splits a ball."""
    ball = split_answers.ball_at(table, row, table.axes.names, table.axes.table)
    return split_answers.due_at(table.rule, ball)


def _has_room(table: BoxTable, row: int, bits: int) -> bool:
    """Return whether the stack of a selection is large enough for the forks below these cuts.

    Each cut along an action axis on the path from the root is a fork. `bits` has one bit per axis
    that is cut.
    """
    n_state, n_forks = (
        int(table.core["n_state"][0]),
        (bits >> int(table.core["n_state"][0])).bit_count(),
    )
    while table.rows["parent"][row] != kernels.NO_PARENT:
        row = int(table.rows["parent"][row])
        n_forks += int(table.rows["axis"][row] >= n_state)
    return bool(n_forks <= kernels.most_splits(table.core["n_action"][0]))
