"""What a policy would have earned: estimates of a known truth, refusals, advice, bad input."""

import functools
import re
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import polars as pl
import pytest
from gymnasium.wrappers import TimeLimit

import off_policy
import zooming
from helpers import change
from off_policy import Thermostat
from zooming.agents.base.policies import Exploration
from zooming.logs.fitted import Neighbors

HORIZON = 3


def env():
    return gym.make("zooming/Newsvendor-v0", horizon=3)


def rule():
    return env().unwrapped.rule


@pytest.fixture(scope="module")
def log():
    return zooming.record(env(), rule(), 150, seed=3, epsilon=0.1, noise=0.1)


def test_the_value_of_the_rule_is_found_with_what_it_rests_on(log):
    truth = zooming.evaluate(rule(), env(), exact=True).mean
    found = zooming.evaluate_on(log, rule(), env=env())
    low, high = found.interval
    assert low < truth < high
    assert high - low < 0.8 * truth
    assert found.support > 0.95
    assert 10 < found.effective_samples <= 150
    assert all(one in str(found) for one in found.assumptions)


def test_intervals_contain_the_value_of_the_logging_rule_at_a_kink():
    env, truth = Thermostat(), -0.119
    rule = env.rule.act
    options = {"noise": 0.1, "epsilon": 0.05, "seed": 0}
    log = zooming.record(env, rule, 600, horizon=3, **options)
    found = zooming.evaluate_on(log, rule, env=env, horizon=3, resamples=20)
    low, high = found.interval
    assert low < truth < high
    assert high - low < 0.3


def test_the_benchmark_of_intervals_plays_the_kink(capsys):
    off_policy.main(1, 30, ["Thermostat"])
    truths = [line.split(" | ")[2] for line in capsys.readouterr().out.splitlines()[1::2]]
    assert float(truths[0].rstrip(" |")) == pytest.approx(-0.119, abs=0.002)


def test_there_is_no_answer_if_kinks_add_up_over_many_steps(monkeypatch):
    monkeypatch.setattr(Thermostat, "horizon", 8)
    env, options = Thermostat(), {"noise": 0.1, "epsilon": 0.05, "seed": 0}
    log = zooming.record(env, env.rule.act, 300, horizon=8, **options)
    found = zooming.evaluate_on(log, env.rule.act, env=env, horizon=8, resamples=20)
    assert "depends on the number of neighbors" in found.reason
    assert "record 1,500 episodes of this policy with noise=0.05" in found.reason


def test_agents_rules_and_functions_are_policies(log):
    less = rule().with_numbers([7.0])
    found = zooming.evaluate_on(log, less, env=env(), resamples=20)
    low, high = found.interval
    assert low < zooming.evaluate(less, env(), exact=True).mean < high
    same = zooming.evaluate_on(
        log, lambda step, stock: np.clip(7.0 - stock, 0, 20), env=env(), resamples=20
    )
    assert (same.mean, same.support) == pytest.approx((found.mean, found.support))
    agent = zooming.AdaptiveQ(env(), seed=0)
    agent.learn_from(log)
    found = zooming.evaluate_on(log, agent, resamples=20)
    same = zooming.evaluate_on(
        log, lambda step, stock: agent.predict(stock, state=step)[0], env=env(), resamples=20
    )
    assert str(found) == str(same)


def test_there_is_no_answer_without_data(log):
    far = {"policy": lambda step, stock: [20.0], "env": env()}
    found = zooming.evaluate_on(log, **far)
    assert np.isnan([found.mean, *found.interval]).all()
    assert "the log has data near 0%" in found.reason
    assert str(found).startswith("no answer: ")
    few = log.filter(pl.col("episode") < 8)
    said = zooming.evaluate_on(few, rule(), env=env(), radius=0.4)
    assert "near the policy's actions, the logged episodes amount to" in said.reason
    assert "of 8: that many do what the policy does" in said.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"propensity": "chance"}, "a column='propensity'"),
        ({"level": 1.0}, "level=1.0"),
        ({"radius": 0.0}, "radius=0.0"),
        ({"resamples": 3}, "resamples"),
        ({"bad": "mend"}, "bad='mend'"),
        ({"env": None}, "env= is missing"),
        ({"state": ["stock"]}, "no column 'stock' for state="),
    ],
)
def test_a_wrong_argument_is_refused(log, options, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.evaluate_on(log, rule(), **{"env": env(), **options})


def test_a_wrong_policy_or_log_is_refused(log):
    with pytest.raises(zooming.ConfigurationError, match="policy=7: give an agent"):
        zooming.evaluate_on(log, 7, env=env())
    with pytest.raises(zooming.ConfigurationError, match=r"the policy gave \[99.0\]: .*outside"):
        zooming.evaluate_on(log, lambda step, stock: [99.0], env=env())
    with pytest.raises(zooming.ConfigurationError, match="leave out env="):
        zooming.evaluate_on(log, zooming.Median(env(), seed=0), env=env())
    with pytest.raises(zooming.ConfigurationError, match="has 1 whole episodes"):
        zooming.evaluate_on(log[:3], rule(), env=env())
    spoiled = change(log, 5, "action_0", None)
    with pytest.raises(zooming.TransitionError, match=r"nothing was evaluated: .*row 5"):
        zooming.evaluate_on(spoiled, rule(), env=env())


def test_noise_needs_a_bounded_space_and_random_actions_do_not_know_the_environment():
    free = SimpleNamespace(low=np.array([0.0]), high=np.array([np.inf]), kind="interval", names="a")
    with pytest.raises(zooming.ConfigurationError, match="a is unbounded"):
        Exploration([free], 0.1, 0.1)
    made = gym.make("zooming/Inventory-v0", lead_time=1, horizon=3)
    log = zooming.record(made, lambda s, x: [5.0], 300, noise=0.1, seed=0)
    demand = log["state_0"] + log["action_0"] - log["next_state_0"]
    assert demand.std() > 1
    assert abs(np.corrcoef(demand, log["action_0"])[0, 1]) < 0.1


def test_a_log_of_one_action_answers_for_that_action_only():
    env = gym.make("zooming/Newsvendor-v0")
    log = zooming.record(env, lambda step, stock: [8.0], 100, seed=0)
    for order, is_answered in ((8.0, True), (8.1, True), (7.5, False), (9.8, False)):
        found = zooming.evaluate_on(log, lambda step, stock, order=order: [order], env=env)
        assert np.isfinite(found.mean) == is_answered
        assert is_answered or "not on all sides" in found.reason


# --- integers and categories ----------------------------------------------------------------------


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
    shared = {"seed": 0, **options}
    policy = order_up_to(level, env)
    return zooming.record(env, policy, episodes, noise=noise, epsilon=epsilon, **shared)


@functools.cache
def value(level):
    env = continuous()
    return zooming.record(env, order_up_to(level, env), 1500, seed=7)["reward"].sum() / 1500


def test_ordered_discrete_actions_are_evaluated_as_an_integer_box():
    log = record(discrete(), 8, epsilon=0.0, ordered=True)
    asked = {"resamples": 20}
    near = order_up_to(7, discrete())
    found = zooming.evaluate_on(log, near, env=discrete(), ordered=True, **asked)
    low, high = found.interval
    assert low < value(7) < high
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


def test_weights_of_few_neighbors_are_of_the_same_categories_and_not_negative():
    away = np.array([[[0.0], [2.0], [0.1]], [[1.0], [1.0], [1.0]]])
    equal = np.array([[True, True, False], [True, True, True]])
    found = Neighbors(np.zeros((2, 3), int), away, np.ones(2, bool), equal).weights(3)
    assert found[0] == pytest.approx([1.0, (1 - 1.5**-3) ** 3, 0.0])
    assert found[1] == pytest.approx(1.0)  # all at the same distance


# --- advice ---------------------------------------------------------------------------------------


def follow(step, record_again):
    """Return the log that the advice asks for."""
    n = int(re.search(r"[\d,]+", step)[0].replace(",", ""))
    said = re.fullmatch(
        r"record .* of this policy(?: with noise=([\d.]+)(?: and ordered=\['(.*)'\])?)?", step
    )
    return record_again(n, float(said[1] or 0), ordered=said[2] or False)


@pytest.mark.parametrize(("make", "level", "recorded", "asked", "reason"), [
    (discrete, 7, {"ordered": True, "episodes": 60}, {}, "the log has data near"),
    (boxed, 6, {"noise": 0.0, "epsilon": 0.0}, {}, "not on all sides"),
    (discrete, 16, {"ordered": True}, {"ordered": True}, r"and ordered=\['action'\]"),
    (boxed, 8, {"episodes": 15}, {"radius": 0.3}, "near the policy's actions, the logged"),
    (continuous, 8, {"episodes": 60}, {"radius": 0.04}, "near"),
])  # fmt: skip
def test_the_log_that_a_refusal_names_gives_an_answer(make, level, recorded, asked, reason):
    env = make()
    policy = order_up_to(level, env)
    log = record(env, 8, **recorded)

    def record_again(n, noise, ordered):
        return record(env, level, n, noise, 0.0, ordered=ordered)

    options = {"env": env, "resamples": 20, **asked}
    said = zooming.evaluate_on(log, policy, **options).reason
    assert re.search(reason, said)
    new = follow(said.split("; ")[1], record_again)
    assert zooming.evaluate_on(new, policy, **options).reason is None


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
    assert is_own.mean() == pytest.approx(0.7 + 0.3 / 21, abs=0.1)
    near = record(discrete(), 8, 50, noise=0.1, epsilon=0.0, ordered=["action"])
    first = near.filter(pl.col("step") == 0)
    assert set(first["action"]) == {6, 7, 8, 9, 10}
