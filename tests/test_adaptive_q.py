"""AdaptiveQ against the plain-Python reference, and against the laws of the paper."""

import math

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zooming
from oracles import agreeing, stay, unit_env
from reference import ReferenceQ
from zooming import bonuses, kernels

pytestmark = pytest.mark.kernels

# Coordinates near borders and corners are where a partition goes wrong, so they come up often.
coordinate = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, np.nextafter(0.5, 0)]), st.floats(0, 1)
)


@st.composite
def problems(draw, most_axes=5):
    n_axes = draw(st.integers(2, most_axes))
    n_state = draw(st.integers(1, n_axes - 1))
    horizon = draw(st.integers(1, 3))
    point = st.lists(coordinate, min_size=n_axes, max_size=n_axes)
    # A few centers, visited again and again, so that balls get deep.
    centers = draw(st.lists(point, min_size=1, max_size=4))
    picks = st.tuples(
        st.integers(0, horizon - 1),
        st.sampled_from(centers),
        st.sampled_from(centers),
        st.floats(0, 1),
        st.booleans(),
    )
    return n_state, n_axes - n_state, horizon, draw(st.lists(picks, min_size=1, max_size=60))


@pytest.mark.plain
@settings(max_examples=60)
@given(
    problem=problems(),
    cap=st.sampled_from(["remaining", "horizon"]),
    bonus=st.sampled_from(
        [0.0, 0.1, bonuses.Scaled(2.0), bonuses.Theory(episodes=100, delta=0.1, lipschitz=0.5)]
    ),
)
def test_every_ball_value_and_count_agrees_with_the_reference(problem, cap, bonus):
    n_state, n_action, horizon, transitions = problem
    agent = zooming.AdaptiveQ(unit_env(n_state, n_action, horizon), bonus=bonus, cap=cap, seed=0)
    scale = bonuses.as_bonus(bonus).scale(horizon, 1.0)
    reference = ReferenceQ(
        n_state, n_action, horizon, lambda t: scale / math.sqrt(t), full_cap=cap == "horizon"
    )
    for step, here, there, reward, terminated in transitions:
        transition = step, here[:n_state], here[n_state:], reward, there[:n_state], terminated
        agent.update(*(np.array(part) if isinstance(part, list) else part for part in transition))
        reference.update(*transition)
        assert agent.value(step, here[:n_state]) == pytest.approx(
            reference.value(step, here[:n_state]), rel=1e-12
        )
    agreeing(agent, reference)


@pytest.mark.plain
@settings(max_examples=40)
@given(problem=problems(most_axes=4), state=st.lists(coordinate, min_size=3, max_size=3))
def test_selection_finds_the_largest_q_and_first_breaks_ties_by_order(problem, state):
    n_state, n_action, horizon, transitions = problem
    env = unit_env(n_state, n_action, horizon)
    first, chance = (zooming.AdaptiveQ(env, ties=ties, seed=0) for ties in ("first", "random"))
    for step, here, there, reward, _ in transitions:
        for agent in (first, chance):
            agent.update(
                step,
                np.array(here[:n_state]),
                np.array(here[n_state:]),
                reward,
                np.array(there[:n_state]),
            )
    x = np.array(state[:n_state])
    for step in range(horizon):
        balls = first.partition(step)
        on_border = balls.high[:, :n_state] == 1.0
        inside = (balls.low[:, :n_state] <= x) & (
            (x < balls.high[:, :n_state]) | (on_border & (x == 1.0))
        )
        relevant = inside.all(axis=1)
        best = balls.q_value[relevant].max()
        tied = np.flatnonzero(relevant & (balls.q_value == best))
        centers = ((balls.low + balls.high) / 2)[tied, n_state:]
        played = first.act(step, x)
        assert (centers == played).all(axis=1).any()
        assert (
            first.q_value(step, x, played) == best == chance.q_value(step, x, chance.act(step, x))
        )
        # "first" is the first of the tied balls on the way from low to high actions, split by
        # split.
        assert played.tolist() == min(centers.tolist(), key=lambda c: _z_order(c))


def _z_order(point):
    return [
        bit
        for level in range(1, 18)
        for bit in (int(coordinate * 2**level) % 2 for coordinate in point)
    ]


@pytest.mark.plain
@pytest.mark.parametrize("width", [49.0, 0.3, 1e3, 7.1])
@pytest.mark.parametrize("low", [0.0, -0.1, 1234.5])
def test_lemma_covering_in_any_units_a_corner_belongs_to_the_ball_that_it_opens(low, width):
    box = gym.spaces.Box(low, low + width, (1,), np.float64)
    agent = zooming.AdaptiveQ(zooming.compiled_env(stay, box, box, 1, start=low), seed=0)
    rng = np.random.default_rng(0)
    for x, a in low + width * rng.random((60, 2)):
        agent.update(0, [x], [a], float(rng.random()), [x])
    balls = agent.partition(0)
    for corner, q, n in zip(balls.low, balls.q_value, balls.n_visits, strict=True):
        assert (
            agent.q_value(0, corner[:1], corner[1:]),
            agent.visits(0, corner[:1], corner[1:]),
        ) == (q, n)


@pytest.mark.plain
def test_random_ties_choose_every_tied_ball_about_equally():
    agent = zooming.AdaptiveQ(unit_env(1, 2), seed=1)
    agent.update(
        0, [0.3], [0.3, 0.3], 0.5, [0.3]
    )  # the root splits; its 8 halves tie, 4 are relevant for any state
    played = [tuple(agent.act(0, [0.1]).tolist()) for _ in range(2000)]
    counts = [played.count(action) for action in sorted(set(played))]
    assert len(counts) == 4
    assert min(counts) > 400  # 500 expected, standard deviation 19


# --- laws of the paper ----------------------------------------------------------------------------


def trained(env_id="zooming/Ambulance-v0", episodes=3000, **options):
    agent = zooming.AdaptiveQ(gym.make(env_id, **options), seed=3)
    agent.learn(episodes)
    return agent


@pytest.fixture(scope="module", params=[{}, {"n_ambulances": 2}], ids=["2-D", "4-D"])
def agent(request):
    return trained(**request.param)


def test_lemma_separation_centers_of_equal_radius_are_a_radius_apart(agent):
    for step in range(agent.horizon):
        balls = agent.partition(step)
        centers = (balls.low + balls.high) / 2
        for depth in np.unique(balls.depth):
            same = centers[balls.depth == depth]
            distance = np.abs(same[:, None] - same).max(axis=2) + np.eye(len(same))
            assert distance.min() >= 0.5**depth


def test_lemma_a_ball_is_created_with_and_splits_at_the_papers_number_of_visits(agent):
    for step in range(agent.horizon):
        balls = agent.partition(step)
        deep = balls.depth > 0
        assert (balls.n_visits[deep] >= 4 ** (balls.depth[deep] - 1)).all()
        assert (balls.n_visits[deep] < 4 ** balls.depth[deep]).all()


@pytest.mark.plain
def test_lemma_a_ball_of_depth_l_is_played_three_quarters_of_4_to_the_l_times():
    agent = zooming.AdaptiveQ(unit_env(1, 1), seed=0)
    n_updates, created = 0, [0]
    while agent.partition(0).depth.max() < 5:
        before = agent.partition(0).depth.max()
        agent.update(0, [0.1], [0.1], 0.5, [0.1])
        n_updates += 1
        if agent.partition(0).depth.max() > before:
            created.append(n_updates)
    assert created == [0, 1, 4, 16, 64, 256]
    assert np.diff(created[1:]).tolist() == [3 * 4**level // 4 for level in (1, 2, 3, 4)]


@pytest.mark.plain
def test_lemma_weights_of_single_visits_are_products_of_learning_rates():
    horizon, n = 3, 12
    rates = [(horizon + 1) / (horizon + t) for t in range(1, n + 1)]
    for i in range(n):
        agent = zooming.AdaptiveQ(
            unit_env(1, 1, horizon),
            bonus=0.0,
            max_balls=horizon,
            seed=0,
            steps_per_partition=1,
        )
        for t in range(n):
            agent.update(horizon - 1, [0.5], [0.5], float(t == i), [0.5])
        weight = rates[i] * math.prod(1 - rate for rate in rates[i + 1 :])
        assert agent.q_value(horizon - 1, [0.5], [0.5]) == pytest.approx(weight, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "d"), [({"arrivals": "uniform"}, 2), ({"n_ambulances": 2}, 4)])
def test_theorem_the_partition_grows_no_faster_than_k_to_the_d_over_d_plus_2(options, d):
    agent = trained(episodes=1, **options)
    sizes = []
    for k in (1_000, 10_000, 100_000):
        agent.learn(k - agent.n_episodes)
        sizes.append(max(len(agent.partition(step)) for step in range(agent.horizon)))
        assert sizes[-1] <= 2**d * k ** (
            d / (d + 2)
        )  # a ball of depth l needs 4^(l-1) plays; worst case: all depths full
    exponent = np.log(sizes[2] / sizes[0]) / np.log(100)
    assert exponent <= d / (d + 2) + 0.05


def test_invariant_inner_rows_hold_the_largest_value_below_them(agent):
    assert agent.table.fault() is None
    assert agent.table.rows_in_use == 2 * agent.n_balls - agent.horizon + agent.horizon % 2


@pytest.mark.plain
def test_negative_rewards_do_not_break_the_maximum():
    agent = zooming.AdaptiveQ(unit_env(1, 1, 2), reward_range=(-3.0, -1.0), bonus=0.0, seed=0)
    for reward in (-1.0, -2.0, -3.0):
        for step in (0, 1):
            agent.update(step, [0.5], [0.5], reward, [0.5])
    assert -6.0 <= agent.value(0, [0.5]) <= -1.0
    assert agent.value(1, [0.5]) < 0
    assert agent.act(0, [0.5]).shape == (1,)


@pytest.mark.plain
def test_published_form_starts_at_and_is_capped_by_the_horizon():
    env = unit_env(1, 1, 3)
    published = zooming.AdaptiveQ.as_published(env, bonus=0.5, seed=0)
    default = zooming.AdaptiveQ(env, seed=0)
    assert [published.value(step, [0.5]) for step in range(3)] == [3.0, 3.0, 3.0]
    assert [default.value(step, [0.5]) for step in range(3)] == [3.0, 2.0, 1.0]
    actions = np.array([published.act(0, [0.5])[0] for _ in range(500)])
    assert actions.std() == pytest.approx(math.sqrt(1 / 12), abs=0.03)
    assert default.act(0, [0.5]).tolist() == [0.5]


@pytest.mark.plain
def test_depth_stops_before_the_count_of_visits_overflows():
    agent = zooming.AdaptiveQ(unit_env(1, 1, 1), seed=0)
    agent.table.rows["n_visits"] = 2**32 - 2
    agent.table.rows["depth"] = 16
    agent.table.rows["due_at"] = kernels.due_at(2.0**-16)
    for _ in range(3):
        agent.update(0, [0.2], [0.2], 0.5, [0.2])
    assert agent.visits(0, [0.2], [0.2]) == 2**32 - 1
    assert agent.n_balls == 1


@pytest.mark.slow
def test_a_quarter_of_a_million_balls_work():
    env = gym.make("zooming/Ambulance-v0", n_ambulances=3, start="uniform")
    agent = zooming.AdaptiveQ(env, bonus=5.0, seed=0)
    while agent.n_balls < 250_000:
        agent.learn(20_000)
    assert agent.nbytes <= 64 * agent.n_balls
    assert agent.predict(np.full(3, 0.5))[0].min() >= 0


@pytest.mark.plain
@pytest.mark.parametrize(
    ("split", "max_balls", "n_balls"), [("all", 3, 3), ("all", 4, 4), ("longest", 2, 2)]
)
def test_a_split_may_reach_max_balls_and_not_exceed_them(split, max_balls, n_balls):
    agent = zooming.AdaptiveQ(unit_env(1, 1, 1), split=split, max_balls=max_balls, seed=0)
    for _ in range(10):
        agent.update(0, [0.5], [0.5], 0.5, [0.5])
    assert agent.n_balls == n_balls
