"""Plan by backward induction on a kernel model of the samples.

Rewards and next values are two targets of `smoothing`. For each of them, all steps are pooled or
each step is apart, whichever has the smaller leave-one-out error. Then, from the last step back,

    Q_h = reward_h + next value_h
    bonus_h = OPTIMISM sqrt(variance_h) + a little where samples are few
    V_h = max over actions of Q_h + bonus_h, at most the cap

The variance of a target is noise / kernel mass, plus, as far as a cell has no samples of its own,
the error of predicting a cell from others.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.grids import largest, sort_by_step
from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.plan_layout import (
    DOUBT,
    EMPTY,
    ENDED,
    GROWTH,
    MEAN_REWARD,
    OPTIMISM,
    SHARES,
    SPREAD,
    THIN,
    TIE_BONUS,
    WEIGHT,
)
from zooming.kernels.smoothing import (
    COUNT,
    MASS,
    MEAN,
    N_ROWS,
    NEAR,
    SQUARE,
    TOTAL,
    TREND,
    make_features,
    measure_gaps,
    predict_cells,
    remove_trend,
    tune,
    without_one,
)

REWARDS, VALUES = 0, 1  # first index of `widths`; the second is 1 if steps are apart


@jit_kernel
def make_plan(core, samples, n_samples, grid, widths, plan, is_learning):
    """Fill `plan` from the first samples.

    A plan for learning has the bonus, tunes the bandwidths `widths` [2, 2, n_axes], and decides
    whether steps are apart. A plan of the policy has no bonus, and changes nothing but `plan`.
    """
    horizon, n_state = core[0]["horizon"], core[0]["n_state"]
    n_cells, n_states = plan.q.shape[1], plan.values.shape[1]
    turn = core[0]["n_plans"]  # bandwidths are tuned at every turn at first, then now and then
    is_early = turn < 10
    compares = is_learning and horizon > 1 and (is_early or turn % 3 == 0)
    cells, nexts, numbers, first = sort_by_step(samples, n_samples, grid, n_state, horizon)
    decay = np.ones((widths.shape[2], largest(grid.bins)))
    buffer, errors = np.zeros(2 * n_cells), np.zeros(SHARES.shape[0])
    n_all, center = mean_reward(numbers)
    features = make_features(grid, n_cells)

    error_of = np.zeros(2)  # leave-one-out errors: steps pooled, steps apart
    rewards = np.zeros((N_ROWS, 0))
    reward_fit = value_fit = (0.0, 0.0, 1.0)
    is_search = is_learning and (is_early or turn % 2 == 0)
    for trial in range(0 if compares else 2, 3):
        apart = core[0]["rewards_apart"] if trial == 2 else trial
        rewards = sum_rewards(cells, numbers, first, n_cells, apart, center)
        factor = remove_trend(rewards, features, center)
        share, noise = tune(
            rewards, grid, widths[REWARDS, apart], is_search and (trial < 2 or not compares),
            decay, n_cells, buffer, errors,
        )  # fmt: skip
        noise *= factor
        if trial < 2:
            error_of[trial] = noise
        if trial == 1:
            core[0]["rewards_apart"] = is_clearly_less(error_of[1], error_of[0], n_all)
        if trial == 2:
            reward_fit = finish(rewards, grid, decay, n_cells, share, noise, buffer)

    values = np.zeros((N_ROWS, n_cells))
    error_of[0] = error_of[1] = 0.0
    compares = compares and horizon > 2
    for step in range(horizon - 1, -1, -1):
        after = plan.values[step + 1]  # zeros after the last step
        is_search = is_learning and step == (horizon - 1) // 2
        for trial in range(0 if compares else 1, 2 if step < horizon - 1 else 0):
            apart = core[0]["values_apart"] if trial == 1 else 1 - core[0]["values_apart"]
            center = sum_values(cells, nexts, numbers, first, step, apart, after, values)
            factor = remove_trend(values, features, center)
            share, noise = tune(
                values, grid, widths[VALUES, apart],
                is_search and (trial == 0 or is_early or turn % 2 == 1),
                decay, n_cells, buffer, errors,
            )  # fmt: skip
            noise *= factor
            if compares:
                error_of[apart] += factor * sum_errors(
                    cells, nexts, numbers, first, step, after, values, SHARES[share]
                )
            if trial == 1:
                value_fit = finish(values, grid, decay, n_cells, share, noise, buffer)
        block = step * n_cells if rewards.shape[1] > n_cells else 0
        back_up(
            core, step, rewards, block, reward_fit, values, value_fit, is_learning, n_states, plan
        )
    if is_learning:
        if compares:
            core[0]["values_apart"] = is_clearly_less(error_of[1], error_of[0], n_all)
        core[0]["reward_noise"], core[0]["reward_gap"] = reward_fit[0], reward_fit[1]
        core[0]["value_noise"], core[0]["value_gap"] = value_fit[0], value_fit[1]
        core[0]["n_plans"] += 1
        core[0]["n_planned"] = n_samples
        n_episodes = core[0]["n_episodes"]
        core[0]["due"] = max(n_episodes + 1, np.int64(np.ceil(GROWTH * n_episodes)))


@jit_inline
def is_clearly_less(error, other, n_samples):
    """Return 1 if an error is smaller than another one by more than chance, else 0."""
    return 1 if error < (1.0 - DOUBT / np.sqrt(n_samples + 1.0)) * other else 0


@jit_kernel
def finish(work, grid, decay, n_cells, share, noise, buffer):
    """Write the prediction of every cell into the row MEAN; return (noise, gap, share)."""
    gap = measure_gaps(work, grid, decay, n_cells, noise, buffer)
    predict_cells(work, SHARES[share])
    return noise, gap, SHARES[share]


@jit_kernel
def mean_reward(numbers):
    """Return the number of samples and their mean reward."""
    n, total = 1e-9, 0.0
    for i in range(numbers.shape[0]):
        n += numbers[i, WEIGHT]
        total += numbers[i, WEIGHT] * numbers[i, MEAN_REWARD]
    return n, total / n


@jit_kernel
def sum_rewards(cells, numbers, first, n_cells, apart, center):
    """Return the sums of rewards minus `center`: one block of cells, or one for each step."""
    horizon = first.shape[0] - 1
    work = np.zeros((N_ROWS, n_cells * (horizon if apart else 1)))
    for step in range(horizon):
        block = step * n_cells if apart else 0
        for i in range(first[step], first[step + 1]):
            c, weight, mean = block + cells[i], numbers[i, WEIGHT], numbers[i, MEAN_REWARD] - center
            work[COUNT, c] += weight
            work[TOTAL, c] += weight * mean
            work[SQUARE, c] += weight * mean * mean + numbers[i, SPREAD]
    return work


@jit_kernel
def sum_values(cells, nexts, numbers, first, step, apart, after, work):
    """Write the sums of a step's next values minus their mean, and return the mean.

    The samples are those of the step, if steps are apart, or all.
    """
    for c in range(work.shape[1]):
        work[COUNT, c] = work[TOTAL, c] = work[SQUARE, c] = 0.0
    start, end = np.int64(0), first[first.shape[0] - 1]
    if apart:
        start, end = first[step], first[step + 1]
    center, n_samples = 0.0, 1e-9
    for i in range(start, end):
        n_samples += numbers[i, WEIGHT]
        if nexts[i] != ENDED:
            center += numbers[i, WEIGHT] * after[nexts[i]]
    center /= n_samples
    for i in range(start, end):
        c, weight = cells[i], numbers[i, WEIGHT]
        value = (0.0 if nexts[i] == ENDED else after[nexts[i]]) - center
        work[COUNT, c] += weight
        work[TOTAL, c] += weight * value
        work[SQUARE, c] += weight * value * value
    return center


@jit_kernel
def sum_errors(cells, nexts, numbers, first, step, after, work, share):
    """Return the sum of squared leave-one-out errors of next values over a step's samples."""
    total = 0.0
    for i in range(first[step], first[step + 1]):
        c = cells[i]
        n, mean = work[COUNT, c], work[MEAN, c]
        value = 0.0 if nexts[i] == ENDED else after[nexts[i]]
        g, w = without_one(n, work[MASS, c], share)
        error = g * (value - work[TREND, c] - mean) - w * (work[TOTAL, c] - n * mean)
        total += numbers[i, WEIGHT] * error * error
    return total


@jit_inline
def cap_of(core, step):
    """Return the largest possible return from `step` on, as far as is known."""
    high = core[0]["highest"]
    # If no reward is positive, the best case is that the episode ends after the next one.
    return high * (core[0]["horizon"] - step) if high > 0.0 else high


@jit_inline
def variance_at(work, cell, noise, gap, share):
    """Return the squared standard error of a prediction."""
    own = share / (work[COUNT, cell] + share)
    return noise / (work[MASS, cell] + THIN) + gap * own * own / (work[NEAR, cell] + EMPTY)


@jit_kernel
def back_up(
    core, step, rewards, block, reward_fit, values, value_fit, is_learning, n_states, plan
):  # fmt: skip
    """Write Q, bonus and V of a step; `rewards` and `values` have its predictions."""
    n_actions = plan.q.shape[1] // n_states
    has_next = step < core[0]["horizon"] - 1
    cap = cap_of(core, step)
    little = TIE_BONUS * max(0.0, core[0]["most"] - core[0]["least"])
    for state in range(n_states):
        best, most = np.int64(0), -np.inf
        for b in range(n_actions):
            c = state * n_actions + b
            r = block + c
            q = rewards[MEAN, r]
            if has_next:
                q += values[MEAN, c]
            plan.q[step, c] = q
            plan.visits[step, c] = rewards[COUNT, r]
            plan.bonus[step, c] = 0.0
            if is_learning:
                variance = variance_at(rewards, r, *reward_fit)
                if has_next:
                    variance += variance_at(values, c, *value_fit)
                bonus = OPTIMISM * np.sqrt(variance)
                bonus += little / np.sqrt(rewards[MASS, r] + THIN)
                plan.bonus[step, c] = bonus
                q += bonus
            if q > most:
                best, most = b, q
        plan.best[step, state] = best
        plan.values[step, state] = min(most, cap) if is_learning else most
