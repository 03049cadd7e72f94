"""Regress a target of one step: from the samples of all steps that are alike, or with its own.

A target, such as the reward, has one of three forms at each step:

- ALIKE: the samples of all steps that are alike are pooled, and this step's are among them.
- ALONE: the step has a regression of its own samples.
- CORRECTED: the samples of all steps are pooled, and a regression of the step's own samples
  predicts the errors of the pool: its leave-one-out errors.

A step leaves the pool if one of the last two has clearly less leave-one-out error, and takes the
one that has less. The variance of a prediction is noise / kernel mass, plus, as far as a cell has
no samples of its own, the error of predicting a cell from others. Its kernel is at most as wide as
N samples can cover. For a step apart, the pool is evidence as well, with the variance between steps
on top: both precisions are added.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.exploring import narrow_kernel
from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.plan_layout import (
    ALIKE,
    ALONE,
    CORRECTED,
    COUNT,
    DOUBT,
    EMPTY,
    MASS,
    MEAN,
    NEAR,
    OWN,
    POOL,
    REWARDS,
    SHARES,
    SPREAD,
    SQUARE,
    THIN,
    TOTAL,
    TREND,
    TRIAL,
    WEIGHT,
)
from zooming.kernels.smoothing import measure_gaps, predict_cells, tune, without_one
from zooming.kernels.trends import remove_trend


@jit_kernel
def fit_pool(models, cells, numbers, first, apart, grid, widths, is_search, compares):
    """Regress the rewards of all steps that are alike; return the factor of `remove_trend`."""
    share, noise, factor = fit(
        models, cells, numbers, first, -1, False, apart, REWARDS, grid, widths, is_search, POOL
    )
    for step in range(first.shape[0] - 1 if compares else 0):
        find_losses(models, cells, first, step, POOL, share, factor, models.losses[REWARDS, ALIKE])
    finish(models, grid, widths, share, noise, POOL)
    return factor


@jit_kernel
def model_step(
    models, cells, numbers, first, step, apart, kind, grid, widths, is_search, compares, factor
):
    """Regress the target of a step; return the cell's share, and the form that is best.

    The prediction is in the row `kind` of `models.work`, or in `kind + OWN` if the step is apart.
    Rewards of a step that is ALIKE are in the row POOL: `fit_pool` was called, and returned
    `factor`. All forms are tried if `compares`; otherwise the form stays.
    """
    now, share = apart[step], 1.0
    if kind != REWARDS or now != ALIKE:
        # The samples of all steps stand behind a step apart: those alike may be few.
        others = np.zeros(apart.shape[0], np.int64) if now != ALIKE else apart
        share, noise, factor = fit(
            models, cells, numbers, first, step, False, others, kind, grid, widths[ALIKE],
            is_search, kind,
        )  # fmt: skip
        if compares or now != ALIKE:
            find_losses(models, cells, first, step, kind, share, factor, models.losses[kind, ALIKE])
        finish(models, grid, widths[ALIKE], share, noise, kind)
    for form in (ALONE, CORRECTED):
        if not (compares or now == form):
            continue
        if form == CORRECTED:
            for i in range(first[step], first[step + 1]):
                models.targets[i] = models.losses[kind, ALIKE, i] / np.sqrt(factor)
        to = kind + OWN if now == form else TRIAL
        own_share, noise, own_factor = fit(
            models, cells, numbers, first, step, True, apart, kind, grid, widths[form], is_search,
            to,
        )  # fmt: skip
        find_losses(
            models, cells, first, step, to, own_share, own_factor, models.losses[kind, form]
        )
        if now == form:
            share = own_share
            finish(models, grid, widths[form], share, noise, to)
            if form == CORRECTED:
                for c in range(models.work.shape[2]):
                    models.work[to, MEAN, c] += models.work[kind, MEAN, c]
            models.between[kind] = fall_of(models.losses[kind], form, numbers, first, step)
    if not compares:
        return share, now
    losses, form = models.losses[kind], CORRECTED
    if fall_of(losses, ALONE, numbers, first, step) > fall_of(
        losses, CORRECTED, numbers, first, step
    ):
        form = ALONE
    is_less = is_clearly_less(losses[form], losses[ALIKE], numbers, first[step], first[step + 1])
    return share, form if is_less else ALIKE


@jit_inline
def fall_of(losses, form, numbers, first, step):
    """Return by how much a form lowers the mean squared error of the pool at a step, at least 0."""
    fall, weight = 0.0, 1e-9
    for i in range(first[step], first[step + 1]):
        weight += numbers[i, WEIGHT]
        fall += numbers[i, WEIGHT] * (losses[ALIKE, i] ** 2 - losses[form, i] ** 2)
    return max(0.0, fall / weight)


@jit_kernel
def is_clearly_less(losses, others, numbers, start, end):
    """Return whether squared errors are smaller than others by DOUBT standard deviations.

    Both are of the same samples. The deviation is that of the sum of the differences.
    """
    total, square = 0.0, 0.0
    for i in range(start, end):
        difference = losses[i] ** 2 - others[i] ** 2
        total += numbers[i, WEIGHT] * difference
        square += numbers[i, WEIGHT] * difference * difference
    return total < -DOUBT * np.sqrt(square)


@jit_kernel
def fit(models, cells, numbers, first, step, own, apart, kind, grid, widths, is_search, to):
    """Regress a target into the row `to` of `models.work`; return (share, noise, factor).

    The factor is that of `remove_trend`.
    """
    work = models.work[to]
    center = sum_targets(cells, models.targets, numbers, first, step, own, apart, kind, work)
    factor = remove_trend(work, models.features, center)
    i, noise = tune(
        work, grid, widths, is_search, models.decay, work.shape[1], models.buffer, models.errors
    )
    return SHARES[i], noise * factor, factor


@jit_kernel
def finish(models, grid, widths, share, noise, to):
    """Write the prediction of each cell into the row MEAN, (noise, gap, share) into `found`."""
    work, found, decay = models.work[to], models.found[to], models.decay
    found[0], found[2] = noise, share
    found[1] = measure_gaps(work, grid, decay, work.shape[1], noise, models.buffer)
    predict_cells(work, share)
    narrow_kernel(work, grid, widths, np.log2(models.radius), decay, models.buffer)


@jit_kernel
def sum_targets(cells, targets, numbers, first, step, own, apart, kind, work):
    """Write the sums of targets minus their mean, and return the mean.

    The samples are the step's own, or those of the step and of all steps that are not apart.
    """
    for c in range(work.shape[1]):
        work[COUNT, c] = work[TOTAL, c] = work[SQUARE, c] = 0.0
    center, n_samples = 0.0, 1e-9
    for is_sum in range(2):
        for h in range(first.shape[0] - 1):
            if h != step and (own or apart[h]):
                continue
            for i in range(first[h], first[h + 1]):
                weight = numbers[i, WEIGHT]
                if is_sum == 0:
                    n_samples += weight
                    center += weight * targets[i]
                else:
                    c, target = cells[i], targets[i] - center / n_samples
                    work[COUNT, c] += weight
                    work[TOTAL, c] += weight * target
                    work[SQUARE, c] += weight * target * target
                    if kind == REWARDS:
                        work[SQUARE, c] += numbers[i, SPREAD]
    return center / n_samples


@jit_kernel
def find_losses(models, cells, first, step, to, share, factor, losses):
    """Write the leave-one-out errors of the samples of a step; the fit must include them."""
    work = models.work[to]
    for i in range(first[step], first[step + 1]):
        c = cells[i]
        n, mean = work[COUNT, c], work[MEAN, c]
        g, w = without_one(n, work[MASS, c], share)
        error = g * (models.targets[i] - work[TREND, c] - mean) - w * (work[TOTAL, c] - n * mean)
        losses[i] = np.sqrt(factor) * error


@jit_inline
def variance_at(work, cell, found):
    """Return the squared standard error of a prediction."""
    noise, gap, share = found[0], found[1], found[2]
    own = share / (work[COUNT, cell] + share)
    return noise / (work[MASS, cell] + THIN) + gap * own * own / (work[NEAR, cell] + EMPTY)


@jit_inline
def combined_variance(models, row, kind, cell):
    """Return the squared standard error of a prediction; for a step apart, the pool counts too."""
    variance = variance_at(models.work[row], cell, models.found[row])
    if models.between[kind] < 0.0:
        return variance
    pool = variance_at(models.work[kind], cell, models.found[kind]) + models.between[kind]
    return variance * pool / (variance + pool) if pool > 0.0 else 0.0
