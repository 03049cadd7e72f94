"""The status and the parameters of every agent."""

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming import metrics
from zooming.agents.base.status import Status
from zooming.agents.files import registry
from zooming.agents.files.registry import find_class
from zooming.analysis import plan
from zooming.analysis.evaluate import Evaluation
from zooming.analysis.intervals import Interval
from zooming.kernels import IS_JIT_DISABLED
from zooming.lab.study.run_command import format_interval

OPTIONS = {"MetricQ": {"metric": metrics.LInf(5)}, "NetQ": {"episodes": 100}}
SLOW = {"Planner", "Auto"} if IS_JIT_DISABLED else set()  # without compilation
KINDS = [name for name in registry.HOMES if name != "Portfolio" and name not in SLOW]


def make(kind, **options):
    env = gym.make("zooming/Ambulance-v0", arrivals="uniform")
    return find_class(kind)(env, seed=3, **OPTIONS.get(kind, {}), **options)


@pytest.mark.parametrize("kind", KINDS)
def test_the_status_of_every_agent_prints_and_is_a_table_in_a_notebook(kind):
    agent = make(kind)
    agent.learn(12)
    status = agent.status()
    assert isinstance(status, Status)
    assert status["episodes"] == 12
    assert status["bytes"] == agent.nbytes
    assert status["horizon"] in (5, "5 steps")
    assert status["warnings"] == []
    assert "episodes: 12\n" in str(status)
    assert "<table" in status._repr_html_() == agent._repr_html_()
    if kind in ("AdaptiveQ", "TreeQ", "NetQ", "MetricQ", "Planner"):
        assert status[agent.counted] == agent.n_balls


def test_the_status_tells_of_a_rule_of_clipped_rewards_and_of_a_short_horizon():
    env = gym.make("zooming/Ambulance-v0", arrivals="uniform")
    agent = zooming.AdaptiveQ(env, horizon=3, reward_range=(0.0, 0.5), rewards="clip", seed=0)
    with pytest.warns(UserWarning, match="clipped"):
        agent.warm_start(lambda step, state: state, episodes=40)
    status = agent.status()
    assert status["rule"]["plays"] in ("the rule", "the agent")
    assert status["rewards clipped"] == agent.n_clipped > 0
    assert "leave out horizon=" in status["warnings"][0]


def test_money_has_no_exponent_wherever_it_is_printed():
    interval = Interval(44_520.3, 44_000.2, 45_040.4)
    ends = plan.Comparison(interval, 145_020.0, 100_499.7, [(3, 12_345.6)])
    value = Evaluation(0.4318, 0.4316, 0.432, False, np.zeros(1000))
    assert str(interval) == "44,520 (95% interval 44,000 to 45,040)"
    assert str(value) == "0.43180 (0.43160 to 0.43200, 95% interval over 1,000 episodes)"
    assert "plan 145,020, rule 100,500: difference 44,520 (95% interval" in str(ends)
    assert str(plan.Change("price", 1.08e5, 160.0)) == "price: 108,000, replanned 160"
    assert format_interval(interval, sign="+") == "+44,520 ± 520"
    assert format_interval(None, 1e6) == "1,000,000"


@pytest.mark.parametrize("kind", KINDS)
def test_the_parameters_of_every_agent_make_an_equal_agent_that_has_learned_nothing(kind):
    agent = make(kind, horizon=3)
    agent.learn(10)
    again = type(agent)(agent.env, **agent.get_params())
    assert again.n_episodes == 0
    assert again.get_params().keys() == agent.get_params().keys()
    assert repr(again.get_params()) == repr(agent.get_params())
    assert (again.learn(10).returns == make(kind, horizon=3).learn(10).returns).all()


def test_parameters_may_be_objects_that_no_file_can_hold():
    class Mine(zooming.bonuses.Scaled):
        """A bonus of the user's own."""

    bonus, env = Mine(0.3), gym.make("zooming/Oil-v0")
    agent = zooming.AdaptiveQ(env, bonus=bonus, seed=0)
    assert agent.get_params()["bonus"] is bonus
    with pytest.raises(zooming.ConfigurationError, match="bonus of your own"):
        agent.check_savable()
    lazy = zooming.MetricQ(env, metrics.LInf(5), lazy=True, seed=0)
    assert zooming.MetricQ(env, **lazy.get_params()).lazy


def test_the_parameters_of_a_portfolio_are_agents_that_have_learned_nothing():
    env = gym.make("zooming/Oil-v0")
    agent = zooming.Portfolio(
        [zooming.AdaptiveQ(env, seed=1), zooming.NetQ(env, spacing=0.5, seed=2)], seed=0
    )
    returns = agent.learn(20).returns
    again = zooming.Portfolio(**agent.get_params())
    assert [one.n_episodes for one in again.agents] == [0, 0]
    assert np.array_equal(again.learn(20).returns, returns)


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_shows_at_most_32_attributes_and_all_that_users_call(kind):
    agent = make(kind)
    shown = {name for name in dir(agent) if not name.startswith("_")}
    contract = """learn act update predict policy q_value value visits status explain n_balls nbytes
        horizon partition save export learn_from to_log warm_start begin get_params"""
    assert len(shown) <= 32
    assert shown >= set(contract.split())
