"""Split rules: the same run by both drivers, and an audit that says what a partition breaks."""

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, knowledge
from zooming import kernels

pytestmark = pytest.mark.kernels


def oil(**options):
    return gym.make("zooming/Oil-v0", **options)


EPISODES = 20 if kernels.IS_JIT_DISABLED else 500


@pytest.mark.plain
@pytest.mark.parametrize("split", ["all", "longest"])
@pytest.mark.parametrize("weights", [None, [1.0, 0.3], [0.0, 1.0]])
def test_both_drivers_agree_and_max_balls_holds_for_every_rule(split, weights):
    agents = [
        zooming.AdaptiveQ(oil(), split=split, weights=weights, max_balls=60, seed=1)
        for _ in range(2)
    ]
    histories = [
        agent.learn(EPISODES, driver=driver)
        for agent, driver in zip(agents, ("fused", "python"), strict=True)
    ]
    assert histories[0].returns.tobytes() == histories[1].returns.tobytes()
    assert knowledge(agents[0]) == knowledge(agents[1])
    assert histories[0].n_balls.max() <= 60
    assert agents[0].n_balls > 10


def test_learning_in_two_parts_is_learning_at_once():
    whole, parts = (zooming.AdaptiveQ(oil(), split="longest", seed=5) for _ in range(2))
    both = parts.learn(130) + parts.learn(170)
    assert whole.learn(300).returns.tobytes() == both.returns.tobytes()
    assert knowledge(whole) == knowledge(parts)


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


# --- an axis that does not matter -----------------------------------------------------------------


def oil_with_a_dial(state, action, step, params, rng, next_state):
    """The oil problem, and a second action that changes nothing."""
    next_state[0] = action[0]
    return max(0.0, np.exp(-10.0 * abs(action[0] - 0.75)) - abs(state[0] - action[0]))


def test_longest_side_splits_have_less_regret_per_ball_where_an_axis_does_not_matter():
    one, two = (gym.spaces.Box(0.0, 1.0, (n,), np.float64) for n in (1, 2))
    env = zooming.compiled_env(oil_with_a_dial, one, two, 5, start=[0.5])
    regret, n_balls = {}, {}
    for split in ("all", "longest"):
        for most in (None, 100):
            agents = zooming.learn_many(
                lambda env, seed, split=split,
                most=most: zooming.AdaptiveQ(env, split=split, max_balls=most, seed=seed),
                env, range(8), 4000,
            )  # fmt: skip
            regret[split, most] = np.array([(4.75 - history.returns).sum() for history in agents])
            n_balls[split, most] = np.array([history.n_balls[-1] for history in agents])
    # Free to grow: as little regret with two thirds of the balls. A budget costs neither anything.
    assert regret["longest", None].mean() < 1.1 * regret["all", None].mean()
    assert n_balls["longest", None].mean() < 0.75 * n_balls["all", None].mean()
    for split in ("all", "longest"):
        assert (n_balls[split, 100] == 100).all()
        assert regret[split, 100].mean() < 1.1 * regret[split, None].mean()


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
    [
        (early, "too early, c1 = "),
        (late, "too late, c2 = "),
        (long, "too long, aspect ratio "),
    ],
)
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


class Halves:
    """A rule as a user might write it."""

    def due_at(self, low, high):
        return 1.0

    def axes(self, low, high):
        return [0]


@pytest.mark.plain
@pytest.mark.parametrize(
    "split",
    ["half", 3, None, len, Halves, Halves()],
    ids=["name", "number", "None", "function", "class", "object"],
)
def test_what_is_no_name_of_a_rule_is_refused_with_the_names(split):
    with pytest.raises(
        zooming.ConfigurationError, match=r"split=.*: choose one of 'all', 'longest'"
    ):
        zooming.AdaptiveQ(oil(), split=split)


@pytest.mark.plain
def test_many_axes_are_for_the_longest_side():
    env = Boxes(gym.spaces.Box(0.0, 1.0, (12,)), gym.spaces.Box(0.0, 1.0, (3,)))
    with pytest.raises(
        zooming.ConfigurationError,
        match=r'15 axes are too many.*at most 12 axes are supported.*split="longest"',
    ):
        zooming.AdaptiveQ(env, horizon=1)
    agent = zooming.AdaptiveQ(env, horizon=1, split="longest", seed=0)
    for _ in range(30):
        state = env.observation_space.sample()
        agent.update(0, state, agent.act(0, state), 0.5, state)
    assert agent.n_balls == 31
