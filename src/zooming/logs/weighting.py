"""Importance weights of logged episodes, and the estimates that use them."""

from __future__ import annotations

import numpy as np

from zooming.logs.trajectories import Played, Trajectories
from zooming.spaces.flatten import INTERVAL, ORDERED
from zooming.validation import Floats

ENOUGH_EXACT = 30.0  # effective samples with which integers need not be smoothed
LEAST_COVERED = 0.5  # share of the integers near the policy's that the log must play


def importance_weights(log: Trajectories, played: Played, radius: float) -> tuple[Floats, bool]:
    """Return the cumulative ratios [n, horizon], and whether integers must be equal.

    The policy is treated as if it played uniformly within `radius` of its action (a share of each
    continuous axis, cut at its ends), because the log never has exactly the same action. Categories
    must be equal. Integers must be equal if enough logged integers are equal to the policy's, as in
    a log without noise. Otherwise they are treated as continuous, if the log plays enough of the
    integers near the policy's.
    """
    exact = _ratios(log, played, radius, True)
    found = np.asarray(np.cumprod(exact, axis=1), np.float64)
    n_exact = effective_samples(found)
    if n_exact >= ENOUGH_EXACT or not (played.kinds[played.axes.n_state :] == ORDERED).any():
        return found, True
    ratios = _ratios(log, played, radius, False)
    near = np.asarray(np.cumprod(ratios, axis=1), np.float64)
    # A ratio has the mean 1 if the log plays every action near the policy's.
    sums = np.where(log.has_step, ratios, 0.0).sum(axis=0)
    is_played = log.has_step.any(axis=0)
    covered = (sums[is_played] / log.has_step.sum(axis=0)[is_played]).min()
    if covered < LEAST_COVERED or effective_samples(near) <= n_exact:
        return found, True
    return near, False


def _ratios(log: Trajectories, played: Played, radius: float, is_exact: bool) -> Floats:
    """Return for each step the policy's density of the action divided by the log's density.

    It is 1 after the end of an episode. `is_exact` says whether integers must be equal.
    """
    assert log.propensities is not None
    axes = played.axes
    own = slice(axes.n_state, len(axes))
    is_interval = played.kinds[own] == INTERVAL
    low, high = axes.low[own], axes.high[own]
    reach = np.where(is_interval | (not is_exact), played.reach(radius)[own], 0.0)
    ratios = np.ones((len(log), log.horizon))
    for step in range(log.horizon):
        rows = np.flatnonzero(log.has_step[:, step])
        if not len(rows):
            continue
        wanted = played.actions(step, log.states[rows, step])
        first, last = np.maximum(low, wanted - reach), np.minimum(high, wanted + reach)
        slack = 1e-9 * np.where(is_interval, high - low, 1.0)
        logged = log.actions[rows, step]
        is_near = ((logged >= first - slack) & (logged <= last + slack)).all(axis=1)
        size = np.prod(last - first + np.where(is_interval, 0.0, 1.0), axis=1)
        ratios[rows, step] = is_near / size / log.propensities[rows, step]
    return ratios


def effective_samples(weights: Floats) -> float:
    """Return the smallest (sum w)^2 / (sum w^2) of all steps. The sums are over episodes.

    >>> effective_samples(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    2.0
    """
    squares = (weights**2).sum(axis=0)
    sums = weights.sum(axis=0)
    return float(np.where(squares > 0, sums**2 / np.where(squares > 0, squares, 1.0), 0.0).min())


def weighted_sums(weights: Floats, gains: Floats, counts: Floats) -> Floats:
    """Return sum_h (sum_i w_ih g_ih) / (sum_i w_ih) for each column of counts.

    `counts` is how often each episode was drawn. `gains` has one column, or one for each
    column of `counts`.

    >>> weights, gains = np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([[2.0, 4.0], [4.0, 8.0]])
    >>> weighted_sums(weights, gains[:, :, None], np.ones((2, 1))).tolist()  # 3 + 7
    [10.0]
    """
    total = np.einsum("ih,ic->hc", weights, counts)
    above = np.einsum("ihc,ic->hc", weights[:, :, None] * gains, counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = (above / total).sum(axis=0)
    return found
