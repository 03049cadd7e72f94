"""The two problems: their formulas, their options, and Gymnasium's own checks."""

import copy
import re
import subprocess
import sys
import textwrap
import warnings
from statistics import NormalDist

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import zooming
from helpers import OBSERVED, OPTIONS, stock, stock_env


@pytest.mark.plain
@pytest.mark.parametrize(("env_id", "options"), OPTIONS)
def test_environments_pass_gymnasiums_check_without_a_warning(env_id, options):
    env = gym.make(env_id, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)  # that is in test_rendering


def play(env, actions, seed=0):
    """(states, rewards) of one episode."""
    state, _ = env.reset(seed=seed)
    states, rewards = [state], []
    for action in actions:
        state, reward, *_ = env.step(np.array(action, float))
        states.append(state)
        rewards.append(reward)
    return np.array(states), rewards


@pytest.mark.plain
@pytest.mark.parametrize(
    ("options", "action", "reward"),
    [
        ({"survey": "laplace", "sharpness": 1.0}, [0.75], 1.0 - 0.25),
        ({"survey": "laplace", "sharpness": 10.0}, [0.65], np.exp(-1.0) - 0.15),
        ({"survey": "laplace", "sharpness": 50.0}, [0.0], 0.0),  # clipped from below
        ({"survey": "quadratic", "sharpness": 1.0}, [0.5], 1 - 0.0625),
        ({"survey": "quadratic", "sharpness": 10.0}, [0.65], 1 - 0.1 - 0.15),
        ({"dims": 2, "center": [0.5, 1.0], "sharpness": 1.0}, [0.5, 0.5], np.exp(-0.25)),
        ({"dims": 2, "survey": "quadratic", "center": [0.5, 1.0], "sharpness": 4.0},
         [0.5, 0.7], 1 - 4 * 0.15**2 - 0.1),
    ],
)  # fmt: skip
def test_oil_pays_what_the_paper_says(options, action, reward):
    states, rewards = play(gym.make("zooming/Oil-v0", **options), [action])
    assert rewards == [pytest.approx(reward, abs=1e-12)]
    assert states[1].tolist() == action


@pytest.mark.plain
def test_the_noisy_survey_pays_by_the_product_and_moves_the_agent():
    env = gym.make("zooming/Oil-v0", survey="noisy", sharpness=10.0, start=0.8, horizon=3)
    (_, moved), (reward,) = play(env, [[0.9]])
    assert reward == pytest.approx(np.exp(-10 * abs(0.8 * 0.9 - 0.7)) - 0.1, abs=1e-12)
    assert moved[0] != 0.9
    still = gym.make("zooming/Oil-v0", survey="noisy", noise=0.0, start=0.8)
    assert play(still, [[0.9], [0.8]])[0].tolist() == [[0.8], [0.9], [0.8]]


@pytest.mark.plain
def test_the_sparse_survey_pays_by_the_state_and_more_in_later_steps():
    env = gym.make("zooming/Oil-v0", survey="sparse", sharpness=1.0, noise=0.0, horizon=6)
    path = [0.5, 0.5, 0.3, 0.5, 0.75, 0.75, 0.75]
    _, rewards = play(env, [[x] for x in path[1:]])
    centers = [1, 0.5, 0.25, 0.5, 0.75, 1]
    assert rewards == [
        pytest.approx(max(0, h / 5 * np.exp(-abs(path[h] - c)) - abs(path[h] - path[h + 1])))
        for h, c in enumerate(centers)
    ]
    assert rewards[0] == 0.0


@pytest.mark.parametrize(("survey", "variance"), [("noisy", 0.1), ("sparse", 0.05)])
def test_the_agent_lands_around_its_action_with_the_authors_variance(survey, variance):
    env = gym.make("zooming/Oil-v0", survey=survey, start=0.2, horizon=1)
    landed = [play(env, [[0.4]], seed)[0][1, 0] for seed in range(4000)]
    spread = np.sqrt(variance) * (0.2 + 0.4)
    below = [NormalDist(0.4, spread).cdf(x) for x in (0.1, 0.3, 0.4, 0.5, 0.8)]
    found = [np.mean(np.array(landed) < x) for x in (0.1, 0.3, 0.4, 0.5, 0.8)]
    assert found == pytest.approx(below, abs=0.025)
    assert (min(landed), max(landed) <= 1) == (0.0, True)  # clipped


@pytest.mark.plain
@pytest.mark.parametrize("options", [{"dims": 2}, {"center": 0.5}])
def test_the_authors_further_surveys_have_one_dimension_and_their_own_locations(options):
    for survey in ("noisy", "sparse"):
        with pytest.raises(zooming.ConfigurationError, match="leave out dims and center"):
            gym.make("zooming/Oil-v0", survey=survey, **options)


def test_oil_noise_has_the_given_standard_deviation():
    options = {"survey": "quadratic", "sharpness": 2.0, "center": 0.5, "noise": 0.05}
    env = gym.make("zooming/Oil-v0", **options, horizon=4000)
    _, rewards = play(env, [[0.0]] * 4000)  # in 0 the survey says 1/2, far from being clipped
    assert np.mean(rewards[1:]) == pytest.approx(0.5, abs=0.004)
    assert np.std(rewards[1:]) == pytest.approx(0.05, rel=0.05)


@pytest.mark.plain
@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_ambulance_pays_for_moving_and_for_the_way_to_the_call(weight):
    states, rewards = play(gym.make("zooming/Ambulance-v0", travel_weight=weight), [[0.3], [0.6]])
    call = states[1:, 0]
    expected = [1 - weight * 0.2 - (1 - weight) * abs(call[0] - 0.3)]
    expected += [1 - weight * abs(call[0] - 0.6) - (1 - weight) * abs(call[1] - 0.6)]
    assert rewards == pytest.approx(expected, abs=1e-12)


@pytest.mark.plain
def test_the_nearest_ambulance_goes_and_the_others_stay_where_stationed():
    options = {"n_ambulances": 3, "travel_weight": 0.5, "start": [0.0, 0.5, 1.0]}
    env = gym.make("zooming/Ambulance-v0", arrivals=[0.55], **options)
    states, rewards = play(env, [[0.1, 0.5, 0.9]])
    assert states[1].tolist() == [0.1, 0.55, 0.9]
    assert rewards == [pytest.approx(1 - 0.5 * (0.1 + 0.0 + 0.1) / 3 - 0.5 * 0.05)]
    two = gym.make("zooming/Ambulance-v0", arrivals=[0.5], n_ambulances=2)
    assert play(two, [[0.25, 0.75]])[0][1].tolist() == [0.5, 0.75]  # as near: the first goes


def calls(options, n=20_000):
    env = gym.make("zooming/Ambulance-v0", **{"horizon": n, **options})
    return play(env, [[0.5]] * n)[0][1:, 0]


@pytest.mark.slow
def test_arrivals_follow_the_law_that_was_asked_for():
    beta, uniform, observed = (calls({"arrivals": law}) for law in ("beta", "uniform", OBSERVED))
    assert beta.mean() == pytest.approx(5 / 7, abs=0.005)
    assert beta.var() == pytest.approx(10 / 392, rel=0.05)
    grid = np.linspace(0.1, 0.9, 9)
    cdf = 6 * grid**5 - 5 * grid**6  # of Beta(5, 2)
    assert np.abs((beta[:, None] <= grid).mean(axis=0) - cdf).max() < 0.012
    assert np.abs((uniform[:, None] <= grid).mean(axis=0) - grid).max() < 0.012
    assert set(observed.tolist()) == {0.1, 0.8}
    assert (observed == 0.1).mean() == pytest.approx(2 / 3, abs=0.01)


def test_shifting_arrivals_move_over_the_steps_and_repeat():
    found = calls({"arrivals": "shifting"}, 2000).reshape(-1, 5)
    for column, (low, high) in zip(
        found.T, [(0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1), (0.45, 0.55)], strict=True
    ):
        assert low <= column.min() < column.max() <= high
        assert column.max() - column.min() > 0.9 * (high - low)


@pytest.mark.plain
def test_arrivals_per_step_are_used_step_by_step():
    env = gym.make("zooming/Ambulance-v0", arrivals=[[0.1], [0.2], [0.3]], horizon=3)
    assert play(env, [[0.5]] * 3)[0][1:, 0].tolist() == [0.1, 0.2, 0.3]


@pytest.mark.plain
def test_the_horizon_ends_the_episode_as_terminated():
    env = gym.make("zooming/Oil-v0", horizon=2)
    env.reset(seed=0)
    assert env.step(np.array([0.5]))[2:4] == (False, False)
    assert env.step(np.array([0.5]))[2:4] == (True, False)
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        env.unwrapped.step(np.array([0.5]))


@pytest.mark.plain
def test_a_copy_has_a_generator_and_a_state_of_its_own():
    env = gym.make("zooming/Ambulance-v0")
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    ours = [env.step(np.array([0.5]))[0][0] for _ in range(5)]
    assert [twin.step(np.array([0.5]))[0][0] for _ in range(5)] == ours


@pytest.mark.plain
@pytest.mark.parametrize(("env_id", "options", "message"), [
    ("zooming/Oil-v0", {"survey": "laplas"}, "choose one of"),
    ("zooming/Oil-v0", {"sharpness": -1.0}, "sharpness"),
    ("zooming/Oil-v0", {"dims": 0}, "dims"),
    ("zooming/Oil-v0", {"center": 1.5}, "center"),
    ("zooming/Oil-v0", {"center": [0.1, 0.2]}, "one per dimension"),
    ("zooming/Oil-v0", {"start": 1.5}, "outside the observation space"),
    ("zooming/Oil-v0", {"start": "anywhere"}, "uniform"),
    ("zooming/Oil-v0", {"horizon": 0}, "whole number >= 1"),
    ("zooming/Ambulance-v0", {"arrivals": []}, "at least one observed location"),
    ("zooming/Ambulance-v0", {"arrivals": [0.5, 12.0]}, "rescale"),
    ("zooming/Ambulance-v0", {"arrivals": ["beta", "uniform"]}, "one per step"),
    ("zooming/Ambulance-v0", {"travel_weight": 2.0}, "travel_weight"),
    ("zooming/Ambulance-v0", {"n_ambulances": 0}, "n_ambulances"),
])  # fmt: skip
def test_bad_options_are_refused_with_the_fix(env_id, options, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        gym.make(env_id, **options)


@pytest.mark.plain
@pytest.mark.parametrize("action", [[1.2], [float("nan")], [0.1, 0.2], 1.5])
def test_bad_actions_are_refused(action):
    env = gym.make("zooming/Oil-v0").unwrapped
    env.reset(seed=0)
    with pytest.raises(zooming.TransitionError, match="action"):
        env.step(np.array(action))


# --- your own dynamics ----------------------------------------------------------------------------


@pytest.mark.plain
def test_your_own_dynamics_make_a_valid_environment():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*symmetric and normalized space")  # its units are tons
        check_env(stock_env(), skip_render_check=True)


@pytest.mark.process
def test_dynamics_that_use_what_changed_elsewhere_are_not_taken_from_a_cache(tmp_path):
    program = """if True:
        import sys, gymnasium as gym, numpy as np, zooming
        PAY = float(sys.argv[1])
        def pay(state, action, step, params, rng, next_state):
            next_state[0] = state[0]
            return PAY
        box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
        env = zooming.compiled_env(pay, box, box, horizon=1, start=0.5)
        print(zooming.AdaptiveQ(env, seed=0).learn(1).returns[0])
    """
    path = tmp_path / "problem.py"
    path.write_text(textwrap.dedent(program.removeprefix("if True:\n")))
    runs = [
        subprocess.run([sys.executable, path, pay], capture_output=True, text=True, check=True)
        for pay in ("0.25", "0.75")
    ]
    assert [float(run.stdout) for run in runs] == [0.25, 0.75]


@pytest.mark.plain
@pytest.mark.parametrize(
    ("wrong", "message"), [("forgets", "did not write next_state"), ("strays", "out of bounds")]
)
def test_dynamics_that_do_not_write_their_next_state_are_found_at_once(wrong, message):
    def forgets(state, action, step, params, rng, next_state):
        next_state = state * 0.5  # noqa: F841  # the mistake
        return 0.5

    def strays(state, action, step, params, rng, next_state):
        next_state[7] = 0.5
        return 0.5

    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    dynamics = {"forgets": forgets, "strays": strays}[wrong]
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.compiled_env(dynamics, box, box, horizon=2, start=0.5)


@pytest.mark.plain
@pytest.mark.parametrize("outcomes", [None, ([0.0, 1.0], [0.5, 0.5])])
def test_dynamics_that_read_past_their_params_are_found_though_other_numbers_stand_behind(outcomes):
    def reads(state, action, step, params, chance, next_state):
        next_state[0] = state[0]
        return params[1]

    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    message = r"reads: index 1 is out of bounds .*; .* and params 1 numbers"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.compiled_env(reads, box, box, horizon=2, start=0.5, params=[0.6], outcomes=outcomes)


@pytest.mark.plain
@pytest.mark.parametrize(("space", "message"), [
    (gym.spaces.MultiBinary(3), "Box"),
    (gym.spaces.Box(0, np.inf, (1,)), "finite"),
    (gym.spaces.Box(0, 1, (2, 2)), "one-dim"),
])  # fmt: skip
def test_compiled_environments_want_finite_boxes(space, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.compiled_env(stock, space, gym.spaces.Box(0, 1, (1,)), horizon=2, start=0.5)


@pytest.mark.parametrize("outcomes", [None, ([0.0], [1.0])])
def test_dynamics_that_are_no_function_are_refused(outcomes):
    box = gym.spaces.Box(0.0, 1.0, dtype="float64")
    for swapped in (box, "stock"):
        with pytest.raises(zooming.ConfigurationError, match="not a function; the first argument"):
            zooming.compiled_env(swapped, box, box, 2, start=0.5, outcomes=outcomes)


def count(state, action, step, params, rng, next_state):
    next_state[0] = min(state[0] + action[0], params[0])
    return 0.1 * action[0]


def counting(start=0, n_states=5, **options):
    spaces = gym.spaces.Discrete(n_states), gym.spaces.Discrete(2, start=1)
    return zooming.compiled_env(count, *spaces, 3, start=start, params=[4.0], **options)


@pytest.mark.plain
def test_discrete_spaces_stay_what_they_are_and_the_dynamics_see_vectors():
    env = counting()
    assert env.observation_space == gym.spaces.Discrete(5)
    assert env.action_space == gym.spaces.Discrete(2, start=1)
    assert (env.state_box.low, env.state_box.high) == ([0.0], [4.0])
    assert (env.action_box.low, env.action_box.high) == ([1.0], [2.0])
    observation, _ = env.reset(seed=0)
    assert (observation, type(observation)) == (0, np.int64)
    after, reward, *_ = env.step(np.int64(2))
    assert (after, type(after), reward) == (2, np.int64, pytest.approx(0.2))
    assert env.step(1)[0] == 3
    small = zooming.compiled_env(
        count, gym.spaces.Discrete(5, dtype=np.int32), env.action_space, 3, start=0, params=[4.0]
    )
    assert small.reset(seed=0)[0].dtype == np.int32


@pytest.mark.plain
@pytest.mark.parametrize("start", [0, "uniform", ([1, 3], [0.5, 0.5])])
def test_a_discrete_compiled_environment_passes_gymnasiums_check_without_a_warning(start):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(counting(start), skip_render_check=True)


@pytest.mark.plain
@pytest.mark.parametrize("action", [0, 3, 1.5, np.nan, [1, 2], "up", None])
def test_what_is_no_value_of_a_discrete_action_is_refused(action):
    env = counting()
    env.reset(seed=0)
    with pytest.raises(zooming.TransitionError, match=r"count, step 0: action"):
        env.step(action)
    assert env.step(1)[0] == 1  # the episode goes on


@pytest.mark.plain
@pytest.mark.parametrize(("start", "message"), [
    (0.5, "start=0.5 is not a whole number from 0 to 4"),
    ([7.0], "is not a whole number from 0 to 4"),
    ("anywhere", "give a state"),
    ([1.0, 2.0], "not a state of 1 coordinates"),
    (([0, 1], [0.5, 0.6]), "start: weights sum to 1.1, not to 1"),
    (([0, 1], [1.0]), "one weight per state"),
    (([0, 1, 2], [0.6, 0.5, -0.1]), "start: weight 2 is -0.1; give weights >= 0"),
    (([0, np.nan], [0.5, 0.5]), "start: state 1 is nan"),
    (([0, 9], [0.5, 0.5]), r"start=\[9.0\] is not a whole number from 0 to 4"),
    (([[0], [1, 2]], [0.5, 0.5]), "give \\(states, weights\\)"),
])  # fmt: skip
def test_a_start_that_cannot_be_says_what_to_give(start, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        counting(start)


@pytest.mark.plain
def test_uniform_over_discrete_is_each_value_equally_often():
    def stay(state, action, step, params, rng, next_state):
        next_state[0] = state[0]
        return 0.0

    values = gym.spaces.Discrete(3, start=-1)
    env = zooming.compiled_env(stay, values, values, 1, start="uniform")
    starts = [int(env.reset(seed=0 if i == 0 else None)[0]) for i in range(3000)]
    assert np.bincount(np.array(starts) + 1).tolist() == pytest.approx([1000, 1000, 1000], abs=100)
    states, weights = env.start_states(2)
    assert (states.tolist(), weights.tolist()) == ([[-1.0], [0.0], [1.0]], [1 / 3] * 3)


@pytest.mark.plain
def test_a_declared_start_is_drawn_by_its_weights():
    box = gym.spaces.Box(0.0, 1.0, (2,), np.float64)

    def stay(state, action, step, params, rng, next_state):
        for i in range(len(state)):
            next_state[i] = state[i]
        return params[0]

    law = [[0.1, 0.2], [0.5, 0.6], [0.9, 1.0]], [0.2, 0.7, 0.1]
    env = zooming.compiled_env(stay, box, box, 1, start=law, params=[0.25])
    starts = [tuple(env.reset(seed=0 if i == 0 else None)[0].tolist()) for i in range(2000)]
    assert {*starts} == {(0.1, 0.2), (0.5, 0.6), (0.9, 1.0)}
    assert [starts.count(tuple(state)) for state in law[0]] == pytest.approx(
        [400, 1400, 200], abs=80
    )
    assert env.step([0.5, 0.5])[1] == 0.25  # the problem's own parameters are where they were
    states, weights = env.start_states(1)
    assert (states.tolist(), weights.tolist()) == (law[0], law[1])


@pytest.mark.plain
def test_what_has_weight_0_is_left_out():
    def jump(state, action, step, params, outcome, next_state):
        next_state[0] = outcome[0]
        return outcome[0] / 4.0

    values, law = gym.spaces.Discrete(4), ([0, 1, 2, 3], [0.0, 0.25, 0.75, 0.0])
    env = zooming.compiled_env(jump, values, values, 2, start=law, outcomes=law)
    for found, weights in (env.start_states(1), env.outcomes(0, 1)):
        assert (found.tolist(), weights.tolist()) == ([[1.0], [2.0]], [0.25, 0.75])
    assert {int(env.reset(seed=seed)[0]) for seed in range(50)} == {1, 2}
    assert {int(env.step(0)[0]) for _ in range(50) if env.reset()} == {1, 2}


GRAPH = object()


def double(x):
    return 2 * x


def returns_nothing(state, action, step, params, rng, next_state):
    next_state[0] = state[0]


def uses_an_object(state, action, step, params, rng, next_state):
    next_state[0] = GRAPH.distance
    return 0.5


def calls_plain_python(state, action, step, params, rng, next_state):
    next_state[0] = double(state[0])
    return 0.5


def has_two_indices(state, action, step, params, rng, next_state):
    next_state[0] = params[0, 1]
    return 0.5


def has_a_float_for_index(state, action, step, params, rng, next_state):
    next_state[0] = params[state[0]]
    return 0.5


def draws_below(state, action, step, params, rng, next_state):
    next_state[0] = rng.integers(4) / 4
    return 0.5


def chooses(state, action, step, params, rng, next_state):
    next_state[0] = rng.choice(4) / 4
    return 0.5


def opens(state, action, step, params, rng, next_state):
    with open("file") as file:
        next_state[0] = len(file.read())
    return 0.5


@pytest.mark.skipif(
    "__import__('zooming.kernels').kernels.IS_JIT_DISABLED",
    reason="without compilation nothing fails to compile",
)
@pytest.mark.parametrize(("dynamics", "line", "message"), [
    (returns_nothing, 1,
     "reward: it must return the reward, a number, on every way out. Numba says"),
    (uses_an_object, 1,
     "reward: GRAPH is no number and no array of numbers; pass numbers in params. Numba " "says"),
    (calls_plain_python, 1,
     "reward: double must be compiled too: write @numba.njit above it. Numba says"),
    (has_two_indices, 1, "reward: params is one-dimensional: params[n * i + j]. Numba says"),
    (has_a_float_for_index, 1, "reward: an index must be whole: int(state[0]). Numba says"),
    (draws_below, 1, "reward: rng.integers takes both ends here: rng.integers(0, n). Numba says"),
    (chooses, 1,
     "reward: of rng, choice cannot be compiled; random(), integers(0, n), normal() can. "
     "Numba says"),
    (opens, None,
     "Numba says: The 'with (context manager) as (variable):' construct is not supported"),
])  # fmt: skip
def test_what_does_not_compile_is_said_in_one_line_with_what_to_do(dynamics, line, message):
    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    with pytest.raises(zooming.ConfigurationError, match=re.escape(message)) as caught:
        zooming.compiled_env(dynamics, box, box, 2, start=0.5)
    said = str(caught.value)
    assert said.startswith(f"{dynamics.__name__} does not compile as dynamics(")
    if line is not None:
        place = f"line {dynamics.__code__.co_firstlineno + line} of test_envs.py"
        assert f"Numba says of {place}: " in said
    assert "\n" not in said
    assert len(said) < 400
    assert caught.value.__suppress_context__  # or a traceback would show the pages after all
