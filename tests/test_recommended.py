"""What agents recommend: plans that were played, policies that keep the step, and a warning."""

import warnings

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import AGENTS, box, oil
from zooming.agents.base.agent import ENOUGH_STARTS
from zooming.agents.planner.planner import Planner
from zooming.kernels import IS_JIT_DISABLED

compiled_only = pytest.mark.skipif(IS_JIT_DISABLED, reason="plans take seconds if not compiled")


# --- plans that were played -----------------------------------------------------------------------


def judged(agent, returns):
    """Make a plan after the current one has earned these returns."""
    core, mean = agent.table.core, sum(returns) / max(1, len(returns))
    core["plays"], core["earned"] = len(returns), mean
    core["squares"] = sum((one - mean) ** 2 for one in returns)
    agent.table.refit()
    return agent.table.kept


@compiled_only
def test_a_plan_that_earns_clearly_less_is_not_recommended():
    agent = zooming.Planner(oil(), seed=0)
    agent.learn(200)
    rng = np.random.default_rng(0)
    agent.table.earned[:] = 0.0
    good = judged(agent, rng.normal(4.0, 0.5, 40))
    assert judged(agent, rng.normal(3.0, 0.5, 40)) is good  # the plan between them
    assert agent.table.policy().grid is good.grid
    assert agent.table.earned[1] > 3.5  # what was earned by plans that are not recommended
    assert judged(agent, rng.normal(3.9, 0.5, 40)) is not good  # about the same
    agent.learn(250)
    agent.table.kept = good  # as if no plan had earned as much since then
    assert judged(agent, [2.0, 2.1]) is not good  # it is too old
    assert judged(agent, []) is None  # nobody played: all samples are used


@compiled_only
def test_what_is_recommended_survives_saving_and_loading(tmp_path):
    agent = zooming.Planner(oil(noise=0.1), seed=0)
    agent.learn(150)
    judged(agent, [-5.0, -5.1, -4.9] * 10)  # so that an older plan is recommended
    assert agent.table.kept.n_samples < agent.table.core["n_planned"][0]
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
        ("kept_samples", lambda a: a * 0, "the plan kept was made of 0 of"),
        ("kept_samples", lambda a: a + 10**9, "the plan kept was made of"),
        ("kept_bins", lambda a: a * 0, "an axis has no bins"),
        ("kept_widths", lambda a: a[:1], "kept_widths is"),
        ("kept_apart", lambda a: a + 7, "the form of a step is unknown"),
        ("kept_centers", lambda a: a + 1.0, "the center of a bin"),
        ("earned", lambda a: -a, "what recommended plans earned is invalid"),
    ],
)
def test_a_stored_recommendation_that_cannot_be_is_refused(name, spoil, message):
    agent = zooming.Planner(oil(), seed=0)
    agent.learn(30)
    values, arrays = agent.saved_state()
    with pytest.raises(ValueError, match=message):
        zooming.Planner(oil(), seed=0).restore_state(values, {**arrays, name: spoil(arrays[name])})


@compiled_only
def test_a_file_without_a_recommendation_is_loaded_and_uses_all_samples():
    agent, loaded = (zooming.Planner(oil(), seed=0) for _ in range(2))
    agent.learn(30)
    values, arrays = agent.saved_state()
    old = {name: a for name, a in arrays.items() if name != "earned" and "kept" not in name}
    loaded.restore_state(values, old)
    assert loaded.table.kept is None
    assert loaded.table.policy().key[0] == agent.table.n_samples


@compiled_only
def test_full_memory_keeps_the_recommended_plan():
    agent = zooming.Planner(oil(noise=0.1), max_samples=1000, seed=0)
    agent.learn(600)
    assert agent.table.kept.n_samples <= agent.table.n_samples
    assert np.isfinite(agent.value(0, [0.5]))


def sell(state, action, step, params, outcome, next_state):
    """Sell two items from stock; orders arrive a period later, and unmet demand is lost."""
    total = 0.0
    for i in range(2):
        sold = min(state[2 * i], outcome[i])
        rest = state[2 * i] - sold
        next_state[2 * i] = min(1.0, rest + state[2 * i + 1])
        next_state[2 * i + 1] = action[i]
        total += params[2 * i] * sold - params[2 * i + 1] * action[i] - 0.1 * rest
    return total


@compiled_only
@pytest.mark.slow
def test_what_auto_recommends_is_never_much_worse_than_before():
    # Without the returns of plans, 280 episodes were worth 6.0, after 8.5 at 185.
    demand = [[a, b] for a in (0.1, 0.2, 0.3, 0.4, 0.5) for b in (0.05, 0.15, 0.3, 0.6)]
    chances = np.outer([0.1, 0.25, 0.3, 0.25, 0.1], [0.3, 0.3, 0.25, 0.15]).ravel()
    env = zooming.compiled_env(
        sell, box((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)), box((0.0, 1.0), (0.0, 1.0)), 6,
        start=[0.4, 0.3, 0.3, 0.2], params=[5.0, 2.0, 4.0, 1.0], outcomes=(demand, chances),
    )  # fmt: skip
    agent, random, best = zooming.Auto(env, seed=0), 3.93, 0.0
    for n_episodes in (185, 228, 280, 344, 519):
        agent.learn(n_episodes - agent.n_episodes)
        gain = zooming.evaluate(agent, env, 300, seed=1).mean - random
        assert gain > 0.9 * best
        best = max(best, gain)


@compiled_only
def test_with_noise_auto_recommends_its_planner_and_says_what_that_should_earn():
    agent = zooming.Auto(gym.make("zooming/Newsvendor-v0"), seed=0)
    assert agent.status()["recommended should earn"] is None
    agent.learn(300)
    agent.choice.credit(1, [1e6] * 50)  # a tree that seems to be much better
    status = agent.status()
    assert status["recommended"] == "planner"
    assert agent.recommended is agent.planner
    plays, mean, variance = agent.planner.table.earned
    assert agent.should_earn() == (mean, np.sqrt(variance / plays))
    value = zooming.evaluate(agent, episodes=2000).mean
    assert abs(value - mean) < np.sqrt(variance)
    assert "±" in status["recommended should earn"]


@compiled_only
def test_status_warns_if_the_model_contradicts_what_was_earned():
    agent = zooming.Planner(oil(noise=0.1), seed=0)
    agent.learn(100)
    assert not any("promises" in one for one in agent.status()["warnings"])
    agent.table.earned[1] -= 3.0
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
    fused.learn(40)
    python.learn(40, driver="python")
    np.testing.assert_array_equal(fused.table.earned, python.table.earned)
    assert fused.table.kept.n_samples == python.table.kept.n_samples
