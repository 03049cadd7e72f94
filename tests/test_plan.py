"""Plans from equations and records: their value out of sample, bounds, comparisons, changes."""

import json
import math

import numpy as np
import pytest

import zooming
from helpers import box
from zooming.analysis.intervals import mean_interval
from zooming.analysis.plan import _doubts, choices, play_traces
from zooming.app import cli

pytestmark = pytest.mark.kernels

STOCK = box((0.0, 20.0))
HORIZON = 4


def day(state, action, step, params, outcome, next_state):
    level = min(state[0] + action[0], 20.0)
    sold = min(level, outcome[0])
    next_state[0] = level - sold
    return params[0] * sold - (level - state[0]) - 0.2 * (level - sold)


def shop(records, dynamics=day, **options):
    arguments = {"start": [0.0], "params": [3.0], "outcomes": records, **options}
    return zooming.compiled_env(dynamics, STOCK, STOCK, HORIZON, **arguments)


def poisson(n, seed=0, mean=5.0):
    return np.random.default_rng(seed).poisson(mean, (n, HORIZON)).astype(float)


def order_up_to(level):
    return lambda step, stock: [max(0.0, level - stock[0])]


@pytest.fixture(scope="module")
def plan():
    return zooming.plan(shop(zooming.Records(poisson(60))), folds=5)


def plain_return(policy, trace):
    """The return of a rule on one recorded episode, in plain Python."""
    state, total = [0.0], 0.0
    for step, demand in enumerate(trace):
        after = [0.0]
        total += day(state, policy(step, state), step, [3.0], [demand], after)
        state = after
    return total


def test_a_rule_earns_on_recorded_episodes_what_plain_python_says(plan):
    rule, traces = order_up_to(6.0), poisson(60)
    expected = np.array([plain_return(rule, trace) for trace in traces])
    found = plan.compare(rule)
    assert found.rule == pytest.approx(expected.mean(), abs=1e-9)
    assert found.difference.mean == pytest.approx(plan.value.mean - expected.mean(), abs=1e-9)
    away = plan.returns - expected
    if found.worst:
        episode, lost = found.worst[0]
        assert lost == pytest.approx(away.min())
        assert away[episode] == pytest.approx(away.min())
    assert "difference" in str(found)


def test_no_trace_helps_to_plan_for_itself(plan):
    """Out of sample: with the episodes of a fold changed, the plan for that fold is the same."""
    values = poisson(60)
    odd = plan._folds == 2
    values[odd] = 19.0
    other = zooming.plan(shop(zooming.Records(values, law="pooled")), folds=5)
    same = zooming.plan(shop(zooming.Records(poisson(60), law="pooled")), folds=5)
    choose = other._make(other._some(~odd))
    again = same._make(same._some(~odd))
    states = np.linspace(0.0, 20.0, 31)[:, None]
    assert (choose(0, states) == again(0, states)).all()
    assert other.returns[odd].mean() != pytest.approx(same.returns[odd].mean())


def test_values_are_ordered_and_nobody_beats_the_bound(plan):
    v = plan.value
    assert v.low < v.mean < v.high
    assert v.mean <= v.in_sample < v.bound
    assert v.optimism == pytest.approx(v.in_sample - v.mean)
    known = []
    for trace in poisson(60):  # best return with the episode known: buy each day what is asked
        known.append(plain_return(lambda step, state, t=trace: [max(t[step] - state[0], 0)], trace))
    assert v.bound == pytest.approx(np.mean(known), rel=0.01)
    assert float(v) == v.mean
    assert plan.value(0, [0.0]) == plan.agent.value(0, [0.0])


def test_the_plan_is_about_the_optimum_of_the_true_law(plan):
    law = np.array([math.exp(-5.0) * 5.0**k / math.factorial(k) for k in range(21)])
    truth = shop((np.arange(21.0), law / law.sum()))
    best = zooming.solve(truth).return_
    earned = zooming.evaluate(plan.agent, truth, exact=True).mean
    assert best - 0.5 < earned <= best + 1e-6
    assert plan.value.low < earned < plan.value.high


def test_more_records_are_needed_for_less_loss(plan):
    few, many = plan.needs(1.0), plan.needs(0.001)
    assert 0 <= few <= many
    with pytest.raises(zooming.ConfigurationError, match="gain"):
        plan.needs(0.0)


def test_sensitivity_names_what_changes(plan):
    found = {change.what: change for change in plan.sensitivity({"price": 0})}
    assert set(found) == {
        "noise 10% smaller", "noise 10% larger", "price 10% smaller", "price 10% larger",
        "the last third is the truth, planned on the others",
    }  # fmt: skip
    assert found["price 10% larger"].value > plan.value.in_sample > found["price 10% smaller"].value
    for change in found.values():
        assert change.replanned >= change.value
    with pytest.raises(zooming.ConfigurationError, match="params has 1 numbers"):
        plan.sensitivity({"cost": 7})


def test_doubts_about_the_records_are_said():
    few = zooming.plan(shop(zooming.Records(poisson(6))), folds=3)
    assert any("only 6 complete episodes" in one for one in few.warnings)
    rng = np.random.default_rng(0)
    level = rng.normal(size=(80, 1)) * 3.0
    dependent = np.clip(np.rint(6.0 + level + rng.normal(size=(80, HORIZON))), 0, 20)
    found = zooming.plan(shop(zooming.Records(dependent)), folds=3).warnings
    assert any("depend on its value one step before" in one for one in found)
    drifting = np.concatenate([poisson(40, 1, 3.0), poisson(20, 2, 9.0)])
    found = zooming.plan(shop(zooming.Records(drifting)), folds=3).warnings
    assert any("its law seems to change" in one for one in found)
    holes = poisson(40)
    holes[3, 2] = np.nan
    found = zooming.plan(shop(zooming.Records(holes)), folds=3)
    assert any("1 episode of 40 have missing values" in one for one in found.warnings)
    assert len(found.returns) == 39


def test_noise_that_depends_on_a_recorded_action_is_doubted():
    rng = np.random.default_rng(0)
    price = rng.uniform(1.0, 3.0, (60, HORIZON))
    demand = np.minimum(rng.poisson(8.0 - 2.0 * price), 20).astype(float)
    for values, is_doubted in ((demand, True), (poisson(60), False)):
        records = zooming.Records(values, context={"price": price})
        found = zooming.plan(shop(records), folds=2).warnings
        assert any("noise seems to depend on price (F test" in one for one in found) == is_doubted


def test_a_column_that_the_dynamics_do_not_use_is_doubted():
    both = zooming.Records(np.dstack([poisson(40), poisson(40, 1)]), names=["demand", "price"])
    (found,) = zooming.plan(shop(both), folds=2).warnings
    assert found == "the dynamics do not seem to use price: leave the column out"


def closed(state, action, step, params, outcome, next_state):
    if step == 2:
        raise ValueError("closed on day 2")
    next_state[0] = 0.0
    return outcome[0]


@pytest.mark.parametrize("driver", ["fused", "python"])
def test_what_dynamics_in_python_raise_later_is_told(driver):
    env = shop(zooming.Records(poisson(40)), closed, compiled=False, reward_range=(0.0, 20.0))
    with pytest.raises(zooming.ConfigurationError, match=r"step 2: .*ValueError: closed on day 2"):
        zooming.plan(env, folds=2)
    with pytest.raises((ValueError, zooming.TransitionError)) as error:
        zooming.AdaptiveQ(env, seed=0).learn(2, driver=driver)
    told = error.value.__cause__ or error.value
    assert str(told) == "closed on day 2"


def test_a_parameter_that_is_missing_is_named():
    env = shop(zooming.Records(poisson(40)), params=[math.nan, 0.0])
    with pytest.raises(zooming.ConfigurationError, match=r"reward is nan.*params\[0\] is nan"):
        zooming.plan(env, folds=2)


def test_a_value_far_from_the_others_is_doubted():
    typed = poisson(40)
    assert not any("far from the others" in one for one in _doubts(zooming.Records(typed), HORIZON))
    typed[3, 2] = 1000.0
    (found,) = (x for x in _doubts(zooming.Records(typed), HORIZON) if "far from the others" in x)
    assert "noise has the value 1,000, far from the others (90 % are between 2" in found
    values, weights = zooming.Records(typed).laws(HORIZON, "smooth")[0]
    assert weights[values[:, 0] <= 20.0].sum() > 0.99  # it does not move the others


def test_censored_values_and_a_season_seen_once_are_doubted():
    demand = poisson(40)
    records = zooming.Records(np.minimum(demand, 6.0), censored=demand >= 6.0)
    found = zooming.plan(shop(records), folds=2).warnings
    assert any("of the values are censored: what lies beyond 6 was never seen" in x for x in found)
    seasons = zooming.Records(
        [[3.0, 4.0, 5.0, np.nan]] * 3 + [[1.0, 2.0, 2.0, 9.0]], by=list("aaab")
    )
    found = _doubts(seasons, HORIZON)
    assert any("the season b is covered once" in one for one in found)


@pytest.mark.slow
def test_the_interval_of_the_value_covers_the_truth():
    """Of 60 sets of records, 57 are expected; fewer than 53 has a probability of 0.01."""
    law = np.array([math.exp(-5.0) * 5.0**k / math.factorial(k) for k in range(21)])
    truth, covered = shop((np.arange(21.0), law / law.sum())), 0
    for seed in range(60):
        plan = zooming.plan(shop(zooming.Records(poisson(40, seed + 100))), folds=4)
        earned = zooming.evaluate(plan.agent, truth, exact=True).mean
        covered += plan.value.low <= earned <= plan.value.high
    assert covered >= 53


def sell(state, action, step, params, outcome, next_state):
    next_state[0] = 0.0
    return 3.0 * min(action[0], outcome[0]) - action[0]


@pytest.mark.slow
def test_the_interval_of_a_comparison_covers_the_truth():
    """Of 100 sets of records, 95 are expected; fewer than 89 has a probability of 0.01."""
    demand = np.minimum(np.random.default_rng(0).gamma(2.0, 3.0, 20_000), 20.0)
    best, covered = float(np.quantile(demand, 2 / 3)), 0

    def earned(order):
        return float((3.0 * np.minimum(order, demand)).mean() - order)

    for seed in range(100):
        records = zooming.Records(np.random.default_rng(seed).choice(demand, (40, 1)))
        one = zooming.compiled_env(sell, STOCK, STOCK, 1, start=[0.0], outcomes=records)
        plan = zooming.plan(one, folds=5, resolution=4)
        found = plan.compare(lambda step, stock: [best]).difference
        gained = earned(float(plan.predict([0.0])[0][0])) - earned(best)
        covered += found.low <= gained <= found.high
    assert covered >= 89


def test_a_plan_needs_records():
    with pytest.raises(zooming.ConfigurationError, match="has no records of its noise"):
        zooming.plan(shop(([1.0], [1.0])))
    with pytest.raises(zooming.ConfigurationError, match="1 complete episode of 4 steps"):
        zooming.plan(shop(zooming.Records(poisson(1))))


def test_a_plan_is_kept_exported_and_goes_on(plan, tmp_path):
    plan.save(tmp_path / "plan.zoom")
    loaded = zooming.load(tmp_path / "plan.zoom", env=plan.env)
    assert loaded.predict([3.0])[0] == plan.predict([3.0])[0]
    loaded.learn(5)
    assert loaded.n_episodes == 65
    assert "Policy of Plan on day after 60" in plan.export(tmp_path / "plan.py").read_text()
    assert plan.q_value(0, [0.0], [5.0]) <= plan.value(0, [0.0]) + 1e-6
    assert "value out of sample" in str(plan)


def test_dependent_records_are_valued_as_whole_episodes():
    records = zooming.Records(poisson(40), dependent=True)
    plan = zooming.plan(shop(records), folds=4)
    assert "valued on whole episodes" in str(plan)
    everything = play_traces(
        plan.env, records.traces(HORIZON), plan._starts, choices(plan.env, order_up_to(6.0))
    )
    assert plan.compare(order_up_to(6.0)).rule == pytest.approx(everything.mean())


def day_after_day(state, action, step, params, outcome, next_state):
    demand = min(max(6.0 + 0.9 * (state[1] - 6.0) + outcome[0], 0.0), 20.0)
    level = min(state[0] + action[0], 20.0)
    sold = min(level, demand)
    next_state[0], next_state[1] = level - sold, demand
    return params[0] * sold - (level - state[0]) - 0.2 * (level - sold)


def test_demand_that_follows_the_day_before_is_planned_with_the_last_value_as_a_state():
    rng, demand = np.random.default_rng(0), np.full((80, HORIZON + 1), 6.0)
    for k in range(HORIZON):
        follows = 6.0 + 0.9 * (demand[:, k] - 6.0) + rng.normal(0.0, 3.0, 80)
        demand[:, k + 1] = np.clip(follows, 0.0, 20.0)
    whole = demand[:, 1:]
    rest = whole - (6.0 + 0.9 * (demand[:, :-1] - 6.0))
    blind = zooming.plan(shop(zooming.Records(whole, dependent=True)), folds=4)
    knowing = zooming.compiled_env(
        day_after_day, box((0.0, 20.0), (0.0, 20.0)), STOCK, HORIZON, params=[3.0],
        start=[0.0, 6.0], outcomes=zooming.Records(rest),
    )  # fmt: skip
    gained = zooming.plan(knowing, folds=4).returns - blind.returns  # the same episodes
    assert mean_interval(gained).low > 0.5
    warned = zooming.plan(shop(zooming.Records(whole)), folds=2).warnings
    assert any("depend on its value one step before" in one for one in warned)


def four_shops(state, action, step, params, outcome, next_state):
    paid = 0.0
    for i in range(4):
        level = min(state[i] + action[0], 20.0)
        next_state[i] = max(level - outcome[0], 0.0)
        paid += 3.0 * (level - next_state[i]) - (level - state[i])
    return paid


@pytest.mark.slow
def test_beyond_three_axes_auto_learns_the_plan(monkeypatch):
    monkeypatch.setattr(zooming.analysis.plan, "LEARNED_EPISODES", 30)
    records = zooming.Records(poisson(12))
    env = zooming.compiled_env(
        four_shops, box(*[(0.0, 20.0)] * 4), STOCK, HORIZON, start=[0.0] * 4, outcomes=records,
        reward_range=(-80.0, 240.0),
    )  # fmt: skip
    plan = zooming.plan(env, folds=3)
    assert isinstance(plan.agent, zooming.Auto)
    assert plan.value.low < plan.value.mean < plan.value.high
    assert np.isnan(plan.value.bound)  # no grid to compute it on
    assert len(plan.compare(order_up_to(6.0)).worst) <= 5
    assert plan.predict([0.0] * 4)[0].shape == (1,)


@pytest.mark.slow
@pytest.mark.parametrize(("episodes", "cells", "kind"), [(5, 6, "Resolver"), (300, 1, "Auto")])
def test_with_three_axes_the_better_of_grid_and_auto_is_the_plan(
    monkeypatch, episodes, cells, kind
):
    monkeypatch.setattr(zooming.analysis.plan, "LEARNED_EPISODES", episodes)
    monkeypatch.setitem(zooming.envs.state_grid.CELLS, 3, (cells, cells, 1e7))
    env = zooming.compiled_env(
        one_of_three, box(*[(0.0, 20.0)] * 3), STOCK, HORIZON, start=[0.0] * 3,
        outcomes=zooming.Records(poisson(12)), reward_range=(-80.0, 240.0),
    )  # fmt: skip
    plan = zooming.plan(env, folds=2)
    assert type(plan.agent).__name__ == kind
    assert plan.value.bound > plan.value.mean


def one_of_three(state, action, step, params, outcome, next_state):
    next_state[:] = 0.0
    level = min(state[0] + action[0], 20.0)
    next_state[0] = max(level - outcome[0], 0.0)
    return 3.0 * (level - next_state[0]) - (level - state[0])


def test_three_axes_have_few_cells_also_where_units_fit():
    model = zooming.compiled_env(
        one_of_three, box(*[(0.0, 10.0)] * 3), STOCK, HORIZON, start=[0.0] * 3,
        outcomes=zooming.Records(poisson(12)),
    )  # fmt: skip
    assert zooming.envs.state_grid.usual_cells(model, 4) == 10


def test_the_worst_episodes_are_numbered_as_in_the_records():
    demand = poisson(40)
    demand[:20, 1] = np.nan
    plan = zooming.plan(shop(zooming.Records(demand)), folds=2)
    for records in (None, zooming.Records(demand)):
        worst = plan.compare(order_up_to(6.0), records).worst
        assert worst
        assert all(k >= 20 for k, _ in worst)


def test_a_value_is_named_at_the_step_where_it_leaves_the_space():
    noise = np.column_stack([np.full(40, 7.0), np.full(40, 20.0), np.arange(40.0) % 4])
    noise[33, 2] = 7.0
    env = zooming.compiled_env(
        leaving_at_two, STOCK, STOCK, 3, start=[0.0], outcomes=zooming.Records(noise, law="step")
    )
    with pytest.raises(zooming.ConfigurationError, match=r"noise = 7, .*episode 33, step 2"):
        zooming.plan(env, folds=2)


def leaving_at_two(state, action, step, params, outcome, next_state):
    next_state[0] = 30.0 if step == 2 and outcome[0] == 7.0 else 1.0
    return 0.0


def leaving(state, action, step, params, outcome, next_state):
    next_state[0] = state[0] + outcome[0]
    return 0.0


def test_a_recorded_value_that_leaves_the_space_is_named():
    with pytest.raises(
        zooming.ConfigurationError, match=r"for noise = .*episode \d+, step \d.*clip"
    ):
        zooming.plan(shop(zooming.Records(poisson(10)), leaving))


def test_the_command_writes_one_page(tmp_path, capsys, monkeypatch):
    rows = [
        (week, step, x)
        for week, trace in enumerate(np.random.default_rng(0).poisson(5.0, (40, 7)))
        for step, x in enumerate(trace)
    ]
    table = "\n".join(["week,day,<b>demand</b>", *(f"{w},{d},{x}" for w, d, x in rows)])
    (tmp_path / "demand.csv").write_text(table)
    cli.main(
        ["plan", "zooming/Newsvendor-v0", "--records", str(tmp_path / "demand.csv"),
         "--episode", "week", "--step", "day", "--folds", "4", "--names",
         "stock", "order", "--out", str(tmp_path / "plan")]
    )  # fmt: skip
    said = capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_rules.py").write_text("def five(step, stock):\n    return [5.0]\n")
    command = ["plan", "zooming/Newsvendor-v0", "--records", "demand.csv", "--noise",
               "<b>demand</b>", "--episode", "week", "--step", "day", "--folds", "2", "--out",
               "again", "--rule"]  # fmt: skip
    cli.main([*command, "shop_rules:five"])
    assert "against the rule five: plan" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main([*command, "shop_rules:six"])
    assert "--rule shop_rules:six: shop_rules has no function 'six'" in capsys.readouterr().err
    assert "value out of sample" in said
    assert "against the rule order up to" in said
    page = (tmp_path / "plan" / "plan.html").read_text()
    assert "<b>demand" not in page
    assert "&lt;b&gt;demand" in page
    assert "value out of sample" in page
    rules = page.split("<h2>Rules</h2>")[1]
    assert "7 steps" in rules
    assert rules.split("\n")[1].split()[:3] == ["step", "stock", "order"]
    assert page.count("data:image/png;base64,") == 2
    facts = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert facts["low"] < facts["value"] < facts["high"] < facts["bound"]
    assert {file.name for file in (tmp_path / "plan").iterdir()} == {
        "plan.html", "policy.html", "plan.zoom", "policy.py", "plan.json",
    }  # fmt: skip
    monkeypatch.setattr("zooming.app.plan_command.plan", None)  # the folder is looked at first
    with pytest.raises(SystemExit):  # a number of the week is no demand
        cli.main(["plan", "zooming/Newsvendor-v0", "--records", "demand.csv", "--out", "third"])
    assert "take 1 column of noise, but no other option names week, day" in capsys.readouterr().err
    assert not (tmp_path / "third").exists()
    with pytest.raises(SystemExit):
        cli.main(
            ["plan", "zooming/Newsvendor-v0", "--records", str(tmp_path / "demand.csv"), "--noise",
             "<b>demand</b>", "--out", str(tmp_path / "demand.csv")]
        )  # fmt: skip
    assert "File exists" in capsys.readouterr().err
    with pytest.raises(SystemExit) as error:
        cli.main(
            ["plan", "zooming/Newsvendor-v0", "--records", str(tmp_path / "demand.csv"), "--noise",
             "demnad"]
        )  # fmt: skip
    assert error.value.code == 2
    assert "'demnad' for --noise; its columns" in capsys.readouterr().err
