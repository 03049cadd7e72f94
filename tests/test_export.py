"""An exported policy gives exactly the action of predict, in every format."""

import json
import runpy
import shutil
import sqlite3
import subprocess
import sys

import duckdb
import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, Drift, box
from zooming.export.decision_tree import decision_tree

MANY, FEW = 100_000, 5_000  # random states; the states around every threshold are among them


def learned(kind):
    """Return an agent with splits in many places, for each kind of state and action."""
    if kind == "two states":
        agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", n_ambulances=2), seed=1)
        agent.learn(3000)
    elif kind == "net":
        agent = zooming.NetQ(gym.make("zooming/Ambulance-v0"), spacing=0.07, seed=1)
        agent.learn(2000)
    elif kind == "odd bounds":
        agent = zooming.AdaptiveQ(Drift(-0.3, 1.1), horizon=3, bonus=0.3, seed=2)
        agent.learn(2000)
    elif kind == "whole":
        space = gym.spaces.Tuple(
            [gym.spaces.Discrete(5, start=-1), box((0.0, 3.0), dtype=np.float32)]
        )
        agent = zooming.AdaptiveQ(
            Boxes(space, gym.spaces.Discrete(7)), horizon=2, ordered=True, seed=3
        )
        rng = np.random.default_rng(4)
        for k in range(4000):
            state = (int(rng.integers(-1, 4)), rng.uniform(0, 3, 1).astype(np.float32))
            action = agent.act(k % 2, state)
            reward = 1.0 - abs(action / 6 - (state[0] + 1 + state[1][0]) / 7)
            agent.update(k % 2, state, action, float(np.clip(reward, 0, 1)), state)
    else:
        agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
        agent.learn(3000)
    return agent


KINDS = ("one state", "two states", "net", "odd bounds", "whole")


@pytest.fixture(scope="module")
def agents():
    return {kind: learned(kind) for kind in KINDS}


def states_of(agent, tree, count):
    """Return random states, and states on and just below every threshold, all in the space."""
    rng = np.random.default_rng(0)
    n = agent.axes.n_state
    low, high = agent.axes.low[:n], agent.axes.high[:n]
    found = rng.uniform(low, high, (count, n))
    for axis in range(n):
        borders = tree.threshold[tree.axis == axis]
        near = np.concatenate([borders, np.nextafter(borders, -np.inf), [low[axis], high[axis]]])
        where = rng.integers(0, count, max(2 * len(near), count // 2))
        found[where, axis] = np.resize(near, len(where))
    whole = np.array(tree.state_is_whole)
    found[:, whole] = np.rint(found[:, whole])
    found = np.clip(found, low, high)
    for i in range(n):
        if agent.axes[i].single:
            found[:, i] = found[:, i].astype(np.float32)
    return np.clip(found, low, high)


def predicted(agent, step, states):
    shaped = agent.axes.states.shaped(states)
    return agent.axes.actions.batch(agent.predict(shaped, state=np.full(len(states), step))[0], "")[
        0
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_gives_the_action_of_predict(agents, kind):
    agent = agents[kind]
    tree = decision_tree(agent)
    assert len(tree.axis) > 3, "nothing to compare"
    for step in range(agent.horizon):
        states = states_of(agent, tree, 1_000)
        expected = predicted(agent, step, states)
        assert (np.array([tree.act(step, state) for state in states]) == expected).all()


def test_regions_with_one_action_are_merged(agents):
    agent = agents["one state"]
    tree = decision_tree(agent)
    for step in range(agent.horizon):
        grid = np.linspace(0.0, 1.0, 4097)
        played = predicted(agent, step, grid[:, None])[:, 0]
        n_regions = 1 + np.count_nonzero(np.diff(played))
        used = set()
        waiting = [int(tree.roots[step])]
        while waiting:
            at = waiting.pop()
            if at >= 0:
                used.add(at)
                waiting += [int(tree.left[at]), int(tree.right[at])]
        assert len(used) == n_regions - 1  # one comparison between two neighboring regions


def test_a_balanced_tree_needs_few_comparisons(agents):
    tree = decision_tree(agents["net"])
    regions = len(tree.axis) + 1
    assert tree.depth <= np.ceil(np.log2(regions)) + 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.process
def test_the_python_file_runs_in_an_interpreter_without_packages(agents, kind, tmp_path):
    agent = agents[kind]
    path = agent.export(tmp_path / "policy.py")
    tree = decision_tree(agent)
    states = states_of(agent, tree, MANY if kind == "two states" else FEW)
    step = agent.horizon - 1
    lines = "\n".join(f"{step} " + " ".join(map(repr, state)) for state in states.tolist())
    command = [sys.executable, "-I", "-S", str(path)]
    printed = subprocess.run(
        command, input=lines, capture_output=True, text=True, check=True
    ).stdout
    found = np.array([line.split() for line in printed.splitlines()], float)
    assert (found == predicted(agent, step, states)).all()


def test_the_python_file_takes_a_number_for_a_state_of_one_axis(agents, tmp_path):
    agent = next(one for one in agents.values() if one.axes.n_state == 1)
    module = runpy.run_path(str(agent.export(tmp_path / "policy.py")))
    low = agent.env.observation_space.low.item()
    assert module["act"](0, low) == module["act"](0, [low])


@pytest.mark.parametrize("kind", KINDS)
def test_the_json_document_holds_the_policy(agents, kind, tmp_path):
    agent = agents[kind]
    found = json.loads(agent.export(tmp_path / "policy.json").read_text())
    assert found["format"] == "zooming-policy"
    assert found["version"] == 1
    states = states_of(agent, decision_tree(agent), 500)
    for step, root in enumerate(found["roots"]):
        for state, action in zip(states, predicted(agent, step, states), strict=True):
            at = root
            while at >= 0:
                side = "right" if state[found["axis"][at]] >= found["threshold"][at] else "left"
                at = found[side][at]
            assert found["actions"][~at] == action.tolist()


MAIN = """
#include <stdio.h>
#include "policy.h"
int main(void)
{
    NUMBER state[POLICY_N_STATE];
    ACTION action[POLICY_N_ACTION];
    double read;
    int step, i;
    while (scanf("%d", &step) == 1) {
        for (i = 0; i < POLICY_N_STATE; ++i) {
            if (scanf("%lf", &read) != 1) {
                return 2;
            }
            state[i] = (NUMBER)read;
        }
        if (policy_act(step, state, action) != 0) {
            printf("outside\\n");
            continue;
        }
        for (i = 0; i < POLICY_N_ACTION; ++i) {
            printf("%.17g ", (double)action[i]);
        }
        printf("\\n");
    }
    return 0;
}
"""


@pytest.mark.parametrize(
    ("kind", "number"),
    [*((kind, "double") for kind in KINDS), ("odd bounds", "float"), ("net", "int")],
)
@pytest.mark.process
def test_the_c_header_compiles_without_a_warning_and_agrees(agents, kind, number, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "install a C compiler (apt-get install gcc): exported headers are tested in it"
    agent = agents[kind]
    tree = decision_tree(agent)
    scale = 1000.0 if number == "int" else 1.0
    agent.export(tmp_path / "policy.h", number=number, scale=scale)
    action = "int32_t" if all(tree.action_is_whole) else "float" if number == "float" else "double"
    c_type = {"int": "int32_t"}.get(number, number)
    program = MAIN.replace("NUMBER", c_type).replace("ACTION action", f"{action} action")
    (tmp_path / "main.c").write_text(program)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"]
    subprocess.run([compiler, *flags, "-o", tmp_path / "run", tmp_path / "main.c"], check=True)
    states = states_of(agent, tree, MANY if kind == "two states" else FEW)
    if number == "float":
        states = np.clip(states.astype(np.float32), agent.axes.low[:2], agent.axes.high[:2])
        states = states.astype(np.float32).astype(float)
        states = states[
            ((states >= agent.axes.low[:2]) & (states <= agent.axes.high[:2])).all(axis=1)
        ]
    given = np.rint(states * scale) if number == "int" else states
    states = given / scale if number == "int" else states
    step = agent.horizon - 1
    lines = "\n".join(f"{step} " + " ".join(map(repr, state)) for state in given.tolist())
    run = subprocess.run(
        [tmp_path / "run"], input=lines + "\n-1 " + "0 " * states.shape[1], capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    *rows, last = run.stdout.splitlines()
    assert last == "outside"
    found = np.array([row.split() for row in rows], float)
    expected = predicted(agent, step, states)
    expected = expected.astype(np.float32) if action == "float" else expected
    assert (found == expected).all()


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_query_gives_the_action_of_every_row(agents, kind, engine, tmp_path):
    agent = agents[kind]
    tree = decision_tree(agent)
    query = agent.export(tmp_path / "policy.sql", table="seen").read_text()
    count = MANY if (kind, engine) == ("two states", "sqlite") else 1_000
    states = states_of(agent, tree, count)
    columns = [name.replace("[", "_").replace("]", "") for name in tree.state_names]
    step = agent.horizon - 1
    rows = [(k, step, *state) for k, state in enumerate(states.tolist())]
    rows.append((len(rows), agent.horizon, *states[0].tolist()))
    if engine == "sqlite":
        base = sqlite3.connect(":memory:")
    else:
        base = duckdb.connect(":memory:")
    base.execute(f"CREATE TABLE seen (k INTEGER, step INTEGER, {' DOUBLE, '.join(columns)} DOUBLE)")
    base.executemany(f"INSERT INTO seen VALUES ({', '.join('?' * len(rows[0]))})", rows)
    answer = sorted(base.execute(query).fetchall())
    assert set(answer[-1][len(rows[0]) :]) == {None}  # the step is outside the episode
    found = np.array([row[len(rows[0]) :] for row in answer[:-1]], float)
    assert (found == predicted(agent, step, states)).all()


def test_a_policy_of_one_action_has_no_comparison(tmp_path):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    tree = decision_tree(agent)
    assert (len(tree.axis), tree.depth, len(tree.actions)) == (0, 0, 1)
    assert "_roots[5]" in agent.export(tmp_path / "policy.h").read_text()


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(tmp_path, agents):
    agent = agents["one state"]
    refusals = [
        (lambda: agent.export(tmp_path / "policy.onnx"), r"no format has the ending '.onnx'"),
        (lambda: zooming.Random(agent.env).export(tmp_path / "a.py"), "Random has no partition"),
        (lambda: agent.export(tmp_path / "a.h", number="half"), "number='half': choose one of"),
        (lambda: agent.export(tmp_path / "1.h"), "a C name begins with a letter"),
        (lambda: agent.export(tmp_path / "a.h", number="int", scale=1e10), "does not fit into 32"),
    ]
    for ask, message in refusals:
        with pytest.raises(zooming.ConfigurationError, match=message):
            ask()
    cart = zooming.AdaptiveQ(gym.make("CartPole-v1"), horizon=3, squash=True, seed=0)
    with pytest.raises(zooming.ConfigurationError, match=r"is squashed.*give bounds="):
        cart.export(tmp_path / "a.py")
    assert not list(tmp_path.iterdir())
