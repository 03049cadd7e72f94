"""Regress a target of one step on the samples of similar steps, or on its own.

A target, such as the reward, has one of two forms at each step:

- ALIKE: one regression on the pooled samples of all steps that are ALIKE.
- ALONE: a regression on the step's own samples.

A step is ALONE if this has clearly less leave-one-out error than ALIKE.

The variance of a prediction has two terms: noise / kernel mass, and the squared error of predicting
a cell from others. The second one fades as the cell gets samples of its own. The kernel of the
variance is never wider than the covering radius of `exploring`.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.exploring import narrow_kernel
from zooming.kernels.plans.layout import (
    ALIKE,
    ALONE,
    AROUND,
    COUNT,
    DOUBT,
    EMPTY,
    EVIDENCE,
    MASS,
    MEAN,
    OWN,
    POOL,
    REWARDS,
    SHARES,
    SQUARE,
    THIN,
    TOTAL,
    TREND,
    TRIAL,
)
from zooming.kernels.plans.smoothing import measure_gaps, predict_cells, tune, without_one
from zooming.kernels.plans.trends import remove_trend


@jit_kernel
def fit_pool(models, samples, center, apart, grid, widths, is_search, compares):
    """Fit the rewards of all steps that are alike into POOL; return the factor of `remove_trend`.

    If `compares`, also write the leave-one-out errors of every step under this fit.
    """
    share, noise, factor = fit(
        models, samples, samples.rewards, center, -1, False, apart, REWARDS, grid, widths,
        is_search, POOL,
    )  # fmt: skip
    for step in range(apart.shape[0]):
        if compares and apart[step] == ALIKE:
            losses = models.losses[REWARDS, ALIKE]
            find_losses(models, samples, samples.rewards, step, POOL, share, factor, losses)
    finish(models, grid, widths, share, noise, POOL)
    return factor


@jit_kernel
def model_step(
    models, samples, targets, center, step, apart, kind, grid, widths, is_search, compares, factor
):
    """Fit the target `kind` at a step; return its best form.

    The predictions are in `models.work[kind]`, or in `models.work[kind + OWN]` if the step is
    ALONE. Rewards of a step that is ALIKE are not fitted here: they are in `models.work[POOL]`,
    and `factor` is what `fit_pool` returned. Both forms are tried if `compares`; otherwise the
    current form is returned. `is_search` tunes the bandwidths. `center` is about the mean of
    `targets`.
    """
    now = apart[step]
    if kind != REWARDS or now != ALIKE:
        # For a step that is ALONE, the pool has all steps: few may be left that are alike.
        others = np.zeros(apart.shape[0], np.int64) if now != ALIKE else apart
        share, noise, factor = fit(
            models, samples, targets, center, step, False, others, kind, grid, widths[ALIKE],
            is_search, kind,
        )  # fmt: skip
        if compares:
            losses = models.losses[kind, ALIKE]
            find_losses(models, samples, targets, step, kind, share, factor, losses)
        finish(models, grid, widths[ALIKE], share, noise, kind)
    if not (compares or now == ALONE):
        return now
    to = kind + OWN if now == ALONE else TRIAL
    share, noise, own_factor = fit(
        models, samples, targets, center, step, True, apart, kind, grid, widths[ALONE], is_search,
        to,
    )  # fmt: skip
    find_losses(models, samples, targets, step, to, share, own_factor, models.losses[kind, ALONE])
    if now == ALONE:
        finish(models, grid, widths[ALONE], share, noise, to)
    if not compares:
        return now
    losses, weights = models.losses[kind], samples.weights
    start, end = samples.first[step], samples.first[step + 1]
    is_less = is_clearly_less(losses[ALONE], losses[ALIKE], weights, start, end, DOUBT)
    return ALONE if is_less else ALIKE


@jit_kernel
def is_clearly_less(losses, others, weights, start, end, doubt):
    """Return whether squared errors are smaller than those of `others` by a clear margin.

    The margin is `doubt` standard deviations of the summed differences, sample by sample.
    """
    total, square = 0.0, 0.0
    for i in range(start, end):
        difference = losses[i] ** 2 - others[i] ** 2
        total += weights[i] * difference
        square += weights[i] * difference * difference
    return total < -doubt * np.sqrt(square)


@jit_kernel
def fit(models, samples, targets, center, step, own, apart, kind, grid, widths, is_search, to):
    """Fit `targets` into `models.work[to]`; return (share, noise, factor).

    The samples are those of `choose_members`. `share` is defined in `smoothing`, `noise` is the
    mean squared leave-one-out error, and `factor` is the result of `remove_trend`. The bandwidths
    `widths` are tuned if `is_search`. Call `finish` afterwards.
    """
    work, members = models.work[to], models.members[to]
    has_changed = choose_members(members, step, own, apart)
    if has_changed:
        models.kernels[to] = np.nan
    sum_targets(samples, targets, center, members, has_changed, kind, work)
    factor = remove_trend(work, models.features, models.factors[to], not has_changed, center)
    has_mass = is_equal(widths, models.kernels[to])
    i, noise = tune(
        work, grid, widths, is_search, has_mass, models.decay, models.buffer, models.errors
    )
    return SHARES[i], noise * factor, factor


@jit_inline
def choose_members(members, step, own, apart):
    """Write the steps whose samples a fit has; return whether they have changed.

    They are the step alone if `own`, else the step and all that are not apart.
    """
    has_changed = False
    for h in range(members.shape[0]):
        is_member = h == step or not (own or apart[h] != ALIKE)
        has_changed = has_changed or is_member != members[h]
        members[h] = is_member
    return has_changed


@jit_inline
def is_equal(widths, others):
    """Return whether all bandwidths are equal; NaN equals nothing."""
    found = True
    for j in range(widths.shape[0]):
        found = found and widths[j] == others[j]
    return found


@jit_kernel
def finish(models, grid, widths, share, noise, to):
    """Write the predictions of the fit `to` into MEAN.

    For their variance, also write (noise, gap, share) into `models.found[to]`, and the rows
    EVIDENCE and AROUND. NEAR, EVIDENCE and AROUND depend on samples and bandwidths alone, so they
    are kept if these are the same as in the last fit.
    """
    work, found, decay = models.work[to], models.found[to], models.decay
    is_same = is_equal(widths, models.kernels[to])
    found[0], found[2] = noise, share
    found[1] = measure_gaps(work, grid, decay, is_same, noise, models.buffer)
    predict_cells(work, share)
    if not is_same:
        narrow_kernel(work, grid, widths, np.log2(models.radius), decay, models.buffer)
        models.kernels[to] = widths


@jit_kernel
def sum_targets(samples, targets, center, members, counts_anew, kind, work):
    """Write count, sum and sum of squares of the targets of each cell, minus `center`.

    The samples are those of the steps `members`. Counts are kept unless `counts_anew`.
    """
    for c in range(work.shape[1]):
        work[TOTAL, c] = work[SQUARE, c] = 0.0
    if counts_anew:
        work[COUNT] = 0.0
    for h in range(members.shape[0]):
        if not members[h]:
            continue
        start, end = samples.first[h], samples.first[h + 1]
        for i in range(start, end):
            c, weight, target = samples.cells[i], samples.weights[i], targets[i] - center
            work[TOTAL, c] += weight * target
            work[SQUARE, c] += weight * target * target
        for i in range(start, end if counts_anew else start):
            work[COUNT, samples.cells[i]] += samples.weights[i]
        for i in range(start, end if kind == REWARDS else start):
            work[SQUARE, samples.cells[i]] += samples.spreads[i]


@jit_kernel
def find_losses(models, samples, targets, step, to, share, factor, losses):
    """Write the leave-one-out error of each sample of a step; the fit `to` must include them."""
    work, root = models.work[to], np.sqrt(factor)
    for i in range(samples.first[step], samples.first[step + 1]):
        c = samples.cells[i]
        n, mean = work[COUNT, c], work[MEAN, c]
        g, w = without_one(n, work[MASS, c], share)
        error = g * (targets[i] - work[TREND, c] - mean) - w * (work[TOTAL, c] - n * mean)
        losses[i] = root * error


@jit_inline
def variance_at(work, cell, found):
    """Return the squared standard error of a prediction."""
    noise, gap, share = found[0], found[1], found[2]
    own = share / (work[COUNT, cell] + share)
    return noise / (work[EVIDENCE, cell] + THIN) + gap * own * own / (work[AROUND, cell] + EMPTY)
