"""Variants of the algorithm in pure Python, as oracles: bonuses by their sum, and mixed spaces."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

from reference import ReferenceBall, ReferenceQ, ReferenceVisit


class ReferenceWidthQ(ReferenceQ):
    """ReferenceQ that recomputes Q from all visits of a ball.

    Q is the weighted mean of the targets plus `width(agent, step, weights, visits)`, with the
    weights alpha_t^i. For bonuses that are defined by their weighted sum.

    >>> def width(agent, step, weights, visits): return 1 / len(visits)
    >>> agent = ReferenceWidthQ(1, 1, 2, lambda t: 0.0, width=width)
    >>> agent.update(1, [0.5], [0.5], 1.0, [0.5])
    >>> agent.roots[1].q_value
    2.0
    """

    keeps_visits = True

    def __init__(self, *arguments: Any, width: Callable[..., float], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.width = width

    def _estimate(self, step: int, ball: ReferenceBall, reward: float, next_value: float) -> None:
        visits = ball.visits
        assert visits is not None
        visits.append(
            ReferenceVisit(reward + next_value + self.bonus(ball.n_visits), next_value, ball.radius)
        )
        rates = [(self.horizon + 1) / (self.horizon + i) for i in range(1, ball.n_visits + 1)]
        weights = [
            rate * math.prod(1 - later for later in rates[i + 1 :]) for i, rate in enumerate(rates)
        ]
        mean = sum(weight * visit.target for weight, visit in zip(weights, visits, strict=True))
        ball.q_value = mean + self.width(self, step, weights, visits)


@dataclass(frozen=True)
class ReferenceAxis:
    """An axis of a mixed space: `n_values` discrete values, or 0 for an interval."""

    n_values: int = 0
    categorical: bool = False
    weight: float | Fraction = 1.0

    def length(self, low: Fraction, high: Fraction) -> Fraction:
        """Return the weighted distance between the outermost points of a side."""
        if self.n_values:
            return Fraction(self.weight) * (
                ((high - low) * self.n_values - 1) / max(self.n_values - 1, 1)
            )
        return Fraction(self.weight) * (high - low)

    def middle(self, low: Fraction, high: Fraction) -> Fraction:
        """Return the place where a side is cut, between two values if the axis is discrete."""
        if self.n_values:
            return Fraction(math.floor((low + high) * self.n_values / 2), self.n_values)
        return (low + high) / 2


class ReferenceBox(ReferenceBall):
    """A box with any sides, as exact fractions. `center` and `radius` are derived from them."""

    __slots__ = ("high", "low")

    def __init__(
        self,
        axes: Sequence[ReferenceAxis],
        low: Sequence[Fraction],
        high: Sequence[Fraction],
        q_value: float,
        n_visits: int = 0,
    ) -> None:
        center = tuple(float(a + b) / 2 for a, b in zip(low, high, strict=True))
        radius = max(axis.length(a, b) for axis, a, b in zip(axes, low, high, strict=True))
        super().__init__(center, float(radius), q_value, n_visits)
        self.low, self.high = tuple(low), tuple(high)

    def reaches(self, values: Sequence[float]) -> bool:
        """Return whether the sides of the first axes contain the values."""
        sides = zip(values, self.low, self.high, strict=False)
        return all(low <= value < high or value == high == 1 for value, low, high in sides)

    def relevant(self, state: Sequence[float]) -> list[ReferenceBall]:
        if not self.children:
            return [self]
        return [
            ball
            for child in self.children
            if child.reaches(state)
            for ball in child.relevant(state)
        ]

    def cut(self, axes: Sequence[ReferenceAxis], chosen: Sequence[int]) -> None:
        """Split the ball in half along each of the chosen axes."""
        for upper in product((False, True), repeat=len(chosen)):
            low, high = list(self.low), list(self.high)
            for axis, is_upper in zip(chosen, upper, strict=True):
                (low if is_upper else high)[axis] = axes[axis].middle(
                    self.low[axis], self.high[axis]
                )
            self.children.append(ReferenceBox(axes, low, high, self.q_value, self.n_visits))


class ReferenceMixedQ(ReferenceQ):
    """AdaptiveQ on mixed spaces: intervals, ordered values and categories, with weights.

    `split` is "all" or "longest".

    >>> axes = [ReferenceAxis(), ReferenceAxis(n_values=3, categorical=True)]
    >>> ReferenceMixedQ(axes, 1, 2, lambda t: 0.1, split="longest").n_balls  # two steps
    6
    """

    def __init__(
        self,
        axes: Sequence[ReferenceAxis],
        n_state: int,
        horizon: int,
        bonus: Callable[[int], float],
        *,
        split: str,
        **options: Any,
    ) -> None:
        super().__init__(n_state, len(axes) - n_state, horizon, bonus, **options)
        largest = max(
            (Fraction(axis.weight) for axis in axes if not axis.categorical), default=Fraction(0)
        ) or Fraction(1)
        self.axes = [
            replace(
                axis, weight=axis.weight if axis.categorical else Fraction(axis.weight) / largest
            )
            for axis in axes
        ]
        self.split = split
        choices = [
            range(axis.n_values) if axis.categorical and axis.weight else range(1)
            for axis in self.axes
        ]
        for step, cap in enumerate(self.caps):
            self.roots[step] = root = ReferenceBox(
                self.axes, [Fraction(0)] * len(axes), [Fraction(1)] * len(axes), cap
            )
            for chosen in product(*choices):
                low = [Fraction(k, len(choice)) for k, choice in zip(chosen, choices, strict=True)]
                high = [
                    Fraction(k + 1, len(choice)) for k, choice in zip(chosen, choices, strict=True)
                ]
                root.children.append(ReferenceBox(self.axes, low, high, cap))
        self.n_balls = horizon * math.prod(len(choice) for choice in choices)

    def _split_if_due(self, ball: ReferenceBall) -> None:
        assert isinstance(ball, ReferenceBox)
        lengths = [
            axis.length(a, b) for axis, a, b in zip(self.axes, ball.low, ball.high, strict=True)
        ]
        diameter = max(lengths)
        if diameter <= 0 or ball.n_visits * diameter**2 < 1:
            return
        chosen = [i for i, side in enumerate(lengths) if side > diameter / 2]
        if self.split == "longest":
            chosen = [lengths.index(diameter)]
        n_more = 2 ** len(chosen) - 1
        if self.n_balls + n_more <= self.max_balls:
            ball.cut(self.axes, chosen)
            self.n_balls += n_more


class Bits:
    """The agent's generator in plain Python: SplitMix64.

    >>> Bits(0).draw()
    16294208416658607535
    """

    def __init__(self, state: int) -> None:
        self.state = int(state)

    def draw(self) -> int:
        """Return the next 64 random bits."""
        most = 2**64 - 1
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & most
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & most
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & most
        return z ^ (z >> 31)

    def share(self) -> float:
        """Return a number from [0, 1)."""
        return (self.draw() >> 11) * 2.0**-53


class ReferenceSingleQ(ReferenceQ):
    """SinglePartitionQ on the unit cube, with the first of the best balls in evaluations.

    >>> agent = ReferenceSingleQ(1, 1, 2, lambda t: 0.1 / t**0.5, bits=Bits(0), evaluations=1)
    >>> agent.act(0, [0.5]), agent.n_balls
    ([0.5], 1)
    """

    def __init__(
        self, *arguments: Any, bits: Bits, evaluations: int, temperature: float = 0.01,
        growth: float = 2.0, damping: float = 0.8, patience: int = 2, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(*arguments, full_cap=True, **options)
        self.roots, self.n_balls, self.bits = self.roots[:1] * self.horizon, 1, bits
        self.evaluations, self.first_temperature, self.damping = evaluations, temperature, damping
        self.temperature, self.growth, self.patience = temperature, growth, patience
        self.returns: list[float] | None = []  # of this round's evaluations; None while it trains
        self.kept: Any = None
        self.best, self.n_before, self.n_splits, self.total = -math.inf, 1, 0, 0.0

    def act(self, step: int, state: Sequence[float]) -> list[float]:
        relevant = self.roots[0].relevant(state)
        best = max(ball.q_value for ball in relevant)
        chosen = next(ball for ball in relevant if ball.q_value == best)
        if self.returns is None:
            scale, total = self.temperature * (1.0 * self.horizon), 0.0
            for ball in relevant:
                if ball.q_value >= best - 36 * scale:
                    weight = math.exp((ball.q_value - best) / scale)
                    total += weight
                    chosen = ball if self.bits.share() * total < weight else chosen
        return list(chosen.center[self.n_state :])

    def update(self, step: int, state: Any, action: Any, reward: float, *rest: Any) -> None:
        self.total += reward
        if self.returns is None:
            super().update(step, state, action, reward, *rest)

    def end_episode(self) -> None:
        """Count, compare with the best policy so far, and decide what comes next."""
        total, self.total = self.total, 0.0
        if self.returns is None:
            self.n_splits += self.n_balls != self.n_before
            self.n_before, self.returns = self.n_balls, []
            return
        self.returns.append(total)
        if len(self.returns) < self.evaluations:
            return
        mean, self.returns = sum(self.returns) / self.evaluations, None
        if mean >= self.best:
            self.growth **= self.damping if self.kept else 1
            self.best, self.kept = mean, copy.deepcopy((self.roots[0], self.n_balls))
            self.temperature, self.n_splits = self.first_temperature, 0
            return
        self.temperature = min(10.0, self.temperature * self.growth)
        if self.n_splits >= self.patience:
            root, self.n_balls = copy.deepcopy(self.kept)
            self.roots, self.n_before, self.n_splits = [root] * self.horizon, self.n_balls, 0
            self.temperature = self.first_temperature


class ReferenceRandomizedQ(ReferenceQ):
    """RandomizedQ on the unit cube, with the first of the best balls.

    >>> agent = ReferenceRandomizedQ(1, 1, 2, None, seed_of_rates=0, copies=3)
    >>> agent.update(1, [0.5], [0.5], 1.0, [0.5])
    >>> agent.roots[1].q_value  # until a stage of two visits ends
    1.0
    """

    keeps_visits = True

    def __init__(self, *arguments: Any, seed_of_rates: int, copies: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seed_of_rates, self.n_copies = int(seed_of_rates), copies
        self.row = 0  # of the ball that is updated next, in the agent's table

    def select(self, step: int, state: Sequence[float]) -> ReferenceBall:
        return max(self.roots[step].relevant(state), key=lambda ball: ball.q_value)

    def _estimate(self, step: int, ball: ReferenceBall, reward: float, next_value: float) -> None:
        assert ball.visits is not None  # here: [number of the stage, targets, copies]
        number, targets, copies = ball.visits or (0, 0, [self.caps[step]] * self.n_copies)
        start = Bits(self.seed_of_rates + (self.row - 1) * 0x9E3779B97F4A7C15).draw()
        bits = Bits(start + (1024 * ball.n_visits - 1) * 0x9E3779B97F4A7C15)
        rates = [1 - (1 - bits.share()) ** (1 / (targets + 1)) for _ in copies]
        copies = [
            (1 - rate) * copy + rate * (reward + next_value)
            for copy, rate in zip(copies, rates, strict=True)
        ]
        if targets + 1 == math.floor((1 + 1 / self.horizon) ** number * self.horizon + 1e-9):
            ball.q_value = max(copies)
            number, targets, copies = number + 1, -1, [self.caps[step]] * self.n_copies
        ball.visits[:] = number, targets + 1, copies
