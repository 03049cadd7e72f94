"""A tiny leaderboard: its numbers equal plain runs, and it resumes and grows."""

import re
import shutil

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import zooming
from zooming.agents.base import seeds
from zooming.app import cli
from zooming.envs.oil import Oil
from zooming.lab import leaderboard
from zooming.lab.leaderboard import Cell, Scale, markdown, standings
from zooming.lab.study import engines
from zooming.lab.study.store import Store

PROBLEMS = ["bidding", "graph-ambulance"]
TINY = ["--problems", *PROBLEMS, "--agents", "adaptive-q,net-q,metric-q:metric=discrete",
        "--episodes", "20", "10", "--seeds", "2"]  # fmt: skip
TIMED = "cpu_seconds"


@pytest.fixture(scope="module", autouse=True)
def shorter():
    """Fewer episodes behind V_random: the tests recompute what is there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaderboard, "REFERENCE_SEEDS", 3)
        yield


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The folder of a finished leaderboard."""
    folder = tmp_path_factory.mktemp("leaderboard") / "board"
    cli.main(["leaderboard", *TINY, "--out", str(folder)])
    return folder


def table(folder):
    return pl.read_csv(folder / "leaderboard.csv")


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_table_has_what_plain_runs_give(board):
    found = (
        table(board).filter(episodes=20, problem="graph-ambulance", agent="adaptive-q").to_dicts()
    )
    env = gym.make("zooming/GraphAmbulance-v0")
    best, random = zooming.solve(env).return_, []
    for i in range(3):
        seed = seeds.derive_seed(0, f"reference {i}")
        random.append(zooming.Random(env, seed=seed).learn(2000).returns.mean())
    gain = best - np.mean(random)
    regrets, percents = [], []
    for i in range(2):
        agent = zooming.AdaptiveQ(env, seed=seeds.derive_seed(0, f"run {i}"))
        regrets.append((20 * best - agent.learn(20).returns.sum()) / gain)
        seed = seeds.derive_seed(0, f"run {i} value")
        value = zooming.evaluate(agent, env, 1000, seed=seed).mean
        percents.append(100 * (value - np.mean(random)) / gain)
    (row,) = found
    assert row["regret"] == pytest.approx(np.mean(regrets))
    assert row["percent"] == pytest.approx(np.mean(percents))
    assert row["seeds"] == 2
    assert row["optimum"] == pytest.approx(best)
    assert row["cpu_seconds"] > 0


def test_differences_are_paired(board):
    rows = table(board).filter(episodes=20, problem="bidding")
    regret = dict(zip(rows["agent"], rows["regret"], strict=True))
    difference = dict(zip(rows["agent"], rows["regret_minus_adaptive-q"], strict=True))
    assert difference["net-q"] == pytest.approx(regret["net-q"] - regret["adaptive-q"])
    assert difference["adaptive-q"] is None


def test_an_agent_that_cannot_play_a_problem_is_an_empty_cell_with_a_reason(board):
    rows = table(board).filter(pl.col("reason").is_not_null()).to_dicts()
    assert [(row["problem"], row["agent"]) for row in rows] == [
        ("bidding", "metric-q:metric=discrete")
    ]
    assert "Discrete" in rows[0]["reason"]
    assert f"metric-q:metric=discrete on bidding: {rows[0]['reason']}" in (
        (board / "leaderboard.md").read_text()
    )


@pytest.mark.slow
def test_the_same_command_computes_nothing_and_more_agents_only_their_own(
    board, monkeypatch, capsys
):
    before, computed = files(board / "studies"), []
    compute = engines.compute

    def count(chunks, *options):
        computed.extend(chunk.agent.label for chunk in chunks)
        return compute(chunks, *options)

    monkeypatch.setattr(engines, "compute", count)
    cli.main(["leaderboard", *TINY, "--out", str(board)])
    assert computed == []
    assert re.findall("### .*", capsys.readouterr().out) == ["### Operations problems, 20 episodes"]
    assert files(board / "studies") == before
    copy = board.parent / "longer"
    shutil.copytree(board, copy)
    longer = [one.replace("net-q,", "net-q,random,") for one in TINY]
    cli.main(["leaderboard", *longer, "--out", str(copy)])
    assert computed == ["random"] * 4  # two problems, two numbers of episodes
    same = table(copy).filter(pl.col("agent") != "random")
    assert same.equals(table(board))


@pytest.mark.slow
def test_an_interrupted_leaderboard_continues_with_the_same_numbers(
    board, tmp_path, monkeypatch, capsys
):
    write, left = Store.write, [9]

    def fail(store, *arguments):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        write(store, *arguments)

    monkeypatch.setattr(Store, "write", fail)
    with pytest.raises(SystemExit, match=r"^130$"):
        cli.main(["leaderboard", *TINY, "--out", str(tmp_path / "board")])
    assert "finished runs are kept. To continue: zooming" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr(leaderboard, "REFERENCE_SEEDS", 3)
    cli.main(["leaderboard", *TINY, "--out", str(tmp_path / "board")])
    assert table(tmp_path / "board").drop(TIMED).equals(table(board).drop(TIMED))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--problems", "Pendulum-v1"], "Pendulum-v1 has no known optimum, the 100 % of a leader"),
        (["--problems", "newsvendr"], "no problem is named 'newsvendr'"),
        (["--problems", "bidding", "--agents", "metric-q:metric=discrete"], "no agent of the lead"),
        (["--problems", "bidding", "--agents", "net-q:bonuss=1"], "has no option 'bonuss'"),
        (["--problems", "bidding", "--episodes", "0"], "--episodes 0: give a whole number >= 1"),
        (["--problems", "bidding", "bidding"], "a study needs different problems"),
        (["--problems", "bidding", "--seeds", "0"], "--seeds 0: give a whole number >= 1"),
        (["--engine", "spark"], "--engine spark: choose one of local, ray"),
    ],
)
def test_wrong_leaderboards_are_refused(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit, match=re.escape(message)) as end:
        cli.main(["leaderboard", "--out", str(tmp_path / "board"), *arguments])
    assert end.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "board").exists()


def test_a_folder_with_other_files_is_refused(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    message = "is not empty and holds no leaderboard"
    with pytest.raises(SystemExit, match=message):
        cli.main(["leaderboard", *TINY, "--out", str(tmp_path)])
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def cell(agent, problem, regret, percent):
    arrays = np.array(regret), np.array(percent)
    return Cell(problem, agent, 100, *arrays, 0.1, 8.0, Scale(1.0, 0.0, 0.0))


def test_the_standings_count_who_is_better():
    ours = cell("auto", "p", [50.0, 52.0, 54.0], [80.0, 81.0, 82.0])
    best = cell("best", "p", [10.0, 12.0, 11.0], [99.0, 98.0, 99.0])
    level = cell("level", "p", [0.0, 52.0, 90.0], [80.0, 80.0, 80.0])
    rows = by_agent(standings([ours, best, level], "auto"))
    assert [rows[agent][7] for agent in ("auto", "best", "level")] == [
        "–",
        "0 / 0 / 1",
        "0 / 1 / 0",
    ]
    assert rows["best"][4].startswith("11.0 ±")  # percent per episode, 100 episodes


def by_agent(table):
    return {line.split(" | ")[0][2:]: line.split(" | ") for line in table.splitlines()[2:]}


def test_libraries_are_named_with_their_versions():
    theirs, ours = (cell(agent, "p", [1.0], [99.0]) for agent in ("rule-search", "auto"))
    assert "Libraries of rivals: cmaes " in markdown([theirs], {}, "auto")
    assert "Libraries" not in markdown([ours], {}, "auto")


def test_an_agent_without_all_problems_is_last():
    both = [cell("auto", problem, [5.0, 6.0], [90.0, 91.0]) for problem in "pq"]
    one = cell("few", "p", [1.0, 1.0], [99.0, 99.0])
    rows = by_agent(standings([*both, one], "auto"))
    assert [(agent, row[2]) for agent, row in rows.items()] == [("auto", "all"), ("few", "1")]


def test_means_are_over_problems_and_catastrophes_count_as_minus_100_percent():
    fine = cell("auto", "p", [10.0, 12.0], [88.0, 90.0])
    ruined = cell("auto", "q", [900.0, 30.0], [-900.0, 70.0])
    row = by_agent(standings([fine, ruined], "auto"))["auto"]
    assert row[4].startswith("63.0 ±")  # 11 and (200 + 30) / 2
    assert row[5:7] == ["37.0 ± 83.3", "-15.0"]  # 89 and (-100 + 70) / 2; 1.96 sqrt(1 + 85^2) / 2


def test_the_board_says_what_agents_are_told():
    cells = [
        cell(agent, "p", [1.0], [99.0]) for agent in ("auto", "rule-search:sigma=1", "resolver")
    ]
    rows = by_agent(standings(cells, "auto"))
    assert [row[1] for row in rows.values()] == ["nothing", "the dynamics", "the rule's form"]


class Known(Oil):
    """Oil that states an optimum."""

    metadata = {**Oil.metadata, "optimal_return": 4.5}  # noqa: RUF012


def test_a_problem_may_state_its_optimum(tmp_path):
    gym.register("KnownOil-v0", Known)
    arguments = ["--problems", "KnownOil-v0", "--agents", "median", "--episodes", "5"]
    cli.main(["leaderboard", *arguments, "--seeds", "1", "--out", str(tmp_path / "board")])
    assert table(tmp_path / "board")["optimum"].to_list() == [4.5]


def test_deep_agents_play_the_smallest_number_of_episodes_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(leaderboard, "DEEP", "median")
    arguments = ["--problems", "oil", "--agents", "random,median", "--episodes", "6", "5"]
    cli.main(["leaderboard", *arguments, "--seeds", "2", "--out", str(tmp_path / "board")])
    rows = table(tmp_path / "board").select("agent", "episodes").rows()
    assert sorted(rows) == [("median", 5), ("random", 5), ("random", 6)]
