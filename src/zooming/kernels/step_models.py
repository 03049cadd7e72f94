"""Regress a target of one step on the samples of similar steps, or on its own.

A target, such as the reward, has one of three forms at each step:

- ALIKE: one regression on the pooled samples of all steps that are ALIKE.
- ALONE: a regression on the step's own samples.
- CORRECTED: a regression on the pooled samples of all steps, plus a regression of its leave-one-out
  errors on the step's own samples.

A step that is ALONE or CORRECTED is called apart. A step is apart if one of these forms has clearly
less leave-one-out error than ALIKE; it takes the one with less error.

The variance of a prediction has two terms: noise / kernel mass, and the squared error of predicting
a cell from others. The second one fades as the cell gets samples of its own. The kernel of the
variance is never wider than the covering radius of `exploring`. The prediction of a step apart has
a second source, the pool, with the variance between steps added. The precisions of both are added.
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
    """Fit the rewards of all steps that are alike into POOL; return the factor of `remove_trend`.

    If `compares`, also write the leave-one-out errors of every step under this fit.
    """
    share, noise, factor = fit(
        models, cells, numbers, first, -1, False, apart, REWARDS, grid, widths, is_search, POOL
    )
    for step in range(first.shape[0] - 1):
        if compares and apart[step] == ALIKE:
            losses = models.losses[REWARDS, ALIKE]
            find_losses(models, cells, first, step, POOL, share, factor, losses)
    finish(models, grid, widths, share, noise, POOL)
    return factor


@jit_kernel
def model_step(
    models, cells, numbers, first, step, apart, kind, grid, widths, is_search, compares, factor
):
    """Fit the target `kind` at a step; return its best form.

    The predictions are in `models.work[kind]`, or in `models.work[kind + OWN]` if the step is
    apart. Rewards of a step that is ALIKE are not fitted here: they are in `models.work[POOL]`,
    and `factor` is what `fit_pool` returned. All forms are tried if `compares`; otherwise the
    current form is returned.
    """
    now = apart[step]
    if kind != REWARDS or now != ALIKE:
        # For a step apart, the pool has all steps: few may be left that are alike.
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
        share, noise, own_factor = fit(
            models, cells, numbers, first, step, True, apart, kind, grid, widths[form], is_search,
            to,
        )  # fmt: skip
        find_losses(models, cells, first, step, to, share, own_factor, models.losses[kind, form])
        if now == form:
            finish(models, grid, widths[form], share, noise, to)
            if form == CORRECTED:
                for c in range(models.work.shape[2]):
                    models.work[to, MEAN, c] += models.work[kind, MEAN, c]
            models.between[kind] = fall_of(models.losses[kind], form, numbers, first, step)
    if not compares:
        return now
    losses, start, end = models.losses[kind], first[step], first[step + 1]
    is_alone = is_clearly_less(losses[ALONE], losses[CORRECTED], numbers, start, end, 0.0)
    form = ALONE if is_alone else CORRECTED
    is_less = is_clearly_less(losses[form], losses[ALIKE], numbers, start, end, DOUBT)
    return form if is_less else ALIKE


@jit_inline
def fall_of(losses, form, numbers, first, step):
    """Return the decrease of the mean squared error at a step, from ALIKE to `form`, at least 0."""
    fall, weight = 0.0, 1e-9
    for i in range(first[step], first[step + 1]):
        weight += numbers[i, WEIGHT]
        fall += numbers[i, WEIGHT] * (losses[ALIKE, i] ** 2 - losses[form, i] ** 2)
    return max(0.0, fall / weight)


@jit_kernel
def is_clearly_less(losses, others, numbers, start, end, doubt):
    """Return whether squared errors are below those of `others` by `doubt` standard deviations.

    Both have the same samples. The standard deviation is that of the summed differences.
    """
    total, square = 0.0, 0.0
    for i in range(start, end):
        difference = losses[i] ** 2 - others[i] ** 2
        total += numbers[i, WEIGHT] * difference
        square += numbers[i, WEIGHT] * difference * difference
    return total < -doubt * np.sqrt(square)


@jit_kernel
def fit(models, cells, numbers, first, step, own, apart, kind, grid, widths, is_search, to):
    """Fit `models.targets` into `models.work[to]`; return (share, noise, factor).

    The samples are those of `sum_targets`. `share` is that of `smoothing`, `noise` the mean squared
    leave-one-out error, and `factor` that of `remove_trend`. The bandwidths `widths` are tuned if
    `is_search`. `finish` must follow.
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
    """Turn the fit `to` into predictions: write them into MEAN, and what their variance needs.

    That is (noise, gap, share) in `models.found[to]`, and MASS and NEAR with a narrower kernel.
    """
    work, found, decay = models.work[to], models.found[to], models.decay
    found[0], found[2] = noise, share
    found[1] = measure_gaps(work, grid, decay, work.shape[1], noise, models.buffer)
    predict_cells(work, share)
    narrow_kernel(work, grid, widths, np.log2(models.radius), decay, models.buffer)


@jit_kernel
def sum_targets(cells, targets, numbers, first, step, own, apart, kind, work):
    """Write count, sum and sum of squares of the centered targets of each cell; return their mean.

    The samples are the step's own if `own`, else those of the step and of all that are not apart.
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
    """Write the leave-one-out error of each sample of a step; the fit `to` must include them."""
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
def combined_variance(models, row, kind, cell, is_learning):
    """Return the squared standard error of a prediction.

    In a plan for learning, the pool is evidence for a step apart. A policy does not rely on it: it
    knows other steps, not this one.
    """
    variance = variance_at(models.work[row], cell, models.found[row])
    if models.between[kind] < 0.0 or not is_learning:
        return variance
    pool = variance_at(models.work[kind], cell, models.found[kind]) + models.between[kind]
    return variance * pool / (variance + pool) if pool > 0.0 else 0.0
