"""Every action is in the action space, and an action played from a ball is credited to that
ball, whatever the boxes."""

import typing
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import zooming
from helpers import AGENTS, KINDS, Boxes
from zooming.errors import SpaceError, TransitionError

PLAYERS = {
    "center": partial(zooming.AdaptiveQ, action="center"),
    "uniform": partial(zooming.AdaptiveQ, action="uniform"),
    "point": partial(zooming.NetQ.as_published, bonus=0.1, spacing=0.3),
}
EVERY_PLAYER = pytest.mark.parametrize("player", PLAYERS)
SHAPES = [(1,), (2,), (3,), (2, 1), (2, 2)]
DTYPES = [np.float32, np.float64]


@st.composite
def boxes(draw, shapes=SHAPES, widest=1e300, narrowest=1e-300, steepest=1.0):
    """A Box; widths run from `narrowest` to `widest`, and are at least `steepest` times the
    spacing of floats there."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(shapes))
    if dtype == np.float32:
        widest, narrowest = min(widest, 1e38), max(narrowest, 1e-38)
    n = int(np.prod(shape))
    numbers = (
        st.floats(-widest, widest) | st.floats(-10, 10) | st.sampled_from([0.0, -1.0, 0.1, 1e6])
    )
    widths = st.floats(narrowest, widest) | st.floats(0.01, 100)
    low = np.array([draw(numbers) for _ in range(n)]).astype(dtype)
    high = (low.astype(np.float64) + [draw(widths) for _ in range(n)]).astype(dtype)
    with np.errstate(over="ignore"):
        assume(np.isfinite(high).all())
        assume((high > low).all())
    width = high.astype(np.float64) - low
    assume((width <= 2 * widest).all())
    assume((width >= steepest * np.spacing(np.maximum(abs(low), abs(high)))).all())
    return gym.spaces.Box(low.reshape(shape), high.reshape(shape), dtype=dtype)


def point(space, share):
    """The point of a Box at `share` of every axis, in its dtype and shape."""
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    found = (low + np.reshape(share, space.shape) * (high - low)).astype(space.dtype)
    return np.clip(found, space.low, space.high)


def points(draw, space):
    """A point of a Box, often on its border."""
    shares = st.sampled_from([0.0, 1.0, 0.5]) | st.floats(0, 1)
    return point(space, [draw(shares) for _ in range(int(np.prod(space.shape)))])


def inner_points(draw, space):
    """A point well inside the balls of the first few splits and of a net of spacing 0.3."""
    return point(
        space, [(draw(st.integers(0, 7)) + 0.43) / 8 for _ in range(int(np.prod(space.shape)))]
    )


# --- actions --------------------------------------------------------------------------------------


@EVERY_PLAYER
@settings(max_examples=8)
@given(state_space=boxes(), action_space=boxes(), data=st.data())
def test_every_action_is_in_the_action_space(player, state_space, action_space, data):
    assume(int(np.prod(state_space.shape)) + int(np.prod(action_space.shape)) <= 6)
    agent = PLAYERS[player](
        Boxes(state_space, action_space), horizon=2, seed=data.draw(st.integers(0, 99))
    )
    for i in range(24):
        state = points(data.draw, state_space) if i % 4 == 0 else state_space.sample()
        action = agent.act(i % 2, state)
        assert action_space.contains(action)
        assert (action.dtype, action.shape) == (action_space.dtype, action_space.shape)
        agent.update(i % 2, state, action, 0.5, points(data.draw, state_space))
        for deterministic in (True, False):
            assert action_space.contains(
                agent.predict(state, [i % 2], deterministic=deterministic)[0]
            )


@EVERY_PLAYER
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_state", "n_action"), [(1, 3), (3, 1), (2, 2)])
def test_axes_with_bounds_of_their_own_are_not_confused(player, dtype, n_state, n_action):
    bounds = [(10.0**i, 2 * 10.0**i) for i in range(n_state + n_action)]  # no two axes overlap
    low, high = np.array(bounds, dtype).T
    spaces = [
        gym.spaces.Box(low[part], high[part], dtype=dtype)
        for part in (slice(n_state), slice(n_state, None))
    ]
    agent = PLAYERS[player](Boxes(*spaces), horizon=1, seed=0)
    for _ in range(50):
        state = spaces[0].sample()
        action = agent.act(0, state)
        assert spaces[1].contains(action)
        agent.update(0, state, action, 0.5, state)
    partition = agent.partition(0)
    assert (partition.low.min(axis=0) == low).all()
    assert np.allclose(partition.high.max(axis=0), high, rtol=1e-12)
    assert partition.names == tuple(
        [f"state[{i}]" for i in range(n_state)] + [f"action[{i}]" for i in range(n_action)]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_box_without_a_shape_is_one_axis(kind, dtype):
    space = gym.spaces.Box(-1.0, 2.0, (), dtype)
    agent, state = AGENTS[kind](Boxes(space, space), horizon=2, seed=0), np.array(0.25, dtype)
    action = agent.act(0, state)
    assert space.contains(action)
    agent.update(0, state, action, 0.5, state)
    assert space.contains(agent.predict(state)[0])
    assert agent.predict(np.array([0.0, 0.5, 1.0], dtype))[0].shape == (3,)


# --- credit ---------------------------------------------------------------------------------------


def ball_of(partition, state, action):
    """The index of the one active ball whose box holds (state, action)."""
    here = np.concatenate([np.ravel(state), np.ravel(action)]).astype(np.float64)
    ends = partition.high == partition.high.max(axis=0)
    slack = 1e-9 * (
        partition.high - partition.low
    )  # the box is in the environment's units, rounded
    inside = (here >= partition.low - slack) & (
        (here < partition.high - slack) | ends & (here <= partition.high + slack)
    )
    found = np.flatnonzero(inside.all(axis=1))
    assert len(found) == 1
    return found[0]


@EVERY_PLAYER
@settings(max_examples=8)
@given(state_space=boxes(steepest=2.0**14), action_space=boxes(steepest=2.0**14), data=st.data())
def test_an_action_is_credited_to_the_ball_it_was_played_from(
    player, state_space, action_space, data
):
    n_state = int(np.prod(state_space.shape))
    assume(n_state + int(np.prod(action_space.shape)) <= 5)
    agent = PLAYERS[player](
        Boxes(state_space, action_space), horizon=1, seed=data.draw(st.integers(0, 99))
    )
    for _ in range(20):
        state = inner_points(data.draw, state_space)
        before = agent.partition(0)
        action = agent.act(0, state)
        n_visits, ball = agent.visits(0, state, action), ball_of(before, state, action)
        flat = np.ravel(state)
        relevant = ((before.low[:, :n_state] <= flat) & (flat < before.high[:, :n_state])).all(
            axis=1
        )
        # It was played from a best ball.
        assert before.q_value[ball] == before.q_value[relevant].max()
        assert before.n_visits[ball] == n_visits
        agent.update(0, state, action, data.draw(st.sampled_from([0.0, 0.5, 1.0])), state)
        after = agent.partition(0)
        assert agent.visits(0, state, action) == n_visits + 1
        if len(after) == len(before):  # no split
            changed = np.flatnonzero(after.n_visits != before.n_visits)
            assert changed.tolist() == [ball]


@settings(max_examples=10)
@example(low=-1.0, width=2.0, spacing=0.1, dtype=np.float32)
@example(low=0.1, width=0.6, spacing=1 / 3, dtype=np.float32)
@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-2, 1e6),
    spacing=st.floats(0.05, 1.0),
    dtype=st.sampled_from(DTYPES),
)
@pytest.mark.parametrize("options", [{"points": "multiples"}, {}], ids=str)
def test_every_ball_of_a_net_is_credited_for_what_it_plays(options, low, width, spacing, dtype):
    """A corner lies on a border: rounded the wrong way it would be played for ever and never
    learned from."""
    assume(width > 2.0**14 * np.spacing(dtype(max(abs(low), abs(low + width)))))
    space = gym.spaces.Box(dtype(low), dtype(low + width), (1,), dtype)
    env = Boxes(gym.spaces.Box(0.0, 1.0, (1,)), space)
    agent = zooming.NetQ(env, horizon=1, spacing=spacing, bonus=0.0, seed=0, **options)
    n_cells = int(np.ceil(1 / spacing - 1e-9))
    for i in range(n_cells):  # every update lowers Q, so every cell of this state has its turn
        action = agent.act(0, [0.01])
        assert space.contains(action)
        assert agent.visits(0, [0.01], action) == 0, f"cell {i}"
        agent.update(0, [0.01], action, 0.0, [0.01])
    assert sorted(agent.partition(0).n_visits)[-n_cells:] == [1] * n_cells


# --- predictions in batches -----------------------------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_has_no_actions(kind):
    space = gym.spaces.Box(0.0, 1.0, (2,), np.float64)
    actions, steps = AGENTS[kind](Boxes(space, space), horizon=3, seed=0).predict(np.empty((0, 2)))
    assert actions.shape == (0, 2)
    assert steps.shape == (0,)


# --- names of axes --------------------------------------------------------------------------------


class Bakery(gym.Env):
    """A bakery whose environment names its axes. The state is (weekday, loaves left)."""

    observation_space = gym.spaces.Dict(
        {"left": gym.spaces.Box(0.0, 20.0), "day": gym.spaces.Discrete(7)}
    )
    action_space = gym.spaces.Discrete(5)
    metadata: typing.ClassVar = {"names": {'state["day"]': "weekday", "action": "loaves"}}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.day, self.left = 0, 10.0
        return self.seen(), {}

    def seen(self):
        return {"left": np.array([self.left], np.float32), "day": self.day}

    def step(self, action):
        self.day = (self.day + 1) % 7
        self.left = float(np.clip(self.left + 2 * int(action) - self.np_random.poisson(4), 0, 20))
        return self.seen(), 0.1 * float(action), False, False, {}


NAMED = ["weekday", 'state["left"][0]', "loaves"]


def test_an_environment_names_its_axes_in_its_metadata():
    agent = zooming.AdaptiveQ(Bakery(), horizon=3, seed=0)
    assert agent.axes.names == NAMED
    assert agent.axes.paths == ['state["day"]', 'state["left"][0]', "action"]
    assert zooming.AdaptiveQ(Bakery(), horizon=3, names={}).axes.names == agent.axes.paths
    named = zooming.AdaptiveQ(Bakery(), horizon=3, names=["a", "b", "c"])
    assert named.axes.names == ["a", "b", "c"]


def test_options_take_names_and_paths_of_axes():
    for ordered in (["weekday", "loaves"], ['state["day"]', "action"]):
        agent = zooming.AdaptiveQ(Bakery(), horizon=3, ordered=ordered)
        assert agent.axes.kinds == ["ordered", "interval", "ordered"]


@pytest.mark.parametrize(("names", "message"), [
    (["a", "b"], "one name for each of"),
    (["a", "b", "A"], "a name of its own"),
    ({"state": "a"}, "several axes"),
    ({"pay": "a"}, "no axis is named 'pay'"),
    ({"action": "state[0]"}, "means other axes"),
    ({"action": "step"}, "another column of a log"),
    ({"action": "two\nlines"}, "give a text"),
    ({"action": "x" * 61}, "61 characters"),
])  # fmt: skip
def test_names_that_would_mislead_are_refused(names, message):
    with pytest.raises(SpaceError, match=message):
        zooming.AdaptiveQ(Bakery(), horizon=3, names=names)


@pytest.mark.kernels
def test_names_appear_in_rules_logs_plots_errors_and_files(tmp_path):
    env = Bakery()
    agent = zooming.Auto(env, horizon=3, ordered=["loaves"], seed=0)
    agent.learn(30)
    assert str(agent.explain(0)).splitlines()[1].split()[0] == "weekday"
    assert list(agent.status()["planner"]["axes"]) == NAMED
    assert agent.export(tmp_path / "policy.sql").read_text().count("AS loaves") == 1
    log = zooming.record(env, agent, 2, horizon=3)
    assert log.columns[2:5] == ["weekday", "state_left_0", "loaves"]
    assert zooming.AdaptiveQ(env, horizon=3).learn_from(log).n_rows == 6
    assert agent.to_log().columns == log.columns
    with pytest.raises(TransitionError, match="weekday = 9"):
        agent.act(0, {"day": 9, "left": [1.0]})
    ax = zooming.plots.policy(agent, steps=[0])
    assert np.ravel(ax)[0].get_xlabel() == "weekday"
    agent.save(tmp_path / "bakery.zoom")
    for place in (None, env):
        loaded = zooming.load(tmp_path / "bakery.zoom", place)
        assert (loaded.axes.names, loaded.axes.kinds) == (NAMED, agent.axes.kinds)
