"""Split rules: the same run by both drivers, and an audit that says what a partition breaks."""

import functools

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, assert_drivers_agree, knowledge, oil, recorded
from zooming import kernels
from zooming.agents.training.replay import update_each

pytestmark = pytest.mark.kernels


EPISODES = 20 if kernels.IS_JIT_DISABLED else 500


@pytest.mark.plain
@pytest.mark.parametrize("split", ["all", "longest"])
@pytest.mark.parametrize("weights", [None, [1.0, 0.3], [0.0, 1.0]])
def test_both_drivers_agree_and_max_balls_holds_for_every_rule(split, weights):
    options = {"split": split, "weights": weights, "max_balls": 60, "seed": 1}
    history = assert_drivers_agree(lambda: zooming.AdaptiveQ(oil(), **options), EPISODES)
    assert 5 < history.n_balls.max() <= 60


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


# --- rules that see the data ----------------------------------------------------------------------


def ambulance(**options):
    return gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25, **options)


BY_DATA = pytest.mark.parametrize("split", ["variance", "median"])


@pytest.mark.plain
@BY_DATA
@pytest.mark.parametrize("action", ["center", "uniform"])
@pytest.mark.parametrize("make", [oil, ambulance])
def test_both_drivers_agree_on_what_a_ball_has_seen(split, action, make):
    options = {"split": split, "action": action, "seed": 1}
    history = assert_drivers_agree(lambda: zooming.AdaptiveQ(make(), **options), EPISODES)
    assert history.n_balls.max() > 20


@BY_DATA
def test_a_saved_agent_goes_on_with_what_its_balls_have_seen(split, tmp_path):
    bonus = zooming.bonuses.Exact(delta=0.1, lipschitz=1.0)
    agent = zooming.AdaptiveQ(ambulance(), split=split, bonus=bonus, seed=0)
    agent.learn(300)
    agent.save(tmp_path / "agent.zoom")
    loaded = zooming.load(tmp_path / "agent.zoom")
    assert loaded.learn(300).returns.tolist() == agent.learn(300).returns.tolist()
    assert knowledge(loaded) == knowledge(agent)
    inner = np.flatnonzero(agent.table.rows["child"])
    agent.table.rows["cut"][inner[0]] += 0.01
    agent.save(tmp_path / "agent.zoom")
    with pytest.raises(zooming.CheckpointError, match="not at a quarter of its ball"):
        zooming.load(tmp_path / "agent.zoom")


@BY_DATA
def test_learning_from_recorded_transitions_counts_the_same_samples(split):
    replayed, updated = (zooming.AdaptiveQ(oil(), split=split, seed=0) for _ in range(2))
    log = recorded(oil(), 100, horizon=5)
    replayed.learn_transitions(log)
    update_each(updated, log)
    assert knowledge(replayed) == knowledge(updated)
    wrong = zooming.errors.TransitionError
    with pytest.raises(wrong):
        replayed.update(0, [0.1], [0.1], 0.5, [np.nan])
    assert knowledge(replayed) == knowledge(updated)


@pytest.mark.plain
def test_the_variance_cuts_where_the_rewards_jump_and_the_median_where_samples_are():
    """Rewards jump along the action. No place cuts states that are all in the first fifth."""
    env = Boxes(gym.spaces.Box(0.0, 1.0, (1,)), gym.spaces.Box(0.0, 1.0, (1,)))
    rng = np.random.default_rng(0)
    found = {}
    for split in ("variance", "median"):
        agent = zooming.AdaptiveQ(env, horizon=1, split=split, seed=0)
        agent.table.rows["due_at"][0] = 40
        for _ in range(40):
            state, action = 0.2 * rng.random(1), rng.random(1)
            agent.update(0, state, action, float(action[0] > 0.75), state)
        root = agent.table.rows[0]
        found[split] = int(root["axis"]), float(root["cut"])
    assert found == {"variance": (1, 0.75), "median": (0, 0.5)}
    agent = zooming.AdaptiveQ(env, horizon=1, split="median", weights=[1.0, 0.5], seed=0)
    agent.table.rows["due_at"][0] = 40
    for k in range(40):
        agent.update(0, [0.1 if k < 10 else 0.3], [0.5], 0.5, [0.5])
    assert (int(agent.table.rows[0]["axis"]), float(agent.table.rows[0]["cut"])) == (0, 0.25)


@functools.cache
def solved_problems():
    """Return three problems with their optimal returns."""
    problems = ambulance(), oil(dims=2), oil(sharpness=10.0)
    return [(env, zooming.solve(env).return_) for env in problems]


def most_boxes(r, aspect, n_axes):
    return aspect ** (n_axes - 1) * r**-n_axes


@BY_DATA
@pytest.mark.parametrize("action", ["center", "uniform"])
def test_theorem_a_rule_that_sees_the_data_keeps_the_conditions_and_the_bound(split, action):
    for env, best in solved_problems():
        agent = zooming.AdaptiveQ(env, split=split, action=action, seed=0)
        history = agent.learn(2000)
        report = zooming.audit(agent)
        assert report.holds, str(report)
        n_axes = len(agent.axes)
        assert 0.25 <= report.c1 <= report.c2 <= np.sqrt(3 * n_axes)
        assert report.aspect < 8
        n_regions = 2 * max(len(agent.partition(step)) for step in range(5)) - 1
        regret = (best - history.returns).sum()
        regions = functools.partial(most_boxes, aspect=report.aspect, n_axes=n_axes)
        for n in (n_regions, None):
            constants = {"c1": report.c1, "c2": report.c2, "n_regions": n}
            assert regret < zooming.theory.nested_regret_bound(5, 2000, regions, **constants)
        cubes = zooming.theory.partition_size_bound(2000, n_axes, n_children=2**n_axes)
        assert max(len(agent.partition(step)) for step in range(5)) < 8**n_axes * cubes


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


def test_c1_is_that_of_the_earliest_split_ever_made():
    agent = zooming.AdaptiveQ(oil(), horizon=1, seed=0)
    for x, a in ((0.2, 0.2), (0.2, 0.2), (0.2, 0.7), (0.7, 0.2), (0.7, 0.7)):
        agent.update(0, [x], [a], 0.5, [x])  # all four parts of the root are visited
    assert zooming.audit(agent).c1 == pytest.approx(0.5)  # one visit, and sides of 1/2


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
    message = r"split=.*: choose one of 'all', 'longest', 'variance', 'median'"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.AdaptiveQ(oil(), split=split)


@pytest.mark.plain
def test_rules_that_see_the_data_are_for_adaptive_q_without_a_budget():
    with pytest.raises(zooming.ConfigurationError, match=r"choose one of 'all', 'longest'$"):
        zooming.TreeQ(oil(), split="variance")
    for limit in ({"max_balls": 50}, {"max_bytes": 5000}):
        with pytest.raises(zooming.ConfigurationError, match=r"split='median' has no budget: "):
            zooming.AdaptiveQ(oil(), split="median", **limit)


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
