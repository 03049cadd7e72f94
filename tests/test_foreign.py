"""The foreign problems: they play, their optimal values are earned, and half of them are kept."""

import json
import math
import sys

import numpy as np
import pytest

import foreign
import learning
import zooming

FACTS = json.loads(foreign.FACTS.read_text())
OWN = [name for name, problem in foreign.FOREIGN.items() if problem.best]
PACKAGES = {
    "or-newsvendor": "or_gym.envs.classic_or.newsvendor",
    "knapsack": "or_gym.envs.classic_or.knapsack",
    "reservoir": "mo_gymnasium",
}


def returns_of(env, policy, episodes):
    return np.array([foreign.play(env, policy, 1, seed) for seed in range(episodes)])


@pytest.mark.parametrize("name", foreign.FOREIGN)
def test_a_problem_plays_its_rule_within_its_spaces(name):
    if name in PACKAGES:
        try:
            foreign.package(PACKAGES[name])
        except SystemExit as missing:
            pytest.skip(str(missing))
    env = foreign.FOREIGN[name].make()
    state, _ = env.reset(seed=1)
    is_over = False
    for step in range(300):
        assert env.observation_space.contains(state), (step, state)
        action = np.asarray(foreign.FOREIGN[name].rule(step, state))
        if action.ndim:
            assert (env.action_space.low <= action).all()
            assert (action <= env.action_space.high).all()
        state, reward, ended, cut, _ = env.step(action)
        assert math.isfinite(reward)
        is_over = ended or cut
        if is_over:
            break
    assert is_over


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_the_optimal_policy_earns_the_stated_value(name, monkeypatch):
    def solve_roughly(env, resolution=None):  # half the cells take half the time
        return solve(env, resolution and max(4, resolution // 4 * 2))

    solve, problem = zooming.solve, foreign.FOREIGN[name]
    monkeypatch.setattr(zooming, "solve", solve_roughly)
    best, policy = problem.best()
    one, zero = foreign.reference(name)
    slack = 0.005 * (one - zero)
    assert abs(best - FACTS[name]["best"]) < slack
    if name == "dike":  # floods are too rare to be sampled
        assert zooming.evaluate(policy, problem.make(), exact=True).mean > best - slack
        return
    found = returns_of(problem.make(), policy, 100)
    assert abs(found.mean() - best) < 4 * found.std(ddof=1) / 10 + slack


def test_no_rule_and_no_constant_exceeds_the_optimal_value():
    for name in OWN:
        assert max(foreign.percent(name, "rule"), foreign.percent(name, "constant")) < 101, name


def test_kept_problems_run_only_at_the_end(monkeypatch, capsys, tmp_path):
    kept = [name for name, problem in foreign.FOREIGN.items() if problem.kept]
    assert 10 <= len(kept) <= len(foreign.FOREIGN) / 2
    command = ["learning.py", "--set", "foreign", "--problems", "dike", "--out"]
    monkeypatch.setattr(sys, "argv", [*command, str(tmp_path / "out.json")])
    with pytest.raises(SystemExit):
        learning.main()
    assert "dike: kept for the last look; give --final" in capsys.readouterr().err


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    with pytest.raises(SystemExit, match=r"no_such_package cannot be imported.*pip install"):
        foreign.package("no_such_package")


def test_a_change_is_judged_by_a_paired_mean_over_the_problems_with_an_optimal_value():
    old = {f"{name}/Auto/500/{seed}": (80.0 + seed, 1.0, 1.0, 1.0) for seed in range(2)
           for name in ("hotel", "vendor", "pendulum")}  # fmt: skip
    new = {key: (row[0] + 2.0 + (key[-1] == "1"), *row[1:]) for key, row in old.items()}
    new["vendor/Auto/500/0"] = (-5000.0, 1.0, 1.0, 1.0)  # counts as -100
    new["pendulum/Auto/500/0"] = (300.0, 1.0, 1.0, 1.0)  # does not count
    mean = learning.difference(new, old, 500, "Auto").splitlines()[-1]
    assert mean.split()[:2] == ["mean", f"{((2 - 180) / 2 + 3) / 2:+.2f}"]
    table = learning.foreign_table(new, ["hotel", "vendor", "pendulum"], "Auto", 500)
    assert f"mean {((82 + 84) / 2 + (-100 + 84) / 2) / 2:.2f} ±" in table
    assert "least -2458.0 (vendor); worst seed -5000.0 (vendor)" in table
