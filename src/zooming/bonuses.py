"""Exploration bonuses b(t), added to the target of the t-th visit of a ball.

`Scaled` and `Theory` have the form scale / sqrt(t), where `scale` depends on the horizon and the
span of the rewards. `Exact` and `Bernstein` depend on the visits of each ball.

`Theory` has the constants for which the regret bound is proved. At H = 5, K = 2000 its b(1) is 86,
far above any return, so the agent explores for thousands of visits. `Exact` drops the slack of that
proof. `Scaled` keeps only the form c / sqrt(t); all experiments of the paper use it, with c tuned.

All but `Scaled` depend on K only through iota = log(4 H K / delta). If K is unknown
(`episodes=None`), episode k uses iota_k = log(8 H k^2 / delta), which needs no restart. `Doubling`
instead restarts with K = 1, 2, 4, ... The bonuses with a failure probability share these options:

- `episodes` is K, the number of episodes, or None if it is unknown;
- `delta` is the failure probability, between 0 and 1;
- `lipschitz` is the Lipschitz constant L of Q* on the unit cube under the l-infinity metric,
  weighted as the agent's axes are (largest weight 1); it counts as 0 if all balls are points;
- `reward_noise` is the sigma of rewards that are sub-Gaussian around their mean.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any, Protocol

from zooming.errors import ConfigurationError
from zooming.validation import as_float, check_float, check_int


class Bonus(Protocol):
    """Interface of a bonus b(t) = scale / sqrt(t): any object with the method `scale`."""

    def scale(self, horizon: int, reward_span: float) -> float:
        """Return the numerator of b(t), for rewards of one step that span `reward_span`."""


@dataclass(frozen=True)
class Scaled:
    """The bonus b(t) = c / sqrt(t). [SBY19 sec. 7]

    Parameters
    ----------
    c : float
        b(1) in units of the reward, at least 0.

    Examples
    --------
    >>> Scaled(0.5).scale(horizon=5, reward_span=1.0)
    0.5
    """

    c: float

    def __post_init__(self) -> None:
        check_float(self.c, "bonus c", 0.0, math.inf)

    def scale(self, horizon: int, reward_span: float) -> float:
        return self.c


@dataclass(frozen=True)
class Confident:
    """Base class of bonuses with a failure probability: scale = a sqrt(iota) + b."""

    episodes: int | None = None
    delta: float = 0.05
    lipschitz: float = 1.0

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if self.episodes is not None:
            check_int(self.episodes, f"{kind}: episodes", 1)
        if not 0 < check_float(self.delta, f"{kind}: delta", 0.0, 1.0) < 1:
            raise ConfigurationError(
                f"{kind}: delta={self.delta}: the failure probability must lie between 0 and 1"
            )
        for name in ("lipschitz", "reward_noise", "c1", "c2"):
            if hasattr(self, name):
                check_float(getattr(self, name), f"{kind}: {name}", 0.0, math.inf)

    def iota(self, horizon: int, episode: int = 1) -> float:
        """Return iota = log(4 H K / delta), or iota_k = log(8 H k^2 / delta) if K is unknown.

        The failure probabilities of all iota_k sum to pi^2/48 delta. For a known K the sum is
        delta/4, which is larger.
        """
        if self.episodes is None:
            return math.log(8 * horizon / self.delta) + 2 * math.log(episode)
        return math.log(4 * horizon * self.episodes / self.delta)

    def terms(self, horizon: int, reward_span: float) -> tuple[float, float]:
        """Return (a, b) of the scale a sqrt(iota) + b."""
        raise NotImplementedError

    def scale(self, horizon: int, reward_span: float, episode: int = 1) -> float:
        """Return the numerator of b(t), for the episode k (from 1) if K is unknown."""
        per_root_iota, constant = self.terms(horizon, reward_span)
        return per_root_iota * math.sqrt(self.iota(horizon, episode)) + constant


@dataclass(frozen=True)
class Theory(Confident):
    """The bonus of the regret bound: b(t) = 2 sqrt(H^3 iota / t) + 4 L / sqrt(t). [SBY19 eq. 4]

    The constants are those of the paper's main text, which its lemmas prove. The appendix swaps the
    two by mistake. `reward_noise` adds 2 sigma sqrt(H iota / t). If K is unknown, a ball keeps the
    smaller bonuses of its early visits. The constant 2 is twice what a ball that exists from the
    start needs, which is enough up to k = (8 H / delta)^1.5 (22,627 at H = 5, delta = 0.05). For
    balls chosen by the data, a known K uses up this slack already: see `zooming.theory.iota`.

    Parameters
    ----------
    episodes, delta, lipschitz, reward_noise
        See `zooming.bonuses`.

    Examples
    --------
    >>> round(Theory(episodes=2000).scale(horizon=5, reward_span=1.0), 2)
    86.44
    >>> [round(Theory().scale(5, 1.0, episode), 2) for episode in (1, 2000)]
    [61.81, 108.61]
    """

    reward_noise: float = 0.0

    def terms(self, horizon: int, reward_span: float) -> tuple[float, float]:
        noise = self.reward_noise * math.sqrt(horizon)
        return 2 * (reward_span * horizon**1.5 + noise), 4 * self.lipschitz


@dataclass(frozen=True)
class Exact(Confident):
    """The smallest width for which the optimism lemma holds: 1/3 to 1/2 of Theory at H = 5.

    Q = mean + (H - h) sqrt(S_t iota / 2) + L D_t, with h from 1. `mean` is the weighted average of
    r + V', S_t the sum of the squared weights, and D_t the weighted average diameter of the balls
    played. S and D are kept per ball and inherited. If K is unknown, the width uses the iota_k of
    the latest visit, so nothing is lost. For random rewards, give `random_rewards` or
    `reward_noise`.

    Parameters
    ----------
    episodes, delta, lipschitz, reward_noise
        See `zooming.bonuses`. The noise adds 2 sigma to the range of the rewards.
    random_rewards : bool, default False
        Widen by the reward's own range, for any bounded random reward.

    Examples
    --------
    >>> round(Exact(episodes=2000).scale(horizon=5, reward_span=1.0), 3)  # sqrt(iota / 2)
    2.607
    """

    random_rewards: bool = False
    reward_noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.random_rewards and self.reward_noise:
            raise ConfigurationError(
                f"Exact: random_rewards=True and reward_noise={self.reward_noise}: either covers "
                "random rewards, so give one"
            )

    def terms(self, horizon: int, reward_span: float) -> tuple[float, float]:
        return reward_span * math.sqrt(0.5), 0.0

    def reward_spread(self, reward_span: float) -> float:
        """Return the width of the reward's range around its mean, in units of the span."""
        return 1.0 if self.random_rewards else 2 * self.reward_noise / reward_span


@dataclass(frozen=True)
class Bernstein(Confident):
    """Experimental: UCB-B, a width from the variance of V', on balls. [Jin et al. 2018, Alg. 2]

    Let W_t be the variance of V' over the t visits of a ball and its ancestors, and N the number of
    active balls per step. Then

        beta_t = min(c1 (sqrt((H / t) (W_t + H) iota) + sqrt(H^7 N) iota / t),
                     c2 sqrt(H^3 iota / t))
        b_t = (beta_t - (1 - alpha_t) beta_{t-1}) / (2 alpha_t)
              + (2 sigma sqrt(H iota) + 4 L) / sqrt(t),

    so that the bonuses of t visits add up to beta_t / 2 plus the terms of `Theory` for noise and L.
    For rewards with another span, every H that stands for the range of V is multiplied by it. No
    proof covers adaptive balls: the paper only conjectures a gain of sqrt(H). Until t exceeds N H^4
    iota, the minimum is the term with c2, and b_t differs little from Theory.

    Parameters
    ----------
    episodes, delta, lipschitz, reward_noise
        See `zooming.bonuses`.
    c1, c2 : float, default 4.0
        Constants of beta_t. With these defaults b(1) equals that of Theory.

    Examples
    --------
    >>> round(Bernstein(episodes=2000).scale(horizon=5, reward_span=1.0), 2)  # without beta
    4.0
    """

    reward_noise: float = 0.0
    c1: float = 4.0
    c2: float = 4.0

    def terms(self, horizon: int, reward_span: float) -> tuple[float, float]:
        return 2 * self.reward_noise * math.sqrt(horizon), 4 * self.lipschitz


@dataclass(frozen=True)
class Doubling:
    """The doubling trick for an unknown K: restarts at episodes 2, 4, 8, ... with K = 2, 4, 8, ...

    The phase of 2^j episodes uses the share 1 / ((j + 1) (j + 2)) of delta, so all phases together
    fail with probability delta. The regret bound for a known K then holds for all episodes, up to a
    constant factor. `episodes=None` without Doubling has the same guarantee and forgets nothing.

    Parameters
    ----------
    bonus : Theory, Exact or Bernstein
        The bonus of each phase, without `episodes`.

    Examples
    --------
    >>> Doubling(Exact()).phase(5).episodes  # episodes 4 to 7
    4
    """

    bonus: Theory | Exact | Bernstein

    def __post_init__(self) -> None:
        if not isinstance(self.bonus, Confident):
            raise ConfigurationError(
                f"Doubling: {self.bonus!r} does not depend on K; give a Theory, Exact or Bernstein"
            )
        if self.bonus.episodes is not None:
            kind = type(self.bonus).__name__
            raise ConfigurationError(
                f"Doubling: episodes={self.bonus.episodes} is not an option here: each phase "
                f"chooses its own; write Doubling({kind}())"
            )

    def phase(self, episode: int) -> Any:
        """Return the bonus of the phase that contains `episode`, counted from 1."""
        j = number_of_phase(episode)
        return replace(self.bonus, episodes=2**j, delta=self.bonus.delta / ((j + 1) * (j + 2)))

    def scale(self, horizon: int, reward_span: float, episode: int = 1) -> float:
        scale: float = self.phase(episode).scale(horizon, reward_span)
        return scale


def number_of_phase(episode: int) -> int:
    """Return the phase j of an episode. Phase j has the episodes 2^j to 2^(j+1) - 1."""
    return int(episode).bit_length() - 1


KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Scaled, Theory, Exact, Bernstein, Doubling)
}


def as_bonus(bonus: float | Bonus) -> Bonus:
    """Return a bonus unchanged, and Scaled(c) for a number c."""
    if isinstance(bonus, numbers.Real) and not isinstance(bonus, bool):
        return Scaled(as_float(bonus))
    if isinstance(bonus, type) or not hasattr(bonus, "scale"):
        raise ConfigurationError(
            f"bonus={bonus!r}: give a number c >= 0 (meaning c / sqrt(t)), or one of "
            f"{', '.join(KINDS)}"
        )
    return bonus  # type: ignore[return-value]  # it has the method of a Bonus
