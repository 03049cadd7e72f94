"""Compute the regret against the optimum, and its growth rate.

    R(K) = sum over episodes k of V*_1(x_1) - V^{pi_k}_1(x_1)    [SBY19 eq. 2]

The realized regret replaces the value of the policy pi_k by the observed return. It has the same
expectation, but it is noisy and can be negative. The expected regret uses the exact value of the
greedy policy (`predict`) after k episodes, at checkpoints. It leaves out exploration by uniform
actions or among ties. Both are known up to the error of V*: regret within that error counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zooming.analysis.intervals import Interval, mean_interval
from zooming.errors import ConfigurationError
from zooming.validation import Floats, Ints, as_float, check_float, short_repr

RETURN_TOLERANCE = 1e-12  # relative rounding error of an episode's return
BURN_IN = 0.1  # share of the episodes that a growth rate leaves out


@dataclass(frozen=True)
class Regret:
    """The regret of one run: realized for every episode, exact at the checkpoints.

    Parameters
    ----------
    per_episode
        Realized regret of each episode.
    checkpoints
        Episodes, counted from 1, at which the policy was evaluated exactly. May be empty.
    exact
        Exact regret of an episode at each checkpoint.
    error
        Error of the optimum. Cumulative regret of at most `error` per episode counts as 0.

    Examples
    --------
    >>> import numpy as np
    >>> regret = Regret(np.array([2.0, 1.0, 0.5]), np.array([1, 3]), np.array([1.5, 0.5]))
    >>> regret.cumulative.tolist(), regret.exact_cumulative.tolist()
    ([2.0, 3.0, 3.5], [2.0, 4.0])
    """

    per_episode: Floats
    checkpoints: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    exact: Floats = field(default_factory=lambda: np.empty(0))
    error: float = 0.0

    @classmethod
    def of(cls, history: Any, optimal: Any) -> Regret:
        """Return the regret of a run against the optimum: the method `regret` of a history.

        With random starts, the optimum is the mean over the starts. The regret is then right in
        expectation, up to `optimal.return_error` per episode.

        Parameters
        ----------
        optimal : Optimal or float
            The result of `zooming.solve`, or a known optimal return.
        """
        best = best_return(optimal)
        ours, theirs = getattr(history.agent, "horizon", None), getattr(optimal, "horizon", None)
        if ours is not None and theirs is not None and ours != theirs:
            raise ConfigurationError(
                f"the agent played {ours} steps an episode, the optimum is for {theirs}: solve "
                "the same environment"
            )
        exact = best - history.policy_values
        return cls(best - history.returns, history.checkpoints, exact, optimum_error(optimal))

    @property
    def cumulative(self) -> Floats:
        """Realized R(k) for every episode k."""
        episodes = np.arange(1, len(self.per_episode) + 1)
        return zero_below_error(np.cumsum(self.per_episode), episodes, self.error)

    @property
    def exact_cumulative(self) -> Floats:
        """Expected R(k) at the checkpoints.

        Up to the first checkpoint it is the realized regret. After it, the exact regret per episode
        is interpolated linearly between checkpoints and summed.
        """
        if not len(self.checkpoints):
            return np.empty(0)
        first = self.cumulative[self.checkpoints[0] - 1]
        between = np.diff(self.checkpoints) * (self.exact[1:] + self.exact[:-1]) / 2
        total: Floats = np.concatenate([[first], first + np.cumsum(between)])
        return zero_below_error(total, self.checkpoints, self.error)

    def __repr__(self) -> str:
        exact = f", exact at {len(self.checkpoints)} checkpoints" if len(self.checkpoints) else ""
        return f"Regret({len(self.per_episode)} episodes, R = {self.per_episode.sum():.2f}{exact})"


def best_return(optimum: Any) -> float:
    """Return the optimal return, given a result of `zooming.solve` or the number itself."""
    try:
        found = as_float(getattr(optimum, "return_", optimum))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"optimum={short_repr(optimum)}: give what zooming.solve(env) gives, or a number"
        ) from error
    return check_float(found, "optimum", -math.inf, math.inf)


def optimum_error(optimum: Any) -> float:
    """Return the error of an optimum per episode. It is at least the rounding error."""
    return max(
        float(getattr(optimum, "return_error", 0.0)), RETURN_TOLERANCE * abs(best_return(optimum))
    )


def zero_below_error(total: Floats, episode: Ints, error: float) -> Floats:
    """Return the cumulative regret, set to 0 where it is at most `error` per episode.

    `episode` holds the number of episodes that each entry of `total` sums up.

    >>> zero_below_error(np.array([9e-12, 3.0]), np.array([1, 2000]), 1e-9).tolist()
    [0.0, 3.0]
    """
    return np.where(np.abs(total) <= error * episode, 0.0, total)


def regret_exponent(regrets: Sequence[Regret]) -> Interval:
    """Return the exponent e of R(k) ~ k^e, with a 95 % confidence interval over the runs.

    Compare it with the paper's (d+1)/(d+2). The exponent of a run is the least-squares slope of
    log R(k) over log k, without the first tenth of the episodes. The exact regret is used if every
    run has more than two checkpoints, and 40 points evenly spaced in log k otherwise.

    Parameters
    ----------
    regrets
        Regrets of at least two runs: `[h.regret(optimal) for h in histories]`.

    Returns
    -------
    Interval
        Mean of the exponents, and the confidence interval.

    Raises
    ------
    ConfigurationError
        If there are fewer than two runs, or fewer than three points after the burn-in, or if the
        regret there is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> runs = [Regret(np.diff(c * np.arange(1001.0) ** 0.75)) for c in (1.0, 2.0, 3.0)]
    >>> round(regret_exponent(runs).mean, 3)
    0.75
    """
    is_one = isinstance(regrets, Regret)
    if is_one or len(regrets) < 2 or not all(isinstance(one, Regret) for one in regrets):
        raise ConfigurationError(
            "a growth rate with an interval needs the regrets of at least two runs: "
            "[h.regret(optimal) for h in histories]"
        )
    use_exact = all(len(regret.exact) > 2 for regret in regrets)
    return mean_interval([_slope(regret, use_exact) for regret in regrets])


def _slope(regret: Regret, use_exact: bool) -> float:
    """Return the least-squares slope of log R(k) over log k after the burn-in."""
    if use_exact:
        k, total = regret.checkpoints, regret.exact_cumulative
        chosen = k >= BURN_IN * k[-1]
        k, total = k[chosen], total[chosen]
    else:
        n = len(regret.per_episode)
        k = np.unique(np.geomspace(max(1.0, BURN_IN * n), n, 40).astype(np.int64))
        total = regret.cumulative[k - 1]
    if len(k) < 3:
        raise ConfigurationError(
            f"{len(k)} points after the burn-in are too few for a slope; give more episodes "
            "or checkpoints"
        )
    if not (total > 0).all():
        raise ConfigurationError(
            "the regret after the burn-in is not positive, or no larger than the error of "
            "the optimum, so its growth rate cannot be estimated; use exact checkpoints or "
            "more episodes"
        )
    return float(np.polyfit(np.log(k), np.log(total), 1)[0])


regret_of = Regret.of  # the method `regret` of a history
