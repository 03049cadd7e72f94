"""Optimal values against closed forms, against problems solved by hand, and against the table of
the paper's problems."""

from statistics import NormalDist

import gymnasium as gym
import numpy as np
import pytest

import zooming
from oracles import AMBULANCE, OIL, SHIFTING, ambulance_optimum
from zooming.envs.compiled import CompiledEnv
from zooming.kernels.solve import backups


@pytest.mark.parametrize(("survey", "sharpness"), OIL)
def test_oil_matches_its_closed_form_at_every_state(survey, sharpness):
    optimal = zooming.solve(gym.make("zooming/Oil-v0", survey=survey, sharpness=float(sharpness)))
    assert optimal.return_ == pytest.approx(OIL[survey, sharpness], abs=1e-4)
    for step in range(5):
        left = 5 - step
        for x in (0.1, 0.5, 0.75, 0.9):
            distance, stop = abs(x - 0.75), 1 / (2 * left * sharpness)
            # laplace: what is found is convex in the distance, so go to the center at once, or stay
            # for good
            exact = max(left - distance, left * np.exp(-sharpness * distance))
            if survey == "quadratic":
                exact = left * (1 - sharpness * distance**2)
                if distance > stop:
                    exact = left - distance + 1 / (4 * left * sharpness)
            slack = max(2e-4, 2 * optimal.error)
            assert optimal.value(step, [x]) == pytest.approx(exact, abs=slack)


def drifting_optimum(survey, sharpness, horizon, n=401, n_draws=41):
    """V* of a further survey by backward induction on a grid, from the definitions."""
    x = np.linspace(0, 1, n)
    here, there = x[:, None], x[None]
    draws = np.array([NormalDist().inv_cdf((i + 0.5) / n_draws) for i in range(n_draws)])
    spread = np.sqrt(0.1 if survey == "noisy" else 0.05) * (here + there)
    after = np.clip(there[..., None] + spread[..., None] * draws, 0, 1)
    value = np.zeros(n)
    for step in reversed(range(horizon)):
        found = np.exp(-sharpness * np.abs(here * there - 0.7))
        if survey == "sparse":
            found = step / 5 * np.exp(-sharpness * np.abs(here - [1, 0.5, 0.25, 0.5, 0.75][step]))
        reward = np.clip(found - np.abs(here - there), 0, 1)
        value = (reward + np.interp(after, x, value).mean(axis=2)).max(axis=1)
    return value[n // 2]


@pytest.mark.slow
@pytest.mark.parametrize("sharpness", [1.0, 10.0])
@pytest.mark.parametrize("survey", ["noisy", "sparse"])
def test_the_authors_further_surveys_match_a_backward_induction(survey, sharpness):
    env = gym.make("zooming/Oil-v0", survey=survey, sharpness=sharpness)
    beyond = zooming.solve(env, 100).return_ - drifting_optimum(survey, sharpness, 5)
    assert -0.001 < beyond < 0.006  # the actions of the induction are those of its grid


@pytest.mark.slow
@pytest.mark.parametrize(("arrivals", "weight"), [*AMBULANCE, ("shifting", 0.25)])
def test_ambulance_matches_the_table(arrivals, weight):
    env = gym.make("zooming/Ambulance-v0", arrivals=arrivals, travel_weight=float(weight))
    is_fine = (arrivals, weight) == ("beta", 0.25)  # one at the default resolution
    optimal = zooming.solve(env) if is_fine else zooming.solve(env, 80)
    expected = AMBULANCE.get((arrivals, weight)) or ambulance_optimum(SHIFTING, weight)
    assert abs(optimal.return_ - expected) <= (1e-4 if is_fine else optimal.error + 5e-5)
    assert optimal.error < (1e-3 if is_fine else 1e-2)


@pytest.mark.plain
def test_observed_arrivals_are_exact():
    options = {"arrivals": [0.2, 0.2, 0.2, 0.8], "travel_weight": 0.0, "horizon": 2}
    optimal = zooming.solve(gym.make("zooming/Ambulance-v0", **options), 20)
    assert optimal.return_ == pytest.approx(2 * (1 - 0.25 * 0.6), abs=1e-12)
    assert optimal.action(1, [0.5])[0] == pytest.approx(0.2)


def two_places(state, action, step, params, outcome, next_state):
    """Bet on the left or the right half; the coin says where the next state lands."""
    next_state[0] = outcome[0]
    return state[0] if action[0] < 0.5 else params[0]


def coin_env(outcomes=([0.0, 1.0], [0.25, 0.75]), horizon=2, start=0.4):
    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    return zooming.compiled_env(
        two_places, box, box, horizon, start=start, params=[0.5], outcomes=outcomes
    )


@pytest.mark.plain
def test_a_problem_of_two_states_and_two_actions_solved_by_hand():
    # Last step: state 0 pays max(0, .5) = .5, state 1 pays max(1, .5) = 1. First step: max(.4, .5)
    # + .25 * .5 + .75 * 1.
    optimal = zooming.solve(coin_env(), 4)
    assert optimal.return_ == pytest.approx(0.5 + 0.25 * 0.5 + 0.75, abs=1e-12)
    assert optimal.error == 1e-9  # rounding alone
    assert optimal.q_value(0, [0.4], [0.1]) == pytest.approx(0.4 + 0.875)
    assert optimal.q_value(1, [0.4], [0.9]) == 0.5
    assert optimal.q_values(1, [[0.1], [0.9]], [[0.1], [0.1]]).tolist() == pytest.approx([0.1, 0.9])


def test_a_kink_between_grid_points_is_part_of_the_error():
    on, off = (
        zooming.solve(gym.make("zooming/Oil-v0", sharpness=50.0, center=c), 40)
        for c in (0.75, 0.7625)
    )
    assert on.return_ == pytest.approx(4.75, abs=1e-9)
    assert off.error >= abs(off.return_ - (5 - 0.2625)) > 0.005


@pytest.mark.parametrize(
    "dims", [pytest.param(1, marks=pytest.mark.plain), pytest.param(2, marks=pytest.mark.plain), 3]
)
def test_oil_in_several_dimensions(dims):
    env = gym.make("zooming/Oil-v0", dims=dims, center=0.75, horizon=2)
    optimal = zooming.solve(env, 4)
    assert optimal.return_ == pytest.approx(1.75, abs=1e-9)  # the center is a grid point
    assert optimal.action(0, [0.5] * dims) == pytest.approx([0.75] * dims, abs=1e-3)


def test_the_error_shrinks_with_the_resolution_and_bounds_the_truth():
    env = gym.make("zooming/Oil-v0", survey="quadratic", sharpness=10.0, center=0.7321)
    truth = 5 - abs(0.5 - 0.7321) + 1 / 200
    solutions = [zooming.solve(env, n) for n in (16, 64, 256)]
    assert solutions[0].error > solutions[1].error > solutions[2].error > 0
    for optimal in solutions:
        assert abs(optimal.return_ - truth) <= optimal.error


def test_random_starts_are_averaged():
    optimal = zooming.solve(gym.make("zooming/Oil-v0", start="uniform"), 40)
    assert optimal.return_ == pytest.approx(5 - (0.75**2 + 0.25**2) / 2, abs=2e-4)


def ridge(state, action, step, params, outcome, next_state):
    for i in range(2):
        next_state[i] = action[i]
    return 1.0 - 0.8 * abs(action[0] - action[1]) - 0.1 * abs(action[0] + action[1] - 2 * params[0])


def test_the_search_climbs_a_ridge_that_runs_between_the_axes():
    box = gym.spaces.Box(0.0, 1.0, (2,), np.float64)
    env = zooming.compiled_env(
        ridge, box, box, 2, start=0.5, params=[0.777], outcomes=([0.0], [1.0])
    )
    assert zooming.solve(env, 10).return_ == pytest.approx(2.0, abs=1e-3)


def test_with_a_lipschitz_constant_the_error_is_a_bound_even_for_what_the_grid_cannot_see():
    env = gym.make("zooming/Oil-v0", survey="quadratic", sharpness=500.0, center=0.4232)
    truth = 5 - abs(0.5 - 0.4232) + 1 / (20 * 500)
    blind = zooming.solve(env, 8)
    assert blind.error < abs(blind.return_ - truth)  # fooled: the peak is narrower than a cell
    bounded = zooming.solve(env, 8, lipschitz=30.0)
    assert bounded.error >= abs(blind.return_ - truth)
    assert f" within {bounded.error:.1e}, resolution 8" in repr(bounded)


@pytest.mark.parametrize(("solve", "message"), [
    (lambda: zooming.solve(gym.make("zooming/Oil-v0"), 2),
     "resolution=2: give a whole number >= 4"),
    (lambda: zooming.solve(gym.make("zooming/Oil-v0"), 401),
     "resolution=401 is odd: give an even number .*402"),
    (lambda: zooming.solve(gym.make("zooming/Oil-v0", dims=4)), "1 to 3"),
    (lambda: zooming.solve(gym.make("Pendulum-v1")), "compiled_env"),
    (lambda: zooming.solve(coin_env()).value(2, [0.5]), "steps run from 0 to 1"),
    (lambda: zooming.solve(coin_env(), 4).value(0, [1.5]), "not a point"),
    (lambda: zooming.solve(coin_env(), 4).q_value(0, [0.5], [0.5, 0.5]), "not a point"),
    (lambda: zooming.solve(coin_env(), 4).q_values(0, [[0.5], [0.5]], [[0.5]]), "as many of each"),
    (lambda: zooming.solve(gym.make("zooming/Oil-v0", max_episode_steps=3)), "wrappers"),
    (lambda: coin_env(outcomes=([0.0, 1.0], [0.5, 0.6])), "weights sum to 1.1, not to 1"),
    (lambda: coin_env(outcomes=([0.0, 1.0], [1.0])), "one weight per value"),
    (lambda: coin_env(outcomes=3), "values, weights"),
    (lambda: coin_env(outcomes={1: 0.5, 2: 0.5}),
     r"give \(values, weights\), .* \(\[0.0, 1.0\], \[0.5, 0.5\]\)"),
])  # fmt: skip
def test_what_cannot_be_solved_says_what_to_give(solve, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        solve()


@pytest.mark.plain
def test_the_optimum_of_discrete_sides_is_exact_wherever_they_start():
    rng = np.random.default_rng(0)
    # The law of each pair is one of 12.
    rewards = rng.random((4, 3))
    chances = rng.dirichlet(np.ones(4), (4, 3))
    cumulative = np.cumsum(chances, axis=2)

    def chain(state, action, step, params, outcome, next_state):
        pair = 3 * (int(state[0]) + 2) + int(action[0]) - 5
        next_state[0] = -2.0
        for k in range(3):
            next_state[0] += 1.0 if outcome[0] >= params[12 + 4 * pair + k] else 0.0
        return params[pair]

    # Between two cuts nothing changes.
    cuts = np.unique(np.concatenate([[0.0], cumulative[:, :, :3].ravel(), [1.0]]))
    law = (cuts[:-1] + cuts[1:]) / 2, np.diff(cuts)
    sides = gym.spaces.Discrete(4, start=-2), gym.spaces.Discrete(3, start=5)
    params = [*rewards.ravel(), *cumulative.ravel()]
    env = zooming.compiled_env(chain, *sides, 3, start="uniform", params=params, outcomes=law)
    optimal, value = zooming.solve(env), np.zeros(4)
    for step in reversed(range(3)):
        q = rewards + chances @ value
        value = q.max(axis=1)
        np.testing.assert_allclose(optimal.values(step, [-2, -1, 0, 1]), value, rtol=1e-12)
        assert [optimal.action(step, x) - 5 for x in range(-2, 2)] == q.argmax(axis=1).tolist()
        np.testing.assert_allclose(
            optimal.q_values(step, [-2, 1], [5, 7]), q[[0, 3], [0, 2]], rtol=1e-12
        )
    assert optimal.return_ == pytest.approx(value.mean(), rel=1e-12)
    message = r"state 0\.5 is not a whole number from -2 to 1"
    with pytest.raises(zooming.ConfigurationError, match=message):
        optimal.value(0, 0.5)


def lever(state, action, step, params, outcome, next_state):
    """A state of one or two coordinates is kept. The best lever is a half past the state, which
    a whole number cannot be."""
    for i in range(len(state)):
        next_state[i] = state[i]
    return 1.0 - (action[0] - state[0] - 0.5) ** 2 / 16.0


NO_CHANCE = ([0.0], [1.0])
REALS = gym.spaces.Box(0.0, 2.0, (1,), np.float64)


@pytest.mark.parametrize("n_axes", [1, 2])
def test_of_discrete_actions_only_the_values_are_tried(n_axes):
    states = gym.spaces.Box(0.0, 2.0, (n_axes,), np.float64)
    env = zooming.compiled_env(
        lever, states, gym.spaces.Discrete(4), 2, start=0.25, outcomes=NO_CHANCE
    )
    optimal = zooming.solve(env, 16)
    for x in (0.0, 0.25, 1.375, 2.0):
        best = min(range(4), key=lambda a, x=x: abs(a - x - 0.5))
        loss = (best - x - 0.5) ** 2 / 16
        found = optimal.value(0, [x] * n_axes)  # grid points: nothing between
        assert found == pytest.approx(2 * (1 - loss), abs=1e-12)
        if abs(loss - 1 / 64) > 1e-9:  # else two values are as good
            assert optimal.action(0, [x] * n_axes) == best
    assert optimal.error < 0.05


def tents(state, action, step, params, outcome, next_state):
    """Pay 1/4 for each action at its top, and less by half a slope times the distance from it."""
    next_state[0] = state[0]
    paid = 0.0
    for i in range(action.shape[0]):
        paid += 0.25 - 0.5 * params[2 * i] * abs(action[i] - params[2 * i + 1])
    return paid


@pytest.mark.plain
@pytest.mark.parametrize(
    "peaks",  # (slope, top) along each axis; the search comes as near as 1/8192
    [[(0.7, 0.3711), (0.2, 0.8123)], [(0.5, 0.0), (0.7, 0.3711)]],
)
def test_the_error_is_the_height_of_the_peaks_beside_the_best_action(peaks):
    unit = (gym.spaces.Box(0.0, 1.0, (n,), np.float64) for n in (1, len(peaks)))
    env = zooming.compiled_env(
        tents, *unit, 1, start=0.5, params=np.ravel(peaks).tolist(), outcomes=NO_CHANCE
    )
    optimal = zooming.solve(env, 8)
    found = optimal.action(0, [0.5])
    loss = sum(slope / 2 * abs(x - top) for x, (slope, top) in zip(found, peaks, strict=True))
    assert optimal.return_ == pytest.approx(0.25 * len(peaks) - loss, abs=1e-12)
    assert optimal.error == pytest.approx(loss + 1e-9, rel=1e-6)  # with that of rounding


@pytest.mark.plain
def test_a_peak_is_where_the_slopes_on_both_sides_of_a_gap_meet():
    def tent(x):  # it rises by 1 up to 0.4, then falls by 2
        return x if x < 0.4 else 0.4 - 2.0 * (x - 0.4)

    q = [tent(x) for x in (-1.0, 0.0, 1.0, 3.0)]
    assert backups.missed_peak(q[1], q[0], q[2], q[3], 1.0, 1.0, 2.0) == pytest.approx(0.4)
    assert backups.missed_peak(q[1], q[0], q[2], q[3], 1.0, 1.0, 0.0) == 1.0  # to the border
    assert backups.missed_peak(q[1], q[0], q[2], q[3], 0.0, 1.0, 2.0) == 0.0  # at the border
    assert backups.missed_peak(q[1], q[0], q[2], q[3], 1.0, 0.0, 2.0) == 0.0
    assert backups.missed_peak(0.0, 0.0, -1.0, -2.0, 1.0, 1.0, 1.0) == 0.0  # it does not rise
    assert backups.missed_peak(0.0, -1.0, -0.5, -4.0, 1.0, 1.0, 1.0) == pytest.approx(2 / 3)
    assert backups.missed_peak(0.0, -1.0, -2.0, -3.0, 1.0, 1.0, 1.0) == 0.0  # no room for a peak
    assert backups.missed_peak(0.0, -1.0, -2.0, 0.0, 1.0, 1.0, 1.0) == 0.0  # a valley


@pytest.mark.plain
@pytest.mark.parametrize("n_axes", [1, 2, 3])
def test_interpolation_is_linear_along_each_axis_in_turn(n_axes):
    rng, n_cells, first = np.random.default_rng(0), 3, 5
    values = rng.random(first + (n_cells + 1) ** n_axes)
    low, scale = np.arange(n_axes) - 1.0, 3.0 / (1.0 + np.arange(n_axes))
    high = low + n_cells / scale

    def at(point, is_whole=False):
        return backups.interpolate(
            values, first, n_cells, is_whole, low, scale, np.array(point, float)
        )

    for point in [low, high, *(low + rng.random((20, n_axes)) * (high - low))]:
        left = values[first:].reshape((n_cells + 1,) * n_axes)
        for x in (point - low) * scale:
            cell = min(int(x), n_cells - 1)
            left = left[cell] + (x - cell) * (left[cell + 1] - left[cell])
        assert at(point) == pytest.approx(left, rel=1e-12)
    assert at(low - 1e-12) == pytest.approx(values[first])  # by rounding alone
    assert at(high + 1e-12) == pytest.approx(values[-1])
    for axis in range(n_axes):
        for end, beyond in ((low, -1e-3), (high, 1e-3)):
            assert np.isnan(at(end + beyond * (np.arange(n_axes) == axis)))


@pytest.mark.plain
def test_whole_states_are_looked_up_and_nothing_is_between_or_beyond_them():
    values, low, scale = np.arange(6.0), np.array([-2.0]), np.ones(1)

    def at(state):
        return backups.interpolate(values, 2, 3, True, low, scale, np.array([state]))

    assert [at(state) for state in (-2.0, -1.0, 0.0, 1.0, 1.0 + 1e-12)] == [2, 3, 4, 5, 5]
    assert all(np.isnan(at(state)) for state in (-3.0, -1.5, 0.9, 2.0, np.nan))


@pytest.mark.plain
def test_of_discrete_states_none_is_between():
    env = zooming.compiled_env(lever, gym.spaces.Discrete(2), REALS, 2, start=1, outcomes=NO_CHANCE)
    optimal = zooming.solve(env, 10)
    assert [optimal.value(0, x) for x in (0, 1)] == pytest.approx([2.0, 2.0], abs=1e-6)
    assert optimal.action(0, 1) == pytest.approx([1.5], abs=1e-3)
    assert optimal.error < 0.05
    one = zooming.compiled_env(
        lever, gym.spaces.Discrete(1), gym.spaces.Discrete(3), 2, start=0, outcomes=NO_CHANCE
    )
    assert zooming.solve(one).return_ == pytest.approx(2 * (1 - 1 / 64), abs=1e-12)  # a bandit


class Noisy(CompiledEnv):
    """Two values on each side, and a reward that is the square of a uniform number."""

    def __init__(self):
        two = gym.spaces.Discrete(2)
        super().__init__(square, two, two, 2, start=0, given=square_given)

    def outcomes(self, step, n):
        return (np.arange(n) + 0.5)[:, None] / n, np.full(n, 1 / n)


def square(state, action, step, params, rng, next_state):
    next_state[0] = state[0]
    return rng.random() ** 2


def square_given(state, action, step, params, outcome, next_state):
    next_state[0] = state[0]
    return outcome[0] ** 2


def test_whole_sides_with_a_density_of_outcomes_are_not_called_exact():
    optimal = zooming.solve(Noisy(), 20)
    assert 1e-4 < abs(optimal.return_ - 2 / 3) <= optimal.error < 0.01


def stray(state, action, step, params, outcome, next_state):
    is_due = step == 1 and action[0] >= params[1]
    next_state[0] = params[0] if is_due and outcome[0] == 1.0 else state[0]
    return params[2] if is_due else 0.5


def straying(to, where=0.75, *, reward=0.5, states=REALS, actions=REALS, start=0.0):
    outcomes = [0.0, 1.0], [0.5, 0.5]
    return zooming.compiled_env(
        stray, states, actions, 3, start=start, params=[to, where, reward], outcomes=outcomes
    )


FOUR = gym.spaces.Discrete(4)
STRAYING = [
    ({"to": 2.5},
     r"stray, step 1: in state \[.*\], action \[.*\], next_state\[0\] is 2.5, outside \[0, 2\]"),
    ({"to": np.nan}, r"next_state\[0\] is nan, outside"),
    ({"to": 0.5, "reward": np.nan}, r"stray, step 1: .* the reward is nan"),
    ({"to": 1.5, "states": FOUR},
     r"step 1: in state .*, action .*, the next state is 1.5, not a whole number from 0 to 3"),
    ({"to": 4.0, "states": FOUR, "actions": FOUR},
     r"the next state is 4.0, not a whole number from 0 to 3"),
    ({"to": -1.0, "actions": FOUR},
     r"action \[[123].0\], next_state\[0\] is -1.0, outside \[0, 2\]"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), STRAYING)
def test_a_next_state_that_cannot_be_is_an_error_and_not_a_value(options, message):
    env = straying(**options)
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.solve(env, None if env.has_whole_states and env.has_whole_actions else 8)
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.evaluate(lambda step, x: env.action_box.high, env, exact=True)


@pytest.mark.parametrize("options", [{"to": 2 + 1e-9}, {"to": 3 - 1e-9, "states": FOUR}])
def test_rounding_just_outside_is_fine(options):
    env = straying(**options)
    assert zooming.solve(env, 8).return_ == pytest.approx(1.5)
    assert zooming.evaluate(
        lambda step, x: env.action_box.high, env, exact=True
    ).mean == pytest.approx(1.5)


# --- random starts --------------------------------------------------------------------------------


def keep(state, action, step, params, outcome, next_state):
    """You stay where you are, whatever you do: x a step."""
    for i in range(len(state)):
        next_state[i] = state[i]
    return state[0]


def power(params, rng, state):
    """U^p, after some draws that are thrown away: another sample for each."""
    for _ in range(int(params[1])):
        rng.random()
    state[0] = rng.random() ** params[0]


UNIT = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
POWERS = [(float(p), skipped) for p in (1, 2, 3, 9) for skipped in range(10)]


def keeping(start, params=(), states=UNIT, actions=UNIT):
    return zooming.compiled_env(
        keep, states, actions, 2, start=start, params=params, outcomes=NO_CHANCE
    )


def test_a_return_over_a_start_function_is_within_its_reported_error():
    env, missed = keeping(power, [0.0, 0.0]), [0, 0]
    agent = zooming.AdaptiveQ(env, seed=0)
    for p, skipped in POWERS:
        env.params[:2] = p, skipped
        optimal, truth = zooming.solve(env, 8), 2 / (p + 1)
        # The standard error of 4,096 draws.
        error = 2 * np.sqrt(1 / (2 * p + 1) - 1 / (p + 1) ** 2) / 64
        assert optimal.error == 1e-9  # V is linear
        assert optimal.return_error == pytest.approx(1.96 * error, rel=0.15)
        shown = f"{optimal.return_:.4f} within about {optimal.return_error:.1e}, resolution 8"
        assert shown in repr(optimal)
        missed[0] += abs(optimal.return_ - truth) > optimal.return_error
        found = zooming.evaluate(agent, env, exact=True)
        assert 0.3 * error < found.high - found.mean < 6 * error  # eight batches leave it some play
        missed[1] += not found.low <= truth <= found.high
        assert str(found).endswith("computed, over 4,096 drawn starts)")
    assert max(missed) <= 5  # of 40, two of which are expected


def bowl(state, action, step, params, outcome, next_state):
    for i in range(len(state)):
        next_state[i] = state[i]
    total = 0.0
    for x in state:
        total += x * (1.0 - x)
    return total


@pytest.mark.parametrize("n_axes", [1, 2])
def test_a_uniform_start_says_what_its_grid_may_miss(n_axes):
    states = gym.spaces.Box(0.0, 1.0, (n_axes,), np.float64)
    env = zooming.compiled_env(
        bowl, states, gym.spaces.Discrete(2), 1, start="uniform", outcomes=NO_CHANCE
    )
    optimal, truth = zooming.solve(env), n_axes / 6
    assert optimal.error < optimal.return_error < optimal.error + 1e-3
    assert abs(optimal.return_ - truth) <= optimal.return_error < 0.01
    found = zooming.evaluate(zooming.AdaptiveQ(env), env, exact=True)
    assert found.low <= truth <= found.high
    assert 0 < found.high - found.low < 1e-3
    assert str(found).endswith("computed)")


SEVEN = gym.spaces.Discrete(7)


@pytest.mark.parametrize(("start", "sides", "mean"), [
    ([0.25], (UNIT, UNIT), 0.25),
    (([0.25, 0.75, 1.0], [0.5, 0.25, 0.25]), (UNIT, UNIT), 0.5625),
    (([0, 3, 6], [0.1, 0.2, 0.7]), (SEVEN, SEVEN), 4.8),
    ("uniform", (SEVEN, SEVEN), 3.0),
    (lambda params, rng, state: state.fill(0.25), (UNIT, UNIT), 0.25),
])  # fmt: skip
def test_a_start_that_is_known_adds_no_error(start, sides, mean):
    env = keeping(start, (), *sides)
    optimal = zooming.solve(env, None if sides[0] is SEVEN else 8)
    assert optimal.return_ == pytest.approx(2 * mean, abs=1e-12)
    assert optimal.return_error == optimal.error == 1e-9
    how = "within 1.0e-09, exact" if sides[0] is SEVEN else "within about 1.0e-09, resolution 8"
    assert how in repr(optimal)
    found = zooming.evaluate(zooming.AdaptiveQ(env), env, exact=True)
    assert found.low == found.mean == found.high == pytest.approx(2 * mean, abs=1e-12)
    assert str(found).endswith("computed)")


def test_a_start_outside_the_space_is_an_error():
    def outside(params, rng, state):
        state[0] = 1.1 if rng.random() < 0.01 else 0.5

    env = keeping(outside)
    for compute in (
        lambda: zooming.solve(env, 8),
        lambda: zooming.evaluate(zooming.AdaptiveQ(env), env, exact=True),
    ):
        message = r"keep: start wrote the state \[1.1\], which is not in Box"
        with pytest.raises(zooming.ConfigurationError, match=message):
            compute()


# --- near-optimal pairs ---------------------------------------------------------------------------


def valley(state, action, step, params, outcome, next_state):
    """One step that pays less the further the action is from a place, or from the state."""
    next_state[0] = state[0]
    place = state[0] if params[1] else 0.5
    return 1.0 - abs(action[0] - place) ** params[0]


@pytest.mark.parametrize(
    ("power", "follows", "dimension"), [(1.0, 0.0, 1.0), (1.0, 1.0, 1.0), (2.0, 0.0, 1.5)]
)
def test_the_zooming_dimension_is_that_of_the_near_optimal_pairs(power, follows, dimension):
    """Of |a - x|^p, pairs within r are a strip of width 2 r^(1/p): N_r ~ r^-1 r^(1/p - 1)."""
    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    env = zooming.compiled_env(
        valley, box, box, 1, start=[0.5], params=[power, follows], outcomes=NO_CHANCE
    )
    optimal = zooming.solve(env, 64)
    counts = optimal.near_optimal_cells(1.0)[0]
    centers = (np.arange(256) + 0.5) / 256
    places = centers[:, None] if follows else np.full((256, 1), 0.5)
    gap = np.abs(centers[None] - places) ** power
    for level, count in enumerate(counts):
        x, a = np.nonzero(gap <= 0.5**level + 1e-12)
        assert count == len({*zip(x >> (8 - level), a >> (8 - level), strict=True)})
    assert optimal.zooming_dimension(1.0) == pytest.approx(dimension, abs=0.1)
    assert optimal.zooming_dimension(1e9) == pytest.approx(2.0)  # every pair is near: the space
    with pytest.raises(zooming.ConfigurationError, match="factor=-1"):
        optimal.zooming_dimension(-1)
