"""Find exogenous state axes, and average values over them.

An axis of the next state is exogenous if its law depends neither on the state nor on the action,
like the next customer's need or the place of the next call. Its effect on the value of the next
state is noise. A regression would need many samples to average it out. Instead, V(x') is replaced
by its mean over the exogenous axes; the other axes of x' keep their values.

An axis counts as exogenous unless a test rejects it. The F statistic of an analysis of variance
compares the variance between the cells of (state, action) with the variance within them: of the
bins and of their squared deviations, or, on an axis of categories, of each category's indicator.
The axis must also be uncorrelated, within the cells, with every axis that is not exogenous.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.layout import (
    CATEGORIES,
    ENDED,
    EXOGENOUS,
    LEAST_FREEDOM,
    MOST_CATEGORIES,
    OTHER_STEPS,
)


@jit_kernel
def find_exogenous(rows, grid, places, chances):
    """Find the exogenous axes; write `places` and `chances`; return whether there are any.

    `places` [n_states] is the contribution of the exogenous axes to the number of a state's cell.
    `chances` [horizon, n_states] is the frequency of each contribution among the next states of a
    step. If no exogenous axis depends on the step, it is the frequency among all next states.
    """
    n_axes, n_cells, n_rows = rows.shares.shape[1], 1, rows.cells.shape[0]
    for n_bins in grid.bins:
        n_cells *= n_bins
    strides = np.ones(n_axes, np.int64)  # of state cells, along each axis
    for j in range(n_axes - 2, -1, -1):
        strides[j] = strides[j + 1] * grid.bins[j + 1]
    is_exogenous, by_step = np.zeros(n_axes, np.bool_), False
    scores, sums = np.zeros(n_rows), np.zeros((2, n_cells))
    for j in range(n_axes):
        n_bins, has_categories = grid.bins[j], grid.kinds[j] == CATEGORIES
        n_scores = n_bins if has_categories else 2
        may_be = n_bins >= 2 and n_scores <= MOST_CATEGORIES
        differs = False
        for k in range(n_scores):
            if not may_be:
                break
            if has_categories or k == 0:
                fill_scores(rows.nexts, strides[j], n_bins, k if has_categories else -1, scores)
            else:  # what is left of the bins after the cell's mean, squared
                scores *= scores
            depends, depends_on_step = find_dependence(scores, rows, sums)
            may_be = not depends
            differs = differs or depends_on_step
        is_exogenous[j] = may_be
        by_step = by_step or (may_be and differs)
    if is_exogenous.any() and not is_exogenous.all():
        rests = np.zeros((n_axes, n_rows))
        for j in range(n_axes):
            fill_scores(rows.nexts, strides[j], grid.bins[j], -1, rests[j])
            find_dependence(rests[j], rows, sums)
        drop_correlated(rests, rows, is_exogenous)
    for j in range(n_axes):
        if is_exogenous[j]:
            for state in range(places.shape[0]):
                places[state] += strides[j] * bin_of(state, strides[j], grid.bins[j])
    if is_exogenous.any():
        count_chances(rows, places, by_step, chances)
    return is_exogenous.any()


@jit_inline
def bin_of(cell, stride, n_bins):
    """Return the bin of a state's cell along the axis of a stride; 0 for ENDED."""
    return (cell // stride) % n_bins if cell != ENDED else 0


@jit_kernel
def fill_scores(nexts, stride, n_bins, category, scores):
    """Write the bin of each next state along an axis, or whether it is this category if not -1."""
    for i in range(nexts.shape[0]):
        i_bin = bin_of(nexts[i], stride, n_bins)
        scores[i] = i_bin if category < 0 else (1.0 if i_bin == category else 0.0)


@jit_kernel
def find_dependence(scores, rows, sums):
    """Test scores of next states; return (depends on the cell, depends on the step)."""
    nexts, weights, first = rows.nexts, rows.weights, rows.first
    n, square, n_steps, sum_means, square_means = 0.0, 0.0, 0, 0.0, 0.0
    sums[:] = 0.0
    for h in range(first.shape[0] - 1):
        weight, mean = 1e-300, 0.0
        for i in range(first[h], first[h + 1]):
            if nexts[i] != ENDED:
                weight += weights[i]
                mean += weights[i] * scores[i]
        mean /= weight
        for i in range(first[h], first[h + 1]):
            if nexts[i] != ENDED:
                scores[i] -= mean
                square += weights[i] * scores[i] * scores[i]
                sums[0, rows.cells[i]] += weights[i]
                sums[1, rows.cells[i]] += weights[i] * scores[i]
        n += weight
        n_steps += 1 if weight >= 1.0 else 0
        sum_means += weight * mean
        square_means += weight * mean * mean
    between, n_used = 0.0, 0
    for c in range(sums.shape[1]):
        if sums[0, c] > 0.0:
            n_used += 1
            between += sums[1, c] * sums[1, c] / sums[0, c]
            sums[1, c] /= sums[0, c]
    for i in range(scores.shape[0]):
        if nexts[i] != ENDED:
            scores[i] -= sums[1, rows.cells[i]]
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
    """Return whether groups drawn from one law could differ this much: F is about 1."""
    deviation = np.sqrt(2.0 / (n_groups - 1.0) + 2.0 / left)
    return between <= within * (1.0 + EXOGENOUS * deviation)


@jit_kernel
def drop_correlated(rests, rows, is_exogenous):
    """Drop the axes that correlate with one that is not exogenous."""
    n_axes = is_exogenous.shape[0]
    for _ in range(n_axes):  # an axis that is dropped may correlate with others
        for j in range(n_axes):
            for k in range(n_axes):
                if is_exogenous[j] and not is_exogenous[k]:
                    total, square = 0.0, 0.0
                    for i in range(rows.nexts.shape[0]):
                        if rows.nexts[i] != ENDED:
                            product = rests[j, i] * rests[k, i]
                            total += rows.weights[i] * product
                            square += rows.weights[i] * product * product
                    if abs(total) > EXOGENOUS * np.sqrt(square):
                        is_exogenous[j] = False


@jit_kernel
def count_chances(rows, places, by_step, chances):
    """Write the frequencies of the exogenous contributions, see `find_exogenous`."""
    nexts, first = rows.nexts, rows.first
    pooled = np.zeros(places.shape[0])
    for i in range(nexts.shape[0]):
        if nexts[i] != ENDED:
            pooled[places[nexts[i]]] += rows.weights[i]
    pooled /= max(1e-300, pooled.sum())
    for h in range(chances.shape[0]):
        chances[h] = OTHER_STEPS * pooled
        for i in range(first[h], first[h + 1] if by_step else first[h]):
            if nexts[i] != ENDED:
                chances[h, places[nexts[i]]] += rows.weights[i]
        chances[h] /= chances[h].sum()


@jit_kernel
def average_out(values, has_exogenous, chances, places, after):
    """Write the values of the next states into `after`, averaged over the exogenous axes."""
    after[:] = 0.0
    if not has_exogenous:
        after[: values.shape[0]] = values
        return
    for state in range(values.shape[0]):
        after[state - places[state]] += chances[places[state]] * values[state]
    for state in range(values.shape[0]):
        after[state] = after[state - places[state]]
