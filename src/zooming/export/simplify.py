"""Cover the states with few boxes of one action each, close to what a policy plays.

Repeatedly, one box is cut in two along an axis, where this reduces the cost most. The cost of a box
is the weighted sum of the distances between the policy's actions in it and the action of the box.
That action is the one of the policy's actions with the smallest sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.export.regions import Ints, Regions, merge
from zooming.spaces.flatten import CATEGORICAL
from zooming.validation import Floats

MOST_CANDIDATES = 256  # actions among which a box chooses, those of the largest weight


@dataclass
class _Box:
    """A box under construction: its cells, its action, and the cut that reduces its cost most."""

    low: Floats
    high: Floats
    cells: Ints
    action: int  # number of a candidate
    cost: float
    gain: float = 0.0
    axis: int = 0
    face: float = np.nan


def simplify(
    regions: Regions,
    actions: Floats,
    distances: Floats,
    weights: Floats,
    n_boxes: int,
    enough: float = 0.0,
) -> tuple[Floats, Floats, Floats]:
    """Cover all states with at most `n_boxes` boxes. Return (low corners, high corners, actions).

    Parameters
    ----------
    regions : Regions
        The cells that the boxes are made of. A cell belongs to the box of its point.
    actions : array [n, k]
        The action that is played in each cell. The action of a box is one of these rows.
    distances : array [n, k]
        The same actions, scaled: the cost of playing one instead of another is the sum of the
        absolute differences of their rows.
    weights : array [n]
        Weight of each cell.
    n_boxes : int
        Largest number of boxes.
    enough : float, default 0.0
        Stop when the cost per unit of weight is below this number.
    """
    rows, number = np.unique(actions, axis=0, return_inverse=True)
    number = number.ravel()
    heaviest = np.argsort(-np.bincount(number, weights), kind="stable")[:MOST_CANDIDATES]
    one_cell = np.array([np.flatnonzero(number == k)[0] for k in heaviest])
    costs = np.abs(distances[:, None] - distances[one_cell]).sum(axis=2) * weights[:, None]
    n_state = regions.low.shape[1]
    everything = np.full(n_state, -np.inf), np.full(n_state, np.inf)
    boxes = [_box(regions, costs, *everything, np.arange(len(actions)))]
    while len(boxes) < n_boxes:
        i = max(range(len(boxes)), key=lambda k: boxes[k].gain)
        cost = sum(box.cost for box in boxes)
        if not boxes[i].gain > 0 or cost <= enough * weights.sum():
            break
        boxes[i : i + 1] = _cut(regions, costs, boxes[i])
    low, high = np.array([box.low for box in boxes]), np.array([box.high for box in boxes])
    chosen = heaviest[[box.action for box in boxes]]
    low, high, chosen = merge(low, high, chosen)
    order = np.lexsort(low.T[::-1])
    return low[order], high[order], rows[chosen[order]]


def scale_actions(axes: Any, actions: Floats) -> Floats:
    """Scale actions so that their distance is the sum of absolute differences.

    An interval gets length 1. Two different categories get distance 1.
    """
    columns = []
    for j in range(axes.n_action):
        axis, column = axes[axes.n_state + j], actions[:, j]
        if axis.kind == CATEGORICAL:
            columns.append((column[:, None] == np.unique(column)) / 2)
        else:
            unit = np.unique(column) if axis.squash else np.array([axis.low, axis.high])
            columns.append(((column - unit[0]) / (np.ptp(unit) or 1.0))[:, None])
    return np.hstack(columns)


def _box(regions: Regions, costs: Floats, low: Floats, high: Floats, cells: Ints) -> _Box:
    """Return a box with its best action and its best cut.

    `costs` [n_cells, n_candidates] is the cost of each candidate action in each cell.
    """
    sums = costs[cells].sum(axis=0)
    action = int(sums.argmin())
    box = _Box(low, high, cells, action, float(sums[action]))
    if box.cost == 0 or len(cells) < 2:
        return box
    for axis in range(regions.low.shape[1]):
        faces = np.unique(regions.low[cells, axis])
        faces = faces[(faces > low[axis]) & (faces < high[axis])]
        order = np.argsort(regions.points[cells, axis], kind="stable")
        n_left = np.searchsorted(regions.points[cells[order], axis], faces)
        is_cut = (n_left > 0) & (n_left < len(cells))
        if not is_cut.any():
            continue
        left = costs[cells[order]].cumsum(axis=0)[n_left[is_cut] - 1]
        after = left.min(axis=1) + (sums - left).min(axis=1)
        k = int(after.argmin())
        # A cut that gains nothing by itself may make a gain possible: it ranks last, above 0.
        gain = max(box.cost - float(after[k]), 1e-9 * box.cost)
        if gain > box.gain:
            box.gain, box.axis, box.face = gain, axis, float(faces[is_cut][k])
    return box


def _cut(regions: Regions, costs: Floats, box: _Box) -> list[_Box]:
    """Cut a box at its best cut and return the two parts."""
    is_right = regions.points[box.cells, box.axis] >= box.face
    middle_high, middle_low = box.high.copy(), box.low.copy()
    middle_high[box.axis] = middle_low[box.axis] = box.face
    return [
        _box(regions, costs, box.low, middle_high, box.cells[~is_right]),
        _box(regions, costs, middle_low, box.high, box.cells[is_right]),
    ]
