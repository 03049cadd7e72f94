"""The report in a real browser: it works, it loads nothing, and no string of a configuration
becomes markup."""

import base64
import json
import shutil
from html.parser import HTMLParser

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Chance, box
from zooming.app import cli
from zooming.lab.report import count_confirmed, make_page
from zooming.lab.study.problems import Problem, problem_named
from zooming.lab.study.run_command import format_interval

EVIL = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=2</script>$x$"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "study"
    problems = [Problem(EVIL, "zooming/Oil-v0", {"survey": "quadratic"}), "ambulance-beta-1"]
    zooming.Study(problems, ["adaptive-q", "net-q", "median"], episodes=300, seeds=3).run(
        folder, workers=1
    )
    return folder


@pytest.fixture(scope="module")
def unsolved(tmp_path_factory):
    """A study of a problem whose law nobody knows, and of one with too many axes to solve."""
    spaces = box((-np.inf, np.inf)), box((0.0, 1.0))
    gym.register(
        "Endless-v0", lambda: Chance(*spaces, lambda action: float(action[0])), max_episode_steps=3
    )
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


@pytest.fixture(scope="module")
def reproduced(folder, tmp_path_factory):
    """A reproduction whose findings are made up."""
    out = tmp_path_factory.mktemp("reproduced")
    shutil.copytree(folder, out / "evaluation" / "oil")
    verdicts = [
        {"holds": holds, "sentence": f"Sentence {EVIL} {holds}."} for holds in (True, False, None)
    ]
    figure = {
        "problem": "oil", "heading": EVIL, "agents": {"net-q": EVIL}, "verdicts": verdicts,
        "exponent": float("nan"),
    }  # fmt: skip
    found = {"figures": {"1": figure}, "overall": verdicts[:1]}
    (out / "findings.json").write_text(json.dumps(found))
    return out


class Page(HTMLParser):
    """The elements of a page: (tag, attributes, text inside it)."""

    def __init__(self, text):
        super().__init__()
        self.found, self._open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])
        if tag not in ("meta", "link", "img"):
            self._open.append(self.found[-1])

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for element in self._open:
            element[2] += data

    def texts(self, tag):
        return [text for name, _, text in self.found if name == tag]

    def images(self):
        return [attributes for name, attributes, _ in self.found if name == "img"]


def check_alone(page):
    """Assert that a page has no script and loads nothing, whatever the data are."""
    assert {name for name, _, _ in page.found} <= {
        "html", "head", "meta", "link", "title", "style", "body", "h1", "h2", "p", "b", "ul", "li",
        "div", "table", "tr", "th", "td", "img", "pre",
    }  # fmt: skip
    given = [attributes for _, attributes, _ in page.found]
    assert all(
        one.get(key, "data:").startswith("data:") for one in given for key in ("src", "href")
    )
    assert not any(key.startswith("on") for one in given for key in one)
    assert any("default-src 'none'" in one.get("content", "") for one in given)


def test_the_page_of_a_study_shows_tables_pictures_and_the_configuration(folder):
    cli.main(["report", str(folder)])
    page = Page((folder / "report.html").read_text())
    check_alone(page)
    assert page.texts("h2") == [EVIL, "ambulance-beta-1", "Configuration"]
    assert EVIL in page.texts("pre")[0].replace('\\"', '"')
    assert any("Few seeds" in text for text in page.texts("p"))
    assert "The optimum is 5." in page.texts("p")
    assert page.texts("th")[:4] == ["agent", "final return", "regret", "advantage"]
    assert page.texts("td")[::7] == ["adaptive-q", "net-q", "median"] * 2
    assert [image["alt"] for image in page.images()] == ["Learning curves and regret"] * 2
    picture = base64.b64decode(page.images()[0]["src"].partition("base64,")[2])
    assert picture[:4] == b"\x89PNG"


def test_without_an_optimum_the_page_shows_returns_and_says_so(unsolved):
    page = Page(make_page(unsolved))
    check_alone(page)
    assert page.texts("p").count("The optimum is not known, so there is no regret.") == 2
    assert page.texts("td")[2::7] == ["-"] * 4  # regret
    assert [image["alt"] for image in page.images()] == ["Learning curves"] * 2


def test_the_page_of_a_reproduction_shows_claims(reproduced):
    page = Page(make_page(reproduced))
    check_alone(page)
    assert "figures, reproduced" in page.texts("title")[0]
    assert page.texts("b") == ["2 of 4 claims confirmed; 1 refuted, 1 undecided"]
    assert page.texts("li") == [
        f"Sentence {EVIL} {holds}." for holds in (True, *[True, False, None] * 2)
    ]
    assert page.texts("h2")[:2] == [EVIL, EVIL]
    assert page.texts("td")[7::21] == [EVIL, EVIL]  # the name that the findings give to net-q


@pytest.mark.process
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_the_page_without_scrolling_sideways(reproduced, browser, width):
    cli.main(["report", str(reproduced)])
    complaints, requests = [], []
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((reproduced / "report.html").as_uri())
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("[...document.images].map(one => one.naturalWidth > 900)") == [True] * 2
    page.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


def test_the_table_of_the_page_is_that_of_the_summary(folder):
    page, rows = make_page(folder), zooming.Study.stored(folder).summary(folder)
    for row in rows:
        shown = [format_interval(one) for one in (row.final_return, row.regret)]
        assert f"<td>{row.agent}</td><td>{shown[0]}</td><td>{shown[1]}</td>" in page


def test_one_episode_has_a_page_without_a_curve_of_regret(tmp_path):
    zooming.Study(["oil-laplace-1"], ["random"], episodes=1, seeds=1).run(tmp_path, workers=1)
    page = Page(make_page(tmp_path))
    assert [image["alt"] for image in page.images()] == ["Learning curves"]
    assert "The optimum is 4.75." in page.texts("p")


def test_claims_are_counted():
    assert (count_confirmed([{"holds": True}]), count_confirmed([])) == (
        "1 of 1 claims confirmed", "",
    )  # fmt: skip


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
