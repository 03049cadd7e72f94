"""What a policy would have earned: estimates of a known truth, refusals, and bad input."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import zooming
from off_policy import Thermostat
from zooming.agents.base.rules import Exploration
from zooming.logs import estimators as weighting
from zooming.logs import fitted

METHODS = {"model": {}, "doubly robust": {"propensity": "propensity"}}


def env():
    return gym.make("zooming/Newsvendor-v0", horizon=3)


def rule():
    return env().unwrapped.rule


@pytest.fixture(scope="module")
def log():
    options = {"epsilon": 0.1, "noise": 0.1, "propensities": True}
    return zooming.record(env(), rule(), 150, seed=3, **options)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_value_of_the_rule_and_says_what_it_rests_on(log, method):
    truth = zooming.evaluate(rule(), env(), exact=True).mean
    found = zooming.evaluate_on(log, rule(), env=env(), **METHODS[method])
    low, high = found.interval
    assert low < truth < high
    assert high - low < 0.8 * truth
    assert found.method == method
    assert found.support > 0.95
    assert 10 < found.effective_samples <= 150
    assert f"by {method}" in str(found)
    assert all(one in str(found) for one in found.assumptions)
    assert ("propensities are those" in str(found)) == (method != "model")


@pytest.mark.parametrize("method", METHODS)
def test_intervals_contain_the_value_of_the_logging_rule_at_a_kink(method):
    env, truth = Thermostat(), -0.119
    rule = env.rule.act
    options = {"noise": 0.1, "epsilon": 0.05, "propensities": True, "seed": 0}
    log = zooming.record(env, rule, 600, horizon=3, **options)
    found = zooming.evaluate_on(log, rule, env=env, horizon=3, resamples=20, **METHODS[method])
    low, high = found.interval
    assert low < truth < high
    assert high - low < 0.3


def test_there_is_no_answer_if_kinks_add_up_over_many_steps(monkeypatch):
    monkeypatch.setattr(Thermostat, "horizon", 8)
    env, options = Thermostat(), {"noise": 0.1, "epsilon": 0.05, "seed": 0}
    log = zooming.record(env, env.rule.act, 300, horizon=8, **options)
    found = zooming.evaluate_on(log, env.rule.act, env=env, horizon=8, resamples=20)
    assert "depends on the number of neighbors" in found.reason
    assert "record 1,500 episodes of this policy with noise=0.05" in found.reason


def test_on_continuous_actions_right_propensities_alone_are_not_enough(log):
    found = zooming.evaluate_on(log, rule(), env=env(), propensity="propensity", resamples=20)
    assert not any("one of the two is enough" in one for one in found.assumptions)
    assert any("the error of the regression is the same" in one for one in found.assumptions)


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
    said = zooming.evaluate_on(few, rule(), env=env(), propensity="propensity", radius=0.4)
    assert "by their weights, the logged episodes amount to" in said.reason
    assert "of 8: that many do what the policy does" in said.reason


def test_a_long_log_is_evaluated_on_a_part(log, monkeypatch):
    monkeypatch.setattr(fitted, "MOST_EPISODES", 60)
    assert zooming.evaluate_on(log, rule(), env=env(), resamples=20).n_episodes == 60


def change(log, row, column, value):
    numbers = log[column].to_list()
    numbers[row] = value
    return log.with_columns(pl.Series(column, numbers, strict=False))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"propensity": "chance"}, "no column 'chance' for propensity="),
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
    spoiled = change(log, 4, "propensity", 0.0)
    with pytest.raises(zooming.TransitionError, match="row 4 has the propensity 0"):
        zooming.evaluate_on(spoiled, rule(), env=env(), propensity="propensity")
    spoiled = change(log, 5, "action_0", None)
    with pytest.raises(zooming.TransitionError, match=r"nothing was evaluated: .*row 5"):
        zooming.evaluate_on(spoiled, rule(), env=env())
    found = zooming.evaluate_on(spoiled, rule(), env=env(), bad="skip", resamples=20)
    assert found.n_episodes == 149
    cut = log.filter((pl.col("episode") != 2) | (pl.col("step") < 2))
    with pytest.raises(zooming.ConfigurationError, match="weights need whole episodes"):
        zooming.evaluate_on(cut, rule(), env=env(), propensity="propensity")


# --- propensities ---------------------------------------------------------------------------------


def test_propensities_are_densities_and_infinite_for_a_policy_without_noise():
    made = env()
    high = made.action_space.high[0]
    exact = zooming.record(made, lambda s, x: [8.0], 30, epsilon=0.5, propensities=True)
    is_rule = exact["action_0"] == 8.0
    assert exact.filter(is_rule)["propensity"].is_infinite().all()
    assert np.allclose(exact.filter(~is_rule)["propensity"], 0.5 / high)
    noisy = zooming.record(made, lambda s, x: [8.0], 30, noise=0.1, propensities=True)
    assert noisy["action_0"].is_between(8.0 - 0.1 * high, 8.0 + 0.1 * high).all()
    assert np.allclose(noisy["propensity"], 1 / (0.2 * high))
    assert "propensity" not in zooming.record(made, lambda s, x: [8.0], 2).columns


class Coin(gym.Env):
    """Two actions, one step; the reward is the action."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        return np.zeros(1), float(action), True, False, {}


def test_discrete_actions_have_probabilities_and_exact_weights():
    log = zooming.record(
        Coin(), lambda s, x: 0, 200, epsilon=0.5, propensities=True, horizon=1, seed=1
    )
    assert set(zip(log["action"], log["propensity"], strict=True)) == {(0.0, 0.75), (1.0, 0.25)}
    for options in METHODS.values():
        found = zooming.evaluate_on(log, lambda s, x: 1, env=Coin(), horizon=1, **options)
        assert found.mean == pytest.approx(1.0)
    assert found.effective_samples == log["action"].sum()


def test_noise_needs_a_bounded_space_and_random_actions_do_not_know_the_environment():
    free = SimpleNamespace(low=np.array([0.0]), high=np.array([np.inf]), kind="interval", names="a")
    with pytest.raises(zooming.ConfigurationError, match="a is unbounded"):
        Exploration([free], 0.1, 0.1)
    made = gym.make("zooming/Inventory-v0", lead_time=1, horizon=3)
    log = zooming.record(made, lambda s, x: [5.0], 300, noise=0.1, seed=0)
    demand = log["state_0"] + log["action_0"] - log["next_state_0"]
    assert demand.std() > 1
    assert abs(np.corrcoef(demand, log["action_0"])[0, 1]) < 0.1


def test_weights_of_ended_episodes_stay():
    weights = np.array([[1.0, 2.0], [1.0, 0.0]])
    assert weighting.effective_samples(weights) == 1.0
    counts = np.array([[1.0, 0.0], [1.0, 2.0]])
    found = weighting.weighted_sums(weights, np.array([[[2.0], [3.0]], [[4.0], [5.0]]]), counts)
    assert found[0] == 6.0
    assert np.isnan(found[1])


def test_a_log_of_one_action_answers_for_that_action_only():
    env = gym.make("zooming/Newsvendor-v0")
    log = zooming.record(env, lambda step, stock: [8.0], 100, seed=0)
    for order, is_answered in ((8.0, True), (8.1, True), (7.5, False), (9.8, False)):
        found = zooming.evaluate_on(log, lambda step, stock, order=order: [order], env=env)
        assert np.isfinite(found.mean) == is_answered
        assert is_answered or "not on all sides" in found.reason
