"""Laws that depend on step, state and action: solved and drawn as a plain version says."""

import itertools

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming.kernels.solve.laws import draw_index, fill_poisson, normalize

pytestmark = pytest.mark.kernels

FIVE, THREE = gym.spaces.Discrete(5), gym.spaces.Discrete(3)
REALS = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
MOVES = [-1.0, 0.0, 1.0, 2.0]
HORIZON = 3


def walk(state, action, step, params, outcome, next_state):
    next_state[0] = state[0] + outcome[0]
    return params[0] * next_state[0] - 0.3 * action[0] * (step + 1.0)


def drift(state, action, step, params, values, weights):
    """Not normalized; a move that would leave 0..4 is impossible."""
    for i in range(len(weights)):
        is_possible = 0.0 <= state[0] + values[i, 0] <= 4.0
        weights[i] = (1.0 + step + action[0]) ** values[i, 0] if is_possible else 0.0


def walking(weights=drift, **options):
    return zooming.compiled_env(
        walk, FIVE, THREE, HORIZON, start=2, params=[0.5], outcomes=(MOVES, weights), **options
    )


def law(step, state, action):
    """{move: probability}, in plain Python."""
    weights = {move: (1.0 + step + action) ** move for move in MOVES if 0 <= state + move <= 4}
    return {move: weight / sum(weights.values()) for move, weight in weights.items()}


def plain_q(step, state, action, choose=max):
    """Q of a state and an action by recursion over every outcome; `choose` is what follows."""
    total = 0.0
    for move, chance in law(step, state, action).items():
        after = state + move
        later = 0.0
        if step + 1 < HORIZON:
            later = choose([plain_q(step + 1, after, other, choose) for other in range(3)])
        total += chance * (0.5 * after - 0.3 * action * (step + 1) + later)
    return total


@pytest.mark.plain
def test_the_optimum_is_that_of_a_plain_recursion_over_all_outcomes():
    optimal = zooming.solve(walking())
    assert optimal.is_bound
    for step, state, action in itertools.product(range(HORIZON), range(5), range(3)):
        assert optimal.q_value(step, state, action) == pytest.approx(
            plain_q(step, state, action), abs=1e-12
        )
    assert optimal.return_ == pytest.approx(max(plain_q(0, 2, action) for action in range(3)))


@pytest.mark.plain
@pytest.mark.parametrize("action", range(3))
def test_the_computed_value_of_a_policy_is_that_of_a_plain_recursion(action):
    value = zooming.evaluate(lambda step, x: action, walking(), exact=True)
    plain = plain_q(0, 2, action, lambda values: values[action])
    assert value.mean == pytest.approx(plain, abs=1e-12)


def test_draws_follow_the_law():
    env, counts = walking(), np.zeros(5)
    for seed in range(4000):
        env.reset(seed=None if seed else 0)
        counts[env.step(2)[0]] += 1
    expected = np.array([law(0, 2, 2).get(state - 2.0, 0.0) for state in range(5)])
    assert np.abs(counts / 4000 - expected).max() < 0.03
    assert counts[0] == 0  # no move leads there


def negative(state, action, step, params, values, weights):
    weights[:] = -1.0


def forgotten(state, action, step, params, values, weights):
    weights[0] = 1.0 if state[0] == 2.0 else 0.0
    weights[1:] = 0.0


@pytest.mark.plain
def test_weights_that_are_no_law_are_named():
    said = r"walk, step 0: in state \[2.0\], action .*weights\[0\] is -1.0; write every"
    with pytest.raises(zooming.ConfigurationError, match=said):
        walking(negative)
    message = r"in state \[0.0\], action \[0.0\], all weights are 0"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.solve(walking(forgotten))


def test_an_agent_stops_where_the_weights_are_no_law():
    agent = zooming.AdaptiveQ(walking(forgotten), reward_range=(-9, 9), seed=0)
    with pytest.raises(zooming.TransitionError, match=r"walk, step 1: reward nan .*check the env"):
        agent.learn(5)


def test_a_function_of_the_wrong_form_is_named():
    message = r"does not compile as weights\(state, action, step, params, values, weights\)"
    with pytest.raises(zooming.ConfigurationError, match=message):
        walking(lambda state: 1.0)


@pytest.mark.plain
def test_weights_of_a_law_sum_to_one_after_normalizing():
    weights = np.array([1.0, 0.0, 3.0])
    normalize(weights)
    assert weights.tolist() == [0.25, 0.0, 0.75]
    for bad in ([0.0, 0.0], [1.0, -1.0], [np.nan, 1.0], [np.inf, 1.0]):
        weights = np.array(bad)
        normalize(weights)
        assert np.isnan(weights).all()
        assert draw_index(np.array(bad), np.random.default_rng(0)) == -1


@pytest.mark.plain
@pytest.mark.parametrize("total", [10.0, 1.0])
def test_drawn_indices_have_the_frequencies_of_their_weights(total):
    rng, shares = np.random.default_rng(0), np.array([0.2, 0.0, 0.5, 0.3, 0.0])
    counts = np.bincount([draw_index(total * shares, rng) for _ in range(5000)], minlength=5)
    assert counts[[1, 4]].tolist() == [0, 0]
    assert np.abs(counts / 5000 - shares).max() < 0.02


@pytest.mark.plain
@pytest.mark.parametrize("mean", [0.0, 0.3, 4.0, 60.0])
def test_poisson_weights_are_those_of_the_smaller_of_the_number_and_the_last(mean):
    weights = np.empty(12)
    fill_poisson(mean, weights)
    chances = [np.exp(-mean)]
    for i in range(1, 200):
        chances.append(chances[-1] * mean / i)
    assert weights[:11] == pytest.approx(chances[:11])
    assert weights[11] == pytest.approx(sum(chances[11:]), abs=1e-12)


# --- the range of rewards ---------------------------------------------------------------------


def flat(state, action, step, params, rng, next_state):
    next_state[0] = state[0]
    return 3.0 * action[0] - 1.0


def stating(**options):
    return zooming.compiled_env(flat, REALS, REALS, 2, start=[0.5], **options)


def test_an_agent_uses_the_range_that_the_environment_states():
    env = stating(reward_range=(-1.0, 2.0))
    assert zooming.AdaptiveQ(env).reward_range == (-1.0, 2.0)
    assert zooming.NetQ(gym.wrappers.TimeLimit(env, 2), spacing=0.5).reward_range == (-1.0, 2.0)
    metric = zooming.metrics.LInf(3)
    assert zooming.MetricQ(env, metric, reward_range=(-5, 5)).reward_range == (-5.0, 5.0)
    assert zooming.Random(env).reward_range == zooming.reward_range(env) == (-1.0, 2.0)
    assert len(zooming.AdaptiveQ(env, seed=0).learn(50).returns) == 50


def test_without_a_stated_range_rewards_lie_between_zero_and_one():
    assert zooming.AdaptiveQ(stating()).reward_range == (0.0, 1.0)
    known = stating(reward_range=(-1.0, 2.0))
    changed = gym.wrappers.TransformReward(known, lambda reward: 10.0 * reward)
    found = zooming.AdaptiveQ(changed, horizon=2).reward_range
    assert found == (0.0, 1.0)  # unknown behind the wrapper
    old = stating()
    old.reward_range = (-np.inf, np.inf)
    assert zooming.AdaptiveQ(old).reward_range == (0.0, 1.0)


def test_a_bad_range_of_an_environment_is_refused():
    message = r"reward_range=\(2, 1\): give two finite numbers"
    with pytest.raises(zooming.ConfigurationError, match=message):
        stating(reward_range=(2, 1))
