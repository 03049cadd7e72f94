"""Regress a target of one step on the samples of similar steps, or on its own.

A target, such as the reward, has one of two forms at each step:

- ALIKE: one regression on the pooled samples of all steps that are ALIKE. Rewards are carried to
  the middle of the episode along their slope in time, see `trends`.
- ALONE: a regression on the step's own samples.

A step is ALONE if this has clearly less leave-one-out error than ALIKE.

The variance of a prediction has two terms: noise / kernel mass, and the squared error of predicting
a cell from others. The second one fades as the cell gets samples of its own. The kernel of the
variance is never wider than the radius at which BALLS sqrt(samples) balls fill the space.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_inline_refcount, jit_kernel
from zooming.kernels.plans.layout import (
    ALIKE,
    ALONE,
    AROUND,
    CLEAR,
    COUNT,
    EMPTY,
    EVIDENCE,
    FACTOR,
    GAP,
    MASS,
    MEAN,
    NOISE,
    OWN,
    POOL,
    PRIOR,
    REWARDS,
    SHARE,
    SHARES,
    SQUARE,
    TOTAL,
    TREND,
    TRIAL,
    VARIANCE,
)
from zooming.kernels.plans.smoothing import (
    mark,
    measure_gaps,
    predict_cells,
    set_decay,
    smooth,
    tune,
    without_one,
)
from zooming.kernels.plans.trends import remove_trend, time_of


@jit_kernel
def fit_pool(models, tunes):
    """Fit the rewards of all steps that are alike into POOL; find their errors if `compares`."""
    fit(models, REWARDS, -1, POOL, tunes)
    for step in range(models.apart.shape[1]):
        if models.compares and models.apart[REWARDS, step] == ALIKE:
            find_losses(models, REWARDS, step, POOL)
    finish(models, REWARDS, POOL)


@jit_kernel
def model_step(models, kind, step, tunes):
    """Fit the target `kind` at a step; return the row of `models.work` with its predictions.

    Rewards of a step that is ALIKE are those of the pool. If `models.compares`, the form of the
    step in the next plan is written into `models.apart`.
    """
    now, compares = models.was[kind, step], models.compares
    row = POOL if kind == REWARDS else kind
    if compares if now == ALONE else row != POOL:
        fit(models, kind, step, kind, tunes)
        if compares:
            find_losses(models, kind, step, kind)
        finish(models, kind, kind)
    if not (compares or now == ALONE):
        return row
    own = kind + OWN if now == ALONE else TRIAL
    fit(models, kind, step, own, tunes)
    find_losses(models, kind, step, own)
    if now == ALONE:
        finish(models, kind, own)
    if compares:
        models.apart[kind, step] = ALONE if is_clearly_less(models, kind, step) else ALIKE
    return own if now == ALONE else row


@jit_kernel
def is_clearly_less(models, kind, step):
    """Return whether a step has clearly smaller errors ALONE than ALIKE."""
    rows, losses, total, square = models.rows, models.losses[kind], 0.0, 0.0
    for i in range(rows.first[step], rows.first[step + 1]):
        difference = losses[ALONE, i] ** 2 - losses[ALIKE, i] ** 2
        total += rows.weights[i] * difference
        square += rows.weights[i] * difference * difference
    return total < -CLEAR * np.sqrt(square)


@jit_inline
def form_of(row):
    """Return the form whose bandwidths and errors belong to a row of `models.work`."""
    return ALONE if row >= OWN else ALIKE


@jit_inline
def time_from(models, kind, row, step):
    """Return the time of a step if a fit carries targets along their slope, else 0."""
    is_carried = kind == REWARDS and form_of(row) == ALIKE
    return time_of(step, models.apart.shape[1]) if is_carried else 0.0


@jit_kernel
def fit(models, kind, step, row, tunes):
    """Fit a target into `models.work[row]`, and write NOISE, SHARE and FACTOR. Then `finish` it."""
    work, found, widths = models.work[row], models.found[row], models.widths[kind, form_of(row)]
    has_changed = choose_members(models, kind, step, row)
    if has_changed:
        models.kernels[row] = np.nan
    sum_targets(models, kind, row, has_changed)
    center, factors = models.centers[kind], models.factors[row]
    visited = visited_by(models, row)
    found[VARIANCE] = variance_of(work, visited)
    found[FACTOR] = remove_trend(work, visited, models.features, factors, not has_changed, center)
    has_mass = is_equal(widths, models.kernels[row])
    i, error = tune(
        work, visited, models.grid, widths, tunes, has_mass, models.decay, models.buffer
    )
    found[SHARE], found[NOISE] = SHARES[i], error * found[FACTOR]


@jit_inline
def choose_members(models, kind, step, row):
    """Write the steps whose samples a fit has; return whether they have changed.

    They are the step alone, or with all that are alike. To compare a step that is ALONE, the pool
    has all steps: few may be left that are alike.
    """
    members, has_changed = models.members[row], False
    has_all = row != POOL and form_of(row) == ALIKE and models.was[kind, step] == ALONE
    for h in range(members.shape[0]):
        is_alike = form_of(row) == ALIKE and models.apart[kind, h] == ALIKE
        is_member = h == step or has_all or is_alike
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
def finish(models, kind, row):
    """Write the predictions of a fit into MEAN, and GAP, EVIDENCE and AROUND for their variance."""
    work, found, widths = models.work[row], models.found[row], models.widths[kind, form_of(row)]
    is_same, visited = is_equal(widths, models.kernels[row]), visited_by(models, row)
    found[GAP] = measure_gaps(
        work, visited, models.grid, models.decay, is_same, found[NOISE], models.buffer
    )
    predict_cells(work, found[SHARE])
    if not is_same:
        narrow(models, row, widths)
        models.kernels[row] = widths


@jit_kernel
def narrow(models, row, widths):
    """Write EVIDENCE and AROUND: MASS and NEAR of a kernel that is at most `models.radius` wide.

    A wide bandwidth is chosen if distant samples predict the target at other samples well. That is
    no evidence about cells far from all samples, so their standard error must stay large.
    """
    work, grid = models.work[row], models.grid
    set_decay(grid, np.minimum(widths, np.log2(models.radius)), models.decay)
    work[EVIDENCE] = work[COUNT]
    mark(work[AROUND], visited_by(models, row))
    smooth(work[EVIDENCE], grid, models.decay, models.buffer)
    smooth(work[AROUND], grid, models.decay, models.buffer)


@jit_inline_refcount
def visited_by(models, row):
    """Return the cells with samples in a fit, in increasing order."""
    return models.visited[row, 1 : 1 + models.visited[row, 0]]


@jit_kernel
def list_visited(models, row):
    """Write the number of cells with samples in a fit, and then these cells."""
    counts, cells, n = models.work[row, COUNT], models.visited[row, 1:], 0
    for c in range(counts.shape[0]):
        cells[n] = c  # stays if the cell has samples
        n += 1 if counts[c] > 0.0 else 0
    models.visited[row, 0] = n


@jit_kernel
def sum_targets(models, kind, row, counts_anew):
    """Write count, sum and sum of squares of the targets of each cell, minus their center."""
    work, rows = models.work[row], models.rows
    targets, center, slopes = models.targets[kind], models.centers[kind], models.slopes
    for c in range(work.shape[1]):
        work[TOTAL, c] = work[SQUARE, c] = 0.0
    if counts_anew:
        work[COUNT] = 0.0
    for h in range(models.apart.shape[1]):
        if not models.members[row, h]:
            continue
        start, end, time = rows.first[h], rows.first[h + 1], time_from(models, kind, row, h)
        for i in range(start, end):
            c, weight = rows.cells[i], rows.weights[i]
            target = targets[i] - time * slopes[c] - center
            work[TOTAL, c] += weight * target
            work[SQUARE, c] += weight * target * target
        for i in range(start, end if counts_anew else start):
            work[COUNT, rows.cells[i]] += rows.weights[i]
        for i in range(start, end if kind == REWARDS else start):
            work[SQUARE, rows.cells[i]] += rows.spreads[i]
    if counts_anew:
        list_visited(models, row)


@jit_kernel
def variance_of(work, visited):
    """Return the variance of the targets whose sums and squares are in `work`."""
    n, total, square = 1e-300, 0.0, 0.0
    for c in visited:
        n, total, square = n + work[COUNT, c], total + work[TOTAL, c], square + work[SQUARE, c]
    return square / n - (total / n) ** 2


@jit_kernel
def find_losses(models, kind, step, row):
    """Write the leave-one-out error of each sample of a step; the fit must include them."""
    work, rows, targets = models.work[row], models.rows, models.targets[kind]
    losses, root = models.losses[kind, form_of(row)], np.sqrt(models.found[row, FACTOR])
    time = time_from(models, kind, row, step)
    for i in range(rows.first[step], rows.first[step + 1]):
        c = rows.cells[i]
        target = targets[i] - time * models.slopes[c]
        n, mean = work[COUNT, c], work[MEAN, c]
        g, w = without_one(n, work[MASS, c], models.found[row, SHARE])
        error = g * (target - work[TREND, c] - mean) - w * (work[TOTAL, c] - n * mean)
        losses[i] = root * error


@jit_kernel
def add_variance(work, found, sums):
    """Add the squared standard error of the prediction of each cell."""
    counts, evidence, around = work[COUNT], work[EVIDENCE], work[AROUND]
    noise, gap, share = found[NOISE], found[GAP], found[SHARE]
    for c in range(sums.shape[0]):
        own = share / (counts[c] + share)
        sums[c] += noise / (evidence[c] + PRIOR) + gap * own * own / (around[c] + EMPTY)
