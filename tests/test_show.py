"""The page of a policy in a real browser: it says what predict plays, and loads nothing."""

import re

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming.app import cli
from zooming.export.regions import spread_visits
from zooming.export.show import collect, render

EVIL = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=2</script>"
pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def agents():
    found = {
        "one": zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", horizon=3), seed=0),
        "two": zooming.AdaptiveQ(gym.make("zooming/Inventory-v0"), seed=0),
        "mixed": zooming.Planner(gym.make("zooming/Inventory-v0", horizon=4), seed=0),
        "grid": zooming.Median(gym.make("zooming/Ambulance-v0", horizon=3), seed=0),
    }
    for kind in ("one", "two"):
        found[kind].learn(1500)
    found["mixed"].learn(100)
    return found


@pytest.fixture
def opened(agents, browser, tmp_path):
    """Opens the page of an agent; fails at the end if it complained or asked for anything."""
    complaints, requests, pages = [], [], []

    def open_page(kind, width=1000):
        agents[kind].save(tmp_path / "agent.zoom")
        path = tmp_path / f"{kind}.html"
        cli.main(["show", str(tmp_path / "agent.zoom"), str(path), "--episodes", "2"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith("file:")] == []


def number(page, selector):
    return float(re.search(r"-?[\d.]+$", page.locator(selector).inner_text())[0])


def state(page):
    return page.evaluate("x"), page.evaluate("step")


def played(agent, page):
    """Return the action of predict in the state of the page, up to the digits of the page."""
    at, step = state(page)
    return pytest.approx(agent.predict(np.array(at), state=[step])[0][0], rel=1e-3)


def test_the_keyboard_moves_the_state_and_the_page_says_what_predict_plays(agents, opened):
    agent, page = agents["one"], opened("one")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "step"
    page.keyboard.press("ArrowRight")
    assert state(page)[1] == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "state-0"
    seen = set()
    for key in ["Home", *["ArrowRight"] * 25, "End", *["ArrowLeft"] * 15]:
        page.keyboard.press(key)
        assert number(page, "#action") == played(agent, page)
        seen.add(number(page, "#action"))
    assert len(seen) > 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "map"
    before = state(page)[0][0]
    page.keyboard.press("ArrowLeft")
    assert state(page)[0][0] == pytest.approx(before - 0.01)
    (at,), step = state(page)
    assert number(page, "tr.chosen td:nth-child(2)") == pytest.approx(
        agent.q_value(step, [at], agent.predict([at], state=[step])[0]), abs=1e-3
    )
    balls = agent.partition(step)
    is_near = (balls.low[:, 0] <= at) & (at < balls.high[:, 0])
    assert page.locator("#rows tr").count() == min(10, int(is_near.sum()))
    visits, _ = spread_visits(agent, step, balls, (balls.high - balls.low).prod(axis=1))
    assert number(page, "tr.chosen td:nth-child(3)") in np.rint(visits[is_near])
    density = visits[is_near] / (balls.high - balls.low)[is_near, 0]
    share = density[balls.q_value[is_near].argmax()] / density.sum()
    assert f"{share:.0%}".replace("%", " %") in page.locator("#sure").inner_text()


def test_an_episode_is_gone_through_step_by_step(agents, opened):
    page = opened("one")
    page.locator("#episode").select_option("1")
    page.locator("#next").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.locator("#played").inner_text().startswith("Step 2 of episode 1")
    assert page.locator("#next").is_disabled()
    env = gym.make("zooming/Ambulance-v0", horizon=3)
    at, _ = env.reset(seed=1)
    for step in range(2):
        at, *_ = env.step(agents["one"].predict(at, state=[step])[0])
    assert state(page) == (at.tolist(), 2)
    assert number(page, "#action") == played(agents["one"], page)


def test_a_click_on_the_map_moves_two_axes(agents, opened):
    page = opened("two", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = page.locator("#map").bounding_box()
    area = page.evaluate("mapArea")
    for share in (0.3, 0.6, 0.8):
        page.mouse.click(box["x"] + share * box["width"], box["y"] + 0.5 * box["height"])
        box = page.locator("#map").bounding_box()
        at, _ = state(page)
        assert at[0] == pytest.approx(
            -20 + 60 * (share * box["width"] - area["left"]) / (area["right"] - area["left"]),
            abs=0.3,
        )
        assert number(page, "#action") == played(agents["two"], page)


def test_a_policy_that_interpolates_is_shown_to_the_last_bit(agents, opened):
    agent, page = agents["mixed"], opened("mixed", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert "interpolates its action between the cells" in page.locator("#note").inner_text()
    assert "Each row is a cell of actions" in page.locator("#entries").inner_text()
    page.locator("#state-0").focus()
    for key in ["Home", *["ArrowRight"] * 5, "End", "Tab", "End", *["ArrowLeft"] * 5]:
        page.keyboard.press(key)
        assert number(page, "#action") == played(agent, page)
    states = np.random.default_rng(0).uniform([-20.0, 0.0], [40.0, 30.0], (500, 2))
    found = page.evaluate(
        "states => states.map((state) => interpolated(0, state))", states.tolist()
    )
    expected = agent.predict(states, state=np.zeros(500, int))[0]
    assert len(np.unique(expected)) > 5  # not only the ends of cells
    assert (np.array(found) == expected).all()


def test_a_policy_without_regions_is_shown_on_a_grid(opened):
    page = opened("grid")
    assert "on a grid of states" in page.locator("#note").inner_text()
    assert not page.locator("#alternatives").is_visible()
    assert page.locator("#support").inner_text() == "unknown"


def test_states_that_never_occurred_are_hatched_and_money_has_no_exponent(
    opened, browser, tmp_path
):
    page = opened("one")  # episodes begin in the middle
    assert "Hatched: states that never occurred" in page.locator("#map-caption").inner_text()
    assert page.locator("#sure").inner_text().startswith(("likely", "sure", "unsure"))
    page.evaluate("x = [0.2]; update()")
    assert page.locator("#sure").inner_text().startswith("unvisited: nothing shows that")
    assert page.locator("#support").inner_text() == "none"
    page.evaluate("step = 2; update()")
    assert "Hatched" not in page.locator("#map-caption").inner_text()
    assert page.evaluate("[44520.3, 160, 1234567, 0.51234, -0.00012].map(text)") == [
        "44,520", "160", "1,234,567", "0.5123", "-0.00012"
    ]  # fmt: skip
    page = browser.new_page()
    page.goto(zooming.AdaptiveQ(Machine(), horizon=2).show(tmp_path / "new.html").as_uri())
    assert "has not learned yet" in page.locator("#note").inner_text()
    assert page.locator("#value").inner_text().startswith("a guess: ")
    page.close()


def test_names_are_shown_as_text(agents, browser, tmp_path):
    data = {**collect(agents["grid"], 1), "title": EVIL}
    data["state"][0]["name"] = EVIL
    (tmp_path / "page.html").write_text(render(data))
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("window.hacked") is None
    assert page.locator("h1").inner_text() == EVIL
    page.close()


def test_the_page_forbids_the_network_and_any_code_but_its_own(agents, browser, tmp_path):
    planted = (
        "<script>window.hacked = 1</script><img src='https://example.com/x' "
        "onerror='window.hacked = 2'><p style='position:fixed' onclick='1'>text</p>"
        "<iframe src='data:text/html,x'></iframe><base href='https://example.com/'>"
    )
    page, refused, asked = browser.new_page(), [], []
    page.on("console", lambda message: refused.append(message.text))
    page.on("requestfinished", lambda request: asked.append(request.url))
    html = render(collect(agents["one"], 1)).replace("<main>", planted + "<main>")
    (tmp_path / "page.html").write_text(html)
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None
    assert all(url.startswith("file:") for url in asked)
    assert sum("Content Security Policy" in text for text in refused) >= 5
    assert page.locator("#action").inner_text().startswith("action[0] = ")  # our own code runs
    page.close()


class Machine(gym.Env):
    """Run or repair: a state of one axis and two actions."""

    observation_space = gym.spaces.Box(0.0, 10.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = self.np_random.uniform(0.0, 10.0, 1)
        return self.age, {}

    def step(self, action):
        reward = 0.4 if action else 1.0 - self.age[0] / 10.0
        self.age = np.zeros(1) if action else np.minimum(self.age + 2.0, 10.0)
        return self.age, float(reward), False, False, {}


def test_a_discrete_action_is_drawn_at_its_values(browser, tmp_path):
    agent = zooming.AdaptiveQ(Machine(), horizon=1, seed=0)
    agent.learn(300)
    page = browser.new_page()
    page.goto(agent.show(tmp_path / "page.html", episodes=0).resolve().as_uri())
    area = page.evaluate("mapArea")
    assert (area["up"], area["across"]) == ([0, 1], [0, 2, 4, 6, 8, 10])
    assert page.evaluate("ticks(-0.5, 2.5, true, 6)") == [0, 1, 2]
    assert page.evaluate("ticks(-0.06, 1.06, false, 4)") == [0, 0.5, 1]
    assert page.evaluate("ticks(1.83, 2.03, false, 1)") == [1.9, 2]
    assert page.evaluate("ticks(3, 3, false, 5)") == [3]
    assert not page.locator("#step").is_visible()  # an episode has one step
    assert page.locator("#alternatives").is_visible()
    page.close()


def test_one_action_is_drawn_on_its_axis_and_shared_visits_are_called_so(browser, tmp_path):
    page = browser.new_page()
    for kind, said in ((zooming.Median, ""), (zooming.TreeQ, "at any step, in 3 episodes")):
        agent = kind(gym.make("zooming/Ambulance-v0"), seed=0)
        agent.learn(3)
        page.goto(agent.show(tmp_path / "page.html", episodes=0).resolve().as_uri())
        assert said in page.locator("#support").inner_text()
        assert [tick for tick in page.evaluate("mapArea")["up"] if not 0 <= tick <= 1] == []
    assert "The visits are those of all steps" in page.locator("#entries").inner_text()
    page.close()


def test_an_agent_shows_itself_and_goes_on_as_if_it_had_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = (zooming.AdaptiveQ(Machine(), horizon=3, seed=0) for _ in range(2))
    one.learn(20)
    assert str(one.show()) == "policy.html"
    assert "AdaptiveQ on Machine after 20 episodes" in (tmp_path / "policy.html").read_text()
    one.learn(20)
    other.learn(40)
    assert (one.partition(0).q_value == other.partition(0).q_value).all()
    with pytest.raises(zooming.ConfigurationError, match=r"a name that ends in \.html"):
        one.show("policy.txt")


def test_of_too_many_alternatives_those_that_were_played_are_shown(agents, monkeypatch):
    agent, before = agents["mixed"], collect(agents["mixed"], 0)
    n_visited = [int((agent.partition(h).n_visits > 0).sum()) for h in range(4)]
    assert before["has_unplayed"]
    assert len(before["steps"][0]["balls"]["q"]) > n_visited[0]
    monkeypatch.setattr("zooming.export.show.MOST_BALLS", sum(n_visited))
    found = collect(agent, 0)
    assert [len(one["balls"]["q"]) for one in found["steps"]] == n_visited
    assert not found["has_unplayed"]
    assert all(min(one["balls"]["visits"]) > 0 for one in found["steps"])
    monkeypatch.setattr("zooming.export.show.MOST_BALLS", sum(n_visited) - 1)
    assert [one["balls"] for one in collect(agent, 0)["steps"]] == [None] * 4


def test_what_cannot_be_shown_is_refused(agents, tmp_path, capsys):
    agents["one"].save(tmp_path / "agent.zoom")
    for words, message in (
        (["page.txt"], "give the page a name that ends in .html"),
        ([str(tmp_path / "none" / "page.html")], "does not exist"),
        (["page.html", "--episodes", "-1"], "--episodes -1: give"),
        (["page.html", "--set", "horizon=2"], "--set requires --env"),
    ):
        with pytest.raises(SystemExit, match=re.escape(message)) as stop:
            cli.main(["show", str(tmp_path / "agent.zoom"), *words])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err
