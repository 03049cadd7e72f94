"""Condense the samples of a planner: join similar ones to stay within the allowed memory."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.kernels import plan_layout as layout
from zooming.kernels.plan_layout import MEAN_REWARD, SPREAD, WEIGHT, Samples
from zooming.validation import Floats

_FULLEST = 2 / 3  # share of `max_samples` that condensing leaves


def condense(
    samples: Samples, n_samples: int, units: NDArray[np.int64], max_samples: int
) -> Samples:
    """Join similar samples among the first `n_samples`, until a third of the memory is free.

    Samples of one step are similar if state, action and next state fall into the same small box.
    The sides of the boxes triple until enough rows are free. Then values of integer axes are
    joined, too. A row keeps the number of its samples, the mean and the spread of their rewards,
    and the points of the first sample.
    """
    side = 1
    steps, places, numbers = (part[:n_samples] for part in samples)
    fine = np.tile(units, 2)[: places.shape[1]]
    while len(steps) > _FULLEST * max_samples and side <= 3 * layout.UNITS:
        side *= 3
        sides = np.where((fine == layout.UNITS) | (side > layout.UNITS), side, 1).astype(np.int32)
        columns = (places[:, j] // sides[j] for j in range(places.shape[1]))
        boxes = number_rows(chain([steps], columns))
        _, first, group = np.unique(boxes, return_index=True, return_inverse=True)
        order = np.argsort(first)  # keep the samples in the order of time
        steps, places = steps[first[order]], places[first[order]]
        numbers = join(numbers, group.reshape(-1), len(first))[order]
    return Samples(steps, places, np.ascontiguousarray(numbers))


def number_rows(columns: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """Return a number for each row of integer columns. Equal rows have equal numbers.

    One number per row takes a fifth of the memory of `numpy.unique` of rows.

    Examples
    --------
    >>> number_rows([np.array([2, 3, 2]), np.array([-1, 5, -1])]).tolist()
    [0, 13, 0]
    """
    numbers: NDArray[np.int64] = np.zeros(1, np.int64)
    most = 1
    for column in columns:
        least = int(column.min())
        size = int(column.max()) - least + 1
        if most * size >= 2**63:
            numbers = np.unique(numbers, return_inverse=True)[1].reshape(-1)
            most = int(numbers.max()) + 1
        numbers, most = numbers * size + (column - least), most * size
    return numbers


def join(numbers: Floats, group: NDArray[np.int64], n_groups: int) -> Floats:
    """Return weight, mean and spread of each group. `group` has the group of each sample."""
    weight = np.bincount(group, numbers[:, WEIGHT], n_groups)
    mean = np.bincount(group, numbers[:, WEIGHT] * numbers[:, MEAN_REWARD], n_groups) / weight
    away = numbers[:, MEAN_REWARD] - mean[group]
    spread = np.bincount(group, numbers[:, SPREAD] + numbers[:, WEIGHT] * away**2, n_groups)
    return np.column_stack([weight, mean, spread])
