"""Split rules: the same run by both drivers, and an audit that says what a partition breaks."""

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, assert_drivers_agree
from zooming import kernels

pytestmark = pytest.mark.kernels


def oil(**options):
    return gym.make("zooming/Oil-v0", **options)


EPISODES = 20 if kernels.IS_JIT_DISABLED else 500


@pytest.mark.plain
@pytest.mark.parametrize("split", ["all", "longest"])
@pytest.mark.parametrize("weights", [None, [1.0, 0.3], [0.0, 1.0]])
def test_both_drivers_agree_and_max_balls_holds_for_every_rule(split, weights):
    options = {"split": split, "weights": weights, "max_balls": 60, "seed": 1}
    history = assert_drivers_agree(lambda: zooming.AdaptiveQ(oil(), **options), EPISODES)
    assert 10 < history.n_balls.max() <= 60


@pytest.mark.plain
def test_the_longest_side_is_halved_and_aspects_stay_within_two():
    agent = zooming.AdaptiveQ(oil(dims=2), split="longest", seed=0)
    agent.learn(20 if kernels.IS_JIT_DISABLED else 2000)
    for step in range(5):
        balls = agent.partition(step)
        sides = balls.high - balls.low
        assert (sides.max(axis=1) <= 2 * sides.min(axis=1)).all()
        assert (balls.radius == sides.max(axis=1)).all()
        if not kernels.IS_JIT_DISABLED:
            assert (sides.max(axis=1) > sides.min(axis=1)).any()


@pytest.mark.plain
def test_weights_say_how_far_apart_an_axis_keeps_points():
    agent = zooming.AdaptiveQ(oil(), weights={"state[0]": 0.25}, seed=0)
    agent.learn(40 if kernels.IS_JIT_DISABLED else 2000)
    balls = agent.partition(1)
    sides = balls.high - balls.low
    assert (sides[:, 0] == np.minimum(1.0, 4 * sides[:, 1])).all()  # squares of the weighted metric
    assert (balls.radius == sides[:, 1]).all()
    assert sides[:, 0].min() < 1 or kernels.IS_JIT_DISABLED


def test_only_the_ratio_of_weights_matters():
    runs = [
        zooming.AdaptiveQ(oil(), weights=weights, seed=0).learn(500)
        for weights in ([0.5, 1.0], [3.0, 6.0])
    ]
    assert runs[0].returns.tobytes() == runs[1].returns.tobytes()


# --- the audit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["all", "longest"])
@pytest.mark.parametrize("weights", [None, [0.3, 1.0]])
def test_the_audit_of_a_sound_rule_reports_its_constants(split, weights):
    agent = zooming.AdaptiveQ(oil(), split=split, weights=weights, seed=0)
    agent.learn(2000)
    report = zooming.audit(agent)
    assert report.holds, str(report)
    assert 0.25 <= report.c1 <= report.c2 <= 2**0.5 + 1e-9
    assert report.aspect <= (2 if weights is None or split == "longest" else 4)
    assert "aspect ratio up to" in str(report)


def early(agent):
    agent.table.core["due_factor"] = 1e-3


def late(agent):
    agent.table.rows["due_at"] = np.inf


def long(agent):
    agent.axes.table[0, kernels.WEIGHT] = 1e-3


@pytest.mark.parametrize(
    ("damage", "fault"),
    [(early, "too early, c1 = "), (late, "too late, c2 = "), (long, "too long, aspect ratio ")],
)  # fmt: skip
def test_the_audit_warns_of_balls_that_break_the_conditions(damage, fault):
    agent = zooming.AdaptiveQ(oil(), split="longest", seed=0)
    weights = agent.axes.table[:, kernels.WEIGHT].copy()
    damage(agent)
    agent.learn(500)
    agent.axes.table[:, kernels.WEIGHT] = weights
    with pytest.warns(UserWarning, match=fault):
        report = zooming.audit(agent)
    assert not report.holds
    assert fault in str(report)


def test_the_audit_of_an_agent_whose_balls_fill_max_balls_holds():
    for max_balls in (5, 6, 8):
        agent = zooming.AdaptiveQ(oil(), max_balls=max_balls, seed=0)
        agent.learn(2000)
        assert agent.is_full
        assert zooming.audit(agent).holds  # its balls would be split if they fitted in


def test_the_audit_of_atoms_finds_nothing_to_complain_about():
    space = gym.spaces.Discrete(3)
    agent = zooming.AdaptiveQ(Boxes(space, space), horizon=2, seed=0)
    for _ in range(20):
        agent.update(0, 1, agent.act(0, 1), 0.5, 2)
    report = zooming.audit(agent)
    assert report.holds
    assert np.isnan(report.c1)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize("split", ["half", 3, None, len], ids=str)
def test_what_is_no_name_of_a_rule_is_refused_with_the_names(split):
    message = r"split=.*: choose one of 'all', 'longest'"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.AdaptiveQ(oil(), split=split)


@pytest.mark.plain
def test_many_axes_are_for_the_longest_side():
    env = Boxes(gym.spaces.Box(0.0, 1.0, (12,)), gym.spaces.Box(0.0, 1.0, (3,)))
    message = r'15 axes are too many.*at most 12 axes are supported.*split="longest"'
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.AdaptiveQ(env, horizon=1)
    agent = zooming.AdaptiveQ(env, horizon=1, split="longest", seed=0)
    for _ in range(30):
        state = env.observation_space.sample()
        agent.update(0, state, agent.act(0, state), 0.5, state)
    assert agent.n_balls == 31
