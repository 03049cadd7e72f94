"""State axes that chance alone decides, and values that are averaged over them.

An axis of the next state is exogenous if its law depends neither on the state nor on the action,
like the next customer's need or the place of the next call. What it does to the value of the next
state is noise, which a regression would have to average out. If the axis is known to be exogenous,
the average is exact: V(x') is replaced by its mean over the exogenous axes, with the other axes of
x' as they are.

An axis counts as exogenous as long as the variance of its bins between the cells of (state, action)
is no larger than that within them, by the F statistic of an analysis of variance.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_kernel
from zooming.kernels.plan_layout import ENDED, EXOGENOUS, LEAST_FREEDOM, WEIGHT


@jit_kernel
def find_exogenous(cells, nexts, numbers, first, grid, strides, places, chances):
    """Find the exogenous axes, and write what `average_out` needs; return whether there are any.

    `places` [n_states] is the part of the state's cell number that the exogenous axes contribute.
    `chances` [horizon, n_states] has the shares of these parts among the next states of each step,
    or of all steps if no law depends on the step.
    """
    horizon, n_states = chances.shape
    has_any, by_step = False, False
    n_cells = 1
    for bins in grid.bins:
        n_cells *= bins
    count, total = np.zeros(n_cells), np.zeros(n_cells)
    for j in range(strides.shape[0]):
        if grid.bins[j] < 2:
            continue
        stride, n_bins = strides[j], grid.bins[j]
        count[:] = 0.0
        total[:] = 0.0
        n, square, n_steps, sum_means, square_means = 0.0, 0.0, 0, 0.0, 0.0
        for h in range(horizon):
            weight, mean = 1e-300, 0.0
            for i in range(first[h], first[h + 1]):
                if nexts[i] != ENDED:
                    weight += numbers[i, WEIGHT]
                    mean += numbers[i, WEIGHT] * ((nexts[i] // stride) % n_bins)
            mean /= weight
            for i in range(first[h], first[h + 1]):
                if nexts[i] != ENDED:
                    away = (nexts[i] // stride) % n_bins - mean
                    square += numbers[i, WEIGHT] * away * away
                    count[cells[i]] += numbers[i, WEIGHT]
                    total[cells[i]] += numbers[i, WEIGHT] * away
            n += weight
            n_steps += 1 if weight >= 1.0 else 0
            sum_means += weight * mean
            square_means += weight * mean * mean
        between, n_used = 0.0, 0
        for c in range(n_cells):
            if count[c] > 0.0:
                n_used += 1
                between += total[c] * total[c] / count[c]
        left = n - n_used - n_steps
        if left < LEAST_FREEDOM or n_used < 2 or square <= between:
            continue
        if not is_plausible(between / (n_used - 1.0), (square - between) / left, n_used, left):
            continue
        has_any = True
        for state in range(n_states):
            places[state] += stride * ((state // stride) % n_bins)
        if n_steps > 1:
            between = (square_means - sum_means * sum_means / n) / (n_steps - 1.0)
            is_same = is_plausible(between, square / (n - n_steps), n_steps, n - n_steps)
            by_step = by_step or not is_same
    if has_any:
        count_chances(nexts, numbers, first, places, by_step, chances)
    return has_any


@jit_kernel
def is_plausible(between, within, n_groups, left):
    """Return whether groups of one law may differ so much: the F statistic is about 1."""
    deviation = np.sqrt(2.0 / (n_groups - 1.0) + 2.0 / left)
    return between <= within * (1.0 + EXOGENOUS * deviation)


@jit_kernel
def count_chances(nexts, numbers, first, places, by_step, chances):
    """Write the shares of the exogenous parts of the next states, see `find_exogenous`."""
    horizon = chances.shape[0]
    for h in range(horizon):
        for other in range(horizon):
            if other == h or not by_step:
                for i in range(first[other], first[other + 1]):
                    if nexts[i] != ENDED:
                        chances[h, places[nexts[i]]] += numbers[i, WEIGHT]
        chances[h] /= max(1e-300, chances[h].sum())


@jit_kernel
def average_out(values, has_exogenous, chances, places, after):
    """Write the values of the next states into `after`, averaged over the exogenous axes."""
    if not has_exogenous:
        after[:] = values
        return
    after[:] = 0.0
    for state in range(values.shape[0]):
        after[state - places[state]] += chances[places[state]] * values[state]
    for state in range(values.shape[0]):
        after[state] = after[state - places[state]]
