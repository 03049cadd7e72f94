"""Importance weights of logged episodes, and the estimates that use them."""

from __future__ import annotations

import numpy as np

from zooming.logs.trajectories import Played, Trajectories
from zooming.spaces.flatten import INTERVAL
from zooming.validation import Floats


def importance_weights(log: Trajectories, played: Played, radius: float) -> Floats:
    """Return the cumulative ratios of each episode after each step [n, horizon].

    The policy is taken to play uniformly within `radius` (a share of each continuous axis, cut at
    its ends) of its action, since the log has no action that is exactly the same. Whole numbers
    must be equal. Where an episode has ended, its last ratio stays.
    """
    assert log.propensities is not None
    axes = played.axes
    kinds = np.array([kind == INTERVAL for kind in axes.kinds[axes.n_state :]])
    low, high = axes.low[axes.n_state :], axes.high[axes.n_state :]
    reach = np.where(kinds, radius * (high - low), 0.0)
    ratios = np.ones((len(log), log.horizon))
    for step in range(log.horizon):
        rows = np.flatnonzero(log.has_step[:, step])
        if not len(rows):
            continue
        wanted = played.actions(step, log.states[rows, step])
        first, last = np.maximum(low, wanted - reach), np.minimum(high, wanted + reach)
        slack = 1e-9 * np.where(kinds, high - low, 1.0)
        logged = log.actions[rows, step]
        is_near = ((logged >= first - slack) & (logged <= last + slack)).all(axis=1)
        size = np.prod(np.where(kinds, last - first, 1.0), axis=1)
        ratios[rows, step] = is_near / size / log.propensities[rows, step]
    return np.asarray(np.cumprod(ratios, axis=1), np.float64)


def effective_samples(weights: Floats) -> float:
    """Return (sum w)^2 / (sum w^2) over episodes, at the step where it is least.

    >>> effective_samples(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    2.0
    """
    squares = (weights**2).sum(axis=0)
    sums = weights.sum(axis=0)
    return float(np.where(squares > 0, sums**2 / np.where(squares > 0, squares, 1.0), 0.0).min())


def weighted_sums(weights: Floats, gains: Floats, counts: Floats) -> Floats:
    """Return sum_h (sum_i w_ih g_ih) / (sum_i w_ih) for each column of counts.

    An episode counts as often as it was drawn. `gains` has one column, or one for each of `counts`.

    >>> weights, gains = np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([[2.0, 4.0], [4.0, 8.0]])
    >>> weighted_sums(weights, gains[:, :, None], np.ones((2, 1))).tolist()  # 3 + 7
    [10.0]
    """
    total = np.einsum("ih,ic->hc", weights, counts)
    above = np.einsum("ihc,ic->hc", weights[:, :, None] * gains, counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = (above / total).sum(axis=0)
    return found
