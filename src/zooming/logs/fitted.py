"""Fitted Q evaluation: the value of a policy by regression on the transitions of a log.

Backwards from the last step, Q_h(x, a) is a local quadratic regression of r + V_{h+1}(x') on the
logged (x, a) of step h, and V_h(x) = Q_h(x, policy(x)). Only the logged next states are needed, so
each step is one regression at one point per episode. No point uses its own episode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zooming.logs.trajectories import Played, Trajectories
from zooming.spaces.flatten import CATEGORICAL
from zooming.validation import Floats

LEAST_NEAR = 5  # logged steps within the radius of a point that the log supports
RIDGE = 1e-3  # of the slopes, relative to the spread of the neighbors
SHARE = 0.75  # the number of neighbors is the number of episodes to this power
ROWS = 256  # points whose distances are in memory at once
Indices = NDArray[np.int64]


@dataclass
class Neighbors:
    """The nearest logged points of some points.

    Attributes
    ----------
    at : array of int [n, k]
        Numbers of the episodes, nearest first.
    away : array [n, k, axes]
        Neighbor minus point, in scaled axes.
    is_supported : array of bool [n]
        Whether there are enough logged points within the radius.
    is_equal : array of bool [n, k]
        Whether the categories are the same.
    """

    at: Indices
    away: Floats
    is_supported: NDArray[np.bool_]
    is_equal: NDArray[np.bool_]

    def weights(self, k: int) -> Floats:
        """Return the weights of the k nearest: (1 - (d / d_k)^3)^3 at the distance d."""
        distance = np.sqrt((self.away[:, :k] ** 2).sum(axis=2))
        largest = np.maximum(distance[:, -1:], 1e-12) * (1 + 1e-6)
        return np.asarray((1.0 - (distance / largest) ** 3) ** 3 * self.is_equal[:, :k])

    def regress(self, targets: Floats, counts: Floats, k: int) -> Floats:
        """Return local quadratic fits at the points, one for each column of targets and counts.

        `targets` and `counts` are [episodes, columns]; a count is how often an episode was drawn.
        A fit stays between the smallest and the largest target of its neighbors.
        """
        weights = self.weights(k)
        parts = []
        for first in range(0, len(self.at), ROWS):
            rows = slice(first, first + ROWS)
            at, is_there = self.at[rows, :k], self.is_equal[rows, :k]
            fitted = _fit(_design(self.away[rows, :k]), weights[rows], targets[at], counts[at])
            drawn = (counts[at] > 0) & is_there[:, :, None]
            low = np.where(drawn, targets[at], np.inf).min(axis=1)
            high = np.where(drawn, targets[at], -np.inf).max(axis=1)
            parts.append(np.where(low <= high, np.clip(fitted, low, high), np.nan))
        return np.concatenate(parts)


def _design(away: Floats) -> Floats:
    """Return the regressors: 1, the coordinates, and their products if k is large enough."""
    n, k, axes = away.shape
    first, second = np.triu_indices(axes)
    parts = [np.ones((n, k, 1)), away]
    if k >= 3 * (1 + axes + len(first)):
        parts.append(away[:, :, first] * away[:, :, second])
    return np.concatenate(parts, axis=2)


def _fit(design: Floats, weights: Floats, targets: Floats, counts: Floats) -> Floats:
    """Return the intercepts [n, columns] of weighted ridge regressions.

    `design` is [n, k, terms], `weights` [n, k], `targets` and `counts` [n, k, columns].
    """
    n, _, terms = design.shape
    first, second = np.triu_indices(terms)
    weighted = design * weights[:, :, None]
    drawn = counts.transpose(0, 2, 1)
    products = drawn @ (weighted[:, :, first] * design[:, :, second])
    left = np.empty((n, counts.shape[2], terms, terms))
    left[:, :, first, second] = left[:, :, second, first] = products
    right = (drawn * targets.transpose(0, 2, 1)) @ weighted
    slopes = np.arange(1, terms)
    left[:, :, slopes, slopes] += RIDGE * np.maximum(left[:, :, :1, 0], 1e-12)
    left[:, :, 0, 0] += 1e-9
    return np.asarray(np.linalg.solve(left, right[..., None])[:, :, 0, 0], np.float64)


def find_neighbors(
    points: Floats, own: Indices, logged: Floats, episodes: Indices, played: Played, k: int,
    radius: float,
) -> Neighbors:  # fmt: skip
    """Return the neighbors of (state, action) points among logged ones, all in the unit cube.

    Parameters
    ----------
    points, logged : array [n, axes], [m, axes]
        The points, and those of the log.
    own, episodes : array of int
        The episode of each of them: no point is its own neighbor.
    played : Played
        Knows the axes.
    k : int
        How many, at most m - 1.
    radius : float
        Distance along each axis at which a logged point supports a point.
    """
    axes = played.axes
    is_category = np.array([kind == CATEGORICAL for kind in axes.kinds])
    deviation = logged.std(axis=0)
    scale = np.where(deviation > 1e-9, deviation, 1.0)
    scale[is_category] = 1.0
    near_slack = radius + 1e-9
    at, supported, away, equal = [], [], [], []
    for first in range(0, len(points), ROWS):
        here, mine = points[first : first + ROWS], own[first : first + ROWS]
        gap = logged[None] - here[:, None]
        is_same = (np.abs(gap[:, :, is_category]) < 1e-9).all(axis=2)
        is_other = mine[:, None] != episodes[None]
        near = (np.abs(gap[:, :, ~is_category]) <= near_slack).all(axis=2) & is_same & is_other
        supported.append(near.sum(axis=1) >= LEAST_NEAR)
        gap /= scale
        gap[:, :, is_category] = 0.0
        square = (gap**2).sum(axis=2) + np.where(is_same, 0.0, 1e6) + np.where(is_other, 0.0, 1e12)
        nearest = np.argpartition(square, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(square, nearest, 1), axis=1, kind="stable")
        nearest = np.take_along_axis(nearest, order, 1)
        at.append(episodes[nearest])
        away.append(np.take_along_axis(gap, nearest[:, :, None], 1)[:, :, ~is_category])
        equal.append(np.take_along_axis(is_same & is_other, nearest, 1))
    return Neighbors(
        np.concatenate(at), np.concatenate(away), np.concatenate(supported), np.concatenate(equal)
    )


class FittedModel:
    """Regressions of each step on the logged points near the actions of a policy.

    Parameters
    ----------
    log : Trajectories
        The episodes.
    played : Played
        The policy.
    radius : float
        Distance, in shares of each axis, within which a logged step supports a point.

    Attributes
    ----------
    support : float
        Share of the policy's steps near which the log has data.
    effective_samples : float
        1 / (sum of squared weights) of the episodes in the value, at the step where it is least.
    """

    def __init__(self, log: Trajectories, played: Played, radius: float) -> None:
        self.log, self.played, self.radius = log, played, radius
        self.fewest = int(log.has_step.sum(axis=0).min())
        wanted = max(2 * len(played.axes) + 4, round(len(log) ** SHARE))
        self.k = max(2, min(self.fewest - 1, wanted))
        self.wide = max(2, min(self.fewest - 1, 2 * self.k))
        self.steps = (
            [self._neighbors_of(step) for step in range(log.horizon)] if self.fewest > 2 else []
        )
        self.support, self.effective_samples = self._occupancy() if self.steps else (0.0, 0.0)

    def _logged_points(self, step: int) -> tuple[Indices, Floats]:
        """Return the episodes that have a step, and their points."""
        log, played = self.log, self.played
        found = np.flatnonzero(log.has_step[:, step])
        states = played.in_unit_cube(log.states[found, step], 0)
        actions = played.in_unit_cube(log.actions[found, step], played.axes.n_state)
        return found, np.concatenate([states, actions], axis=1)

    def _neighbors_of(self, step: int) -> tuple[Indices, Neighbors]:
        """Return the episodes whose value at a step is needed, and the neighbors there."""
        log, played = self.log, self.played
        if step == 0:
            own, states = np.arange(len(log)), log.states[:, 0]
        else:
            own = np.flatnonzero(log.has_step[:, step - 1] & ~log.is_last[:, step - 1])
            states = log.next_states[own, step - 1]
        actions = played.actions(step, states)
        points = np.concatenate(
            [
                played.in_unit_cube(states, 0),
                played.in_unit_cube(actions, played.axes.n_state),
            ],
            axis=1,
        )
        episodes, logged = self._logged_points(step)
        return own, find_neighbors(points, own, logged, episodes, played, self.wide, self.radius)

    def _occupancy(self) -> tuple[float, float]:
        """Return `support` and `effective_samples`, by following the policy through the log."""
        log = self.log
        mass = np.full(len(log), 1.0 / len(log))  # of the policy's visits, at the next states
        seen = lost = 0.0
        fewest = float(len(log))
        for step, (own, neighbors) in enumerate(self.steps):
            weights = neighbors.weights(self.k)
            total = weights.sum(axis=1)
            is_good = neighbors.is_supported & (total > 0)
            here = mass[own]
            lost += float(here[~is_good].sum()) * (log.horizon - step)
            seen += float(here[is_good].sum())
            share = np.where(is_good, here / np.where(total > 0, total, 1.0), 0.0)
            found = np.zeros(len(log))
            np.add.at(found, neighbors.at[:, : self.k], share[:, None] * weights)
            if found.any():
                fewest = min(fewest, float(found.sum() ** 2 / (found**2).sum()))
            mass = np.where(log.is_last[:, step], 0.0, found)
        return (seen / (seen + lost), fewest) if seen else (0.0, 0.0)

    def values(self, counts: Floats, k: int | None = None) -> list[Floats]:
        """Return V at each step: [episodes, columns], for each column of counts.

        V[h] of an episode is the value at its next state after step h - 1; V[0] is that of its
        start.
        """
        log, width = self.log, self.k if k is None else k
        following = np.zeros(counts.shape)
        found: list[Floats] = []
        for step in reversed(range(log.horizon)):
            targets = log.rewards[:, step, None] + following
            own, neighbors = self.steps[step]
            following = np.zeros(counts.shape)
            following[own] = neighbors.regress(targets, counts, width)
            found.append(following)
        return found[::-1]

    def q_values(self, values: list[Floats], counts: Floats, k: int) -> Floats:
        """Return Q of the logged points [episodes, steps, columns], with `values` of `counts`."""
        log = self.log
        found = np.zeros((len(log), log.horizon, counts.shape[1]))
        for step in range(log.horizon):
            after = values[step + 1] if step + 1 < log.horizon else np.zeros(counts.shape)
            own, logged = self._logged_points(step)
            neighbors = find_neighbors(logged, own, logged, own, self.played, k, self.radius)
            targets = log.rewards[:, step, None] + after
            found[own, step] = neighbors.regress(targets, counts, k)
        return found
