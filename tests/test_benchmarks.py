"""The benchmark against plain Python, and its verdicts."""

import dataclasses
import doctest
import json
import math
import re
import sys

import gymnasium as gym
import numpy as np
import pytest

import authors
import beyond
import budget
import learning
import reference
import relatives
import speed
import splits
import zooming
from helpers import play_alike
from reference import ReferenceQ


def test_the_examples_of_the_reference_are_true():
    assert doctest.testmod(reference).failed == 0


def call(step, state, action):
    """Ambulances on a line, calls from a fixed list."""
    return [(7 * step + 3 * action[0] + 0.1) % 1.0 for _ in state], 1 - abs(
        state[0] - action[0]
    ) / 2


@pytest.mark.parametrize("n", [1, 2])
def test_learning_is_acting_and_updating_in_turn(n):
    whole, by_hand = (ReferenceQ(n, n, 3, lambda t: 0.1 / math.sqrt(t), seed=2) for _ in range(2))
    returns = []
    for _ in range(40):
        state, total = [0.5] * n, 0.0
        for step in range(3):
            action = by_hand.act(step, state)
            after, reward = call(step, state, action)
            by_hand.update(step, state, action, reward, after)
            state, total = after, total + reward
        returns.append(total)
    assert whole.learn(40, [0.5] * n, call) == returns
    for one, other in zip(whole.roots, by_hand.roots, strict=True):
        found, expected = (
            [(b.center, b.radius, b.q_value, b.n_visits) for b in root.active()]
            for root in (one, other)
        )
        assert found == expected
    assert whole.episode == by_hand.episode == 40


def test_the_table_of_budgets_names_what_misses_its_target(capsys):
    assert doctest.testmod(budget, optionflags=doctest.ELLIPSIS).failed == 0
    options = ["--episodes", "400", "--seeds", "2", "--balls", "10", "40", "100"]
    budget.main([*options, "--problems", "oil 1 at 0.75", "oil 50 at 0.75"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("|") for line in lines if line.startswith("| oil")] == [6, 6]
    assert re.fullmatch(r"AdaptiveQ or TreeQ meets [0-4] of 4 targets\.", lines[-2])
    assert lines[-1].startswith("Missed by AdaptiveQ (4 cells have a target): ")


def test_the_plain_model_on_a_net_plays_and_plans_as_the_compiled_one():
    assert doctest.testmod(relatives).failed == 0
    env = gym.make("zooming/Ambulance-v0", arrivals="beta")
    agent = zooming.NetMB(env, spacing=0.25, bonus=0.1, ties="first", seed=0)
    plain = relatives.PlainNetMB(4, 5, 0.1)
    play_alike(agent, plain, 30)
    for step in range(5):
        balls = agent.partition(step)
        cells = (balls.low * 4).astype(int).T
        assert balls.q_value == pytest.approx(np.array(plain.q_values[step])[tuple(cells)])


STAND_IN = """
class AdaptiveDiscretization:
    def __init__(self, epLen, numIters, scaling):
        self.calls = [epLen, numIters, scaling]
    def update_policy(self, k):
        self.calls.append(k)
    def pick_action(self, state, timestep):
        return 0.5
    def update_obs(self, obs, action, reward, newObs, timestep):
        assert 0 <= timestep < 5 and obs == newObs == 0.5
"""


def test_the_authors_agents_are_taken_from_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "adaptive_Agent", raising=False)
    (tmp_path / "adaptive_Agent.py").write_text(STAND_IN)
    options = ["--problems", "oil-laplace-1", "--episodes", "20", "--seeds", "2"]
    authors.main([str(tmp_path), "--agents", "adaptive-q", *options])
    cells = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert cells[:3] == ["| oil-laplace-1", "adaptive-q", f"{5 * np.exp(-0.25):.3f} ± 0.000"]
    assert len(cells) == len(authors.COLUMNS)
    with pytest.raises(SystemExit, match=r"has no eNet_Agent.py: give a checkout"):
        authors.main([str(tmp_path), "--agents", "net-q", *options])
    del sys.modules["adaptive_Agent"]


def test_a_relative_is_compared_with_its_plain_version():
    short = dataclasses.replace(relatives.RELATIVES[0], episodes=50)
    plain, compiled, (low, high) = relatives.compare(short)
    assert 1 < low <= plain / compiled * 10
    assert low <= high


@pytest.mark.slow
def test_a_comparison_measures_the_reference_and_both_drivers(monkeypatch):
    monkeypatch.setattr(speed, "REFERENCE_SECONDS", 0.1)
    *_, (problem, _, n_ambulances) = speed.cases(quick=True)
    found = speed.compare(problem, 200, n_ambulances)
    assert min(found.fused, found.python, found.late, found.reference, found.ratios[0]) > 0
    assert found.ratios[0] <= found.ratios[1]


def test_the_summary_of_learning_compares_with_the_rule_and_the_tuned_form():
    results = dict.fromkeys(learning.PROBLEMS, (1.0, 0.0))
    for name, percent, regret, rule in (("Queue", 90.0, 20.0, 30.0), ("Pricing", 80.0, 5.0, 4.0)):
        results[f"{name}/Auto/500/0"] = (percent + 1.0, regret, 5.0)
        results[f"{name}/Auto/500/1"] = (percent - 1.0, regret, 5.0)
        results[f"{name}/rule-search/500/0"] = (70.0, rule, 5.0)
    for name, ours, tuned in (("oil-laplace-1", 2.0, 8.0), ("oil-laplace-10", 0.1, 1.0)):
        results[f"{name}/Auto/500/0"] = (99.0, ours, 5.0)
        results[f"{name}/published:0.1/500/0"] = (0.0, tuned, 1.0)
        results[f"{name}/published:2/500/0"] = (0.0, 100.0, 1.0)
    line = learning.summary(results, "train", ["Auto"], 500).splitlines()[1]
    # A regret below 1 counts as 1; the geometric mean of 20 and 5 is 10, that of 1/4 and 1 is 1/2.
    assert " ".join(line.split()) == "Auto 85.0 / 80.0 % 10.0 1 of 2 0.500 / 1.00"
    assert learning.kinds_on("Queue", ["Auto", "rule-search", "published"]) == [
        "Auto",
        "rule-search",
    ]
    assert len(learning.kinds_on("oil-noisy", ["Auto", "rule-search", "published"])) == 9


def test_the_problems_beyond_the_table_have_the_optimal_values_that_are_stated():
    for peaked in (beyond.needle(3), beyond.two_peaks(3)):
        peaked.env.reset(seed=0)
        total, is_over = 0.0, False
        while not is_over:
            _, reward, is_over, _, _ = peaked.env.step(np.array([peaked.peak]))
            total += reward
        assert total == pytest.approx(peaked.best)
    env = beyond.make_changing("oil-laplace-10", 1)
    rewards = []
    for _ in range(2):
        env.reset(seed=0)
        rewards.append(env.step(np.array([beyond.OLD]))[1])
    assert rewards[0] > 0.79 > 0.01 > rewards[1]  # the peak has moved


@pytest.mark.slow
def test_parts_beyond_the_table_are_printed_and_not_measured_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(beyond, "RESOLUTION", 20)
    options = ["--parts", "stuck", "change", "--seeds", "1", "--episodes", "200"]
    monkeypatch.setattr("sys.argv", ["beyond.py", *options, "--out", str(tmp_path / "kept.json")])
    beyond.main()
    shown = capsys.readouterr().out
    assert "needle | 200 | 0 of 1 | " in shown or "    seed 0, peak at 0.637: loses" in shown
    assert "oil-laplace-10 | Auto | 200 | " in shown
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert len(kept) == 2 + 2 * (1 + 2)
    beyond.main()
    assert capsys.readouterr().out == shown
    assert json.loads((tmp_path / "kept.json").read_text()) == kept


def test_the_table_of_split_rules_marks_what_differs_from_all(capsys):
    assert doctest.testmod(splits).failed == 0
    splits.main(["--seeds", "2", "--episodes", "50", "--problems", "oil-laplace-1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("|") for line in lines if line.startswith("| oil")] == [6] * 4
    assert sum(line.startswith("| better / worse than all | | ") for line in lines) == 2
