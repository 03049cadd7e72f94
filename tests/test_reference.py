"""The plain-Python reference: an oracle must not depend on how it is driven."""

from __future__ import annotations

import math

import pytest

from reference import ReferenceQ


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
