"""Plan by backward induction on a kernel model of the samples.

Rewards and next values are two targets of `smoothing`. For each of them, a step uses the samples of
all steps that are alike, or its own alone if these predict it clearly better. Then, from the last
step back,

    Q_h = reward_h + next value_h
    bonus_h = OPTIMISM sqrt(variance_h) + a little where samples are few
    V_h = max over actions of Q_h + bonus_h, at most the cap

A plan of the policy has the bonus -CAUTION sqrt(variance), so that it prefers what is known, and
V_h = Q_h of the action it takes.

The variance of a target is noise / kernel mass, plus, as far as a cell has no samples of its own,
the error of predicting a cell from others. Its kernel is at most as wide as N samples can cover.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.exploring import covering_radius, find_way, measure_distances, narrow_kernel
from zooming.kernels.grids import largest, sort_by_step
from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.plan_layout import (
    BALLS,
    CAUTION,
    COUNT,
    DOUBT,
    EMPTY,
    ENDED,
    FAR_BALLS,
    GROWTH,
    MASS,
    MEAN,
    MEAN_REWARD,
    N_ROWS,
    NEAR,
    OPTIMISM,
    SHARES,
    SPREAD,
    SQUARE,
    THIN,
    TIE_BONUS,
    TOTAL,
    TREND,
    WEIGHT,
)
from zooming.kernels.smoothing import measure_gaps, predict_cells, tune, without_one
from zooming.kernels.trends import make_features, remove_trend

REWARDS, VALUES = 0, 1  # first index of `widths` and `apart`


@jit_kernel
def make_plan(core, samples, n_samples, grid, widths, apart, plan, is_learning):
    """Fill `plan` from the first samples.

    A plan for learning has the bonus and the way to what is far from all samples, tunes the
    bandwidths `widths` [2, 2, n_axes], the second index being 1 for steps apart, and decides which
    steps are `apart` [2, horizon]. A plan of the policy changes nothing but `plan`.
    """
    horizon, n_cells = core[0]["horizon"], plan.q.shape[1]
    turn = core[0]["n_plans"]  # bandwidths are tuned at every turn at first, then now and then
    is_early = turn < 10
    compares = is_learning and horizon > 1 and (is_early or turn % 3 == 0)
    cells, nexts, shifts, numbers, first = sort_by_step(
        samples, n_samples, grid, core[0]["n_state"], horizon
    )
    strides = np.ones(shifts.shape[1], np.int64)  # from a state's cell to the next one of each axis
    for j in range(strides.shape[0] - 2, -1, -1):
        strides[j] = strides[j + 1] * grid.bins[j + 1]
    decay = np.ones((widths.shape[2], largest(grid.bins)))
    buffer, errors = np.zeros(2 * n_cells), np.zeros(SHARES.shape[0])
    features, work = make_features(grid, n_cells), np.zeros((3, N_ROWS, n_cells))
    targets, losses = np.zeros(n_samples), np.zeros((2, 2, n_samples))
    distances, sums = np.zeros(n_cells), np.zeros((2, n_cells))
    root = 1.0 + np.sqrt(np.sum(numbers[:, WEIGHT]))
    if is_learning:
        measure_distances(cells, grid, distances)
        core[0]["far"] = covering_radius(grid, FAR_BALLS * root)
    radius = covering_radius(grid, BALLS * root)
    pooled, fits = work[2], np.zeros((3, 3))  # of rewards, next values, rewards of alike steps
    is_stale = True  # whether the steps that are alike have changed
    for step in range(horizon - 1, -1, -1):
        was_apart = apart[REWARDS, step]
        if is_stale:
            fill_targets(targets, numbers, nexts, shifts, strides, plan.values[horizon], REWARDS)
            is_search = is_learning and step == horizon - 1 and (is_early or turn % 2 == 0)
            share, noise, factor = fit(
                cells, targets, numbers, first, -1, 0, apart[REWARDS], REWARDS, features, grid,
                widths[REWARDS, 0], is_search, decay, buffer, errors, pooled,
            )  # fmt: skip
            for h in range(horizon if compares else 0):
                find_losses(
                    cells, targets, first, h, pooled, share, factor, losses[REWARDS, 0]
                )  # fmt: skip
            finish(pooled, grid, widths[REWARDS, 0], radius, decay, share, noise, buffer, fits[2])
        for kind in range(2 if step < horizon - 1 else 1):
            if kind == REWARDS and not (compares or was_apart):
                continue
            fill_targets(targets, numbers, nexts, shifts, strides, plan.values[step + 1], kind)
            is_search = is_learning and (kind == REWARDS or step == (horizon - 1) // 2)
            is_search = is_search and (is_early or turn % 2 == kind)
            now = apart[kind, step]
            for trial in range(0 if compares else 1, 2):
                own = now if trial == 1 else 1 - now
                if kind == REWARDS and now == 0 and own == 0:
                    continue  # `pooled` is this fit
                share, noise, factor = fit(
                    cells, targets, numbers, first, step, own, apart[kind], kind, features, grid,
                    widths[kind, own], is_search, decay, buffer, errors, work[kind],
                )  # fmt: skip
                if compares:
                    find_losses(
                        cells, targets, first, step, work[kind], share, factor, losses[kind, own]
                    )
                if trial == 1 and kind == VALUES and is_learning:
                    find_way(
                        cells, nexts, numbers, first, step, own, apart[kind], distances,
                        work[kind], share, grid, decay, sums, buffer, plan,
                    )  # fmt: skip
                if trial == 1:
                    finish(
                        work[kind], grid, widths[kind, own], radius, decay, share, noise, buffer,
                        fits[kind],
                    )  # fmt: skip
            if compares:
                apart[kind, step] = is_clearly_less(
                    losses[kind, 1], losses[kind, 0], numbers, first[step], first[step + 1]
                )
        if is_learning and step == horizon - 1:
            find_way(
                cells, nexts, numbers, first, step, 0, apart[VALUES], distances, pooled, 1.0, grid,
                decay, sums, buffer, plan,
            )  # fmt: skip
        r = REWARDS if was_apart else 2
        back_up(core, step, work[r], fits[r], work[VALUES], fits[VALUES], is_learning, plan)
        is_stale = apart[REWARDS, step] != was_apart
    if is_learning:
        core[0]["reward_noise"], core[0]["value_noise"] = fits[2, 0], fits[VALUES, 0]
        core[0]["n_plans"] += 1
        core[0]["n_planned"] = n_samples
        n_episodes = core[0]["n_episodes"]
        core[0]["due"] = max(n_episodes + 1, np.int64(np.ceil(GROWTH * n_episodes)))


@jit_kernel
def is_clearly_less(losses, others, numbers, start, end):
    """Return 1 if squared errors are smaller than others of the same samples by DOUBT deviations.

    The deviation is that of the sum of the differences.
    """
    total, square = 0.0, 0.0
    for i in range(start, end):
        difference = losses[i] ** 2 - others[i] ** 2
        total += numbers[i, WEIGHT] * difference
        square += numbers[i, WEIGHT] * difference * difference
    return 1 if total < -DOUBT * np.sqrt(square) else 0


@jit_kernel
def fit(
    cells, targets, numbers, first, step, own, apart, kind, features, grid, widths, is_search,
    decay, buffer, errors, work,
):  # fmt: skip
    """Regress a target; return (share, noise, factor), the last one as `remove_trend` says."""
    center = sum_targets(cells, targets, numbers, first, step, own, apart, kind, work)
    factor = remove_trend(work, features, center)
    i, noise = tune(work, grid, widths, is_search, decay, work.shape[1], buffer, errors)
    return SHARES[i], noise * factor, factor


@jit_kernel
def finish(work, grid, widths, radius, decay, share, noise, buffer, found):
    """Write the prediction of each cell into the row MEAN, (noise, gap, share) into `found`."""
    found[0], found[2] = noise, share
    found[1] = measure_gaps(work, grid, decay, work.shape[1], noise, buffer)
    predict_cells(work, share)
    narrow_kernel(work, grid, widths, np.log2(radius), decay, buffer)


@jit_kernel
def fill_targets(targets, numbers, nexts, shifts, strides, after, kind):
    """Write each sample's reward, or its next value: 0 if the episode ended.

    The next value is interpolated, axis by axis, between the centers of neighboring cells.
    """
    for i in range(targets.shape[0]):
        if kind == REWARDS:
            targets[i] = numbers[i, MEAN_REWARD]
        elif nexts[i] == ENDED:
            targets[i] = 0.0
        else:
            here = after[nexts[i]]
            targets[i] = here
            for j in range(strides.shape[0]):
                shift = shifts[i, j]
                if shift != 0.0:
                    there = after[nexts[i] + (strides[j] if shift > 0.0 else -strides[j])]
                    targets[i] += abs(shift) * (there - here)


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
def find_losses(cells, targets, first, step, work, share, factor, losses):
    """Write the leave-one-out errors of the samples of a step; the fit must include them."""
    for i in range(first[step], first[step + 1]):
        c = cells[i]
        n, mean = work[COUNT, c], work[MEAN, c]
        g, w = without_one(n, work[MASS, c], share)
        error = g * (targets[i] - work[TREND, c] - mean) - w * (work[TOTAL, c] - n * mean)
        losses[i] = np.sqrt(factor) * error


@jit_inline
def cap_of(core, step):
    """Return the largest possible return from `step` on, as far as is known."""
    high = core[0]["highest"]
    # If no reward is positive, the best case is that the episode ends after the next one.
    return high * (core[0]["horizon"] - step) if high > 0.0 else high


@jit_inline
def variance_at(work, cell, fit):
    """Return the squared standard error of a prediction."""
    noise, gap, share = fit[0], fit[1], fit[2]
    own = share / (work[COUNT, cell] + share)
    return noise / (work[MASS, cell] + THIN) + gap * own * own / (work[NEAR, cell] + EMPTY)


@jit_kernel
def back_up(core, step, rewards, reward_fit, values, value_fit, is_learning, plan):
    """Write Q, bonus and V of a step; `rewards` and `values` have its predictions."""
    n_states = plan.values.shape[1]
    n_actions = plan.q.shape[1] // n_states
    has_next = step < core[0]["horizon"] - 1
    cap = cap_of(core, step)
    little = TIE_BONUS * max(0.0, core[0]["most"] - core[0]["least"])
    for state in range(n_states):
        best, most = np.int64(0), -np.inf
        for b in range(n_actions):
            c = state * n_actions + b
            q = rewards[MEAN, c]
            if has_next:
                q += values[MEAN, c]
            plan.q[step, c] = q
            plan.visits[step, c] = rewards[COUNT, c]
            variance = variance_at(rewards, c, reward_fit)
            if has_next:
                variance += variance_at(values, c, value_fit)
            error = np.sqrt(variance)
            if is_learning:
                plan.bonus[step, c] = OPTIMISM * error + little / np.sqrt(rewards[MASS, c] + THIN)
            else:
                plan.bonus[step, c] = -CAUTION * error
            q += plan.bonus[step, c]
            if q > most:
                best, most = b, q
        plan.best[step, state] = best
        value = plan.q[step, state * n_actions + best]
        plan.values[step, state] = min(most, cap) if is_learning else value
