"""The report in a real browser: it works, it loads nothing, and no string of a configuration
becomes markup."""

import copy
import json
import shutil

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming.agents.base import seeds
from zooming.app import cli
from zooming.lab.report import page as findings
from zooming.lab.report.page import _winner, collect, q_star, render_page
from zooming.lab.study.problems import Problem, problem_named
from zooming.lab.study.study import read_study
from zooming.plots.curve_data import Runs

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
        page.wait_for_selector("#replay .plotly")
        pages.append(page)
        return page

    yield open_at
    for page in pages:
        page.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def borders(page):
    return page.evaluate(
        "document.getElementById('replay').data.at(-1).x.filter((x) => x === null).length"
    )


@pytest.mark.process
def test_the_slider_moves_the_partition(opened):
    page = opened(1280, 900)
    slider = page.locator("#replay-frame")
    n_balls = {}
    for frame in (0, int(slider.get_attribute("max"))):
        slider.fill(str(frame))
        n_balls[frame] = borders(page)
        assert f"{n_balls[frame]} balls" in page.locator("#replay-caption").inner_text()
    first, last = n_balls.values()
    assert first == 4  # the first episode splits the root
    assert last > 12
    page.locator("#replay-play").click()
    for _ in range(100):
        page.wait_for_timeout(50)
        if int(slider.input_value()) > 3:
            break
    assert 3 < int(slider.input_value()) < int(slider.get_attribute("max"))
    assert 4 <= borders(page) <= last
    page.locator("#replay-play").click()
    assert page.locator("#replay-agent option:disabled").all_inner_texts() == [
        "median: no partition"
    ]
    page.locator("#replay-agent").select_option(label="net-q")
    assert borders(page) == 100


@pytest.mark.process
def test_a_problem_is_chosen_in_the_list_or_in_the_table(opened):
    page = opened(1280, 900)
    page.locator("#problem-choice").select_option(label="ambulance-beta-1")
    assert page.locator("#problem-heading").inner_text() == "ambulance-beta-1"
    assert "optimum 5.000" in page.locator("#legend").inner_text()
    assert len(page.evaluate("document.getElementById('memory').data")) == 3
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
    for plot in ("returns", "regret", "replay", "memory"):
        box = page.locator(f"#{plot} .main-svg").first.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 250


@pytest.mark.process
@pytest.mark.parametrize("width", [1280, 390])
def test_without_an_optimum_the_page_shows_returns_and_estimates_and_says_why(
    opened, unsolved, width
):
    page = opened(width, 900, unsolved)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    head = page.locator("#summary th").all_inner_texts()
    assert "mean return" in head
    assert "regret" not in head
    assert (
        page.locator("#summary tr.best").count() == 1
    )  # of the other problem, three seeds do not tell
    shown = {}
    for problem in ("endless", "zooming/Ambulance-v0:n_ambulances=4"):
        page.locator("#problem-choice").select_option(label=problem)
        shown[problem] = page.locator("#unsolved").inner_text()
        assert page.locator("#regret-caption").inner_text() == "Mean return of all episodes so far"
        assert "up and to the left" in page.locator("#memory-caption").inner_text()
        assert not page.locator("#regret-log").is_visible()
        assert len(page.evaluate("document.getElementById('memory').data[1].y")) == 3
        assert page.locator("#replay-card").is_visible() == (problem == "endless")
        colors = page.evaluate("document.getElementById('replay').data[0].z.flat()")
        assert len({*colors}) > 1
        assert None not in colors  # every place belongs to a ball
        assert "own estimate" in page.locator("#replay-title").inner_text()
    endless, ambulance = shown.values()
    assert "returns take the place of regret: ambulance beta 0.25 x4 has 4 state axes" in ambulance
    assert "not a compiled environment" in endless


def test_the_estimates_of_a_replay_are_those_of_the_run(unsolved):
    problem, ambulance = collect(unsolved)["problems"]
    assert ambulance["replays"] == []
    assert ambulance["unshown"][0].endswith("more than two axes")
    (replay,) = problem["replays"]
    assert replay["axes"] == ["state[0]", "action[0]"]
    study = zooming.Study.stored(unsolved).configuration
    agent = study.agents[0].make(study.problems[0].make(), seeds.derive_seed(0, "run 0"))
    agent.learn(60)
    last = len(replay["frames"]) - 1
    for step, balls in enumerate(replay["steps"]):
        assert sorted(ball[6][-1] for ball in balls if ball[5] == last) == pytest.approx(
            sorted(agent.partition(step).q_value), abs=1e-4
        )
        assert all(len(ball[6]) == ball[5] - ball[4] + 1 for ball in balls)


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
    assert problem["replays"] == []
    assert problem["agents"][0]["regret"] is None
    cli.main(["report", str(tmp_path / "study"), str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").stat().st_size > 1e6


def test_a_replay_is_the_run_of_the_study(collected):
    problem = collected["problems"][1]
    agent = problem["replays"][0]
    last = len(agent["frames"]) - 1
    n_balls = sum(ball[5] == last for step in agent["steps"] for ball in step)
    assert agent["frames"][-1] == 300
    assert n_balls == problem["agents"][0]["seeds"][0][0]


def test_an_agent_with_too_many_balls_is_not_replayed_and_others_are(tmp_path):
    study = zooming.Study(
        ["oil-laplace-1"], ["net-q:spacing=0.02", "adaptive-q"], episodes=50, seeds=2
    )
    study.run(tmp_path / "study", workers=1)
    (problem,) = collect(tmp_path / "study")["problems"]
    assert problem["unshown"] == ["net-q:spacing=0.02: too many balls to show"]
    assert [agent["name"] for agent in problem["replays"]] == ["adaptive-q"]
    assert problem["replays"][0]["frames"][-1] == 50


@pytest.mark.process
def test_a_panel_of_memory_with_nothing_to_compare_is_left_out(opened, collected, tmp_path):
    data = copy.deepcopy(collected)
    first = data["problems"][0]
    first["agents"] = [{**first["agents"][0], "seeds": first["agents"][0]["seeds"][:1]}]
    (tmp_path / "report.html").write_text(render_page(data))
    page = opened(1000, 800, tmp_path)
    assert not page.locator("#memory").is_visible()
    page.locator("#problem-choice").select_option("1")
    assert page.locator("#memory").is_visible()
    assert len(page.evaluate("document.getElementById('memory').data")) == 3
    page.locator("#problem-choice").select_option("0")
    assert not page.locator("#memory-caption").is_visible()


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
    rows = [[0.0, [4.1, 4.0, 4.2], None], [0.5, [4.5, 4.5, 4.5], [3.0, 2.0, 4.0]]]
    for problem in data["problems"]:
        problem |= {
            "verdicts": verdicts,
            "scales": {"agents": ["adaptive", EVIL], "rows": rows, "best": [0.5, 0.5]},
        }
    data |= {"overall": verdicts[:1], "score": "3 of 7 claims confirmed", "title": EVIL}
    (out / "report.html").write_text(render_page(data))
    return out


@pytest.mark.process
def test_the_page_of_a_reproduction_shows_claims_and_scales(opened, reproduced):
    page = opened(1280, 900, reproduced)
    assert (page.title(), page.locator("h1").inner_text()) == (EVIL, EVIL)
    assert page.locator("#score").inner_text() == "3 of 7 claims confirmed"
    page.locator("#scales summary").click()
    rows = [row.split("\t") for row in page.locator("#scale-table tr").all_inner_texts()]
    assert rows == [
        ["scale c", "adaptive", EVIL],
        ["0", "4.100 ± 0.100", "–"],
        ["0.5", "4.500", "3.000 ± 1.000"],
    ]
    assert page.locator("#scale-table td.chosen").count() == 2


@pytest.mark.process
def test_the_page_prints_whole(opened, reproduced):
    page = opened(1280, 900, reproduced)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 1000})  # A4 within its margins
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#printed section h2").all_inner_texts() == [
        "ambulance-beta-1"
    ]  # the other one is shown already
    assert page.locator("#printed .verdicts li").count() == 3
    assert page.locator("#printed table.scales tr").count() == 3
    assert page.locator("#printed .js-plotly-plot").count() == 2
    assert page.locator("#scales").get_attribute("open") is not None
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    for plot in ("returns", "regret", "replay", "memory"):
        card, drawn = (
            page.locator(f"figure:has(#{plot})").bounding_box(),
            page.locator(f"#{plot} .main-svg").first.bounding_box(),
        )
        assert card["x"] <= drawn["x"] <= drawn["x"] + drawn["width"] <= card["x"] + card["width"]
    cut = (
        "(all) => all.filter((one) => one.scrollHeight > one.clientHeight + 1 || "
        "one.scrollWidth > one.clientWidth + 1).length"
    )
    assert page.locator(".wide, pre").evaluate_all(cut) == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("#printed section").count() == 0


def test_claims_are_counted_and_the_scales_are_a_column_per_agent():
    assert findings.count_confirmed([{"holds": holds} for holds in (True, True, False, None)]) == (
        "2 of 4 claims confirmed; 1 refuted, 1 undecided"
    )
    assert (findings.count_confirmed([{"holds": True}]), findings.count_confirmed([])) == (
        "1 of 1 claims confirmed",
        "",
    )
    scores = {"a": [[0.1, 1.0, 0.9, 1.1]], "b": [[0.0, 2.0, 2.0, 2.0], [0.1, 3.0, 3.0, 3.0]]}
    shown = findings.scales({"scores": scores, "best_scale": {"a": 0.1, "b": 0.1}})
    assert shown["rows"] == [[0.0, None, [2.0, 2.0, 2.0]], [0.1, [1.0, 0.9, 1.1], [3.0, 3.0, 3.0]]]
    assert findings.scales({}) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"scores": {"a": [["x", 1.0, 1.0, 1.0]]}, "best_scale": {"a": 0.1}},
        {"scores": {"a": [[0.1, 1.0]]}, "best_scale": {"a": 0.1}},
        {"scores": {"a": [[0.1, 1.0, 1.0, 1.0]]}},
        {"verdicts": [{"sentence": "Yes.", "holds": "yes"}]},
    ],
)
def test_findings_with_damaged_scores_or_verdicts_are_refused(wrong, tmp_path):
    path = tmp_path / "findings.json"
    one = {"problem": "oil-laplace-1", "agents": {}, **wrong}
    path.write_text(json.dumps({"figures": {"1": one}, "overall": wrong.get("verdicts", 5)}))
    with pytest.raises(
        zooming.ConfigurationError,
        match=r"findings.json is damaged .*zooming reproduce makes it again",
    ):
        findings.read_findings(path)


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


def test_what_has_no_partition_is_named_beside_the_replays(tmp_path):
    study = zooming.Study(
        ["oil-laplace-1"], ["median", "metric-q", "adaptive-q"], episodes=20, seeds=2
    )
    study.run(tmp_path / "study", workers=1)
    (problem,) = collect(tmp_path / "study")["problems"]
    assert problem["unshown"] == ["median: no partition", "metric-q: balls of a metric, not boxes"]
    assert [agent["is_winner"] for agent in problem["agents"]] == [
        _winner(read_study(tmp_path / "study")) == a for a in ("median", "metric-q", "adaptive-q")
    ]


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
        shown = q_star(problem.optimal("rough"))
        assert (shown["state"][0], shown["state"][-1]) == (-0.5, 3.5)  # what the atoms cover
        assert {*np.ravel(shown["steps"][0]).tolist()} == {0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5}
    finally:
        gym.registry.pop("Climb-v0")
