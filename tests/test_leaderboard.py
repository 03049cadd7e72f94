"""A tiny leaderboard: its numbers equal plain runs, it resumes and grows, and its page works."""

import dataclasses
import pickle
import re
import shutil

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import zooming
from zooming.agents.base import seeds
from zooming.app import cli
from zooming.errors import ConfigurationError
from zooming.lab.leaderboard import command, plan
from zooming.lab.leaderboard.compare import losses, standings
from zooming.lab.leaderboard.measures import Result, Scale, episodes_to
from zooming.lab.leaderboard.page import render
from zooming.lab.leaderboard.tables import say_libraries
from zooming.lab.study import engines
from zooming.lab.study.chunks import sample_value
from zooming.lab.study.problems import AGENTS
from zooming.lab.study.store import Store

EVIL = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=2</script>"
PROBLEMS = ["bidding", "graph-ambulance"]
TINY = ["--problems", *PROBLEMS, "--agents", "adaptive-q,net-q,metric-q:metric=discrete",
        "--episodes", "20", "10", "--seeds", "2", "--tuning-seeds", "1"]  # fmt: skip
TIMED = "cpu_seconds"


@pytest.fixture(scope="module", autouse=True)
def shorter():
    """Fewer episodes behind V_random and fewer bonuses: the tests recompute what is there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "REFERENCE_SEEDS", 3)
        patch.setattr(plan, "PAPERS_SCALES", (0.1, 1.0))
        yield


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The folder of a finished leaderboard."""
    folder = tmp_path_factory.mktemp("leaderboard") / "board"
    cli.main(["leaderboard", *TINY, "--out", str(folder)])
    return folder


def table(folder):
    return pl.read_parquet(folder / "leaderboard.parquet")


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
        value = sample_value(agent, env, 1000, seeds.derive_seed(0, f"run {i} value"))
        percents.append(100 * (value - np.mean(random)) / gain)
    (row,) = found
    assert row["regret"] == pytest.approx(np.mean(regrets))
    assert row["percent"] == pytest.approx(np.mean(percents))
    assert (row["seeds"], row["group"]) == (2, "operations")
    assert row["optimum"] == pytest.approx(best)
    assert row["cpu_seconds"] > 0


def test_differences_are_paired_and_tuned_agents_have_their_best_bonus(board):
    rows = table(board).filter(episodes=20, problem="bidding")
    regret = dict(zip(rows["agent"], rows["regret"], strict=True))
    difference = dict(zip(rows["agent"], rows["regret_minus_adaptive-q"], strict=True))
    assert difference["net-q"] == pytest.approx(regret["net-q"] - regret["adaptive-q"])
    assert difference["adaptive-q"] is None
    returns = {}
    for bonus in (0.1, 1.0):
        env, seed = gym.make("zooming/Bidding-v0"), seeds.derive_seed(0, "tune 0")
        returns[bonus] = zooming.NetQ(env, bonus=bonus, seed=seed).learn(20).returns.sum()
    best = max(returns, key=returns.get)
    assert rows.filter(agent="net-q (tuned)")["settings"].to_list() == [f'{{"bonus": {best}}}']


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
def test_the_same_command_computes_nothing_and_more_agents_only_their_own(board, monkeypatch):
    before, computed = files(board / "studies"), []
    compute = engines.compute

    def count(chunks, *options):
        computed.extend(chunk.agent.label for chunk in chunks)
        return compute(chunks, *options)

    monkeypatch.setattr(engines, "compute", count)
    cli.main(["leaderboard", *TINY, "--out", str(board)])
    assert computed == []
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
    monkeypatch.setattr(plan, "REFERENCE_SEEDS", 3)
    monkeypatch.setattr(plan, "PAPERS_SCALES", (0.1, 1.0))
    cli.main(["leaderboard", *TINY, "--out", str(tmp_path / "board")])
    assert table(tmp_path / "board").drop(TIMED).equals(table(board).drop(TIMED))


def test_the_engine_that_is_asked_for_gives_the_same_leaderboard(tmp_path, monkeypatch):
    """Ray itself computes chunks in `test_study`."""
    asked = []

    def on_ray(chunks, workers, address):
        asked.append((workers, address))
        for chunk in chunks:
            yield chunk, *engines._run(pickle.loads(pickle.dumps(chunk)))

    monkeypatch.setattr(engines, "_ray", on_ray)
    small = ["--problems", "graph-ambulance", "--agents", "net-q,random", "--episodes", "10",
             "--seeds", "2", "--tuning-seeds", "0"]  # fmt: skip
    for engine, more in (("local", []), ("ray", ["--address", "here:1"])):
        words = [*small, "--engine", engine, *more, "--out", str(tmp_path / engine)]
        cli.main(["leaderboard", *words])
    assert {*asked} == {(None, "here:1")}
    ours, theirs = (table(tmp_path / engine).drop(TIMED) for engine in ("local", "ray"))
    assert ours.height == 2
    assert ours.equals(theirs)


def test_an_agent_that_fails_while_it_learns_loses_its_cell_and_no_other(
    tmp_path, monkeypatch, capsys
):
    class Broken(zooming.NetQ):
        def learn(self, *arguments, **options):
            if "Graph" in self.env_name:
                raise ConfigurationError("the wheel came off")
            return super().learn(*arguments, **options)

    monkeypatch.setitem(AGENTS, "median", Broken)
    arguments = ["--problems", *PROBLEMS, "--agents", "random,median", "--episodes", "10"]
    cli.main(["leaderboard", *arguments, "--seeds", "2", "--out", str(tmp_path / "board")])
    assert "left out: median on graph-ambulance: the wheel came off" in capsys.readouterr().out
    rows = table(tmp_path / "board")
    assert rows.filter(pl.col("reason").is_null()).height == 3
    assert rows.filter(pl.col("reason").is_not_null())["problem"].to_list() == ["graph-ambulance"]


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


def result(agent, problem, regret, percent):
    nothing = {"episode": [], "mean": [], "low": [], "high": []}
    return Result(
        problem, agent, {}, 100, np.array(regret), np.array(percent), None, 0.1, 8.0, nothing
    )


def test_losses_name_the_best_of_those_that_are_better_and_why():
    ours = result("auto", "p", [50.0, 52.0, 54.0], [80.0, 81.0, 82.0])
    best = result("best", "p", [10.0, 12.0, 11.0], [99.0, 98.0, 99.0])
    good = result("good", "p", [30.0, 31.0, 30.0], [80.0, 81.5, 81.5])
    level = result("level", "p", [0.0, 52.0, 90.0], [80.0, 80.0, 80.0])
    scales = {"p": Scale("p", "operations", "", 1.0, 0.0, 0.0)}
    (found,) = losses([ours, good, best, level], scales, "auto")
    assert (found.agent, found.others) == ("best", ("good",))
    assert found.regret.mean == pytest.approx(41.0)
    assert found.why == "it ends with a worse policy (81.0 % against 98.7 %)"
    (found,) = losses([ours, good], scales, "auto")
    assert found.why.startswith("it pays more while it learns; the final policies cannot be told")
    table = {one.agent: one for one in standings([ours, good, best, level], ["p"], "auto")}
    assert str(table["best"].record) == "0 / 0 / 1"
    assert str(table["level"].record) == "0 / 1 / 0"
    assert table["best"].rank_loss.mean == 1.0
    assert table["best"].loss.mean == pytest.approx(11.0)  # percent per episode, 100 episodes


def test_libraries_are_named_with_their_versions():
    ours = result("auto", "p", [1.0], [99.0])
    theirs = dataclasses.replace(ours, agent="rule-search", library="cmaes 0.12.0")
    assert say_libraries([ours, theirs, theirs]) == "Libraries: rule-search uses cmaes 0.12.0."
    assert say_libraries([ours]) == ""


def test_an_agent_without_all_problems_has_no_rank():
    both = [result("auto", problem, [5.0, 6.0], [90.0, 91.0]) for problem in "pq"]
    one = result("few", "p", [1.0, 1.0], [99.0, 99.0])
    table = {found.agent: found for found in standings([*both, one], ["p", "q"], "auto")}
    assert table["few"].rank_loss is None
    assert table["few"].n_problems == 1
    assert table["auto"].rank_loss.mean == 1.0
    assert list(table) == ["auto", "few"]  # though the other loses less


def test_episodes_to_95_percent_need_what_follows_to_be_as_good():
    episode = np.arange(1, 201)
    returns = np.where(episode > 80, 1.0, 0.0)
    assert episodes_to(0.95, episode, np.cumsum(returns)[None]) == 78  # 48 of 50 are good
    lucky = np.where((episode > 20) & (episode <= 70), 1.0, 0.0)
    assert episodes_to(0.95, episode, np.cumsum(lucky)[None]) is None
    assert episodes_to(0.95, episode, np.cumsum(np.ones(200))[None]) == 0


def test_a_sampled_value_agrees_with_the_exact_one():
    env = gym.make("zooming/GraphAmbulance-v0")
    agent = zooming.AdaptiveQ(env, seed=0)
    agent.learn(200)
    exact = zooming.evaluate(agent, env, exact=True).mean
    found = [sample_value(agent, env, 500, seed) for seed in range(20)]
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - exact) < 4 * error
    assert found[0] == sample_value(agent, env, 500, 0)
    assert agent.n_episodes == 200


@pytest.mark.process
def test_the_page_lets_a_user_pick_problem_and_episodes_and_says_nothing_else(
    board, browser, monkeypatch
):
    kept = []
    monkeypatch.setattr(command, "write", lambda _, finished: kept.append(finished))
    cli.main(["leaderboard", *TINY, "--out", str(board)])
    path = board / "page.html"
    path.write_text(render(dataclasses.replace(kept[-1], absent={EVIL: EVIL})))
    complaints, requests = [], []
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("#finals .plotly")

    def plotted(plot):
        return page.evaluate(f"document.getElementById('{plot}').data.at(-2).y")

    assert page.locator("#problem-heading").inner_text() == "bidding, 20 episodes"
    first = plotted("curves")
    page.locator("#problem-choice").select_option(label="graph-ambulance")
    assert page.locator("#problem-heading").inner_text() == "graph-ambulance, 20 episodes"
    assert page.locator("#cells tbody tr").count() == 5
    assert plotted("curves") != first
    page.locator("#episodes button", has_text="10").click()
    assert page.locator("#problem-heading").inner_text() == "graph-ambulance, 10 episodes"
    shown = page.evaluate("document.getElementById('curves').data.length")
    page.locator("#chips button").first.click()
    assert page.evaluate("document.getElementById('curves').data.length") == shown - 3
    assert EVIL in page.locator("#absent").inner_text()
    assert page.evaluate("window.hacked") is None
    page.set_viewport_size({"width": 390, "height": 844})
    for _ in range(60):  # plots follow the window after a while
        page.wait_for_timeout(50)
        if page.evaluate("document.documentElement.scrollWidth") <= 390:
            break
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
