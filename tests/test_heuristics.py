"""Random, no movement, median."""

import bisect

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import ambulance
from zooming.kernels.loop import heuristics

pytestmark = pytest.mark.plain


def test_random_plays_the_whole_action_space():
    env = gym.make("zooming/Oil-v0")
    actions = np.array([zooming.Random(env, seed=seed).act(0, [0.5])[0] for seed in range(200)])
    assert actions.min() < 0.05 < 0.95 < actions.max()


def test_no_movement_stays_and_pays_only_for_the_calls():
    env = ambulance(travel_weight=1.0)
    history = zooming.NoMovement(env, seed=0).learn(20)
    assert history.returns.tolist() == [5.0] * 20
    assert zooming.NoMovement(env).act(2, [0.3]).tolist() == [0.3]


def test_median_goes_to_the_median_of_all_requests_so_far():
    agent = zooming.Median(ambulance(), seed=0)
    assert agent.act(0, [0.3]).tolist() == [0.3]  # nothing seen yet
    for n, request in enumerate([0.9, 0.1, 0.4, 0.2, 0.8]):
        agent.update(n % 5, [0.5], [0.5], 0.5, [request])
        assert agent.act(0, [0.3])[0] == pytest.approx(
            np.median([0.9, 0.1, 0.4, 0.2, 0.8][: n + 1])
        )
    assert agent.predict([0.3])[0].tolist() == [0.4]


def test_median_of_several_ambulances_stations_them_at_quantiles():
    agent = zooming.Median(ambulance(n_ambulances=2), seed=0)
    for request in (0.0, 0.25, 0.5, 0.75, 1.0):
        # The first ambulance stays where it was sent, the second one goes to the call.
        agent.update(0, [0.5, 0.5], [0.3, 0.6], 0.5, [0.3, request])
    assert agent.act(0, [0.1, 0.1]).tolist() == pytest.approx([0.25, 0.75])


def test_median_counts_calls_that_come_where_an_ambulance_waits():
    agent = zooming.Median(ambulance(n_ambulances=2, arrivals=[0.1] * 8 + [0.5, 0.9]), seed=0)
    agent.learn(400)
    assert agent.nbytes == 8 * 400 * 5  # every call is there
    assert agent.act(0, [0.5, 0.5]).tolist() == [0.1, 0.1]


@pytest.mark.parametrize("n", [1, 2])
def test_median_is_near_optimal_when_moving_is_free(n):
    env = ambulance(travel_weight=0.0, arrivals="uniform", n_ambulances=n)
    best = 5 * (1 - 1 / (4 * n))
    assert zooming.Median(env, seed=0).learn(400).returns[-300:].mean() == pytest.approx(
        best, abs=0.06
    )


@pytest.mark.parametrize("kind", [zooming.Random, zooming.NoMovement, zooming.Median])
def test_heuristics_have_no_balls_and_no_estimates(kind):
    agent = kind(ambulance(), seed=0)
    history = agent.learn(4)
    assert history.n_balls.tolist() == [0] * 4 == [agent.n_balls] * 4
    for question in (
        lambda: agent.q_value(0, [0.5], [0.5]),
        lambda: agent.value(0, [0.5]),
        lambda: agent.partition(0),
    ):
        with pytest.raises(zooming.ConfigurationError, match=r"heuristic.*no estimates.*AdaptiveQ"):
            question()


@pytest.mark.parametrize("kind", [zooming.Random, zooming.NoMovement, zooming.Median])
@pytest.mark.parametrize("n", [1, 3])
def test_fused_and_python_driven_heuristics_agree_to_the_last_bit(kind, n):
    options = {"n_ambulances": n, "arrivals": [0.1, 0.1, 0.4, 0.9], "start": "uniform"}
    fused, python = kind(ambulance(**options), seed=5), kind(ambulance(**options), seed=5)
    returns = (
        fused.learn(40, driver="fused").returns.tolist()
        + fused.learn(20, driver="python").returns.tolist()
    )
    assert python.learn(60, driver="python").returns.tolist() == returns
    assert fused.act(2, [0.3] * n).tolist() == python.act(2, [0.3] * n).tolist()
    assert fused.nbytes == python.nbytes


def test_the_medians_requests_are_complete_and_sorted():
    """Against a sorted list, to the last bit."""
    rng, known, count, kept = np.random.default_rng(0), np.empty(301), np.zeros(2, np.int64), []
    for _ in range(300):
        action, after = np.array([0.25]), rng.choice([0.1, 0.25, 0.7, rng.random()], 1)
        heuristics.see(known, count, 0, action, after)
        bisect.insort(kept, after[0])
        assert known[: count[0]].tolist() == kept
        places, n = np.empty(2), len(kept)
        heuristics.choose(heuristics.MEDIAN, known, count, np.zeros(2), places)
        for place, share in zip(places, (0.25, 0.75), strict=True):
            below = int(share * (n - 1))
            first, second = kept[below], kept[min(below + 1, n - 1)]
            assert place == first + (share * (n - 1) - below) * (second - first)
    assert count.tolist() == [300, 300]


def test_a_call_from_a_waiting_ambulance_counts_where_most_calls_came_from():
    known, count = np.array([0.1, 0.7, 0.7, 0.9, 0.0]), np.array([4, 0])
    waiting = np.array([0.1, 0.7, 0.9])
    heuristics.see(known, count, 1, waiting, waiting)
    assert known.tolist() == [0.1, 0.7, 0.7, 0.7, 0.9]
    assert count.tolist() == [5, 0]


def test_a_heuristic_names_the_state_that_leaves_the_box():
    def run_away(state, action, step, params, rng, next_state):
        next_state[0] = state[0] + 0.75
        return 0.5

    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    env = zooming.compiled_env(run_away, box, box, horizon=3, start=0.0, name="runaway")
    for driver in ("fused", "python"):
        message = r"runaway, step 1: next state\[0\] = 1.5"
        with pytest.raises(zooming.TransitionError, match=message):
            zooming.NoMovement(env, seed=0).learn(2, driver=driver)


class Till(gym.Env):
    """Pays up to 100 euros, and states no range of rewards."""

    observation_space = action_space = gym.spaces.Box(0.0, 1.0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 100.0 * float(action[0]), True, False, {}


def test_a_heuristic_takes_rewards_in_euros(tmp_path):
    agent = zooming.Random(Till(), horizon=1, seed=0)
    assert agent.learn(20).returns.max() > 50
    agent.save(tmp_path / "random.zoom")
    assert zooming.load(tmp_path / "random.zoom", Till()).learn(5).returns.max() > 1
    with pytest.raises(zooming.TransitionError, match=r"outside the reward range \[0.0, 1.0\]"):
        zooming.Random(Till(), horizon=1, reward_range=(0.0, 1.0), seed=0).learn(20)
