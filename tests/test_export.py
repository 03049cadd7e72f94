"""An exported policy gives exactly the action of predict, in every format."""

import json
import re
import runpy
import shutil
import sqlite3
import subprocess
import sys

import duckdb
import gymnasium as gym
import numpy as np
import pandas
import pytest

import zooming
from helpers import Boxes, box
from zooming.export.tree import DecisionTree, decision_tree
from zooming.export.write import policy_form
from zooming.export.writers import sql as sql_grid

MANY, FEW = 30_000, 3_000  # random states; the states around every border are among them


def taught(make, state, action, n=1500, **options):
    """Return an agent that was taught a smooth function of states and actions at two steps."""
    agent = make(Boxes(state, action), horizon=2, **options)
    axes, rng = agent.axes, np.random.default_rng(4)
    state.seed(1), action.seed(2)
    for k in range(n):
        x = state.sample()
        a = action.sample() if isinstance(agent, zooming.Planner) else agent.act(k % 2, x)
        points = axes.flat_state(x), axes.flat_action(a)
        low, width = axes.table[:, 0], axes.table[:, 1]
        unit = (np.concatenate(points) - low) / width
        wanted = unit[: axes.n_state].mean()
        miss = np.abs(unit[axes.n_state :] - wanted).mean()
        agent.update(k % 2, x, a, float(1.0 - 0.9 * miss - 0.01 * rng.random()), x)
    return agent


def learned(kind):
    """Return an agent whose policy has many regions, for each kind of state and action."""
    line, single, odd = box((0.0, 3.0)), box((0.0, 3.0), dtype=np.float32), box((-0.3, 1.1))
    wide, endless = box((-np.inf, np.inf)), box((-2.0, np.inf))
    some = gym.spaces.Tuple([gym.spaces.Discrete(5, start=-1), single])
    if kind == "two states":
        agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", n_ambulances=2), seed=1)
        agent.learn(3000)
        return agent
    if kind == "net":
        agent = zooming.NetQ(gym.make("zooming/Ambulance-v0"), spacing=0.07, seed=1)
        agent.learn(2000)
        return agent
    if kind == "one state":
        agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
        agent.learn(3000)
        return agent
    if kind == "auto":
        agent = zooming.Auto(gym.make("zooming/Inventory-v0"), seed=0)
        agent.learn(60)
        assert isinstance(agent.recommended, zooming.Planner)
        return agent
    planner = zooming.Planner
    make, state, action, options = {
        "odd bounds": (zooming.AdaptiveQ, box((-0.3, 1.1), (-0.3, 1.1)), odd, {"bonus": 0.3}),
        "whole": (zooming.AdaptiveQ, some, gym.spaces.Discrete(7), {"ordered": True}),
        "squashed tree": (zooming.TreeQ, endless, line, {"squash": 0.7}),
        "planner": (planner, odd, box((-0.7, 0.4)), {}),
        "planner, single": (planner, single, single, {"bounds": {"action": (0.1, 2.7)}}),
        "planner, squashed": (planner, wide, endless, {"squash": {"state": 3.0, "action": 1.0}}),
        "planner, values": (planner, some, gym.spaces.Discrete(7), {}),
        "planner, parts": (
            planner, some, gym.spaces.Tuple([line, gym.spaces.Discrete(3)]), {"ordered": True}
        ),
        "planner, many values": (
            planner, box((0, 50_000), dtype=np.int64), box((-9000, 9000), dtype=np.int64), {}
        ),
    }[kind]  # fmt: skip
    return taught(make, state, action, seed=3, **options)


TREES = ("one state", "two states", "net", "odd bounds", "whole", "squashed tree")
GRIDS = (
    "auto", "planner", "planner, single", "planner, squashed", "planner, values", "planner, parts",
    "planner, many values",
)  # fmt: skip
KINDS = TREES + GRIDS
BIG = ("two states", "auto")


@pytest.fixture(scope="module")
def agents():
    return {kind: learned(kind) for kind in KINDS}


def borders_of(form, axis):
    """Return all states on one axis where something changes, in the environment's units."""
    if isinstance(form, DecisionTree):
        found = form.threshold[form.axis == axis]
    else:
        entries = slice(*form.first[axis : axis + 2])
        unit = np.append(form.border[entries], form.center[entries])
        found = form.low[axis] + unit * form.width[axis]
    for i, origin, scale, offset, gain in form.squash:
        if int(i) == axis:
            share = (np.clip(found, 1e-9, 1 - 1e-9) - offset) / gain
            found = origin + share / (1 - np.abs(share)) * scale
    return found


def states_of(agent, form, count):
    """Return random states, and states on and around every border, all in the space."""
    rng = np.random.default_rng(0)
    n = agent.axes.n_state
    low = np.maximum(agent.axes.low[:n], -1e6)
    high = np.minimum(agent.axes.high[:n], 1e6)
    found = rng.uniform(np.maximum(low, -20), np.minimum(high, 60_000), (count, n))
    for axis in range(n):
        near = [borders_of(form, axis)]
        for way in (-np.inf, np.inf):
            for _ in range(2):
                near.append(np.nextafter(near[-1], way))
            near.append(near[0])
        near = np.concatenate([*near, [low[axis], high[axis]]])
        where = rng.choice(count, min(count, max(2 * len(near), count // 2)), replace=False)
        found[where, axis] = np.resize(near, len(where))
    whole = np.array(form.state_is_whole)
    found[:, whole] = np.rint(found[:, whole])
    for i in range(n):
        if agent.axes[i].single:
            found[:, i] = found[:, i].astype(np.float32)
    return np.clip(found, low, high)


def predicted(policy, step, states, axes=None):
    axes = axes or policy.axes
    found = policy.predict(axes.states.shaped(states), state=np.full(len(states), step))[0]
    return axes.actions.batch(found, "action")[0]


def lines_of(step, states):
    return "\n".join(f"{step} " + " ".join(map(repr, state)) for state in states.tolist())


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
    form = policy_form(agent)
    is_tree = isinstance(form, DecisionTree)
    assert is_tree == (kind in TREES or kind == "planner, values")
    assert len(form.axis if is_tree else form.center) > 3, "nothing to compare"
    states = states_of(agent, form, MANY if kind in BIG else FEW)
    steps = (0, agent.horizon - 1)
    printed = subprocess.run(
        [sys.executable, "-I", "-S", str(path)],
        input="\n".join(lines_of(step, states) for step in steps),
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = np.array([line.split() for line in printed.splitlines()], float)
    expected = np.concatenate([predicted(agent, step, states) for step in steps])
    assert len(np.unique(expected)) > 1
    assert (found == expected).all()


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "message"),
    [("0 x", "line 2: could not convert"), ("99 0.5", "line 2: step 99 is outside the episode")],
)
def test_a_bad_line_is_named_by_its_number_without_a_traceback(agents, line, message, tmp_path):
    agent = next(one for one in agents.values() if one.axes.n_state == 1)
    command = [sys.executable, "-I", "-S", str(agent.export(tmp_path / "policy.py"))]
    given = f"0 0.5\n{line}\n"
    found = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr.startswith(message)
    assert "write a step and a number for each of state" in found.stderr


def test_the_python_file_takes_a_number_for_a_state_of_one_axis(agents, tmp_path):
    agent = next(one for one in agents.values() if one.axes.n_state == 1)
    module = runpy.run_path(str(agent.export(tmp_path / "policy.py")))
    low = agent.env.observation_space.low.item()
    assert module["act"](0, low) == module["act"](0, [low])


def act_by_json(found, step, state):
    """Return the action as docs/export.md says it is to be read from the document."""
    state = list(state)
    for i, origin, scale, offset, gain in found.get("squash", []):
        z = (state[int(i)] - origin) / scale
        state[int(i)] = offset + gain * (z / (1 + abs(z)))
    if found["form"] == "tree":
        at = found["roots"][step]
        while at >= 0:
            side = "right" if state[found["axis"][at]] >= found["threshold"][at] else "left"
            at = found[side][at]
        return found["actions"][-1 - at]
    cell, bins, units = 0, [], []
    for j, x in enumerate(state):
        u = (x - found["low"][j]) / found["width"][j]
        first, last = found["first"][j], found["first"][j + 1]
        at = max([i for i in range(first, last) if found["border"][i] <= u] or [first])
        cell, bins, units = cell * (last - first) + at - first, [*bins, at], [*units, u]
    own, *others = found["pieces"][found["cells"][found["plan"][step]][cell]]
    action = []
    for k, point in enumerate(found["points"][own]):
        for j in reversed(range(len(state))):
            away = units[j] - found["center"][bins[j]]
            there = others[2 * j + (away > 0)]
            if found["is_mixed"][k] and there != own:
                other = bins[j] + (1 if away > 0 else -1)
                gap = abs(found["center"][other] - found["center"][bins[j]])
                point += abs(away) / gap * (found["points"][there][k] - found["points"][own][k])
        point = min(found["point_high"][k], max(found["point_low"][k], point))
        value = found["action_low"][k] + point * found["action_width"][k]
        n = found.get("n_values", [0] * (k + 1))[k]
        if n:
            value = found["action_low"][k] + 0.5 + min(n - 1, np.floor(point * n))
        for i, origin, scale, offset, gain in found.get("action_squash", []):
            if i == k:
                share = (value - offset) / gain
                value = origin + share / max(1 - abs(share), 1e-6) * scale
        if "action_least" in found:
            value = min(found["action_most"][k], max(found["action_least"][k], value))
        single = found.get("is_single", [0] * (k + 1))[k]
        action.append(float(np.float32(value)) if single else value)
    return action


@pytest.mark.parametrize("kind", KINDS)
def test_the_json_document_holds_the_policy(agents, kind, tmp_path):
    agent = agents[kind]
    found = json.loads(agent.export(tmp_path / "policy.json").read_text())
    assert found["format"] == "zooming-policy"
    assert found["version"] == 1
    states = states_of(agent, policy_form(agent), 300)
    step = agent.horizon - 1
    for state, action in zip(states, predicted(agent, step, states), strict=True):
        assert act_by_json(found, step, state) == action.tolist()


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


CHECKED = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
FUSED = ["-std=gnu99", "-O3", "-march=native", "-ffp-contract=fast"]  # fuses products and sums


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        *((kind, "double") for kind in KINDS),
        ("odd bounds", "float"), ("squashed tree", "float"), ("planner", "float"),
        ("net", "int"), ("auto", "int"),
    ],
)  # fmt: skip
@pytest.mark.process
def test_the_c_header_compiles_without_a_warning_and_agrees(agents, kind, number, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "install a C compiler (apt-get install gcc): exported headers are tested in it"
    agent = agents[kind]
    form, n = policy_form(agent), agent.axes.n_state
    scale = 1000.0 if number == "int" else 1.0
    agent.export(tmp_path / "policy.h", number=number, scale=scale)
    action = "int32_t" if all(form.action_is_whole) else "float" if number == "float" else "double"
    c_type = {"int": "int32_t"}.get(number, number)
    program = MAIN.replace("NUMBER", c_type).replace("ACTION action", f"{action} action")
    (tmp_path / "main.c").write_text(program)
    states = states_of(agent, form, MANY if kind in BIG and number == "double" else FEW)
    if number == "float":
        states = states.astype(np.float32).astype(float)
        inside = (states >= agent.axes.low[:n]) & (states <= agent.axes.high[:n])
        states = states[inside.all(axis=1)]
    given = np.rint(states * scale) if number == "int" else states
    states = given / scale if number == "int" else states
    step = agent.horizon - 1
    expected = predicted(agent, step, states)
    expected = expected.astype(np.float32) if action == "float" else expected
    is_mixing = kind in ("auto", "planner, squashed") and number == "double"
    more = [[*CHECKED, "-O0"], FUSED] if is_mixing else []
    for flags in [[*CHECKED, "-O2"], *more]:
        subprocess.run([compiler, *flags, "-o", tmp_path / "run", tmp_path / "main.c"], check=True)
        run = subprocess.run(
            [tmp_path / "run"], input=lines_of(step, given) + "\n-1 " + "0 " * n,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        *rows, last = run.stdout.splitlines()
        assert last == "outside"
        assert (np.array([row.split() for row in rows], float) == expected).all(), flags


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_query_gives_the_action_of_every_row(agents, kind, engine, tmp_path):
    agent = agents[kind]
    form = policy_form(agent)
    if kind == "planner, squashed":
        with pytest.raises(zooming.ConfigurationError, match=r"squashed axis.*or give .*bounds="):
            agent.export(tmp_path / "policy.sql")
        return
    query = agent.export(tmp_path / "policy.sql", table="seen").read_text()
    states = states_of(agent, form, MANY if kind in BIG else 1_000)
    columns = [re.sub(r"\W+", "_", name).strip("_") for name in form.state_names]
    step = agent.horizon - 1
    rows = [(k, step, *state) for k, state in enumerate(states.tolist())]
    rows.append((len(rows), agent.horizon, *states[0].tolist()))
    base = (sqlite3 if engine == "sqlite" else duckdb).connect(":memory:")
    base.execute(f"CREATE TABLE seen (k INTEGER, step INTEGER, {' DOUBLE, '.join(columns)} DOUBLE)")
    if engine == "sqlite":
        base.executemany(f"INSERT INTO seen VALUES ({', '.join('?' * len(rows[0]))})", rows)
    else:
        base.register("rows", pandas.DataFrame(rows, columns=["k", "step", *columns]))
        base.execute("INSERT INTO seen SELECT * FROM rows")
    answer = sorted(base.execute(query).fetchall())
    assert set(answer[-1][len(rows[0]) :]) == {None}  # the step is outside the episode
    found = np.array([row[len(rows[0]) :] for row in answer[:-1]], float)
    found = found.astype(np.float32) if kind == "planner, single" else found  # SQL has doubles
    assert (found == predicted(agent, step, states)).all()


@pytest.mark.parametrize("kind", ["planner", "planner, squashed", "whole"])
def test_rules_are_exported_as_they_are_played(agents, kind, tmp_path):
    agent = agents[kind]
    rules = agent.explain(n_rules=4, episodes=0)
    module = runpy.run_path(str(rules.export(tmp_path / "rules.py")))
    states = states_of(agent, policy_form(agent), 400)
    for step in range(agent.horizon):
        borders = [x for rule in rules for x in (*rule.low, *rule.high) if np.isfinite(x)]
        states[: len(borders), -1] = np.clip(borders, states[:, -1].min(), states[:, -1].max())
        played = predicted(rules.policy, step, states, agent.axes)
        assert [list(module["act"](step, state)) for state in states.tolist()] == played.tolist()
    with pytest.raises(zooming.ConfigurationError, match="lack 1 step, for example step 0"):
        agent.explain(1, episodes=0).export(tmp_path / "a.sql")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rules.py"]


def test_a_policy_of_one_action_has_no_comparison(tmp_path):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    tree = decision_tree(agent)
    assert (len(tree.axis), tree.depth, len(tree.actions)) == (0, 0, 1)
    with pytest.warns(UserWarning, match="AdaptiveQ has not learned from any episode yet"):
        assert "_roots[5]" in agent.export(tmp_path / "policy.h").read_text()


def test_an_untrained_agent_warns_on_export(tmp_path):
    agent = zooming.Auto(gym.make("zooming/Pricing-v0"), seed=0)
    message = r"Auto has not .*; call agent.learn\(episodes\) first"
    with pytest.warns(UserWarning, match=message) as at:
        agent.export(tmp_path / "policy.py")
    assert at[0].filename == __file__
    with pytest.warns(UserWarning, match="has not learned from any episode yet"):
        agent.explain(episodes=0).export(tmp_path / "rules.py")
    agent.learn(2)
    agent.export(tmp_path / "policy.py")  # a warning would be an error


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(tmp_path, agents, monkeypatch):
    agent = agents["one state"]
    monkeypatch.setattr(sql_grid, "MOST_ROWS", 10)
    refusals = [
        (lambda: agent.export(tmp_path / "policy.onnx"), r"no format has the ending '.onnx'"),
        (
            lambda: zooming.Random(agent.env).export(tmp_path / "a.py"),
            r"Random has no partition.*agent.explain\(n_rules=None\).export",
        ),
        (
            lambda: agents["planner"].export(tmp_path / "a.sql"),
            r"a table of \d+ cells, and the limit is 10; export .py, .json or .h, or rules",
        ),
        (lambda: agent.export(tmp_path / "a.h", scale=0.0), "scale=0.0: give a positive number"),
        (lambda: agent.export(tmp_path / "a.h", number="half"), "number='half': choose one of"),
        (lambda: agent.export(tmp_path / "1.h"), "a C name begins with a letter"),
        (lambda: agent.export(tmp_path / "a.sql", table="a b"), "table='a b': give the name of a"),
        (lambda: agent.export(tmp_path / "a.sql", table=3), "table=3: give the name of a table"),
        (lambda: agent.export(tmp_path / "a.h", number="int", scale=1e10), "does not fit into 32"),
    ]
    for ask, message in refusals:
        with pytest.raises(zooming.ConfigurationError, match=message):
            ask()
    assert not list(tmp_path.iterdir())


def test_export_replaces_its_own_files_and_no_others(tmp_path):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(20)
    for ending in (".py", ".json", ".h", ".sql"):
        path = tmp_path / f"policy{ending}"
        agent.export(path)
        agent.learn(5)
        agent.export(path)
        mine = tmp_path / f"mine{ending}"
        mine.write_text("import gymnasium\n")
        with pytest.raises(zooming.ConfigurationError, match="exists, and is not a policy"):
            agent.export(mine)
        assert mine.read_text() == "import gymnasium\n"
