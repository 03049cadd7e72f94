"""The algorithm in pure Python: the baseline of `speed.py`, and the oracle of the tests.

Balls are linked objects, and every query walks down from the root. No code is shared with the
kernels. To be a fair baseline, it is written for speed: balls have slots, a walk compares states
with centers only, and an episode looks up each state once, for both its value and its action.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
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
