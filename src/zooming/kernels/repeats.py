"""Tell from repeated transitions whether a problem has no noise."""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_kernel
from zooming.kernels.plan_layout import (
    AGREE,
    CLOSE,
    LEAST_REPEATS,
    MEAN_REWARD,
    RECENT,
    UNITS,
)


@jit_kernel
def repeats_agree(samples, n_samples, grid, n_cells, n_state, horizon, span):
    """Return whether transitions of a step from the same place agree; False if there are few.

    Each of the latest samples is compared with the one before it in the same cell and step, if both
    have the same place. `span` is that of the rewards seen.
    """
    n_axes = grid.bins.shape[0]
    before = np.full((horizon, n_cells), np.int64(-1))
    n_repeats, n_agree = 0, 0
    for k in range(max(0, n_samples - RECENT), n_samples):
        cell = np.int64(0)
        for j in range(n_axes):
            cell = cell * grid.bins[j] + grid.bin_of[j, samples.places[k, j]]
        i = before[samples.steps[k], cell]
        before[samples.steps[k], cell] = k
        is_repeat = i >= 0
        for j in range(n_axes):
            is_repeat = is_repeat and samples.places[k, j] == samples.places[i, j]
        if not is_repeat:
            continue
        away = abs(samples.numbers[k, MEAN_REWARD] - samples.numbers[i, MEAN_REWARD])
        agrees = away <= CLOSE * span
        for j in range(n_state):  # a place of an interval may be off by one; others are values
            off = abs(samples.places[k, n_axes + j] - samples.places[i, n_axes + j])
            agrees = agrees and off <= (1 if grid.units[j] == UNITS else 0)
        n_repeats += 1
        n_agree += 1 if agrees else 0
    return n_repeats >= LEAST_REPEATS and n_agree >= AGREE * n_repeats
