"""Records of noise: read with checks, a law that is drawn and solved, outcomes that are told."""

import warnings

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import zooming
from helpers import box
from zooming.envs import functions
from zooming.envs.gallery.queue import admit_draw, serve_draw
from zooming.envs.records import condense, hazards_differ, kaplan_meier, rank, smooth, steps_differ
from zooming.kernels.loop.crossing import play_step
from zooming.kernels.solve.laws import fit_smooth

pytestmark = pytest.mark.kernels

STOCK = box((0.0, 20.0))
TABLE = {
    "week": [1, 1, 1, 2, 2, 2, 3, 3, 3],
    "day": [0, 1, 2] * 3,
    "demand": [3.0, 9.0, 1.0, 4.0, 8.0, 2.0, 2.0, 9.0, 1.0],
}
PROBLEMS = [
    "Oil", "Ambulance", "Newsvendor", "Inventory", "Pricing", "Queue", "Admission", "Storage",
    "Autoscaling", "Bidding", "Allocation", "GraphAmbulance", "RiverSwim", "Regulator",
    "Caching", "Balancing", "Prefetching",
]  # fmt: skip


def day(state, action, step, params, outcome, next_state):
    level = min(state[0] + action[0], 20.0)
    sold = min(level, outcome[0])
    next_state[0] = level - sold
    return 3.0 * sold - action[0] - 0.2 * (level - sold)


LEDGER = {}


def day_in_python(state, action, step, params, outcome, next_state):
    LEDGER[step] = LEDGER.get(step, 0) + 1  # no compiler takes this
    return day(state, action, step, params, outcome, next_state)


def shop(records, horizon, dynamics=day, **options):
    return zooming.compiled_env(
        dynamics, STOCK, STOCK, horizon, start=[0.0], outcomes=records, **options
    )


def poisson(n_episodes, n_steps, seed=0, means=5.0):
    rng = np.random.default_rng(seed)
    return rng.poisson(means, (n_episodes, n_steps)).astype(float)


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.plain
def test_a_law_is_what_was_seen_as_often_as_it_was_seen():
    records = zooming.Records([[1.0, 2.0], [1.0, np.nan], [3.0, 2.0]], law="step")
    (first, chances), (second, certain) = records.laws(2)
    assert first.ravel().tolist() == [1.0, 3.0]
    assert chances == pytest.approx([2 / 3, 1 / 3])
    assert (second.ravel().tolist(), certain.tolist()) == ([2.0], [1.0])
    pooled = zooming.Records(records.values, law="pooled").law(1, 2)
    assert pooled[0].ravel().tolist() == [1.0, 2.0, 3.0]
    assert pooled[1] == pytest.approx([0.4, 0.4, 0.2])


@pytest.mark.plain
def test_steps_of_one_law_are_pooled_and_others_are_not():
    alike = [zooming.Records(poisson(40, 6, seed)).choice(6)[0] for seed in range(60)]
    assert alike.count("step") <= 2  # the level of the test is 0.005
    apart = zooming.Records(poisson(10, 6, means=[3, 3, 3, 9, 9, 9])).choice(6)
    assert apart[0] == "step"
    assert apart[1] < 1e-4
    rng = np.random.default_rng(0)  # equal means, another spread
    spread = rng.normal(size=(40, 6)) * [1, 1, 1, 4, 4, 4]
    assert zooming.Records(spread).choice(6)[0] == "step"


@pytest.mark.plain
def test_the_test_of_steps_is_that_of_kruskal_and_wallis():
    stats = pytest.importorskip("scipy.stats")
    values = poisson(12, 4, means=[5, 5, 6, 7])
    expected = stats.kruskal(*values.T).pvalue
    ranks = rank(values.ravel())
    assert ranks == pytest.approx(stats.rankdata(values.ravel()))
    assert steps_differ(values[:, :, None]) == pytest.approx(2 * expected, rel=0.1)


@pytest.mark.plain
def test_seasons_share_their_law():
    records = zooming.Records([[1.0, 2.0, 7.0], [3.0, 4.0, 8.0]], by=["work", "work", "rest"])
    laws = records.laws(3)
    assert laws[0][0].ravel().tolist() == laws[1][0].ravel().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert laws[2][0].ravel().tolist() == [7.0, 8.0]
    with pytest.raises(zooming.ConfigurationError, match=r"by=.* has 1 entries; give the season"):
        zooming.Records([[1.0, 2.0]] * 2, by=["work"])
    with pytest.raises(zooming.ConfigurationError, match="by='ab': give a list, one season for"):
        zooming.Records([[1.0, 2.0]] * 2, by="ab")


@pytest.mark.plain
def test_a_series_is_cut_into_episodes():
    records = zooming.Records(np.arange(10.0))
    assert records.traces(4)[:, :, 0].tolist() == [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
    with pytest.raises(zooming.ConfigurationError, match="10 rows, fewer than the 11 steps"):
        records.traces(11)
    with pytest.raises(
        zooming.ConfigurationError, match="have 3 steps, but the environment has horizon=7"
    ):
        shop(zooming.Records(poisson(4, 3)), 7)


@pytest.mark.plain
def test_many_values_are_condensed_with_their_mean_kept():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(5000, 2)), rng.dirichlet(np.ones(5000))
    few, masses = condense(values, weights, 64)
    assert len(few) == len(masses) <= 64
    assert masses.sum() == pytest.approx(1.0)
    assert masses @ few == pytest.approx(weights @ values, abs=1e-12)
    records = zooming.Records(rng.normal(size=(500, 4)), law="pooled")
    assert len(records.law(0, 4)[0]) == 256
    assert 0 < records.condensed_by(4) < 0.02
    assert zooming.Records(poisson(50, 4)).condensed_by(4) == 0.0
    assert zooming.Records(poisson(50, 4), by=list("aaab")).condensed_by(4) == 0.0


def plain_kaplan_meier(values, hidden):
    survival, law = 1.0, {}
    for place in sorted(set(values)):
        pairs = list(zip(values, hidden, strict=True))
        seen = sum(v == place and not h for v, h in pairs)
        at_risk = seen + sum(v > place for v, _ in pairs)
        after = survival * (1 - seen / at_risk) if seen else survival
        law[place], survival = survival - after, after
    law[max(values)] += survival
    return {place: mass for place, mass in law.items() if mass > 0}


@pytest.mark.plain
def test_censored_values_give_the_law_of_kaplan_and_meier():
    rng = np.random.default_rng(1)
    demand, stock = rng.poisson(5, 200).astype(float), rng.integers(2, 9, 200).astype(float)
    seen, hidden = np.minimum(demand, stock), demand >= stock
    values, weights = kaplan_meier(seen, hidden)
    expected = plain_kaplan_meier(seen.tolist(), hidden.tolist())
    assert values.ravel().tolist() == sorted(expected)
    assert weights == pytest.approx([expected[v] for v in values.ravel()])
    share = np.mean(demand <= 4)
    assert weights[values.ravel() <= 4].sum() == pytest.approx(share, abs=0.1)
    records = zooming.Records(seen.reshape(-1, 1), censored=hidden)
    assert records.law(0, 1)[1] == pytest.approx(weights)


@pytest.mark.plain
def test_a_law_with_gaps_is_smoothed_and_keeps_its_mean():
    column = np.array([0.0, 0.5, 2.0, 3.0, 3.5, 4.0, 6.0, 7.5, 8.0, 10.0])
    values, weights = smooth(column)
    assert values.ravel() == pytest.approx(np.arange(23) / 2)  # width / n beyond, not below 0
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ values[:, 0] == pytest.approx(column.mean(), abs=0.01)
    assert np.abs(np.diff(np.log(weights), 2)).max() < 0.1


@pytest.mark.plain
def test_rates_are_those_of_newtons_method_with_a_full_matrix():
    counts, exposures = np.array([1.0, 0, 3, 2, 0, 1]), np.array([9.0, 9, 7, 5, 3, 2])
    law, total, best = np.zeros(6), 0.0, -np.inf
    bends = np.diff(np.eye(6), 2, axis=0)
    for k in range(15):
        stiffness = 0.5 * 7 * 6**3 * np.exp(-2.0 * k)
        g = np.full(6, np.log(7 / 35))
        for _ in range(200):  # Newton's method with a full matrix
            hessian = np.diag(exposures * np.exp(g)) + stiffness * bends.T @ bends
            gradient = counts - exposures * np.exp(g) - stiffness * bends.T @ bends @ g
            move = np.linalg.solve(hessian + 1e-9 * np.eye(6), gradient)
            g = g + move * min(1.0, 1.0 / np.abs(move).max())
        evidence = counts @ g - exposures @ np.exp(g) - stiffness / 2 * np.sum((bends @ g) ** 2)
        evidence += 2 * np.log(stiffness) - np.linalg.slogdet(hessian)[1] / 2
        fade = np.exp(min(0.0, best - evidence))
        share = np.exp(min(0.0, evidence - best))
        law, total, best = (
            law * fade + share * np.exp(g),
            total * fade + share,
            max(best, evidence),
        )
    found = np.empty(6)
    fit_smooth()(counts, exposures, found)
    assert found == pytest.approx(law / total, rel=1e-3)


@pytest.mark.plain
def test_a_law_that_is_not_smooth_is_left_as_it_was_seen():
    rng = np.random.default_rng(0)
    needs = rng.choice([10.0, 20.0, 40.0], 60, p=[0.5, 0.3, 0.2])
    values, weights = smooth(needs)
    assert values.ravel().tolist() == [10.0, 20.0, 30.0, 40.0]
    expected = [np.mean(needs == x) for x in (10, 20, 30, 40)]
    assert weights == pytest.approx(expected, abs=0.02)
    assert smooth(np.array([3.0, 3.0, 5.0]))[0].ravel().tolist() == [3.0, 5.0]


@pytest.mark.plain
@pytest.mark.parametrize("n", [30, 100])
def test_days_without_demand_do_not_become_days_with_some(n):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        column = np.where(rng.random(n) < 0.75, 0.0, rng.poisson(6.0, n).astype(float))
        values, weights = smooth(column)
        error = column.std() / np.sqrt(n)
        assert weights @ values[:, 0] == pytest.approx(column.mean(), abs=0.01 * error)


@pytest.mark.plain
def test_smoothing_comes_closer_to_a_smooth_law():
    away = {"seen": 0.0, "smooth": 0.0}
    truth = np.diff((np.arange(22) / 21) ** 3)
    for seed in range(30):
        ticks = np.random.default_rng(seed).choice(np.arange(21.0), (40, 1), p=truth)
        for form in away:
            values, weights = zooming.Records(ticks).laws(1, form)[0]
            law = np.bincount(values[:, 0].astype(int), weights, 21)
            away[form] += np.sum((law - truth) ** 2)
    assert away["smooth"] < 0.7 * away["seen"]


@pytest.mark.plain
def test_steps_with_other_stocks_but_one_demand_share_their_law():
    """Sales differ between steps with the stock; the demand behind them does not."""
    alarms, caught = 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        stock = np.broadcast_to([4.0, 6.0, 8.0, 10.0], (80, 4))
        for means in (5.0, [4.0, 5.0, 6.0, 7.0]):
            demand = rng.poisson(means, (80, 4)).astype(float)
            records = zooming.Records(np.minimum(demand, stock), censored=demand >= stock)
            is_step = records.choice(4)[0] == "step"
            alarms, caught = (
                alarms + (is_step and means == 5.0),
                caught + (is_step and means != 5.0),
            )
    assert alarms <= 1  # the level of the test is 0.005
    assert caught >= 55


@pytest.mark.plain
def test_the_log_rank_test_is_that_of_a_statistics_library():
    stats = pytest.importorskip("scipy.stats")
    rng, chances = np.random.default_rng(3), []
    for _ in range(10):
        demand = rng.exponential([5.0, 7.0], (60, 2))
        hidden = demand >= 6.0
        seen = np.minimum(demand, 6.0)
        samples = [stats.CensoredData.right_censored(seen[:, h], hidden[:, h]) for h in range(2)]
        chances.append((stats.logrank(*samples).pvalue, hazards_differ(seen, hidden)))
    theirs, ours = np.log(np.array(chances)).T
    assert ours == pytest.approx(theirs, abs=0.6)  # sums of (seen - share)^2 / share are smaller
    assert (ours >= theirs - 1e-9).all()


@pytest.mark.plain
def test_noise_that_depends_on_an_action_is_noticed_and_other_noise_is_not():
    alarms, caught = 0, {"line": 0, "valley": 0}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        price, demand = rng.uniform(1.0, 9.0, (40, 7)), rng.poisson(5.0, (40, 7)).astype(float)
        demand += np.arange(7)  # seasons are no dependence
        price += np.arange(7)
        alarms += _least_chance(demand, price) < 0.01
        if seed < 50:
            caught["line"] += _least_chance(demand + 0.35 * price, price) < 0.001
            middle = price - price.mean(axis=0)
            caught["valley"] += _least_chance(demand + 0.3 * middle**2, price) < 0.001
    assert alarms <= 10  # 4 are expected
    assert min(caught.values()) >= 45


def _least_chance(demand, price):
    return zooming.Records(demand, context={"price": price}).dependence(7)[0][2]


@pytest.mark.plain
def test_context_is_read_and_checked():
    table = {**TABLE, "price": [1.0, 2.0, 3.0] * 3}
    records = zooming.Records.read(
        table, noise="demand", episode="week", step="day", context=["price"]
    )
    assert records.context["price"].tolist() == [[1.0, 2.0, 3.0]] * 3
    assert records.dependence(3) == [("demand", "price", 1.0)]  # too few to tell
    table["price"][4] = "low"
    asked = {"noise": "demand", "episode": "week", "step": "day", "context": "price"}
    with pytest.raises(zooming.TransitionError, match=r"context \(row 4: column 'price'\)"):
        zooming.Records.read(table, **asked)
    skipped = zooming.Records.read(table, **asked, bad="skip")
    assert np.isnan(skipped.values[1, 1, 0])
    assert not np.isnan(skipped.values[1, 2, 0])
    with pytest.raises(zooming.ConfigurationError, match="give a dict"):
        zooming.Records(poisson(4, 3), context=["price"])
    with pytest.raises(zooming.ConfigurationError, match="context 'price' has shape"):
        zooming.Records(poisson(4, 3), context={"price": [1.0, 2.0]})
    with pytest.raises(zooming.ConfigurationError, match="'low', which is not a number"):
        zooming.Records(poisson(1, 2), context={"price": [["low", 2.0]]})


@pytest.mark.plain
def test_what_was_hidden_at_the_largest_value_is_one_gap_above_in_a_plan():
    seen = np.array([1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0])
    hidden = np.array([0, 0, 0, 0, 0, 1, 1, 1], bool)
    values, weights = kaplan_meier(seen, hidden, "bold")
    assert values.ravel().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert np.cumsum(weights) == pytest.approx([1 / 8, 3 / 8, 1 / 2, 5 / 8, 1.0])


@pytest.mark.plain
def test_few_prices_of_many_auctions_make_a_smooth_law():
    """Nine of ten auctions are lost: hazards are known of few values each."""
    truth, ticks, away = np.diff((np.arange(22) / 21) ** 3), np.arange(21) / 2, {}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        bids, prices = rng.uniform(0.0, 7.5, 400), rng.choice(ticks, 400, p=truth)
        hidden = prices > bids
        seen = np.where(hidden, np.nextafter(bids, 9.0), prices)
        for form in ("bold", "smooth"):
            values, weights = kaplan_meier(seen, hidden, form)
            errors = [
                weights[values[:, 0] <= x].sum() - truth[ticks <= x].sum() for x in ticks[:14]
            ]
            away[form] = away.get(form, 0.0) + np.sum(np.square(errors))
            assert values.max() > seen.max()
    assert away["smooth"] < 0.9 * away["bold"]


@pytest.mark.plain
@pytest.mark.parametrize("n_seen", [0, 1, 2])
def test_before_and_after_the_first_price_is_seen_higher_and_lower_bids_may_win(n_seen):
    """A plan that believes in the first price that it sees bids it for ever."""
    prices, hidden = np.array([3.0] * n_seen + [5.0, 6.0] * 10), np.arange(20 + n_seen) >= n_seen
    values, weights = kaplan_meier(prices, hidden, "smooth")
    assert values.max() == pytest.approx(7.2)
    below, above = weights[values[:, 0] <= 2.5].sum(), weights[abs(values[:, 0] - 5.0) < 1.0].sum()
    assert below > 0.02
    assert above > 0.02


# --- environments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_outcome_told_is_the_one_that_was_played(name):
    options = {"noise": 0.2} if name == "Oil" else {}
    env = gym.make(f"zooming/{name}-v0", **options).unwrapped
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(3 * env.horizon):
        state, step = env._state.copy(), env._step
        if step >= env.horizon:
            env.reset()
            continue
        action = env.action_space.sample()
        vector = np.atleast_1d(np.asarray(action, float))
        twin = np.random.Generator(type(env.np_random.bit_generator)())
        twin.bit_generator.state = env.np_random.bit_generator.state
        expected = np.empty_like(state)
        paid = play_step()(env.crossing(twin).handle, state, vector, step, env.params, expected)
        _, reward, *_, info = env.step(action)
        assert reward == paid
        assert env._state.tobytes() == expected.tobytes()
        assert env.np_random.bit_generator.state == twin.bit_generator.state
        assert info["outcome"].shape == (env.n_noise,)
        again = np.empty_like(state)
        given = env.given(state, vector, step, env.params, info["outcome"], again)
        assert given == reward
        assert again.tobytes() == expected.tobytes()


def test_an_environment_of_records_plays_solves_and_evaluates_their_law():
    records = zooming.Records(poisson(60, 3, means=[2.0, 5.0, 9.0]), law="step")
    env = shop(records, 3, reward_range=(-24.0, 60.0))
    env.reset(seed=0)
    seen = [env.step([9.0])[-1]["outcome"][0] for _ in range(3)]
    assert all(x in records.values[:, step, 0] for step, x in enumerate(seen))
    declared = [
        zooming.compiled_env(
            day, STOCK, STOCK, 3, start=[0.0], outcomes=records.law(0, 3), reward_range=(-24, 60)
        ),
        shop(zooming.Records(records.values[:, :1].repeat(3, axis=1), law="pooled"), 3),
    ]
    assert zooming.solve(declared[0], 40).return_ == zooming.solve(declared[1], 40).return_
    optimal = zooming.solve(env, 80)

    def best(step, observation):
        return optimal.action(step, observation)

    exact = zooming.evaluate(best, env, exact=True).mean
    assert exact == pytest.approx(optimal.return_, abs=0.02)
    assert zooming.evaluate(best, env, 2000).mean == pytest.approx(exact, abs=1.0)
    fused, python = (
        zooming.AdaptiveQ(env, seed=1).learn(100, driver=driver) for driver in ("fused", "python")
    )
    assert fused.returns.tobytes() == python.returns.tobytes()


def test_dependent_records_are_played_as_whole_episodes():
    records = zooming.Records([[1.0, 2.0, 3.0], [7.0, 8.0, 9.0]], dependent=True)
    env, seen = shop(records, 3), set()
    env.reset(seed=0)
    for _ in range(30):
        env.reset()
        seen.add(tuple(env.step([9.0])[-1]["outcome"][0] for _ in range(3)))
    assert seen == {(1.0, 2.0, 3.0), (7.0, 8.0, 9.0)}
    with pytest.raises(zooming.ConfigurationError, match=r"dependent in time.*zooming.plan"):
        zooming.solve(env)
    runs = [
        zooming.AdaptiveQ(shop(records, 3), seed=1, reward_range=(-24, 60)).learn(50, driver=driver)
        for driver in ("fused", "python")
    ]
    assert runs[0].returns.tobytes() == runs[1].returns.tobytes()


def test_dynamics_in_python_give_the_same_answers():
    records = zooming.Records(poisson(30, 3))
    compiled = shop(records, 3, reward_range=(-24.0, 60.0))
    with pytest.warns(UserWarning, match="day_in_python does not compile.*called in Python"):
        python = shop(records, 3, day_in_python, reward_range=(-24.0, 60.0))
    quiet = shop(records, 3, day_in_python, compiled=False)
    assert quiet.given is python.given
    returns = [zooming.AdaptiveQ(env, seed=0).learn(20).returns for env in (compiled, python)]
    assert returns[0].tobytes() == returns[1].tobytes()
    one, two = zooming.solve(compiled, 8), zooming.solve(python, 8)
    assert (one.return_, one.error) == (two.return_, two.error)
    with pytest.raises(zooming.ConfigurationError, match="does not compile"):
        shop(records, 3, day_in_python, compiled=True)


def short_of_one(state, action, step, params, outcome):
    return 0.0


def returns_nothing(state, action, step, params, outcome, next_state):
    next_state[0] = state[0]


@pytest.mark.parametrize(
    ("day", "message"),
    [(short_of_one, "TypeError in its first step: .*5 positional"), (returns_nothing, "NoneType")],
)
def test_dynamics_in_python_that_fail_at_once_are_refused(day, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        shop(zooming.Records(poisson(3, 3)), 3, day, compiled=False)


def broken(state, action, step, params, outcome, next_state):
    next_state[0] = state[0]
    return {}[outcome[0]] if outcome[0] == 9.0 else 0.0


def test_an_error_of_dynamics_in_python_is_named_with_the_recorded_value():
    records = zooming.Records.read(TABLE, noise="demand", episode="week", step="day")
    env = shop(records, 3, broken, compiled=False)
    with pytest.raises(
        zooming.ConfigurationError,
        match=r"broken, step 2: in state .* the reward is nan \(for demand = 9, of the records, "
        r"row 1\) \(KeyError: .*9.0.*\); check the dynamics",
    ):
        zooming.solve(env, 8)


def overflowing(state, action, step, params, outcome, next_state):
    next_state[0] = state[0] + outcome[0]
    return 0.0


def test_a_recorded_value_that_leaves_the_space_is_named():
    records = zooming.Records.read(TABLE, noise="demand", episode="week", step="day")
    with pytest.raises(
        zooming.ConfigurationError,
        match=r"next_state\[0\] is .* \(for demand = 8, of the records, row 4\), outside \[0, 20\]",
    ):
        zooming.solve(shop(records, 3, overflowing), 8)


def test_dynamics_are_cached_on_disk_only_if_their_name_says_all_that_they_are_made_of():
    served = gym.make("zooming/Queue-v0").unwrapped.given
    draws = [functions.draw_law(first, 1, 2) for first in (7, 9)]  # numbers inside: no name
    assert not any(hasattr(functions.compose(served, draw, 2), "cache_name") for draw in draws)
    names = {functions.compose(served, draw, 2).cache_name for draw in (serve_draw, admit_draw)}
    assert len(names) == 2


@pytest.mark.plain
def test_the_hash_of_records_changes_with_values_and_options():
    values = poisson(5, 3)
    hashes = [
        zooming.Records(values).hash,
        zooming.Records(values, law="step").hash,
        zooming.Records(values + 1).hash,
        zooming.Records(values, dependent=True).hash,
        zooming.Records(values, censored=np.zeros((5, 3), bool)).hash,
    ]
    assert len(set(hashes)) == len(hashes)
    assert hashes[0] == zooming.Records(values.copy()).hash


def test_an_agent_is_loaded_with_the_records_it_was_saved_with(tmp_path):
    env = shop(zooming.Records(poisson(9, 3)), 3, reward_range=(-24.0, 60.0))
    agent = zooming.AdaptiveQ(env, seed=0)
    agent.save(tmp_path / "shop.zoom")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zooming.load(tmp_path / "shop.zoom", env=env)
    other = shop(zooming.Records(poisson(9, 3, seed=1)), 3, reward_range=(-24.0, 60.0))
    with pytest.warns(UserWarning, match=f"records '{env.records.hash}', but the given"):
        zooming.load(tmp_path / "shop.zoom", env=other)


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dict", "polars", "csv", "parquet"])
def test_records_are_read_from_any_table(form, tmp_path):
    source = {"dict": TABLE, "polars": pl.DataFrame(TABLE)}.get(form, tmp_path / f"demand.{form}")
    if form == "csv":
        pl.DataFrame(TABLE).write_csv(source)
    if form == "parquet":
        pl.DataFrame(TABLE).write_parquet(source)
    records = zooming.Records.read(source, noise=["demand"], episode="week", step="day")
    assert records.values[:, :, 0].tolist() == [[3.0, 9.0, 1.0], [4.0, 8.0, 2.0], [2.0, 9.0, 1.0]]
    assert records.names == ("demand",)
    unnamed = zooming.Records.read(source, noise="demand", episode="week")
    assert unnamed.values.tolist() == records.values.tolist()
    series = zooming.Records.read(source, noise="demand")
    assert series.is_series
    assert series.cut(3)[0].tolist() == records.values.tolist()


def test_pieces_of_a_file_join_to_the_same_records(tmp_path, monkeypatch):
    from zooming.logs import reading

    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "week": np.repeat(np.arange(50), 7),
            "day": np.tile(np.arange(7), 50),
            "demand": rng.poisson(5, 350).astype(float),
        }
    )
    table.write_csv(tmp_path / "demand.csv")
    for names in ({"episode": "week", "step": "day"}, {"episode": "week"}, {"step": "day"}, {}):
        monkeypatch.setattr(reading, "PIECE_BYTES", 32_000_000)
        whole = zooming.Records.read(tmp_path / "demand.csv", noise="demand", **names)
        monkeypatch.setattr(reading, "PIECE_BYTES", 45)
        pieces = zooming.Records.read(tmp_path / "demand.csv", noise="demand", **names)
        assert pieces.values.tobytes() == whole.values.tobytes()
        assert pieces.rows.tolist() == whole.rows.tolist()


FAULTS = [
    ({"demand": [3.0, None, 1.0, 4.0, 8.0, 2.0, 2.0, 9.0, 1.0]},
     r"1 row with a missing value or text .*\(row 1: column 'demand'\)"),
    ({"demand": ["3", "many", "1", "4", "8", "2", "2", "9", "1"]},
     r"The column 'demand' holds text, first 'many' in row 1"),
    ({"day": [0, 2, 1] + [0, 1, 2] * 2}, r"1 row out of order \(row 2\)"),
    ({"day": [0, 9, 2] + [0, 1, 2] * 2}, r"1 row out of order \(row 1\)"),
    ({"day": [0, 1, 1] + [0, 1, 2] * 2}, r"1 row repeating a step \(row 2\)"),
    ({"day": [0, 1, 3] + [0, 1, 2] * 2}, r"1 row after a gap \(row 2: step 3 comes after step 1"),
    ({"day": [1, 2, 3] * 3}, r"counts its steps from 1"),
    ({"demand": ["x"] + [1.0] * 2 + ["x"] + [1.0] * 2 + ["x"] + [1.0] * 2}, r"text for a number"),
    ({"day": ["Mon", "Tue", "Wed"] * 3}, r"The column 'day' holds text, first 'Mon' in row 0"),
    ({"week": [1, 1, 1, 2, 2, 2, 1, 1, 1]}, r"3 rows out of order \(rows 6, 7, 8\)"),
    ({"demand": [3.0, np.inf, 1.0, 4.0, 8.0, 2.0, 2.0, 9.0, 1.0]}, r"1 row with an infinite value"),
]  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize(("change", "said"), FAULTS)
def test_faults_of_records_name_row_and_column(change, said):
    with pytest.raises((zooming.TransitionError, zooming.ConfigurationError), match=said):
        zooming.Records.read({**TABLE, **change}, noise="demand", episode="week", step="day")


@pytest.mark.plain
def test_lines_and_decimal_commas_of_a_text_file_are_named(tmp_path):
    for rows, said in (
        (
            '1,"2,5"\n1,"3,5"',
            r"row 0 is line 2 of the file. .*'2,5' in row 0. Write numbers with a",
        ),
        ("1,2,5\n1,3,5", "more values than there are columns. Write numbers with a decimal point"),
    ):
        (tmp_path / "demand.csv").write_text("week,demand\n" + rows)
        with pytest.raises((zooming.TransitionError, zooming.ConfigurationError), match=said):
            zooming.Records.read(tmp_path / "demand.csv", noise="demand", episode="week")
    (tmp_path / "demand.csv").write_text("week,demand\n1,2\n1,3\n2,2\n2,4")
    found = zooming.Records.read(tmp_path / "demand.csv", noise="demand", episode="week")
    assert found.where(np.array([4.0])) == " (for demand = 4, of the records, line 5)"


@pytest.mark.plain
def test_faults_are_left_out_if_asked():
    table = {**TABLE, "demand": [3.0, None, 1.0, 4.0, "x", 2.0, 2.0, 9.0, 1.0]}
    records = zooming.Records.read(table, noise="demand", episode="week", step="day", bad="skip")
    assert np.isnan(records.values[:, :, 0]).sum() == 2
    assert "2 rows with a missing value" in records.skipped
    assert len(records.traces(3)) == 1
    assert records.law(1, 3)[0].ravel().tolist() == [1.0, 2.0, 3.0, 4.0, 9.0]


@pytest.mark.plain
def test_columns_that_are_not_there_are_named():
    with pytest.raises(zooming.ConfigurationError, match=r"no column 'demnad' .* 'demand'"):
        zooming.Records.read(TABLE, noise="demnad")
    with pytest.raises(zooming.ConfigurationError, match="is not a log; give a data frame"):
        zooming.Records.read(3.0, noise="demand")
    with pytest.raises(zooming.ConfigurationError, match="row 1, column 0 is 'many'"):
        zooming.Records([[1.0, 2.0], ["many", 3.0]])
    with pytest.raises(zooming.ConfigurationError, match=r"Records.read reads files"):
        zooming.Records("demand.csv")
    with pytest.raises(zooming.ConfigurationError, match="rows have different lengths"):
        zooming.Records([[1.0, 2.0], [3.0]])


@pytest.mark.plain
def test_a_season_belongs_to_a_step():
    table = {**TABLE, "kind": ["a", "a", "b"] * 3}
    records = zooming.Records.read(table, noise="demand", episode="week", step="day", by="kind")
    assert records.by == ("a", "a", "b")
    table["kind"][5] = "a"
    with pytest.raises(zooming.TransitionError, match="step 2 has the season 'b', but row 5"):
        zooming.Records.read(table, noise="demand", episode="week", step="day", by="kind")


@pytest.mark.plain
def test_censored_values_are_read():
    table = {**TABLE, "sold_out": [False, True, False] * 3}
    records = zooming.Records.read(
        table, noise="demand", episode="week", step="day", censored="sold_out"
    )
    assert records.censored.tolist() == [[False, True, False]] * 3
    table["sold_out"] = [0, 1, 2] * 3
    with pytest.raises(zooming.TransitionError, match="'sold_out' that is not 0 or 1"):
        zooming.Records.read(table, noise="demand", episode="week", censored="sold_out")
