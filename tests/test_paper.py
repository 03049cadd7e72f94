"""The paper's figures: every one is there, and what is said of them follows from the runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import zooming
from zooming import cli
from zooming.paper import claims
from zooming.paper.claims import AdaptiveBeats, FewerBalls, IsBest, NetFallsShort, NobodyIsOptimal
from zooming.paper.figures import FIGURES, FineAlongDiagonal, FineNear, FollowsOptimum, figures_named
from zooming.paper.sweep import Evidence, sweep
from zooming.plots.runs import Runs
from zooming.study.problems import PRESETS, AgentChoice
from zooming.study.store import locked


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A reproduction of figure 1, small."""
    folder = tmp_path_factory.mktemp("paper") / "reproduction"
    cli.main(["reproduce", "1", "--seeds", "3", "--episodes", "80", "--workers", "1", "--out", str(folder)])
    return folder


def runs(per_episode, n_balls=100, n_seeds=8, episodes=100):
    """Runs of `per_episode` return, with a little noise that differs from seed to seed."""
    noise = 1e-4 * np.random.default_rng(n_balls).standard_normal((n_seeds, 1))
    episode = np.arange(1, episodes + 1)
    balls = np.full((n_seeds, episodes), n_balls) + np.arange(n_seeds)[:, None]
    return Runs(episode, episode * (per_episode + noise), balls, balls[:, -1] * 64, 4.0)


def evidence(figure="oil-laplace-1", **agents):
    (figure,) = figures_named([figure])
    optimal = replace(figure.preset.optimal("rough"), return_=4.0)
    return Evidence(figure, 100, {name.replace("_", "-"): found for name, found in agents.items()}, {}, {}, optimal, {}, 0)


def test_all_fifteen_figures_and_all_fifteen_problems_are_there():
    assert sorted(number for figure in FIGURES for number in figure.numbers) == list(range(1, 16))
    assert {figure.problem for figure in FIGURES} == set(PRESETS)
    assert [figure.problem for figure in figures_named(["7", "oil-laplace-1", "2"])] == ["oil-laplace-1"]
    assert len({figure.name for figure in FIGURES}) == len(FIGURES) == len(figures_named([]))


@pytest.mark.parametrize(
    ("name", "message"), [("16", "numbers from 1 to 15"), ("oil-laplas-1", "did you mean 'oil-laplace-1'")]
)
def test_a_figure_that_is_not_there_is_refused(name, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        cli.main(["reproduce", name, "--out", str(tmp_path / "x")])
    assert not (tmp_path / "x").exists()


def test_a_claim_is_confirmed_refuted_or_undecided_as_the_runs_have_it():
    better, worse = runs(3.5, 100), runs(3.0, 500)
    same = replace(better, total_return=better.total_return[::-1])
    assert AdaptiveBeats().check(evidence(adaptive=better, net=worse)).holds is True
    assert AdaptiveBeats().check(evidence(adaptive=worse, net=better)).holds is False
    assert AdaptiveBeats().check(evidence(adaptive=better, net=same)).holds is None
    assert AdaptiveBeats("median").check(evidence(adaptive=better, median=worse)).holds is True
    assert FewerBalls().check(evidence(adaptive=better, net=worse)).holds is True
    assert FewerBalls().check(evidence(adaptive=runs(3.5, 300), net=worse)).holds is False  # fewer, but not much
    assert IsBest("no-movement").check(evidence(adaptive=worse, net=worse, no_movement=better)).holds is True
    assert IsBest("no-movement").check(evidence(adaptive=better, net=worse, no_movement=worse)).holds is False
    assert NobodyIsOptimal().check(evidence(adaptive=better, net=worse)).holds is True
    assert NobodyIsOptimal().check(evidence(adaptive=runs(4.0), net=worse)).holds is None  # within the solver's error


def test_what_zooming_adds_to_the_papers_agents_decides_no_verdict():
    agents = {"adaptive": runs(3.0), "net": runs(2.0), "median": runs(3.5)}
    untuned = {**evidence(**agents).runs, "adaptive, as it comes": runs(3.9)}
    found = replace(evidence(**agents), runs=untuned)
    assert IsBest("median").check(found).holds is True
    assert "the median" in NobodyIsOptimal().check(found).finding


@pytest.mark.parametrize(
    ("problem", "best"),
    [
        ("laplace-1", 4.5561),
        ("laplace-10", 2.8327),
        ("laplace-50", 0.3283),
        ("quadratic-1", 4.7875),
        ("quadratic-10", 4.6750),
        ("quadratic-50", 4.1750),
    ],
)
def test_the_best_that_the_points_of_the_net_allow_is_known(problem, best):
    found = evidence(f"oil-{problem}", adaptive=runs(3.5), net=runs(3.0))
    found = replace(found, choices={"net": AgentChoice("net-q-published", {"episodes": 2000, "bonus": 0.1})})
    assert claims.best_on_net(found) == pytest.approx(best, abs=1e-4)
    found = replace(found, choices={"net": AgentChoice("net-q", {"episodes": 2000})})
    has_well = {"laplace-1": 4.75, "laplace-10": 4.75, "laplace-50": 4.75, "quadratic-1": 4.8, "quadratic-10": 4.75}
    assert claims.best_on_net(found) == pytest.approx(has_well.get(problem, 4.75), abs=1e-4)


def test_the_net_falls_short_if_its_points_do_not_if_it_is_slow():
    choices = {"net": AgentChoice("net-q-published", {"episodes": 2000, "bonus": 0.1})}
    sharp = replace(evidence("oil-laplace-50", adaptive=runs(3.5), net=runs(0.3)), choices=choices)
    assert NetFallsShort().check(sharp).holds is True
    smooth = replace(evidence("oil-laplace-1", adaptive=runs(3.5), net=runs(1.0)), choices=choices)
    smooth = replace(smooth, optimal=replace(smooth.optimal, return_=4.75))
    assert NetFallsShort().check(smooth).holds is False


def test_the_sentence_has_the_numbers():
    found = str(FewerBalls().check(evidence(adaptive=runs(3.5, 100), net=runs(3.0, 497))))
    assert found.startswith("Confirmed: the adaptive partition is much smaller.")
    assert (
        "104 balls against 500; 2 times fewer counts as much." in found
    )  # 100 or 497, and 3.5 more on average over eight seeds
    assert "comes within 5% of the optimum after 2 episodes, the net never" in str(
        AdaptiveBeats().check(evidence(adaptive=runs(3.9), net=runs(3.0)))
    )


def test_partitions_are_fine_where_they_should_be_and_nowhere_else(folder):
    """On a real run at figure 10's problem: the diagonal is finer, a far corner is not."""
    (figure,) = figures_named(["10"])
    (found,) = sweep([figure], folder.parent / "ten", episodes=800, n_seeds=8, optimum="rough", workers=2)
    assert FineAlongDiagonal().check(found).holds is True
    assert FineNear(0.05, 0.95).check(found).holds is False
    assert FollowsOptimum().check(found).holds is True


def test_side_finds_the_ball_that_holds_a_point():
    agent = zooming.AdaptiveQ(PRESETS["oil-laplace-1"].make(), seed=0)
    agent.learn(200)
    balls, points = agent.partition(0), np.random.default_rng(0).random((50, 2))
    sides = claims._side(balls, points)
    for point, side in zip(points, sides, strict=True):
        (row,) = np.flatnonzero(((balls.low <= point) & (point < balls.high)).all(axis=1))
        assert side == (balls.high - balls.low)[row].max()


def test_rank_correlation_is_that_of_the_definition():
    x, y = np.array([1.0, 2.0, 2.0, 5.0]), np.array([1.0, 3.0, 2.0, 9.0])
    assert claims._ranks(x).tolist() == [1.0, 2.5, 2.5, 4.0]
    assert claims._rank_correlation(x, x**3) == pytest.approx(1.0)
    assert claims._rank_correlation(x, np.ones(4)) == 0.0
    assert claims._rank_correlation(x, y) == pytest.approx(np.corrcoef([1, 2.5, 2.5, 4], [1, 3, 2, 4])[0, 1])


def test_reproduce_draws_finds_and_is_then_a_no_op(folder, capsys):
    picture = folder / "figures" / "figure-01-ambulance-shifting-0.png"
    assert picture.stat().st_size > 50_000
    findings = json.loads((folder / "findings.json").read_text())
    (found,) = findings["figures"].values()
    assert found["problem"] == "ambulance-shifting-0"
    assert found["optimum"] == pytest.approx(4.725, abs=1e-3)
    assert len(found["verdicts"]) == 2
    assert set(found["regret"]) == {"adaptive", "net", "adaptive, as it comes", "no-movement", "median"}
    before = picture.stat().st_mtime_ns
    cli.main(["reproduce", "1", "--seeds", "3", "--episodes", "80", "--workers", "1", "--out", str(folder)])
    shown = " ".join(capsys.readouterr().out.split())
    assert picture.stat().st_mtime_ns == before
    assert found["verdicts"][0]["sentence"][:40] in shown


def test_the_agents_of_a_figure_are_trained_again_to_the_last_bit(folder):
    (figure,) = figures_named(["1"])
    (found,) = sweep([figure], folder, episodes=80, n_seeds=3, workers=1)
    for name in ("adaptive", "net"):
        assert found.trained(name, 1).n_balls == found.runs[name].n_balls[1, -1]
    assert all(len(scores) == 11 for scores in found.scores.values())
    best = {name: max(scores, key=lambda c: scores[c].mean()) for name, scores in found.scores.items()}
    assert found.best == best


def test_another_reproduction_in_the_same_folder_is_refused(folder):
    with pytest.raises(SystemExit, match=r"episodes: there 80, here 70"):
        cli.main(["reproduce", "2", "--seeds", "3", "--episodes", "70", "--out", str(folder)])


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit, match="holds something else"):
        cli.main(["reproduce", "2", "--out", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_two_reproductions_at_work_in_one_folder_are_refused(tmp_path):
    with locked(tmp_path), pytest.raises(SystemExit, match="another command is at work"):
        cli.main(["reproduce", "2", "--quick", "--out", str(tmp_path)])


def test_damaged_findings_and_too_few_seeds_are_refused_in_a_sentence(tmp_path):
    (tmp_path / "findings.json").write_text("{")
    with pytest.raises(SystemExit, match="damaged"):
        cli.main(["reproduce", "2", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="--episodes 19: give at least 20"):
        cli.main(["reproduce", "2", "--episodes", "19", "--out", str(tmp_path / "new")])
    with pytest.raises(SystemExit, match="at least 2"):
        cli.main(["reproduce", "2", "--seeds", "1", "--out", str(tmp_path / "new")])
    assert not Path(tmp_path / "new").exists()
