"""Fitted Q evaluation: the value of a policy by regression on the transitions of a log.

Backwards from the last step, Q_h(x, a) is a local quadratic regression of r + V_{h+1}(x') on the
logged (x, a) of step h, and V_h(x) = Q_h(x, policy(x)). Only the logged next states are needed, so
each step is one regression at one point per episode. No point uses its own episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.agent import Agent
from zooming.agents.base.policies import as_function, check_action
from zooming.agents.base.problem import LearningProblem
from zooming.kernels.boxes.layout import LOW, WIDTH
from zooming.spaces.flatten import CATEGORICAL, ORDERED
from zooming.validation import Floats, Ints

MOST_EPISODES = 2000  # of a regression; from more, as many are drawn
MOST_BEYOND = 4.0  # squared Mahalanobis distance from which a regression extrapolates; uniform
# noise reaches 3
WIDTHS = (0.5, 2.0)  # factors of the number of neighbors, for the bias: the interval includes it
RIDGES = (1e-3, 1e-5)  # of slopes and curvatures: for rough targets, and for smooth ones
SHARE = 0.75  # the number of neighbors is the number of episodes to this power
LEAST_NEAR = 5  # logged steps within the radius of a point that the log supports
# Added to the variance of neighbors along each axis, of which 2 deviations are too far: if all
# neighbors have the same action, one that is more than 1 % of the range away extrapolates.
SURROUNDED = 2.5e-5
LEAST_WEIGHT = 1e-6  # of the nearest; smaller ones are made relative to it
ROWS = 256  # points whose distances are in memory at once
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Trajectories:
    """The complete episodes of a log as arrays [n, horizon], and [n, horizon, axes] for points.

    Points are in the environment's units. Entries after the end of an episode are 0.
    """

    states: Floats
    actions: Floats
    rewards: Floats
    next_states: Floats
    has_step: Mask
    is_last: Mask  # no reward follows this step
    n_dropped: int  # episodes with faults, which were left out
    n_dropped_rows: int

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def horizon(self) -> int:
        """Largest number of steps of an episode."""
        return int(self.rewards.shape[1])

    def part(self, rows: Ints) -> Trajectories:
        """Return the episodes with these indices."""
        arrays: dict[str, Any] = {
            name: part[rows] for name, part in vars(self).items() if isinstance(part, np.ndarray)
        }
        return replace(self, **arrays)


@dataclass
class Neighbors:
    """The k nearest logged points of each of n points, nearest first."""

    at: Ints  # [n, k] the neighbors' episodes
    away: Floats  # [n, k, axes] neighbor minus point, in scaled axes
    is_supported: Mask  # [n] there are enough logged points within the radius
    is_equal: Mask  # [n, k] the categories are the same
    half_step: float = 0.0  # half the distance of neighboring integers

    def weights(self, k: int) -> Floats:
        """Return the weights of the k nearest neighbors: (1 - (d / D)^3)^3 at the distance d.

        D is a little more than the largest distance of a neighbor with the same categories. So all
        these neighbors get a positive weight. D is larger if there are fewer than k of them, and on
        integer axes, where many have the same distance.
        """
        is_equal = self.is_equal[:, :k]
        n_equal = is_equal.sum(axis=1, keepdims=True)
        distance = np.where(is_equal, np.sqrt((self.away[:, :k] ** 2).sum(axis=2)), 0.0)
        more = np.where(n_equal < k, 1.0 / np.maximum(n_equal, 1), 1e-6)
        farthest = np.maximum(distance.max(axis=1, keepdims=True), 1e-12)
        largest = farthest * (1 + more) + self.half_step
        found = (1.0 - (distance / largest) ** 3) ** 3 * is_equal
        top = found.max(axis=1, keepdims=True)
        # All neighbors at one distance, as in logs without noise, have weights of almost 0.
        return np.asarray(np.where(top < LEAST_WEIGHT, found / np.maximum(top, 1e-300), found))

    def beyond(self, k: int) -> Floats:
        """Return the squared Mahalanobis distance of each point from its k nearest neighbors."""
        weights = self.weights(k)
        total = weights.sum(axis=1, keepdims=True)
        shares = weights / np.where(total > 0, total, 1.0)
        away = self.away[:, :k]
        mean = np.einsum("nk,nka->na", shares, away)
        spread = (away * shares[:, :, None]).transpose(0, 2, 1) @ away
        spread -= mean[:, :, None] * mean[:, None]
        spread += SURROUNDED * np.eye(away.shape[2])
        solved = np.linalg.solve(spread, mean[..., None])[..., 0]
        return np.asarray(np.einsum("na,na->n", mean, solved), np.float64)

    def regress(self, targets: Floats, counts: Floats, k: int, ridge: float) -> Floats:
        """Return local quadratic fits at the points, one for each column of targets and counts.

        `targets` and `counts` are [episodes, columns]. A count is how often the bootstrap drew an
        episode. `ridge`, per neighbor, keeps slopes and curvatures near 0. A fit stays between the
        smallest and the largest target of its neighbors. It is NaN where no neighbor has the same
        categories.
        """
        weights = self.weights(k)
        parts = []
        for first in range(0, len(self.at), ROWS):
            rows = slice(first, first + ROWS)
            at, is_there = self.at[rows, :k], self.is_equal[rows, :k]
            design = _design(self.away[rows, :k], is_there.sum(axis=1))
            fitted = _fit(design, weights[rows], targets[at], counts[at], ridge)
            drawn = (counts[at] > 0) & is_there[:, :, None]
            low = np.where(drawn, targets[at], np.inf).min(axis=1)
            high = np.where(drawn, targets[at], -np.inf).max(axis=1)
            parts.append(np.where(low <= high, np.clip(fitted, low, high), np.nan))
        return np.concatenate(parts)


def _design(away: Floats, n_equal: Ints) -> Floats:
    """Return the regressors: 1, the coordinates, and their products if k is large enough."""
    n, k, axes = away.shape
    first, second = np.triu_indices(axes)
    parts = [np.ones((n, k, 1)), away]
    if k >= 3 * (1 + axes + len(first)):
        parts.append(away[:, :, first] * away[:, :, second])
    design = np.concatenate(parts, axis=2)
    is_few = n_equal < k
    design[is_few & (n_equal < 3 * (1 + axes)), :, 1:] = 0.0
    design[is_few & (n_equal < 3 * (1 + axes + len(first))), :, 1 + axes :] = 0.0
    return design


def _fit(design: Floats, weights: Floats, targets: Floats, counts: Floats, ridge: float) -> Floats:
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
    left[:, :, slopes, slopes] += ridge * np.maximum(left[:, :, :1, 0], 1e-12)
    left[:, :, 0, 0] += 1e-9
    return np.asarray(np.linalg.solve(left, right[..., None])[:, :, 0, 0], np.float64)


class FittedModel:
    """Regressions, one per step, on the logged points near the actions of a policy.

    `kinds` are those of the axes. A logged step within `radius`, a share of each axis, supports a
    point. `support` is the share of the policy's steps near which the log has data, and `inside`
    the share of these at which the regression does not extrapolate. `effective_samples` is the
    least, over the steps, of 1 / (sum of squared weights) of the episodes.
    """

    def __init__(
        self, log: Trajectories, policy: Any, problem: LearningProblem, kinds: Sequence[str],
        radius: float,
    ) -> None:  # fmt: skip
        self.log, self.policy, self.problem, self.axes = log, policy, problem, problem.axes
        self.kinds = np.array(kinds)
        is_own = isinstance(policy, Agent) and not policy.is_guided
        self._act = None if is_own else as_function(policy)
        # The largest distance that counts as near on each axis, in the environment's units.
        reach = radius * (self.axes.high - self.axes.low)
        reach = np.where(self.kinds == ORDERED, np.rint(reach), reach)
        self.radius, self.reach = radius, np.where(self.kinds == CATEGORICAL, 0.0, reach)
        self.steps = [self._neighbors_of(step) for step in range(log.horizon)]
        self.support, self.inside, self.effective_samples = self._occupancy()
        self.ridge = RIDGES[0]

    # --- the policy ---------------------------------------------------------------------------

    def actions(self, step: int, states: Floats) -> Floats:
        """Return the policy's action in each state, in the environment's units."""
        axes, n_state = self.axes, self.axes.n_state
        found, place = np.unique(states, axis=0, return_inverse=True)
        if self._act is None:
            flat = axes.to_unit_cube(found.copy(), 0)
            flat = np.clip(flat, axes.table[:n_state, LOW], axes.ends[:n_state])
            steps = np.full(len(flat), step)
            played = self.policy.greedy_actions(steps, flat, True, [None] * len(flat))
            actions = axes.from_unit_cube(np.asarray(played, np.float64), n_state)
        else:
            actions = np.array([self._action(step, state) for state in found])
        return np.asarray(actions)[place.reshape(-1)]

    def _action(self, step: int, state: Floats) -> Floats:
        assert self._act is not None
        played = self._act(step, self.axes.states.shaped(state), None)
        flat = check_action(self.problem, step, played, "policy")
        return np.asarray(self.axes.from_unit_cube(flat, self.axes.n_state))

    # --- points and neighbors -----------------------------------------------------------------

    def _width(self, step: int, factor: float = 1.0) -> int:
        """Return the number of neighbors used at a step, times `factor`."""
        n, least = int(self.log.has_step[:, step].sum()), 2 * len(self.axes) + 4
        wanted = max(least, int(np.rint(n**SHARE)))
        return max(2, min(n - 1, max(least, int(factor * min(n - 1, wanted)))))

    def _logged_points(self, step: int) -> tuple[Ints, Floats]:
        """Return the indices of the episodes that have this step, and their logged points."""
        log = self.log
        found = np.flatnonzero(log.has_step[:, step])
        return found, self._points(log.states[found, step], log.actions[found, step])

    def _points(self, states: Floats, actions: Floats) -> Floats:
        """Return states and actions as points of the unit cube."""
        axes = self.axes
        parts = (states.copy(), 0), (actions.copy(), axes.n_state)
        flat = np.concatenate([axes.to_unit_cube(part, first) for part, first in parts], axis=1)
        width = np.where(axes.table[:, WIDTH] > 0, axes.table[:, WIDTH], 1.0)
        return np.asarray((flat - axes.table[:, LOW]) / width)

    def _neighbors_of(self, step: int) -> tuple[Ints, Neighbors | None]:
        """Return the episodes whose value at a step is needed, and their neighbors."""
        log = self.log
        if step == 0:
            own, states = np.arange(len(log)), log.states[:, 0]
        else:
            own = np.flatnonzero(log.has_step[:, step - 1] & ~log.is_last[:, step - 1])
            states = log.next_states[own, step - 1]
        episodes, logged = self._logged_points(step)
        if len(episodes) < 3 or not len(own):
            return own, None
        points = self._points(states, self.actions(step, states))
        return own, self._find(points, own, logged, episodes, self._width(step, max(WIDTHS)))

    def _find(self, points: Floats, own: Ints, logged: Floats, episodes: Ints, k: int) -> Neighbors:
        """Find the k logged points nearest to each (state, action) point, all in the unit cube."""
        is_category, is_integer = self.kinds == CATEGORICAL, self.kinds == ORDERED
        deviation = logged.std(axis=0)
        scale = np.where(deviation > 1e-9, deviation, 1.0)
        scale[is_category] = 1.0
        # In the unit cube, the step of an integer axis is 1 / (number of values).
        steps = (self.reach + 0.5) / self.axes.table[:, WIDTH]
        limit = np.where(is_integer, steps, self.radius + 1e-9)[~is_category]
        at, supported, away, equal = [], [], [], []
        for first in range(0, len(points), ROWS):
            here, mine = points[first : first + ROWS], own[first : first + ROWS]
            gap = logged[None] - here[:, None]
            is_same = (np.abs(gap[:, :, is_category]) < 1e-9).all(axis=2)
            is_other = mine[:, None] != episodes[None]
            near = (np.abs(gap[:, :, ~is_category]) <= limit).all(axis=2) & is_same & is_other
            supported.append(near.sum(axis=1) >= LEAST_NEAR)
            gap /= scale
            gap[:, :, is_category] = 0.0
            square = (gap**2).sum(axis=2)
            square = square + np.where(is_same, 0.0, 1e6) + np.where(is_other, 0.0, 1e12)
            nearest = np.argpartition(square, k - 1, axis=1)[:, :k]
            order = np.argsort(np.take_along_axis(square, nearest, 1), axis=1, kind="stable")
            nearest = np.take_along_axis(nearest, order, 1)
            at.append(episodes[nearest])
            away.append(np.take_along_axis(gap, nearest[:, :, None], 1)[:, :, ~is_category])
            equal.append(np.take_along_axis(is_same & is_other, nearest, 1))
        whole = is_integer & (deviation > 1e-9)
        half_steps = 0.5 / self.axes.table[whole, WIDTH] / scale[whole]
        return Neighbors(
            np.concatenate(at), np.concatenate(away), np.concatenate(supported),
            np.concatenate(equal), float(half_steps.min()) if whole.any() else 0.0,
        )  # fmt: skip

    # --- values -------------------------------------------------------------------------------

    def _occupancy(self) -> tuple[float, float, float]:
        """Follow the policy through the log. Return `support`, `inside` and `effective_samples`."""
        log = self.log
        mass = np.full(len(log), 1.0 / len(log))  # of the policy's visits, at the next states
        seen = lost = cut = inside = 0.0
        fewest = float(len(log))
        for step, (own, neighbors) in enumerate(self.steps):
            here = mass[own]
            found = np.zeros(len(log))
            if neighbors is None:
                lost += float(here.sum()) * (log.horizon - step)
                cut = max(cut, float(here.sum()))
            else:
                width = self._width(step)
                weights = neighbors.weights(width)
                total = weights.sum(axis=1)
                is_good = neighbors.is_supported & (total > 0)
                lost += float(here[~is_good].sum()) * (log.horizon - step)
                seen += float(here[is_good].sum())
                is_inside = neighbors.beyond(width) <= MOST_BEYOND
                inside += float(here[is_good & is_inside].sum())
                share = np.where(is_good, here / np.where(total > 0, total, 1.0), 0.0)
                np.add.at(found, neighbors.at[:, :width], share[:, None] * weights)
            if found.any():
                fewest = min(fewest, float(found.sum() ** 2 / (found**2).sum()))
            mass = np.where(log.is_last[:, step], 0.0, found)
        if not seen:
            return 0.0, 0.0, 0.0
        return min(seen / (seen + lost), 1.0 - cut), inside / seen, fewest

    def choose_ridge(self) -> None:
        """Choose the ridge with the smallest prediction error, predicting from other episodes."""
        counts, errors = np.ones((len(self.log), 1)), []
        for self.ridge in RIDGES:
            values = self.values(counts)
            after = np.stack([*values[1:], np.zeros(counts.shape)], axis=1)
            wrong = self.log.rewards[:, :, None] + after - self._q_values(values, counts)
            errors.append(float(np.abs(wrong[self.log.has_step]).sum()))  # outliers do not decide
        self.ridge = RIDGES[int(np.argmin(errors))]

    def values(self, counts: Floats, factor: float = 1.0) -> list[Floats]:
        """Return V at each step as an array [episodes, columns], for the columns of `counts`.

        V[0] of an episode is the value of its start state. V[h] is the value of the state that
        followed step h - 1. Where the log has no data, it is the mean of the other episodes.
        """
        log = self.log
        following = np.zeros(counts.shape)
        found: list[Floats] = []
        for step in reversed(range(log.horizon)):
            targets = log.rewards[:, step, None] + following
            own, neighbors = self.steps[step]
            following = np.zeros(counts.shape)
            if neighbors is not None:
                fitted = neighbors.regress(targets, counts, self._width(step, factor), self.ridge)
                following[own] = _fill(fitted)
            elif log.has_step[:, step].any():
                following[own] = targets[log.has_step[:, step]].mean(axis=0)
            found.append(following)
        return found[::-1]

    def _q_values(self, values: list[Floats], counts: Floats) -> Floats:
        """Return Q of the logged points, [episodes, steps, columns]; `values` as of `values`."""
        log = self.log
        found = np.zeros((len(log), log.horizon, counts.shape[1]))
        for step in range(log.horizon):
            after = values[step + 1] if step + 1 < log.horizon else np.zeros(counts.shape)
            own, logged = self._logged_points(step)
            targets = log.rewards[:, step, None] + after
            if len(own) < 3:
                found[own, step] = targets[own]
                continue
            k = self._width(step)
            neighbors = self._find(logged, own, logged, own, k)
            found[own, step] = _fill(neighbors.regress(targets, counts, k, self.ridge))
        return found


def _fill(fitted: Floats) -> Floats:
    """Replace each NaN of the fits by the mean of its column."""
    is_known = np.isfinite(fitted)
    if is_known.all():
        return fitted
    n_known = is_known.sum(axis=0)
    sums = np.where(is_known, fitted, 0.0).sum(axis=0)
    means = np.where(n_known > 0, sums / np.maximum(n_known, 1), np.nan)
    return np.where(is_known, fitted, means)
