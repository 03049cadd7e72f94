"""Bonuses: the formulas, at numbers worked out by hand."""

import math

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming import bonuses

pytestmark = pytest.mark.plain


def test_a_number_means_the_scaled_bonus():
    for number in (0.5, np.float32(0.5), np.float64(0.5)):
        assert bonuses.as_bonus(number) == bonuses.Scaled(0.5)
    assert bonuses.as_bonus(2) == bonuses.Scaled(2.0)


def test_theory_has_the_constants_of_the_main_text():
    # H = 5, K = 2000, delta = .05, L = 1: iota = log(800000) = 13.592, 2 sqrt(125 iota) = 82.44, plus 4.
    scale = bonuses.Theory(episodes=2000).scale(5, 1.0)
    assert scale == pytest.approx(2 * math.sqrt(125 * math.log(800_000)) + 4)
    assert scale == pytest.approx(86, abs=0.5)
    assert bonuses.Theory(episodes=2000, lipschitz=0.0).scale(5, 2.0) == pytest.approx(2 * 82.44, abs=0.05)


@pytest.mark.parametrize(("options", "first"), [({"bonus": 0.5}, 0.5), ({}, 2.0), ({"bonus": bonuses.Scaled(3.0)}, 3.0)])
def test_a_number_is_meant_literally_and_the_default_scales_with_the_rewards(options, first):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), reward_range=(-10.0, 10.0), seed=0, **options)
    agent.update(4, [0.5], [0.5], 0.0, [0.5])
    assert agent.q_value(4, [0.5], [0.5]) == first


@pytest.mark.parametrize("bonus", [-0.1, float("nan"), float("inf"), True, "theory", [0.1]])
def test_what_is_not_a_bonus_is_refused(bonus):
    with pytest.raises(zooming.SpaceError, match="bonus"):
        zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), bonus=bonus)


@pytest.mark.parametrize("options", [{"episodes": 0}, {"episodes": 10, "delta": 1.0}, {"episodes": 10, "lipschitz": -1.0}])
def test_theory_names_the_constant_that_is_wrong(options):
    with pytest.raises(zooming.SpaceError, match=list(options)[-1]):
        bonuses.Theory(**options)


def test_a_bonus_of_your_own_works_but_is_not_saved(tmp_path):
    class Half:
        def scale(self, horizon, reward_span):
            return horizon / 2

    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), bonus=Half(), seed=0)
    agent.update(4, [0.5], [0.5], 0.0, [0.5])
    assert agent.q_value(4, [0.5], [0.5]) == 2.5
    with pytest.raises(zooming.SpaceError, match="cannot be saved"):
        agent.save(tmp_path / "agent.zoom")
