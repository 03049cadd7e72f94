"""Spaces of every kind, nested and mixed: actions are in them, balls cover them, and the agent
agrees with the reference."""

import math
from fractions import Fraction

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import zooming
from helpers import Boxes, box
from oracles import Tables, UcbH
from references import ReferenceAxis, ReferenceMixedQ
from zooming import kernels
from zooming.agents.files.env import space_of
from zooming.spaces.axes import Axes

pytestmark = pytest.mark.kernels

UNIT = box((0, 1))

# --- random spaces --------------------------------------------------------------------------------


def intervals(dtype):
    return st.builds(
        lambda low, width, n: Box(low, low + width, (n,), dtype),
        st.integers(-5, 5), st.floats(0.5, 20, width=32), st.integers(1, 2),
    )  # fmt: skip


LEAVES = st.one_of(
    intervals(np.float32),
    intervals(np.float64),
    st.builds(lambda low, width: Box(low, low + width, (1,), np.int16), st.integers(-9, 9),
        st.integers(0, 9)),
    st.just(Box(0, 255, (1, 1), np.uint8)),
    st.builds(lambda n, start: Discrete(n, start=start), st.integers(1, 5), st.integers(-3, 3)),
    st.builds(lambda n: Discrete(n, dtype=np.int32), st.integers(1, 4)),
    st.builds(lambda nvec: MultiDiscrete(nvec), st.lists(st.integers(1, 3), min_size=1,
        max_size=2)),
    st.builds(lambda n: MultiBinary(n), st.integers(1, 2)),
    st.just(MultiDiscrete([[2], [3]], dtype=np.int32)),
)  # fmt: skip
SPACES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(st.lists(parts, min_size=1, max_size=2).map(Tuple),
        st.dictionaries(st.sampled_from(["gear", "b", "a c"]), parts, min_size=1,
        max_size=2).map(Dict)),
    max_leaves=3,
)  # fmt: skip
OPTIONS = st.fixed_dictionaries(
    {},
    optional={"ordered": st.just(True), "split": st.just("longest"), "action": st.just("uniform")},
)


def same(a, b):
    """Equal in structure, type, dtype, shape and value."""
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return (
            type(b) is tuple
            and len(a) == len(b)
            and all(same(x, y) for x, y in zip(a, b, strict=True))
        )
    return (type(a), a.dtype, a.shape, a.tobytes()) == (type(b), b.dtype, b.shape, b.tobytes())


def few(state_space, action_space, options):
    axes = Axes(state_space, action_space, ordered=options.get("ordered", False))
    return len(axes) <= 7 and math.prod(len(borders) + 1 for borders in axes.cells()) <= 2000


@settings(max_examples=50)
@given(state_space=SPACES, action_space=SPACES, options=OPTIONS, seed=st.integers(0, 99))
def test_every_action_is_in_the_space_and_credited_whatever_the_spaces(
    state_space, action_space, options, seed
):
    assume(few(state_space, action_space, options))
    agent = zooming.AdaptiveQ(Boxes(state_space, action_space), horizon=2, seed=seed, **options)
    state_space.seed(seed)
    state = state_space.sample()
    for i in range(12):
        action, after = agent.act(i % 2, state), state_space.sample()
        assert action in action_space
        assert same(action, agent.axes.shaped_action(agent.axes.flat_action(action)))
        assert type(action) is type(action_space.sample())
        n_visits = agent.visits(i % 2, state, action)
        agent.update(i % 2, state, action, 0.5, after)
        assert agent.visits(i % 2, state, action) == n_visits + 1
        for deterministic in (True, False):
            assert agent.predict(state, [i % 2], deterministic=deterministic)[0] in action_space
        state = after
    assert agent.table.fault() is None


@settings(max_examples=25)
@given(state_space=SPACES, action_space=SPACES, options=OPTIONS, seed=st.integers(0, 99))
def test_lemma_covering_every_point_of_a_mixed_space_is_in_exactly_one_domain(
    state_space, action_space, options, seed
):
    assume(few(state_space, action_space, options))
    agent = zooming.AdaptiveQ(Boxes(state_space, action_space), horizon=1, seed=seed, **options)
    for space in (state_space, action_space):
        space.seed(seed)
    for _ in range(20):
        state = state_space.sample()
        agent.update(0, state, agent.act(0, state), 0.5, state)
    balls = agent.partition(0)
    for _ in range(20):
        state, action = state_space.sample(), action_space.sample()
        here = np.concatenate([agent.axes.flat_state(state), agent.axes.flat_action(action)])
        holds = ((balls.low <= here) & ((here < balls.high) | (balls.high == agent.axes.ends))).all(
            axis=1
        )
        assert holds.sum() == 1
        ball = np.flatnonzero(holds)[0]
        assert (balls.q_value[ball], balls.n_visits[ball]) == (
            agent.q_value(0, state, action),
            agent.visits(0, state, action),
        )


@pytest.mark.plain
@settings(max_examples=25)
@given(space=SPACES, seed=st.integers(0, 99))
def test_a_space_survives_its_description(space, seed):
    again = space_of(Axes(space, space).states.describe())
    assert again == space
    space.seed(seed)
    sample = space.sample()
    assert sample in again
    axes = Axes(space, space)
    assert same(sample, axes.shaped_action(axes.flat_action(sample)))


# --- against the reference ------------------------------------------------------------------------

AXES = st.builds(
    lambda kind, n, weight: (kind, n, weight),
    st.sampled_from(["interval", "interval", "ordered", "categorical"]),
    st.integers(1, 6),
    st.sampled_from([1.0, 1.0, 0.5, 0.3, 2.0, 0.0]),
)


def as_space(axes):
    return Tuple([UNIT if kind == "interval" else Discrete(n) for kind, n, _ in axes])


@st.composite
def points(draw, axes):
    grid = st.sampled_from([0.0, 0.5, 0.3, 0.77, 1.0]) | st.floats(0, 1)
    return tuple(
        np.array([draw(grid)]) if kind == "interval" else np.int64(draw(st.integers(0, n - 1)))
        for kind, n, _ in axes
    )


def unit(point, axes):
    return [
        float(value[0]) if kind == "interval" else Fraction(2 * int(value) + 1, 2 * n)
        for value, (kind, n, _) in zip(point, axes, strict=True)
    ]


@pytest.mark.plain
@settings(max_examples=25 if kernels.IS_JIT_DISABLED else 50)
@given(
    states=st.lists(AXES, min_size=1, max_size=2),
    actions=st.lists(AXES, min_size=1, max_size=2),
    split=st.sampled_from(["all", "longest", "variance", "median"]),
    data=st.data(),
)
def test_every_ball_of_a_mixed_space_agrees_with_the_reference(states, actions, split, data):
    axes = [*states, *actions]
    assume(any(weight for _, _, weight in axes))
    env = Boxes(as_space(states), as_space(actions))
    named = Axes(env.observation_space, env.action_space).names
    ordered = [name for name, (kind, _, _) in zip(named, axes, strict=True) if kind == "ordered"]
    options = {"split": split, "horizon": 2, "bonus": 0.3}
    given_axes = [
        ReferenceAxis(0 if kind == "interval" else n, kind == "categorical", weight)
        for kind, n, weight in axes
    ]
    sizes = given_axes, len(states), 2
    reference = ReferenceMixedQ(*sizes, lambda t: 0.3 / math.sqrt(t), split=split)
    options |= {"ordered": ordered, "weights": [w for _, _, w in axes]}
    agent = zooming.AdaptiveQ(env, seed=0, **options)
    centers = data.draw(
        st.lists(st.tuples(points(states), points(actions)), min_size=1, max_size=4)
    )
    for _ in range(data.draw(st.integers(1, 50))):
        (state, action), (after, _) = (data.draw(st.sampled_from(centers)) for _ in range(2))
        step, reward = data.draw(st.integers(0, 1)), data.draw(st.floats(0, 1))
        agent.update(step, state, action, reward, after)
        reference.update(
            step, unit(state, states), unit(action, actions), reward, unit(after, states)
        )
        assert agent.value(step, state) == pytest.approx(
            reference.value(step, unit(state, states)), rel=1e-12
        )
    assert agent.n_balls == reference.n_balls
    for step in range(2):
        rows, low, high = agent.table.boxes(step)
        ours, theirs = {}, {}
        for row, a, b in zip(agent.table.rows[rows], low, high, strict=True):
            ours[tuple(np.round([*a, *b], 9))] = row["n_visits"], row["value"]
        for ball in reference.roots[step].active():
            place = tuple(np.round([float(x) for x in (*ball.low, *ball.high)], 9))
            theirs[place] = ball.n_visits, pytest.approx(ball.q_value, rel=1e-12)
        assert ours == theirs


# --- the discrete metric --------------------------------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize(
    ("n_states", "n_actions", "seed"), [(3, 2, 0), (5, 4, 1), (1, 7, 2), (6, 3, 3)]
)
def test_on_the_discrete_metric_it_is_ucb_h_of_jin_et_al_trajectory_for_trajectory(
    n_states, n_actions, seed
):
    env, episodes = Tables(n_states, n_actions, 4, seed), 20 if kernels.IS_JIT_DISABLED else 300
    agent = zooming.AdaptiveQ(env, horizon=4, bonus=0.7, cap="horizon", ties="first", seed=0)
    assert agent.n_balls == 4 * n_states * n_actions
    UcbH(n_states, n_actions, 4, c=0.7).compare(agent, env, episodes, seed)
    assert agent.n_balls == 4 * n_states * n_actions  # a ball of diameter 0 never splits


@pytest.mark.plain
def test_ordered_values_split_until_they_are_atoms_and_never_further():
    agent = zooming.AdaptiveQ(
        Boxes(Discrete(1), Discrete(5)), ordered=True, horizon=1, bonus=0.0, seed=0
    )
    assert agent.n_balls == 1
    for _ in range(40):
        for action in range(5):
            agent.update(0, 0, action, action / 4, 0)
    balls = agent.partition(0)
    assert sorted(zip(balls.low[:, 1].tolist(), balls.high[:, 1].tolist(), strict=True)) == [
        (k - 0.5, k + 0.5) for k in range(5)
    ]
    assert (balls.radius == 0).all()
    assert [agent.q_value(0, 0, action) for action in range(5)] == sorted(
        agent.q_value(0, 0, action) for action in range(5)
    )


@pytest.mark.plain
def test_too_many_categories_are_refused_with_the_fix():
    message = r"of state, action make 4,000,000 balls over 1 steps.*ordered=\['action'\]"
    with pytest.raises(zooming.SpaceError, match=message):
        zooming.AdaptiveQ(Boxes(Discrete(2000), Discrete(2000)), horizon=1)
    env = Boxes(Discrete(2000), Discrete(2000))
    assert zooming.AdaptiveQ(env, horizon=1, ordered=["action"]).n_balls == 2000
    for make in (zooming.AdaptiveQ, zooming.NetQ):  # told before it takes any memory
        with pytest.raises(zooming.SpaceError, match="ordered="):
            make(Boxes(Discrete(10**12), Discrete(2)), horizon=1)
    with pytest.raises(zooming.SpaceError, match="max_balls=10 allows"):
        zooming.AdaptiveQ(Boxes(Discrete(4), Discrete(4)), horizon=1, max_balls=10)


# --- options --------------------------------------------------------------------------------------

CART = Box(np.array([-4.8, -np.inf, 0.0]), np.array([4.8, np.inf, np.inf]), dtype=np.float64)


@pytest.mark.plain
def test_bounds_clip_and_squash_bends_an_axis_without_ends():
    env = Boxes(CART, Dict({"gear": Discrete(3), "gas": box((0, 1))}))
    agent = zooming.AdaptiveQ(
        env, horizon=1, bounds={"state[1]": (-3, 3)}, squash={"state[2]": 10.0}, seed=0
    )
    far, end = np.array([0.0, 99.0, 5.0]), np.array([0.0, 3.0, 5.0])
    agent.update(0, far, agent.act(0, far), 0.5, far)
    assert agent.value(0, far) == agent.value(0, end)
    balls = agent.partition(0)
    assert balls.low.min(axis=0).tolist() == [-4.8, -3.0, 0.0, 0.0, -0.5]
    # The middle of a squashed axis is its scale.
    assert np.unique(balls.low[:, 2]).tolist() == [0.0, pytest.approx(10.0)]
    for bad in (np.nan, np.inf):
        for axis in range(3):
            point = end.copy()
            point[axis] = bad
            fault = "not finite" if axis == 2 else "outside"
            message = rf"state\[{axis}\] = {bad} is {fault}"
            with pytest.raises(zooming.TransitionError, match=message):
                agent.act(0, point)


@pytest.mark.parametrize("space", [
    Box(-np.inf, np.inf, (1,), np.float32),
    Box(2.0, np.inf, (1,)),
    Box(-np.inf, 2.0, (1,), np.float64),
])  # fmt: skip
def test_squashed_actions_are_finite_and_in_the_space(space):
    for make in (
        zooming.AdaptiveQ,
        zooming.Random,
        lambda env, **options: zooming.NetQ(env, spacing=0.2, **options),
    ):
        agent = make(Boxes(space, space), horizon=1, squash=5.0, seed=0)
        for _ in range(50):
            state = space.sample()
            action = agent.act(0, state)
            assert action in space
            assert np.isfinite(action).all()
            agent.update(0, state, action, 0.5, state)


@pytest.mark.plain
@pytest.mark.parametrize(("low", "high"), [(-np.inf, np.inf), (2.0, np.inf), (-np.inf, 2.0)])
def test_the_outer_balls_of_a_squashed_axis_have_no_end_and_the_picture_has_one(low, high):
    agent = zooming.AdaptiveQ(Boxes(Box(low, high, (1,)), UNIT), horizon=1, squash=5.0, seed=0)
    for _ in range(30):
        state = np.array([1.0 if high == 2.0 else 3.0])
        agent.update(0, state, agent.act(0, state), 0.5, state)
    balls = agent.partition(0)
    assert (balls.low[:, 0].min(), balls.high[:, 0].max()) == (low, high)
    assert (balls.low < balls.high).all()
    first, last = balls.window()
    assert np.isfinite([first, last]).all()
    assert last[0] - first[0] < 100  # twenty scales, not a million
    far = np.array([1e12 if high == np.inf else -1e12])
    assert (
        agent.visits(0, far, [0.5])
        in balls.n_visits[(balls.low[:, 0] == low) | (balls.high[:, 0] == high)]
    )


@pytest.mark.plain
@pytest.mark.parametrize("space", [
    Box(2**60, 2**60 + 1000, (1,), np.int64),
    Discrete(3, start=2**60),
    Discrete(2, start=-(2**52)),
])  # fmt: skip
def test_whole_numbers_beyond_what_floats_tell_apart_are_refused(space):
    for spaces in ((space, UNIT), (UNIT, space)):
        message = r"whole numbers of this size are not exact as floats.*below 2\^52"
        with pytest.raises(zooming.SpaceError, match=message):
            zooming.AdaptiveQ(Boxes(*spaces), horizon=1)
    largest = Box(2**52 - 9, 2**52 - 1, (1,), np.int64)
    agent = zooming.AdaptiveQ(Boxes(UNIT, largest), horizon=1, seed=0)
    for _ in range(60):
        action = agent.act(0, [0.5])
        assert action in largest
        agent.update(0, [0.5], action, 0.5, [0.5])


@pytest.mark.plain
def test_a_nested_space_without_parts_is_carried_along():
    space = Dict({"nothing": Dict({}), "none": Tuple([]), "here": Discrete(3), "x": UNIT})
    agent = zooming.AdaptiveQ(Boxes(space, space), horizon=1, seed=0)
    state = space.sample()
    action = agent.act(0, state)
    assert action in space
    agent.update(0, state, action, 0.5, state)
    assert agent.predict(state)[0] in space


@pytest.mark.plain
@pytest.mark.parametrize("squashed", [False, True])
def test_the_policy_of_an_own_agent_is_in_the_units_of_checked_transition(squashed):
    class Last(zooming.Agent):
        def act(self, step, observation, *, info=None):
            return self.axes.action_space.sample()

        def update(self, *transition, next_info=None):
            self.last = self.checked_transition(*transition)[1]

        def greedy(self, step, state):
            return self.last

    wide = Box(-np.inf, np.inf, (2,), np.float64) if squashed else box((-3, 5), (0, 9))
    space = Dict({"gear": Discrete(3, start=2), "gas": wide})
    agent = Last(Boxes(UNIT, space), horizon=1, squash=squashed)
    low, high = agent.axes.action_ends
    for _ in range(5):
        action = agent.act(0, [0.5])
        agent.update(0, [0.5], action, 0.5, [0.5])
        assert (low <= agent.last).all()
        assert (agent.last <= high).all()
        played = agent.predict([0.5])[0]
        assert played["gear"] == action["gear"]
        assert played["gas"].tolist() == pytest.approx(action["gas"].tolist(), rel=1e-9)
    agent.last = agent.last[:1]
    message = r"greedy gave an action of shape \(1,\); give the flat vector of 3 numbers"
    with pytest.raises(zooming.ConfigurationError, match=message):
        agent.predict([0.5])


@pytest.mark.plain
def test_an_axis_of_weight_0_is_never_cut():
    env = Boxes(Tuple([Discrete(3), UNIT]), UNIT)
    agent = zooming.AdaptiveQ(env, weights={"state": 0.0}, horizon=1, seed=0)
    assert agent.n_balls == 1
    for _ in range(30):
        state = (np.int64(1), np.array([0.3]))
        agent.update(0, state, agent.act(0, state), 0.5, state)
    balls = agent.partition(0)
    assert len(balls) > 2
    assert (balls.high - balls.low)[:, :2].tolist() == [[3.0, 1.0]] * len(balls)


WRONG = {
    "unknown axis": ({"bounds": {"stat[1]": (0, 1)}},
        r"bounds: no axis is named 'stat\[1\]'; did you mean 'state\[1\]'\? the axes are"),
    "bounds as a list": ({"bounds": [(0, 1)]}, r"bounds=.*give \{axis: \(low, high\)\}"),
    "bounds outside": ({"bounds": {"state[0]": (-9, 9)}},
        r"state\[0\]: \(-9.0, 9.0\) must be finite and lie within \[-4.8, 4.8\]"),
    "bounds of categories": ({"bounds": {"action": (0, 1)}},
        r"categories have no bounds; make it ordered=\['action'\]"),
    "ordered interval": ({"ordered": ["state"]}, r"ordered: state\[0\] is an interval"),
    "squash with ends": ({"squash": {"state[0]": 1.0}},
        r"state\[0\] runs from -4.8 to 4.8; only an unbounded axis"),
    "squash scale of an axis": ({"squash": {"state[1]": "wide"}},
        r"squash of state\[1\]: 'wide' is not a scale"),
    "too few weights": ({"weights": [1.0]},
        r"weights=\[1.0\]: give \{axis: weight\}, or one number for each of state\[0\]"),
    "negative weight": ({"weights": {"action": -1}},
        "weight of action: -1 is not a finite number >= 0"),
    "no weight": ({"weights": [0, 0, 0, 0]}, "every axis has weight 0"),
    "split": ({"split": "both"}, "split='both': choose one of 'all', 'longest'"),
}  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize(("options", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_told_with_the_fix(options, text):
    with pytest.raises(zooming.ConfigurationError, match=text):
        zooming.AdaptiveQ(Boxes(CART, Discrete(2)), horizon=1, **{"squash": True, **options})


# --- bad observations -----------------------------------------------------------------------------

NESTED = Dict({"gear": Discrete(3), "road": Tuple([box((0, 1)), MultiDiscrete([2, 4])])})
GOOD = {"gear": 1, "road": (np.array([0.5]), np.array([1, 3]))}
BAD = {
    "category": ({**GOOD, "gear": 3},
        r'step 0: (next )?state\["gear"\] = 3.0 is not a whole number from 0 to 2'),
    "deep": ({**GOOD, "road": (np.array([0.5]), np.array([1, -1]))},
        r'state\["road"\]\[1\]\[1\] = -1.0 is not a whole number from 0 to 3'),
    "interval": ({**GOOD, "road": (np.array([1.5]), np.array([1, 3]))},
        r'state\["road"\]\[0\]\[0\] = 1.5 is outside'),
    "missing key": ({"gear": 1},
        r"observation is \{'gear': 1\}; expected a dict with the keys \['gear', 'road'\]"),
    "short tuple": ({**GOOD, "road": (np.array([0.5]),)},
        r'observation\["road"\] is .*expected a tuple of 2 parts'),
    "shape": ({**GOOD, "road": (np.array([0.5]), np.array([1]))},
        r'observation\["road"\]\[1\] has shape \(1,\); expected \(2,\)'),
    "word": ({**GOOD, "gear": "first"}, r'observation\["gear"\] is not an array of'),
}  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize(("observation", "text"), BAD.values(), ids=BAD)
def test_an_observation_outside_its_space_is_refused_and_the_axis_named(observation, text):
    agent = zooming.AdaptiveQ(Boxes(NESTED, Discrete(2)), horizon=1, seed=0)
    for call in (
        lambda: agent.act(0, observation),
        lambda: agent.predict(observation),
        lambda: agent.update(0, observation, 1, 0.5, GOOD),
        lambda: agent.update(0, GOOD, 1, 0.5, observation),
    ):
        with pytest.raises(zooming.ZoomingError, match=text) as caught:
            call()
        assert str(caught.value).startswith("Boxes, step 0: ")
    assert str(caught.value).startswith("Boxes, step 0: next ")
    assert agent.visits(0, GOOD, 1) == 0


@pytest.mark.plain
@pytest.mark.parametrize("bad", [[1.5], [np.nan], [0.5, 0.5], "word"], ids=str)
def test_a_bad_next_state_is_reported_at_its_step_also_with_a_mask(bad):
    agent = zooming.AdaptiveQ(Boxes(UNIT, Discrete(2)), horizon=3, seed=0)
    for next_info in (None, {"action_mask": np.ones(2)}):
        said = r"^Boxes, step 1: next (state\[0\] = |observation )"
        with pytest.raises(zooming.ZoomingError, match=said):
            agent.update(1, [0.5], 1, 0.5, bad, next_info=next_info)
        message = r"^Boxes, step 1: (state\[0\] = |observation )"
        with pytest.raises(zooming.ZoomingError, match=message):
            agent.act(1, bad, info=next_info)
    with pytest.raises(zooming.ZoomingError, match=r"^Boxes, step 2: (state\[0\] = |observation )"):
        agent.predict(bad, [2])


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"squash": np.float32(2)}, {"squash": {"state[1]": np.float64(2), "state[2]": 3}},
     {"bounds": {"state[0]": iter((np.float32(0.25), 1))}, "squash": 2,
     "weights": iter([1, 1, np.int64(2), 1])}, {"ordered": (name for name in ["action"]),
     "squash": True}],
    ids=["float32", "mapping", "iterators", "names"],
)  # fmt: skip
def test_options_of_any_numeric_type_survive_save_and_load(options, tmp_path):
    env = Boxes(CART, Discrete(3))
    agent = zooming.AdaptiveQ(env, horizon=1, seed=0, **options)
    agent.save(tmp_path / "options.zoom")
    for again in (
        zooming.load(tmp_path / "options.zoom"),
        zooming.load(tmp_path / "options.zoom", env=env),
    ):
        assert again.axes.describe() == agent.axes.describe()
        assert again.axes.table.tobytes() == agent.axes.table.tobytes()
        for one in (again, agent):
            one.update(0, [0.5, 40.0, 7.0], 1, 0.5, [0.5, 40.0, 7.0])
        assert again.partition(0).low.tolist() == agent.partition(0).low.tolist()
        agent = zooming.load(tmp_path / "options.zoom", env=env)
