"""The paper's figures: every one is there, and what is said of them follows from the runs."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from helpers import words
from zooming.app import cli
from zooming.lab.paper import claims
from zooming.lab.paper.claims import ALL_PROBLEMS, Claim, growth_exponent, overall
from zooming.lab.paper.figures import FIGURES, figures_named
from zooming.lab.paper.sweep import SCALES, Evidence, sweep
from zooming.lab.study.problems import PRESETS
from zooming.lab.study.store import lock
from zooming.plots.curves import Runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A reproduction of figure 1, small."""
    folder = tmp_path_factory.mktemp("paper") / "reproduction"
    cli.main([*words("reproduce 1 --seeds 3 --episodes 80 --workers 1 --out"), str(folder)])
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
    return Evidence(
        figure,
        100,
        {name.replace("_", "-"): found for name, found in agents.items()},
        {},
        {},
        optimal,
        {},
        0,
    )


def test_all_fifteen_figures_and_all_fifteen_problems_are_there():
    assert sorted(number for figure in FIGURES for number in figure.numbers) == list(range(1, 16))
    assert {figure.problem for figure in FIGURES} == set(PRESETS)
    assert [figure.problem for figure in figures_named(["7", "oil-laplace-1", "2"])] == [
        "oil-laplace-1"
    ]
    assert len({figure.name for figure in FIGURES}) == len(FIGURES) == len(figures_named([]))


@pytest.mark.parametrize(
    ("name", "message"),
    [("16", "numbers from 1 to 15"), ("oil-laplas-1", "did you mean 'oil-laplace-1'")],
)
def test_a_figure_that_is_not_there_is_refused(name, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        cli.main(["reproduce", name, "--out", str(tmp_path / "x")])
    assert not (tmp_path / "x").exists()


def spread(per_episode, width, n_balls=100):
    """Runs whose mean return is so uncertain that `width` more or less cannot be told."""
    found = runs(per_episode, n_balls)
    return replace(
        found,
        total_return=found.total_return
        + width * np.array([1.0, -1.0] * 4)[:, None] * found.episode,
    )


def with_balls(low, high):
    return replace(runs(3.0), n_balls=np.tile(np.array([low, high] * 4)[:, None], 100))


def verdict_on(found, test, *arguments):
    return Claim("it is so.", "section 1.1", test, arguments).check(found)


def named(claim):
    return "-".join([claim[0].__name__, *map(str, claim[1:])])


UNSURE = spread(3.0, 0.5)
COMPARED = {
    # claim: the agents with which it is confirmed, refuted, undecided; the optimum is 4
    (claims.beats,): [
        {"adaptive": runs(3.5), "net": runs(3.0)},
        {"adaptive": runs(3.0), "net": runs(3.5)},
        {"adaptive": UNSURE, "net": runs(3.0)},
    ],
    (claims.ends_ahead,): [
        {"adaptive": runs(3.5), "net": runs(3.0)},
        {"adaptive": runs(3.0), "net": runs(3.5)},
        {"adaptive": UNSURE, "net": runs(3.0)},
    ],
    (claims.fewer_balls,): [
        {"adaptive": with_balls(100, 110), "net": with_balls(500, 500)},
        {"adaptive": with_balls(300, 310), "net": with_balls(500, 500)},  # fewer, but not much
        {"adaptive": with_balls(240, 260), "net": with_balls(500, 500)},
    ],
    (claims.is_best, "no-movement"): [
        {"adaptive": runs(3.0), "net": runs(3.0, 90), "no_movement": runs(3.5)},
        {"adaptive": runs(3.5), "net": runs(3.0), "no_movement": runs(3.2)},
        {"adaptive": UNSURE, "net": runs(2.0), "no_movement": runs(3.0)},
    ],
    (claims.near_optimal, "median"): [
        {"median": runs(3.99)},
        {"median": runs(3.9)},
        {"median": spread(3.96, 0.02)},
    ],
    (claims.nobody_is_optimal,): [
        {"adaptive": runs(3.9), "net": runs(3.0)},
        {"adaptive": runs(3.99), "net": runs(3.0)},
        {"adaptive": spread(3.96, 0.02), "net": runs(3.0)},
    ],
}


@pytest.mark.parametrize("outcome", [0, 1, 2], ids=["confirmed", "refuted", "undecided"])
@pytest.mark.parametrize("claim", COMPARED, ids=named)
def test_a_claim_is_confirmed_refuted_or_undecided_as_the_runs_have_it(claim, outcome):
    found = evidence("oil-laplace-50", **COMPARED[claim][outcome])
    verdict = verdict_on(found, *claim)
    assert verdict.holds is (True, False, None)[outcome], str(verdict)
    assert str(verdict).startswith(("Confirmed: it is so.", "Refuted: ", "Undecided: ")[outcome])
    assert verdict.source == "section 1.1"


def test_who_ends_ahead_need_not_have_been_ahead_over_all_episodes():
    late = runs(2.0)
    late = replace(
        late, total_return=late.total_return + 3.0 * np.maximum(late.episode - 80, 0)
    )  # 2, then 5 an episode
    found = evidence(adaptive=runs(3.0), net=late)
    assert claims.beats(found)[0] is True
    assert claims.ends_ahead(found)[0] is False


@pytest.mark.parametrize(
    ("gaps", "holds"),
    [((0.3, 0.6, 0.9), True), ((0.3, 0.6, 0.5), False), ((0.3, 0.6, 0.62), None)],
    ids=str,
)
def test_a_gap_grows_if_it_does_from_each_figure_to_the_next(gaps, holds):
    figures = [
        {"problem": f"oil-{survey}-{sharpness}", "gap": [gap, gap - 0.02, gap + 0.02]}
        for survey in ("laplace", "quadratic")
        for sharpness, gap in zip((1, 10, 50), gaps, strict=True)
    ]
    by_gap = [verdict for verdict in overall(figures) if verdict.source == "section 1.1"]
    assert [verdict.holds for verdict in by_gap] == [holds, holds]
    assert len(overall(figures[:5])) == 1  # one of quadratic's is missing
    assert overall([]) == []


@pytest.mark.parametrize(("slope", "holds"), [(0.2, True), (-0.2, False), (0.0, None)])
def test_regret_follows_the_shape_if_its_exponent_grows_with_the_dimension(slope, holds):
    noise = 0.03 * (-1.0) ** np.arange(15)
    figures = [
        {"problem": problem, "zooming_dimension": d, "exponent": 0.6 + slope * d + off}
        for problem, d, off in zip(ALL_PROBLEMS, np.linspace(0.5, 1.5, 15), noise, strict=True)
    ]
    measures = {"gap": [0, 0, 0]}
    (verdict,) = [v for v in overall([{**f, **measures} for f in figures]) if "covering" in v.claim]
    assert verdict.holds is holds
    assert "Over 15 problems of dimension 0.50 to 1.50" in verdict.finding
    assert set(ALL_PROBLEMS) == {figure.problem for figure in FIGURES}


def test_the_exponent_of_a_power_of_the_episodes_is_that_power():
    episode = np.arange(1, 101)
    grown = SimpleNamespace(regret=np.array([episode**0.7] * 3), episode=episode)
    assert growth_exponent(grown) == pytest.approx(0.7)


def test_what_zooming_adds_to_the_papers_agents_decides_no_verdict():
    agents = {"adaptive": runs(3.0), "net": runs(2.0), "median": runs(3.5)}
    untuned = {**evidence(**agents).runs, "adaptive, default settings": runs(3.9)}
    found = replace(evidence(**agents), runs=untuned)
    assert claims.is_best(found, "median")[0] is True
    assert "the median" in claims.nobody_is_optimal(found)[1]


def test_the_sentence_has_the_numbers():
    alike = evidence(adaptive=runs(3.5, 100), net=runs(3.0, 497))
    found = str(FIGURES[0].claims[2].check(alike))
    assert found.startswith("Confirmed: the adaptive partition is much smaller.")
    assert (
        "104 balls against 500: 4.84 (" in found
    )  # 100 or 497, and 3.5 more on average over eight seeds


def test_reproduce_draws_finds_and_is_then_a_no_op(folder, capsys):
    picture = folder / "figures" / "figure-01-ambulance-shifting-0.png"
    assert picture.stat().st_size > 50_000
    assert picture.with_suffix(".pdf").read_bytes()[:5] == b"%PDF-"
    findings = json.loads((folder / "findings.json").read_text())
    (found,) = findings["figures"].values()
    assert found["problem"] == "ambulance-shifting-0"
    assert found["optimum"] == pytest.approx(4.725, abs=1e-3)
    assert len(found["verdicts"]) == 5
    assert set(found["regret"]) == {
        "adaptive",
        "net",
        "net of centers",
        "adaptive, default settings",
        "no-movement",
        "median",
    }
    assert [scale for scale, *_ in found["scores"]["net"]] == list(SCALES)
    before = picture.stat().st_mtime_ns
    cli.main([*words("reproduce 1 --seeds 3 --episodes 80 --workers 1 --out"), str(folder)])
    shown = " ".join(capsys.readouterr().out.split())
    assert picture.stat().st_mtime_ns == before
    assert found["verdicts"][0]["sentence"][:40] in shown


def test_the_agents_of_a_figure_are_trained_again_to_the_last_bit(folder):
    (figure,) = figures_named(["1"])
    (found,) = sweep([figure], folder, episodes=80, n_seeds=3, workers=1)
    for name in ("adaptive", "net", "net of centers"):
        assert found.train_again(name, 1).n_balls == found.runs[name].n_balls[1, -1]
    assert all(tuple(scores) == SCALES for scores in found.scores.values())
    best = {
        name: max(scores, key=lambda c: scores[c].mean()) for name, scores in found.scores.items()
    }
    assert found.best == best


def test_another_reproduction_in_the_same_folder_is_refused(folder):
    with pytest.raises(SystemExit, match=r"episodes: there 80, here 70"):
        cli.main(["reproduce", "2", "--seeds", "3", "--episodes", "70", "--out", str(folder)])


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit, match="holds no reproduction"):
        cli.main(["reproduce", "2", "--out", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_two_reproductions_at_work_in_one_folder_are_refused(tmp_path):
    with lock(tmp_path), pytest.raises(SystemExit, match="another command is writing"):
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
