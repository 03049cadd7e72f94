"""The plain-Python reference: a yardstick must not waste time, and an oracle must not depend on
how it is driven."""

from __future__ import annotations

import math
import random

import pytest

from reference import ReferenceBall, ReferenceQ


def call(step, state, action):
    """Ambulances on a line, calls from a fixed list."""
    return [(7 * step + 3 * action[0] + 0.1) % 1.0 for _ in state], 1 - abs(
        state[0] - action[0]
    ) / 2


@pytest.mark.parametrize("n", [1, 2])
def test_learning_is_acting_and_updating_in_turn(n):
    whole, by_hand = (ReferenceQ(n, n, 3, lambda t: 0.1 / math.sqrt(t), seed=2) for _ in range(2))
    returns = []
    for _ in range(40):
        state, total = [0.5] * n, 0.0
        for step in range(3):
            action = by_hand.act(step, state)
            after, reward = call(step, state, action)
            by_hand.update(step, state, action, reward, after)
            state, total = after, total + reward
        returns.append(total)
    assert whole.learn(40, [0.5] * n, call) == returns
    for one, other in zip(whole.roots, by_hand.roots, strict=True):
        found, expected = (
            [(b.center, b.radius, b.q_value, b.n_visits) for b in root.active()]
            for root in (one, other)
        )
        assert found == expected
    assert whole.episode == by_hand.episode == 40


def test_an_episode_looks_each_state_up_once(monkeypatch):
    asked = []
    walk = ReferenceBall.relevant
    monkeypatch.setattr(
        ReferenceBall, "relevant", lambda ball, point: asked.append(len(point)) or walk(ball, point)
    )
    ReferenceQ(1, 1, 5, lambda t: 0.1).learn(10, [0.5], call)
    assert asked == [1] * 50


def test_a_walk_finds_the_balls_that_hold_the_state_and_the_one_that_holds_the_point():
    rng, root = random.Random(0), ReferenceBall((0.5,) * 3, 1.0, 0.0)
    for _ in range(20):
        rng.choice(list(root.active())).split()

    def holds(ball, values):
        sides = [(c - ball.radius / 2, c + ball.radius / 2) for c in ball.center]
        return all(
            low <= x < high or x == high == 1.0
            for x, (low, high) in zip(values, sides, strict=False)
        )

    values = [0.0, 0.25, 0.5, 0.75, 1.0, math.nextafter(0.5, 0), *(rng.random() for _ in range(20))]
    for _ in range(300):
        point = [rng.choice(values) for _ in range(3)]
        for n_state in (1, 2, 3):
            assert set(root.relevant(point[:n_state])) == {
                ball for ball in root.active() if holds(ball, point[:n_state])
            }
        assert holds(root.holding(point), point)
