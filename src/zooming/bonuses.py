"""Exploration bonuses b(t), added to the target of the t-th visit of a ball.

`Scaled` and `Theory` have the form scale / sqrt(t); `scale` depends on the horizon and on the span of the rewards. `Exact`
and `Bernstein` follow the visits of each ball.

Why several: `Theory` carries the constants under which the regret bound is proved. At H = 5, K = 2000 its b(1) is 86,
far above any return, so the agent explores for thousands of visits. `Exact` drops the slack of that proof, `Scaled` the proof
itself: it keeps the shape and is what every experiment of the paper uses, with c tuned.

All but `Scaled` depend on K through iota = log(4 H K / delta) only. If K is not known (`episodes=None`) they use, in episode k,
iota_k = log(8 H k^2 / delta), which grows with the run and needs no restart; `Doubling` restarts with K = 1, 2, 4, ... instead.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from zooming.errors import SpaceError
from zooming.validation import as_float, check_float, check_int


class Bonus(Protocol):
    """b(t) = scale / sqrt(t)."""

    def scale(self, horizon: int, reward_span: float) -> float: ...


@dataclass(frozen=True)
class Scaled:
    """b(t) = c / sqrt(t), in the units of the reward. [SBY19 sec. 7]

    >>> Scaled(0.5).scale(horizon=5, reward_span=1.0)
    0.5
    """

    c: float

    def __post_init__(self) -> None:
        check_float(self.c, "bonus c", 0.0, math.inf)

    def scale(self, horizon: int, reward_span: float) -> float:
        return self.c


class _Confident:
    """What the bonuses with a failure probability share: scale = per_root_iota sqrt(iota) + plain."""

    episodes: int | None
    delta: float

    def log_term(self, horizon: int) -> float:
        """iota, or the iota_1 that a run of unknown length begins with."""
        if self.episodes is None:
            return math.log(8 * horizon / self.delta)
        return math.log(4 * horizon * self.episodes / self.delta)

    def iota(self, horizon: int, episode: int = 1) -> float:
        """log(4 H K / delta); with K unknown, log(8 H k^2 / delta) in episode k, counted from 1.

        The failures that iota_k allows sum to less over all k than those of iota over K episodes: pi^2/48 delta to delta/4.
        """
        return self.log_term(horizon) + (2 * math.log(episode) if self.episodes is None else 0.0)

    def terms(self, horizon: int, reward_span: float) -> tuple[float, float]:
        """(per_root_iota, plain)."""
        raise NotImplementedError

    def scale(self, horizon: int, reward_span: float, episode: int = 1) -> float:
        """What is divided by sqrt(t) in this episode, which matters only if K is not known."""
        per_root_iota, plain = self.terms(horizon, reward_span)
        return per_root_iota * math.sqrt(self.iota(horizon, episode)) + plain

    def _check(self) -> None:
        kind = type(self).__name__
        if self.episodes is not None:
            check_int(self.episodes, f"{kind}: episodes", 1)
        if not 0 < check_float(self.delta, f"{kind}: delta", 0.0, 1.0) < 1:
            raise SpaceError(f"{kind}: delta={self.delta}: the failure probability must lie between 0 and 1")
        for name in ("lipschitz", "reward_noise", "c1", "c2"):
            if hasattr(self, name):
                check_float(getattr(self, name), f"{kind}: {name}", 0.0, math.inf)


@dataclass(frozen=True)
class Theory(_Confident):
    """b(t) = 2 sqrt(H^3 iota / t) + 4 L d_max / sqrt(t), iota = log(4 H K / delta), d_max = 1. [SBY19 eq. 4]

    The constants are those of the main text, which its lemmas prove; the appendix exchanges them by a slip. `episodes` is K;
    None: not known, see `iota`. `lipschitz` is the Lipschitz constant L of Q* on the unit cube under the l-infinity metric;
    with an agent's weights, under the weighted one, in which the largest weight counts as 1. Where all balls are atoms no
    distance is paid for, and L counts as 0. `reward_noise` is the sigma of rewards that are sub-Gaussian around their mean; it
    adds 2 sigma sqrt(H iota / t).

    With K unknown a ball keeps the smaller bonuses of its early visits. The constant 2 is twice what a ball that was there from
    the start needs, which covers an iota four times as large: enough in any case up to k = (8 H / delta)^1.5, 22,627 at H = 5,
    delta = 0.05. For balls that the data choose, the same slack is used up with K known: see `zooming.theory.iota`.

    >>> round(Theory(episodes=2000).scale(horizon=5, reward_span=1.0), 2)
    86.44
    >>> [round(Theory().scale(5, 1.0, episode), 2) for episode in (1, 2000)]
    [61.81, 108.61]
    """

    episodes: int | None = None
    delta: float = 0.05
    lipschitz: float = 1.0
    reward_noise: float = 0.0

    def __post_init__(self) -> None:
        self._check()

    def terms(self, horizon: int, reward_span: float) -> tuple[float, float]:
        return 2 * (reward_span * horizon**1.5 + self.reward_noise * math.sqrt(horizon)), 4 * self.lipschitz


@dataclass(frozen=True)
class Exact(_Confident):
    """The width that the optimism lemma needs, with no slack: two to three times smaller than Theory at H = 5.

    For rewards that are a function of state and action. `random_rewards` adds the reward's own range to the width, which
    serves any bounded reward; `reward_noise` adds 2 sigma for rewards that are sub-Gaussian around their mean. Give one.

    Q = mean + (H - h) sqrt(S_t iota / 2) + L D_t, h counted from 1: `mean` is the weighted average of r + V', S_t the sum
    of the squared weights, D_t the weighted average of the diameters of the balls played. S and D are kept per ball and
    inherited. With K unknown the width is that of the iota_k of the latest visit, so nothing is lost.

    >>> round(Exact(episodes=2000).scale(horizon=5, reward_span=1.0), 3)  # sqrt(iota / 2), times the steps left
    2.607
    """

    episodes: int | None = None
    delta: float = 0.05
    lipschitz: float = 1.0
    random_rewards: bool = False
    reward_noise: float = 0.0

    def __post_init__(self) -> None:
        self._check()
        if self.random_rewards and self.reward_noise:
            raise SpaceError(
                f"Exact: random_rewards=True and reward_noise={self.reward_noise}: either covers random rewards, so give one"
            )

    def terms(self, horizon: int, reward_span: float) -> tuple[float, float]:
        return reward_span * math.sqrt(0.5), 0.0

    def reward_spread(self, reward_span: float) -> float:
        """The range of the reward around its mean, in spans."""
        return 1.0 if self.random_rewards else 2 * self.reward_noise / reward_span


@dataclass(frozen=True)
class Bernstein(_Confident):
    """Experimental: a width that follows the variance of V', of UCB-B [Jin et al. 2018, Alg. 2], on adaptive balls.

    W_t is the variance of V' over the t visits of a ball, its ancestors' included, N the active balls per step, and

        beta_t = min(c1 (sqrt((H / t) (W_t + H) iota) + sqrt(H^7 N) iota / t), c2 sqrt(H^3 iota / t))
        b_t = (beta_t - (1 - alpha_t) beta_{t-1}) / (2 alpha_t) + (2 sigma sqrt(H iota) + 4 L) / sqrt(t),

    so that the bonuses of t visits add up to beta_t / 2 and the terms of `Theory` for noise and for L; in other units than
    [0, 1] H is multiplied by the span of the rewards where it stands for the range of V. With atoms and L = 0 this is UCB-B.

    No proof covers it with adaptive balls: the paper conjectures that it saves a factor sqrt(H), and a child inherits a
    variance that was measured over its parent. The term with H^7 is large: with these constants c2 decides until t exceeds
    N H^4 iota, so that it differs little from Theory in any run of a sensible length.

    >>> round(Bernstein(episodes=2000).scale(horizon=5, reward_span=1.0), 2)  # of the terms beside beta
    4.0
    """

    episodes: int | None = None
    delta: float = 0.05
    lipschitz: float = 1.0
    reward_noise: float = 0.0
    c1: float = 4.0  # at t = 1 and with these, b is that of Theory
    c2: float = 4.0

    def __post_init__(self) -> None:
        self._check()

    def terms(self, horizon: int, reward_span: float) -> tuple[float, float]:
        return 2 * self.reward_noise * math.sqrt(horizon), 4 * self.lipschitz


@dataclass(frozen=True)
class Doubling:
    """The doubling trick for an unknown K: forget everything before the episodes 2, 4, 8, ..., and go on with K = 2, 4, 8, ...

    `bonus` is a Theory, Exact or Bernstein without `episodes`; the phase of 2^j episodes, j = 0, 1, ..., gets the share
    1 / ((j + 1) (j + 2)) of its delta, so that all together fail with probability delta. What the regret bound says of one run
    of K episodes it then says of all K, up to a constant factor. Right after a restart the policy knows nothing: if that is
    not what you want, `episodes=None` without Doubling is the same guarantee without forgetting.

    >>> Doubling(Exact()).phase(5)  # episodes 4 to 7
    Exact(episodes=4, delta=0.004166666666666667, lipschitz=1.0, random_rewards=False, reward_noise=0.0)
    """

    bonus: Theory | Exact | Bernstein

    def __post_init__(self) -> None:
        if not isinstance(self.bonus, _Confident):
            raise SpaceError(f"Doubling: {self.bonus!r} does not depend on K; give a Theory, Exact or Bernstein")
        if self.bonus.episodes is not None:
            kind = type(self.bonus).__name__
            raise SpaceError(f"Doubling: episodes={self.bonus.episodes} is what the phases choose; give {kind}() without")

    def phase(self, episode: int) -> Any:
        """The bonus of the phase that holds this episode, counted from 1."""
        j = number_of_phase(episode)
        return replace(self.bonus, episodes=2**j, delta=self.bonus.delta / ((j + 1) * (j + 2)))

    def scale(self, horizon: int, reward_span: float, episode: int = 1) -> float:
        scale: float = self.phase(episode).scale(horizon, reward_span)
        return scale


def number_of_phase(episode: int) -> int:
    """j, for the episodes 2^j to 2^(j+1) - 1."""
    return int(episode).bit_length() - 1


KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Scaled, Theory, Exact, Bernstein, Doubling)}


def as_bonus(bonus: float | Bonus) -> Bonus:
    """The bonus itself; a number c means Scaled(c)."""
    if isinstance(bonus, numbers.Real) and not isinstance(bonus, bool):
        return Scaled(as_float(bonus))
    if isinstance(bonus, type) or not hasattr(bonus, "scale"):
        raise SpaceError(f"bonus={bonus!r}: give a number c >= 0 (meaning c / sqrt(t)), or one of {', '.join(KINDS)}")
    return bonus  # type: ignore[return-value]  # it has the one method of a Bonus


def to_json(bonus: Bonus) -> dict[str, Any]:
    kind = type(bonus).__name__
    if KINDS.get(kind) is not type(bonus):
        raise SpaceError(
            f"a bonus of your own ({kind}) cannot be saved: a file that named its class would have to run its code"
        )
    options = {field.name: getattr(bonus, field.name) for field in fields(bonus)}  # type: ignore[arg-type]  # KINDS are dataclasses
    return {"kind": kind, **{name: to_json(value) if name == "bonus" else value for name, value in options.items()}}


def from_json(stored: dict[str, Any]) -> Bonus:
    options: dict[str, Any] = {name: from_json(value) if name == "bonus" else value for name, value in stored.items()}
    bonus: Bonus = KINDS[options.pop("kind")](**options)
    return bonus
