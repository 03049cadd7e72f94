"""The gallery of operations problems: laws, ranges, rules, optima, closed forms and refusals."""

import functools
import itertools
import math
import re
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import zooming
from zooming.analysis.solve import policy_value
from zooming.lab.study.run_command import list_names

UPS_AND_DOWNS = [0.2, 0.12, 0.4, 0.28, 0.44, 0.2]  # on the grid of 20 cells from 0 to 0.8
FREE = {"prices": UPS_AND_DOWNS, "volatility": 0.0, "efficiency": 1.0, "wear": 0.0, "power": 10.0}
DOCS = Path(__file__).parent.parent / "docs" / "problems"
DRAWER = Path(__file__).parent.parent / "tools" / "problems.py"
# Each problem with the resolution at which it is solved here, in a second; None is exact.
PROBLEMS = {
    "Newsvendor": 40, "Inventory": 12, "Pricing": 40, "Queue": 16, "Admission": 16, "Storage": 8,
    "Autoscaling": 16, "Bidding": 40, "Allocation": 20, "GraphAmbulance": None, "RiverSwim": 80,
    "Regulator": 100, "Caching": 30, "Balancing": 12, "Prefetching": 16,
}  # fmt: skip
ALL = sorted(PROBLEMS)


def make(name, **options):
    return gym.make(f"zooming/{name}-v0", **options)


@functools.cache
def optimum(name):
    return zooming.solve(make(name), PROBLEMS[name])


@pytest.mark.plain
@pytest.mark.parametrize("name", ALL)
def test_a_problem_passes_gymnasiums_check_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*symmetric and normalized space.*")  # money is neither
        check_env(make(name).unwrapped, skip_render_check=True)


def pairs(env, rng, n):
    """n pairs of states and actions, corners among them."""
    for i in range(n):
        found = []
        for box in (env.state_box, env.action_box):
            share = rng.integers(0, 2, box.shape) if i % 2 else rng.random(box.shape)
            found.append(box.low + share * (box.high - box.low))
        states, actions = env.round_discrete(found[0][None], found[1][None])
        yield states[0], actions[0]


@pytest.mark.plain
@pytest.mark.parametrize("name", ALL)
def test_every_outcome_stays_in_the_space_and_in_the_range_which_is_reached(name):
    env, rng = make(name).unwrapped, np.random.default_rng(0)
    low, high = env.reward_range
    assert zooming.reward_range(env) == (low, high)
    found = []
    for step in sorted({0, env.horizon // 2, env.horizon - 1}):
        values, weights = env.outcomes(step, 1)
        for state, action in pairs(env, rng, 24):
            weights = np.full(len(values), np.nan)
            env.weigh(state, action, step, env.params, values, weights)
            assert (weights >= 0).all()
            assert weights.sum() > 0
            for outcome in values:
                after = np.full(len(state), np.nan)
                found.append(env.given(state, action, step, env.params, outcome, after))
                assert env.are_states(after[None])[0]
    reached = f"rewards from {min(found):g} to {max(found):g}; reward_range is {low:g} to {high:g}"
    assert low <= min(found), reached
    assert max(found) <= high, reached
    assert min(found) <= low + 0.5 * (high - low), f"the range is far too wide: {reached}"
    assert max(found) >= high - 0.5 * (high - low), f"the range is far too wide: {reached}"


@pytest.mark.parametrize("name", ALL)
def test_draws_follow_the_law_that_is_solved(name):
    env, rng = make(name).unwrapped, np.random.default_rng(1)
    n, step = 3000, env.horizon // 2
    for state, action in itertools.islice(pairs(env, rng, 3), 3):
        values, _ = env.outcomes(step, 1)
        weights = np.empty(len(values))
        env.weigh(state, action, step, env.params, values, weights)
        after, rewards = np.empty((len(values), len(state))), np.empty(len(values))
        for i, outcome in enumerate(values):
            rewards[i] = env.given(state, action, step, env.params, outcome, after[i])
        law = np.column_stack([rewards, after])
        mean = weights / weights.sum() @ law
        spread = np.sqrt(weights / weights.sum() @ (law - mean) ** 2)
        drawn, place = np.empty((n, 1 + len(state))), np.empty(len(state))
        for i in range(n):
            drawn[i, 0] = env.dynamics(state, action, step, env.params, rng, place)
            drawn[i, 1:] = place
        assert (np.abs(drawn.mean(axis=0) - mean) <= 5 * spread / np.sqrt(n) + 1e-9).all(), (
            f"state {state}, action {action}: `dynamics` has the mean reward and next state "
            f"{drawn.mean(axis=0)}, `given` and `weigh` have {mean}"
        )


@pytest.mark.parametrize("name", ALL)
def test_the_rule_is_below_the_optimum_and_above_random(name):
    env, optimal = make(name), optimum(name)
    ruled = zooming.evaluate(env.unwrapped.rule, env, episodes=200)
    half = ruled.high - ruled.mean
    random = zooming.Random(env, seed=0).learn(400).returns
    returns = f"rule {ruled.mean:g}, random {random.mean():g}, optimum {optimal.return_:g}"
    assert ruled.mean <= optimal.return_ + optimal.return_error + 2 * half, returns
    assert ruled.mean > random.mean() + 2 * half, f"choose other default settings: {returns}"
    assert random.mean() < optimal.return_, returns


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_auto_earns_three_fifths_of_what_random_play_misses_in_300_episodes(name):
    env, best = make(name), optimum(name).return_
    random = zooming.Random(env, seed=0).learn(1000).returns.mean()
    seed = 2 if name == "RiverSwim" else 1  # 3 of 16 seeds have not seen the far bank by then
    agent = zooming.Auto(env, seed=seed)
    agent.learn(300)
    assert zooming.evaluate(agent, env, 300).mean > random + 0.6 * (best - random)


def test_the_value_of_a_rule_from_a_rough_grid_is_the_computed_one():
    env = make("Inventory", horizon=6)
    rule, inner = env.unwrapped.rule, env.unwrapped

    def choose(step, states):
        return inner.actions(rule.predict(states, state=np.full(len(states), step))[0])

    computed = zooming.evaluate(rule, env, exact=True)
    value, half = policy_value(zooming.solve(env, 10).grid, choose)
    assert abs(value - computed.mean) <= 1.5 * half
    played = zooming.evaluate(rule, env, episodes=400)
    assert half < (played.high - played.mean) / 2  # the same number of episodes says less


# --- closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "resolution"),
    [
        ("Newsvendor", {}, 40),
        ("Newsvendor", {"start": 2.0, "demand": 2.0, "price": 1.5, "horizon": 3}, 40),
        ("Newsvendor", {"price": 0.5, "horizon": 2}, 40),  # better not to trade at all
        ("Storage", {**FREE, "start": 3.0}, 20),
        ("Autoscaling", {"start_cost": 0.0, "load": [4.0, 30.0, 12.0]}, 64),
        ("Bidding", {}, 200),
        ("Bidding", {"auction": "second", "rivals": 2}, 200),
        ("Allocation", {"needs": [20.0], "chances": [1.0], "budget": 80.0, "horizon": 4}, 40),
        ("GraphAmbulance", {"move_cost": 0.0}, None),
        ("Regulator", {}, 400),
        ("Regulator", {"gain": 0.8, "noise": 0.3, "start": -1.0, "horizon": 3}, 400),
    ],
)
def test_the_solved_optimum_is_that_of_the_formula(name, options, resolution):
    env = make(name, **options)
    optimal, formula = zooming.solve(env, resolution), env.unwrapped.closed_form()
    assert abs(optimal.return_ - formula) <= max(optimal.return_error, 1e-9)
    assert optimal.return_ == pytest.approx(formula, rel=2e-3, abs=1e-6)


@pytest.mark.parametrize("resolution", [20, 60])
def test_the_bracket_of_a_coarse_grid_holds_the_formula(resolution):
    env = make("Regulator")
    optimal, formula = zooming.solve(env, resolution), env.unwrapped.closed_form()
    assert optimal.return_low <= formula <= optimal.return_high
    assert optimal.return_low <= optimal.return_ <= optimal.return_high
    assert optimal.return_error < optimal.error / 2


def test_the_lower_end_of_the_bracket_is_earned_by_a_policy():
    env = make("Allocation", horizon=3).unwrapped
    rough, fine = (zooming.solve(env, resolution) for resolution in (8, 60))
    returns = []
    for seed in range(200):  # the policy of the rough grid
        state, _ = env.reset(seed=seed)
        total = 0.0
        for step in range(env.horizon):
            state, reward, *_ = env.step(rough.action(step, state))
            total += reward
        returns.append(total)
    half = 1.96 * np.std(returns) / 200**0.5
    assert abs(np.mean(returns) - rough.return_low) <= 1.5 * half
    assert rough.return_low < fine.return_low < fine.return_high < rough.return_high


@pytest.mark.parametrize(("name", "options"), [
    ("Newsvendor", {"salvage": 0.0}), ("Newsvendor", {"start": 20.0}), ("Autoscaling", {}),
    ("Allocation", {}), ("Regulator", {"start": 9.0}),
])  # fmt: skip
def test_where_the_formula_does_not_hold_there_is_none(name, options):
    assert make(name, **options).unwrapped.closed_form() is None


def test_a_grid_that_contains_all_units_is_proposed_where_it_is_feasible():
    assert make("Pricing").unwrapped.resolution == 120  # both 120 and 60 cells contain 20 seats
    assert make("Pricing", seats=1000).unwrapped.resolution is None
    assert make("Newsvendor", capacity=7.5).unwrapped.resolution is None
    assert make("Inventory", lead_time=1).unwrapped.resolution == 120
    assert make("Inventory").unwrapped.resolution == 60
    optimal = zooming.solve(make("Pricing", seats=30, horizon=2))
    assert optimal.resolution == 120


def test_the_ways_of_a_graph_are_shortest_and_serve_as_a_metric():
    env = make("GraphAmbulance", edges=[(0, 1, 4.0), (1, 2, 1.0), (0, 2, 2.0), (2, 3, 5.0)])
    ways = env.unwrapped.distances
    assert ways.tolist() == [[0, 3, 2, 7], [3, 0, 1, 6], [2, 1, 0, 5], [7, 6, 5, 0]]
    metric = zooming.metrics.Matrix(ways)
    agent = zooming.MetricQ(env, zooming.metrics.Product(metric, metric), seed=0)
    history = agent.learn(300)
    assert history.returns[-100:].mean() > history.returns[:100].mean()


# --- plain versions -----------------------------------------------------------------------------


def chances(mean, n):
    """Probabilities of min(N, n) for N Poisson, from the formula."""
    below = [math.exp(-mean) * mean**i / math.factorial(i) for i in range(n)]
    return [*below, 1.0 - sum(below)]


def backward(horizon, states, actions, outcomes):
    """Optimal values {state: value} by recursion; outcomes(x, a) yields (chance, reward, x')."""
    values = dict.fromkeys(states, 0.0)
    for _ in range(horizon):
        values = {
            x: max(sum(p * (r + values[y]) for p, r, y in outcomes(x, a)) for a in actions)
            for x in states
        }
    return values


def test_inventory_is_solved_like_a_plain_recursion_over_whole_units():
    options = {"demand": 2.0, "fixed_cost": 4.0, "capacity": 6, "most_backlog": 3}
    options |= {"most_order": 5, "lead_time": 1, "horizon": 4, "start": 2}
    law = list(enumerate(chances(2.0, math.ceil(2.0 + 6 * math.sqrt(2.0) + 2))))

    def outcomes(x, q):
        for demand, chance in law:
            left = max(x - demand, -3)
            cost = 4.0 * (q > 0) + 1.0 * max(left, 0) + 9.0 * max(-left, 0)
            yield chance, -cost, min(left + q, 6)

    values = backward(4, range(-3, 7), range(6), outcomes)
    optimal = zooming.solve(make("Inventory", **options), 36)
    assert optimal.return_ == pytest.approx(values[2], abs=1e-5)  # orders are searched to 1e-4


def test_prices_are_solved_like_a_plain_recursion_over_seats():
    grid = np.linspace(0.0, 400.0, 801)

    def outcomes(x, price):
        for demand, chance in enumerate(chances(3.0 * math.exp(-price / 100.0), 4)):
            yield chance, price * min(x, demand), x - min(x, demand)

    values = backward(3, range(5), grid, outcomes)
    optimal = zooming.solve(make("Pricing", seats=4, customers=3.0, horizon=3))
    assert optimal.return_ == pytest.approx(values[4], rel=1e-4)


@pytest.mark.parametrize("name", ["Queue", "Admission"])
def test_a_queue_is_solved_like_a_plain_recursion_over_jobs(name):
    n = math.ceil(2.0 + 4 * math.sqrt(2.0) + 2)

    def outcomes(x, a):
        arrivals = chances(2.0 if name == "Queue" else 2.0 * a, n)
        services = chances(a if name == "Queue" else 3.0, 3)
        for (i, p), (j, q) in itertools.product(enumerate(arrivals), enumerate(services)):
            jobs = x - min(j, x) + i
            after = min(jobs, 3)
            if name == "Queue":
                yield p * q, -(1.0 * after + 0.5 * a * a + 10.0 * (jobs - after)), after
            else:
                yield p * q, 5.0 * (i - (jobs - after)) - 1.0 * after, after

    options = {"arrivals": 2.0, "capacity": 3, "start": 2, "horizon": 3}
    options |= {"fastest": 6.0} if name == "Queue" else {"service": 3.0}
    actions = np.linspace(0.0, 6.0 if name == "Queue" else 1.0, 201)
    optimal = zooming.solve(make(name, **options), 12)
    values = backward(3, range(4), actions, outcomes)
    assert optimal.return_ == pytest.approx(values[2], rel=1e-4)


# --- rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_rule_decides_alike_for_one_state_and_for_many(name):
    env = make(name).unwrapped
    rule = env.rule
    states = np.array([state for state, _ in pairs(env, np.random.default_rng(2), 6)])
    steps = np.arange(6) % env.horizon
    observed = env.observations(states)
    many, after = rule.predict(observed, state=steps)
    assert after.tolist() == (steps + 1).tolist()
    for observation, step, action in zip(observed, steps, many, strict=True):
        assert np.all(rule.act(int(step), observation) == action)
        assert np.all(rule.predict(observation, state=[step])[0] == action)
        assert env.action_space.contains(action)
    started, _ = rule.predict(observed, state=steps, episode_start=np.ones(6, bool))
    assert np.all(started == rule.predict(observed)[0])


@pytest.mark.parametrize("name", ALL)
def test_a_rules_numbers_have_ranges_and_can_be_tuned(name):
    rule = make(name).unwrapped.rule
    assert (rule.low <= rule.numbers).all()
    assert (rule.numbers <= rule.high).all()
    assert (rule.low < rule.high).all()
    assert rule.with_numbers(rule.high).numbers.tolist() == rule.high.tolist()
    with pytest.raises(zooming.ConfigurationError, match=r"takes .* from .* to .*, got"):
        rule.with_numbers(rule.high + 1.0)
    assert all(f"{name}=" in repr(rule) for name in rule.names)
    with pytest.raises(zooming.ConfigurationError, match=r"takes \d numbers? .*got"):
        rule.with_numbers([1.0] * 7)


def test_every_problem_is_listed_in_one_sentence(capsys):
    list_names()
    shown = capsys.readouterr().out
    assert "zooming/Queue-v0          how fast to serve a queue." in shown
    assert all(f"  zooming/{name}-v0 " in shown for name in ALL)


def test_every_registered_problem_is_tested_and_drawn():
    registered = {name[8:-3] for name in gym.registry if name.startswith("zooming/")}
    registered -= {"Oil", "Ambulance"}  # those of the paper are tested in test_envs.py
    drawn = set(re.findall(r'^    "(\w+)": View\(', DRAWER.read_text(), re.M))
    assert registered == set(PROBLEMS), "list each problem of zooming/__init__.py in PROBLEMS here"
    assert registered == drawn, (
        "list each problem of zooming/__init__.py in VIEWS of tools/problems.py"
    )


@pytest.mark.parametrize("name", ALL)
def test_every_problem_has_a_page_with_a_small_picture(name):
    stem = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
    path, picture = DOCS / f"{stem}.md", DOCS / f"{stem}.png"
    assert path.exists(), f"write docs/problems/{stem}.md, like newsvendor.md"
    page, contents = path.read_text(), (DOCS / "index.md").read_text()
    assert f'gym.make("zooming/{name}-v0")' in page, f"{stem}.md does not make the environment"
    assert f"]({stem}.png)" in page, f"{stem}.md does not show {stem}.png"
    assert picture.exists(), f"draw {stem}.png: python tools/problems.py {name}"
    assert picture.stat().st_size < 30_000
    assert f"\n{stem}\n" in contents, f"{stem} is not in the toctree of docs/problems/index.md"
    row = f"| [{name}]({stem}.md) |"
    assert row in contents, f"no row {row} in docs/problems/index.md: tools/problems.py prints it"


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize(("name", "options", "message"), [
    ("Newsvendor", {"demand": -1.0}, "demand=-1.0: the mean demand of a day must be a finite"),
    ("Newsvendor", {"demand": [1, 2]}, "demand has 2 entries: give one number, or one for .* 7"),
    ("Newsvendor", {"demand": [5.0] * 6 + ["x"]}, r"demand\[6\]='x': the mean demand"),
    ("Newsvendor", {"start": 21.0}, "start=21.0: the stock before the first day .* 0 to 20"),
    ("Newsvendor", {"pirce": 1.0}, "Newsvendor has no option 'pirce'; did you mean 'price'"),
    ("Inventory", {"lead_time": 0}, "lead_time=0"),
    ("Inventory", {"min_order": 50.0}, "the smallest order must be .* 0 to 30"),
    ("Inventory", {"fixed_cost": 0, "holding": 0, "backlog": 0}, "nothing costs anything"),
    ("Pricing", {"lowest_price": 400.0}, "lowest_price=400 is not below highest_price=400"),
    ("Queue", {"arrivals": 7.0}, "arrivals=7 .* not below the rate fastest=6: the queue grows"),
    ("Queue", {"start": 16}, "start=16 jobs do not fit into a room for capacity=15"),
    ("Storage", {"prices": [0.2, 0.9]}, "prices run from 0.2 to 0.9, outside lowest_price=0"),
    ("Storage", {"start": 11.0}, "the battery holds only capacity=10"),
    ("Autoscaling", {"load": [70.0]}, "the load rises to 70, but .* carry only 64"),
    ("Autoscaling", {"start": 17.0}, "start=17 servers exceed most_servers=16"),
    ("Bidding", {"auction": "dutch"}, "auction='dutch': choose one of"),
    ("Bidding", {"tick": 0.3}, "highest_rival=10 is not a whole number of ticks"),
    ("Allocation", {"needs": [1.0]}, "1 needs and 3 chances: give one chance per need"),
    ("Allocation", {"chances": [0.5, 0.3, 0.3]}, "probabilities are not negative and sum to 1"),
    ("Allocation", {"needs": "many"}, "needs='many': give a list of numbers"),
    ("GraphAmbulance", {"edges": [(0, 1, 1.0), (2, 3, 1.0)]}, r"falls apart: .* to \[2, 3\]"),
    ("GraphAmbulance", {"edges": [(0, 1, -1.0)]}, "a way takes more than 0 minutes"),
    ("GraphAmbulance", {"edges": [(0, 1)]}, r"edge \(0, 1\): give \(node, node, minutes\)"),
    ("GraphAmbulance", {"calls": [1.0]}, "calls has 1 entries, but the graph has the 10 nodes"),
    ("GraphAmbulance", {"start": 10}, "start=10: give a whole number from 0 to 9"),
    ("RiverSwim", {"ahead": 0.9, "back": 0.2}, "their sum is at most 1"),
    ("Regulator", {"gain": 2.0, "horizon": 60}, "lets deviations grow to .* in 60 steps"),
    ("Caching", {"keep": 1.0}, "the share of the pressure that stays"),
    ("Balancing", {"arrivals": 6.0}, "arrivals=6 are not below 5.4, what both servers"),
    ("Balancing", {"speeds": (1.0,)}, "give two positive numbers, the work of a server"),
    ("Prefetching", {"latency": 0.0}, "the lines that pass while one is fetched"),
])  # fmt: skip
def test_bad_settings_are_refused_in_the_problems_own_words(name, options, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        make(name, **options)
