"""Pictures: what is drawn is what is in the data."""

import math
import sys

import gymnasium as gym
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import helpers
import zooming
from helpers import Boxes
from zooming import plots
from zooming.analysis.intervals import mean_interval
from zooming.partitions.view import Partition
from zooming.plots import curves
from zooming.plots.curves import bin_edges


@pytest.fixture(autouse=True)
def close_figures():
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before  # no picture may change how the user's own look


@pytest.fixture(scope="module")
def agent():
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(300)
    return agent


@pytest.fixture(scope="module")
def optimal():
    return zooming.solve(gym.make("zooming/Oil-v0"), resolution=20)


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- partitions and policies ----------------------------------------------------------------------


def test_a_partition_draws_every_ball_in_its_color(agent):
    balls = agent.partition(1)
    ax = balls.plot()
    (drawn,) = [c for c in ax.collections if len(c.get_paths()) == len(balls)]
    assert drawn.get_array().tolist() == balls.q_value.tolist()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("state", "action")
    assert ax.get_xlim() == ax.get_ylim() == (0.0, 1.0)


def test_a_partition_over_the_optimum_draws_its_borders_over_q_star(agent, optimal):
    balls = agent.partition(1)
    ax = balls.plot(optimal=optimal, n=11, limits=(0.0, 4.0))
    mesh, borders = ax.collections
    truth = [
        [optimal.q_value(1, [x], [a]) for x in np.linspace(0, 1, 11)] for a in np.linspace(0, 1, 11)
    ]
    assert np.asarray(mesh.get_array()).reshape(11, 11) == pytest.approx(np.array(truth))
    assert mesh.get_clim() == (0.0, 4.0)
    assert len(borders.get_paths()) == len(balls)
    assert "over Q*" in ax.get_title()


def test_a_slice_of_more_dimensions_draws_the_balls_it_cuts():
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", n_ambulances=2), seed=0)
    agent.learn(300)
    balls = agent.partition(0)
    ax = balls.plot(axes=(2, 3), at={0: 0.1, 1: 0.9})
    boxes = [path.get_extents() for path in ax.collections[0].get_paths()]
    assert sum(box.width * box.height for box in boxes) == pytest.approx(
        1.0
    )  # a slice of a partition is a partition
    assert ax.get_xlabel() == "action[0]"
    for options, message in (
        (
            {"axes": (0, 9)},
            r"axes: no axis is named 9; the axes are state\[0\], state\[1\], action\[0\]",
        ),
        (
            {"axes": ("state[0]", "acton[0]")},
            r"axes: no axis is named 'acton\[0\]'; did you mean 'action\[0\]'\?",
        ),
        ({"axes": (1, 1)}, "two different axes"),
        ({"at": [0.5]}, "give {axis: value} for"),
        (
            {"at": {"state[2]": 0.5}},
            r"at: no axis is named 'state\[2\]'; did you mean 'state\[1\]'\? the axes are",
        ),
        ({"at": {"state[1]": 1.5}}, r"at: state\[1\] = 1.5 is outside \[0, 1\]"),
        ({"at": {"state[1]": "here"}}, r"at: state\[1\] = 'here' is not a number"),
        (
            {"at": {"state[0]": 0.5}},
            r"at: state\[0\] is one of the axes that are drawn; leave it out of at=",
        ),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            balls.plot(**options)


def test_an_axis_without_an_end_is_drawn_a_little_beyond_its_last_border():
    inf = math.inf
    low, high = (
        np.array([[-inf, 0.0], [0.0, 0.0], [2.0, 0.0]]),
        np.array([[0.0, 1.0], [2.0, 1.0], [inf, 1.0]]),
    )
    numbers = np.array([1, 2, 3])
    balls = Partition(
        low, high, numbers + 0.0, numbers, numbers, 0.5**numbers, ("state[0]", "action[0]"), 0
    )
    ax = balls.plot()
    assert (ax.get_xlim(), ax.get_ylim()) == ((-1.0, 3.0), (0.0, 1.0))
    ax.figure.canvas.draw()
    whole = Partition(
        np.full((1, 2), -inf), np.full((1, 2), inf), *[np.zeros(1, int)] * 4, balls.names, 0
    )
    assert whole.plot().get_xlim() == (-1.0, 1.0)


def test_a_policy_over_states_without_an_end_asks_for_limits(agent, monkeypatch):
    monkeypatch.setattr(agent.axes, "low", np.array([-math.inf, 0.0]))
    with pytest.raises(
        zooming.ConfigurationError, match=r"state\[0\] from -inf to 1.0: give limits"
    ):
        plots.policy(agent)
    assert plots.policy(agent, limits={"state": (0.2, 0.4)}).get_xlim() == (0.2, 0.4)


def test_a_policy_is_what_predict_says_at_each_step(agent, optimal):
    ax = plots.policy(agent, steps=(0, 3), optimal=optimal, n=21)
    lines = {line.get_label(): line for line in ax.lines}
    for step in (0, 3):
        line, best = lines[f"step {step}"], lines[f"_optimal {step}"]
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
            assert agent.predict([x], state=[step])[0][0] == y
        assert best.get_ydata().tolist() == [optimal.action(step, [x])[0] for x in best.get_xdata()]
        assert tuple(best.get_color()) == tuple(line.get_color())
        assert (best.get_linestyle(), line.get_linestyle()) == ("--", "-")
    assert texts(ax) == ["step 0", "step 3", "optimal"]
    assert ax.get_title() == "policy, 2 of 5 steps"


def test_a_policy_of_more_dimensions_is_a_slice_and_says_so():
    env = gym.make("zooming/Ambulance-v0", n_ambulances=2, horizon=40)
    agent = zooming.AdaptiveQ(env, seed=0)
    ax = plots.policy(agent, axes=(1, 2), at={0: 0.2}, n=5)
    assert ax.get_title() == "policy at state[0] = 0.2, 6 of 40 steps"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("state[1]", "action[0]")
    steps = texts(ax)
    assert steps == [f"step {step}" for step in (0, 8, 16, 23, 31, 39)]
    for options, message in (
        ({"axes": (9, 0)}, "axes: no axis is named 9"),
        (
            {"at": {"action[0]": 0.5}},
            r"at: no axis is named 'action\[0\]'; .*the axes are state\[0\], state\[1\]$",
        ),
        ({"axes": ("action[0]",)}, "name one or two different state axes"),
        ({"axes": ("state[0]", "state[0]")}, "name one or two different state axes"),
        ({"steps": []}, "steps is empty"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            plots.policy(agent, **options)


# --- where a picture cuts -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two():
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", n_ambulances=2), seed=0)
    agent.learn(500)
    return agent


def test_a_slice_goes_through_the_most_visited_ball_and_the_title_says_where(two):
    balls = two.partition(2)
    (busiest,) = np.flatnonzero(
        (balls.n_visits == balls.n_visits.max()) & (balls.depth == balls.depth.max())
    )
    center = (balls.low[busiest] + balls.high[busiest]) / 2
    assert balls.center().tolist() == center.tolist() != [0.5] * 4
    pair, point, shown = balls.slice()
    assert (pair, point.tolist(), bool(shown[busiest])) == ((0, 2), center.tolist(), True)
    text = f"cut at state[1] = {center[1]:.3g}, action[1] = {center[3]:.3g}"
    assert text in balls.plot().get_title()
    assert (
        balls.plot(at={"action[1]": 0.25})
        .get_title()
        .endswith(f"cut at state[1] = {center[1]:.3g}, action[1] = 0.25")
    )
    new = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", n_ambulances=2), seed=0)
    assert new.partition(0).center().tolist() == [0.5] * 4  # before any visit, the middle


def test_an_axis_without_weight_or_with_one_value_is_cut_and_not_drawn():
    class Shaped(gym.Env):
        observation_space = gym.spaces.Tuple([gym.spaces.Discrete(1), helpers.box((0, 1), (0, 1))])
        action_space = gym.spaces.Dict(
            {"gas": helpers.box((0, 1)), "gear": gym.spaces.Discrete(4, start=1)}
        )

    agent = zooming.AdaptiveQ(Shaped(), horizon=2, weights={"state[1][0]": 0}, seed=0)
    ax = agent.partition(0).plot(axes=None)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("state[1][1]", 'action["gas"][0]')
    assert ax.get_title().endswith('cut at state[0] = 0, state[1][0] = 0.5,\naction["gear"] = 2')
    ax = agent.partition(0).plot(axes=("state[1][1]", 'action["gear"]'))
    assert ax.get_yticks().tolist() == [1, 2, 3, 4]
    for at, message in (
        ({'action["gear"]': 2.5}, "= 2.5 is not a whole number from 1 to 4"),
        ({"state[0]": 1}, "from 0 to 0"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            agent.partition(0).plot(at=at)
    lines = plots.policy(agent)  # one state axis that matters
    assert [one.get_ylabel() for one in lines.ravel()] == ['action["gas"][0]', 'action["gear"]']
    assert lines[0, 0].get_title() == "policy at state[0] = 0, state[1][0] = 0.5"


def test_whole_axes_have_ticks_at_whole_numbers_only():
    for space, expected in (
        (gym.spaces.Discrete(5, start=-1), [-1, 0, 1, 2, 3]),
        (helpers.box((0, 500), dtype=np.int64), None),
    ):
        agent = zooming.AdaptiveQ(Boxes(space, space), horizon=2, ordered=True, seed=0)
        for ax in (agent.partition(0).plot(), plots.policy(agent)):
            ax.figure.canvas.draw()
            for axis in (ax.xaxis, ax.yaxis):
                texts_shown = [label.get_text() for label in axis.get_ticklabels()]
                assert [float(text.replace("−", "-")) for text in texts_shown] == pytest.approx(
                    axis.get_majorticklocs()
                )
                assert all(float(place).is_integer() for place in axis.get_majorticklocs())
                assert expected is None or axis.get_majorticklocs().tolist() == expected
                assert len(texts_shown) <= 12


# --- maps of a policy -----------------------------------------------------------------------------


def test_a_policy_over_two_states_is_a_map_for_each_step_and_action(two):
    found = plots.policy(two, steps=[0, 3], n=7)
    assert found.shape == (2, 2)
    places = np.linspace(0, 1, 7)
    for row, step in np.ndindex(2, 2):
        drawn = np.asarray(found[row, step].collections[0].get_array()).reshape(7, 7)
        states = np.array([[x, y] for y in places for x in places])
        played = two.predict(states, state=np.full(49, (0, 3)[step]))[0]
        assert drawn.ravel().tolist() == played[:, row].tolist()
    assert [one.get_title() for one in found[0]] == ["step 0", "step 3"]
    assert (found[1, 0].get_xlabel(), found[1, 0].get_ylabel()) == ("state[0]", "state[1]")
    assert found[0, 0].figure.get_suptitle() == "policy, 2 of 5 steps"
    one = plots.policy(two, steps=[1], axes=("state[1]", "state[0]", "action[1]"), n=5)
    assert (one.get_xlabel(), one.get_ylabel()) == ("state[1]", "state[0]")


def test_a_map_is_drawn_on_the_axes_that_are_given(two):
    figure, places = plt.subplots(1, 2, layout="constrained")
    found = plots.policy(two, places[0], steps=[0, 1], n=5)  # which is divided
    assert found.shape == (2, 2)
    assert {one.figure for one in found.ravel()} == {figure}
    assert not places[0].axison
    assert not figure.get_suptitle()  # a given figure may have a title of its own
    own = plt.subplots(2, 1)[1]
    assert plots.policy(two, own, steps=[0], n=5).ravel().tolist() == own.tolist()
    with pytest.raises(
        zooming.ConfigurationError, match="2 x 1 panels are needed; give that many Axes"
    ):
        plots.policy(two, plt.figure().add_axes((0, 0, 1, 1)), steps=[0], n=5)


def test_a_map_over_axes_without_ends_or_of_very_many_values_is_drawn_in_part():
    space = gym.spaces.Tuple(
        [helpers.box((-math.inf, math.inf)), helpers.box((0, 10**6), dtype=np.int64)]
    )
    agent = zooming.AdaptiveQ(Boxes(space, gym.spaces.Discrete(2)), horizon=1, squash=True, seed=0)
    with pytest.raises(
        zooming.ConfigurationError,
        match=r"state\[0\]\[0\] from -inf to inf: give limits=\{'state\[0\]\[0\]'",
    ):
        plots.policy(agent)
    ax = plots.policy(agent, limits={"state[0][0]": (-2.0, 2.0)}, n=5)
    assert (ax.get_xlim(), ax.get_ylim()) == ((-2.0, 2.0), (-0.5, 10**6 + 0.5))
    assert ax.collections[0].get_array().shape == (60, 5)
    assert agent.partition(0).cut(axes=("state[0]", "action")).point[1] == 500_000


def test_a_map_of_three_states_says_where_each_step_is_cut():
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", n_ambulances=3), seed=0)
    agent.learn(200)
    found = plots.policy(agent, axes=("state[0]", "state[1]", "action[2]"), steps=[0, 4], n=3)
    third = [agent.partition(step).center()[2] for step in (0, 4)]
    titles = [one.get_title() for one in found.ravel()]
    assert titles == [
        f"step {step}\ncut at state[2] = {x:.3g}" for step, x in zip((0, 4), third, strict=True)
    ]
    lines = plots.policy(agent, axes=("state[0]", "action[2]"), steps=[0, 4], n=5)
    where = [agent.partition(step).center() for step in (0, 4)]
    expected = [
        f"step {h}, state[1] = {x[1]:.3g}, state[2] = {x[2]:.3g}"
        for h, x in zip((0, 4), where, strict=True)
    ]
    assert texts(lines)[:2] == expected  # each step is cut where it plays


def test_a_map_of_discrete_states_has_a_cell_for_each_value():
    space, moves = gym.spaces.MultiDiscrete([3, 2]), gym.spaces.Discrete(2)
    agent = zooming.AdaptiveQ(Boxes(space, moves), horizon=1, seed=0)
    for _ in range(40):
        agent.update(0, [2, 1], 0, 0.0, [0, 0])
    ax = plots.policy(agent)
    assert ax.collections[0].get_array().shape == (2, 3)
    assert np.asarray(ax.collections[0].get_array())[1, 2] == 1 == agent.predict([2, 1])[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1"]
    many = zooming.AdaptiveQ(Boxes(gym.spaces.Discrete(60), moves), horizon=1, seed=0)
    assert {
        line.get_drawstyle() for line in plots.policy(many).lines if len(line.get_xdata()) == 60
    } == {"steps-mid"}


# --- curves ---------------------------------------------------------------------------------------


def test_learning_curves_show_the_mean_the_band_and_the_optimum(monkeypatch):
    returns = np.random.default_rng(0).random((5, 100))
    monkeypatch.setattr(curves, "N_BINS", 10)
    ax = plots.learning_curves({"ours": returns, "other": returns + 1}, optimum=4.0)
    binned = returns.reshape(5, 10, 10).mean(axis=2)
    assert ax.lines[0].get_ydata() == pytest.approx(binned.mean(axis=0))
    assert ax.lines[0].get_xdata().tolist() == [
        5.5 + 10 * i for i in range(10)
    ]  # of episodes 1 to 10, ...
    heights = ax.collections[0].get_paths()[0].vertices
    interval = mean_interval(binned[:, 3])
    at = heights[heights[:, 0] == 35.5][:, 1]
    assert (at.min(), at.max()) == pytest.approx((interval.low, interval.high))
    assert texts(ax) == ["ours", "other", "optimum 4"]
    assert ax.get_legend().get_title().get_text() == "mean and 95 % band, 5 seeds"
    assert ax.get_xlabel() == "episode (means over 10 episodes)"
    assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()


def test_a_history_draws_itself():
    history = zooming.History(np.arange(4.0), np.ones(4, int))
    ax = history.plot()
    assert ax.lines[0].get_ydata().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert ax.get_xlabel() == "episode"
    assert history.plot(ax) is ax
    assert not ax.collections  # one run has no band
    with pytest.raises(zooming.ConfigurationError, match="same number of episodes"):
        plots.learning_curves([history, history + history])
    with pytest.raises(zooming.ConfigurationError, match="at least one"):
        plots.learning_curves({})
    with pytest.raises(zooming.ConfigurationError, match="n_seeds, n_episodes"):
        plots.learning_curves([[1.0, math.nan]])
    named = plots.learning_curves({"ours": history})
    assert named.lines[0].get_ydata().tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(zooming.ConfigurationError, match="ax=1 is not an Axes"):
        plots.learning_curves(history, 1)
    for runs in (history, {"ours": [history]}):
        with pytest.raises(zooming.ConfigurationError, match="needs the optimum: give history"):
            plots.regret(runs)


@pytest.mark.parametrize(
    "episode",
    [np.arange(1, 8), np.arange(1, 1001), np.array([1, 2, 5, 60, 61, 99, 100]), np.array([1])],
)
@pytest.mark.parametrize("n_bins", [1, 3, 40])
def test_bins_cover_all_episodes_and_none_is_short(episode, n_bins):
    edges = bin_edges(episode, n_bins)
    ends = np.concatenate([[0], episode])[edges]
    assert (ends[0], ends[-1]) == (0, episode[-1])
    assert (np.diff(ends) >= episode[-1] / n_bins).all()


def test_regret_is_the_mean_over_the_seeds_on_both_scales():
    regrets = [zooming.Regret(np.diff(c * np.arange(1001.0) ** 0.75)) for c in (1.0, 2.0, 3.0)]
    ax = plots.regret({"ours": regrets, "one run": regrets[:1]})
    assert texts(ax) == ["ours", "one run"]
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(2.0 * 1000**0.75)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    linear = plots.regret(regrets, scale="linear")
    assert (linear.get_xscale(), linear.get_yscale()) == ("linear", "linear")
    assert linear.get_ylabel() == "realized regret R(K)"
    for arguments, message in (
        ({"groups": {"none": []}}, "same number of episodes"),
        ({"groups": regrets, "scale": "odd"}, "'log', 'linear'"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            plots.regret(**arguments)
    linear.figure.canvas.draw()  # what is typeset can be


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_regret_within_the_error_of_the_optimum_is_0_and_sets_no_axis(scale):
    episode = np.array([1, 1000, 2000])
    total = np.array([[5.0, 5000.0, 10000.0 - 9e-12], [5.0, 5000.0 - 9e-12, 10000.0]])
    best = plots.Runs(episode, total, np.ones((2, 3), int), np.ones(2, int), 5.0)
    assert (best.regret == 0).all()
    near = plots.Runs(episode, total - 1.5, best.n_balls, best.nbytes, 5.0, error=1e-3)
    assert (
        near.regret.round(9).tolist() == [[1.5, 1.5, 0.0]] * 2
    )  # after 2,000 episodes the optimum is known up to 2
    ax = plots.regret(
        {"best": best, "other": plots.Runs.of_returns(np.full((2, 2000), 4.0), 5.0)}, scale=scale
    )
    assert ax.get_ylim()[0] == (0.5 if scale == "log" else 0.0)
    assert 2000 < ax.get_ylim()[1] < 1e7
    alone = plots.regret({"best": best}, scale=scale)
    assert alone.get_yscale() == "linear"


def test_partition_sizes_are_the_mean_number_of_balls_after_each_episode():
    histories = [
        zooming.History(np.zeros(3), np.array(balls)) for balls in ([5, 8, 20], [5, 14, 20])
    ]
    ax = plots.partition_sizes({"ours": histories})
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert ax.lines[0].get_ydata().tolist() == [5.0, 11.0, 20.0]
    assert ax.get_ylim()[0] == 0


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: {"ours": [one]}])
def test_what_is_not_a_list_of_histories_is_refused(wrap):
    with pytest.raises(zooming.ConfigurationError, match="a list of History, one per seed"):
        plots.Runs.of_histories(wrap(zooming.History(np.ones(3), np.ones(3, int))))


def test_runs_of_histories_keep_returns_balls_bytes_and_the_optimum(agent, optimal):
    histories = zooming.learn_many(
        zooming.AdaptiveQ, gym.make("zooming/Oil-v0"), seeds=range(2), episodes=20
    )
    runs = plots.Runs.of_histories(histories, optimal)
    assert runs.regret[1] == pytest.approx(histories[1].regret(optimal).cumulative)
    assert runs.regrets()[1].per_episode == pytest.approx(histories[1].regret(optimal).per_episode)
    assert runs.n_balls[:, -1].tolist() == [history.agent.n_balls for history in histories]
    assert runs.nbytes.tolist() == [history.agent.nbytes for history in histories]


@pytest.mark.process
def test_a_study_can_be_drawn_from_its_folder(tmp_path):
    agents = ["adaptive-q", "net-q:spacing=0.5"]
    study = zooming.Study(["oil-laplace-1", "oil-quadratic-1"], agents, episodes=50, seeds=3)
    rows = study.run(tmp_path / "study", workers=1)
    runs = zooming.read_study(tmp_path / "study", "oil-quadratic-1")
    assert list(runs) == agents
    for row, ours in zip(rows[2:], runs.values(), strict=True):
        assert row.regret.mean == pytest.approx(ours.regret[:, -1].mean())
        assert row.n_balls == ours.n_balls[:, -1].mean()
        assert row.nbytes == ours.nbytes.mean()
    for draw in (plots.learning_curves, plots.regret, plots.partition_sizes):
        draw(runs).figure.canvas.draw()
    with pytest.raises(
        zooming.ConfigurationError, match="choose one of the study's, oil-laplace-1"
    ):
        zooming.read_study(tmp_path / "study")
    with pytest.raises(zooming.ConfigurationError, match="holds no study"):
        zooming.read_study(tmp_path)


def test_names_with_dollar_signs_or_half_a_character_are_drawn_as_they_are():
    unit, names = helpers.box(*[(0.0, 1.0)] * 3), ["US$ x^{$", "$a^{$", "EUR", "price $y_{$", "tax"]
    goods = Boxes(unit, helpers.box((0, 1), (0, 1)))
    agent = zooming.AdaptiveQ(goods, horizon=2, names=names, seed=0)
    for axes in (None, names[:1], [names[0], names[3]]):  # maps, and lines with a legend
        np.ravel(plots.policy(agent, axes=axes))[0].figure.canvas.draw()
    half = gym.spaces.Dict({"\ud800 $x^{$": gym.spaces.Box(0.0, 1.0)})
    agent = zooming.AdaptiveQ(Boxes(half, unit), horizon=1, seed=0)
    agent.partition(0).plot().figure.canvas.draw()
    plots.learning_curves({"\ud800": [1.0, 2.0], "$^{$": [1.0]}).figure.canvas.draw()


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    history = zooming.History(np.ones(4), np.ones(4, int))
    with pytest.raises(ImportError, match=r"need matplotlib: pip install 'zooming\[lab\]'"):
        history.plot()


def test_values_of_discrete_sides_are_drawn_as_blocks_of_q_star():
    def climb(state, action, step, params, outcome, next_state):
        next_state[0] = min(4.0, max(0.0, state[0] + action[0]))
        return state[0] / 4.0

    for states in (gym.spaces.Discrete(5), gym.spaces.Box(0.0, 4.0, (1,), np.float64)):
        env = zooming.compiled_env(
            climb, states, gym.spaces.Discrete(3, start=-1), 2, start=2, outcomes=([0.0], [1.0])
        )
        optimal, agent = zooming.solve(env), zooming.AdaptiveQ(env, seed=0)
        agent.learn(50)
        ax = plots.partition(agent.partition(0), optimal=optimal, n=30)
        picture = ax.collections[0] if ax.collections else ax.images[0]
        drawn = np.ma.getdata(picture.get_array()).reshape(30, 30)
        assert len(np.unique(drawn.round(6), axis=0)) == 3  # actions
    plots.policy(agent, optimal=optimal)


# --- the look -------------------------------------------------------------------------------------


def test_a_policy_plot_of_no_agent_is_refused():
    with pytest.raises(zooming.ConfigurationError, match=r"draws the policy of an agent, .*{} is"):
        plots.policy({})
