"""The net: the paper's spacing, its cells and points, and the same update rule."""

import gymnasium as gym
import numpy as np
import pytest

import zooming


def oil(**options):
    return gym.make("zooming/Oil-v0", **options)


@pytest.mark.plain
def test_the_papers_spacing_makes_500_balls():
    agent = zooming.NetQ(oil(), episodes=2000, seed=0)
    assert agent.spacing == pytest.approx(0.1)
    assert agent.n_balls == 500
    assert zooming.NetQ(oil(dims=2), episodes=2000, seed=0).spacing == pytest.approx(10_000 ** (-1 / 6))


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
    assert (balls.high == np.minimum(np.where(index + 1 == n_cells, 1.0, (index + 1) * spacing), 1.0)).all()


@pytest.mark.plain
def test_actions_are_the_nets_points_and_belong_to_their_own_ball():
    agent = zooming.NetQ(oil(), spacing=0.1, seed=0)
    points = set()
    for _ in range(100):
        action = agent.act(0, [0.5])
        before = agent.visits(0, [0.5], action)
        agent.update(0, [0.5], action, 0.0, [0.5])
        assert agent.visits(0, [0.5], action) == before + 1
        points.add(round(float(action[0]), 12))
    assert points == {round(0.1 * i, 12) for i in range(10)}


@pytest.mark.plain
def test_the_net_is_given_by_its_spacing_or_by_the_episodes_not_both():
    with pytest.raises(zooming.SpaceError, match="give one of them"):
        zooming.NetQ(oil(), spacing=0.1, episodes=100)
    with pytest.raises(zooming.SpaceError, match="'center', 'uniform'"):
        zooming.AdaptiveQ(oil(), action="corner")


@pytest.mark.plain
def test_a_net_reserves_no_room_for_splits():
    agent = zooming.NetQ(oil(dims=6), spacing=1.0, seed=0)
    agent.learn(10)
    assert len(agent.table.rows) == agent.table.rows_in_use == 6


@pytest.mark.plain
def test_a_net_never_splits():
    agent = zooming.NetQ(oil(), spacing=0.5, seed=0)
    for _ in range(50):
        agent.update(0, [0.1], [0.1], 0.5, [0.1])
    assert agent.n_balls == 20
    assert agent.visits(0, [0.1], [0.1]) == 50


@pytest.mark.plain
def test_one_update_rule_serves_both_agents():
    # A net of one cell per step is a root that never splits.
    net, root = zooming.NetQ(oil(), spacing=1.0, seed=0), zooming.AdaptiveQ(oil(), max_balls=5, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        transition = int(rng.integers(5)), rng.random(1), rng.random(1), rng.random(), rng.random(1), bool(rng.integers(2))
        net.update(*transition)
        root.update(*transition)
    assert [net.value(step, [0.5]) for step in range(5)] == [root.value(step, [0.5]) for step in range(5)]


@pytest.mark.parametrize(
    ("survey", "sharpness", "best"),
    [
        ("laplace", 1.0, 4.5561),
        ("laplace", 10.0, 2.8327),
        ("laplace", 50.0, 0.3283),
        ("quadratic", 1.0, 4.7875),
        ("quadratic", 10.0, 4.6750),
        ("quadratic", 50.0, 4.1750),
    ],
)
def test_a_net_of_spacing_a_tenth_gets_the_best_that_its_points_can(survey, sharpness, best):
    env = oil(survey=survey, sharpness=sharpness)
    histories = zooming.learn_many(zooming.NetQ, env, range(5), 2000)
    final = np.mean([history.returns[-200:].mean() for history in histories])
    assert best - 0.006 <= final <= best + 1e-4
