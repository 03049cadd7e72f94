"""Audits: they pass on what is right, and name the ball that is wrong."""

import functools
import re

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming import bonuses, metrics
from zooming.app import cli
from zooming.kernels import ACTIVE


def lottery(state, action, step, params, outcome, next_state):
    """Near the action you asked for, give or take; the reward knows no chance."""
    next_state[0] = min(1.0, max(0.0, 0.5 * (state[0] + action[0]) + outcome[0]))
    return 1.0 - 0.5 * abs(action[0] - 0.6) - 0.5 * abs(state[0] - 0.3)


def lottery_env(horizon=2):
    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    return zooming.compiled_env(
        lottery, box, box, horizon, start=0.5, outcomes=([-0.3, 0.0, 0.3], [0.4, 0.2, 0.4])
    )


def steps(state, action, step, params, outcome, next_state):
    """The lottery between whole numbers, or from a number to a whole one."""
    next_state[0] = min(4.0, max(0.0, np.rint(0.5 * (state[0] + action[0])) + outcome[0]))
    return 1.0 - 0.1 * abs(action[0] - 2.0) - 0.1 * abs(state[0] - 1.0)


FIVE, REALS = gym.spaces.Discrete(5), gym.spaces.Box(0.0, 4.0, (1,), np.float64)


@pytest.mark.parametrize("sides", [(FIVE, FIVE), (REALS, FIVE), (FIVE, REALS)], ids=str)
@pytest.mark.parametrize("options", [{}, {"ordered": True}])
def test_an_audit_looks_at_the_values_of_discrete_sides(sides, options):
    env = zooming.compiled_env(
        steps, *sides, 2, start=1, outcomes=([-1.0, 0.0, 1.0], [0.4, 0.2, 0.4])
    )
    optimal = zooming.solve(env)
    proved = zooming.AdaptiveQ(
        env, bonus=bonuses.Exact(episodes=300, lipschitz=2.0), seed=0, **options
    )
    proved.learn(300)
    report = zooming.audit(proved, optimal, n_points=100)
    assert report.holds
    assert law(report, "optimism").holds
    assert report.optimism_failures == 0
    shy = zooming.AdaptiveQ(env, bonus=0.0, seed=0, **options)
    shy.learn(300)
    assert zooming.audit(shy, optimal, n_points=100).optimism_failures > 0


@pytest.fixture
def agent():
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0"), seed=0)
    agent.learn(500)
    return agent


def law(report, name):
    return next(law for law in report.laws if law.name == name)


@pytest.mark.parametrize("options", [{}, {"n_ambulances": 2}, {"arrivals": "shifting"}])
def test_a_sound_agent_passes(options):
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", **options), seed=0)
    agent.learn(500)
    report = zooming.audit(agent)
    assert report.holds
    assert 0.5 <= report.c1 <= report.c2 < 1.0  # 4^(l-1) <= n < 4^l and diam = 2^-l
    assert report.size_ratio < 8
    assert report.nbytes == agent.nbytes


def test_a_net_is_audited_for_what_applies_to_it():
    agent = zooming.NetQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(100)
    report = zooming.audit(agent)
    assert report.holds
    assert law(report, "visits per depth").holds is None


def _deepest(agent):
    rows = agent.table.rows[: agent.table.rows_in_use]
    return int(np.argmax(np.where(rows["child"] == 0, rows["depth"], 0)))


def _inner(agent):
    return int(np.flatnonzero(agent.table.rows["child"])[3])


@pytest.mark.parametrize(("name", "row", "change", "broken", "found"), [
    ("n_visits", _deepest, lambda n: 1, "visits per depth", "step .*1 visits"),
    ("depth", _deepest, lambda depth: depth - 1, "ball table", "depth"),
    ("cut", _inner, lambda cut: cut + 0.01, "ball table", "middle"),
    ("value", lambda agent: 0, lambda value: value + 1.0, "ball table", "largest"),
])  # fmt: skip
def test_a_wrong_number_is_named_with_its_ball(agent, name, row, change, broken, found):
    column, i = agent.table.rows[name], row(agent)
    column[i] = change(column[i])
    report = zooming.audit(agent)
    assert law(report, broken).holds is False
    assert re.search(found, law(report, broken).found), law(report, broken).found
    assert "BROKEN" in str(report)


def test_optimism_is_measured_against_the_optimum():
    env = lottery_env()
    optimal = zooming.solve(env, 40)
    greedy = zooming.AdaptiveQ(env, bonus=0.0, seed=0)
    greedy.learn(300)
    report = zooming.audit(greedy, optimal, n_points=300)
    assert report.optimism_failures > 0.05
    assert law(report, "optimism").holds is None  # this bonus promised nothing
    assert "first at step 0, the ball" in law(report, "optimism").found
    assert report.holds
    fresh = zooming.audit(zooming.AdaptiveQ(env, seed=0), optimal, n_points=100)
    assert fresh.optimism_failures == 0


@functools.cache
def solved_lottery():
    env = lottery_env()
    return env, zooming.solve(env, 40)


def failures_and_regret(bonus, n_runs, episodes):
    """Share of runs in which optimism fails anywhere that was looked at, and the mean regret."""
    env, optimal = solved_lottery()
    make = functools.partial(zooming.AdaptiveQ, bonus=bonus)
    histories = zooming.learn_many(make, env, range(n_runs), episodes)
    reports = [zooming.audit(history.agent, optimal, n_points=60) for history in histories]
    regret = np.mean([history.regret(optimal).cumulative[-1] for history in histories])
    return np.mean([report.optimism_failures > 0 for report in reports]), regret


@pytest.mark.slow
def test_theorem_optimism_fails_in_at_most_a_delta_fraction_of_runs():
    # Q* of the lottery is Lipschitz with L = 1/2 + 1/2 for the reward, plus 1/2 for the next step's
    # state.
    constants = {"episodes": 300, "delta": 0.05, "lipschitz": 1.5}
    theory, slow = failures_and_regret(bonuses.Theory(**constants), 20, 300)
    exact, fast = failures_and_regret(bonuses.Exact(**constants), 20, 300)
    assert theory <= 0.05
    assert exact <= 0.05
    assert fast < slow  # the tighter bonus explores less


@pytest.mark.slow
@pytest.mark.parametrize("bonus", [bonuses.Theory, bonuses.Exact, bonuses.Bernstein])
@pytest.mark.parametrize("wrapped", [lambda bonus: bonus, bonuses.Doubling])
def test_theorem_optimism_holds_if_the_number_of_episodes_is_not_known(bonus, wrapped):
    failures, _ = failures_and_regret(wrapped(bonus(lipschitz=1.5)), 10, 200)
    assert failures == 0


def test_only_a_bonus_with_a_proof_can_break_the_promise_of_optimism():
    env = lottery_env()
    optimal = zooming.solve(env, 40)
    tiny = {"episodes": 300, "lipschitz": 0.0}
    found = {}
    for bonus in (bonuses.Bernstein(c1=1e-6, c2=1e-6, **tiny), bonuses.Exact(delta=0.999, **tiny)):
        agent = zooming.AdaptiveQ(env, bonus=bonus, seed=0)
        agent.table.core["bonus"] *= 1e-6  # a promise that is not kept
        agent.learn(300)
        found[type(bonus)] = law(zooming.audit(agent, optimal, n_points=300), "optimism")
    assert found[bonuses.Bernstein].holds is None
    assert "nothing is promised here" in found[bonuses.Bernstein].found
    assert found[bonuses.Exact].holds is False


@pytest.mark.parametrize("options", [{}, {"shared": False}, {"max_balls": 20}])
def test_a_tree_is_audited_as_a_partition_and_nothing_more_is_promised(options):
    env = gym.make("zooming/Oil-v0", sharpness=10.0)
    agent = zooming.TreeQ(env, seed=0, **options)
    agent.learn(300)
    report = zooming.audit(agent, zooming.solve(env, 30), n_points=100)
    assert report.holds
    assert law(report, "covering").holds is True
    assert [one.holds for one in report.laws[-3:]] == [None, True, None]
    assert "visits do not tell the radius" in law(report, "visits per depth").found
    assert ("of at most 20 balls" in str(report)) == ("max_balls" in options)
    agent.table.rows["n_visits"][agent.table.rows["child"] == ACTIVE] = 0
    assert zooming.audit(agent).holds is False


def test_audits_refuse_what_they_cannot_check():
    env = gym.make("zooming/Oil-v0")
    said = r"optimal=4.75: give what zooming.solve\(env\) returns"
    with pytest.raises(zooming.ConfigurationError, match=said):
        zooming.audit(zooming.AdaptiveQ(env), 4.75)
    with pytest.raises(zooming.ConfigurationError, match="n_points='all'"):
        zooming.audit(zooming.AdaptiveQ(env), n_points="all")
    for kind in (zooming.Random, zooming.Planner, zooming.Auto):
        message = f"{kind.__name__} keeps no balls of the paper's algorithm, so no lemma"
        with pytest.raises(zooming.ConfigurationError, match=message):
            zooming.audit(kind(env))
    with pytest.raises(zooming.ConfigurationError, match="steps"):
        zooming.audit(zooming.AdaptiveQ(env), zooming.solve(lottery_env(), 4))


def test_the_command_audits_a_file(tmp_path, capsys, agent):
    path = tmp_path / "agent.zoom"
    agent.save(path)
    cli.main(["audit", str(path)])
    assert "holds" in capsys.readouterr().out
    cli.main(["audit", str(path), "--solve", "--resolution", "20"])
    shown = capsys.readouterr().out
    assert "optimism" in shown
    assert re.search(r"optimum 4.3\d+ \(within about ", shown)
    (tmp_path / "bad.zoom").write_text("no")
    with pytest.raises(SystemExit, match="not a zooming file"):
        cli.main(["audit", str(tmp_path / "bad.zoom")])
    with pytest.raises(SystemExit, match="missing"):
        cli.main(["audit", str(tmp_path / "missing.zoom")])


# --- balls of a metric ----------------------------------------------------------------------------


def errand(state, action, step, params, outcome, next_state):
    """Ten stations on a ring: wait at one, and the call comes from two of them."""
    next_state[0] = outcome[0]
    way = abs(action[0] - outcome[0])
    return 1.0 - min(way, 10.0 - way) / 5.0


RING = metrics.Graph([(i, (i + 1) % 10) for i in range(10)])


@functools.cache
def stations():
    """The environment of the errands, compiled once and only if a test needs it."""
    ten = gym.spaces.Discrete(10)
    return zooming.compiled_env(
        errand, ten, ten, 3, start=[0.0], outcomes=([[2.0], [7.0]], [0.7, 0.3])
    )


def on_ring(episodes=400, metric=RING, **options):
    agent = zooming.MetricQ(stations(), metric, seed=0, **options)
    agent.learn(episodes)
    return agent


@pytest.mark.parametrize("options", [
    {},
    {"lazy": True},
    {"split_after": 0.1, "lazy": True},
    {"split_after": 3.0},
    {"max_balls": 25},
    {"metric": metrics.Product(RING, metrics.Discrete(), "sum", scale=(1e-100, 3e-100))},
    {"metric": metrics.Product(RING, RING, 2), "lazy": True},
    {"episodes": 0},
])  # fmt: skip
def test_lemma_balls_of_a_metric_keep_every_law(options):
    agent = on_ring(**options)
    report = zooming.audit(agent, zooming.solve(stations()))
    assert report.holds
    assert [law.name for law in report.laws] == [
        "covering", "separation", "parents", "visits per depth", "ball table", "optimism",
    ]  # fmt: skip
    assert all(law.holds for law in report.laws[:-1])
    assert report.nbytes == agent.nbytes
    assert "K^(d/(d+2))" not in str(report)  # the dimension of a general metric is not known
    if options == {}:
        assert agent.n_balls > 60
        assert 0.5 <= report.c1 <= report.c2 < 1.0
        assert "sqrt(n) r / d_max" in str(report)
    if options == {"lazy": True}:
        assert report.c2 > 1.0
        assert "more, one for each child" in law(report, "visits per depth").found


def _some(agent, depth=2):
    """A ball of this depth with a domain of several pairs, and another of its radius and step."""
    rows = agent.table.rows[: agent.table.rows_in_use]
    found = np.flatnonzero((rows["depth"] == depth) & (rows["step"] == 1))
    sizes = rows["n_points"][found]
    return int(found[np.argmax(sizes)]), int(found[np.argmin(sizes)])


def _another_parent(agent, one, other):
    rows = agent.table.rows
    parents = np.flatnonzero((rows["depth"] == 1) & (rows["step"] == 1))
    rows["parent"][one] = parents[parents != rows["parent"][one]][0]


def _same_center(agent, one, other):
    old, young = sorted((one, other))
    for name in ("state", "action"):
        agent.table.rows[name][young] = agent.table.rows[name][old]


def _own(row):
    return lambda agent, one, other: agent.table.owner.__setitem__((1, 4, 6), row)


def _set(name, value):
    def spoil(agent, one, other):
        agent.table.rows[name][one] = value

    return spoil


@pytest.mark.parametrize(
    ("spoil", "broken", "explanation"),
    [
        (_own(1), "covering", r"step 1: the pair \(state 4, action 6\) is in the domain of ball "
            r"1, but the smallest ball"),
        (_own(-7), "covering", "domain of ball -7"),
        (_set("n_points", 77), "covering", "the ball .* says that its domain has 77 pairs; it has"),
        (lambda agent, *_: agent.table.core["n_balls"].__setitem__(0, 3), "covering", "counts 3 "
            "active balls"),
        (_same_center, "separation", "step 1, the ball .* is no further than its radius from step "
            "1, the ball"),
        (_another_parent, "parents", "had its center in the domain of ball .*, not in that of its "
            "parent"),
        (_set("n_visits", 3), "visits per depth", "3 visits.* should have from 4 to 15"),
        (_set("n_visits", 16), "visits per depth", "16 visits.* should have from 4 to 15"),
        (_set("radius", 0.3), "ball table", r"has a radius that is not d_max 2\^-depth"),
        (_set("reach", 0.3), "ball table", r"has a radius that is not d_max 2\^-depth"),
        (_set("depth", 5), "ball table", "is not one deeper than its parent"),
        (_set("step", 2), "ball table", "is not at its parent's step"),
        (_set("parent", 10**6), "ball table", "names a parent that is not older"),
        (_set("action", 10), "ball table", r"\(state .*, action number 10\).* has a center that "
            r"is no point"),
        (_set("value", np.nan), "ball table", "has a value that is not finite"),
    ],
)  # fmt: skip
def test_one_thing_that_is_wrong_with_a_ball_is_named(spoil, broken, explanation):
    agent = on_ring(40)
    one, other = _some(agent)
    assert one != other
    assert zooming.audit(agent).holds
    spoil(agent, one, other)
    report = zooming.audit(agent)
    assert law(report, broken).holds is False
    assert re.search(explanation, law(report, broken).found), law(report, broken).found
    assert "BROKEN" in str(report)


@pytest.mark.parametrize(("away", "holds"), [(4, False), (5, True)])
def test_centers_of_equal_radius_at_exactly_that_distance_are_too_near(away, holds):
    places = np.minimum(np.arange(10.0), 8.0)  # of diameter 8: the radius 4 is a distance
    agent = on_ring(0, metrics.Matrix(np.abs(np.subtract.outer(places, places))))
    agent.table.add(1, 0, 4)
    agent.table.add(1, away, 4)
    assert law(zooming.audit(agent), "separation").holds is holds


def test_lazy_children_excuse_as_many_visits_as_there_are_children_and_no_more():
    agent = on_ring(lazy=True)
    rows = agent.table.rows[: agent.table.rows_in_use]
    children = np.bincount(rows["parent"][3:], minlength=len(rows))
    row = int(np.argmax(np.where(rows["n_points"] > 1, children, 0)))
    assert rows["n_visits"][row] == 4 ** rows["depth"][row] - 1 + children[row]
    rows["n_visits"][row] += 1
    assert law(zooming.audit(agent), "visits per depth").holds is False


def test_optimism_of_balls_is_looked_at_in_every_pair_of_a_finite_problem():
    optimal = zooming.solve(stations())
    greedy = zooming.audit(on_ring(bonus=0.0), optimal)
    assert greedy.optimism_failures > 0.1
    assert law(greedy, "optimism").holds is None
    assert "of 300 pairs" in law(greedy, "optimism").found
    assert "nothing is promised here" in law(greedy, "optimism").found
    agent = on_ring(bonus=bonuses.Theory(episodes=400, lipschitz=5.0))
    report = zooming.audit(agent, optimal)
    assert law(report, "optimism").holds is True
    row = int(agent.table.owner[2, 4, 6])
    pairs = int((agent.table.owner[2] == row).sum())
    agent.table.rows["value"][row] = -1.0
    report = zooming.audit(agent, optimal)
    assert law(report, "optimism").holds is False
    assert report.optimism_failures == pytest.approx(pairs / 300)
    assert re.search(
        r"first at step 2, \(state \d, action \d\): Q = -1.0000 < Q\*",
        law(report, "optimism").found,
    )
    # The constant 4 is for balls split in time.
    for options in ({"lazy": True}, {"split_after": 2.0}, {"max_balls": 30}):
        spoiled = on_ring(bonus=bonuses.Theory(episodes=400, lipschitz=5.0), **options)
        spoiled.table.rows["value"][:] = -1.0
        assert law(zooming.audit(spoiled, optimal), "optimism").holds is None


def test_balls_on_boxes_are_audited_against_the_optimum():
    env = gym.make("zooming/Ambulance-v0")
    agent = zooming.MetricQ(env, metrics.LInf(points_per_axis=17), seed=0)
    agent.learn(300)
    report = zooming.audit(agent, zooming.solve(env, 20))
    assert report.holds
    assert law(report, "optimism").holds is None
    agent.table.owner[0, 3, 8] = 4
    assert "the pair (state [0.1875], action [0.5])" in law(zooming.audit(agent), "covering").found


def test_an_agent_that_forgets_is_told_that_no_bound_holds():
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), memory=20, seed=0)
    agent.learn(50)
    assert "with memory=20" in str(zooming.audit(agent))
    assert "memory" not in str(zooming.audit(zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)))
