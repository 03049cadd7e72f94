"""Exploration bonuses b(t), added to the target of the t-th visit of a ball.

`Scaled` and `Theory` have the form scale / sqrt(t), where `scale` depends on the horizon and the
span of the rewards. `Exact` and `Bernstein` depend on the visits of each ball.

`Theory` has the constants for which the regret bound is proved. At H = 5, K = 2000 its b(1) is 86,
far above any return, so the agent explores for thousands of visits. `Exact` drops the slack of that
proof. `Scaled` keeps only the form c / sqrt(t); all experiments of the paper use it, with c tuned.

All but `Scaled` depend on K only through iota = log(4 H K / delta). If K is unknown
(`episodes=None`), episode k uses iota_k = log(8 H k^2 / delta), which needs no restart. `Doubling`
instead restarts with K = 1, 2, 4, ...
"""

from zooming.bonuses.bonus import (
    KINDS,
    Bernstein,
    Bonus,
    Doubling,
    Exact,
    Scaled,
    Theory,
    as_bonus,
    number_of_phase,
)

__all__ = [
    "KINDS",
    "Bernstein",
    "Bonus",
    "Doubling",
    "Exact",
    "Scaled",
    "Theory",
    "as_bonus",
    "number_of_phase",
]
