"""Fitted Q evaluation: the value of a policy by regression on the transitions of a log.

Backwards from the last step, Q_h(x, a) is a local quadratic regression of r + V_{h+1}(x') on the
logged (x, a) of step h, and V_h(x) = Q_h(x, policy(x)). Only the logged next states are needed, so
each step is one regression at one point per episode. No point uses its own episode.
"""

from __future__ import annotations

import numpy as np

from zooming.logs.neighbors import LEAST_NEAR, Indices, Neighbors, find_neighbors
from zooming.logs.trajectories import Played, Trajectories
from zooming.validation import Floats

MOST_EPISODES = 2000  # of a regression; from more, as many are drawn
MOST_BEYOND = 4.0  # squared Mahalanobis distance from which a regression extrapolates; uniform
# noise reaches 3
WIDTHS = (0.5, 2.0)  # factors of the number of neighbors, for the bias: the interval includes it
RIDGES = (1e-3, 1e-5)  # of slopes and curvatures: for rough targets, and for smooth ones
SHARE = 0.75  # the number of neighbors is the number of episodes to this power


class FittedModel:
    """Regressions, one per step, on the logged points near the actions of a policy.

    Parameters
    ----------
    log : Trajectories
        The episodes.
    played : Played
        The policy.
    radius : float
        Distance, as a share of each axis, within which a logged step supports a point.
    least : int, default 5
        Number of logged steps within the radius that a point needs.

    Attributes
    ----------
    support : float
        Share of the policy's steps near which the log has data.
    inside : float
        Share of these steps at which the regression does not extrapolate.
    effective_samples : float
        Number of equally weighted episodes that would be as informative: the least, over the
        steps, of 1 / (sum of squared weights) of the episodes.
    """

    def __init__(
        self, log: Trajectories, played: Played, radius: float, least: int = LEAST_NEAR
    ) -> None:
        self.log, self.played, self.radius, self.least = log, played, radius, least
        self.steps = [self._neighbors_of(step) for step in range(log.horizon)]
        self.support, self.inside, self.effective_samples = self._occupancy()
        self.ridge = RIDGES[0]

    def _width(self, step: int, factor: float = 1.0) -> int:
        """Return the number of neighbors used at a step, times `factor`."""
        n, least = int(self.log.has_step[:, step].sum()), 2 * len(self.played.axes) + 4
        wanted = max(least, int(np.rint(n**SHARE)))
        return max(2, min(n - 1, max(least, int(factor * min(n - 1, wanted)))))

    def _logged_points(self, step: int) -> tuple[Indices, Floats]:
        """Return the indices of the episodes that have this step, and their logged points."""
        log = self.log
        found = np.flatnonzero(log.has_step[:, step])
        return found, self._points(log.states[found, step], log.actions[found, step])

    def _points(self, states: Floats, actions: Floats) -> Floats:
        """Return states and actions as points of the unit cube."""
        played = self.played
        parts = (
            played.in_unit_cube(states, 0),
            played.in_unit_cube(actions, played.axes.n_state),
        )
        return np.concatenate(parts, axis=1)

    def _neighbors_of(self, step: int) -> tuple[Indices, Neighbors | None]:
        """Return the episodes whose value at a step is needed, and their neighbors.

        The neighbors are None if fewer than 3 episodes have the step.
        """
        log, played = self.log, self.played
        if step == 0:
            own, states = np.arange(len(log)), log.states[:, 0]
        else:
            own = np.flatnonzero(log.has_step[:, step - 1] & ~log.is_last[:, step - 1])
            states = log.next_states[own, step - 1]
        episodes, logged = self._logged_points(step)
        if len(episodes) < 3 or not len(own):
            return own, None
        points = self._points(states, played.actions(step, states))
        k = self._width(step, max(WIDTHS))
        return own, find_neighbors(
            points, own, logged, episodes, played, k, self.radius, self.least
        )

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
            wrong = self.log.rewards[:, :, None] + after - self.q_values(values, counts)
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

    def q_values(self, values: list[Floats], counts: Floats, factor: float = 1.0) -> Floats:
        """Return Q of the logged points as an array [episodes, steps, columns].

        `values` is the result of `self.values(counts, factor)`.
        """
        log = self.log
        found = np.zeros((len(log), log.horizon, counts.shape[1]))
        for step in range(log.horizon):
            after = values[step + 1] if step + 1 < log.horizon else np.zeros(counts.shape)
            own, logged = self._logged_points(step)
            targets = log.rewards[:, step, None] + after
            if len(own) < 3:
                found[own, step] = targets[own]
                continue
            k = self._width(step, factor)
            neighbors = find_neighbors(logged, own, logged, own, self.played, k, self.radius)
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
