"""The two estimates of off-policy evaluation, with their intervals and assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from zooming.analysis.intervals import t_quantile
from zooming.logs import fitted
from zooming.logs.fitted import FittedModel
from zooming.logs.trajectories import Played, Trajectories
from zooming.spaces.axes import axes_of
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, ORDERED
from zooming.validation import Floats, count_noun

MODEL, DOUBLY_ROBUST = "model", "doubly robust"


@dataclass(frozen=True)
class Estimate:
    """The result of `zooming.evaluate_on`. `print` shows it with its assumptions.

    Attributes
    ----------
    method : str
        "model", or "doubly robust" if propensities were given.
    mean : float
        Estimated mean return of the policy; NaN if there is no answer.
    interval : (float, float)
        Confidence interval; NaN if there is no answer.
    level : float
        Confidence of the interval.
    effective_samples : float
        Number of equally weighted episodes that would be as informative.
    support : float
        Share of the policy's steps near which the log has data.
    n_episodes : int
        Episodes that were used.
    logged_mean : float
        Mean return of the log itself.
    assumptions : tuple of str
        The assumptions of the estimate.
    reason : str or None
        Why there is no answer, and what to do about it.
    n_dropped, n_dropped_rows : int
        Episodes with faults, which were left out (`bad="skip"`), and their rows.
    """

    method: str
    mean: float
    interval: tuple[float, float]
    level: float
    effective_samples: float
    support: float
    n_episodes: int
    logged_mean: float
    assumptions: tuple[str, ...]
    reason: str | None = None
    n_dropped: int = 0
    n_dropped_rows: int = 0

    def __str__(self) -> str:
        low, high = self.interval
        found = (
            f"{self.mean:.4g} ({self.level:.0%} interval {low:.4g} to {high:.4g})"
            if self.reason is None
            else f"no answer: {self.reason}"
        )
        return "\n".join(
            [
                f"{found}, by {self.method}",
                f"the log itself: {self._logged()}",
                f"effective samples: {self.effective_samples:.1f}",
                f"support: the log has data near {self.support:.1%} of the policy's steps",
                "assumptions:",
                *(f"  {one}" for one in self.assumptions),
            ]
        )

    def _logged(self) -> str:
        """Return text on the mean return of the log, and on how much of the log was used."""
        found = f"{self.logged_mean:.4g} in {self.n_episodes:,} episodes"
        if not self.n_dropped:
            return found
        dropped = count_noun(self.n_dropped, "episode")
        rows = count_noun(self.n_dropped_rows, "row")
        return f"{found}; {dropped} with faults left out ({rows})"


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


LEAST_SUPPORT = 0.9  # share of the policy's steps near which the log must have data
LEAST_INSIDE = 0.5  # share of these at which the regression must not extrapolate
LEAST_EFFECTIVE = 10.0  # effective samples below which there is no answer
MORE = 5  # times as many episodes are advised where the log has too few
FEWEST_ADVISED = 100  # episodes of a new log


class Refusal:
    """Explain why a method has no answer, and what to record."""

    def __init__(self, log: Trajectories, model: FittedModel, method: str) -> None:
        self.log, self.model, self.method = log, model, method
        self.played, self.radius = model.played, model.radius

    def support_reason(self) -> str:
        """Return the message for a log with data near too few of the policy's steps."""
        return (
            f"the log has data near {self.model.support:.0%} of the policy's steps only: at the "
            f"others nobody did anything like it; {self._advice()}"
        )

    def inside_reason(self) -> str:
        """Return the message for a log from which the regression would have to extrapolate."""
        return (
            f"{1 - self.model.inside:.0%} of the policy's steps have logged steps near them, but "
            "not on all sides, as in a log without noise: it cannot tell what another action would "
            f"earn; {self._advice()}"
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
        by = "near the policy's actions" if self.method == MODEL else "by their weights"
        return (
            f"{by}, the logged episodes amount to {effective:.1f} of {len(self.log):,}: that many "
            f"do what the policy does, and an estimate needs {LEAST_EFFECTIVE:g}; {self._advice()}"
        )

    def _advice(self) -> str:
        """Return what gives an answer: the regression, if it has one, or a log of the policy."""
        model, n = self.model, max(FEWEST_ADVISED, len(self.log))
        is_near = model.support >= LEAST_SUPPORT and model.inside >= LEAST_INSIDE
        is_known = is_near and model.effective_samples >= LEAST_EFFECTIVE
        is_needed = is_known and self.method != MODEL
        instead = "leave out propensity=, or " if is_needed else ""
        axes, kinds = self.played.axes, self.played.kinds
        if (kinds == CATEGORICAL).any():  # each category needs data of its own
            n = max(n, min(MORE * n, fitted.MOST_EPISODES))
        noise = order = ""
        if self.played.reach(self.radius)[axes.n_state :].any():
            noise = f" with noise={self.radius:g}"
            own = np.array([axis.kind for axis in axes_of(axes.states, axes.actions)])
            is_given = (own == CATEGORICAL) & (kinds == ORDERED)  # ordered by `ordered=` alone
            names = [axes.names[i] for i in np.flatnonzero(is_given)]
            order = f" and ordered={names}" if names else ""
        return f"{instead}record {n:,} or more episodes of this policy{noise}{order}"


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
_EITHER = f"{_PROPENSITY}, or the regression is right; one of the two is enough"
_EITHER_IN_BALL = (
    f"the regression is right; or {_PROPENSITY}, and the error of the regression is the same "
    "everywhere within {radius:g} of the range around the policy's action, on {kinds} axes"
)


SETTLED = 1.1  # factor of the change with twice as many neighbors, for chance


class Answer:
    """Compute the estimates of one call of `evaluate_on`, whose arguments are checked."""

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
        self.model = fitted.FittedModel(log, played, radius)
        if self.model.support >= LEAST_SUPPORT:
            self.model.choose_ridge()

    def estimate(self) -> Estimate:
        """Return the regression's estimate, corrected by weights if there are propensities."""
        has_support = self.model.support >= LEAST_SUPPORT
        if self.log.propensities is None:
            is_known = has_support and self.model.inside >= LEAST_INSIDE
            means, bias = self._model_means() if is_known else (None, 0.0)
            said: tuple[str, ...] = (_SAME, _MARKOV, _SMOOTH, _WIDER)
            return self._estimate(MODEL, means, self.model.effective_samples, said, bias)
        weights, is_exact = importance_weights(self.log, self.played, self.radius)
        effective = effective_samples(weights)
        said = (_SAME, _MARKOV, self._either(is_exact), _WIDER)
        if not has_support or effective < LEAST_EFFECTIVE:
            return self._estimate(DOUBLY_ROBUST, None, effective, said)
        means = self._doubly_robust(weights, self.counts)
        others = [self._doubly_robust(weights, self.counts[:, :1], k)[0] for k in fitted.WIDTHS]
        return self._estimate(DOUBLY_ROBUST, means, effective, said, self._bias(means, others))

    def _is_unsettled(self, spread: float) -> bool:
        """Return whether the regression's bias is no longer seen from the number of neighbors.

        At a kink, twice as many neighbors change the estimate 2^(1/d) times as much as half as
        many. If they change it less, and half as many by more than the sampling error `spread`,
        the neighborhoods are too wide for `_bias`, as over many steps.
        """
        one = np.ones((len(self.log), 1))
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

    def _either(self, is_exact: bool) -> str:
        """Return the assumption of the doubly robust estimate.

        `is_exact` says whether integers must be equal.
        """
        kinds = self.played.kinds[self.played.axes.n_state :]
        found = ["continuous"] if (kinds == INTERVAL).any() else []
        found += ["integer"] if (kinds == ORDERED).any() and not is_exact else []
        if not found:
            return _EITHER
        return _EITHER_IN_BALL.format(kinds=" and ".join(found), radius=self.radius)

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
        refusal = Refusal(log, self.model, method)
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
                if self._is_unsettled(sampling):
                    reason = refusal.kink_reason()
                else:
                    mean, spread = float(means[0]), sampling + bias
        return Estimate(
            method, mean, (mean - spread, mean + spread), self.level, effective,
            self.model.support, len(log), float(log.rewards.sum() / len(log)), assumptions,
            reason, log.n_dropped, log.n_dropped_rows,
        )  # fmt: skip
