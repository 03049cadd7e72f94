"""Explain why `evaluate_on` gives no answer, with advice.

Advice to change arguments is tested on the log before it is given.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from zooming.logs import fitted
from zooming.logs.estimate import MODEL
from zooming.logs.fitted import FittedModel
from zooming.logs.trajectories import Trajectories
from zooming.logs.weighting import effective_samples, importance_weights
from zooming.spaces.axes import axes_of
from zooming.spaces.flatten import CATEGORICAL, ORDERED

LEAST_SUPPORT = 0.9  # share of the policy's steps near which the log must have data
LEAST_INSIDE = 0.5  # share of these at which the regression must not extrapolate
LEAST_EFFECTIVE = 10.0  # effective samples below which there is no answer
MORE = 5  # times as many episodes are advised, for a log with SOME_NEAR of the LEAST_NEAR steps
SOME_NEAR = 2
FEWEST_ADVISED = 100  # episodes of a new log


class Refusal:
    """Explain why a method has no answer.

    Parameters
    ----------
    log, some : Trajectories
        All episodes, and those used in the regression.
    model : FittedModel
        The regression on `some`.
    method : str
        The method.
    """

    def __init__(
        self, log: Trajectories, some: Trajectories, model: FittedModel, method: str
    ) -> None:
        self.log, self.some, self.model, self.method = log, some, model, method
        self.played, self.radius = model.played, model.radius

    def support_reason(self) -> str:
        """Return the message for a log with data near too few of the policy's steps."""
        n, last = max(FEWEST_ADVISED, MORE * len(self.log)), self._new()
        if n <= fitted.MOST_EPISODES and self._has_weights(self.model):
            roughly = FittedModel(self.some, self.played, self.radius, SOME_NEAR)
            if roughly.support >= LEAST_SUPPORT and roughly.inside >= LEAST_INSIDE:
                last = f"record {n:,} episodes in the same way"
        return (
            f"the log has data near {self.model.support:.0%} of the policy's steps only: at the "
            f"others nobody did anything like it{self._example()}; {self._advice(last)}"
        )

    def _example(self) -> str:
        """Return a sentence on a step at which the policy's actions are beyond the logged ones."""
        log, axes, n_state = self.some, self.played.axes, self.played.axes.n_state
        reach = self.played.reach(self.radius)[n_state:]
        for step in range(log.horizon):
            rows = np.flatnonzero(log.has_step[:, step])
            if not len(rows):
                continue
            logged = log.actions[rows, step]
            wanted = self.played.actions(step, log.states[rows, step])
            low, high = logged.min(axis=0), logged.max(axis=0)
            beyond = ((wanted < low - reach) | (wanted > high + reach)).mean(axis=0)
            j = int(beyond.argmax())
            if beyond[j] > 0:
                plays, has = (
                    " to ".join(dict.fromkeys(f"{end:.4g}" for end in (ends.min(), ends.max())))
                    for ends in (wanted[:, j], logged[:, j])
                )
                return (
                    f" (at step {step} the policy plays {axes.names[n_state + j]} = {plays}, and "
                    f"the log has {has})"
                )
        return ""

    def inside_reason(self) -> str:
        """Return the message for a log from which the regression would have to extrapolate."""
        return (
            f"{1 - self.model.inside:.0%} of the policy's steps have logged steps near them, but "
            "not on all sides, as in a log without noise: it cannot tell what another action would "
            f"earn; {self._advice(self._new())}"
        )

    def kink_reason(self) -> str:
        """Return the message for rewards with kinks that the regression cannot resolve."""
        n, noise = MORE * len(self.log), self.radius / 2
        return (
            "the estimate depends on the number of neighbors by more than chance, "
            "and not as at a single kink: rewards or values are sharper than "
            f"the log shows; record {n:,} episodes of this policy with noise={noise:g}"
        )

    def effective_reason(self, effective: float) -> str:
        """Return the message for a log with too few effective samples."""
        by, last = "by their weights", self._new()
        if self.method == MODEL:  # which averages over n^SHARE of n episodes
            by = "near the policy's actions"
            factor = (3 * LEAST_EFFECTIVE / max(effective, 1e-9)) ** (1 / fitted.SHARE)
            n = max(FEWEST_ADVISED, factor * len(self.log))
            if n <= fitted.MOST_EPISODES:
                last = f"record {_round_up(n):,} episodes in the same way"
        return (
            f"{by}, the logged episodes amount to {effective:.1f} of {len(self.log):,}: that many "
            f"do what the policy does, and an estimate needs {LEAST_EFFECTIVE:g}; "
            f"{self._advice(last)}"
        )

    def _advice(self, last: str) -> str:
        """Return the advice: a change of arguments that helps, if there is one, and then `last`."""
        return ", or ".join([*self._arguments(), last])

    def _new(self) -> str:
        """Return the advice to record a log of the policy itself."""
        n = max(FEWEST_ADVISED, len(self.log))
        if (self.played.kinds == CATEGORICAL).any():  # each category needs data of its own
            n = max(n, min(MORE * n, fitted.MOST_EPISODES))
        can_be_near = self.played.reach(self.radius)[self.played.axes.n_state :].any()
        noise = f" with noise={self.radius:g}" if can_be_near else ""
        names = self._ordered_names(self.played.kinds)
        order = f" and ordered={names}" if noise and names else ""
        return f"record {n:,} or more episodes of this policy{noise}{order}"

    def _ordered_names(self, kinds: NDArray[np.str_]) -> list[str]:
        """Return the names of the discrete axes that are ordered only because of `ordered=`.

        `kinds` are the kinds of all axes.
        """
        axes = self.played.axes
        own = np.array([axis.kind for axis in axes_of(axes.states, axes.actions)])
        return [axes.names[i] for i in np.flatnonzero((own == CATEGORICAL) & (kinds == ORDERED))]

    def _arguments(self) -> list[str]:
        """Return a list with the smallest change of arguments that gives an answer.

        The list is empty if no change helps.
        """
        by_model = ', with method="model"'
        if self.method != MODEL and _is_enough(self.model):
            return ['give method="model", which needs no propensities']
        axes, kinds = self.played.axes, self.played.kinds
        loose = (kinds == CATEGORICAL) & (axes.high - axes.low > 1)
        if loose.any():
            played = self.played.with_kinds(np.where(loose, ORDERED, kinds).tolist())
            names = self._ordered_names(played.kinds)
            changed = FittedModel(self.some, played, self.radius)
            if _is_enough(changed):
                end = "" if self._has_weights(changed) else by_model
                return [f"give ordered={names} if their neighboring values are similar{end}"]
        radius = 2 * self.radius
        if radius < 0.5 and not (kinds == CATEGORICAL).all():
            changed = FittedModel(self.some, self.played, radius)
            if _is_enough(changed):
                end = "" if self._has_weights(changed) else by_model
                return [f"give radius={radius:g} if steps that far apart are similar{end}"]
        return []

    def _has_weights(self, model: FittedModel) -> bool:
        """Return whether the method has enough effective samples with the arguments of `model`."""
        if self.method == MODEL:
            return True
        weights, _ = importance_weights(self.log, model.played, model.radius)
        return effective_samples(weights) >= LEAST_EFFECTIVE


def _is_enough(model: FittedModel) -> bool:
    """Return whether a regression has enough data for an answer."""
    is_near = model.support >= LEAST_SUPPORT and model.inside >= LEAST_INSIDE
    return is_near and model.effective_samples >= LEAST_EFFECTIVE


def _round_up(n: float) -> int:
    """Round a number of episodes up to two significant digits.

    >>> _round_up(1234.5)
    1300
    """
    digits = 10.0 ** max(0, math.floor(math.log10(n)) - 1)
    return math.ceil(math.ceil(n / digits) * digits)
