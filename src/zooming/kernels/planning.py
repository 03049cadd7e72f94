"""Plan by backward induction on a kernel model of the samples.

Rewards and next values are two regression targets, fitted for each step by `step_models`. Then,
from the last step back,

    Q_h = reward_h + next value_h
    bonus_h = OPTIMISM sqrt(variance_h) + a little where samples are few
    V_h = Q_h of the action with the largest Q_h + bonus_h, at most the cap

That is a plan for learning. A plan for the policy has the bonus -CAUTION sqrt(variance) and no cap:
it prefers actions that are known.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.exogenous import average_out, find_exogenous
from zooming.kernels.exploring import covering_radius, find_way, measure_distances
from zooming.kernels.grids import largest, sort_by_step
from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.plan_layout import (
    ALIKE,
    ALONE,
    BALLS,
    CAUTION,
    COUNT,
    ENDED,
    FAR_BALLS,
    GROWTH,
    MASS,
    MEAN,
    MEAN_REWARD,
    N_FITS,
    N_ROWS,
    OPTIMISM,
    OWN,
    POOL,
    REWARDS,
    SHARES,
    THIN,
    TIE_BONUS,
    VALUES,
    WEIGHT,
    Models,
)
from zooming.kernels.step_models import combined_variance, fit_pool, model_step
from zooming.kernels.trends import make_features


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
    cells, nexts, shifts, numbers, first = sort_by_step(
        samples, n_samples, grid, core[0]["n_state"], horizon
    )
    strides = np.ones(shifts.shape[1], np.int64)  # of state cells, along each axis
    for j in range(strides.shape[0] - 2, -1, -1):
        strides[j] = strides[j + 1] * grid.bins[j + 1]
    places, chances = np.zeros(n_states, np.int64), np.zeros((horizon, n_states))
    has_exogenous = find_exogenous(cells, nexts, numbers, first, grid, strides, places, chances)
    after, distances, sums = np.zeros(n_states), np.zeros(n_cells), np.zeros((4, n_cells))
    root = 1.0 + np.sqrt(np.sum(numbers[:, WEIGHT]))
    if is_learning:
        measure_distances(cells, grid, distances)
        core[0]["far"] = covering_radius(grid, FAR_BALLS * root)
    models = Models(
        np.zeros((N_FITS, N_ROWS, n_cells)), np.zeros((N_FITS, 3)), np.zeros(2),
        np.zeros(n_samples), np.zeros((2, 3, n_samples)), make_features(grid, n_cells),
        np.ones((widths.shape[2], largest(grid.bins))), np.zeros(2 * n_cells),
        np.zeros(SHARES.shape[0]), covering_radius(grid, BALLS * root),
    )  # fmt: skip
    factor, is_stale = 1.0, True  # of the pool; whether it must be fitted
    for step in range(horizon - 1, -1, -1):
        was = apart[REWARDS, step], apart[VALUES, step]
        if is_stale:
            fill_targets(models.targets, numbers, nexts, shifts, strides, after, REWARDS)
            is_search = is_learning and step == horizon - 1 and (is_early or turn % 2 == 0)
            factor = fit_pool(
                models, cells, numbers, first, apart[REWARDS], grid, widths[REWARDS, ALIKE],
                is_search, compares,
            )  # fmt: skip
        for kind in range(2 if step < horizon - 1 else 1):
            models.between[kind] = -1.0
            if kind == REWARDS and not (compares or was[REWARDS]):
                continue
            if kind == VALUES:
                average_out(plan.values[step + 1], has_exogenous, chances[step], places, after)
            fill_targets(models.targets, numbers, nexts, shifts, strides, after, kind)
            is_search = is_learning and (kind == REWARDS or step == (horizon - 1) // 2)
            is_search = is_search and (is_early or turn % 2 == kind)
            found = model_step(
                models, cells, numbers, first, step, apart[kind], kind, grid, widths[kind],
                is_search, compares, factor,
            )  # fmt: skip
            if kind == VALUES and is_learning:
                form = ALONE if was[VALUES] == ALONE else ALIKE  # the correction has no next states
                share = models.found[VALUES + (OWN if form == ALONE else 0), 2]
                find_way(
                    cells, nexts, numbers, first, step, form == ALONE, apart[VALUES], distances,
                    share, grid, widths[VALUES, form], models.decay, sums, models.buffer, plan,
                )  # fmt: skip
            if compares:
                apart[kind, step] = found
        if is_learning and step == horizon - 1:
            plan.way[step] = distances
        rewards = REWARDS + OWN if was[REWARDS] else POOL
        values = VALUES + OWN if step < horizon - 1 and was[VALUES] else VALUES
        back_up(core, step, models, rewards, values, is_learning, plan)
        is_stale = apart[REWARDS, step] != was[REWARDS]
    count_visits(cells, numbers, first, apart[REWARDS], plan.visits)
    if is_learning:
        has_pool = models.work[POOL, COUNT].any()
        core[0]["reward_noise"] = models.found[POOL if has_pool else rewards, 0]
        core[0]["value_noise"] = models.found[values, 0]
        core[0]["n_plans"] += 1
        core[0]["n_planned"] = n_samples
        n_episodes = core[0]["n_episodes"]
        core[0]["due"] = max(n_episodes + 1, np.int64(np.ceil(GROWTH * n_episodes)))


@jit_kernel
def fill_targets(targets, numbers, nexts, shifts, strides, after, kind):
    """Write the target of each sample: its reward, or its next value, which is 0 after an end.

    The next value is interpolated linearly between cell centers, along each axis on its own.
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
def count_visits(cells, numbers, first, apart, visits):
    """Write the number of samples in each cell: those of the step, or of all alike steps."""
    visits[:] = 0.0
    for step in range(visits.shape[0]):
        for h in range(visits.shape[0]):
            if h == step or not (apart[h] or apart[step]):
                for i in range(first[h], first[h + 1]):
                    visits[step, cells[i]] += numbers[i, WEIGHT]


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
                mass = models.work[rewards, MASS, c]
                plan.bonus[step, c] = OPTIMISM * error + little / np.sqrt(mass + THIN)
            else:
                plan.bonus[step, c] = -CAUTION * error
            q += plan.bonus[step, c]
            if q > most:
                best, most = b, q
        plan.best[step, state] = best
        value = plan.q[step, state * n_actions + best]
        plan.values[step, state] = min(value, cap) if is_learning else value
