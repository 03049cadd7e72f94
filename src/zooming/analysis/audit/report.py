"""The report of an audit: one entry per law, and the measured constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.bonuses import Doubling, Exact, Theory
from zooming.envs.compiled import CompiledEnv


@dataclass(frozen=True)
class Law:
    """The result of checking one law.

    Attributes
    ----------
    name
        Name of the law.
    holds
        Whether the law holds; None if it does not apply.
    found
        What was found, in words. If the law is broken, names the first ball that breaks it.
    """

    name: str
    holds: bool | None
    found: str


@dataclass(frozen=True)
class Audit:
    """The report of `zooming.audit`. Print it for a table.

    Attributes
    ----------
    title
        Title of the report, with the agent's settings.
    laws
        The result of each law.
    c1, c2
        The least and the largest sqrt(n) diam over the visited balls: the constants of the
        theorem on nested schemes. For `MetricQ`, of sqrt(n) r / d_max over the visited balls
        that can be split. NaN if there are no such balls.
    aspect
        The largest ratio of the longest to the shortest side of a box, over the sides of
        positive length. None for `MetricQ`.
    size_ratio
        The largest |P_h| / K^(d/(d+2)) over the steps h. None for `MetricQ`.
    optimism_failures
        Share of the checked pairs (x, a) with Q < Q*. None if no optimum was given.
    zooming_dimension
        Growth rate of the number of near-optimal balls. None if no optimum was given, the agent
        does not split, or there are too few depths.
    nbytes
        Memory of the agent's table, in bytes.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(1000)
    >>> audit = zooming.audit(agent)
    >>> [law.name for law in audit.laws if law.holds]
    ['covering', 'separation', 'visits per depth', 'ball table']
    >>> round(audit.c1, 2), round(audit.c2, 2)
    (0.5, 0.98)
    """

    title: str
    laws: tuple[Law, ...]
    c1: float
    c2: float
    aspect: float | None
    size_ratio: float | None
    optimism_failures: float | None
    zooming_dimension: float | None
    nbytes: int

    @property
    def holds(self) -> bool:
        """True if no law is broken."""
        return all(law.holds is not False for law in self.laws)

    def __str__(self) -> str:
        marks = {True: "holds ", False: "BROKEN", None: "  -   "}
        lines = [
            self.title,
            *(f"  {marks[law.holds]}  {law.name}: {law.found}" for law in self.laws),
        ]
        return "\n".join([*lines, *(" " * 10 + text for text in self._numbers())])

    def _numbers(self) -> list[str]:
        """Return the measured constants, one sentence each."""
        found = []
        size = "r / d_max" if self.aspect is None else "diam"
        if self.c1 <= self.c2:  # NaN if no ball that was played can be split
            found.append(f"c1 = {self.c1:.3g} <= sqrt(n) {size} <= c2 = {self.c2:.3g}")
            if self.aspect is not None:
                found[-1] += f", aspect ratio up to {self.aspect:.3g}"
        if self.size_ratio is not None:
            found.append(f"the largest partition has {self.size_ratio:.3g} K^(d/(d+2)) balls")
        if self.zooming_dimension is not None:
            found.append(
                f"near-optimal balls grow like r^-{self.zooming_dimension:.2f} (empirical zooming "
                "dimension)"
            )
        return [*found, f"{self.nbytes:,} bytes"]


def growth(counts: NDArray[np.float64]) -> float | None:
    """Return the slope of log2 counts[l] over the depths l; None for fewer than three depths.

    The deepest level is left out, because it is still being filled.
    """
    depths: NDArray[np.int64] = np.flatnonzero(counts > 0)
    if len(depths) < 3:
        return None
    depths = depths[:-1]
    return max(0.0, float(np.polyfit(depths, np.log2(counts[depths]), 1)[0]))


def find_optimistic_bonus(
    bonus: Any, env: CompiledEnv, generator: np.random.Generator
) -> Theory | Exact | None:
    """Return the bonus that guarantees optimism in this environment, or None.

    A `Doubling` is unwrapped first. `Exact` gives the guarantee if it accounts for the noise of
    the rewards, or if the rewards have no noise.
    """
    inner = bonus.bonus if isinstance(bonus, Doubling) else bonus
    if isinstance(inner, Theory):
        return inner
    if not isinstance(inner, Exact):
        return None
    covers_noise = inner.random_rewards or inner.reward_noise > 0
    return inner if covers_noise or not _has_random_rewards(env, generator) else None


def _has_random_rewards(env: CompiledEnv, generator: np.random.Generator) -> bool:
    """Test at 20 random pairs (x, a) per step whether the reward depends on the outcome."""
    assert env.given is not None
    for step in range(env.horizon):
        every, weights = env.outcomes(step, 16)
        for _ in range(20):
            x = generator.uniform(env.state_box.low, env.state_box.high)
            a = generator.uniform(env.action_box.low, env.action_box.high)
            x, a = env.round_discrete(x, a)
            outcomes = every
            if env.weigh is not None:
                weights = weights.copy()
                env.weigh(x, a, step, env.params, every, weights)
                outcomes = every[weights > 0]
            if (
                len(
                    {
                        round(float(env.given(x, a, step, env.params, w, np.empty_like(x))), 12)
                        for w in outcomes
                    }
                )
                > 1
            ):
                return True
    return False
