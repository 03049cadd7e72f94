"""Count the visits of balls, each visit once, although children inherit those of their parents."""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.kernels import NO_PARENT
from zooming.validation import Floats


def spread_visits(agent: Any, step: int, balls: Any, size: Floats) -> Floats:
    """Return the visits of each active ball, counting each visit once.

    In the table, every child inherits all visits of its ancestors. Here a visit of an ancestor is
    divided among its active descendants, in proportion to their volume, `size`.
    """
    agent = getattr(agent, "recommended", agent)  # of a portfolio
    table: Any = getattr(agent, "learned", None)  # of an agent with a table of balls
    rows = getattr(table, "rows", None)
    if rows is None or "parent" not in (rows.dtype.names or ()):
        return np.asarray(balls.n_visits, np.float64)
    # A last entry stands for NO_PARENT, which is -1: it has no visits and is its own parent.
    n_visits, parent = np.append(rows["n_visits"], 0.0), np.append(rows["parent"], NO_PARENT)
    own = n_visits - n_visits[parent]
    path = [table.boxes(step)[0]]  # rows of the active balls, of their parents, and so on
    while (path[-1] != NO_PARENT).any():
        path.append(parent[path[-1]])
    volume = np.zeros(len(own))
    for at in path:
        np.add.at(volume, at, size)
    return np.asarray(sum(own[at] * size / volume[at] for at in path))
