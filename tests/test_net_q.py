"""The net: the paper's spacing, its cells and points, and the same update rule."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, assert_drivers_agree, box, oil, play_alike
from zooming import kernels
from zooming.kernels.boxes import select as boxes

pytestmark = pytest.mark.kernels


@pytest.mark.plain
def test_the_papers_spacing_makes_500_balls():
    agent = zooming.NetQ(oil(), episodes=2000, seed=0)
    assert agent.spacing == pytest.approx(0.1)
    assert agent.n_balls == 500
    assert zooming.NetQ(oil(dims=2), episodes=2000, seed=0).spacing == pytest.approx(
        10_000 ** (-1 / 6)
    )


@pytest.mark.plain
@pytest.mark.parametrize(
    ("spacing", "n_cells", "dims"),
    [(1.0, 1, 1), (0.5, 2, 1), (0.1, 10, 1), (1 / 7, 7, 1), (0.3, 4, 1), (0.3, 4, 2), (1.0, 1, 2)],
)
def test_cells_are_uniform_and_cover(spacing, n_cells, dims):
    agent = zooming.NetQ(oil(dims=dims), spacing=spacing, seed=0)
    assert agent.n_balls == agent.horizon * n_cells ** (2 * dims)
    balls = agent.partition(2)
    assert np.prod(balls.high - balls.low, axis=1).sum() == pytest.approx(1.0)
    index = np.round(balls.low / spacing).astype(int)
    assert len(np.unique(index, axis=0)) == len(balls)
    assert (balls.low == index * spacing).all()
    assert (balls.radius == spacing).all()
    assert (
        balls.high == np.minimum(np.where(index + 1 == n_cells, 1.0, (index + 1) * spacing), 1.0)
    ).all()


class AuthorsNet:
    """The authors' net in plain Python: arrays over (step, state's point, action's point), the
    first of the best is played."""

    def __init__(self, horizon, spacing, scale):
        self.points, self.horizon, self.scale = np.arange(0, 1, spacing), horizon, scale
        self.q = np.full((horizon, len(self.points), len(self.points)), float(horizon))
        self.n = np.zeros(self.q.shape, int)

    def nearest(self, x):
        return int(np.argmin(abs(self.points - x)))

    def act(self, step, state):
        return [self.points[np.argmax(self.q[step, self.nearest(state[0])])]]

    def update(self, step, state, action, reward, next_state):
        cell = step, self.nearest(state[0]), self.nearest(action[0])
        self.n[cell] += 1
        rate = (self.horizon + 1) / (self.horizon + self.n[cell])
        is_last = step == self.horizon - 1
        best = 0.0 if is_last else self.q[step + 1, self.nearest(next_state[0])].max()
        value = min(self.horizon, best)
        bonus = self.scale / np.sqrt(self.n[cell])
        self.q[cell] = (1 - rate) * self.q[cell] + rate * (reward + value + bonus)


@pytest.mark.plain
@pytest.mark.parametrize("spacing", [0.1, 0.3])
def test_the_published_net_is_the_authors_trajectory_for_trajectory(spacing):
    env = gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25)
    ours = zooming.NetQ.as_published(env, 0.3, spacing=spacing, seed=0)
    theirs = AuthorsNet(5, spacing, 0.3)
    tied_by_order = zooming.NetQ(
        env, bonus=0.3, spacing=spacing, cap="horizon", ties="first", points="multiples", seed=0
    )
    assert {**tied_by_order.saved_options(), "ties": "random"} == ours.saved_options()
    play_alike(tied_by_order, theirs, 60)
    points = theirs.points
    q = [[[tied_by_order.q_value(h, [x], [a]) for a in points] for x in points] for h in range(5)]
    assert theirs.q == pytest.approx(np.array(q), abs=1e-12)


@pytest.mark.plain
def test_the_outer_cells_of_the_published_net_have_the_diameter_that_the_exact_bonus_pays_for():
    agent = zooming.NetQ.as_published(
        oil(), zooming.bonuses.Exact(episodes=50), spacing=0.1, seed=0
    )
    for point, diameter in ((0.0, 0.05), (0.5, 0.1), (0.9, 0.15)):
        agent.update(4, [point], [point], 0.0, [0.5])
        assert agent.q_value(4, [point], [point]) == pytest.approx(
            diameter
        )  # no future, so only L times the diameter


@pytest.mark.plain
def test_a_mask_moves_the_published_point_to_the_nearest_feasible_action():
    space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    agent = zooming.NetQ.as_published(Boxes(space, space), 0.1, spacing=0.5, horizon=1, seed=0)
    agent.update(0, [0.5], [0.0], 0.0, [0.5])  # now the cell of 0.5 is better, and holds 0.25 to 1
    for ends, played in (((0.3, 0.9), 0.5), ((0.3, 0.4), 0.4), ((0.6, 1.0), 0.6)):
        info = {"action_low": [ends[0]], "action_high": [ends[1]]}
        assert agent.act(0, [0.5], info=info) == pytest.approx([played], abs=1e-9)


@pytest.mark.plain
def test_along_whole_values_both_nets_play_the_middle_of_a_cell():
    env = Boxes(gym.spaces.Box(0.0, 1.0, (1,)), gym.spaces.Box(0, 8, (1,), np.int64))
    nets = [
        zooming.NetQ(env, spacing=1 / 3, points=points, horizon=1, seed=0)
        for points in ("centers", "multiples")
    ]
    for net in nets:
        played = set()
        for _ in range(3):
            action = net.act(0, [0.5])
            net.update(0, [0.5], action, 0.0, [0.5])
            played.add(int(action[0]))
        assert played == {1, 4, 7}


@pytest.mark.plain
@pytest.mark.parametrize(("points", "first"), [("centers", 0.05), ("multiples", 0.0)])
def test_actions_are_the_nets_points_and_belong_to_their_own_ball(points, first):
    agent = zooming.NetQ(oil(), spacing=0.1, points=points, seed=0)
    played = set()
    for _ in range(100):
        action = agent.act(0, [0.5])
        before = agent.visits(0, [0.5], action)
        agent.update(0, [0.5], action, 0.0, [0.5])
        assert agent.visits(0, [0.5], action) == before + 1
        played.add(round(float(action[0]), 12))
    assert played == {round(first + 0.1 * i, 12) for i in range(10)}


@pytest.mark.plain
def test_the_net_is_given_by_its_spacing_or_by_the_episodes_not_both():
    with pytest.raises(zooming.ConfigurationError, match="give only one of them"):
        zooming.NetQ(oil(), spacing=0.1, episodes=100)
    message = "points='center': choose one of 'centers', 'multiples'"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.NetQ(oil(), points="center")
    with pytest.raises(zooming.ConfigurationError, match="'center', 'uniform'"):
        zooming.AdaptiveQ(oil(), action="corner")


@pytest.mark.plain
def test_a_net_reserves_no_room_for_splits():
    agent = zooming.NetQ(oil(dims=6), spacing=1.0, seed=0)
    agent.learn(10)
    assert len(agent.table.rows) == agent.table.rows_in_use == 6


@pytest.mark.plain
def test_one_update_rule_serves_both_agents():
    # A net of one cell per step is a root that never splits.
    net = zooming.NetQ(oil(), spacing=1.0, seed=0)
    root = zooming.AdaptiveQ(oil(), max_balls=5, steps_per_partition=1, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        step, (state, action, after) = int(rng.integers(5)), rng.random((3, 1))
        for agent in (net, root):
            agent.update(step, state, action, 0.7, after, step == 3)
    assert [net.value(step, [0.5]) for step in range(5)] == [
        root.value(step, [0.5]) for step in range(5)
    ]


@pytest.mark.parametrize(
    ("survey", "sharpness", "best"),
    [("laplace", 1.0, 4.5561), ("quadratic", 50.0, 4.1750)],
)  # fmt: skip
def test_a_net_of_spacing_a_tenth_gets_the_best_that_its_points_can(survey, sharpness, best):
    env = oil(survey=survey, sharpness=sharpness)
    histories = zooming.learn_many(partial(zooming.NetQ, points="multiples"), env, range(5), 2000)
    final = np.mean([history.returns[-200:].mean() for history in histories])
    assert best - 0.006 <= final <= best + 1e-4


# --- many ties ------------------------------------------------------------------------------------


@kernels.jit_kernel
def select_often(table, core, root, state, stack, found):
    for k in range(len(found)):
        found[k], _ = boxes.select(table, core, root, state, kernels.RANDOM, stack)


def relevant_and_best(agent, step, state):
    """By brute force: the rows of the balls relevant for a state that have the largest Q."""
    row, low, high = agent.table.boxes(step)
    n = len(state)
    holds = ((low[:, :n] <= state) & ((state < high[:, :n]) | (high[:, :n] == 1))).all(axis=1)
    value = agent.table.rows["value"][row]
    return row[holds & (value == value[holds].max())]


@pytest.mark.parametrize("share", [1.0, 0.6, 0.35], ids=["all tied", "most tied", "few tied"])
@pytest.mark.parametrize("n_ambulances", [1, 2])
@pytest.mark.parametrize("points", ["centers", "multiples"])
def test_each_of_many_tied_balls_is_equally_likely(n_ambulances, share, points):
    env = gym.make("zooming/Ambulance-v0", n_ambulances=n_ambulances, horizon=2)
    agent = zooming.NetQ(env, spacing=1 / 67 if n_ambulances == 1 else 1 / 9, points=points, seed=0)
    rows, rng, n = agent.table.rows, np.random.default_rng(0), agent.table.rows_in_use
    active = np.flatnonzero(rows["child"][:n] == kernels.ACTIVE)
    rows["value"][active] = np.where(rng.random(len(active)) < share, 1.0, 0.5)
    state = np.full(n_ambulances, 0.3)
    tied_before = relevant_and_best(agent, 1, state)
    others = np.setdiff1d(agent.table.boxes(1)[0], tied_before)[
        -3:
    ]  # elsewhere there are better balls, which do not matter
    rows["value"][others] = 1.0 if share == 1.0 else 0.75
    for row in range(n - 1, -1, -1):
        child = rows["child"][row]
        if child != kernels.ACTIVE:
            rows["value"][row] = rows["value"][child : child + 2].max()
    tied = relevant_and_best(agent, 1, state)
    assert len(tied) > boxes.MOST_WALKED
    found = np.empty(40 * len(tied), np.int64)
    select_often(rows, agent.table.core, 1, state, kernels.new_stack(agent.table.core), found)
    chosen, counts = np.unique(found, return_counts=True)
    assert set(chosen) <= set(tied)
    counts = np.append(counts, np.zeros(len(tied) - len(chosen)))
    chi_square = ((counts - 40) ** 2 / 40).sum()
    freedom = len(tied) - 1
    assert abs(chi_square - freedom) < 4.5 * np.sqrt(
        2 * freedom
    )  # mean and deviation of chi-square; fixed seed


def test_both_drivers_agree_where_many_balls_tie():
    env = oil(horizon=2, start="uniform")
    assert_drivers_agree(lambda: zooming.NetQ(env, spacing=0.01, seed=3), 300)


@pytest.mark.parametrize("share", [0.3, 0.06, 0.02])
def test_a_selection_among_some_ties_of_many_balls_does_not_walk_them_all(share):
    agent = zooming.NetQ(
        Boxes(box((0, 1)), gym.spaces.Discrete(20_000)), spacing=1.0, horizon=1, seed=0
    )
    rows, core = agent.table.rows, agent.table.core
    n, rng = agent.table.rows_in_use, np.random.default_rng(0)
    active = np.flatnonzero(rows["child"][:n] == kernels.ACTIVE)
    rows["value"][active] = np.where(rng.random(len(active)) < share, 1.0, 0.5)
    for row in range(n - 1, -1, -1):
        child = rows["child"][row]
        if child != kernels.ACTIVE:
            rows["value"][row] = rows["value"][child : child + 2].max()
    tied, stack = relevant_and_best(agent, 0, np.array([0.5])), kernels.new_stack(core)
    found, read = zip(
        *(select_once(rows, core, np.array([0.5]), stack) for _ in range(200)), strict=True
    )
    assert set(found) <= set(tied)
    assert len(set(found)) > min(100, len(tied) // 4)
    core["spacing"] = 0.0  # no net: every tied ball is walked
    _, all_read = select_once(rows, core, np.array([0.5]), stack)
    assert np.mean(read) < all_read / 3


@kernels.jit_kernel
def select_once(table, core, state, stack):
    return boxes.select(table, core, 0, state, kernels.RANDOM, stack)
