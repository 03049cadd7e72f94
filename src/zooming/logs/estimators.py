"""The three estimates of off-policy evaluation, with their intervals and assumptions."""

from __future__ import annotations

import math

import numpy as np

from zooming.analysis.intervals import t_quantile
from zooming.logs import fitted
from zooming.logs.estimate import IMPORTANCE, MODEL, Estimate
from zooming.logs.refusals import LEAST_EFFECTIVE, LEAST_INSIDE, LEAST_SUPPORT, Refusal
from zooming.logs.trajectories import Played, Trajectories
from zooming.logs.weighting import effective_samples, importance_weights, weighted_sums
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, ORDERED
from zooming.validation import Floats

_SAME = "dynamics, rewards and starts in the future are the same as when the log was made"
_MARKOV = "the logged state and the step decide what follows: nothing hidden influenced the actions"
_SMOOTH = (
    "rewards and transitions vary smoothly, so that nearby logged steps stand for the policy's"
)
_WIDER = (
    "the interval covers bias only as far as the change with half and twice as many neighbors "
    "shows it; a kink is covered, a peak narrower than the noise of the log is not"
)
_PROPENSITY = "the propensities are those of the policy that made the log"
_BALL = (
    "on {kinds} axes the policy is taken to play uniformly within {radius:g} of the range around "
    "its action"
)
_EITHER = f"{_PROPENSITY}, or the regression is right; one of the two is enough"
_EITHER_IN_BALL = (
    f"the regression is right; or {_PROPENSITY}, and the error of the regression is the same "
    "everywhere within {radius:g} of the range around the policy's action, on {kinds} axes"
)


SETTLED = 1.1  # factor of the change with twice as many neighbors, for chance


class Answer:
    """Compute the estimates of one call of `evaluate_on`, whose arguments are checked.

    Parameters
    ----------
    log : Trajectories
        The episodes.
    played : Played
        The policy.
    radius, level : float
        As for `evaluate_on`.
    resamples : int
        Number of bootstrap samples of the episodes.
    generator : numpy.random.Generator
        Generator of the bootstrap.
    """

    def __init__(
        self,
        log: Trajectories,
        played: Played,
        radius: float,
        level: float,
        resamples: int,
        generator: np.random.Generator,
    ) -> None:
        self.log, self.played, self.radius, self.level = log, played, radius, level
        n = len(log)
        drawn = generator.multinomial(n, np.full(n, 1.0 / n), resamples).T.astype(np.float64)
        self.counts: Floats = np.concatenate([np.ones((n, 1)), drawn], axis=1)
        some = log
        if n > fitted.MOST_EPISODES:  # importance sampling asks the model for the support only
            some = log.part(np.sort(generator.choice(n, fitted.MOST_EPISODES, replace=False)))
        self.some, self.model = some, fitted.FittedModel(some, played, radius)
        if self.model.support >= LEAST_SUPPORT:
            self.model.choose_ridge()

    def estimate(self, method: str) -> Estimate:
        """Return the estimate of a method."""
        assumptions: tuple[str, ...]
        has_support = self.model.support >= LEAST_SUPPORT
        if method == MODEL:
            assumptions = (_SAME, _MARKOV, _SMOOTH, _WIDER)
            is_known = has_support and self.model.inside >= LEAST_INSIDE
            means, bias = self._model_means() if is_known else (None, 0.0)
            return self._estimate(method, means, self.model.effective_samples, assumptions, bias)
        weights, is_exact = importance_weights(self.log, self.played, self.radius)
        effective = effective_samples(weights)
        if method == IMPORTANCE:
            means = weighted_sums(weights, self.log.rewards[:, :, None], self.counts)
            assumptions = (_SAME, _MARKOV, _PROPENSITY, *self._ball(_BALL, is_exact))
            return self._estimate(method, means if has_support else None, effective, assumptions)
        either = self._ball(_EITHER_IN_BALL, is_exact) or (_EITHER,)
        assumptions = (_SAME, _MARKOV, *either, _WIDER)
        if not has_support or effective < LEAST_EFFECTIVE:
            return self._estimate(method, None, effective, assumptions)
        means = self._doubly_robust(weights, self.counts)
        others = [self._doubly_robust(weights, self.counts[:, :1], k)[0] for k in fitted.WIDTHS]
        return self._estimate(method, means, effective, assumptions, self._bias(means, others))

    def _is_unsettled(self, spread: float) -> bool:
        """Return whether the regression's bias is no longer seen from the number of neighbors.

        At a kink, twice as many neighbors change the estimate 2^(1/d) times as much as half as
        many. If they change it less, and half as many by more than the sampling error `spread`,
        the neighborhoods are too wide for `_bias`, as over many steps.
        """
        one = np.ones((len(self.some), 1))
        middle, few, many = (self.model.values(one, k)[0].mean() for k in (1.0, *fitted.WIDTHS))
        return bool(abs(few - middle) > max(spread, SETTLED * self._growth() * abs(many - middle)))

    def _growth(self) -> float:
        """Return how much narrower a neighborhood of half as many points is: 2^(-1/d)."""
        return float(0.5 ** (1.0 / max(1, int((self.played.kinds != CATEGORICAL).sum()))))

    def _bias(self, means: Floats, others: list[float]) -> float:
        """Return how far a regression may be off, from those on half and twice as many neighbors.

        In d dimensions, a neighborhood of k points has a width proportional to k^(1/d), and so has
        the bias at a kink: it is c times the change of the estimate, c = 1 / (1 - 2^(-1/d)) for
        half as many and 1 / (2^(1/d) - 1) for twice as many. The bias of a smooth function falls
        faster, so that each is an upper bound, and the smaller one is enough.
        """
        factors = np.abs(1.0 / (1.0 - np.array([self._growth(), 1.0 / self._growth()])))
        changes = np.abs(np.array(others) - means[0])
        return float(max(changes.max(), (factors * changes).min()))

    def _ball(self, sentence: str, is_exact: bool) -> tuple[str, ...]:
        """Return the assumption on actions near the policy's, or () if it does not apply.

        `sentence` is its template. `is_exact` says whether integers must be equal.
        """
        kinds = self.played.kinds[self.played.axes.n_state :]
        found = ["continuous"] if (kinds == INTERVAL).any() else []
        found += ["integer"] if (kinds == ORDERED).any() and not is_exact else []
        return (sentence.format(kinds=" and ".join(found), radius=self.radius),) if found else ()

    def _doubly_robust(self, weights: Floats, counts: Floats, factor: float = 1.0) -> Floats:
        """Return the doubly robust estimate for each column of `counts`.

        The regression has `factor` times the usual number of neighbors.
        """
        log = self.log
        values = self.model.values(counts, factor)
        after = np.stack([*values[1:], np.zeros(counts.shape)], axis=1)
        errors = log.rewards[:, :, None] + after - self.model.q_values(values, counts, factor)
        gains = np.where(log.has_step[:, :, None], errors, 0.0)
        own = (counts * values[0]).sum(axis=0) / len(log)
        return np.asarray(own + weighted_sums(weights, gains, counts))

    def _model_means(self) -> tuple[Floats, float]:
        """Return the regression's estimates, and their `_bias`."""
        n = len(self.log)
        means = np.einsum("ic,ic->c", self.counts, self.model.values(self.counts)[0]) / n
        others = [self.model.values(self.counts[:, :1], k)[0].sum() / n for k in fitted.WIDTHS]
        return means, self._bias(means, others)

    def _estimate(
        self,
        method: str,
        means: Floats | None,
        effective: float,
        assumptions: tuple[str, ...],
        bias: float = 0.0,
    ) -> Estimate:
        """Return the result. `means` holds the estimate and its bootstrap samples, or is None."""
        log, mean, spread, reason = self.log, math.nan, math.nan, None
        refusal = Refusal(log, self.some, self.model, method)
        if self.model.support < LEAST_SUPPORT:
            reason = refusal.support_reason()
        elif method == MODEL and self.model.inside < LEAST_INSIDE:
            reason = refusal.inside_reason()
        elif effective < LEAST_EFFECTIVE:
            reason = refusal.effective_reason(effective)
        elif means is not None:
            known = means[1:][np.isfinite(means[1:])]
            if math.isnan(means[0]) or len(known) < len(means) / 2:
                reason = "few bootstrap samples have an answer; record twice as many episodes"
            else:
                freedom = max(1, int(effective) - 1)
                sampling = t_quantile((1 + self.level) / 2, freedom) * float(known.std())
                if method != IMPORTANCE and self._is_unsettled(sampling):
                    reason = refusal.kink_reason()
                else:
                    mean, spread = float(means[0]), sampling + bias
        return Estimate(
            method, mean, (mean - spread, mean + spread), self.level, effective,
            self.model.support, len(log), float(log.rewards.sum() / len(log)), assumptions,
            reason, log.n_dropped, log.n_dropped_rows,
        )  # fmt: skip
