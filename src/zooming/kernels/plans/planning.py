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
        variance   s^2 = noise / (sum w + THIN) + gap (share / (n + share))^2 / (visited + EMPTY)
        Q_h        = reward_h + next value_h,  next value_h = prediction of y + V_{h+1}(f)
        bonus_h    = OPTIMISM sqrt(s^2 of rewards + s^2 of values)
        V_h        = Q_h of the action with the largest Q_h + bonus_h, at most the cap
        way_h      = how far from all samples an episode can get, see `exploring`

    note     noise, number of samples, when the next plan is due

That is a plan for learning. A plan for the policy takes the bonus off instead, so it prefers
actions with many samples. It has no cap, and changes nothing but the plan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.drifts import add_values, find_drifts, follow_cells, follow_samples
from zooming.kernels.plans.exogenous import average_out, find_exogenous
from zooming.kernels.plans.exploring import covering_radius, find_way, measure_distances
from zooming.kernels.plans.features import cell_centers, make_features
from zooming.kernels.plans.grids import largest, sort_by_step
from zooming.kernels.plans.layout import (
    AGREE,
    ALIKE,
    ALONE,
    BALLS,
    CATEGORIES,
    CLOSE,
    COUNT,
    EARLY,
    ENOUGH,
    FAR_BALLS,
    GROWTH,
    LEAST_REPEATS,
    MEAN,
    MEAN_REWARD,
    N_FITS,
    N_HATS,
    N_ROWS,
    OPTIMISM,
    OWN,
    POOL,
    PRICE,
    REWARDS,
    SHARES,
    SPARING,
    UNITS,
    VALUES,
    Models,
)
from zooming.kernels.plans.step_models import fit_pool, model_step, variance_at


class Sight(NamedTuple):
    """What all steps of a plan share: samples in order, drifts, exogenous axes, distances."""

    rows: Any  # Sorted
    has_drift: Any  # bool: whether the value of the drift is part of the model
    of_samples: Any  # (nexts, neighbors, shares) of the drift of each sample
    of_cells: Any  # and of each cell
    has_exogenous: Any  # bool
    chances: Any  # [horizon, n_states], see `find_exogenous`
    places: Any  # [n_states]
    after: Any  # [n_states + 1]: values of next states; the last entry is 0
    offsets: Any  # [n_cells]: values of the drift
    distances: Any  # [n_cells]: to the nearest cell with samples


@jit_kernel
def make_plan(core, samples, n_samples, grid, widths, apart, plan, is_learning):
    """Fill `plan` from the first `n_samples` samples.

    `widths` [2, 2, n_axes] has the bandwidths of each target and form, see `step_models`. `apart`
    [2, horizon] has the form of each target at each step. A plan for learning (`is_learning`) tunes
    `widths`, and chooses the forms for the next plan. It also fills `plan.way` and updates `core`.
    A plan for the policy changes only `plan`.
    """
    horizon = core[0]["horizon"]
    is_thorough = core[0]["n_plans"] < EARLY or core[0]["n_plans"] % SPARING == 0
    tunes = is_learning and is_thorough
    compares = tunes and horizon > 1
    sight, models = look(core, samples, n_samples, grid, plan, is_learning)
    rows = sight.rows
    center = weighted_mean(rows.weights, rows.rewards)
    factor, is_stale = 1.0, True  # of the pool; whether it must be fitted
    for step in range(horizon - 1, -1, -1):
        was = apart[REWARDS, step]
        if is_stale:
            factor = fit_pool(
                models, rows, center, apart[REWARDS], grid, widths[REWARDS, ALIKE],
                tunes and step == horizon - 1, compares,
            )  # fmt: skip
        rewards, values = POOL, VALUES
        if compares or was == ALONE:
            found = model_step(
                models, rows, rows.rewards, center, step, apart[REWARDS], REWARDS, grid,
                widths[REWARDS], tunes and (was == ALONE or step == (horizon - 1) // 2), compares,
                factor,
            )  # fmt: skip
            apart[REWARDS, step] = found
            rewards = OWN + REWARDS if was == ALONE else POOL
        if step < horizon - 1:
            values = fit_values(
                models, sight, step, apart[VALUES], grid, widths[VALUES], plan,
                tunes and step == (horizon - 1) // 2, compares, is_learning,
            )  # fmt: skip
        elif is_learning:
            plan.way[step] = sight.distances
        back_up(core, step, models, rewards, values, is_learning, plan)
        is_stale = apart[REWARDS, step] != was
    count_visits(rows, apart[REWARDS], plan.visits)
    if is_learning:
        note(core, models, n_samples, rewards, values)


@jit_kernel
def look(core, samples, n_samples, grid, plan, is_learning):
    """Return (`Sight`, empty `Models`) of the samples. Find out whether there is noise."""
    horizon, n_state = core[0]["horizon"], core[0]["n_state"]
    n_cells, n_states, n_axes = plan.q.shape[1], plan.values.shape[1], grid.bins.shape[0]
    rows = sort_by_step(samples, n_samples, grid, n_state, horizon)
    n_total = np.sum(rows.weights)
    root, distances = 1.0 + np.sqrt(n_total), np.zeros(n_cells)
    places, chances = np.zeros(n_states, np.int64), np.zeros((horizon, n_states))
    has_exogenous = find_exogenous(rows, grid, places, chances)
    if is_learning:
        span = max(0.0, core[0]["most"] - core[0]["least"])
        measure_distances(rows.cells, grid, distances)
        core[0]["far"] = covering_radius(grid, FAR_BALLS * root) if span > 0.0 else 0.0
        core[0]["is_exact"] = repeats_agree(
            samples, n_samples, grid, n_cells, n_state, horizon, span
        )
    centers, drifts = cell_centers(grid, n_cells), find_drifts(samples, n_samples, grid, n_state)
    has_drift = can_drift(grid, n_state, n_total) and not core[0]["is_exact"]
    if core[0]["is_exact"]:  # a narrow peak shows in the samples; functions of the drift blur it
        drifts.strengths[:] = 0.0
    n_followed = n_samples if has_drift and horizon > 1 else 0
    counts = np.zeros(n_cells)
    for i in range(n_samples):
        counts[rows.cells[i]] += rows.weights[i]
    features = make_features(grid, centers, counts, drifts, N_HATS)
    sight = Sight(
        rows, has_drift, follow_samples(drifts, samples, n_followed, rows, grid),
        follow_cells(drifts, centers, grid), has_exogenous, chances, places,
        np.zeros(n_states + 1), np.zeros(n_cells), distances,
    )  # fmt: skip
    models = Models(
        np.zeros((N_FITS, N_ROWS, n_cells)), np.zeros((N_FITS, 3)),
        np.zeros((N_FITS, horizon), np.bool_), np.full((N_FITS, n_axes), np.nan),
        np.zeros((N_FITS, features.n_columns, features.n_columns)), np.zeros(n_samples),
        np.zeros((2, 2, n_samples)), features, np.ones((n_axes, largest(grid.bins))),
        np.zeros(2 * n_cells), np.zeros(SHARES.shape[0]), covering_radius(grid, BALLS * root),
    )  # fmt: skip
    return sight, models


@jit_kernel
def fit_values(models, sight, step, apart, grid, widths, plan, tunes, compares, is_learning):
    """Fit the next values of a step; return the row of `models.work` that has them.

    A plan for learning also finds the way, and the form of the step if `compares`.
    """
    rows, after, targets, was = sight.rows, sight.after, models.targets, apart[step]
    average_out(
        plan.values[step + 1], sight.has_exogenous, sight.chances[step], sight.places, after
    )
    fill_next_values(rows, after, targets)
    if sight.has_drift:
        add_values(sight.of_samples, after, -1.0, targets)
    center = weighted_mean(rows.weights, targets)
    found = model_step(
        models, rows, targets, center, step, apart, VALUES, grid, widths, tunes, compares, 1.0
    )
    values = VALUES + OWN if was == ALONE else VALUES
    if sight.has_drift:
        sight.offsets[:] = 0.0
        add_values(sight.of_cells, after, 1.0, sight.offsets)
        models.work[values, MEAN] += sight.offsets
    if is_learning:
        find_way(models, values, rows, step, sight.distances, grid, widths[was], plan)
    apart[step] = found
    return values


@jit_kernel
def note(core, models, n_samples, rewards, values):
    """Write into `core` what the plan tells, and when the next one is due.

    Count the returns of its episodes anew. The return of the last episode is counted when the next
    one begins, so with the new plan.
    """
    has_pool = models.work[POOL, COUNT].any()
    core[0]["reward_noise"] = models.found[POOL if has_pool else rewards, 0]
    core[0]["value_noise"] = models.found[values, 0]
    core[0]["n_plans"] += 1
    core[0]["n_planned"] = n_samples
    core[0]["plays"] = core[0]["earned"] = core[0]["squares"] = 0.0
    n_episodes = core[0]["n_episodes"]
    core[0]["due"] = max(n_episodes + 1, np.int64(np.ceil(GROWTH * n_episodes)))


@jit_kernel
def repeats_agree(samples, n_samples, grid, n_cells, n_state, horizon, span):
    """Return whether transitions of a step from the same place agree; False if there are few.

    Each sample is compared with the one before it in the same cell and step, if both
    have the same place. `span` is that of the rewards seen.
    """
    n_axes = grid.bins.shape[0]
    before = np.full((horizon, n_cells), np.int64(-1))
    n_repeats, n_agree = 0, 0
    for k in range(n_samples):
        cell = np.int64(0)
        for j in range(n_axes):
            cell = cell * grid.bins[j] + grid.bin_of[j, samples.places[k, j]]
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


@jit_kernel
def can_drift(grid, n_state, n_samples):
    """Return whether the value of the drift estimates the next value; categories do not drift."""
    found = n_samples >= ENOUGH * (1 + grid.bins.shape[0])
    for j in range(n_state):
        found = found and (grid.kinds[j] != CATEGORIES or grid.bins[j] == 1)
    return found


@jit_kernel
def fill_next_values(rows, after, targets):
    """Write the value of each sample's next state.

    The value is interpolated linearly between cell centers, along each axis on its own. The last
    entry of `after`, whose index is ENDED, is the value 0 after the end of an episode.
    """
    for i in range(targets.shape[0]):
        here = after[rows.nexts[i]]
        target = here
        for j in range(rows.shares.shape[1]):
            target += rows.shares[i, j] * (after[rows.neighbors[i, j]] - here)
        targets[i] = target


@jit_kernel
def weighted_mean(weights, targets):
    """Return the mean of `targets`, added up in order: NumPy's sum depends on compilation."""
    total, weight = 0.0, 1e-9
    for i in range(targets.shape[0]):
        total += weights[i] * targets[i]
        weight += weights[i]
    return total / weight


@jit_kernel
def count_visits(rows, apart, visits):
    """Write the number of samples in each cell: of the step if it is apart, else of all alike."""
    visits[:] = 0.0
    pooled = np.zeros(visits.shape[1])
    for step in range(visits.shape[0]):
        counts = visits[step] if apart[step] else pooled
        for i in range(rows.first[step], rows.first[step + 1]):
            counts[rows.cells[i]] += rows.weights[i]
    for step in range(visits.shape[0]):
        if not apart[step]:
            visits[step] = pooled


@jit_inline
def cap_of(core, step):
    """Return the largest possible return from `step` on; infinity if it is unknown."""
    high = core[0]["highest"]
    # If no reward is positive, the best case is that the episode ends after the next one.
    return high * (core[0]["horizon"] - step) if high > 0.0 else high


@jit_kernel
def back_up(core, step, models, rewards, values, is_learning, plan):
    """Write Q, bonus and V of a step from the fits `rewards` and `values` of `models.work`.

    No bonus tempts to an action that is predicted to lose more than PRICE times `spread`, the
    spread of good returns.
    """
    n_states = plan.values.shape[1]
    n_actions = plan.q.shape[1] // n_states
    has_next = step < core[0]["horizon"] - 1
    cap, price = cap_of(core, step), PRICE * core[0]["spread"]
    sign = OPTIMISM if is_learning else -OPTIMISM
    for state in range(n_states):
        first = state * n_actions
        best, most, highest = np.int64(0), -np.inf, -np.inf
        for b in range(n_actions):
            c = first + b
            q = models.work[rewards, MEAN, c]
            variance = variance_at(models.work[rewards], c, models.found[rewards])
            if has_next:
                q += models.work[values, MEAN, c]
                variance += variance_at(models.work[values], c, models.found[values])
            plan.q[step, c], plan.bonus[step, c] = q, sign * np.sqrt(variance)
            highest = max(highest, q)
        for b in range(n_actions):
            c = first + b
            if is_learning and price > 0.0 and highest - plan.q[step, c] > price:
                plan.bonus[step, c] = plan.way[step, c] = 0.0
            if plan.q[step, c] + plan.bonus[step, c] > most:
                best, most = np.int64(b), plan.q[step, c] + plan.bonus[step, c]
        plan.best[step, state] = best
        value = plan.q[step, first + best]
        plan.values[step, state] = min(value, cap) if is_learning else value
