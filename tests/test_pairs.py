"""Metrics on pairs that are no product, and oracles that give packings."""

import functools
import itertools

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, assert_drivers_agree, knowledge
from oracles import Brute, shown
from zooming import metrics
from zooming.errors import ConfigurationError
from zooming.kernels.balls import distances

pytestmark = pytest.mark.kernels

N_X, N_A = 5, 4


def stops(n_states=N_X, n_actions=N_A):
    return Boxes(gym.spaces.Discrete(n_states), gym.spaces.Discrete(n_actions))


def some_metric(seed=0, n_x=N_X, n_a=N_A):
    """Whole distances of all pairs, as short as the shortest way round."""
    found = np.random.default_rng(seed).integers(1, 30, (n_x * n_a, n_x * n_a)).astype(float)
    found = np.minimum(found, found.T)
    np.fill_diagonal(found, 0.0)
    distances.shortest_paths(found)
    return found


class BrutePairs(Brute):
    """The reference, asking for the distance of two pairs."""

    def __init__(self, distances, space, horizon, bonus, lazy):
        super().__init__(space, horizon, bonus, lazy)
        self.all, self.shape = distances.reshape(N_X, N_A, N_X, N_A), (N_X, N_A)
        self.balls = [[{**ball, "x": 0, "a": 0} for ball in at] for at in self.balls]
        farthest = self.all.max(axis=(2, 3))
        for at in self.balls:
            at[0]["x"], at[0]["a"] = np.unravel_index(farthest.argmin(), farthest.shape)

    def contains(self, ball, x, a):
        return self.all[ball["x"], ball["a"], x, a] <= self.all.max() * 0.5 ** ball["depth"]

    def cover(self, h, ball):
        near = sorted(
            np.ndindex(self.shape),
            key=lambda pair: self.all[ball["x"], ball["a"], pair[0], pair[1]],
        )
        for x, a in near:
            if self.owner(h, x, a) is ball:
                self.add(h, ball, x, a)


@pytest.mark.plain
@pytest.mark.parametrize("lazy", [False, True])
def test_every_ball_of_a_metric_on_pairs_agrees_with_the_reference(lazy):
    distances, rng = some_metric(), np.random.default_rng(1)
    agent = zooming.MetricQ(
        stops(), metrics.Pairs(N_X, N_A, distances), horizon=2, bonus=0.3, lazy=lazy, seed=0
    )
    brute = BrutePairs(distances, agent.table.space, 2, 0.3, lazy)
    for _ in range(80):
        h, x, a = int(rng.integers(2)), int(rng.integers(3)), int(rng.integers(2))
        transition = h, x, a, float(rng.random()), int(rng.integers(N_X)), bool(rng.random() < 0.1)
        agent.update(*transition)
        brute.update(*transition)
    for h in range(2):
        assert shown(agent, h) == brute.active(h)
        for x, a in np.ndindex(brute.shape):
            assert agent.visits(h, x, a) == brute.owner(h, x, a)["n"]
        for x in range(N_X):
            assert agent.value(h, x) == pytest.approx(brute.value(h, x), rel=1e-12)
            played = agent.act(
                h, x
            )  # in the ball with the largest Q, as near to its center as can be
            ball = brute.owner(h, x, played)
            assert ball["q"] == pytest.approx(
                max(brute.owner(h, x, a)["q"] for a in range(N_A)), rel=1e-12
            )
            mine = [a for a in range(N_A) if brute.owner(h, x, a) is ball]
            assert brute.all[ball["x"], ball["a"], x, played] == min(
                brute.all[ball["x"], ball["a"], x, a] for a in mine
            )
    assert agent.n_balls > 4
    assert zooming.audit(agent).holds


def wander(state, action, step, params, chance, next_state):
    next_state[0] = chance[0]
    return params[4 * int(state[0]) + int(action[0])]


@functools.cache
def wandering():
    rewards = np.random.default_rng(3).random(N_X * N_A)
    spaces = gym.spaces.Discrete(N_X), gym.spaces.Discrete(N_A)
    return zooming.compiled_env(
        wander, *spaces, 3, start=0, params=rewards, outcomes=(range(N_X), [1 / N_X] * N_X)
    )


def first_uncovered(uncovered, radius, space):
    return tuple(np.argwhere(uncovered)[0]) if uncovered.any() else None


@pytest.mark.parametrize(
    "options", [{"lazy": True}, {"oracle": first_uncovered}, {"oracle": metrics.Packing()}]
)
def test_a_product_given_by_its_pairs_is_the_same_agent(options):
    line = metrics.Graph([(i, i + 1) for i in range(4)])
    fork = metrics.Graph([(0, 1, 2), (0, 2, 3), (2, 3, 1)])
    distances = (line.distances[:, None, :, None] + fork.distances[None, :, None, :]).reshape(
        20, 20
    )
    both = metrics.Product(line, fork, "sum"), metrics.Pairs(N_X, N_A, distances)
    env = wandering()
    agents = [zooming.MetricQ(env, metric, seed=0, **options) for metric in both]
    histories = [agent.learn(150) for agent in agents]
    assert histories[0].returns.tobytes() == histories[1].returns.tobytes()
    assert agents[0].n_balls > 20
    for step in range(3):
        assert agents[0].balls(step).owner.tolist() == agents[1].balls(step).owner.tolist()
        assert agents[0].balls(step).q_value.tobytes() == agents[1].balls(step).q_value.tobytes()


@pytest.mark.parametrize("options", [
    {},
    {"lazy": True},
    {"oracle": metrics.Packing()},
    {"oracle": metrics.Greedy(3), "action": "uniform"},
])  # fmt: skip
def test_both_drivers_and_files_agree_on_pairs(options, tmp_path):
    env, names = wandering(), [("line", k) for k in range(N_X)]
    pairs = metrics.Pairs(names, "abcd", some_metric().reshape(N_X, N_A, N_X, N_A))
    fused = assert_drivers_agree(lambda: zooming.MetricQ(env, pairs, seed=2, **options), 100).agent
    fused.save(tmp_path / "pairs.zoom")
    again = zooming.load(tmp_path / "pairs.zoom", env)
    assert knowledge(again) == knowledge(fused)
    assert (again.metric.states, again.metric.actions) == (names, list("abcd"))
    assert repr(again.oracle) == repr(fused.oracle)
    assert again.learn(50).returns.tobytes() == fused.learn(50).returns.tobytes()
    assert zooming.audit(again).holds


@pytest.mark.plain
@pytest.mark.parametrize(("damage", "explanation"), [
    ({"pair_distances": None}, "Pairs: the distances have the shape"),
    ({"pair_distances": -some_metric()}, "distances must not be negative"),
    ({"pair_distances": some_metric()[1:, 1:]}, "20 points for a 19 by 19 matrix"),
    ({"states": 10**12}, "too many"),
    ({"oracle": "pack"}, "Greedy: tries='pack'"),
])  # fmt: skip
def test_a_file_with_other_pairs_is_refused(damage, explanation):
    agent = zooming.MetricQ(stops(), metrics.Pairs(N_X, N_A, some_metric()), horizon=1, seed=0)
    options, (_, arrays) = agent._options(), agent._state()
    for name, value in damage.items():
        part = {"pair_distances": arrays, "states": options["metric"], "oracle": options}[name]
        part[name] = value
    with pytest.raises(ConfigurationError, match=explanation):
        zooming.MetricQ._from_options(stops(), options, arrays)


BROKEN = np.where(np.eye(4) == 1, 0.0, 1.0)
BROKEN[0, 3] = BROKEN[3, 0] = 5.0


@pytest.mark.plain
@pytest.mark.parametrize(("make", "explanation"), [
    (lambda: metrics.Pairs(2, 2, BROKEN),
     r"Pairs breaks the triangle inequality: d\(\(0, 0\), \(1, 1\)\) = 5, but"),
    (lambda: metrics.Pairs(2, 2, lambda p, q: p[0] - q[0]),
     r"Pairs: d\(\(0, 0\), \(1, 0\)\) = -1; .* not be negative"),
    (lambda: metrics.Pairs(2, 2, lambda p, q: float(p > q)), "Pairs is not symmetric"),
    (lambda: metrics.Pairs(2, 2, lambda p, q: 1.0), "distance of a point from itself must be 0"),
    (lambda: metrics.Pairs(2, 2, lambda p, q: "far"),
     r"Pairs: distance\(\(0, 0\), \(0, 0\)\) gave 'far'"),
    (lambda: metrics.Pairs(2, 2, np.zeros((3, 3))), "4 points for a 3 by 3 matrix"),
    (lambda: metrics.Pairs(2, 2, None), "the distances are not numbers|give a square matrix"),
    (lambda: metrics.Pairs(0, 2, BROKEN), "Pairs: states"),
    (lambda: metrics.Pairs(10**12, 2, BROKEN),
     "1,000,000,000,000 states are too many; at most 8,000 pairs"),
    (lambda: metrics.Pairs(2, None, BROKEN), "None is not actions; give a list of them"),
    (lambda: zooming.MetricQ(stops(), metrics.Pairs(4, 5, some_metric()), horizon=1),
     "Pairs has 4 states, but state has 5"),
    (lambda: zooming.MetricQ(stops(), metrics.Pairs(5, 4, np.zeros((20, 20))), horizon=1),
     "every distance is 0"),
])  # fmt: skip
def test_what_is_no_metric_on_these_pairs_is_refused(make, explanation):
    with pytest.raises(ConfigurationError, match=explanation):
        make()


@pytest.mark.plain
@pytest.mark.parametrize("seed", range(3))
def test_lemma_a_packing_is_separated_and_its_balls_cover_the_set(seed):
    rng, distances = np.random.default_rng(seed), some_metric(seed)
    space = zooming.MetricQ(stops(), metrics.Pairs(N_X, N_A, distances), horizon=1).table.space
    for radius in (0.0, 1.0, 3.0, distances.max()):
        points = rng.random((N_X, N_A)) < 0.7
        found = [x * N_A + a for x, a in metrics.packing(points, radius, space)]
        assert all(points.ravel()[pair] for pair in found)
        assert all(
            distances[one, other] > radius for one, other in itertools.combinations(found, 2)
        )
        assert (distances[found][:, points.ravel()].min(axis=0) <= radius).all()
    assert metrics.packing(np.zeros((N_X, N_A), bool), 1.0, space) == []


@pytest.mark.plain
def test_a_packing_stops_at_max_balls():
    pairs = metrics.Pairs(N_X, N_A, some_metric())
    few = zooming.MetricQ(stops(), pairs, horizon=1, oracle=metrics.Packing(), max_balls=3)
    few.update(0, 2, 1, 0.5, 2)
    assert few.n_balls == 3
