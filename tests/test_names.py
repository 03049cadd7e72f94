"""Names from data are hostile: no exported file runs them or breaks on them, no column is lost."""

import json
import random
import re
import shutil
import sqlite3
import subprocess
from types import SimpleNamespace

import duckdb
import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming.agents.files import container as files
from zooming.app import cli
from zooming.export.forms import about, head_of
from zooming.export.tree import tree_of
from zooming.export.writers.code import c_header, python_module
from zooming.export.writers.json_document import json_document
from zooming.export.writers.sql import WORDS, sql_query
from zooming.spaces.axes import Axes
from zooming.spaces.names import column_names, printable, printable_names

LINE = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
FRAGMENTS = (
    '"""', "'''", '"', "'", "\\", "\n", "\r", "\t", "\0", "\x0b", "\x0c", "\x1b[2J", "\x85",
    "\u2028", "\u2029", "\u202e", "\u2066", "\ufeff", "\u200b", "\ud800", "\udfff", "*/", "/*",
    "*\\\n/", "//", "--", "??/", "??/\n", "?", "*", "/", ";", "`", "$", "{", "}", "{name}", "%s",
    "#", "<!--", "</script>", "\\N{", "\\x", "\\u", "é", "€", "²", "日本", "😀", " ", "a", "A", "_",
    "1", "-", ".", "x" * 300, "select", "planted.append(1)", "\nDROP TABLE victim;\n",
    "\n#error planted\n",
    '\n__attribute__((constructor)) static void p(void) { puts("planted"); }\n',
)  # fmt: skip
CODE = {  # closes whatever holds the name, then does something
    ".py": 'x"""\nplanted.append(1)\n"""',
    ".sql": "x\nDROP TABLE victim;\n",
    ".h": "x *\\\n/\n#error planted\n/*",
}


def hostile_names(n):
    """Return `n` different names made of fragments that end a string, a line or a comment."""
    draw, found = random.Random(0), set(CODE.values())
    while len(found) < n:
        found.add("".join(draw.choices(FRAGMENTS, k=draw.randint(1, 12))))
    return sorted(found)


def form_with(keys, env_name="shop", names=None):
    """Return a policy over a Dict with these keys: below 1/2 on the first axis play 1/4."""
    axes = Axes(gym.spaces.Dict(dict.fromkeys(keys, LINE)), LINE, names=names)
    low, high = np.full((2, len(keys)), -np.inf), np.full((2, len(keys)), np.inf)
    high[0, 0] = low[1, 0] = 0.5
    agent = SimpleNamespace(env_name=env_name, n_episodes=3)
    return tree_of([(low, high, np.array([[0.25], [0.75]]))], head_of(axes, about(agent)))


@pytest.fixture(scope="module")
def forms():
    """10,000 hostile keys in 250 policies, each of an environment with a hostile name."""
    names = hostile_names(10_000)
    return [form_with(names[k : k + 40], names[k]) for k in range(0, len(names), 40)]


def ask(base, query, columns, table="states"):
    """Return the actions of the query for two states."""
    quoted = ", ".join(f'"{column}" DOUBLE' for column in columns)
    base.execute(f'CREATE TABLE "{table}" (step INTEGER, {quoted})')
    for first in (0.1, 0.9):
        row = ", ".join(map(str, [0, first, *[0.3] * (len(columns) - 1)]))
        base.execute(f'INSERT INTO "{table}" VALUES ({row})')
    return sorted(row[-1] for row in base.execute(query).fetchall())


def test_a_printable_text_ends_no_line_no_string_and_no_comment():
    for name in hostile_names(10_000):
        found = printable(name)
        assert found.isprintable()
        assert len(found) <= 100
        assert not any(mark in found for mark in ("\\", '""', "''", "*/", "/*", "??", ";"))
        assert found.encode().decode() == found
        assert printable(found) == found
    assert printable("prix €/h é, 日本: 50 % * 2") == "prix €/h é, 日本: 50 % * 2"
    assert printable('state["gas"][0]') == 'state["gas"][0]'


def test_names_that_become_equal_are_told_apart():
    assert printable_names(["a\\b", "a\nb", "c"]) == ("a_b", "a_b_2", "c")
    long = ["x" * 200 + end for end in "abc"]
    assert len(set(printable_names(long))) == 3


def test_no_name_runs_or_breaks_an_exported_python_file(forms):
    for form in forms:
        planted = []
        module = {"planted": planted, "__name__": "policy"}
        exec(compile(python_module(form), "policy.py", "exec"), module)
        assert not planted
        assert module["STATE"] == form.state_names
        n_rest = len(form.state_names) - 1
        assert [module["act"](0, [x, *[0.3] * n_rest]) for x in (0.1, 0.9)] == [(0.25,), (0.75,)]


@pytest.mark.process
def test_no_name_runs_or_breaks_an_exported_c_header(forms, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    lines = ["#include <stdio.h>"]
    for k, form in enumerate(forms):
        (tmp_path / f"p{k}.h").write_text(c_header(form, f"p{k}"))
        lines.append(f'#include "p{k}.h"')
    lines += ["int main(void)", "{", "    double state[40] = {0.1}, action[1], sum = 0.0;"]
    for k in range(len(forms)):
        lines.append(f"    sum += p{k}_act(0, state, action) + action[0];")
    lines += ['    printf("%g\\n", sum);', "    return 0;", "}"]
    (tmp_path / "main.c").write_text("\n".join(lines) + "\n")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O0"]
    subprocess.run(
        [compiler, *flags, "-o", tmp_path / "run", tmp_path / "main.c"], check=True, text=True
    )
    run = subprocess.run([tmp_path / "run"], check=True, capture_output=True, text=True)
    assert run.stdout == f"{0.25 * len(forms):g}\n"


def test_no_name_runs_or_breaks_an_exported_query(forms):
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE victim (x)")
    for k, form in enumerate(forms):
        query = sql_query(form)
        assert query.count(";") == 1  # a tool that cuts at semicolons finds one statement
        assert ask(base, query, form.state_columns) == [0.25, 0.75]
        base.executescript(query)
        if k % 25 == 0:
            other = duckdb.connect(":memory:")
            assert ask(other, query, form.state_columns) == [0.25, 0.75]
        base.execute("DROP TABLE states")
    assert base.execute("SELECT count(*) FROM victim").fetchone() == (0,)


def test_no_name_breaks_an_exported_json_document(forms):
    for form in forms:
        text = json_document(form)
        found = json.loads(text)
        assert [axis["name"] for axis in found["state"]] == list(form.state_names)
        assert "\\ud" not in text.lower().replace("\\ud83d\\ude00", "")  # no lone surrogate


@pytest.mark.parametrize("ending", CODE)
def test_a_file_that_names_code_is_exported_without_it(ending, tmp_path):
    agent = zooming.AdaptiveQ(Twins({CODE[ending]: 0.1, "z": 0.9}), horizon=2, seed=0)
    agent.learn(12)
    agent.save(tmp_path / "agent.zoom")
    head, arrays = files.read_container(tmp_path / "agent.zoom")
    head["env"]["name"] = CODE[ending]
    files.write_container(tmp_path / "agent.zoom", head, arrays)
    loaded = zooming.load(tmp_path / "agent.zoom")
    text = loaded.export(tmp_path / f"policy{ending}").read_text()
    assert CODE[ending] not in text
    end = {".py": '\n"""', ".h": "*/", ".sql": "SELECT"}[ending]
    named = [line for line in text.split(end)[0].splitlines() if "AdaptiveQ on x" in line]
    assert len(named) == 1
    assert named[0].endswith("after 12 episodes")
    assert "\n" not in loaded.explain(episodes=0, n_rules=2).title


def test_words_of_sql_are_names_of_tables_and_columns():
    form = form_with(["a", "b"], names=["order", "select", "where"])
    assert form.state_columns == ("order", "select")
    for base in (sqlite3.connect(":memory:"), duckdb.connect(":memory:")):
        for word in sorted(WORDS):
            assert ask(base, sql_query(form, word), form.state_columns, word) == [0.25, 0.75]


@pytest.mark.process
def test_words_of_c_are_names_of_headers(tmp_path):
    words = "auto case double for if int int32 int8_t main register return static struct typedef"
    form = form_with(["a", "b"])
    lines = []
    for word in words.split():
        (tmp_path / f"{word}.h").write_text(c_header(form, word))
        lines.append(f'#include "{word}.h"')
    (tmp_path / "all.c").write_text("\n".join(lines) + "\nint main(void) { return 0; }\n")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([compiler, *flags, tmp_path / "all.c"], check=True)


def test_names_that_no_language_takes_are_refused(tmp_path):
    agent = zooming.Planner(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(20)
    for file, options, message in (
        ("class.py", {}, "cannot import a policy from a file of this name"),
        ("struct.py", {}, "cannot import a policy from a file of this name"),
        ("a.h", {"name": "__a"}, "a C name begins with a letter"),
        ("a.h", {"name": "é"}, "a C name begins with a letter"),
        ("a.h", {"name": "a" * 41}, "give at most 40 letters"),
        ("a.h", {"name": 3}, "name=3: give at most 40 letters"),
        ("a.sql", {"table": "Cells"}, "the query has a table of this name itself"),
        ("a.sql", {"table": "main.axis_0"}, "the query has a table of this name itself"),
        ("a.sql", {"table": "a" * 64}, "give the name of a table"),
        ("a.sql", {"table": "a\n"}, "give the name of a table"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            agent.export(tmp_path / file, **options)
    assert not list(tmp_path.iterdir())


ALIKE = {"a-b": 0.1, "a_b": 0.9, "A b": 0.4}


# --- columns --------------------------------------------------------------------------------------


class Twins(gym.Env):
    """An environment with keys that differ, though they look the same as names of columns."""

    action_space = gym.spaces.Dict({"go": LINE, "GO": LINE})

    def __init__(self, values):
        self.values = values
        self.observation_space = gym.spaces.Dict(dict.fromkeys(values, LINE))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {key: np.array([value]) for key, value in self.values.items()}, {}

    def step(self, action):
        return self.reset()[0], float(action["go"][0]), False, False, {}


def test_two_keys_never_share_a_column():
    log = zooming.record(
        Twins(ALIKE), lambda step, state: {"go": [0.5], "GO": [0.2]}, episodes=3, horizon=2
    )
    state = ["state_A_b_0", "state_a_b_0_2", "state_a_b_0_3"]  # the keys are sorted
    action = ["action_GO_0", "action_go_0_2"]
    following = [f"next_{name}" for name in state]
    assert log.columns == ["episode", "step", *state, *action, "reward", *following, "terminated"]
    assert log.select([*state, *action, *following]).row(0) == (
        0.4, 0.1, 0.9, 0.2, 0.5, 0.4, 0.1, 0.9
    )  # fmt: skip
    agent = zooming.Planner(Twins(ALIKE), horizon=2, seed=0)
    assert "6 of 6 rows" in str(agent.learn_from(log))
    kept = zooming.to_log(agent)
    assert kept.columns == log.columns
    assert np.allclose(kept.select(state).to_numpy(), [[0.4, 0.1, 0.9]] * 6, atol=1e-3)
    form = head_of(agent.axes, "")
    assert (form["state_columns"], form["action_columns"]) == (tuple(state), tuple(action))


def test_columns_of_hostile_names_are_unique_in_every_case():
    names = hostile_names(10_000)
    for k in range(0, len(names), 40):
        state, action = column_names(names[k : k + 40], 25)
        columns = [*state, *action, *(f"next_{name}" for name in state), "step", "reward"]
        assert len({column.casefold() for column in columns}) == len(columns)
        assert all(re.fullmatch(r"[^\W\d]\w{0,119}", column) for column in columns)
    assert column_names(["step", "next_x", "x", "Reward", "9"], 3) == (
        ("step_2", "next_x", "x_2"),
        ("Reward_2", "axis_9"),
    )


# --- pages and pictures ---------------------------------------------------------------------------


def test_rules_with_hostile_names_are_shown_as_text(tmp_path, capsys):
    agent = zooming.AdaptiveQ(Twins({"$_{$": 0.1, "</title><script>x": 0.9}), horizon=2, seed=0)
    agent.learn(12)
    agent.save(tmp_path / "agent.zoom")
    cli.main(["explain", str(tmp_path / "agent.zoom")])
    assert printable("</title><script>x") in capsys.readouterr().out
    assert "<script>" not in agent.explain(episodes=0)._repr_html_()
