"""Plan by backward induction on a kernel model of the samples.

Rewards and next values are two regression targets, fitted for each step by `step_models`. Then,
from the last step back,

    Q_h = reward_h + next value_h
    bonus_h = OPTIMISM sqrt(variance_h) + a little where samples are few
    V_h = Q_h of the action with the largest Q_h + bonus_h, at most the cap

That is a plan for learning. A plan for the policy has the bonus -CAUTION sqrt(variance) and no cap,
so it prefers actions with many samples.
"""

from __future__ import annotations

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
    CAUTION,
    CLOSE,
    COUNT,
    ENOUGH,
    EVIDENCE,
    FAR_BALLS,
    GROWTH,
    LEAST_HATS,
    LEAST_REPEATS,
    MEAN,
    MEAN_REWARD,
    MOST_HATS,
    N_FITS,
    N_ROWS,
    OPTIMISM,
    OWN,
    POOL,
    RECENT,
    REWARDS,
    SHARES,
    THIN,
    TIE_BONUS,
    UNITS,
    USUAL,
    VALUES,
    Models,
)
from zooming.kernels.plans.step_models import combined_variance, fit_pool, model_step


@jit_kernel
def repeats_agree(samples, n_samples, grid, n_cells, n_state, horizon, span):
    """Return whether transitions of a step from the same place agree; False if there are few.

    Each of the latest samples is compared with the one before it in the same cell and step, if both
    have the same place. `span` is that of the rewards seen.
    """
    n_axes = grid.bins.shape[0]
    before = np.full((horizon, n_cells), np.int64(-1))
    n_repeats, n_agree = 0, 0
    for k in range(max(0, n_samples - RECENT), n_samples):
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
def make_plan(core, samples, n_samples, grid, widths, apart, plan, is_learning):
    """Fill `plan` from the first `n_samples` samples.

    `widths` [2, 3, n_axes] has the bandwidths of each target and form, see `step_models`. `apart`
    [2, horizon] has the form of each target at each step. A plan for learning (`is_learning`) tunes
    `widths`, and chooses the forms for the next plan. It also fills `plan.way` and updates `core`.
    A plan for the policy changes only `plan`.
    """
    horizon, n_cells, n_states = core[0]["horizon"], plan.q.shape[1], plan.values.shape[1]
    turn = core[0]["n_plans"]  # the first plans tune all bandwidths, later ones some of them
    is_early = turn < 10
    compares = is_learning and horizon > 1 and (is_early or turn % 3 == 0)
    rows = sort_by_step(samples, n_samples, grid, core[0]["n_state"], horizon)
    n_total = np.sum(rows.weights)
    places, chances = np.zeros(n_states, np.int64), np.zeros((horizon, n_states))
    has_exogenous = find_exogenous(rows, grid, places, chances)
    after, distances = np.zeros(n_states + 1), np.zeros(n_cells)
    root = 1.0 + np.sqrt(n_total)
    if is_learning:
        measure_distances(rows.cells, grid, distances)
        core[0]["far"] = covering_radius(grid, FAR_BALLS * root)
    n_axes, centers = widths.shape[2], cell_centers(grid, n_cells)
    drifts = find_drifts(samples, n_samples, grid, core[0]["n_state"])
    if is_learning:
        span = max(0.0, core[0]["most"] - core[0]["least"])
        core[0]["is_exact"] = repeats_agree(
            samples, n_samples, grid, n_cells, core[0]["n_state"], horizon, span
        )
    if core[0]["is_exact"]:  # a narrow peak shows in the samples; functions of the drift blur it
        drifts.strengths[:] = 0.0
    has_drift = can_drift(grid, core[0]["n_state"], n_total) and not core[0]["is_exact"]
    n_followed = n_samples if has_drift and horizon > 1 else 0
    drifts_of_samples = follow_samples(drifts, samples, n_followed, rows, grid)
    drifts_of_cells = follow_cells(drifts, centers, grid)
    counts = np.zeros(n_cells)
    for i in range(n_samples):
        counts[rows.cells[i]] += rows.weights[i]
    n_hats = np.int64(min(MOST_HATS, max(LEAST_HATS, n_total**0.25)))
    features = make_features(grid, centers, counts, drifts, n_hats)
    offsets = np.zeros(n_cells)
    models = Models(
        np.zeros((N_FITS, N_ROWS, n_cells)), np.zeros((N_FITS, 3)),
        np.zeros((N_FITS, horizon), np.bool_), np.full((N_FITS, n_axes), np.nan),
        np.zeros((N_FITS, features.n_columns, features.n_columns)), np.zeros(2),
        np.zeros(n_samples), np.zeros(n_samples), np.zeros((2, 3, n_samples)), features,
        np.ones((n_axes, largest(grid.bins))), np.zeros(2 * n_cells), np.zeros(SHARES.shape[0]),
        covering_radius(grid, BALLS * root),
    )  # fmt: skip
    mean_reward = weighted_mean(rows.weights, rows.rewards)
    factor, is_stale = 1.0, True  # of the pool; whether it must be fitted
    for step in range(horizon - 1, -1, -1):
        was = apart[REWARDS, step], apart[VALUES, step]
        if is_stale:
            is_search = is_learning and step == horizon - 1 and (is_early or turn % 2 == 0)
            factor = fit_pool(
                models, rows, mean_reward, apart[REWARDS], grid, widths[REWARDS, ALIKE], is_search,
                compares,
            )  # fmt: skip
        for kind in range(2 if step < horizon - 1 else 1):
            models.between[kind] = -1.0
            if kind == REWARDS and not (compares or was[REWARDS]):
                continue
            targets, center = rows.rewards, mean_reward
            if kind == VALUES:
                average_out(plan.values[step + 1], has_exogenous, chances[step], places, after)
                targets = models.targets
                fill_next_values(rows, after, targets)
                if has_drift:
                    add_values(drifts_of_samples, after, -1.0, targets)
                center = weighted_mean(rows.weights, targets)
            # All steps have the same bandwidths, so only some of the steps tune them.
            is_search = step == (horizon - 1) // 2 or (kind == REWARDS and was[REWARDS] != ALIKE)
            is_search = is_search and is_learning and (is_early or turn % 2 == kind)
            found = model_step(
                models, rows, targets, center, step, apart[kind], kind, grid, widths[kind],
                is_search, compares, factor,
            )  # fmt: skip
            if kind == VALUES and has_drift:
                offsets[:] = 0.0
                add_values(drifts_of_cells, after, 1.0, offsets)
                models.work[VALUES, MEAN] += offsets
                models.work[VALUES + OWN, MEAN] += offsets
            if kind == VALUES and is_learning:
                # A correction has no kernel of next states: the pool's serves.
                is_own = was[VALUES] == ALONE
                find_way(
                    models, VALUES + OWN if is_own else VALUES, rows, step, distances, grid,
                    widths[VALUES, ALONE if is_own else ALIKE], plan,
                )  # fmt: skip
            if compares:
                apart[kind, step] = found
        if is_learning and step == horizon - 1:
            plan.way[step] = distances
        rewards = REWARDS + OWN if was[REWARDS] else POOL
        values = VALUES + OWN if step < horizon - 1 and was[VALUES] else VALUES
        back_up(core, step, models, rewards, values, is_learning, plan)
        is_stale = apart[REWARDS, step] != was[REWARDS]
    count_visits(rows, apart[REWARDS], plan.visits)
    if is_learning:
        has_pool = models.work[POOL, COUNT].any()
        core[0]["reward_noise"] = models.found[POOL if has_pool else rewards, 0]
        core[0]["value_noise"] = models.found[values, 0]
        core[0]["n_plans"] += 1
        core[0]["n_planned"] = n_samples
        n_episodes = core[0]["n_episodes"]
        remember_plan(core)
        core[0]["due"] = max(n_episodes + 1, np.int64(np.ceil(GROWTH * n_episodes)))


@jit_kernel
def can_drift(grid, n_state, n_samples):
    """Return whether the value of the drift estimates the next value; categories do not drift."""
    found = n_samples >= ENOUGH * (1 + grid.bins.shape[0])
    for j in range(n_state):
        found = found and (grid.kinds[j] != CATEGORIES or grid.bins[j] == 1)
    return found


@jit_kernel
def remember_plan(core):
    """Add the returns under the old plan to what is usual, and begin those of a new plan.

    The return of the last episode is counted when the next one begins, so with the new plan.
    """
    before = min(core[0]["usual_plays"], USUAL * core[0]["n_episodes"])
    plays = core[0]["plays"]
    both = max(1.0, before + plays)
    variance = before * core[0]["usual_variance"] + core[0]["squares"]
    core[0]["usual"] += (core[0]["earned"] - core[0]["usual"]) * plays / both
    core[0]["usual_variance"] = variance / both
    core[0]["usual_plays"] = before + plays
    core[0]["plays"] = core[0]["earned"] = core[0]["squares"] = 0.0


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
    """Write Q, bonus and V of a step from the fits `rewards` and `values` of `models.work`."""
    n_states = plan.values.shape[1]
    n_actions = plan.q.shape[1] // n_states
    has_next = step < core[0]["horizon"] - 1
    cap = cap_of(core, step)
    little = TIE_BONUS * max(0.0, core[0]["most"] - core[0]["least"])
    for state in range(n_states):
        best, most = np.int64(0), -np.inf
        for b in range(n_actions):
            c = state * n_actions + b
            q = models.work[rewards, MEAN, c]
            variance = combined_variance(models, rewards, REWARDS, c, is_learning)
            if has_next:
                q += models.work[values, MEAN, c]
                variance += combined_variance(models, values, VALUES, c, is_learning)
            plan.q[step, c] = q
            error = np.sqrt(variance)
            if is_learning:
                mass = models.work[rewards, EVIDENCE, c]
                plan.bonus[step, c] = OPTIMISM * error + little / np.sqrt(mass + THIN)
            else:
                plan.bonus[step, c] = -CAUTION * error
            q += plan.bonus[step, c]
            if q > most:
                best, most = b, q
        plan.best[step, state] = best
        value = plan.q[step, state * n_actions + best]
        plan.values[step, state] = min(value, cap) if is_learning else value
