"""The algorithm in pure Python: the oracle of the tests and the baseline of `zooming bench`.

Balls are linked objects, and every query walks down from the root. No code is shared with the
kernels. To be a fair baseline, it is written for speed: balls have slots, a walk compares states
with centers only, and an episode looks up each state once, for both its value and its action.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple


class ReferenceVisit(NamedTuple):
    """One visit of a ball: the target including the bonus, V(x'), and the diameter of the ball."""

    target: float
    next_value: float
    diameter: float


class ReferenceBall:
    """A cube of side `radius` around `center` in the state-action space."""

    __slots__ = ("center", "children", "n_visits", "q_value", "radius", "visits")

    def __init__(
        self,
        center: tuple[float, ...],
        radius: float,
        q_value: float,
        n_visits: int = 0,
        visits: list[ReferenceVisit] | None = None,
    ) -> None:
        self.center, self.radius, self.q_value, self.n_visits = center, radius, q_value, n_visits
        self.children: list[Any] = []
        self.visits = visits  # ancestors included; None if they are not kept

    def active(self) -> Iterator[ReferenceBall]:
        """Yield this ball and its descendants that are not split."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.active()

    def relevant(self, state: Sequence[float]) -> list[ReferenceBall]:
        """Return the active balls whose domain contains the state with some action.

        A border belongs to the upper ball, the coordinate 1 to the last ball. The 2^D children are
        ordered from high to low, state coordinates first. So the children that contain the state
        are consecutive, and the stack visits them from low to high.
        """
        found, waiting = [], [self]
        n_actions = len(self.center) - len(state)
        while waiting:
            ball = waiting.pop()
            if ball.children:
                side = 0
                for value, center in zip(state, ball.center, strict=False):
                    side += side + (value < center)
                waiting += ball.children[side << n_actions : side + 1 << n_actions]
            else:
                found.append(ball)
        return found

    def holding(self, point: Sequence[float]) -> ReferenceBall:
        """Return the active ball whose domain contains the point."""
        return self.relevant(point)[0]

    def split(self) -> None:
        """Split the ball into 2^D children of half the radius, which inherit Q and n."""
        shift = self.radius / 4
        for signs in product((1, -1), repeat=len(self.center)):
            center = tuple([c + sign * shift for c, sign in zip(self.center, signs, strict=True)])
            visits = None if self.visits is None else list(self.visits)
            self.children.append(
                ReferenceBall(center, self.radius / 2, self.q_value, self.n_visits, visits)
            )


class ReferenceQ:
    """AdaptiveQ on the unit cube. `bonus(t)` is the exploration bonus of the t-th visit.

    >>> agent = ReferenceQ(n_state=1, n_action=1, horizon=2, bonus=lambda t: 0.1 / t**0.5)
    >>> agent.update(0, [0.5], [0.5], 1.0, [0.5])
    >>> agent.n_balls  # the root of step 0 splits at its first visit
    5
    """

    keeps_visits = False

    def __init__(
        self,
        n_state: int,
        n_action: int,
        horizon: int,
        bonus: Callable[[int], float],
        *,
        full_cap: bool = False,
        reward_high: float = 1.0,
        max_balls: float = math.inf,
        seed: int = 0,
    ) -> None:
        self.n_state, self.n_action, self.horizon, self.bonus = n_state, n_action, horizon, bonus
        self.full_cap, self.reward_high, self.max_balls = full_cap, reward_high, max_balls
        self.random = random.Random(seed)
        self.caps = [self._cap(step) for step in range(horizon)]
        center = (0.5,) * (n_state + n_action)
        self.roots = [
            ReferenceBall(center, 1.0, cap, 0, [] if self.keeps_visits else None)
            for cap in self.caps
        ]
        self.n_balls = horizon
        self.episode = 0  # episodes begun

    def _cap(self, step: int) -> float:
        """Return the largest possible return from this step on; of all steps with `full_cap`."""
        n_steps = self.horizon if self.full_cap else self.horizon - step
        return self.reward_high * n_steps if self.reward_high > 0 else self.reward_high

    def value(self, step: int, state: Sequence[float]) -> float:
        """Return V(x) = min(cap, max of Q over the relevant balls)."""
        return min(
            self.caps[step], max([ball.q_value for ball in self.roots[step].relevant(state)])
        )

    def select(self, step: int, state: Sequence[float]) -> ReferenceBall:
        """Return a relevant ball with the largest Q; ties are broken at random."""
        relevant = self.roots[step].relevant(state)
        best = max([ball.q_value for ball in relevant])
        return self.random.choice([ball for ball in relevant if ball.q_value == best])

    def act(self, step: int, state: Sequence[float]) -> list[float]:
        """Return the action at the center of the selected ball."""
        return list(self.select(step, state).center[self.n_state :])

    def update(
        self,
        step: int,
        state: Sequence[float],
        action: Sequence[float],
        reward: float,
        next_state: Sequence[float],
        terminated: bool = False,
    ) -> None:
        """Learn from one transition, with any action."""
        is_last = terminated or step + 1 == self.horizon
        next_value = 0.0 if is_last else self.value(step + 1, next_state)
        self._learn(step, self.roots[step].holding([*state, *action]), reward, next_value)

    def _learn(self, step: int, ball: ReferenceBall, reward: float, next_value: float) -> None:
        """Q <- (1 - alpha_t) Q + alpha_t (r + V(x') + b(t)), then a split when n >= (d_max /
        r)^2.
        """
        self.episode += step == 0
        ball.n_visits += 1
        self._estimate(step, ball, reward, next_value)
        self._split_if_due(ball)

    def _estimate(self, step: int, ball: ReferenceBall, reward: float, next_value: float) -> None:
        t = ball.n_visits
        learning_rate = (self.horizon + 1) / (self.horizon + t)
        ball.q_value = (1 - learning_rate) * ball.q_value + learning_rate * (
            reward + next_value + self.bonus(t)
        )

    def _split_if_due(self, ball: ReferenceBall) -> None:
        n_more = 2 ** len(ball.center) - 1
        if ball.n_visits >= (1 / ball.radius) ** 2 and self.n_balls + n_more <= self.max_balls:
            ball.split()
            self.n_balls += n_more

    def learn(
        self,
        episodes: int,
        start: Sequence[float],
        step_function: Callable[..., tuple[list[float], float]],
    ) -> list[float]:
        """Play and learn from `episodes` episodes; return the list of their returns.

        `step_function(step, state, action)` returns the next state and the reward. V(x') is the Q
        of the ball that is played next, so each state is looked up once.
        """
        returns = []
        for _ in range(episodes):
            state, total, ball = list(start), 0.0, self.select(0, start)
            for step in range(self.horizon):
                played, next_value = ball, 0.0
                state, reward = step_function(step, state, list(played.center[self.n_state :]))
                if step + 1 < self.horizon:
                    ball = self.select(step + 1, state)
                    next_value = min(self.caps[step + 1], ball.q_value)
                self._learn(step, played, reward, next_value)
                total += reward
            returns.append(total)
        return returns


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
