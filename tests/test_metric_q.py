"""MetricQ against a brute-force reference and the laws of the paper: no index, every ball asked
about every point."""

import copy
import decimal
import functools
import itertools
import math
import pickle

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, assert_drivers_agree, knowledge, same_history
from oracles import Brute, shown
from zooming import bonuses, metrics
from zooming.errors import ConfigurationError, TransitionError
from zooming.kernels import balls

pytestmark = pytest.mark.kernels


def finite_env(n_states, n_actions):
    return Boxes(gym.spaces.Discrete(n_states), gym.spaces.Discrete(n_actions))


RING = metrics.Graph([(i, (i + 1) % 9) for i in range(9)])
TREE = metrics.Graph([(0, 1, 2), (0, 2, 3), (1, 3, 1), (1, 4, 4), (2, 5, 1), (2, 6, 2)])
WORDS = metrics.Matrix(  # edit distances
    [[0, 1, 2, 3, 3, 2], [1, 0, 1, 2, 3, 2], [2, 1, 0, 1, 3, 2],
     [3, 2, 1, 0, 3, 3], [3, 3, 3, 3, 0, 1], [2, 2, 2, 3, 1, 0]],
    ["", "a", "ab", "abc", "xyz", "xy"],
)  # fmt: skip
PRODUCTS = {
    "max": metrics.Product(RING, TREE),
    "whole": metrics.Product(
        RING, metrics.Graph([(0, 1), (1, 2), (2, 3), (3, 4)])
    ),  # radii 4, 2, 1: distances are among them
    "sum": metrics.Product(RING, WORDS, "sum"),
    "norm": metrics.Product(TREE, WORDS, 2.0, scale=(0.5, 1.0)),
    "discrete": metrics.Product(
        metrics.Discrete(), metrics.Matrix([[0, 1, 3], [1, 0, 2], [3, 2, 0]]), scale=(2.0, 1.0)
    ),
}
SIZES = {"max": (9, 7), "whole": (9, 5), "sum": (9, 6), "norm": (7, 6), "discrete": (4, 3)}


@functools.cache
def trained(name, lazy, n_updates=100, split_after=1.0, **options):
    """An agent, and the reference, after the same random transitions, most of them near one pair
    so that balls get small."""
    n_x, n_a = SIZES[name]
    options |= {"lazy": lazy, "split_after": split_after, "horizon": 2, "bonus": 0.3, "seed": 0}
    agent = zooming.MetricQ(finite_env(n_x, n_a), PRODUCTS[name], **options)
    brute, rng = Brute(agent.table.space, 2, 0.3, lazy, split_after), np.random.default_rng(0)
    for _ in range(n_updates):
        h = int(rng.integers(2))
        near = rng.random() < 0.7
        x, a = (int(rng.integers(2 if near else n)) for n in (n_x, n_a))
        transition = h, x, a, float(rng.random()), int(rng.integers(n_x)), bool(rng.random() < 0.1)
        agent.update(*transition)
        brute.update(*transition)
    return agent, brute


@pytest.mark.plain
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_ball_agrees_with_the_reference(name, lazy):
    agent, brute = trained(name, lazy)
    for h in range(2):
        assert shown(agent, h) == brute.active(h)
        for x in range(brute.shape[0]):
            assert agent.value(h, x) == pytest.approx(brute.value(h, x), rel=1e-12)
            relevant = [brute.owner(h, x, a) for a in range(brute.shape[1])]
            for a, ball in enumerate(relevant):
                assert agent.visits(h, x, a) == ball["n"]
                assert agent.q_value(h, x, a) == pytest.approx(ball["q"], rel=1e-12)
            best = pytest.approx(max(ball["q"] for ball in relevant), rel=1e-12)
            for deterministic in (True, False):
                action, _ = agent.predict(x, state=[h], deterministic=deterministic)
                assert relevant[int(action)]["q"] == best
            assert relevant[int(agent.act(h, x))]["q"] == best
    assert agent.n_balls == sum(len(brute.active(h)) for h in range(2))


@pytest.mark.plain
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_lemma_domains_cover_and_centers_of_equal_radius_are_more_than_a_radius_apart(name, lazy):
    agent, _ = trained(name, lazy)
    space, rows = agent.table.space, agent.table.rows[: agent.table.rows_in_use]

    def apart(one, other):
        return space.distances_from(one["state"], one["action"])[other["state"], other["action"]]

    if not lazy:  # a ball that was due has no domain left
        assert (rows["n_points"][rows["n_visits"] >= 4.0 ** rows["depth"]] <= 1).all()
    for h in range(2):
        assert agent.balls(h).n_points.sum() == space.n_pairs
        every = rows[rows["step"] == h]  # also those that are not active any more
        assert len(every) > 3
        for one, other in itertools.combinations(every, 2):
            if one["depth"] == other["depth"]:  # balls are closed: at the radius, all is covered
                assert apart(one, other) > one["radius"]
        for row in every[1:]:
            parent = rows[row["parent"]]
            assert row["radius"] == parent["radius"] / 2
            if row["parent"] >= 2:  # the center lies in its parent
                assert apart(parent, row) <= parent["radius"] * (1 + 1e-12)


@pytest.mark.plain
def test_lemma_a_ball_splits_exactly_at_the_papers_number_of_visits():
    agent = zooming.MetricQ(finite_env(9, 7), PRODUCTS["max"], horizon=1, seed=0)
    for t in range(1, 65):
        agent.update(0, 4, 3, 0.5, 4)
        rows = agent.table.rows[: agent.table.rows_in_use]
        is_parent = np.isin(np.arange(len(rows)), rows["parent"])
        assert all(
            rows["n_visits"][row] == 4 ** rows["depth"][row] for row in np.flatnonzero(is_parent)
        )
        assert agent.visits(0, 4, 3) == t
        holding = agent.table.owner[0, 4, 3]
        assert rows["n_points"][holding] == 1 or t < 4 ** rows["depth"][holding]


# --- bonuses --------------------------------------------------------------------------------------


def by_definition(bonus):
    """Q of a ball from the definition of the bonus, with the weights of all its visits."""

    def iota(horizon, episode):
        n, factor = (episode**2, 8) if bonus.episodes is None else (bonus.episodes, 4)
        return math.log(factor * horizon * n / bonus.delta)

    def beside(horizon, t, episode):  # what noise and L add
        return (
            2 * bonus.reward_noise * math.sqrt(horizon * iota(horizon, episode))
            + 4 * bonus.lipschitz
        ) / math.sqrt(t)

    def estimate(brute, step, ball):
        horizon, t, now = brute.horizon, ball["n"], brute.episode
        rates = [(horizon + 1) / (horizon + i) for i in range(1, t + 1)]
        weights = [
            rate * math.prod(1 - later for later in rates[i + 1 :]) for i, rate in enumerate(rates)
        ]
        mean = sum(
            w * (reward + after)
            for w, (reward, after, _, _) in zip(weights, ball["visits"], strict=True)
        )
        if isinstance(bonus, bonuses.Exact):
            spread = 1.0 if bonus.random_rewards else 2 * bonus.reward_noise
            width = (horizon - 1 - step + spread) * math.sqrt(
                sum(w * w for w in weights) * iota(horizon, now) / 2
            )
            across = sum(w * v[2] for w, v in zip(weights, ball["visits"], strict=True))
            return mean + width + bonus.lipschitz * across
        for i, (w, visit) in enumerate(zip(weights, ball["visits"], strict=True), 1):
            mean += w * beside(horizon, i, visit[3])
            if isinstance(bonus, bonuses.Theory):
                mean += w * 2 * math.sqrt(horizon**3 * iota(horizon, visit[3]) / i)
        if isinstance(bonus, bonuses.Bernstein):
            variance = np.var([after for _, after, _, _ in ball["visits"]])
            per_step = sum(len(brute.active(h)) for h in range(horizon)) / horizon
            first = math.sqrt(horizon / t * (variance + horizon) * iota(horizon, now))
            first += math.sqrt(horizon**7 * per_step) * iota(horizon, now) / t
            mean += (
                min(bonus.c1 * first, bonus.c2 * math.sqrt(horizon**3 * iota(horizon, now) / t)) / 2
            )
        return mean

    return estimate


BONUSES = {
    "theory, noise": bonuses.Theory(episodes=40, lipschitz=0.5, reward_noise=0.3),
    "theory, anytime": bonuses.Theory(delta=0.1),
    "exact": bonuses.Exact(episodes=40, lipschitz=0.7),
    "exact, random rewards, anytime": bonuses.Exact(random_rewards=True),
    "bernstein, small": bonuses.Bernstein(episodes=40, c1=0.003, c2=0.06, lipschitz=0.2),
    "bernstein, noise, anytime": bonuses.Bernstein(c1=0.01, c2=0.2, reward_noise=0.1),
}


@pytest.mark.plain
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("bonus", BONUSES.values(), ids=BONUSES)
def test_every_bonus_agrees_with_its_definition(bonus, lazy):
    agent = zooming.MetricQ(
        finite_env(7, 6), PRODUCTS["norm"], horizon=2, bonus=bonus, lazy=lazy, seed=0
    )
    brute, rng = Brute(agent.table.space, 2, by_definition(bonus), lazy), np.random.default_rng(0)
    for _ in range(22):
        for h in range(2):
            near = rng.random() < 0.7
            x, a = int(rng.integers(2 if near else 7)), int(rng.integers(2)) if near else 5
            reward, after = float(rng.random()), int(rng.integers(7))
            transition = h, x, a, reward, after, bool(rng.random() < 0.1)
            agent.update(*transition)
            brute.update(*transition)
    for h in range(2):
        assert shown(agent, h) == brute.active(h)
    assert agent.n_balls > 10


@pytest.mark.plain
@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1.0, 1e30, 1e200])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_a_ball_holds_what_is_within_its_radius_in_exact_arithmetic_at_any_scale(power, scale):
    rng = np.random.default_rng(int(power * 10))

    def apart(n):  # from 1 down to 1e-8 away from the last: the deepest balls tell some apart
        places = (
            rng.choice([-1, 1], (n, 2)) * 10.0 ** -(np.linspace(0, 8, n) + rng.random(n))[:, None]
        )
        places[-1] = 0.0
        return scale * np.hypot(*(places[:, None] - places[None, :]).transpose(2, 0, 1))

    along, across, weights = apart(9), apart(7), (1.0, 0.3)
    metric = metrics.Product(metrics.Matrix(along), metrics.Matrix(across), power, scale=weights)
    table = zooming.MetricQ(finite_env(9, 7), metric, horizon=1).table
    with decimal.localcontext(prec=60):
        p = decimal.Decimal(power)
        powered = [
            [[decimal.Decimal(d * w) ** p for d in row] for row in m]
            for m, w in zip((along, across), weights, strict=True)
        ]
        diameter = max(map(max, powered[0])) + max(map(max, powered[1]))
        assert table.space.diameter == pytest.approx(float(diameter ** (1 / p)), rel=1e-14)
        row = n_checked = n_apart = 0
        while table.rows["n_points"][row] > 1 and table.rows["depth"][row] < balls.MAX_DEPTH:
            x, a = 8, 6
            table.add(row, x, a)
            row = table.rows_in_use - 1
            assert table.rows["radius"][row] == pytest.approx(
                table.space.diameter * 0.5 ** table.rows["depth"][row], rel=1e-14
            )
            for (y, b), owner in np.ndenumerate(table.owner[0]):
                halvings = decimal.Decimal(2) ** (p * int(table.rows["depth"][row]))
                ratio = (powered[0][x][y] + powered[1][a][b]) / diameter * halvings
                if abs(ratio - 1) > 1e-12:  # further from the border than rounding
                    assert (owner == row) == (ratio < 1)
                    n_checked, n_apart = n_checked + 1, n_apart + (owner != row)
    assert n_checked > 1000
    assert n_apart > 500


@pytest.mark.plain
@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))]
)
@pytest.mark.parametrize("make", [
    lambda env: zooming.MetricQ(env, metrics.LInf(points_per_axis=9), seed=0),
    lambda env: zooming.AdaptiveQ(env, seed=0),
    lambda env: zooming.AdaptiveQ(env, max_balls=40, seed=0),
    lambda env: zooming.TreeQ(env, max_balls=40, seed=0),
    lambda env: zooming.RandomizedQ(env, seed=0),
])  # fmt: skip
def test_a_copy_of_an_agent_learns_in_its_own_memory(make, duplicate):
    agent = make(gym.make("zooming/Oil-v0"))
    agent.learn(20)
    other, before = duplicate(agent), knowledge(agent)
    assert knowledge(other) == before
    transition = 0, np.array([0.5]), np.array([0.5]), 0.0, np.array([0.5])
    other.update(*transition)
    assert knowledge(agent) == before
    agent.update(*transition)
    assert other.q_value(0, [0.5], [0.5]) == agent.q_value(0, [0.5], [0.5])
    assert knowledge(other) == knowledge(agent) != before


@pytest.mark.plain
@pytest.mark.parametrize("lazy", [False, True])
def test_lemma_what_a_ball_believes_was_seen_within_three_radii_of_who_saw_it(lazy):
    """A child may stick out of its parent: two radii are not enough, three are. The exact bonus
    counts on it."""
    line, ratios = metrics.Graph([(i, i + 1) for i in range(64)]), []
    for seed in range(4):
        metric = metrics.Product(line, metrics.Discrete())
        agent = zooming.MetricQ(finite_env(65, 1), metric, horizon=1, lazy=lazy, seed=seed)
        # Per ball: (state, radius of the ball that saw it).
        rng = np.random.default_rng(seed)
        table = agent.table
        seen = {}
        for _ in range(300):
            x, n_before = int(rng.integers(65)), table.rows_in_use
            row = int(table.owner[0, x, 0])
            seen.setdefault(row, []).append((x, float(table.rows["radius"][row])))
            agent.update(0, x, 0, 0.5, 0)
            for child in range(n_before, table.rows_in_use):
                seen[child] = list(seen[int(table.rows["parent"][child])])
        for y, row in enumerate(table.owner[0, :, 0].tolist()):
            ratios += [line.distances[x, y] / radius for x, radius in seen.get(row, [])]
    assert 2.0 < max(ratios) < 3.0


# --- oracles --------------------------------------------------------------------------------------


def first_uncovered(uncovered, radius, space):
    found = np.argwhere(uncovered)
    return None if not len(found) else tuple(found[0])


@pytest.mark.plain
def test_an_oracle_of_ones_own_makes_the_cover():
    agent, _ = trained("sum", False, oracle=first_uncovered)
    space, rows = agent.table.space, agent.table.rows[: agent.table.rows_in_use]
    assert agent.balls(0).n_points.sum() == space.n_pairs
    assert len(rows) > 10
    assert rows["state"][2] == rows["action"][2] == 0  # the first child of a root
    with pytest.raises(ConfigurationError, match="oracle of your own cannot be saved"):
        agent.save("somewhere.zoom")


@pytest.mark.parametrize(("answer", "explanation"), [
    ((0, 0), r"pair \(state 0, action 0\), which is covered already"),
    (None, r"all is covered, but the pair \(state 0, action 0\) is not"),
    ((99, 0), "state 99, action 0"),
    ((np.inf, 0), r"gave \(inf, 0\); expected a pair"),
    ((0.7, 0.2), "whole numbers"),
    (ZeroDivisionError, r"called with \(uncovered, radius, space\), failed: ZeroDivisionError"),
])  # fmt: skip
def test_an_oracle_that_answers_wrongly_is_named(answer, explanation):
    def oracle(uncovered, radius, space):
        if answer is ZeroDivisionError:
            raise answer
        return answer

    agent = zooming.MetricQ(finite_env(9, 7), PRODUCTS["max"], horizon=1, oracle=oracle)
    with pytest.raises(ConfigurationError, match=explanation):
        agent.update(0, 4, 3, 0.5, 4)


# --- whole runs -----------------------------------------------------------------------------------


def test_feasible_actions_are_respected():
    agent = zooming.MetricQ(finite_env(9, 7), PRODUCTS["max"], horizon=2, seed=0)
    mask = np.zeros(7, np.int8)
    mask[[2, 5]] = 1
    for k in range(30):
        action = agent.act(0, k % 9, info={"action_mask": mask})
        assert action in (2, 5)
        agent.update(0, k % 9, action, 0.1 * (action == 5), 3, next_info={"action_mask": mask})
        assert agent.predict(k % 9, info={"action_mask": mask})[0] in (2, 5)
    rows = agent.table.owner[0, 3, [2, 5]]
    assert agent.value(0, 3, info={"action_mask": mask}) == min(
        2.0, agent.table.rows["value"][rows].max()
    )
    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    on_box = zooming.MetricQ(Boxes(box, box), metrics.LInf(points_per_axis=9), horizon=1, seed=0)
    for high in (0.5, 0.05):
        action = on_box.act(0, [0.3], info={"action_low": [0.04], "action_high": [high]})
        assert 0.04 <= action[0] <= high
        greedy, _ = on_box.predict([0.3], info={"action_low": [0.04], "action_high": [high]})
        assert 0.04 <= greedy[0] <= high


TINY = metrics.Matrix(RING.distances * 1e-200)


@pytest.mark.parametrize(("options", "explanation"), [
    ({"metric": "L2"}, r"give a metrics.Product"),
    ({"metric": metrics.L1()}, "L1 is for boxes, and state has categories"),
    ({"oracle": 3}, "metrics.Greedy"),
    ({"oracle": metrics.Greedy(), "lazy": True}, "uses no oracle"),
    ({"split_after": 0.0}, "split_after=0.0"),
    ({"max_balls": 0}, "max_balls=0"),
    ({"ties": "last"}, "ties='last'"),
    ({"metric": metrics.Product(RING, TREE, scale=(0.0, 0.0))}, "every distance is 0"),
    ({"metric": metrics.Product(RING, TREE, scale=(1e308, 0.0))}, "beyond floating point; rescale"),
    ({"metric": metrics.Product(RING, TREE, scale=(1e-305, 0.0))},
     r"largest distance is 4e-305, and the radii .* rescale"),
    ({"metric": metrics.Product(TINY, TREE, scale=(1e-200, 0.0))}, "radii .* rescale"),
    ({"metric": metrics.Pairs(9, 7, np.zeros((63, 63)))}, "every distance is 0"),
    ({"metric": metrics.Pairs(7, 9, np.zeros((63, 63)))}, "has 7 points, but state has 9 values"),
])  # fmt: skip
def test_wrong_options_are_refused(options, explanation):
    with pytest.raises(ConfigurationError, match=explanation):
        zooming.MetricQ(finite_env(9, 7), **{"metric": PRODUCTS["max"], "horizon": 2, **options})


def test_too_many_points_are_refused_before_they_take_memory(monkeypatch):
    monkeypatch.setattr("zooming.metrics.sides.norms", lambda *given: pytest.fail("computed"))
    for n, explanation in ((8000, "320,000,000 entries"), (9000, "more than 8,000 points")):
        with pytest.raises(ConfigurationError, match=explanation):
            zooming.MetricQ(gym.make("zooming/Oil-v0"), metrics.L1(n))
    monkeypatch.setattr("zooming.metrics.space.MOST_PAIRS", 100)
    with pytest.raises(ConfigurationError, match=r"make 126 entries .*; at most 100"):
        zooming.MetricQ(finite_env(9, 7), PRODUCTS["max"], horizon=2)


def test_a_norm_of_a_box_of_integers_has_all_its_values_as_points():
    states = gym.spaces.Box(np.array([0, -2]), np.array([3, 4]), dtype=np.int64)
    actions = gym.spaces.Box(0.0, 1.0, (1,))
    agent = zooming.MetricQ(
        Boxes(states, actions), metrics.Product(metrics.L1(), metrics.LInf(5)), horizon=1, seed=0
    )
    found = agent.balls(0)
    assert found.states.tolist() == [[x, y] for x in range(4) for y in range(-2, 5)]
    apart = agent.table.space.states.distances
    assert apart[0, -1] == pytest.approx(2.0)
    assert apart[0, 1] == pytest.approx(1 / 6)
    for k in range(40):
        state = np.array([k % 4, k % 7 - 2])
        agent.update(0, state, agent.act(0, state), 0.5, state)
    assert agent.visits(0, [3, 4], [0.5]) > 0
    with pytest.raises(TransitionError, match="not a whole number from -2 to 4"):
        agent.act(0, [0, 5])
    message = r"L1 is for boxes, and state\[0\] has categories.*Number the combinations"
    with pytest.raises(ConfigurationError, match=message):
        zooming.MetricQ(Boxes(gym.spaces.MultiDiscrete([3, 4]), actions), metrics.L1(), horizon=1)


def test_the_names_of_points_come_back_from_a_file_or_a_warning_says_why_not(tmp_path):
    nodes = [(0, "a"), (0, "b"), (1, "a")]
    env = finite_env(3, 3)
    agent = zooming.MetricQ(
        env, metrics.Graph([(nodes[0], nodes[1]), (nodes[1], nodes[2])]), horizon=1, seed=0
    )
    agent.save(tmp_path / "named.zoom")
    assert zooming.load(tmp_path / "named.zoom", env=env).metric.states.index((1, "a")) == 2
    odd = metrics.Points([frozenset({i}) for i in range(3)], lambda one, other: float(one != other))
    agent = zooming.MetricQ(env, odd, horizon=1, seed=0)
    with pytest.warns(UserWarning, match="the names of the points are not in the file"):
        agent.save(tmp_path / "odd.zoom")
    assert zooming.load(tmp_path / "odd.zoom", env=env).metric.states.points == [0, 1, 2]


def test_whole_nodes_are_sorted_so_that_a_space_that_starts_elsewhere_means_them():
    graph = metrics.Graph([(3, 1), (1, 2)])
    assert graph.points == [1, 2, 3]
    env = Boxes(gym.spaces.Discrete(3, start=1), gym.spaces.Discrete(3, start=1))
    space = zooming.MetricQ(env, graph, horizon=1).table.space
    assert space.states.distances[0].tolist() == [0.0, 1.0, 1.0]  # 1 is next to 2 and to 3


def test_one_state_and_one_action_are_a_space_too():
    agent = zooming.MetricQ(finite_env(1, 1), metrics.Discrete(), horizon=1, bonus=0.0)
    agent.update(0, 0, 0, 0.25, 0)
    assert (agent.act(0, 0), agent.value(0, 0), agent.n_balls) == (0, 0.25, 1)


def test_partition_says_what_there_is_instead():
    agent = zooming.MetricQ(finite_env(9, 7), PRODUCTS["max"], horizon=2)
    with pytest.raises(ConfigurationError, match=r"agent.balls\(step\)"):
        agent.partition(0)
    assert len(agent.balls(1)) == 1
    assert "MetricQ" in repr(agent)
    assert "Product" in agent._repr_html_()


# --- pairs that are no product, and packings ------------------------------------------------------

N_X, N_A = 5, 4


def stops():
    return finite_env(N_X, N_A)


def some_metric(seed=0):
    """Whole distances of all pairs, as short as the shortest way round."""
    found = np.random.default_rng(seed).integers(1, 30, (N_X * N_A, N_X * N_A)).astype(float)
    found = np.minimum(found, found.T)
    np.fill_diagonal(found, 0.0)
    balls.shortest_paths(found)
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
            played = agent.act(h, x)  # in the best ball, as near to its center as can be
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


NAMES = [("line", k) for k in range(N_X)]
PAIRS = metrics.Pairs(NAMES, "abcd", some_metric().reshape(N_X, N_A, N_X, N_A))
LINE = metrics.Graph([*itertools.pairwise(NAMES), (NAMES[0], NAMES[2], 1.5)])
PRODUCT = metrics.Product(LINE, metrics.Discrete(), 2.0, scale=(1.0, 3.0))


@pytest.mark.plain
@pytest.mark.parametrize("metric", [PAIRS, PRODUCT], ids=["pairs", "product"])
@pytest.mark.parametrize("options", [
    {"split_after": 0.5},
    {"lazy": True},
    {"oracle": metrics.Packing(), "max_balls": 40},
    {"action": "uniform"},
])  # fmt: skip
def test_both_drivers_and_files_agree(metric, options, tmp_path):
    env = wandering()
    fused = assert_drivers_agree(lambda: zooming.MetricQ(env, metric, seed=2, **options), 60).agent
    fused.save(tmp_path / "pairs.zoom")
    again = zooming.load(tmp_path / "pairs.zoom", env)
    assert knowledge(again) == knowledge(fused)
    stored = again.metric
    assert (stored.states if metric is PAIRS else stored.states.points) == NAMES
    if metric is PRODUCT:
        assert stored.combine == 2.0
        assert stored.states.distances.tolist() == LINE.distances.tolist()
    assert repr(again.oracle) == repr(fused.oracle)
    assert same_history(again.learn(40), fused.learn(40))
    assert zooming.audit(again).holds


@pytest.mark.plain
@pytest.mark.parametrize(("damage", "explanation"), [
    ({"pair_distances": None}, "Pairs: the distances have the shape"),
    ({"pair_distances": -some_metric()}, "distances must not be negative"),
    ({"pair_distances": some_metric()[1:, 1:]}, "20 points for a 19 by 19 matrix"),
    ({"states": 10**12}, "too many"),
    ({"oracle": 5}, r"its oracle is Greedy\(5\), which .* is no longer offered"),
])  # fmt: skip
def test_a_file_with_other_pairs_is_refused(damage, explanation):
    agent = zooming.MetricQ(stops(), metrics.Pairs(N_X, N_A, some_metric()), horizon=1, seed=0)
    options, (_, arrays) = agent.saved_options(), agent.saved_state()
    for name, value in damage.items():
        part = {"pair_distances": arrays, "states": options["metric"], "oracle": options}[name]
        part[name] = value
    with pytest.raises(ValueError, match=explanation):
        zooming.MetricQ.from_options(stops(), options, arrays)


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
