"""Plan by backward induction on a kernel model of the samples.

In the order of the code, with samples (h, x, a, r, x') and cells c of a grid over (x, a):

    sort     samples by step; c of (x, a); V(x') interpolates between the centers of states
    drift    f(x, a) = expected x', linear; 0 weight if repeated transitions show no noise
    exogenous: axes of x' that depend on nothing; V(x') is averaged over their law

    for h = H - 1, ..., 0:
        targets    r,  and  y = V_{h+1}(x') - V_{h+1}(f(x, a))
        pool       of the steps that are alike; a step whose errors fall clearly is alone
        trend      t = ridge regression on 1, coordinates, products, hats of the drift
        kernel     w(c, c') = prod_axes exp(-|c - c'| / bandwidth)
        mean       m = sum w (target - t) / (sum w + PRIOR)
        predict    t + m + (total - n m) / (n + share),  n and total of the cell's own residuals
        tune       bandwidths and share by leave-one-out error
        variance   s^2 = noise / (sum v + PRIOR) + gap (share / (n + share))^2 / (visited + EMPTY),
                   v as w, but no wider than balls that fill the space, see `narrow`
        Q_h        = reward_h + next value_h,  next value_h = prediction of y + V_{h+1}(f)
        bonus_h    = OPTIMISM sqrt(s^2 of rewards + s^2 of values)
        V_h        = Q_h of the action with the largest Q_h + bonus_h, at most the cap
        way_h      = how far from all samples an episode can get, see `find_way`

    lost     cells that lose more than PRICE spreads of returns against the best of their state;
             if any, all again without their samples: catastrophes drown what good actions differ by
    note     noise, number of samples, when the next plan is due

That is a plan for learning. A plan for the policy takes the bonus off instead, so it prefers
actions with many samples. It changes nothing but the plan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.exogenous import average_out, find_exogenous
from zooming.kernels.plans.grids import (
    cell_of,
    covering_radius,
    largest,
    measure_distances,
    sort_by_step,
)
from zooming.kernels.plans.layout import (
    AGREE,
    ALONE,
    BALLS,
    CATEGORIES,
    CLOSE,
    COUNT,
    EARLY,
    ENOUGH,
    EVIDENCE,
    FAR_BALLS,
    FAR_PRICE,
    GROWTH,
    LEAST_REPEATS,
    MEAN,
    MEAN_REWARD,
    N_FITS,
    N_HATS,
    N_ROWS,
    NOISE,
    OPTIMISM,
    POOL,
    PRICE,
    PRIOR,
    REWARDS,
    SHARE,
    SPARING,
    UNITS,
    VALUES,
    VARIANCE,
    WEIGHT,
    Samples,
    cells_at,
)
from zooming.kernels.plans.smoothing import set_decay, smooth
from zooming.kernels.plans.step_models import add_variance, fit_pool, model_step, time_from
from zooming.kernels.plans.trends import (
    add_values,
    cell_centers,
    find_drifts,
    find_slopes,
    follow,
    make_features,
    sample_points,
)


class Models(NamedTuple):
    """What all steps of a plan share: settings, samples, drifts, regressions, scratch memory.

    What depends only on the samples of a fit and on its bandwidths is kept from step to step:
    counts, kernel masses, and the factor of the trend's normal equations.
    """

    is_learning: Any  # bool: a plan for learning, otherwise for the policy
    finds_way: Any  # bool: whether `plan.way` is filled: what is lost is not unknown
    tunes: Any  # bool: bandwidths are tuned
    compares: Any  # bool: the forms of the next plan are chosen
    grid: Any
    widths: Any  # [2, 2, n_axes]: powers of 2, the bandwidths of each target and form
    apart: Any  # [2, horizon]: the form of each target at each step, in the next plan
    was: Any  # [2, horizon]: and in this plan
    rows: Any  # Sorted
    targets: Any  # [2, n_samples]: rewards; next values, minus the value of the drift if it is used
    centers: Any  # [2]: about the mean of each target
    most: Any  # float: the highest reward
    is_first: Any  # bool: the first fit, which fills `lost`
    lost: Any  # [horizon, n_cells]: losses against the best cell of the state, if above the price
    has_drift: Any  # bool: whether the value of the drift is part of the model
    of_samples: Any  # (nexts, neighbors, shares) of the drift of each sample
    of_cells: Any  # and of each cell
    has_exogenous: Any  # bool
    chances: Any  # [horizon, n_states], see `find_exogenous`
    places: Any  # [n_states]
    after: Any  # [n_states + 1]: values of next states; the last entry is 0
    distances: Any  # [n_cells]: to the nearest cell with samples
    radius: Any  # float: the largest bandwidth of the standard error and of the way
    work: Any  # [N_FITS, N_ROWS, n_cells], see COUNT
    found: Any  # [N_FITS, 5]: see NOISE
    members: Any  # [N_FITS, horizon] bool: the steps whose samples are in COUNT
    kernels: Any  # [N_FITS, n_axes]: the bandwidths of MASS and NEAR; NaN if these are not valid
    factors: Any  # [N_FITS, n_columns, n_columns]: Cholesky factors, see `trends`
    losses: Any  # [2, 2, n_samples]: leave-one-out errors of each target and form
    features: Any  # see `trends`
    slopes: Any  # [n_cells]: of rewards in time
    decay: Any  # [n_axes, most bins], see `smoothing`
    visited: Any  # [N_FITS, 1 + n_cells] int64: see `visited_by`
    buffer: Any  # [3 n_cells]


@jit_kernel
def make_plan(handle, n_samples, widths, apart, is_learning):
    """Fill the plan of a handle from its first `n_samples` samples.

    `widths` and `apart` are those of `Models`. A plan for learning (`is_learning`) tunes `widths`,
    and chooses the forms for the next plan. It also fills `plan.way` and updates `core`. A plan for
    the policy changes only `plan`.
    """
    core, samples, grid, plan, _ = cells_at(handle)
    horizon, n_states = plan.best.shape
    lost, places, before = np.zeros(plan.q.shape), np.zeros(n_states, np.int64), apart.copy()
    shared = lost, places, np.zeros((horizon, n_states))
    first = look(core, samples, n_samples, grid, widths, apart, plan, is_learning, shared)
    noise, is_foreseen = plan_steps(core, first, plan)
    left = without_lost(samples, n_samples, grid, lost)
    n_left = left.steps.shape[0]
    if is_foreseen and is_enough(grid, np.sum(left.numbers[:, WEIGHT])) and n_left < n_samples:
        apart[:] = before
        models = look(core, left, n_left, grid, widths, apart, plan, is_learning, shared)
        noise, _ = plan_steps(core, models, plan)
    count_visits(first, plan)
    if is_learning:
        note(core, noise, n_samples)


@jit_kernel
def plan_steps(core, models, plan):
    """Plan all steps. Return (noise of rewards, of values), and whether the rewards are foreseen.

    They are if the fits explain more of their variance than they leave. If not, a bad return may
    be bad luck, and without the samples that were unlucky every risk would look smaller.
    """
    rewards = values = 0
    noise, variance, rows = 0.0, 0.0, models.rows
    for step in range(core[0]["horizon"] - 1, -1, -1):
        rewards = fit_rewards(models, step)
        values = fit_values(models, step, plan)
        back_up(core, models, step, rewards, values, plan)
        n = np.sum(rows.weights[rows.first[step] : rows.first[step + 1]])
        noise += n * models.found[rewards, NOISE]
        variance += n * models.found[rewards, VARIANCE]
    pool = POOL if models.work[POOL, COUNT].any() else rewards
    return (models.found[pool, NOISE], models.found[values, NOISE]), 2.0 * noise < variance


@jit_kernel
def without_lost(samples, n_samples, grid, lost):
    """Return the samples of the cells that are not `lost`."""
    order, n_left = np.zeros(n_samples, np.int64), 0
    for k in range(n_samples):
        order[n_left] = k  # stays if the cell is not lost
        n_left += 1 if lost[samples.steps[k], cell_of(grid, samples.places[k])] == 0.0 else 0
    order = order[:n_left]
    return Samples(samples.steps[order], samples.places[order], samples.numbers[order])


@jit_kernel
def look(core, samples, n_samples, grid, widths, apart, plan, is_learning, shared):
    """Return `Models` without a fit: sort samples, find drifts, exogenous axes and noise.

    `shared` are (lost, places, chances) of `Models`. The last two are filled by the first fit.
    """
    lost, places, chances = shared
    is_first = not lost.any()
    horizon, n_state = core[0]["horizon"], core[0]["n_state"]
    n_cells, n_states, n_axes = plan.q.shape[1], plan.best.shape[1], grid.bins.shape[0]
    is_thorough = core[0]["n_plans"] < EARLY or core[0]["n_plans"] % SPARING == 0
    tunes = is_learning and is_thorough
    compares = tunes and horizon > 1
    rows = sort_by_step(samples, n_samples, grid, n_state, horizon)
    n_total = np.sum(rows.weights)
    root, distances = 1.0 + np.sqrt(n_total), np.zeros(n_cells)
    has_exogenous = find_exogenous(rows, grid, places, chances) if is_first else places.any()
    most, least = -np.inf, np.inf
    for reward in rows.rewards:
        most, least = max(most, reward), min(least, reward)
    if n_samples == 0:
        most = least = 0.0
    span = most - least
    finds_way = is_learning and is_first
    if finds_way:
        measure_distances(rows.cells, grid, distances)
        core[0]["far"] = covering_radius(grid, FAR_BALLS * root) if span > 0.0 else 0.0
    if is_learning:
        core[0]["is_exact"] = repeats_agree(
            samples, n_samples, grid, n_cells, n_state, horizon, span
        )
    centers, drifts = cell_centers(grid, n_cells), find_drifts(samples, n_samples, grid, n_state)
    has_drift = can_drift(grid, n_state, n_total) and not core[0]["is_exact"]
    if core[0]["is_exact"]:  # a narrow peak shows in the samples; functions of the drift blur it
        drifts.strengths[:] = 0.0
    n_followed = n_samples if has_drift and horizon > 1 else 0
    counts, targets = np.zeros(n_cells), np.zeros((2, n_samples))
    for i in range(n_samples):
        counts[rows.cells[i]] += rows.weights[i]
        targets[REWARDS, i] = rows.rewards[i]
    features = make_features(grid, centers, counts, drifts, N_HATS)
    n_columns, center = features.n_columns, weighted_mean(rows.weights, rows.rewards)
    slopes = np.zeros(n_cells)
    if core[0]["n_plans"] >= EARLY:  # by then, steps that differ by jumps stand alone
        slopes = find_slopes(rows, targets[REWARDS], center, apart[REWARDS], features)
    return Models(
        is_learning, finds_way, tunes, compares, grid, widths, apart, apart.copy(), rows, targets,
        np.array([center, 0.0]), most, is_first, lost, has_drift,
        follow(drifts, sample_points(samples, n_followed, rows, grid), grid),
        follow(drifts, centers, grid), has_exogenous, chances, places, np.zeros(n_states + 1),
        distances, covering_radius(grid, BALLS * root), np.zeros((N_FITS, N_ROWS, n_cells)),
        np.zeros((N_FITS, 5)), np.zeros((N_FITS, horizon), np.bool_),
        np.full((N_FITS, n_axes), np.nan),
        np.zeros((N_FITS, n_columns, n_columns)), np.zeros((2, 2, n_samples)), features,
        slopes,
        np.ones((n_axes, largest(grid.bins))), np.zeros((N_FITS, 1 + n_cells), np.int64),
        np.zeros(3 * n_cells),
    )  # fmt: skip


@jit_kernel
def fit_rewards(models, step):
    """Fit the rewards of a step; return the row of `models.work` that has them."""
    last, was, apart = models.was.shape[1] - 1, models.was[REWARDS], models.apart[REWARDS]
    if step == last or apart[step + 1] != was[step + 1]:
        fit_pool(models, models.tunes and step == last)
    tunes = models.tunes and (was[step] == ALONE or step == last // 2)
    return model_step(models, REWARDS, step, tunes)


@jit_kernel
def fit_values(models, step, plan):
    """Fit the next values of a step; return the row of `models.work` that has them."""
    rows, after, targets = models.rows, models.after, models.targets[VALUES]
    last = models.was.shape[1] - 1
    if step == last:
        if models.finds_way:
            plan.way[step] = models.distances
        return VALUES
    average_out(
        plan.values[step + 1], models.has_exogenous, models.chances[step], models.places, after
    )
    targets[:] = 0.0
    add_values((rows.nexts, rows.neighbors, rows.shares), after, 1.0, targets)
    if models.has_drift:
        add_values(models.of_samples, after, -1.0, targets)
    models.centers[VALUES] = weighted_mean(rows.weights, targets)
    values = model_step(models, VALUES, step, models.tunes and step == last // 2)
    if models.has_drift:
        offsets = np.zeros(plan.q.shape[1])
        add_values(models.of_cells, after, 1.0, offsets)
        models.work[values, MEAN] += offsets
    if models.finds_way:
        find_way(models, values, step, plan)
    return values


@jit_kernel
def find_way(models, row, step, plan):
    """Write `plan.way` of a step: how far from all samples an episode can get from each cell.

        way_h(cell) = max(distance of the cell, mean of max_a way_{h+1}(x', a))

    The mean is that of the next states x', with the drift, samples and share of the fit of next
    values in `row`. So the drift tells where an action leads that was never tried. The bandwidths
    are those of the fit, at most the radius: if all values seen are equal, theirs are infinite, and
    every action would seem to lead equally far.
    """
    n_cells, n_states = plan.q.shape[1], plan.values.shape[1]
    n_actions, rows, work = n_cells // n_states, models.rows, models.work[row]
    farthest = np.zeros(n_states + 1)  # the last entry is that of an episode that has ended
    for state in range(n_states):
        for c in range(state * n_actions, (state + 1) * n_actions):
            farthest[state] = max(farthest[state], plan.way[step + 1, c])
    totals, led, ways = np.zeros(n_cells), np.zeros(n_cells), np.zeros(rows.cells.shape[0])
    add_values((rows.nexts, rows.neighbors, rows.shares), farthest, 1.0, ways)
    if models.has_drift:
        add_values(models.of_cells, farthest, 1.0, led)
        add_values(models.of_samples, farthest, -1.0, ways)
    for h in range(models.members.shape[1]):
        if models.members[row, h]:
            for i in range(rows.first[h], rows.first[h + 1]):
                totals[rows.cells[i]] += rows.weights[i] * ways[i]
    sums = totals.copy()
    widths = np.minimum(models.kernels[row], np.log2(models.radius))
    set_decay(models.grid, widths, models.decay)
    smooth(sums, models.grid, models.decay, models.buffer)
    for c in range(n_cells):
        mean = sums[c] / (work[EVIDENCE, c] + PRIOR)
        mean += (totals[c] - work[COUNT, c] * mean) / (work[COUNT, c] + models.found[row, SHARE])
        plan.way[step, c] = max(models.distances[c], led[c] + mean)


@jit_kernel
def back_up(core, models, step, rewards, values, plan):
    """Write Q, bonus and V of a step from the rows `rewards` and `values` of `models.work`.

    A cell is lost if its Q is below the highest Q of the state by more than the price.
    """
    n_states, is_learning, work = plan.values.shape[1], models.is_learning, models.work
    n_actions = plan.q.shape[1] // n_states
    # If no reward is positive, the best case is that the episode ends after the next one.
    n_left = core[0]["horizon"] - step if models.most > 0.0 else 1
    cap, price = models.most * n_left, PRICE * core[0]["spread"]
    sign = OPTIMISM if is_learning else -OPTIMISM
    q, bonus, lost = plan.q[step], plan.bonus[step], models.lost[step]
    means, time = work[rewards, MEAN], time_from(models, REWARDS, rewards, step)
    for c in range(q.shape[0]):
        q[c] = min(models.most, means[c] + time * models.slopes[c])
        bonus[c] = 0.0
    add_variance(work[rewards], models.found[rewards], bonus)
    if step < core[0]["horizon"] - 1:
        q += work[values, MEAN]
        add_variance(work[values], models.found[values], bonus)
    for c in range(q.shape[0]):
        bonus[c] = sign * np.sqrt(bonus[c])
    for state in range(n_states):
        first = state * n_actions
        best, most, highest = np.int64(0), -np.inf, -np.inf
        for c in range(first, first + n_actions):
            highest = max(highest, q[c] if lost[c] == 0.0 else -np.inf)
        for c in range(first, first + n_actions):
            if models.is_first and 0.0 < price < highest - q[c]:
                lost[c] = highest - q[c]
            q[c] = highest - lost[c] if lost[c] > 0.0 else q[c]
            if is_learning and 0.0 < price < highest - q[c]:
                bonus[c] = 0.0
                if highest - q[c] > FAR_PRICE * price:
                    plan.way[step, c] = 0.0
            if q[c] + bonus[c] > most:
                best, most = np.int64(c - first), q[c] + bonus[c]
        plan.best[step, state] = best
        plan.values[step, state] = min(q[first + best], cap)


@jit_kernel
def count_visits(models, plan):
    """Write the number of samples in each cell: of the step if it is apart, else of all alike."""
    rows, visits, apart = models.rows, plan.visits, models.apart[REWARDS]
    visits[:] = 0.0
    pooled = np.zeros(visits.shape[1])
    for step in range(visits.shape[0]):
        counts = visits[step] if apart[step] else pooled
        for i in range(rows.first[step], rows.first[step + 1]):
            counts[rows.cells[i]] += rows.weights[i]
    for step in range(visits.shape[0]):
        if not apart[step]:
            visits[step] = pooled


@jit_kernel
def note(core, noise, n_samples):
    """Write into `core` what the plan tells, and when the next one is due."""
    core[0]["reward_noise"], core[0]["value_noise"] = noise
    core[0]["n_plans"] += 1
    core[0]["n_planned"] = n_samples
    core[0]["plays"] = core[0]["earned"] = core[0]["squares"] = 0.0
    n_episodes = core[0]["n_episodes"]
    core[0]["due"] = max(n_episodes + 1, np.int64(np.ceil(GROWTH * n_episodes)))


@jit_kernel
def repeats_agree(samples, n_samples, grid, n_cells, n_state, horizon, span):
    """Return whether transitions of a step from the same place agree; False if there are few."""
    n_axes = grid.bins.shape[0]
    before = np.full((horizon, n_cells), np.int64(-1))
    n_repeats, n_agree = 0, 0
    for k in range(n_samples):
        cell = cell_of(grid, samples.places[k])
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


@jit_inline
def is_enough(grid, n_samples):
    """Return whether there are enough samples for a linear function of all axes."""
    return n_samples >= ENOUGH * (1 + grid.bins.shape[0])


@jit_kernel
def can_drift(grid, n_state, n_samples):
    """Return whether the value of the drift estimates the next value; categories do not drift."""
    found = is_enough(grid, n_samples)
    for j in range(n_state):
        found = found and (grid.kinds[j] != CATEGORIES or grid.bins[j] == 1)
    return found


@jit_kernel
def weighted_mean(weights, targets):
    """Return the mean of `targets`, added up in order: NumPy's sum depends on compilation."""
    total, weight = 0.0, 1e-9
    for i in range(targets.shape[0]):
        total += weights[i] * targets[i]
        weight += weights[i]
    return total / weight
