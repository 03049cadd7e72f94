"""Off-policy evaluation on integers and categories, and whether the advice of a refusal works."""

import functools
import re

import gymnasium as gym
import numpy as np
import polars as pl
import pytest
from gymnasium.wrappers import TimeLimit

import zooming
from zooming.logs.fitted import Neighbors

METHODS = {"model": {}, "doubly robust": {"propensity": "propensity"}}
WEIGHTED = METHODS["doubly robust"]
HORIZON = 3


class Shop(gym.Env):
    """Order up to 10 units a day; demand is uniform, and stock that is left costs money."""

    observation_space = gym.spaces.Box(0.0, 20.0, (1,), np.float64)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = 0.0
        return np.array([self.stock]), {}

    def step(self, action):
        level = min(20.0, self.stock + float(np.ravel(action)[0]))
        sold = min(level, self.np_random.integers(2, 11))
        self.stock = level - sold
        reward = 3.0 * sold - 0.5 * self.stock
        return np.array([self.stock]), reward, False, False, {}


def discrete():
    return TimeLimit(Shop(gym.spaces.Discrete(21)), HORIZON)


def boxed():
    return TimeLimit(Shop(gym.spaces.Box(0, 20, (1,), np.int64)), HORIZON)


def continuous():
    return TimeLimit(Shop(gym.spaces.Box(0.0, 20.0, (1,), np.float64)), HORIZON)


def order_up_to(level, env):
    def policy(step, stock):
        order = max(0, level - int(stock[0]))
        return order if isinstance(env.action_space, gym.spaces.Discrete) else [order]

    return policy


def record(env, level, episodes=150, noise=0.1, epsilon=0.05, **options):
    shared = {"propensities": True, "seed": 0, **options}
    policy = order_up_to(level, env)
    return zooming.record(env, policy, episodes, noise=noise, epsilon=epsilon, **shared)


@functools.cache
def value(level):
    env = continuous()
    return zooming.record(env, order_up_to(level, env), 1500, seed=7)["reward"].sum() / 1500


@pytest.mark.parametrize("method", METHODS)
def test_ordered_discrete_actions_are_evaluated_as_an_integer_box(method):
    log = record(discrete(), 8, epsilon=0.0, ordered=True)
    asked = {**METHODS[method], "resamples": 20}
    near = order_up_to(7, discrete())
    found = zooming.evaluate_on(log, near, env=discrete(), ordered=True, **asked)
    low, high = found.interval
    assert low < value(7) < high
    assert "on integer axes" in str(found) or method == "model"
    same = log.rename({"action": "action_0"})
    boxes = zooming.evaluate_on(same, order_up_to(7, boxed()), env=boxed(), **asked)
    assert str(boxes) == str(found)


def test_an_agent_is_evaluated_with_its_own_order_unless_another_is_given():
    agent = zooming.AdaptiveQ(discrete(), ordered=True, reward_range=(-10, 30), seed=0)
    log = zooming.record(discrete(), agent, 100, noise=0.1, ordered=True, seed=0)
    found = zooming.evaluate_on(log, agent, resamples=20)

    def same(step, stock):
        return agent.predict(stock, state=step)[0]

    ordered = zooming.evaluate_on(log, same, env=discrete(), ordered="action", resamples=20)
    assert str(found) == str(ordered)
    loose = zooming.evaluate_on(log, agent, ordered=False, resamples=20)
    assert loose.support < 0.9 < found.support
    with pytest.raises(zooming.SpaceError, match="ordered: no axis is named 'order'"):
        zooming.evaluate_on(log, agent, ordered=["order"])


class Routes(gym.Env):
    """Three routes without an order; the best one depends on the state."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.traffic = self.np_random.random()
        return np.array([self.traffic]), {}

    def step(self, action):
        mean = (self.traffic, 0.6, 1.0 - self.traffic)[action]
        self.traffic = self.np_random.random()
        reward = mean + 0.1 * self.np_random.normal()
        return np.array([self.traffic]), reward, False, False, {}


@pytest.mark.parametrize("method", METHODS)
def test_another_category_that_the_log_has_is_evaluated(method):
    env = TimeLimit(Routes(), 2)
    log = zooming.record(env, lambda s, x: 1, 200, noise=0.9, propensities=True, seed=0)

    def best(step, traffic):
        return 0 if traffic[0] > 0.6 else 2 if traffic[0] < 0.4 else 1

    asked = {"env": env, **METHODS[method]}
    found = zooming.evaluate_on(log, best, **asked)
    low, high = found.interval
    assert low < 2 * (0.32 + 0.12 + 0.32) < high
    assert high - low < 0.6
    assert found.support > 0.9
    only = log.filter(((pl.col("action") != 2).all()).over("episode"))
    assert "has data near" in zooming.evaluate_on(only, best, **asked).reason


def test_weights_of_few_neighbors_are_of_the_same_categories_and_not_negative():
    away = np.array([[[0.0], [2.0], [0.1]], [[1.0], [1.0], [1.0]]])
    equal = np.array([[True, True, False], [True, True, True]])
    found = Neighbors(np.zeros((2, 3), int), away, np.ones(2, bool), equal).weights(3)
    assert found[0] == pytest.approx([1.0, (1 - 1.5**-3) ** 3, 0.0])
    assert found[1] == pytest.approx(1.0)  # all at the same distance


# --- advice ---------------------------------------------------------------------------------------


def follow(step, log, record_again, options):
    """Return the log and the options after one step of the advice."""
    if not step.startswith("record"):
        assert step == "leave out propensity="
        return log, options | {"propensity": None}
    n = int(re.search(r"[\d,]+", step)[0].replace(",", ""))
    said = re.fullmatch(
        r"record .* of this policy(?: with noise=([\d.]+)(?: and ordered=\['(.*)'\])?)?", step
    )
    return record_again(n, float(said[1] or 0), ordered=said[2] or False), options


@pytest.mark.parametrize(("make", "level", "recorded", "asked", "reason"), [
    (discrete, 7, {"ordered": True, "episodes": 60}, {}, "the log has data near"),
    (discrete, 7, {"noise": 0.0}, WEIGHTED, "the log has data near"),
    (boxed, 7, {"noise": 0.0}, WEIGHTED, "by their weights"),
    (boxed, 6, {"noise": 0.0, "epsilon": 0.0}, {}, "not on all sides"),
    (discrete, 16, {"ordered": True}, {"ordered": True}, r"and ordered=\['action'\]"),
    (boxed, 8, {"episodes": 15}, {"radius": 0.3}, "near the policy's actions, the logged"),
    (continuous, 8, {"noise": 0.0}, WEIGHTED, "by their weights"),
    (continuous, 8, {"episodes": 60}, {"radius": 0.04}, "near"),
])  # fmt: skip
def test_every_step_that_a_refusal_names_gives_an_answer(make, level, recorded, asked, reason):
    env = make()
    policy = order_up_to(level, env)
    log = record(env, 8, **recorded)

    def record_again(n, noise, ordered):
        return record(env, level, n, noise, 0.0, ordered=ordered)

    options = {"env": env, "resamples": 20, **asked}
    said = zooming.evaluate_on(log, policy, **options).reason
    assert re.search(reason, said)
    for step in said.split("; ")[1].split(", or "):
        new, changed = follow(step, log, record_again, options)
        assert zooming.evaluate_on(new, policy, **changed).reason is None, step


def test_the_assumptions_of_the_doubly_robust_estimate_do_not_contradict_each_other():
    log = record(boxed(), 8)
    found = zooming.evaluate_on(
        log, order_up_to(8, boxed()), env=boxed(), propensity="propensity", resamples=20
    )
    (about,) = (one for one in found.assumptions if "propensities" in one)
    assert about.startswith("the regression is right; or the propensities are those")
    assert about.endswith("on integer axes")


def test_integers_that_a_log_without_noise_plays_have_exact_weights():
    log = record(boxed(), 8, noise=0.0, epsilon=0.0)
    found = zooming.evaluate_on(log, order_up_to(8, boxed()), env=boxed(), **WEIGHTED)
    assert (found.mean, found.effective_samples) == (pytest.approx(found.logged_mean), 150)
    assert "axes" not in str(found)


# --- the log --------------------------------------------------------------------------------------


def test_the_estimate_counts_what_was_left_out_of_the_log():
    log = record(boxed(), 8, 40)
    actions = log["action_0"].to_list()
    actions[4] = actions[30] = None  # of episodes 1 and 10
    spoiled = log.with_columns(pl.Series("action_0", actions, strict=False))
    policy = order_up_to(8, boxed())
    found = zooming.evaluate_on(spoiled, policy, env=boxed(), bad="skip", resamples=20)
    assert (found.n_episodes, found.n_dropped, found.n_dropped_rows) == (38, 2, 6)
    assert "in 38 episodes; 2 episodes with faults left out (6 rows)" in str(found)
    clean = zooming.evaluate_on(log, policy, env=boxed(), resamples=20)
    assert (clean.n_dropped, "left out" in str(clean)) == (0, False)


def test_a_step_that_few_episodes_reach_is_no_reason_to_refuse():
    log = record(boxed(), 8).filter((pl.col("step") < 2) | (pl.col("episode") < 2))
    ended = (pl.col("step") == 1) & (pl.col("episode") >= 2)
    log = log.with_columns(terminated=pl.col("terminated") | ended)
    found = zooming.evaluate_on(log, order_up_to(8, boxed()), env=boxed(), resamples=20)
    low, high = found.interval
    assert low < found.logged_mean < high
    cut = log.with_columns(terminated=pl.lit(value=False))
    assert zooming.evaluate_on(cut, order_up_to(8, boxed()), env=boxed()).support < 0.1


def test_noise_changes_a_category_rarely_and_stays_near_on_ordered_axes():
    loose = record(discrete(), 8, 200, noise=0.3, epsilon=0.0)
    first = loose.filter(pl.col("step") == 0)
    is_own = first["action"] == 8
    assert np.allclose(first.filter(is_own)["propensity"], 0.7 + 0.3 / 21)
    assert np.allclose(first.filter(~is_own)["propensity"], 0.3 / 21)
    assert is_own.mean() == pytest.approx(0.7 + 0.3 / 21, abs=0.1)
    near = record(discrete(), 8, 50, noise=0.1, epsilon=0.0, ordered=["action"])
    first = near.filter(pl.col("step") == 0)
    assert set(first["action"]) == {6, 7, 8, 9, 10}
    assert np.allclose(first["propensity"], 1 / 5)
