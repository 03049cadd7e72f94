"""Policy values, regret and growth rates, intervals."""

import sys

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Chance, Drift
from zooming.analysis.intervals import mean_interval, t_quantile


@pytest.fixture(scope="module")
def ambulance():
    env = gym.make("zooming/Ambulance-v0", arrivals="uniform", travel_weight=0.25)
    agent = zooming.AdaptiveQ(env, seed=0)
    agent.learn(1000)
    return env, agent


def test_evaluation_changes_nothing_and_repeats(ambulance):
    env, agent = ambulance
    before = agent.table.rows.tobytes(), agent.table.core.tobytes()
    first, again = (zooming.evaluate(agent, env, episodes=20, seed=4) for _ in range(2))
    assert first.returns.tolist() == again.returns.tolist()
    assert (agent.table.rows.tobytes(), agent.table.core.tobytes()) == before


def test_a_reward_that_is_nan_is_an_error_and_no_value():
    env = gym.wrappers.TransformReward(gym.make("zooming/Oil-v0"), lambda reward: np.nan)
    with pytest.raises(zooming.TransitionError, match=r"Oil.*: a reward was not a finite number"):
        zooming.evaluate(lambda step, observation: [0.7], env, episodes=2)


@pytest.mark.parametrize("make_agent", [zooming.Auto, zooming.TreeQ])
@pytest.mark.parametrize("env_id", ["zooming/Queue-v0", "zooming/GraphAmbulance-v0"])
def test_episodes_side_by_side_are_those_of_environments_that_share_a_generator(env_id, make_agent):
    agent = make_agent(gym.make(env_id), seed=0)
    agent.learn(30)
    envs, returns = [gym.make(env_id).unwrapped for _ in range(5)], np.zeros(5)
    observations, generator = [], np.random.default_rng(7)
    for env in envs:
        env.np_random = generator
        observations.append(env.reset()[0])
    for step in range(agent.horizon):
        for k, env in enumerate(envs):
            action, _ = agent.predict(observations[k], state=step)
            observations[k], reward, *_ = env.step(action)
            returns[k] += reward
    found = zooming.evaluate(agent, episodes=5, seed=7)
    assert found.returns.tolist() == returns.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("make_agent", [zooming.AdaptiveQ, zooming.NetQ])
@pytest.mark.parametrize(("env_id", "options"), [
    ("zooming/Oil-v0", {"noise": 0.1, "dims": 2}),
    ("zooming/Ambulance-v0", {"arrivals": [0.1, 0.1, 0.6], "n_ambulances": 3}),
    ("zooming/Ambulance-v0", {"arrivals": "uniform"}),
    ("zooming/GraphAmbulance-v0", {}),
])  # fmt: skip
def test_computed_values_agree_with_sampled_ones(make_agent, env_id, options):
    env = gym.make(env_id, **options)
    agent = make_agent(env, seed=1)
    agent.learn(1000)
    exact = zooming.evaluate(agent, env, exact=True)
    sampled = zooming.evaluate(agent, env, episodes=3000, seed=2)
    assert abs(exact.mean - sampled.mean) < 2 * (sampled.high - sampled.mean)
    assert exact.high - exact.low < 0.01
    assert (str(exact)[-9:], str(sampled)[-15:]) == ("computed)", "3,000 episodes)")


def test_heuristics_have_exact_values_that_can_be_worked_out():
    env = gym.make("zooming/Ambulance-v0", arrivals="uniform", travel_weight=1.0)
    assert zooming.evaluate(zooming.NoMovement(env), env, exact=True).mean == pytest.approx(5.0)
    still = gym.make("zooming/Ambulance-v0", arrivals="uniform", travel_weight=0.0)
    # From .5 the first call is 1/4 away, later ones 1/3: E|u - v| of two uniforms.
    found = zooming.evaluate(zooming.NoMovement(still), still, exact=True).mean
    assert found == pytest.approx(5 - 1 / 4 - 4 / 3, abs=1e-4)


def test_without_chance_the_exact_value_is_the_episode_itself():
    env = gym.make("zooming/Oil-v0", sharpness=10.0)
    agent = zooming.AdaptiveQ(env, seed=0)
    agent.learn(2000)
    exact = zooming.evaluate(agent, env, exact=True)
    sampled = zooming.evaluate(agent, env, episodes=2)
    assert exact.mean == pytest.approx(sampled.mean, abs=1e-12)
    assert exact.low == exact.high


def test_regret_is_realized_per_episode_and_exact_at_checkpoints():
    env = gym.make("zooming/Oil-v0")
    optimal = zooming.solve(env, 100)
    agent = zooming.AdaptiveQ(env, seed=0)
    history = agent.learn(400, checkpoints=[1, 50, 400])
    regret = history.regret(optimal)
    assert regret.per_episode.tolist() == pytest.approx((4.75 - history.returns).tolist())
    assert regret.cumulative[-1] == pytest.approx(400 * 4.75 - history.returns.sum())
    assert regret.checkpoints.tolist() == [1, 50, 400]
    assert (regret.exact >= 0).all()
    assert regret.exact[-1] == pytest.approx(4.75 - zooming.evaluate(agent, env, exact=True).mean)
    # Nothing of this changes what is learned.
    plain = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(400)
    assert plain.returns.tobytes() == history.returns.tobytes()


def test_checkpoints_survive_adding_histories():
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    both = agent.learn(10, checkpoints=[10]) + agent.learn(10, checkpoints=[5, 10])
    assert both.checkpoints.tolist() == [10, 15, 20]
    assert len(both.policy_values) == 3
    with pytest.raises(zooming.ConfigurationError, match="from 1 to 10"):
        agent.learn(10, checkpoints=[0, 5])
    with pytest.raises(zooming.ConfigurationError, match="from 1 to 10"):
        agent.learn(10, checkpoints=[11])


def test_exact_cumulative_regret_is_the_area_under_the_checkpoints():
    regret = zooming.Regret(np.ones(10), np.array([2, 6, 10]), np.array([3.0, 1.0, 1.0]))
    assert regret.exact_cumulative.tolist() == [2.0, 10.0, 14.0]


@pytest.mark.parametrize("exponent", [0.5, 0.75, 1.0])
def test_the_growth_rate_of_a_power_law_is_found_with_an_honest_interval(exponent):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(40):
        slopes = exponent + 0.05 * rng.standard_normal(6)
        runs = [zooming.Regret(np.diff(np.arange(2001.0) ** max(slope, 0.1))) for slope in slopes]
        found = zooming.regret_exponent(runs)
        hits += found.low <= exponent <= found.high
    assert hits >= 33  # 38 expected of 95 % intervals; 33 or fewer have probability below 1 %


@pytest.mark.parametrize(("regrets", "message"), [
    ([zooming.Regret(np.ones(100))], "at least two runs"),
    (zooming.Regret(np.ones(100)),
     r"at least two runs: \[h.regret\(optimal\) for h in histories\]"),
    ([zooming.History(np.ones(9), np.ones(9))] * 2, "needs the regrets"),
    ([zooming.Regret(-np.ones(100))] * 2, "not positive"),
    ([zooming.Regret(np.ones(2))] * 2, "too few"),
])  # fmt: skip
def test_growth_rates_that_do_not_exist_are_explained(regrets, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.regret_exponent(regrets)


def test_quantiles_of_students_t_are_the_tables():
    table = {1: 12.7062, 2: 4.3027, 5: 2.5706, 10: 2.2281, 30: 2.0423, 100: 1.9840}
    for freedom, expected in table.items():
        assert t_quantile(0.975, freedom) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("n", [3, 10, 50])
def test_confidence_intervals_cover_as_often_as_they_say(n):
    rng = np.random.default_rng(1)
    intervals = [mean_interval(rng.normal(2.0, 3.0, n)) for _ in range(2000)]
    coverage = np.mean([interval.low <= 2.0 <= interval.high for interval in intervals])
    assert coverage == pytest.approx(0.95, abs=0.015)  # three standard deviations
    with pytest.raises(zooming.ConfigurationError, match="at least two"):
        mean_interval([1.0])


@pytest.mark.parametrize("exact", [False, True])
def test_a_policy_for_other_states_is_refused_with_the_name_of_the_environment_given(exact):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    square = gym.spaces.Box(0.0, 1.0, (2,), np.float64)
    other = zooming.compiled_env(keep_two, square, square, 2, start=0.5, outcomes=([0.0], [1.0]))
    message = r"^keep_two, step 0: .*\(the agent is for zooming/Oil-v0\)$"
    with pytest.raises(zooming.ZoomingError, match=message):
        zooming.evaluate(agent, other, exact=exact)


def keep_two(state, action, step, params, outcome, next_state):
    for i in range(len(state)):
        next_state[i] = state[i]
    return 0.5


def test_an_agent_and_an_environment_are_not_taken_for_each_other():
    env = gym.make("zooming/Oil-v0")
    agent = zooming.Random(env, seed=0)
    message = r"is not an agent; write evaluate\(agent, env\)"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.evaluate(env, agent)
    with pytest.raises(zooming.ConfigurationError, match="'zooming/Oil-v0' is not an environment"):
        zooming.evaluate(agent, "zooming/Oil-v0")


def stay_at(step, observation):
    return [0.7] if step else np.array([0.6])


def test_a_function_is_evaluated_as_an_agent_is():
    env = gym.make("zooming/Oil-v0", horizon=3)
    sampled, exact = zooming.evaluate(stay_at, env, 4), zooming.evaluate(stay_at, env, exact=True)
    assert sampled.mean == pytest.approx(exact.mean, abs=1e-9)  # nothing is random here
    log = zooming.record(env, stay_at, 1)
    assert exact.mean == pytest.approx(log["reward"].sum(), abs=1e-9)
    first = zooming.evaluate(stay_at, endless(), 2, horizon=1).mean
    assert first < zooming.evaluate(stay_at, endless(), 2, horizon=4).mean


def loaves():
    def pay(action):
        assert isinstance(action, np.integer)
        return float(action)

    return Chance(gym.spaces.Box(0.0, 1.0, (1,)), gym.spaces.Discrete(41), pay)


def test_a_function_returns_whole_numbers_where_actions_are_discrete():
    assert zooming.evaluate(lambda step, x: [17.0], loaves(), 2, horizon=2).mean == 34.0
    for wrong in (41, 17.5):
        with pytest.raises(zooming.ConfigurationError, match=rf"returned {wrong}, which is not"):
            zooming.evaluate(lambda step, x, wrong=wrong: wrong, loaves(), 2, horizon=2)


def endless():
    """An environment that does not say how long an episode is, and pays 1 a step."""
    return Chance(unit(1), unit(1), lambda action: 1.0)


def unit(n):
    return gym.spaces.Box(0.0, 1.0, (n,), np.float64)


class Model:
    """A policy of another library: it has `predict`, but no horizon."""

    def predict(self, observation):
        return [0.5], None


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        (lambda observation: [0.5], {}, r"takes \(observation\); give a function policy"),
        (lambda obs, step: [0.5], {}, r"takes \(obs, step\), but it is called as .*; swap its par"),
        (lambda step, observation: None, {}, "step 0: the policy returned None"),
        (lambda step, observation: [1.5], {}, r"step 0: the policy returned \[1.5\], which is not"),
        (lambda step, observation: [1.5], {"exact": True}, r"the policy returned \[1.5\], which"),
        (Model(), {}, r"has predict but no horizon.*evaluate\(lambda step, observation"),
        (Model, {}, "policy=Model is a class; give an instance"),
        (0.5, {}, r"0.5 is not an agent; write .* a function policy\(step, observation\)"),
        (zooming.NoMovement(gym.make("zooming/Oil-v0")), {"horizon": 2}, "knows its horizon"),
        (stay_at, {"env": None}, r"a function as policy needs an environment: evaluate\(policy, e"),
        (stay_at, {"env": endless()}, "Chance does not say how long an episode is. Give horizon="),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_played_is_refused_with_the_fix(policy, options, message):
    options = {"env": gym.make("zooming/Oil-v0"), "episodes": 2, **options}
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.evaluate(policy, **options)


def test_what_is_no_optimum_is_said():
    message = r"optimum='best': give what zooming.solve\(env\) gives, or a number"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.History(np.ones(3), np.ones(3, int)).regret("best")


# --- values that cannot be computed: each error names a way that works ----------------------------


def wander(state, action, step, params, rng, next_state):
    for i in range(len(state)):
        next_state[i] = state[i]
    next_state[0] = rng.random()
    return 0.5 * (action[0] + state[0])


def drift(state, action, step, params, outcome, next_state):
    for i in range(len(state)):
        next_state[i] = 0.5 * state[i] + 0.5 * outcome[0]
    return 0.5 * (action[0] + state[0])


CHANCE = np.array([0.25, 0.75]), [0.5, 0.5]
NOT_COMPUTABLE = {
    "plain": (lambda: Drift(), "is not a compiled environment, so its law is unknown"),
    "no outcomes": (lambda: zooming.compiled_env(wander, unit(1), unit(1), 3, start=0.5),
        r"wander declares no random outcomes.*outcomes=\(values, weights\)"),
    "four axes": (lambda: zooming.compiled_env(drift, unit(4), unit(1), 3, start=0.5,
        outcomes=CHANCE), "drift has 4 state axes; grids are feasible for 1 to 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_COMPUTABLE)
def test_a_value_that_cannot_be_computed_can_be_sampled_as_the_error_says(case):
    make, message = NOT_COMPUTABLE[case]
    env = make()
    agent = zooming.AdaptiveQ(env, horizon=3, seed=0)
    said = rf"exact=True: .*{message}.*leave out exact=True: evaluate\(agent, env, epis"
    with pytest.raises(zooming.ConfigurationError, match=said):
        zooming.evaluate(agent, env, exact=True)
    assert 0 <= zooming.evaluate(agent, env, episodes=10).mean <= 3


def test_the_environment_inside_its_wrappers_has_a_computable_value_as_the_error_says():
    env = gym.wrappers.TimeLimit(gym.make("zooming/Oil-v0"), 3)
    agent = zooming.AdaptiveQ(env, seed=0)
    message = r"wrappers .*; give the environment inside them, env\.unwrapped"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.evaluate(agent, env, exact=True)
    exact = zooming.evaluate(agent, env.unwrapped, exact=True)  # three steps, without chance
    assert exact.mean == pytest.approx(zooming.evaluate(agent, env, 2).mean)


def test_the_environment_of_the_agent_is_the_default_and_a_missing_one_is_asked_for(tmp_path):
    env = zooming.compiled_env(drift, unit(1), unit(1), 3, start=0.5, outcomes=CHANCE)
    agent = zooming.AdaptiveQ(env, seed=0)
    assert zooming.evaluate(agent, exact=True) == zooming.evaluate(agent, env, exact=True)
    agent.save(tmp_path / "agent.zoom")
    loaded = zooming.load(tmp_path / "agent.zoom")
    for exact in (True, False):
        message = r"loaded without its environment \(drift\); give one: evaluate"
        with pytest.raises(zooming.ConfigurationError, match=message):
            zooming.evaluate(loaded, exact=exact)
    found = [zooming.evaluate(one, env, exact=True).mean for one in (loaded, agent)]
    assert found[0] == found[1]
    assert zooming.evaluate(zooming.load(tmp_path / "agent.zoom", env=env), exact=True).exact


@pytest.mark.parametrize("resolution", [0, 3, 2.5, True])
def test_a_resolution_that_is_too_small_is_refused(resolution):
    env = gym.make("zooming/Oil-v0")
    agent = zooming.AdaptiveQ(env, seed=0)
    message = rf"resolution={resolution!r}: give a whole number >= 4"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.evaluate(agent, env, exact=True, resolution=resolution)


def test_too_many_reached_states_are_answered_by_a_resolution_that_is_not_too_much(monkeypatch):
    monkeypatch.setattr(zooming.analysis.evaluate, "MOST_STATES", 200)
    env = gym.make("zooming/Ambulance-v0", horizon=2)
    agent = zooming.AdaptiveQ(env, seed=0)
    said = r"at step 1, with 200 outcomes each\. Give a smaller resolution=, at least 4"
    with pytest.raises(zooming.ConfigurationError, match=said):
        zooming.evaluate(agent, env, exact=True)
    assert zooming.evaluate(agent, env, exact=True, resolution=10).exact
    monkeypatch.setattr(zooming.analysis.evaluate, "MOST_STATES", 1)
    finite = zooming.compiled_env(drift, unit(1), unit(1), 3, start=0.5, outcomes=CHANCE)
    message = r"with 2 outcomes each\. To sample instead, leave out exact=True"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.evaluate(zooming.AdaptiveQ(finite, seed=0), exact=True)


# --- a history as a data frame --------------------------------------------------------------------


def test_a_history_is_a_data_frame_of_either_library(monkeypatch):
    import pandas as pd
    import polars as pl

    history = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(5)
    frames = (history.to_frame(), pl.DataFrame), (history.to_frame("pandas"), pd.DataFrame)
    for frame, kind in frames:
        assert isinstance(frame, kind)
        assert list(frame.columns) == ["episode", "return", "n_balls", "n_steps"]
        assert [frame[name].to_list() for name in frame.columns] == [
            [1, 2, 3, 4, 5], history.returns.tolist(), history.n_balls.tolist(), [5] * 5,
        ]  # fmt: skip
    short = zooming.History(np.ones(2), np.ones(2, int))
    assert short.to_frame()["n_steps"].to_list() == [None] * 2
    assert history.to_frame().filter(pl.col("episode") > 3).height == 2
    message = r"library='arrow': choose \"polars\" or \"pandas\""
    with pytest.raises(zooming.ConfigurationError, match=message):
        history.to_frame("arrow")
    monkeypatch.setitem(sys.modules, "polars", None)
    assert isinstance(history.to_frame(), pd.DataFrame)
    with pytest.raises(ImportError, match="to_frame needs polars: pip install polars"):
        history.to_frame("polars")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs polars or pandas: pip install polars"):
        history.to_frame()
