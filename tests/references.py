"""Variants of the algorithm in pure Python, as oracles: bonuses by their sum, and mixed spaces."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
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

    __slots__ = ("data", "high", "low")

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
        self.data: list[list[tuple[Any, float]]] = [[] for _ in axes]  # (coordinate, target)

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

    def cut(
        self, axes: Sequence[ReferenceAxis], chosen: Sequence[int], at: Any | None = None
    ) -> None:
        """Split the ball along each of the chosen axes: in half, or at the place `at`."""
        for upper in product((False, True), repeat=len(chosen)):
            low, high = list(self.low), list(self.high)
            for axis, is_upper in zip(chosen, upper, strict=True):
                (low if is_upper else high)[axis] = (
                    axes[axis].middle(self.low[axis], self.high[axis]) if at is None else at
                )
            part = ReferenceBox(axes, low, high, self.q_value, self.n_visits)
            part.data = [[] if i in chosen else list(one) for i, one in enumerate(self.data)]
            self.children.append(part)

    def places(self, axes: Sequence[ReferenceAxis], axis: int) -> list[Fraction]:
        """Return where the data may cut a side, the middle first."""
        low, high = self.low[axis], self.high[axis]
        if axes[axis].n_values:
            return [axes[axis].middle(low, high)]
        return [low + (high - low) * Fraction(k, 4) for k in (2, 1, 3)]

    def gain(self, axes: Sequence[ReferenceAxis], axis: int, at: Fraction, split: str) -> float:
        """Return by how much a cut reduces the squares of the targets, or its smaller count."""
        below = [target for x, target in self.data[axis] if x < at]
        above = [target for x, target in self.data[axis] if x >= at]
        if not below or not above:
            return 0.0
        if split == "median":
            return min(len(below), len(above))
        # Quarter by quarter, so that equal cuts are equal to the last bit.
        edges = [self.low[axis], *sorted(self.places(axes, axis)), 2]
        sums = [
            sum(y for x, y in self.data[axis] if low <= x < high) for low, high in pairwise(edges)
        ]
        n_below = sum(edge < at for edge in edges[:-1])
        apart = sum(sums[:n_below]) / len(below) - sum(sums[n_below:]) / len(above)
        return len(below) * len(above) / (len(below) + len(above)) * apart * apart


class ReferenceMixedQ(ReferenceQ):
    """AdaptiveQ on mixed spaces: intervals, ordered values and categories, with weights.

    `split` is "all", "longest", "variance" or "median". The last two keep all samples of a ball.

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

    def update(
        self,
        step: int,
        state: Sequence[float],
        action: Sequence[float],
        reward: float,
        next_state: Sequence[float],
        terminated: bool = False,
    ) -> None:
        is_last = terminated or step + 1 == self.horizon
        target = reward + (0.0 if is_last else self.value(step + 1, next_state))
        ball: Any = self.roots[step].holding([*state, *action])
        for samples, coordinate in zip(ball.data, [*state, *action], strict=True):
            samples.append((coordinate, target))
        super().update(step, state, action, reward, next_state, terminated)

    def _split_if_due(self, ball: ReferenceBall) -> None:
        assert isinstance(ball, ReferenceBox)
        lengths = [
            axis.length(a, b) for axis, a, b in zip(self.axes, ball.low, ball.high, strict=True)
        ]
        diameter = max(lengths)
        if diameter <= 0 or ball.n_visits * diameter**2 < 1:
            return
        chosen = [i for i, side in enumerate(lengths) if side > diameter / 2]
        longest, at = lengths.index(diameter), None
        if self.split in ("variance", "median"):
            cuts = [
                (ball.gain(self.axes, i, place, self.split), i, place)
                for i in (chosen if self.split == "variance" else [longest])
                for place in ball.places(self.axes, i)
            ]
            gain, axis, place = max(cuts, key=lambda cut: cut[0])
            if gain > 0:
                longest, at = axis, place
        if self.split != "all":
            chosen = [longest]
        n_more = 2 ** len(chosen) - 1
        if self.n_balls + n_more <= self.max_balls:
            ball.cut(self.axes, chosen, at)
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
        growth: float = 2.0, damping: float = 0.8, patience: int = 2, published: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(*arguments, full_cap=True, **options)
        self.published = published
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
            unit = max(abs(ball.q_value) for ball in relevant) if self.published else self.horizon
            scale, total = self.temperature * unit, 0.0
            for ball in relevant:
                if ball.q_value >= best - 36 * scale:
                    weight = math.exp((ball.q_value - best) / scale)
                    total += weight
                    chosen = ball if self.bits.share() * total < weight else chosen
        return list(chosen.center[self.n_state :])

    def update(
        self, step: int, state: Any, action: Any, reward: float, after: Any, *rest: Any
    ) -> None:
        self.total += reward
        if self.returns is None and self.published and step + 1 == self.horizon:
            ball = self.roots[0].holding([*state, *action])
            self._learn(step, ball, reward, self.value(0, after))
        elif self.returns is None:
            super().update(step, state, action, reward, after, *rest)

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
        if self.n_splits or not self.published:
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


class ReferenceMB:
    """NetMB and AdaptiveMB on the unit cube by their definitions, from a list of all samples.

    Balls are boxes (low, high, level), and a ball keeps its own samples (reward, next state or
    None). `cells(level)` are the borders of the grid of next states along every state axis. `power`
    is None for a net, which never splits; else a ball is due at `factor` 2^(power level) visits.

    >>> plain = ReferenceMB(1, 1, 2, 0.1, net=[0.0, 0.5, 1.0])
    >>> plain.update(1, [0.2], [0.7], 1.0, [0.5])
    >>> plain.plan()
    >>> plain.q(1, ((0.0, 0.5), (0.5, 1.0)))
    1.0
    """

    def __init__(
        self, n_state: int, n_action: int, horizon: int, scale: float, *,
        net: list[float] | None = None, power: float | None = None, factor: float = 1.0,
        is_full: bool = True, is_monotone: bool = False, lipschitz: float = math.inf,
    ) -> None:  # fmt: skip
        self.n_state, self.n_axes = n_state, n_state + n_action
        self.horizon, self.scale = horizon, scale
        self.net, self.power, self.factor = net, power, factor
        self.is_full, self.is_monotone, self.lipschitz = is_full, is_monotone, lipschitz
        edges = [0.0, 1.0] if net is None else net
        sides = list(pairwise(edges))
        boxes = list(product(sides, repeat=self.n_axes))
        # A ball: {box: [samples of it and of its ancestors with their levels, Q, level]}
        self.balls: list[dict[Any, Any]] = [
            {box: [[], float(horizon - step), 0] for box in boxes} for step in range(horizon)
        ]
        self.top = 0
        self.v = [self._cells_with(lambda c, h=step: float(horizon - h)) for step in range(horizon)]

    def _edges(self, level: int) -> list[float]:
        return [k / 2**level for k in range(2**level + 1)] if self.net is None else self.net

    def _grid(self, level: int) -> list[Any]:
        edges = self._edges(level)
        return list(product(list(pairwise(edges)), repeat=self.n_state))

    def _cells_with(self, value: Callable[..., float]) -> dict[Any, float]:
        return {cell: value(cell) for cell in self._grid(self.top)}

    @staticmethod
    def _holds(box: Any, point: Sequence[float]) -> bool:
        return all(a <= x < b or x == b == 1 for (a, b), x in zip(box, point, strict=False))

    def _relevant(self, step: int, state: Sequence[float]) -> list[Any]:
        return sorted(
            (box for box in self.balls[step] if self._holds(box, state)),
            key=lambda box: [low for low, _ in box[self.n_state :]],
        )

    def q(self, step: int, box: Any) -> float:
        """Return Q of a ball."""
        return self.balls[step][box][1]

    def act(self, step: int, state: Sequence[float]) -> list[float]:
        """Return the center of the first of the best balls."""
        box = max(self._relevant(step, state), key=lambda box: self.q(step, box))
        return [0.5 * (low + high) for low, high in box[self.n_state :]]

    def _mean_value(self, step: int, level: int, state: Sequence[float]) -> float:
        """Return the mean of V over the cell of a level that holds the state."""
        around = next(cell for cell in self._grid(level) if self._holds(cell, state))
        inside = [
            value
            for cell, value in self.v[step].items()
            if self._holds(around, [0.5 * (low + high) for low, high in cell])
        ]
        return sum(inside) / len(inside)

    def _estimate(self, step: int, box: Any) -> None:
        samples, before, _ = self.balls[step][box]
        if not samples:
            return
        n, total = len(samples), 0.0
        for reward, after, level in samples:
            is_last = after is None or step + 1 == self.horizon
            total += reward + (0.0 if is_last else self._mean_value(step + 1, level, after))
        found = min(float(self.horizon - step), total / n + self.scale / math.sqrt(n))
        self.balls[step][box][1] = min(found, before) if self.is_monotone else found

    def _value_cells(self, step: int, within: Any = None) -> None:
        for cell in self.v[step]:
            center = [0.5 * (low + high) for low, high in cell]
            if within is None or self._holds(within, center):
                best = max(self.q(step, box) for box in self._relevant(step, center))
                best = min(float(self.horizon - step), best)
                self.v[step][cell] = min(best, self.v[step][cell]) if self.is_monotone else best
        if self.lipschitz < math.inf:
            self.v[step] = {
                cell: min(
                    value
                    + self.lipschitz
                    * max(abs(a - b) for (a, _), (b, _) in zip(cell, other, strict=True))
                    for other, value in self.v[step].items()
                )
                for cell in self.v[step]
            }

    def plan(self) -> None:
        """Plan for all balls, from the last step to the first."""
        for step in reversed(range(self.horizon)):
            for box in self.balls[step]:
                self._estimate(step, box)
            self._value_cells(step)

    def update(
        self,
        step: int,
        state: Any,
        action: Any,
        reward: float,
        after: Any,
        terminated: bool = False,
    ) -> None:
        """Add a sample; plan for its ball, or for all at the end of an episode; split."""
        point = [*state, *action]
        box = next(box for box in self.balls[step] if self._holds(box, point))
        samples, _, level = self.balls[step][box]
        samples.append((reward, None if terminated else list(after), level))
        if not self.is_full:
            self._estimate(step, box)
            self._value_cells(step, box[: self.n_state])
        elif terminated or step + 1 == self.horizon:
            self.plan()
        if self.power is not None and len(samples) >= self.factor * 2 ** (self.power * level):
            self._split(step, box)

    def _split(self, step: int, box: Any) -> None:
        samples, value, level = self.balls[step].pop(box)
        halves = [((a, 0.5 * (a + b)), (0.5 * (a + b), b)) for a, b in box]
        for child in product(*halves):
            self.balls[step][child] = [list(samples), value, level + 1]
        if level + 1 > self.top:
            old, self.top = [dict(v) for v in self.v], level + 1
            for h, values in enumerate(old):
                self.v[h] = self._cells_with(
                    lambda cell, values=values: next(
                        value
                        for around, value in values.items()
                        if self._holds(around, [0.5 * (low + high) for low, high in cell])
                    )
                )


class BudgetBall:
    """A ball of `ReferenceBudgetQ`; a ball that was cut has an axis, a place and two children."""

    def __init__(self, row: int, parent: Any, q_value: float, sides: list[float]) -> None:
        self.row, self.parent, self.q_value, self.sides = row, parent, q_value, sides
        self.n_visits = self.last = 0
        self.due = math.inf
        self.axis, self.place, self.children = -1, 0.0, []

    def box(self) -> list[tuple[float, float]]:
        """Return (low, high) along each axis: what the cuts above leave."""
        if self.parent is None:
            return [(0.0, 1.0)] * len(self.sides)
        found = self.parent.box()
        low, high = found[self.parent.axis]
        is_upper = self is self.parent.children[1]
        found[self.parent.axis] = (
            (self.parent.place, high) if is_upper else (low, self.parent.place)
        )
        return found

    def active(self) -> list[BudgetBall]:
        """Return the balls below this row that are not cut, from low to high."""
        return [ball for child in self.children for ball in child.active()] or [self]


class ReferenceBudgetQ:
    """AdaptiveQ(max_balls=M, ties="first") in plain Python, rows and removals included.

    `axes` are (number of values or 0, whether they are categories, weight). Everything is searched
    by brute force over all balls.

    >>> agent = ReferenceBudgetQ([(0, False, 1.0)] * 2, 1, 1, 0.1, 2)
    >>> for _ in range(3):
    ...     agent.update(0, [0.2], agent.act(0, [0.2]), 1.0, [0.2])
    >>> [ball.box() for ball in agent.roots[0].active()]
    [[(0.0, 0.5), (0.0, 1.0)], [(0.5, 1.0), (0.0, 1.0)]]
    """

    def __init__(
        self, axes: Sequence[tuple[int, bool, float]], n_state: int, horizon: int, bonus: float,
        max_balls: int, split: str = "all", bits: Bits | None = None, together: int = 1,
        memory: float = math.inf,
    ) -> None:  # fmt: skip
        self.memory = memory
        self.axes, self.n_state, self.horizon, self.bonus = axes, n_state, horizon, bonus
        self.max_balls, self.split, self.bits, self.episode = max_balls, split, bits, 0
        self.groups = [range(horizon)[h : h + together] for h in range(0, horizon, together)]
        self.mean_reward = 0.0
        self.roots = [
            BudgetBall(number, None, float(horizon - steps[0]), [0.0] * len(axes))
            for number, steps in enumerate(self.groups)
        ]
        self.n_rows = len(self.roots) + len(self.roots) % 2
        self.n_removed = 0
        # Categories are cut first, the most values first, level by level, as the table has it.
        level = [(root, [(0, n if c and w else 1) for n, c, w in axes]) for root in self.roots]
        while level := [one for one in level if any(last - first > 1 for first, last in one[1])]:
            below = []
            for number, (ball, cells) in enumerate(level):
                widths = [last - first for first, last in cells]
                axis = widths.index(max(widths))
                first, last = cells[axis]
                middle = (first + last) // 2
                ball.axis, ball.place = axis, middle / axes[axis][0]
                for side, part in enumerate([(first, middle), (middle, last)]):
                    child = BudgetBall(
                        self.n_rows + 2 * number + side, ball, ball.q_value, [0.0] * len(axes)
                    )
                    ball.children.append(child)
                    below.append((side, child, [*cells[:axis], part, *cells[axis + 1 :]]))
            self.n_rows += 2 * len(level)
            level = [(ball, cells) for _, ball, cells in sorted(below, key=lambda one: one[0])]
        for ball in self.balls():
            ball.sides = self.lengths(ball)
            ball.due = self.due_at(ball)

    def balls(self) -> list[BudgetBall]:
        return sorted((ball for root in self.roots for ball in root.active()), key=lambda b: b.row)

    def lengths(self, ball: BudgetBall) -> list[float]:
        found = []
        for (low, high), (n, _, weight) in zip(ball.box(), self.axes, strict=True):
            inside = round((high - low) * n)
            found.append(
                weight * (high - low) if n == 0
                else weight * (inside - 1.0) / (n - 1.0) if inside > 1 else 0.0
            )  # fmt: skip
        return found

    def sides(self, ball: BudgetBall) -> list[float]:
        return [min(pair) for pair in zip(ball.sides, self.lengths(ball), strict=True)]

    def due_at(self, ball: BudgetBall) -> float:
        longest = max(self.sides(ball))
        return (1 - 1e-12) / (longest * longest) if longest else math.inf

    def number(self, step: int) -> int:
        return next(number for number, steps in enumerate(self.groups) if step in steps)

    def to_come(self, step: int) -> float:
        """Return what later steps are expected to pay, without the first of each partition."""
        begins = {steps[0] for steps in self.groups}
        return self.mean_reward * len(set(range(step + 1, self.horizon)) - begins)

    def relevant(self, step: int, state: Sequence[float]) -> list[BudgetBall]:
        return [
            ball
            for ball in self.roots[self.number(step)].active()
            if all(
                low <= x < high or x == high == 1
                for x, (low, high) in zip(state, ball.box(), strict=False)
            )
        ]

    def best(self, step: int, state: Sequence[float]) -> float:
        """Return V."""
        largest = max(ball.q_value for ball in self.relevant(step, state))
        return min(float(self.horizon - step), largest + self.to_come(step))

    def act(self, step: int, state: Sequence[float]) -> list[float]:
        """Return the center of the first best ball, for actions that are intervals."""
        ball = max(self.relevant(step, state), key=lambda ball: ball.q_value)
        return [(low + high) / 2 for low, high in ball.box()[self.n_state :]]

    def update(self, step: int, state: Any, action: Any, reward: float, after: Any) -> None:
        self.episode += step == 0
        value = self.best(step + 1, after) if step + 1 < self.horizon else 0.0
        (ball,) = self.relevant(step, [*state, *action])
        ball.n_visits += 1
        ball.last = self.episode
        rate = (self.horizon + 1) / (self.horizon + min(ball.n_visits, self.memory))
        value -= self.to_come(step)
        target = reward + value + self.bonus / math.sqrt(ball.n_visits)
        ball.q_value = (1 - rate) * ball.q_value + rate * target
        if ball.n_visits >= ball.due:
            self.make_parts(ball)
        if len(self.roots) < self.horizon:
            n_recent = min(max(self.episode, 1), 50) * self.horizon
            self.mean_reward += (reward - self.mean_reward) / n_recent

    def make_parts(self, ball: BudgetBall) -> None:
        sides = self.sides(ball)
        longest = max(sides)
        chosen = [i for i, side in enumerate(sides) if side > longest / 2 * (1 + 1e-9)]
        first = [next(i for i, side in enumerate(sides) if side * (1 + 1e-9) >= longest)]
        chosen = first if self.split == "longest" else chosen
        row = None
        if len(self.balls()) + 2 ** len(chosen) - 1 > self.max_balls:
            if len(self.balls()) == self.max_balls:
                victims = [b for b in self.balls() if b is not ball and self.can_go(b)]
                if not victims:
                    ball.due = math.inf
                    return
                victim = min(victims, key=self.score)  # the first of several
                row = victim.row - victim.row % 2
                self.remove(victim)
                sides = self.sides(ball)
            longest = max(sides)
            chosen = [next(i for i, side in enumerate(sides) if side * (1 + 1e-9) >= longest)]
        parts = [ball]
        for axis in chosen:
            before = [child.box()[axis] for child in parts]
            new = []
            for parent, (low, high) in zip(parts, before, strict=True):
                n = self.axes[axis][0]
                parent.axis = axis
                parent.place = (
                    math.floor((round(low * n) + round(high * n)) / 2) / n
                    if n
                    else (low + high) / 2
                )
                for _ in range(2):
                    if row is None:
                        row, self.n_rows = self.n_rows, self.n_rows + 1
                    child = BudgetBall(row, parent, ball.q_value, [*parent.sides])
                    child.sides[axis] *= 0.5
                    child.n_visits, child.last = ball.n_visits, ball.last
                    parent.children.append(child)
                    new.append(child)
                    row = row + 1 if row + 1 < self.n_rows else None
            parts = new
        for part in parts:
            part.due = self.due_at(part)

    def can_go(self, ball: BudgetBall) -> bool:
        return ball.parent is not None and ball.sides[ball.parent.axis] > 0

    def touching(self, ball: BudgetBall) -> list[BudgetBall]:
        """Return the balls beside the ball, across the cut of its parent."""
        parent = ball.parent
        is_upper = ball is parent.children[1]
        sibling = parent.children[not is_upper]
        edge = 1 if is_upper else 0  # the end of the neighbors that is the cut
        return [b for b in sibling.active() if b.box()[parent.axis][edge] == parent.place]

    def score(self, ball: BudgetBall) -> float:
        ages = [self.episode - ball.last + 1]
        if ball.parent.axis >= self.n_state:
            ages += [self.episode - other.last + 1 for other in self.touching(ball)]
        width = self.lengths(ball.parent)[ball.parent.axis]
        return width / (float(min(ages)) * float(min(ages)))

    def remove(self, ball: BudgetBall) -> None:
        self.n_removed += 1
        parent, touching = ball.parent, self.touching(ball)
        sibling = parent.children[ball is parent.children[0]]
        sibling.row, sibling.parent = parent.row, parent.parent
        if parent.parent is None:
            self.roots[parent.row] = sibling
        else:
            parent.parent.children[parent.row % 2] = sibling
        for other in touching:
            other.q_value = max(other.q_value, ball.q_value)
            if math.isinf(other.due):
                other.due = max(4.0 * other.n_visits, self.due_at(other))
