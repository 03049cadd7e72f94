"""Exploration bonuses b(t), added to the target of the t-th visit of a ball.

`Scaled` and `Theory` have the form scale / sqrt(t); `scale` depends on the horizon and on the span of the rewards. `Exact`
follows the visits of each ball.

Why two families: `Theory` carries the constants under which the regret bound is proved. At H = 5, K = 2000 its b(1) is 86,
far above any return, so the agent explores for thousands of visits. `Scaled` drops the proof and keeps the shape: it is
what every experiment of the paper uses, with c tuned.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from zooming.checks import real, whole
from zooming.errors import SpaceError


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
        real(self.c, "bonus c", 0.0, math.inf)

    def scale(self, horizon: int, reward_span: float) -> float:
        return self.c


@dataclass(frozen=True)
class Theory:
    """b(t) = 2 sqrt(H^3 iota / t) + 4 L d_max / sqrt(t), iota = log(4 H K / delta), d_max = 1. [SBY19 eq. 4]

    The constants are those of the main text, which its lemmas prove; the appendix exchanges them by a slip. `lipschitz` is
    the Lipschitz constant L of Q* on the unit cube under the l-infinity metric; with an agent's weights, under the weighted
    one, in which the largest weight counts as 1.

    >>> round(Theory(episodes=2000).scale(horizon=5, reward_span=1.0), 2)
    86.44
    """

    episodes: int
    delta: float = 0.05
    lipschitz: float = 1.0

    def __post_init__(self) -> None:
        _check_constants(self)

    def scale(self, horizon: int, reward_span: float) -> float:
        iota = math.log(4 * horizon * self.episodes / self.delta)
        return 2 * reward_span * math.sqrt(horizon**3 * iota) + 4 * self.lipschitz


@dataclass(frozen=True)
class Exact:
    """The width that the optimism lemma needs, with no slack: two to three times smaller than Theory at H = 5.

    For rewards that are a function of state and action; with `random_rewards` the reward's own range is added to the width.

    Q = mean + (H - h) sqrt(S_t iota / 2) + L D_t, h counted from 1: `mean` is the weighted average of r + V', S_t the sum
    of the squared weights, D_t the weighted average of the diameters of the balls played. S and D are kept per ball and
    inherited.

    >>> round(Exact(episodes=2000).scale(horizon=5, reward_span=1.0), 3)  # sqrt(iota / 2), times the steps left
    2.607
    """

    episodes: int
    delta: float = 0.05
    lipschitz: float = 1.0
    random_rewards: bool = False

    def __post_init__(self) -> None:
        _check_constants(self)

    def scale(self, horizon: int, reward_span: float) -> float:
        return reward_span * math.sqrt(math.log(4 * horizon * self.episodes / self.delta) / 2)


def _check_constants(bonus: Any) -> None:
    kind = type(bonus).__name__
    whole(bonus.episodes, f"{kind}: episodes", 1)
    real(bonus.lipschitz, f"{kind}: lipschitz", 0.0, math.inf)
    if not 0 < real(bonus.delta, f"{kind}: delta", 0.0, 1.0) < 1:
        raise SpaceError(f"{kind}: delta={bonus.delta}: the failure probability must lie between 0 and 1")


KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Scaled, Theory, Exact)}


def as_bonus(bonus: float | Bonus) -> Bonus:
    """The bonus itself; a number c means Scaled(c)."""
    if isinstance(bonus, numbers.Real) and not isinstance(bonus, bool):
        return Scaled(float(bonus))
    if isinstance(bonus, type) or not hasattr(bonus, "scale"):
        raise SpaceError(f"bonus={bonus!r}: give a number c >= 0 (meaning c / sqrt(t)), or one of {', '.join(KINDS)}")
    return bonus  # type: ignore[return-value]  # it has the one method of a Bonus


def to_json(bonus: Bonus) -> dict[str, Any]:
    kind = type(bonus).__name__
    if KINDS.get(kind) is not type(bonus):
        raise SpaceError(
            f"a bonus of your own ({kind}) cannot be saved: a file that named its class would have to run its code"
        )
    return {"kind": kind, **asdict(bonus)}  # type: ignore[call-overload]  # KINDS holds only dataclasses


def from_json(stored: dict[str, Any]) -> Bonus:
    options = dict(stored)
    bonus: Bonus = KINDS[options.pop("kind")](**options)
    return bonus
