"""The update rule of all agents with balls, with the bonuses and random numbers that it needs.

    alpha_t = (H + 1) / (H + min(t, T))                             the first visit replaces Q
    Q(B) <- (1 - alpha_t) Q(B) + alpha_t (r + V(x') + b(t))
    b(t) = bonus / sqrt(t), or `exact_bonus`, or `bernstein_bonus`

`randomized_value` is a rule without bonus, for `RandomizedQ`.

A table here is any array of records with `value` and `n_visits`.
"""

from __future__ import annotations

import math

import numpy as np

from zooming.kernels.boxes.layout import (
    EXACT,
    FIRST_COPY,
    IN_STAGE,
    MAX_VISITS,
    RANDOMIZED,
    SCALED,
    STAGE,
)
from zooming.kernels.loop.jit import IS_JIT_DISABLED, jit_inline, jit_no_refcount


@jit_inline
def index(row):
    """Return a row number as unsigned, so that Numba needs no test for negative indices."""
    return np.uint64(row)


@jit_no_refcount
def mix(z):
    """Return 64 bits that depend on all bits of z: the output function of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit_no_refcount
def draw(core):
    """Return the next 64 random bits of the agent's generator (SplitMix64)."""
    z = core[0]["random"] + np.uint64(0x9E3779B97F4A7C15)
    core[0]["random"] = z
    return mix(z)


@jit_inline
def draw_share(core):
    """Return a random number from [0, 1) of the agent's generator."""
    return np.float64(draw(core) >> np.uint64(11)) * 2.0**-53


@jit_no_refcount
def share_of(seed, row, n_visits, j):
    """Return a random number from [0, 1) for copy j of Q at one visit of a ball.

    It does not depend on earlier draws, so the order of selection and update does not matter.
    """
    z = mix(seed + np.uint64(row) * np.uint64(0x9E3779B97F4A7C15))
    z = mix(z + np.uint64(1024 * n_visits + j) * np.uint64(0x9E3779B97F4A7C15))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


if IS_JIT_DISABLED:  # the overflow is intended
    draw, share_of = np.errstate(over="ignore")(draw), np.errstate(over="ignore")(share_of)


@jit_no_refcount
def ceiling(core, step):
    """Return the largest possible return from `step` on: the cap of V and the first Q of a root."""
    n_steps = core[0]["horizon"] if core[0]["full_cap"] == 1 else core[0]["horizon"] - step
    high = core[0]["reward_high"]
    # If no reward is positive, the best case is that the episode ends after the next one.
    return high * n_steps if high > 0.0 else high


@jit_no_refcount
def set_iota(core):
    """Set iota_k = log(8 H k^2 / delta) of this episode, and its bonus, if K is not known."""
    if core[0]["first_iota"] > 0.0:
        core[0]["iota"] = core[0]["first_iota"] + 2.0 * math.log(
            np.float64(max(core[0]["episode"], 1))
        )
        core[0]["bonus"] = core[0]["per_root_iota"] * math.sqrt(core[0]["iota"]) + core[0]["plain"]


@jit_no_refcount
def exact_bonus(core, stats, step, row, diameter, learning_rate):
    """Return b(t) such that Q is the weighted mean of r + V' plus the width that optimism needs.

    That width is B_t = R sqrt(S_t iota / 2) + L D_t. R is the range of r + V', S_t = (1-a)^2
    S_{t-1} + a^2 the sum of squared weights, and D_t = (1-a) D_{t-1} + a diam(B) the weighted
    diameter. So b = (B_t - (1-a) B_{t-1}) / a. The statistics of a ball are S, D and B.
    """
    reach = core[0]["bonus"] * (core[0]["horizon"] - 1 - step + core[0]["reward_spread"])
    keep = 1.0 - learning_rate
    before = stats[row, 2]
    stats[row, 0] = keep * keep * stats[row, 0] + learning_rate * learning_rate
    stats[row, 1] = keep * stats[row, 1] + learning_rate * diameter
    stats[row, 2] = reach * np.sqrt(stats[row, 0]) + core[0]["lipschitz"] * stats[row, 1]
    return (stats[row, 2] - keep * before) / learning_rate


@jit_no_refcount
def bernstein_bonus(core, stats, row, n_visits, learning_rate, next_value):
    """Return b(t) such that its weighted sum is beta_t / 2, plus a term for noise and L.

    The statistics of a ball are the mean and the variance (by Welford) of V', and beta.
    [Jin et al. 2018 Alg. 2]
    """
    t = np.float64(n_visits)
    horizon = np.float64(core[0]["horizon"])
    span = core[0]["reward_span"]
    iota = core[0]["iota"]
    away = next_value - stats[row, 0]
    stats[row, 0] += away / t
    stats[row, 1] += (away * (next_value - stats[row, 0]) - stats[row, 1]) / t
    n_balls = core[0]["n_balls"] / horizon
    deviation = np.sqrt(horizon / t * (stats[row, 1] + horizon * span * span) * iota)
    by_variance = core[0]["c1"] * (deviation + span * np.sqrt(horizon**7 * n_balls) * iota / t)
    by_range = core[0]["c2"] * span * np.sqrt(horizon**3 * iota / t)
    before = stats[row, 2]
    stats[row, 2] = min(by_variance, by_range)
    return (stats[row, 2] - (1.0 - learning_rate) * before) / (2.0 * learning_rate) + core[0][
        "bonus"
    ] / np.sqrt(t)


@jit_no_refcount
def randomized_value(core, stats, step, row, n_visits, value, target):
    """Return Q of a ball after a visit with randomized learning rates.

    Every copy of Q moves to the target by w ~ Beta(1, n + n_0), where n is the number of earlier
    visits in this stage and n_0 that of prior samples. Q stays until the stage of
    floor((1 + 1/H)^q H) visits ends. It then becomes the largest copy, and all copies begin anew.
    [Tiapkin et al. 2023, Staged-RandQL with kappa = 1]
    """
    n = stats[row, IN_STAGE]
    largest = -np.inf
    for j in range(FIRST_COPY, stats.shape[1]):
        copy = ceiling(core, step) if n == 0.0 else stats[row, j]
        share = share_of(core[0]["rates_seed"], row, n_visits, j - FIRST_COPY)
        weight = -math.expm1(math.log1p(-share) / (n + core[0]["prior_samples"]))
        stats[row, j] = copy + weight * (target - copy)
        largest = max(largest, stats[row, j])
    stats[row, IN_STAGE] = n + 1.0
    horizon = np.float64(core[0]["horizon"])
    length = math.floor((1.0 + 1.0 / horizon) ** stats[row, STAGE] * horizon + 1e-9)
    if n + 1.0 < length:
        return value
    stats[row, IN_STAGE] = 0.0
    stats[row, STAGE] += 1.0
    return largest


@jit_inline
def count_visit(table, core, step, ball):
    """Count a visit of a ball, and at step 0 an episode. Return (visits, learning rate)."""
    if step == 0:  # an episode begins, in either driver
        core[0]["episode"] += 1
        set_iota(core)
    horizon = core[0]["horizon"]
    n_visits = min(np.int64(table[ball]["n_visits"]) + 1, MAX_VISITS)
    table[ball]["n_visits"] = n_visits
    return n_visits, (horizon + 1.0) / (horizon + min(n_visits, core[0]["memory"]))


@jit_inline
def move(table, ball, learning_rate, target):
    """Move Q of a ball to a target. [SBY19 Alg. 1, update rule]"""
    table[ball]["value"] = (1.0 - learning_rate) * table[ball]["value"] + learning_rate * target


@jit_inline
def learn_scaled(table, core, step, row, reward, next_value):
    """Apply the update rule with b(t) = c / sqrt(t). Return the visits of the ball."""
    ball = index(row)
    n_visits, learning_rate = count_visit(table, core, step, ball)
    bonus = core[0]["bonus"] / np.sqrt(np.float64(n_visits))
    move(table, ball, learning_rate, reward + next_value + bonus)
    return n_visits


@jit_inline
def learn(table, core, stats, step, row, diameter, reward, next_value):
    """Apply the update rule with any bonus. Return the visits of the ball. [SBY19 Alg. 1]

    Only the exact bonus reads `diameter`.
    """
    if core[0]["bonus_rule"] == SCALED:
        return learn_scaled(table, core, step, row, reward, next_value)
    ball = index(row)
    n_visits, learning_rate = count_visit(table, core, step, ball)
    if core[0]["bonus_rule"] == RANDOMIZED:
        table[ball]["value"] = randomized_value(
            core, stats, step, row, n_visits, table[ball]["value"], reward + next_value
        )
        return n_visits
    bonus = kept_bonus(core, stats, step, row, n_visits, diameter, learning_rate, next_value)
    move(table, ball, learning_rate, reward + next_value + bonus)
    return n_visits


@jit_inline
def kept_bonus(core, stats, step, row, n_visits, diameter, learning_rate, next_value):
    """Return b(t) of a rule that keeps statistics, and update them."""
    if core[0]["bonus_rule"] == EXACT:
        return exact_bonus(core, stats, step, row, diameter, learning_rate)
    return bernstein_bonus(core, stats, row, n_visits, learning_rate, next_value)


@jit_no_refcount
def learned_reward(reward, low, high, clipping):
    """Return the reward to learn from, clipped if clipping[0] is 1, or NaN if it is refused."""
    if reward >= low and reward <= high:
        return reward
    if clipping[0] == 0 or not np.isfinite(reward):
        return np.nan
    return low if reward < low else high
