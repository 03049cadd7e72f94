"""Find exogenous state axes, and average values over them.

An axis of the next state is exogenous if its law depends neither on the state nor on the action,
like the next customer's need or the place of the next call. Its effect on the value of the next
state is noise. A regression would need many samples to average it out. Instead, V(x') is replaced
by its mean over the exogenous axes; the other axes of x' keep their values.

An axis counts as exogenous unless a test rejects it. The F statistic of an analysis of variance
compares the variance between the cells of (state, action) with the variance within them: of the
bins and of their squared deviations, or, on an axis of categories, of each category's indicator.
And the axis must not correlate, within the cells, with an axis that is not exogenous.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.plan_layout import (
    CATEGORIES,
    ENDED,
    EXOGENOUS,
    LEAST_FREEDOM,
    MOST_CATEGORIES,
    OTHER_STEPS,
    WEIGHT,
)


@jit_kernel
def find_exogenous(cells, nexts, numbers, first, grid, strides, places, chances):
    """Find the exogenous axes; write `places` and `chances`; return whether there are any.

    `places` [n_states] is the contribution of the exogenous axes to the number of a state's cell.
    `chances` [horizon, n_states] is the frequency of each contribution among the next states of a
    step. It is that of all steps if no exogenous axis depends on the step.
    """
    n_axes, n_cells = strides.shape[0], 1
    for n_bins in grid.bins:
        n_cells *= n_bins
    is_exogenous, by_step = np.zeros(n_axes, np.bool_), False
    rests, sums = np.zeros((n_axes, cells.shape[0])), np.zeros((2, n_cells))
    for j in range(n_axes):
        n_bins = grid.bins[j]
        n_scores = n_bins if grid.kinds[j] == CATEGORIES else 2
        may_be = n_bins >= 2 and n_scores <= MOST_CATEGORIES
        differs = False
        for k in range(n_scores if may_be else 0):
            if grid.kinds[j] == CATEGORIES or k == 0:
                for i in range(cells.shape[0]):
                    i_bin = bin_of(nexts[i], strides[j], n_bins)
                    is_one = 1.0 if i_bin == k else 0.0
                    rests[j, i] = is_one if grid.kinds[j] == CATEGORIES else np.float64(i_bin)
            else:  # what is left of the bins after the cell's mean, squared
                for i in range(cells.shape[0]):
                    rests[j, i] = rests[j, i] * rests[j, i]
            depends, depends_on_step = find_dependence(rests[j], cells, nexts, numbers, first, sums)
            may_be = may_be and not depends
            differs = differs or depends_on_step
        is_exogenous[j] = may_be
        by_step = by_step or (may_be and differs)
        for i in range(cells.shape[0]):  # for the correlations
            rests[j, i] = np.float64(bin_of(nexts[i], strides[j], n_bins))
        find_dependence(rests[j], cells, nexts, numbers, first, sums)
    drop_correlated(rests, nexts, numbers, is_exogenous)
    for j in range(n_axes):
        if is_exogenous[j]:
            for state in range(places.shape[0]):
                places[state] += strides[j] * bin_of(state, strides[j], grid.bins[j])
    if is_exogenous.any():
        count_chances(nexts, numbers, first, places, by_step, chances)
    return is_exogenous.any()


@jit_inline
def bin_of(cell, stride, n_bins):
    """Return the bin of a state's cell along the axis of a stride; 0 for ENDED."""
    return (cell // stride) % n_bins if cell != ENDED else 0


@jit_kernel
def find_dependence(scores, cells, nexts, numbers, first, sums):
    """Test whether scores of next states depend on the cell, and on the step: return both answers.

    With too few samples, the first answer is True. The mean of the step, then the mean of the cell,
    are taken off the scores.
    """
    n, square, n_steps, sum_means, square_means = 0.0, 0.0, 0, 0.0, 0.0
    sums[:] = 0.0
    for h in range(first.shape[0] - 1):
        weight, mean = 1e-300, 0.0
        for i in range(first[h], first[h + 1]):
            if nexts[i] != ENDED:
                weight += numbers[i, WEIGHT]
                mean += numbers[i, WEIGHT] * scores[i]
        mean /= weight
        for i in range(first[h], first[h + 1]):
            if nexts[i] != ENDED:
                scores[i] -= mean
                square += numbers[i, WEIGHT] * scores[i] * scores[i]
                sums[0, cells[i]] += numbers[i, WEIGHT]
                sums[1, cells[i]] += numbers[i, WEIGHT] * scores[i]
        n += weight
        n_steps += 1 if weight >= 1.0 else 0
        sum_means += weight * mean
        square_means += weight * mean * mean
    between, n_used = 0.0, 0
    for c in range(sums.shape[1]):
        if sums[0, c] > 0.0:
            n_used += 1
            between += sums[1, c] * sums[1, c] / sums[0, c]
    for i in range(scores.shape[0]):
        if nexts[i] != ENDED:
            scores[i] -= sums[1, cells[i]] / sums[0, cells[i]]
    left = n - n_used - n_steps
    if left < LEAST_FREEDOM or n_used < 2 or square <= between:
        return True, True
    is_same = is_plausible(between / (n_used - 1.0), (square - between) / left, n_used, left)
    if n_steps < 2:
        return not is_same, False
    between = (square_means - sum_means * sum_means / n) / (n_steps - 1.0)
    left = n - n_steps
    return not is_same, not is_plausible(between, square / left, n_steps, left)


@jit_inline
def is_plausible(between, within, n_groups, left):
    """Return whether groups of one law may differ so much: the F statistic is about 1."""
    deviation = np.sqrt(2.0 / (n_groups - 1.0) + 2.0 / left)
    return between <= within * (1.0 + EXOGENOUS * deviation)


@jit_kernel
def drop_correlated(rests, nexts, numbers, is_exogenous):
    """Drop the axes that correlate with one that is not exogenous; `rests` are without cell means.

    Exogenous axes may correlate with each other: values are averaged over their joint law.
    """
    n_axes = is_exogenous.shape[0]
    for _ in range(n_axes):  # an axis that is dropped may correlate with others
        for j in range(n_axes):
            for k in range(n_axes):
                if is_exogenous[j] and not is_exogenous[k]:
                    total, square = 0.0, 0.0
                    for i in range(nexts.shape[0]):
                        if nexts[i] != ENDED:
                            product = rests[j, i] * rests[k, i]
                            total += numbers[i, WEIGHT] * product
                            square += numbers[i, WEIGHT] * product * product
                    if abs(total) > EXOGENOUS * np.sqrt(square):
                        is_exogenous[j] = False


@jit_kernel
def count_chances(nexts, numbers, first, places, by_step, chances):
    """Write the frequencies of the exogenous contributions, see `find_exogenous`.

    If laws depend on the step, those of all steps count like OTHER_STEPS samples of the step.
    """
    pooled = np.zeros(places.shape[0])
    for i in range(nexts.shape[0]):
        if nexts[i] != ENDED:
            pooled[places[nexts[i]]] += numbers[i, WEIGHT]
    pooled /= max(1e-300, pooled.sum())
    for h in range(chances.shape[0]):
        chances[h] = OTHER_STEPS * pooled
        for i in range(first[h], first[h + 1] if by_step else first[h]):
            if nexts[i] != ENDED:
                chances[h, places[nexts[i]]] += numbers[i, WEIGHT]
        chances[h] /= chances[h].sum()


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
