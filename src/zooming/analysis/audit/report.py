"""The report of an audit, and what is checked alike on boxes and on balls of a metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.agents.tables.q_learner import QLearner
from zooming.analysis.optimal import Optimal
from zooming.bonuses import Doubling, Exact, Theory
from zooming.envs.compiled import CompiledEnv
from zooming.validation import Floats

TOLERANCE = 1e-9  # of values and radii, for rounding errors


@dataclass(frozen=True)
class Law:
    """The result of checking one law: its name, whether it holds, and what was found, in words.

    `holds` is None if the law does not apply. If it is broken, `found` names the first ball that
    breaks it.
    """

    name: str
    holds: bool | None
    found: str


@dataclass(frozen=True)
class Audit:
    """The report of `zooming.audit`. Print it for a table.

    Attributes
    ----------
    title, laws
        Title of the report, with the agent's settings, and the result of each law.
    c1, c2
        The least and the largest sqrt(n) diam over the visited balls: the constants of the theorem
        on nested schemes. For `MetricQ`, of sqrt(n) r / d_max over the balls that can be split. NaN
        if there are no such balls.
    aspect, size_ratio
        The largest ratio of two positive sides of a box, and the largest |P_h| / K^(d/(d+2)) over
        the steps h. None for `MetricQ`.
    optimism_failures
        Share of the checked pairs (x, a) with Q < Q*. None if no optimum was given.
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
    nbytes: int

    @classmethod
    def of(
        cls, agent: QLearner, laws: Iterable[Law], sizes: Floats, failures: float | None,
        aspect: float | None = None, size_ratio: float | None = None,
    ) -> Audit:  # fmt: skip
        """Return the report on an agent. `sizes` are sqrt(n) diam of the balls that count."""
        c1, c2 = (float(sizes.min()), float(sizes.max())) if len(sizes) else (np.nan, np.nan)
        title = f"Audit of {agent!r}"
        return cls(title, tuple(laws), c1, c2, aspect, size_ratio, failures, agent.nbytes)

    @property
    def holds(self) -> bool:
        """True if no law is broken."""
        return all(law.holds is not False for law in self.laws)

    def __str__(self) -> str:
        marks = {True: "holds ", False: "BROKEN", None: "  -   "}
        laws = [f"  {marks[law.holds]}  {law.name}: {law.found}" for law in self.laws]
        return "\n".join([self.title, *laws, *(" " * 10 + text for text in self._numbers())])

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
        return [*found, f"{self.nbytes:,} bytes"]


@dataclass(frozen=True)
class Sample:
    """Pairs of one step, with the agent's Q of each; `name(i)` is the text for pair i."""

    states: Floats
    actions: Floats
    q_value: Floats
    name: Callable[[int], str]


def check_optimism(
    agent: QLearner,
    optimal: Optimal,
    samples: Iterable[Sample],
    generator: np.random.Generator,
    applies: Callable[[Theory | Exact], bool],
) -> tuple[Law, float]:
    """Check Q >= Q* at the samples of each step. Return the law and the share of failures.

    The law is broken only if the bonus guarantees optimism in this environment and the guarantee
    `applies` to the agent. An error of the optimum is no failure.
    """
    failed, looked, worst, first = 0, 0, 0.0, ""
    for step, sample in enumerate(samples):
        truth = optimal.q_values(step, sample.states, sample.actions)
        short = truth - sample.q_value - optimal.error
        is_low = short > TOLERANCE
        failed, looked = failed + int(is_low.sum()), looked + len(short)
        worst = max(worst, float(short.max()))
        if not first and is_low.any():
            i = int(np.argmax(is_low))
            first = (
                f"; first at step {step}, {sample.name(i)}: Q = {sample.q_value[i]:.4f} < Q* = "
                f"{truth[i]:.4f}"
            )
    promise = find_optimistic_bonus(agent.bonus, optimal.grid.env, generator)
    is_proved = promise is not None and applies(promise)
    found = f"Q >= Q* fails at {failed / looked:.2%} of {looked:,} pairs"
    if failed:
        found += f", by up to {worst:.3g}{first}"
        found += "" if is_proved else " (nothing is promised here)"
    return Law("optimism", not failed if is_proved else None, found), failed / looked


def find_optimistic_bonus(
    bonus: Any, env: CompiledEnv, generator: np.random.Generator
) -> Theory | Exact | None:
    """Return the bonus, unwrapped from `Doubling`, if it guarantees optimism here, else None."""
    inner = bonus.bonus if isinstance(bonus, Doubling) else bonus
    if isinstance(inner, Theory):
        return inner
    if not isinstance(inner, Exact):
        return None
    covers_noise = inner.random_rewards or inner.reward_noise > 0
    return inner if covers_noise or not _has_random_rewards(env, generator) else None


def _has_random_rewards(env: CompiledEnv, generator: np.random.Generator) -> bool:
    """Test at 20 random pairs (x, a) per step whether the reward depends on the outcome."""
    given = env.given
    assert given is not None
    for step in range(env.horizon):
        every, weights = env.outcomes(step, 16)
        for _ in range(20):
            x = generator.uniform(env.state_box.low, env.state_box.high)
            a = generator.uniform(env.action_box.low, env.action_box.high)
            x, a = env.round_discrete(x, a)
            outcomes, spare = every, np.empty_like(x)
            if env.weigh is not None:
                weights = weights.copy()
                env.weigh(x, a, step, env.params, every, weights)
                outcomes = every[weights > 0]
            rewards = [float(given(x, a, step, env.params, w, spare)) for w in outcomes]
            if len({round(reward, 12) for reward in rewards}) > 1:
                return True
    return False
