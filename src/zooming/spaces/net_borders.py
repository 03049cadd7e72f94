"""The borders of a net: cells of equal size along each axis."""

from __future__ import annotations

import math

import numpy as np

from zooming.errors import SpaceError
from zooming.kernels import WEIGHT
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, ORDERED
from zooming.validation import Floats


def net_borders(axes: Axes, spacing: float, most: int, points: str = "centers") -> list[Floats]:
    """Return the borders of a net along each axis. An axis of less weight has a wider spacing.

    With `points="centers"`, the borders of an interval are the multiples of the spacing. With
    "multiples", they lie halfway between these. Borders of an integer axis always lie between two
    values, nearest to the multiples. Raise SpaceError for more than `most` cells along one axis,
    before memory is allocated.
    """
    if max(axes.n_values) > most:
        raise SpaceError(
            f"the categories alone make more than {most:,} balls; name axes that have an "
            "order, ordered="
        )
    found = axes.cells()
    for i in range(len(axes)):
        axis = axes[i]
        if axis.kind == CATEGORICAL or axis.weight == 0:
            continue
        share, n_values = min(1.0, spacing / axes.table[i, WEIGHT]), axis.high - axis.low + 1
        n_cells = math.ceil(1 / share - 1e-9)  # against rounding up by rounding errors
        if min(n_cells, n_values if axis.kind == ORDERED else math.inf) > most:
            raise SpaceError(
                f"spacing={spacing:g} makes more than {most:,} balls; use a coarser net"
            )
        if axis.kind == ORDERED and share * n_values <= 1:
            found[i] = np.arange(1, int(n_values)) / int(n_values)  # between any two values
            continue
        is_shifted = points == "multiples" and axis.kind == INTERVAL
        found[i] = (np.arange(1, n_cells) - (0.5 if is_shifted else 0.0)) * share
        if axis.kind == ORDERED:
            inner = np.unique(np.rint(found[i] * n_values))
            found[i] = inner[(inner > 0) & (inner < n_values)] / n_values
    return found
