"""The report in a real browser: it works, it loads nothing, and no string of a configuration
becomes markup."""

import json
import shutil

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming.app import cli
from zooming.lab.report import page as findings
from zooming.lab.report.page import _winner, collect, render_page
from zooming.lab.study.problems import Problem, problem_named
from zooming.plots.curves import Runs

EVIL = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=2</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "study"
    problems = [Problem(EVIL, "zooming/Oil-v0", {"survey": "quadratic"}), "ambulance-beta-1"]
    zooming.Study(problems, ["adaptive-q", "net-q", "median"], episodes=300, seeds=3).run(
        folder, workers=1
    )
    return folder


@pytest.fixture(scope="module")
def collected(folder):
    """What the page of the study shows. Tests change a copy of it."""
    return collect(folder)


@pytest.fixture(scope="module")
def unsolved(tmp_path_factory):
    """A study of a problem whose law nobody knows, and of one with too many axes to solve."""
    gym.register("Endless-v0", entry_point=Endless, max_episode_steps=3)
    folder = tmp_path_factory.mktemp("report") / "unsolved"
    problems = [
        Problem("endless", "Endless-v0"),
        problem_named("zooming/Ambulance-v0", {"n_ambulances": 4}),
    ]
    study = zooming.Study(
        problems,
        ["adaptive-q:squash=1.0:max_balls=3000", "random:squash=1.0"],
        episodes=60,
        seeds=3,
    )
    study.run(folder)  # another process would not know the environment that was registered here
    return folder


class Endless(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([0.0]), {}

    def step(self, action):
        return self.np_random.normal(0.0, 3.0, 1), float(action[0]) ** 2, False, False, {}


@pytest.fixture
def opened(folder, browser):
    """Opens the report, and fails at the end if the page complained or asked for anything."""
    complaints, requests, pages = [], [], []

    def open_at(width, height, folder=folder):
        path = folder / "report.html"
        if not path.exists():
            cli.main(["report", str(folder)])
        page = browser.new_page(viewport={"width": width, "height": height})
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("#regret .plotly")
        pages.append(page)
        return page

    yield open_at
    for page in pages:
        page.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.process
def test_a_problem_is_chosen_in_the_list_or_in_the_table(opened):
    page = opened(1280, 900)
    page.locator("#problem-choice").select_option(label="ambulance-beta-1")
    assert page.locator("#problem-heading").inner_text() == "ambulance-beta-1"
    assert "optimum 5.000" in page.locator("#legend").inner_text()
    page.locator("#regret-log").check()
    assert page.evaluate("document.getElementById('regret').layout.xaxis.type") == "log"
    assert page.locator("#few-seeds").is_visible()
    assert page.locator("#regret-caption").inner_text() == "Regret R(K)"
    page.locator("#summary tbody tr").first.click()
    assert page.locator("#problem-heading").inner_text() == EVIL


@pytest.mark.process
def test_strings_of_the_configuration_are_text(opened):
    page = opened(1280, 900)
    assert page.evaluate("window.hacked") is None
    assert page.locator("#summary button").first.inner_text() == EVIL
    assert EVIL in page.locator("#configuration").inner_text().replace('\\"', '"')
    assert page.locator("img").count() == 0


@pytest.mark.process
def test_a_phone_shows_everything_without_scrolling_sideways(opened):
    page = opened(390, 844)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for plot in ("returns", "regret"):
        box = page.locator(f"#{plot} .main-svg").first.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 250


@pytest.mark.process
@pytest.mark.parametrize("width", [1280, 390])
def test_without_an_optimum_the_page_shows_returns_and_says_so(opened, unsolved, width):
    page = opened(width, 900, unsolved)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    head = page.locator("#summary th").all_inner_texts()
    assert "mean return" in head
    assert "regret" not in head
    assert (
        page.locator("#summary tr.best").count() == 1
    )  # of the other problem, three seeds do not tell
    for problem in ("endless", "zooming/Ambulance-v0:n_ambulances=4"):
        page.locator("#problem-choice").select_option(label=problem)
        assert "returns take the place of regret" in page.locator("#unsolved").inner_text()
        assert page.locator("#regret-caption").inner_text() == "Mean return of all episodes so far"
        assert not page.locator("#regret-log").is_visible()


def test_the_page_is_one_file_whatever_is_in_the_data(collected):
    page = render_page(collected)
    data = page.split('type="application/json">')[1].split("</script>")[0]
    assert "<" not in data
    assert json.loads(data)["problems"][0]["name"] == EVIL


def test_a_problem_without_an_optimum_has_a_page_too(tmp_path):
    study = zooming.Study(
        [Problem("far", "MountainCarContinuous-v0", {"max_episode_steps": 5})],
        ["random:reward_range=(-1, 100)"],
        3,
        1,
    )
    study.run(tmp_path / "study", workers=1)
    (problem,) = collect(tmp_path / "study")["problems"]
    assert problem["optimum"] is None
    assert problem["agents"][0]["regret"] is None
    cli.main(["report", str(tmp_path / "study"), str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").stat().st_size > 1e6


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """The page of a reproduction, whose findings are made up."""
    out = tmp_path_factory.mktemp("reproduced")
    problems = [Problem(EVIL, "zooming/Oil-v0", {"survey": "quadratic"}), "ambulance-beta-1"]
    agents = ["adaptive-q", "net-q", "median"]
    zooming.Study(problems, agents, episodes=300, seeds=3).run(out / "study", workers=1)
    data = collect(out / "study")
    verdicts = [
        {"holds": holds, "sentence": f"Sentence {EVIL} {holds}."} for holds in (True, False, None)
    ]
    for problem in data["problems"]:
        problem["verdicts"] = verdicts
    data |= {"overall": verdicts[:1], "score": "3 of 7 claims confirmed", "title": EVIL}
    (out / "report.html").write_text(render_page(data))
    return out


@pytest.mark.process
def test_the_page_of_a_reproduction_shows_claims(opened, reproduced):
    page = opened(1280, 900, reproduced)
    assert (page.title(), page.locator("h1").inner_text()) == (EVIL, EVIL)
    assert page.locator("#score").inner_text() == "3 of 7 claims confirmed"
    assert page.locator("#verdicts li").all_inner_texts() == [
        f"Sentence {EVIL} {holds}." for holds in (True, False, None)
    ]


def test_claims_are_counted():
    assert findings.count_confirmed([{"holds": holds} for holds in (True, True, False, None)]) == (
        "2 of 4 claims confirmed; 1 refuted, 1 undecided"
    )
    assert (findings.count_confirmed([{"holds": True}]), findings.count_confirmed([])) == (
        "1 of 1 claims confirmed",
        "",
    )


def test_a_winner_wins_by_more_than_chance():
    def named(**returns):
        return {
            label: Runs.of_returns(np.reshape(values, (-1, 1))) for label, values in returns.items()
        }

    assert (
        _winner(named(a=[1.0, 5.0, 9.0], b=[2.0, 6.1, 10.0])) == "b"
    )  # paired by seed: the spread is of the problem
    assert _winner(named(a=[1.0, 5.0, 9.0], b=[9.0, 5.0, 2.0])) is None
    assert _winner(named(a=[1.0, 5.0, 9.0], b=[2.0, 6.1, 10.0], c=[2.2, 6.0, 9.9])) is None
    assert _winner(named(a=[1.0], b=[2.0])) is None
    assert _winner(named(a=[1.0, 2.0])) is None


@pytest.mark.parametrize("what", ["nothing", "unfinished", "no folder to write to"])
def test_what_cannot_be_reported_is_said(what, folder, tmp_path):
    arguments, message = ["report", str(tmp_path)], "neither a study"
    if what == "unfinished":
        shutil.copytree(folder, tmp_path / "half")
        next((tmp_path / "half" / "chunks").glob("*.zoom")).unlink()
        arguments, message = ["report", str(tmp_path / "half")], "not finished"
    if what == "no folder to write to":
        arguments, message = (
            ["report", str(folder), str(tmp_path / "no" / "page.html")],
            "does not exist",
        )
    with pytest.raises(SystemExit, match=message):
        cli.main(arguments)


def test_a_finite_problem_has_its_exact_optimum_also_where_a_rough_one_would_do():
    def climb(state, action, step, params, outcome, next_state):
        next_state[0] = min(3.0, state[0] + action[0])
        return state[0] / 4.0

    def make():
        spaces = gym.spaces.Discrete(4), gym.spaces.Discrete(2)
        return zooming.compiled_env(climb, *spaces, 2, start=0, outcomes=([0.0], [1.0]))

    gym.register("Climb-v0", entry_point=make)
    try:
        problem = Problem("climb", "Climb-v0", {})
        assert problem.optimal("rough").return_ == problem.optimal("fine").return_ == 0.25
    finally:
        gym.registry.pop("Climb-v0")
