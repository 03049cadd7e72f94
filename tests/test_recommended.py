"""What agents recommend: plans that were played, policies that keep the step, and a warning."""

import copy
import warnings

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import AGENTS, knowledge, oil
from zooming.agents.base.agent import ENOUGH_STARTS
from zooming.agents.planner.planner import Planner
from zooming.kernels import IS_JIT_DISABLED
from zooming.kernels.plans.layout import MARGIN, REPLAYS
from zooming.partitions.cells import CellTable, expect, rank_plans

compiled_only = pytest.mark.skipif(IS_JIT_DISABLED, reason="plans take seconds if not compiled")


# --- plans that were played -----------------------------------------------------------------------


def judged(agent, returns):
    """Make a plan after the current one has earned these returns."""
    core, mean = agent.table.core, sum(returns) / max(1, len(returns))
    core["own"], core["replays"] = -1, 0
    core["plays"], core["earned"] = len(returns), mean
    core["squares"] = sum((one - mean) ** 2 for one in returns)
    agent.table.refit()
    return agent.table.kept


@compiled_only
def test_a_plan_that_earns_clearly_less_or_that_the_model_doubts_is_not_recommended(monkeypatch):
    agent, gains = zooming.Planner(oil(), seed=0), {"model": 0.1}
    monkeypatch.setattr(CellTable, "_gain", lambda *policies: gains["model"])
    agent.learn(200)
    rng = np.random.default_rng(0)
    assert judged(agent, []) is None  # nobody played: all samples are used
    assert len(agent.table.earned) == 0
    first = judged(agent, rng.normal(4.0, 0.5, 40))
    good = judged(agent, 4.0 + rng.permutation(np.linspace(-1, 1, 40)))
    assert good is not first  # they do not differ by more than noise
    for _ in range(3):
        assert judged(agent, rng.normal(3.0, 0.5, 40)) is good
    assert agent.table.policy().grid is good.grid
    assert abs(agent.should_earn()[0] - 4.0) < 0.2  # not those that are not recommended
    agent.learn(1000)  # its samples are less than a third of all
    agent.table.kept, agent.table.earned = good, agent.table.earned[[0, -2, -1]]
    agent.table.earned[:, 1] = 4.0, 3.0, 3.0
    agent.table.earned[:, 2] = 0.1
    assert judged(agent, [3.0, 3.1]) is good  # age alone is no reason
    gains["model"] = 0.0
    assert judged(agent, [4.2, 4.3] * 20) is good  # returns of plans that explore may deceive
    gains["model"] = 0.1
    assert judged(agent, [4.2, 4.3] * 20) is not good


def test_what_is_expected_of_a_plan_is_shrunk_by_the_variance_between_plans():
    rng, errors = np.random.default_rng(0), []
    for deviation in (0.0, 0.3) * 200:  # of true means; that of a return is 1
        n, true = rng.integers(4, 30, 12), rng.normal(5.0, deviation, 12)
        returns = [rng.normal(mean, 1.0, k) for mean, k in zip(true, n, strict=True)]
        own = np.array([one.mean() for one in returns])
        squares = np.array([k * one.var() for k, one in zip(n, returns, strict=True)])
        plans = np.array([n, own, squares, 0 * n]).T
        found, error = expect(plans[0], plans)
        mean, within = np.average(own, weights=n), squares.sum() / (n - 1).sum()
        away = (n * (own - mean) ** 2).sum()
        between = (away - 11 * within) / (n.sum() - (n**2).sum() / n.sum())
        share = between / (between + within / n[0]) if away > 11 * within else 0.0
        assert found == pytest.approx(mean + share * (own[0] - mean))
        errors.append([abs(found - true[0]), abs(own[0] - true[0]), error])
    shrunk, plain, error = np.array(errors).T
    assert np.mean(shrunk**2) < 0.6 * np.mean(plain**2)
    assert np.mean(shrunk > 2 * error) < 0.02  # of an error of the shrunk mean, 0.06


@compiled_only
def test_what_is_recommended_survives_saving_and_loading(tmp_path):
    agent = zooming.Planner(oil(noise=0.1), seed=0)
    agent.learn(150)
    judged(agent, [-5.0, -5.1, -4.9] * 10)  # so that an older plan is recommended
    assert agent.table.kept.grid is not agent.table.grid
    agent.save(tmp_path / "planner.zoom")
    loaded = zooming.load(tmp_path / "planner.zoom")
    states, steps = np.linspace(0, 1, 40).reshape(-1, 1), np.arange(40) % 5
    np.testing.assert_array_equal(loaded.predict(states, steps)[0], agent.predict(states, steps)[0])
    np.testing.assert_array_equal(loaded.table.earned, agent.table.earned)
    assert loaded.status() == agent.status()


@compiled_only
@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("kept_bins", lambda a: a * 0, "an axis has no bins"),
        ("kept_q", lambda a: a[:, 1:], "kept_q is"),
        ("kept_bonus", lambda a: a[:1], "kept_bonus is"),
        ("kept_bonus", lambda a: a * np.nan, "kept_bonus has an entry that is not finite"),
        ("kept_centers", lambda a: a + 1.0, "the center of a bin"),
        ("control_bins", lambda a: a * 0, "an axis has no bins"),
        ("control_q", lambda a: a[:, 1:], "control_q is"),
        ("control_bonus", lambda a: a * np.nan, "control_bonus has an entry that is not finite"),
        ("earned", lambda a: -a, "the returns of the planner's episodes are invalid"),
        ("earned", lambda a: a - np.array([0, 1e308, 0, 0]), "the returns of the planner's"),
        ("earned", lambda a: a + np.array([0, 0, 0, 1e308]), "the returns of the planner's"),
        ("earned", lambda a: a * np.array([0, 1, 1, 1]), "the returns of the planner's"),
        ("earned", lambda a: a[:0], "earned is"),
        ("earned", lambda a: a[:, :2], "earned is"),
    ],
)
def test_a_stored_recommendation_that_cannot_be_is_refused(name, spoil, message):
    agent = zooming.Planner(oil(), seed=0)
    agent.learn(30)
    agent.table.take_control()
    values, arrays = agent.saved_state()
    with pytest.raises(ValueError, match=message):
        zooming.Planner(oil(), seed=0).restore_state(values, {**arrays, name: spoil(arrays[name])})


@compiled_only
def test_a_file_without_a_recommendation_is_loaded_and_uses_all_samples():
    agent, loaded = (zooming.Planner(oil(), seed=0) for _ in range(2))
    agent.learn(30)
    values, arrays = agent.saved_state()
    loaded.restore_state(values, {name: a for name, a in arrays.items() if "kept" not in name})
    assert loaded.table.kept is None
    assert loaded.table.policy().key[0] == agent.table.n_samples
    loaded.learn(100)
    assert loaded.table.kept is not None


@compiled_only
def test_full_memory_keeps_the_recommended_plan():
    agent = zooming.Planner(oil(noise=0.1), max_samples=1000, seed=0)
    agent.learn(600)
    judged(agent, [-5.0, -5.1, -4.9] * 10)
    kept, before = agent.table.kept, agent.predict([0.3])[0]
    while agent.table.samples.numbers[:, 0].max() == 1.0:
        agent.learn(20)
    agent.table.kept = kept
    np.testing.assert_array_equal(agent.predict([0.3])[0], before)
    assert np.isfinite(agent.value(0, [0.5]))


@compiled_only
def test_what_auto_recommends_is_never_much_worse_than_before():
    # When plans of less than half of the samples were dropped, 123 episodes were worth 3.6 more
    # than random actions, after 4.7 at 100.
    env = gym.make("zooming/Storage-v0")
    agents, random, best = [zooming.Auto(env, seed=k) for k in (1, 2, 3)], -1.96, 0.0
    for n_episodes in (100, 123, 185, 344):
        gains = []
        for agent in agents:
            agent.learn(n_episodes - agent.n_episodes)
            gains.append(zooming.evaluate(agent, env, 300, seed=1).mean - random)
        gain = float(np.mean(gains))
        assert min(gains) > 0.85 * best
        assert gain > 0.95 * best
        best = max(best, gain)


@compiled_only
def test_the_policy_is_worth_what_its_plan_earned_if_rewards_have_a_highest():
    # Without the cap on values, the policy was worth -2.29, while episodes earned -1.51.
    agent = zooming.Auto(gym.make("zooming/Regulator-v0"), seed=0)
    agent.learn(344)
    expected, error = agent.should_earn()
    assert zooming.evaluate(agent, episodes=300, seed=1).mean > expected - 2 * error


@compiled_only
def test_with_noise_auto_recommends_its_planner_and_says_what_that_should_earn():
    agent = zooming.Auto(gym.make("zooming/Newsvendor-v0"), seed=0)
    assert agent.status()["recommended should earn"] is None
    agent.learn(300)
    agent.choice.credit(1, [1e6] * 50)  # a tree that seems to be much better
    status = agent.status()
    assert status["recommended"] == "planner"
    assert agent.recommended is agent.planner
    earned, (mean, error) = agent.planner.table.earned, agent.should_earn()
    assert (mean, error) == expect(earned[0], earned)
    assert abs(zooming.evaluate(agent, episodes=2000).mean - mean) < 3 * error
    assert "±" in status["recommended should earn"]


@compiled_only
def test_status_warns_if_the_model_contradicts_what_was_earned():
    agent = zooming.Planner(oil(noise=0.1), seed=0)
    agent.learn(100)
    assert not any("promises" in one for one in agent.status()["warnings"])
    agent.table.earned[:, 1] -= 3.0
    assert any("promises" in one and "earned" in one for one in agent.status()["warnings"])


# --- the step -------------------------------------------------------------------------------------


class Plain(gym.Env):
    """An environment in Python: the state counts the steps from a start that may be random."""

    observation_space, action_space = gym.spaces.Discrete(10), gym.spaces.Discrete(2)

    def __init__(self, is_random):
        self.is_random = is_random

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(3)) if self.is_random else 0
        return self.state, {}

    def step(self, action):
        self.state = min(9, self.state + 1)
        return self.state, float(action), False, False, {}


@pytest.mark.parametrize("kind", [*AGENTS, "Planner", "Auto"])
def test_a_policy_keeps_its_own_step(kind):
    agent = AGENTS.get(kind, getattr(zooming, kind, None))(oil(), seed=0)
    agent.learn(5)
    policy, rng = agent.policy(), np.random.default_rng(0)
    for _ in range(2):
        policy.reset()
        for step in range(agent.horizon):
            assert policy.step == step
            state = rng.random(1)
            expected = agent.predict(state, state=step)[0]
            if kind != "Random":
                np.testing.assert_array_equal(policy(state), expected)
            else:
                policy(state)
        with pytest.raises(zooming.ConfigurationError, match=r"all 5 steps .* policy.reset\(\)"):
            policy(state)
    policy.reset()
    assert policy(np.array([[0.1], [0.9]])).shape == (2, 1)
    assert "step=1 of 5" in repr(policy)


def test_a_loop_without_the_step_is_warned_once():
    agent = zooming.AdaptiveQ(oil(), seed=0)
    agent.learn(2)
    start, other = [0.5], [0.25]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.predict(other)  # one question is no loop
        agent.predict(other, state=3)
        agent.predict(other)
        agent.predict(start)
    with pytest.warns(UserWarning, match=r"agent.policy\(\)"):
        agent.predict(other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.predict(other)


def test_a_loop_that_keeps_the_step_is_not_warned():
    agent = zooming.AdaptiveQ(oil(), seed=0)
    agent.learn(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zooming.evaluate(agent, oil(start=0.9), 3)  # starts elsewhere
        for first in (True, False, False):
            agent.predict([0.2], episode_start=first)
        policy = agent.policy()
        for x in (0.5, 0.2, 0.1):
            policy([x])


@pytest.mark.parametrize("is_random", [False, True])
def test_only_a_start_that_never_changed_tells_a_loop_without_the_step(is_random):
    agent = zooming.AdaptiveQ(Plain(is_random), horizon=3, seed=0)
    agent.learn(ENOUGH_STARTS - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.predict(0)
        agent.predict(1)  # too few episodes to know
        agent.learn(ENOUGH_STARTS)
        if is_random:
            agent.predict(9)
    if not is_random:
        with pytest.warns(UserWarning, match="no episode begins with this observation"):
            agent.predict(1)


def test_a_planner_is_judged_alike_by_both_drivers():
    fused, python = (Planner(oil(noise=0.1), seed=1) for _ in range(2))
    for n_episodes in (81, 60):
        history = fused.learn(n_episodes)
        np.testing.assert_array_equal(
            history.returns, python.learn(n_episodes, driver="python").returns
        )
        np.testing.assert_array_equal(fused.table.earned, python.table.earned)
        np.testing.assert_array_equal(fused.table.kept.plan.q, python.table.kept.plan.q)


# --- replays --------------------------------------------------------------------------------------


def is_replayed(agent):
    core = agent.table.core[0]
    return core["n_episodes"] < core["replays"]


def before_replays(n_replays):
    """Return a planner whose next episodes, so many, play the recommended policy."""
    agent = Planner(oil(noise=0.1), seed=1)
    while agent.table.core["replays"][0] - agent.n_episodes != n_replays:
        agent.learn(1)
        agent.table.prepare(1)
    return agent


@compiled_only
def test_a_tenth_of_the_episodes_play_what_is_recommended_and_tell_what_it_earns():
    agent, n_replayed = before_replays(3), 0
    n_first, table = agent.n_episodes, agent.table
    while agent.n_episodes < 3 * n_first:
        before, returns = table.earned[0].copy(), []
        while is_replayed(agent):
            twin = copy.deepcopy(agent)
            for step, state in enumerate((0.1, 0.5, 0.9)):
                played, advised = twin.act(step, [state]), agent.predict([state], step)[0]
                np.testing.assert_array_equal(played, advised)
            returns.append(float(agent.learn(1).returns[0]))
        n_replayed += len(returns)
        agent.learn(1)  # after these, the plan plays, and what they earned is known
        n = before[0] + len(returns)
        mean = (before[0] * before[1] + sum(returns)) / n
        np.testing.assert_allclose(table.earned[0][:2], [n, mean])
        agent.learn(int(table.core["due"][0]) - agent.n_episodes)
        table.prepare(1)
    assert n_replayed == pytest.approx(REPLAYS * (agent.n_episodes - n_first), rel=0.15)


@compiled_only
def test_replays_go_on_after_loading(tmp_path):
    agent = before_replays(3)
    agent.learn(1)
    agent.save(tmp_path / "planner.zoom")
    loaded = zooming.load(tmp_path / "planner.zoom", env=agent.env)
    assert is_replayed(loaded)
    for one in (agent, loaded):
        one.learn(40)
    assert knowledge(loaded) == knowledge(agent)


@compiled_only
def test_episodes_side_by_side_replay_and_count_only_for_what_plays_still():
    agent = before_replays(3)
    opened = [agent.begin() for _ in range(4)]
    before = agent.table.earned[0, 0]
    for episode in opened:
        for step in range(5):
            np.testing.assert_array_equal(episode.act([0.3]), agent.predict([0.3], step)[0])
    for k, episode in enumerate(opened):
        if k == 3:
            agent.begin().act([0.3])  # three episodes are over: the plan plays from now on
        for _ in range(5):
            episode.update(1.0, [0.3])
    assert agent.table.earned[0, 0] == before + 3
    assert agent.table.core["plays"][0] == 0


def test_a_new_plan_must_be_better_by_the_model_and_not_worse_by_returns_beyond_noise():
    rng = np.random.default_rng(0)
    for _ in range(200):
        (old, new), gain = rng.normal(5.0, 1.0, 2), rng.normal(0.0, 5.0)
        earned = np.array([[30, old, 3e5, 0.0], [10, 5.0, 1e5, 0.7]])  # the deviation is 100
        is_first, noisy = rank_plans(earned, np.array([20, new, 2e5]), gain)
        error = np.sqrt(6e5 / 57 / 60)  # of the mean of all 60 returns
        assert is_first == (gain >= MARGIN * error) == (noisy[0, 1] == new)
        earned[:, 2] = 1e-9
        is_first, exact = rank_plans(earned, np.array([20, new, 1e-9]), gain)
        assert is_first == (new >= old and gain > 0.0) == (exact[0, 1] == new)
        for rows in (noisy, exact):  # all plans, each with its gain
            if rows[0, 1] == new:
                np.testing.assert_allclose(rows[[0, 2, 1], 3], [0, gain, 0.7 + gain], atol=1e-12)
            else:
                np.testing.assert_allclose(rows[:, 3], [0, 0.7, -gain])
    # A trend that the model knows is no difference between plans: they stay equal but for noise.
    earned = np.array([[30, 5.0, 30, 0.0], [30, 3.0, 30, 2.0], [30, 1.0, 30, 4.0]])
    assert rank_plans(earned, np.array([30, 4.9, 30]), 0.1)[0]
    earned[:, 3] = 0.0  # it does not: returns count
    assert not rank_plans(earned, np.array([30, 4.9, 30]), 0.01)[0]
