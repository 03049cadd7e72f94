"""Show the active balls of a `BoxTable` as arrays in the environment's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming.partitions.borders import corners
from zooming.partitions.faults import lengths
from zooming.partitions.view import Partition
from zooming.validation import Floats

if TYPE_CHECKING:
    from zooming.partitions.boxes import BoxTable


def view_boxes(table: BoxTable, step: int) -> Partition:
    """Return the active balls of a step, sorted by row."""
    axes = table.axes
    row, low, high = table.boxes(step)
    balls = table.rows[row]
    depth = balls["depth"].astype(np.int64)
    return Partition(
        low=corners(axes, low),
        high=corners(axes, high),
        q_value=np.array(table.q_values(step, row)),
        n_visits=balls["n_visits"].astype(np.int64),
        depth=depth,
        radius=_radii(table.core, depth, lengths(axes.table, low, high)),
        names=tuple(axes.names),
        step=step,
        kinds=tuple(axes.kinds),
        weights=tuple(axes.weights),
        paths=tuple(axes.paths),
    )


def _radii(core: NDArray[Any], depth: NDArray[np.int64], side_lengths: Floats) -> Floats:
    """Return the radius of each ball, as `Partition` defines it."""
    if core["cubes"][0]:
        return np.asarray(0.5**depth)
    if core["spacing"][0]:
        return np.full(len(depth), core["spacing"][0])
    return np.asarray(side_lengths.max(axis=1))
