"""Cut the roots of a ball table into the cells of a net, or of a first partition."""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.partitions.table import n_roots
from zooming.validation import Floats


def cut_into_cells(table: Any, borders: list[Floats]) -> None:
    """Cut every root of a new `BoxTable` at borders[i] along axis i.

    The borders of an axis are ascending and inside (0, 1). Each split halves the number of cells.
    If the number is odd, the second child gets one more. `kernels.draw_tied` relies on this. A net
    is cut along its state axes first. Below them, the value of an inner row is then the largest Q
    of one state. So selection finds the maximum at once, and can draw among ties.
    """
    core = table.core
    n_axes = len(borders)
    row = np.arange(n_roots(core))
    first = np.zeros((len(row), n_axes), np.int64)  # each row covers cells first to last - 1
    last = np.tile(
        np.array([len(axis_borders) + 1 for axis_borders in borders], np.int64), (len(row), 1)
    )
    most = max((len(axis_borders) for axis_borders in borders), default=0)
    border = np.array(
        [np.pad(axis_borders, (0, most - len(axis_borders))) for axis_borders in borders]
    )
    is_net = bool(core["spacing"][0])
    is_state = is_net & (np.arange(n_axes) < core["n_state"][0])
    while True:
        wide = (last - first > 1).any(axis=1)
        row, first, last = row[wide], first[wide], last[wide]
        if not len(row):
            break
        width = last - first
        is_first = is_state & (width > 1)
        axis = np.argmax(np.where(is_first, width + most + 1, width), axis=1)
        each = np.arange(len(row))
        middle = (first[each, axis] + last[each, axis]) // 2
        child = table.rows_in_use + 2 * each
        table.reserve(2 * len(row))
        table.rows["axis"][row] = axis
        table.rows["cut"][row] = border[axis, middle - 1]
        table.rows["child"][row] = child
        core["n_rows"] += 2 * len(row)
        core["n_balls"] += len(row)
        for side in (0, 1):
            table.rows["value"][child + side] = table.rows["value"][row]
            table.rows["parent"][child + side] = row
            table.rows["due_at"][child + side] = np.inf
        left_last, right_first = last.copy(), first.copy()
        left_last[each, axis] = right_first[each, axis] = middle
        row = np.concatenate([child, child + 1])
        first, last = np.concatenate([first, right_first]), np.concatenate([left_last, last])
