"""The guarantees as numbers: each against brute force, or against arithmetic written out here."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import ReferenceQ
from zooming import theory
from zooming.errors import ConfigurationError

horizons = st.integers(1, 30)
episode_counts = st.integers(1, 10**9)
deltas = st.floats(1e-6, 0.99)
dimensions = st.floats(0, 8)
lipschitz_constants = st.floats(0, 100)
boxes = st.lists(st.floats(0.05, 5), min_size=1, max_size=3)
radii = st.floats(0.05, 6)


def distance(p, q, metric: str) -> float:
    gaps = [abs(a - b) for a, b in zip(p, q, strict=True)]
    norms = {"linf": max(gaps), "l1": sum(gaps), "l2": math.hypot(*gaps)}
    return norms[metric]


def power_law(c: float, dimension: float):
    return lambda radius: max(1.0, c * radius**-dimension)


# Covering and packing


@given(boxes, radii)
def test_cubes_of_side_r_cover_a_box_and_no_fewer_cells_do(sides, radius):
    per_axis = [max(1, math.ceil(round(side / radius, 9))) for side in sides]
    assert theory.covering_number(radius, sides) == math.prod(per_axis)
    assert all(side / n <= radius * (1 + 1e-8) for side, n in zip(sides, per_axis, strict=True))
    # n points spread over a side lie more than r apart, so each needs a cell of its own
    assert all(
        side / (n - 1) > radius * (1 - 1e-8)
        for side, n in zip(sides, per_axis, strict=True)
        if n > 1
    )


@given(boxes, radii, st.sampled_from(["l1", "l2"]))
def test_the_cells_counted_under_l1_and_l2_have_diameter_at_most_r(sides, radius, metric):
    n_cells = theory.covering_number(radius, sides, metric)
    if n_cells == 1:
        assert distance(sides, [0.0] * len(sides), metric) <= radius * (1 + 1e-9)
        return
    side = radius / (len(sides) if metric == "l1" else math.sqrt(len(sides)))
    assert distance([side] * len(sides), [0.0] * len(sides), metric) == pytest.approx(radius)
    assert n_cells == math.prod(math.ceil(round(length / side, 9)) for length in sides)


@given(boxes, radii, st.sampled_from(["linf", "l1", "l2"]), st.integers(0, 1000))
def test_lemma_no_packing_is_larger_than_the_packing_number(sides, radius, metric, seed):
    rng = random.Random(seed)
    packing: list[list[float]] = []
    for _ in range(60):
        point = [rng.choice([0.0, side, rng.uniform(0, side)]) for side in sides]
        if all(distance(point, other, metric) >= radius for other in packing):
            packing.append(point)
    assert len(packing) <= theory.packing_number(radius, sides, metric)


def test_a_grid_of_spacing_r_attains_the_packing_number_under_linf():
    grid = list(product([0, 0.5, 1.0], [0, 0.5]))  # in the box 1 x 0.9
    assert min(distance(p, q, "linf") for p in grid for q in grid if p != q) == 0.5
    assert theory.packing_number(0.5, (1, 0.9)) == len(grid)


def test_quotients_that_miss_a_whole_number_by_rounding_are_whole():
    assert 0.7 / 0.1 < 7 < 2.1 / 0.3 + 1e-12
    assert theory.packing_number(0.1, (0.7,)) == 8
    assert [theory.covering_number(k / 10, (3 * k / 10,)) for k in range(1, 30)] == [3] * 29
    assert theory.covering_number(math.sqrt(3) / 4, (1, 1, 1), "l2") == 64
    assert [theory.covering_number(r, (3, 4), "discrete") for r in (0.01, 0.99, 1.0)] == [12, 12, 1]
    assert [theory.packing_number(r, (3, 4), "discrete") for r in (0.01, 1.0, 1.01)] == [12, 12, 1]


def test_a_radius_above_one_bounds_the_dimension_from_above():
    # side 2: N = (2/r)^2. c = 4: r = 2 asks d <= 2 and r = 1/2 asks d >= 2. c = 3 fails at r = 1,
    # where N = 4.
    def covering(radius):
        return theory.covering_number(radius, (2, 2))

    assert theory.covering_dimension(covering, c=4.0, d_max=2.0) == pytest.approx(2)
    assert theory.covering_dimension(covering, c=3.0, d_max=2.0) == math.inf
    # c = 5: r = 2 asks 1 <= 5 / 2^d
    assert theory.covering_dimension(covering, c=5.0, d_max=2.0, limit=2) == pytest.approx(2)
    assert (
        theory.covering_dimension(covering, c=5.0, d_max=2.0, limit=math.log2(5) + 0.01) == math.inf
    )


def test_finitely_many_radii_show_too_small_a_dimension_unless_the_limit_is_given():
    # the side 3/4 has N = 2^i at r = 3/4 2^-i, so c = 1 asks 2^i <= (4/3 2^i)^d: below 1 for every
    # i, 1 in the limit
    def covering(radius):
        return theory.covering_number(radius, (0.75,))

    finite = theory.covering_dimension(covering, c=1.0, d_max=0.75)
    assert finite == pytest.approx(31 * math.log(2) / math.log(2**31 / 0.75))
    assert finite < theory.covering_dimension(covering, c=1.0, d_max=0.75, limit=1) == 1


def test_theorem_the_doubling_dimension_counts_axes_and_bounds_the_covering():
    places = np.array(list(product(range(9), range(9))), float)
    apart = np.abs(places[:, None] - places[None, :]).max(axis=2)
    dimension = theory.doubling_dimension(apart)
    assert 2**dimension == pytest.approx(9)  # the points within 1 of a point, each at distance 1
    assert theory.doubling_dimension(1 - np.eye(8)) == 3  # any two are at distance 1
    assert theory.doubling_dimension([[0.0]]) == 0
    for i in range(1, 4):  # a greedy net of radius d_max 2^-i
        left, n_balls = np.ones(81, bool), 0
        while left.any():
            left &= apart[int(np.argmax(left))] > 8 * 0.5**i
            n_balls += 1
        assert n_balls <= 2 ** (dimension * i) * (1 + 1e-9)
    for wrong in ([1.0, 2.0], [[0, 1], [2, 0]], [[0, -1], [-1, 0]], [[1, 1], [1, 1]]):
        with pytest.raises(ConfigurationError, match="square matrix"):
            theory.doubling_dimension(wrong)


# The learning rate


@pytest.mark.parametrize("horizon", [1, 2, 5, 20])
@pytest.mark.parametrize("t", [1, 2, 3, 10, 60])
def test_lemma_learning_rate_weights(t, horizon):
    weights = [Fraction(0)] * (t + 1)
    weights[0] = Fraction(1)
    for j in range(1, t + 1):  # the update rule itself
        rate = Fraction(horizon + 1, horizon + j)
        weights = [(1 - rate) * weight for weight in weights]
        weights[j] = rate
    assert weights[0] == 0
    assert sum(weights) == 1
    assert max(weights) <= Fraction(2 * horizon, t)
    assert sum(weight**2 for weight in weights) <= Fraction(2 * horizon, t)
    mean = sum(float(weights[i]) / math.sqrt(i) for i in range(1, t + 1))
    assert 1 / math.sqrt(t) <= mean * (1 + 1e-12)
    assert mean <= 2 / math.sqrt(t)
    np.testing.assert_allclose(
        theory.learning_rate_weights(t, horizon), [float(w) for w in weights], rtol=1e-12, atol=0
    )
    assert theory.learning_rate(t, horizon) == pytest.approx(float(weights[t]))
    assert theory.learning_rate_weights(0, horizon).tolist() == [1.0]  # all on the initial value


@pytest.mark.parametrize("horizon", [2, 5])
@pytest.mark.parametrize("i", [1, 4, 9])
def test_lemma_the_weights_of_one_visit_sum_to_one_plus_one_over_h(i, horizon):
    sums = np.cumsum([theory.learning_rate_weights(t, horizon)[i] for t in range(i, 1500)])
    assert np.all(sums < 1 + 1 / horizon)
    assert sums[-1] == pytest.approx(1 + 1 / horizon, rel=1e-3)


def test_a_sample_weighs_more_than_lemma_e11_allows_once_two_children_inherit_it():
    # D = 1, H = 5: the root's only sample, in the plays of its two children (n = 1, 2, 3 before
    # each play)
    weight = 2 * sum(theory.learning_rate_weights(t, 5)[1] for t in (1, 2, 3))
    assert weight == pytest.approx(2 * (1 + 1 / 7 + 1 / 28))
    assert weight > 1 + 1 / 5


# The bonus


def test_the_bonus_adds_two_hoeffding_terms_and_four_lipschitz_terms():
    # 4 x 1 x 25 / 0.1 = 1000, log 1000 = 6.907755, its root 2.628261
    assert theory.iota(1, 25, 0.1) == pytest.approx(6.907755)
    assert theory.bonus(4, 1, 25, 0.1, lipschitz=3.0, d_max=2.0) == pytest.approx(
        (2 * 2.628261 + 4 * 3 * 2) / 2
    )
    # H = K = 5 keeps iota, and H^3 = 125
    assert theory.bonus(1, 5, 5, 0.1, lipschitz=0.0) == pytest.approx(2 * math.sqrt(125) * 2.628261)


# Balls


def test_lemma_a_ball_splits_at_four_to_its_depth_after_three_quarters_as_many_plays():
    depth, created = 0, 0
    for n_visits in range(1, 4**6 + 1):
        if n_visits >= (1 / 2**-depth) ** 2:
            assert theory.visits_per_depth(depth) == (created, n_visits)
            assert n_visits - created == (0.75 * 4**depth if depth else 1)
            depth, created = depth + 1, n_visits
    assert depth == 7


@pytest.mark.parametrize("depth", range(1, 10))
def test_lemma_the_plays_of_one_ball_sum_to_less_than_twice_its_inverse_radius(depth):
    first, last = theory.visits_per_depth(depth)
    total = sum(1 / math.sqrt(n) for n in range(first, last))  # n before the play
    assert total <= 8 / 7 * 2**depth
    assert max(1 / math.sqrt(n) for n in range(first, last)) <= 2 * 2**-depth


def most_balls(episodes: int) -> list[int]:
    """The largest partition of the interval after 1..K plays, over all ways to choose the ball
    that is played."""
    reachable, largest = {((0, 0),)}, []
    for _ in range(episodes):
        after = set()
        for balls in reachable:
            for ball in set(balls):
                depth, n_visits = ball[0], ball[1] + 1
                rest = list(balls)
                rest.remove(ball)
                rest += [(depth + 1, n_visits)] * 2 if n_visits >= 4**depth else [(depth, n_visits)]
                after.add(tuple(sorted(rest)))
        reachable = after
        largest.append(max(len(balls) for balls in reachable))
    return largest


def test_theorem_no_choice_of_balls_makes_a_larger_interval_partition():
    assert [theory.partition_size_bound(k, 1) for k in range(1, 27)] == most_balls(26)


def test_the_partition_bound_splits_the_coarsest_balls_first():
    # D = 2: 1 play splits the root, 4 x 3 the next, 16 x 12 the next: 205 plays make 64 balls; 48
    # plays more make 3 more
    sizes = {1: 4, 3: 4, 4: 7, 12: 13, 13: 16, 204: 61, 205: 64, 252: 64, 253: 67}
    assert {k: theory.partition_size_bound(k, 2) for k in sizes} == sizes
    # A finite set has no more balls than points.
    assert [theory.partition_size_bound(k, 0, c=12) for k in (1, 10**6)] == [12, 12]
    # At most 2 x 2^depth balls matter, each with 16 children: root 1, then 4 of depth 1 for 12
    # plays, 8 of depth 2 for 96.
    assert theory.partition_size_bound(109, 1, c=2.0, n_children=16) == 1 + 15 * (1 + 4 + 8)


@given(st.integers(1, 10**12), st.integers(1, 8))
def test_theorem_the_partition_grows_as_a_power_of_the_episodes(episodes, dimension):
    closed_form = (4 / 3 * (2 ** (dimension + 2) - 1) * episodes) ** (dimension / (dimension + 2))
    size = theory.partition_size_bound(episodes, dimension)
    assert size <= closed_form * (1 + 1e-9)
    assert size <= theory.partition_size_bound(episodes + 1, dimension)


def test_theorem_a_learning_agent_stays_below_the_partition_bound():
    agent = ReferenceQ(n_state=1, n_action=1, horizon=1, bonus=lambda t: 1 / math.sqrt(t), seed=3)
    rng = random.Random(0)
    for episode in range(1, 400):
        state = [rng.random()]
        action = agent.act(0, state)
        agent.update(0, state, action, 1 - abs(state[0] - action[0]), state)
        assert sum(1 for _ in agent.roots[0].active()) <= theory.partition_size_bound(episode, 2)


# Regret


def test_theorem_regret_bound_at_a_point_worked_out_by_hand():
    # H = 1, K = 16, iota = 9: 3 + 6 sqrt(288) + 96 kappa (3 + 2 x 0.5) 16^(3/4), kappa = 1.189207 x
    # 15/14
    delta = 64 * math.exp(-9)
    worked_out = 3 + 6 * 16.970563 + 96 * 1.189207 * 15 / 14 * 4 * 8
    assert theory.regret_bound(
        1, 16, 2, delta=delta, lipschitz=2, d_max=0.5, c=0.25
    ) == pytest.approx(worked_out, rel=1e-6)
    # H = 4, K = 4 keeps iota: sqrt(64 x 9) = 24; d = 0, c = 9: kappa = 1.5 sqrt 2, c^(1/2) = 3
    worked_out = 48 + 6 * math.sqrt(2 * 64 * 4 * 9) + 96 * 4 * (24 + 1) * 1.5 * 1.41421356 * 3 * 2
    assert theory.regret_bound(4, 4, 0, c=9, delta=delta) == pytest.approx(worked_out, rel=1e-6)


@pytest.mark.parametrize("dimension", [0, 0.11, 1, 2, 5])
def test_the_two_constants_of_the_bound_differ_by_192_over_96_kappa(dimension):
    derived, printed = (
        theory.regret_bound(3, 500, dimension, constant=one) for one in ("derived", "printed")
    )
    rest = 27 + 6 * math.sqrt(2 * 27 * 500 * theory.iota(3, 500))  # the terms without gamma
    kappa = 2 ** (1 / (dimension + 2)) * (1 + 1 / (2 * (2 ** (dimension + 1) - 1)))
    assert (printed - rest) / (derived - rest) == pytest.approx(2 / kappa)
    size = 500 ** ((dimension + 1) / (dimension + 2)) * (math.sqrt(27 * theory.iota(3, 500)) + 1)
    assert printed == pytest.approx(rest + 192 * 3 * size)


def infimum(weight, covering, d_max, factor=1.0, first=0):
    """The infimum of the paper by its definition, on a fine list of r0 < d_max 2^-first that has
    the points just above every radius."""
    radii_ = [d_max * 2.0**-i for i in range(25)]
    thresholds = [d_max * 2.0 ** (-20 * k / 4000) for k in range(first, 4000)]
    return min(
        weight * r0 / d_max + factor * sum(covering(r) * d_max / r for r in radii_ if r >= r0)
        for r0 in [*thresholds, *(r * (1 + 1e-12) for r in radii_[1:])]
    )


@pytest.mark.parametrize("episodes", [10, 333, 2000, 10**5])
@pytest.mark.parametrize(("covering", "d_max"), [
    (lambda r: theory.covering_number(r, (1, 1)), 1.0),
    (lambda r: theory.covering_number(r, (1, 0.01)), 1.0),
    (lambda r: theory.covering_number(r, (2, 1), "l1"), 3.0),
    (lambda r: 3.0, 0.5),
])  # fmt: skip
def test_theorem_the_refined_bound_takes_the_infimum_over_all_thresholds(episodes, covering, d_max):
    least = infimum(episodes, covering, d_max)
    log_term = math.log(4 * 3 * episodes / 0.1)
    root = math.sqrt(27 * log_term)
    worked_out = 27 + 6 * math.sqrt(54 * episodes * log_term)
    worked_out += 96 * 3 * (root + 2 * d_max) * min(least, episodes / 2)
    assert theory.metric_regret_bound(3, episodes, covering, 0.1, 2.0, d_max) == pytest.approx(
        worked_out, rel=1e-9
    )


@given(
    horizons, episode_counts, dimensions, st.floats(1, 50), deltas, lipschitz_constants,
    st.floats(0.1, 4),
)  # fmt: skip
def test_theorem_the_refined_bound_is_at_most_the_simple_one(
    horizon, episodes, dimension, slack, delta, lipschitz, d_max
):
    c = slack * d_max**dimension
    refined = theory.metric_regret_bound(
        horizon, episodes, power_law(c, dimension), delta, lipschitz, d_max
    )
    simple = theory.regret_bound(horizon, episodes, dimension, c, delta, lipschitz, d_max)
    assert refined <= simple * (1 + 1e-9)


def test_the_constant_of_the_simple_bound_is_attained():
    # K = 2 x 16^m is the worst case at d = 2: two thresholds tie
    covering = power_law(1.0, 2.0)
    ratio = theory.metric_regret_bound(1, 2 * 16**12, covering) / theory.regret_bound(
        1, 2 * 16**12, 2
    )
    assert 1 - 1e-6 < ratio <= 1


def test_theorem_a_thin_box_pays_for_one_dimension_while_the_balls_are_coarse():
    thin = theory.metric_regret_bound(1, 2000, lambda r: theory.covering_number(r, (1, 0.01)))
    assert thin == theory.metric_regret_bound(1, 2000, lambda r: theory.covering_number(r, (1,)))
    assert thin < theory.metric_regret_bound(1, 2000, lambda r: theory.covering_number(r, (1, 1)))


def test_theorem_discrete_regret_at_a_point_worked_out_by_hand():
    # H = 4, K = 4, iota = 9, SA = 6: 3 x 16 x 4 + 6 sqrt(2 x 64 x 36) + 48 sqrt(1024 x 6 x 36)
    bound = theory.discrete_regret_bound(4, 4, n_states=2, n_actions=3, delta=64 * math.exp(-9))
    assert bound == pytest.approx(192 + 6 * 67.882251 + 48 * 470.302031)


@given(horizons, st.integers(1, 10**12), dimensions, st.floats(1, 100), deltas)
def test_the_lower_bound_lies_below_the_upper_bound(horizon, episodes, dimension, c, delta):
    low = theory.lower_bound(horizon, episodes, dimension, c)
    assert low < theory.regret_bound(horizon, episodes, dimension, c, delta, lipschitz=0.0)
    assert theory.lower_bound(horizon, episodes, dimension, c, constant=0.5) == pytest.approx(
        low / 2
    )


def test_theorem_the_lower_bound_in_dimension_zero_is_the_tabular_one():
    assert theory.lower_bound(4, 100, 0, c=2 * 8) == 8 * math.sqrt(16 * 100)


@pytest.mark.parametrize("episodes", [2, 10, 333, 10**5])
@pytest.mark.parametrize("covering", [
    lambda r: theory.covering_number(r, (1, 1)),
    lambda r: theory.covering_number(r, (1, 0.01)),
    lambda r: 3.0,
])  # fmt: skip
def test_theorem_the_metric_lower_bound_takes_the_infimum_over_all_thresholds(episodes, covering):
    # As printed: the infimum over r0 < 1 of K r0 + log(K) sum N_r / r, then divided by log(K).
    log_term = math.log(episodes)
    printed = infimum(episodes, covering, 1.0, log_term, first=1)
    assert theory.metric_lower_bound(1, episodes, covering) == pytest.approx(
        printed / log_term, rel=1e-9
    )
    assert theory.metric_lower_bound(6, episodes, covering, 0.5) == pytest.approx(
        3 * printed / log_term, rel=1e-9
    )
    assert theory.metric_lower_bound(1, episodes, covering) < theory.metric_regret_bound(
        1, episodes, covering
    )


@given(horizons, st.integers(2, 10**9), dimensions, st.floats(1, 100), lipschitz_constants)
def test_theorem_with_its_delta_the_failures_cost_no_more_than_the_rate_of_the_bound(
    horizon, episodes, dimension, c, lipschitz
):
    delta = theory.expected_regret_delta(episodes, dimension)
    assert delta ** (dimension + 2) == pytest.approx(1 / episodes)
    rate = horizon * episodes ** theory.regret_exponent_bound(dimension)
    assert delta * horizon * episodes == pytest.approx(rate)
    sure = theory.regret_bound(horizon, episodes, dimension, c, delta, lipschitz)
    assert theory.expected_regret_bound(
        horizon, episodes, dimension, c, lipschitz
    ) == pytest.approx(sure + rate)
    assert rate < sure


# Sample size


@pytest.mark.parametrize(("horizon", "epsilon", "delta"), [(1, 0.5, 0.5), (2, 1.0, 0.9)])
def test_theorem_pac_episodes_is_the_first_that_markov_allows(horizon, epsilon, delta):
    episodes = theory.pac_episodes(horizon, epsilon, delta, dimension=0, c=2.0)

    def failure_probability(k):  # (bound + failure x H K) / (K epsilon), written out
        failure = delta * epsilon / (2 * horizon)
        root = math.sqrt(horizon**3 * math.log(4 * horizon * k / failure))
        bound = 3 * horizon**2 + 6 * math.sqrt(2 * k) * root
        bound += 96 * horizon * 3 * math.sqrt(k) * (root + 1)
        return (bound + failure * horizon * k) / (k * epsilon)

    # kappa sqrt(c) = 1.5 sqrt(2) sqrt(2) = 3
    assert failure_probability(episodes) <= delta * (1 + 1e-12)
    assert failure_probability(episodes - 1) >= delta * (1 - 1e-12)
    assert failure_probability(0.999 * episodes) > delta


def test_pac_episodes_scale_as_epsilon_to_the_minus_dimension_minus_two():
    few, many = (theory.pac_episodes(2, epsilon, 0.1, dimension=1) for epsilon in (1e-2, 1e-4))
    assert math.log(many / few) / math.log(100) == pytest.approx(3, rel=0.1)


# Lipschitz constants


@pytest.mark.parametrize("seed", range(5))
def test_theorem_q_is_lipschitz_when_the_kernel_is_in_total_variation(seed):
    rng, n_points, horizon = np.random.default_rng(seed), 4, 6
    kernel, reward = rng.dirichlet(np.ones(n_points), size=(n_points, 2)), rng.random((n_points, 2))
    kernel, reward = (0.2 * kernel + 0.8 * kernel[:1, :1]), reward / 10
    rows, rewards = kernel.reshape(-1, n_points), reward.ravel()  # all pairs at distance 1
    l_kernel = 0.5 * np.abs(rows[:, None] - rows[None]).sum(axis=2).max()
    bound = theory.lipschitz_of_q(horizon, l_kernel, np.ptp(rewards))
    value = np.zeros(n_points)
    for _ in range(horizon):
        q_value = reward + kernel @ value
        assert np.ptp(q_value) <= bound
        value = q_value.max(axis=1)


@pytest.mark.parametrize(("stretch", "slope"), [(0.5, 1.0), (1.0, 2.0), (3.0, 0.25), (0.0, 1.0)])
def test_theorem_a_linear_system_attains_the_wasserstein_constant(stretch, slope):
    def q_star(step, x):  # x' = stretch x and r = slope x, whatever the action
        return 0.0 if step == 4 else slope * x + q_star(step + 1, stretch * x)

    assert theory.lipschitz_of_q(4, stretch, slope, "wasserstein") == pytest.approx(
        q_star(0, 1.0) - q_star(0, 0.0)
    )


def test_a_long_horizon_is_summed_in_closed_form():
    exact = sum(0.999**i for i in range(2000))
    assert theory.lipschitz_of_q(2000, 0.999, 1.0, "wasserstein") == pytest.approx(exact)
    assert theory.lipschitz_of_q(10**9, 1.0, 2.0, "wasserstein") == 2e9


# Bad input


def test_theorem_the_bound_of_a_nested_scheme_at_a_point_worked_out_by_hand():
    iota, one = math.log(4 * 2 * 100 / 0.1), lambda r: 1.0
    bonuses = 96 * 2 * (math.sqrt(8 * iota) + 3.0)  # L c2 / 2 = 3
    rest = 3 * 4 + 6 * math.sqrt(2 * 8 * 100 * iota)
    # The least of 100 r0 / (2 c1) + sum of c2 / r is at r0 = 1/4: 100 / 4 / 1 + 3 (1 + 2 + 4).
    for c1, n_regions, size in ((0.5, None, 46.0), (0.5, 9, 30.0), (0.01, None, 50.0)):
        found = theory.nested_regret_bound(2, 100, one, c1, 3.0, 0.1, 2.0, n_regions=n_regions)
        assert found == pytest.approx(rest + bonuses * size, rel=1e-12)
    # A scheme of balls: the radii between those of balls cost at most a factor 2.
    covering = lambda r: theory.covering_number(r, (1, 1))  # noqa: E731
    nested = [theory.nested_regret_bound(2, 10**6, covering, c1) for c1 in (0.5, 0.25, 0.1)]
    ours = theory.metric_regret_bound(2, 10**6, covering)
    assert ours <= nested[0] < min(2 * ours, nested[1]) < nested[2]
    for wrong in ({"c1": 1.2}, {"c1": 0.0}, {"n_regions": 0}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            theory.nested_regret_bound(2, 100, one, **wrong)


@pytest.mark.parametrize(("call", "rule"), [
    (lambda: theory.covering_number(0, (1,)), "radius=0"),
    (lambda: theory.covering_number(1, ()), "at least one side"),
    (lambda: theory.covering_number(1, (1,), "l3"), "choose one of linf, l1, l2, discrete"),
    (lambda: theory.packing_number(0.5, (1.5, 2), "discrete"), "whole number"),
    (lambda: theory.covering_dimension(lambda r: 0, c=1.0), "at least 1"),
    (lambda: theory.learning_rate_weights(-1, 5), "t=-1"),
    (lambda: theory.iota(5, 0), "episodes=0"),
    (lambda: theory.iota(5, 10, 1.0), "delta=1.0"),
    (lambda: theory.bonus(1, 5, 10, lipschitz=-1), "lipschitz=-1"),
    (lambda: theory.partition_size_bound(10, 2, n_children=0), "n_children=0"),
    (lambda: theory.regret_exponent_bound(-0.5), "dimension=-0.5"),
    (lambda: theory.regret_bound(5, 10, 2, c=3.0, d_max=2.0), "must allow one ball"),
    (lambda: theory.metric_regret_bound(5, 10, lambda r: math.inf), "finite and at least 1"),
    (lambda: theory.discrete_regret_bound(5, 10, 0, 2), "n_states=0"),
    (lambda: theory.metric_lower_bound(5, 10, lambda r: 1, constant=0), "constant=0"),
    (lambda: theory.metric_lower_bound(5, 1, lambda r: 1),
     "episodes=1 must be a whole number >= 2"),
    (lambda: theory.regret_bound(5, 10**400, 2), "episodes must be at most 2.1000"),
    (lambda: theory.iota(10**400, 5), "horizon must be at most 2.53"),
    (lambda: theory.learning_rate_weights(10**400, 5), "t must be at most 100,000,000"),
    (lambda: theory.diameter((10**400, 1)), "must be a finite number > 0"),
    (lambda: theory.lipschitz_of_q(10**9, 2, 1, "wasserstein"), "is beyond floating point"),
    (lambda: theory.regret_bound(5, 10, 2, constant="proved"),
     "choose one of 'derived', 'printed'"),
    (lambda: theory.pac_episodes(5, 6.0, 0.1, 2), "at most H = 5"),
    (lambda: theory.pac_episodes(5, 1.0, 0.0, 2), "delta=0.0"),
    (lambda: theory.pac_episodes(5, 0.01, 0.01, 200), "more than 2\\^900"),
    (lambda: theory.lipschitz_of_q(5, 1, 1, "hellinger"), "kind='hellinger'"),
])  # fmt: skip
def test_bad_input_is_refused_with_the_rule(call, rule):
    with pytest.raises(ConfigurationError, match=rule):
        call()
