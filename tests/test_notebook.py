"""What a notebook shows: well-formed, escaped, small, and without a plotting library."""

import dataclasses
import math
import subprocess
import sys
import types
import xml.etree.ElementTree as ET

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming import notebook
from zooming.agents.base.status import Status, plus_minus
from zooming.lab.study.study import progress_line
from zooming.progress import in_notebook

EVIL = "<script>alert('x')</script> & \"co\""


def trained(episodes=300, **options):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0, **options)
    return agent, agent.learn(episodes)


def rects(html):
    return [e for e in ET.fromstring(html).iter() if e.tag.endswith("rect")]


def test_an_agent_shows_its_facts_and_a_picture_of_every_step():
    agent, _ = trained()
    html = agent._repr_html_()
    for fact in (
        "AdaptiveQ",
        "zooming/Oil-v0",
        "300",
        "state[0] in [0, 1]",
        f"{agent.n_balls:,} in {agent.nbytes:,} bytes",
    ):
        assert fact in html
    assert len(rects(html)) == agent.n_balls
    assert zooming.Median(gym.make("zooming/Ambulance-v0"))._repr_html_().count("<tr>") == 4


def test_an_agent_of_many_steps_says_which_it_shows():
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", horizon=40), seed=0)
    html = agent._repr_html_()
    assert "5 of 40 steps; partition(step) returns any of them" in html
    assert [step for step in range(40) if f"step {step}:" in html] == [0, 10, 20, 29, 39]
    assert "shown" not in trained(1)[0]._repr_html_()  # of five steps all are there


def test_a_partition_of_any_dimension_is_drawn_to_scale():
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", n_ambulances=2), seed=0)
    agent.learn(200)
    html = agent.partition(0)._repr_html_()
    area = sum(float(box.get("width")) * float(box.get("height")) for box in rects(html))
    assert area == pytest.approx(200 * 200, rel=1e-3)


def test_a_partition_of_very_many_balls_stays_small():
    side = 200
    low = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) / side
    html = notebook.boxes(low, low + 1 / side, np.arange(side**2.0), "many")
    assert len(html) < 200_000


def test_a_history_shows_first_and_last_returns_and_how_it_went():
    _, history = trained()
    html = history._repr_html_()
    assert f"{history.returns[-200:].mean():.4f}" in html
    lines = [
        e.get("points").split() for e in ET.fromstring(html).iter() if e.tag.endswith("polyline")
    ]
    assert [len(points) for points in lines] == [100, 100]
    ET.fromstring(zooming.History(np.empty(0), np.empty(0, int))._repr_html_())
    ET.fromstring(zooming.History(np.ones(1), np.ones(1, int))._repr_html_())  # no span, one point


def test_a_history_with_checkpoints_shows_the_value_of_the_policy():
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    history = agent.learn(50, checkpoints=[50])
    assert f"{history.policy_values[-1]:.4f}" in history._repr_html_()


def test_a_study_names_its_problems_and_agents():
    study = zooming.Study(
        ["oil-laplace-10"], ["adaptive-q:bonus=0.5", "net-q"], episodes=10, seeds=2
    )
    html = study._repr_html_()
    ET.fromstring(html)
    for word in ("oil-laplace-10", "sharpness=10.0", "adaptive-q:bonus=0.5", "4 runs"):
        assert word in html


def test_every_string_is_escaped():
    agent, _ = trained(5)
    agent.env_name = EVIL
    shown = [
        agent._repr_html_(),
        notebook.card(EVIL, {EVIL: EVIL}),
        notebook.table(EVIL, [EVIL], [[EVIL]]),
    ]
    shown += [
        notebook.sparkline([1.0], EVIL),
        notebook.boxes(np.zeros((1, 2)), np.ones((1, 2)), np.zeros(1), EVIL),
    ]
    for html in shown:
        assert "&lt;script&gt;" in html
        assert "<script" not in html
        ET.fromstring(f"<div>{html}</div>")


@pytest.mark.process
def test_showing_needs_no_extra():
    program = (
        "import sys, gymnasium as gym, zooming; agent = "
        "zooming.AdaptiveQ(gym.make('zooming/Oil-v0'));"
        "history = agent.learn(2); agent._repr_html_(), history._repr_html_(), repr(agent);"
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# --- audits, evaluations, certificates, optima ----------------------------------------------------


def test_an_audit_shows_every_law_and_the_constants():
    agent, _ = trained()
    audit = zooming.audit(agent)
    html = audit._repr_html_()
    text = "".join(ET.fromstring(html).itertext())
    for law in audit.laws:
        assert law.name in text
        assert law.found in text
    assert text.count("holds") >= sum(law.holds is True for law in audit.laws) > 3
    assert f"{audit.nbytes:,} bytes" in text
    assert str(audit).splitlines()[-1].strip() in text


def test_an_evaluation_shows_its_interval_and_where_it_comes_from():
    agent, _ = trained(50)
    env = gym.make("zooming/Oil-v0")
    sampled, exact = zooming.evaluate(agent, env, 20), zooming.evaluate(agent, env, exact=True)
    for evaluation, word in ((sampled, "20 sampled episodes"), (exact, "computed")):
        html = evaluation._repr_html_()
        text = "".join(ET.fromstring(html).itertext())
        assert f"{evaluation.mean:.4f}" in text
        assert f"{evaluation.low:.4f} to {evaluation.high:.4f}" in text
        assert word in text
        assert ("polyline" in html) == (evaluation is sampled)


def test_a_certificate_and_an_optimum_show_what_they_print():
    agent, _ = trained(0)
    certificate = agent.learn_pac(0.5, 0.1, episodes=20, evaluation_episodes=5)
    text = "".join(ET.fromstring(certificate._repr_html_()).itertext())
    for line in str(certificate).splitlines():
        assert line[12:].strip() in text
    optimal = zooming.solve(gym.make("zooming/Oil-v0"), 20)
    text = "".join(ET.fromstring(optimal._repr_html_()).itertext())
    for fact in (f"{optimal.return_:.4f}", "grid of 20 cells", f"{optimal.return_error:.1e}"):
        assert fact in text


def test_names_and_reasons_are_escaped_in_every_card():
    agent, _ = trained(20)
    law = zooming.analysis.audit.report.Law(EVIL, False, EVIL)
    audit = dataclasses.replace(zooming.audit(agent), title=EVIL, laws=(law,))
    certificate = dataclasses.replace(
        agent.learn_pac(0.5, 0.1, episodes=5, evaluation_episodes=0), reasons=(EVIL,)
    )
    optimal = zooming.solve(gym.make("zooming/Oil-v0"), 4)
    optimal.grid.env.name = EVIL
    for shown in (audit, certificate, optimal):
        html = shown._repr_html_()
        assert "&lt;script&gt;" in html
        assert "<script" not in html
        ET.fromstring(html)


# --- progress -------------------------------------------------------------------------------------


class FakeDisplay:
    """IPython's display, as a kernel without ipywidgets has it: shows data once, then updates
    it."""

    def __init__(self):
        self.shown, self.updates = [], []

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id is True
        self.shown.append(data)
        return self

    def update(self, data, *, raw):
        self.updates.append(data)


@pytest.fixture
def kernel(monkeypatch):
    shell = type(
        "Shell", (type("ZMQInteractiveShell", (), {}),), {}
    )()  # Colab's inherits from it, too
    display = FakeDisplay()
    fake = types.SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    return display


@pytest.mark.parametrize("driver", ["fused", "python"])
def test_progress_in_a_notebook_is_a_line_of_text_without_ipywidgets(kernel, driver, capsys):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(30, progress_bar=True, driver=driver)  # a warning would be an error
    (first,), last = kernel.shown, kernel.updates[-1]
    assert "AdaptiveQ" in first["text/plain"]
    assert "30/30" in last["text/plain"]
    assert f"{agent.n_balls} balls" in last["text/plain"]
    ET.fromstring(last["text/html"])
    assert not capsys.readouterr().out


def test_progress_in_a_notebook_says_how_far_a_failed_run_came(kernel):
    def fail(agent, history):
        if len(history) == 7:
            raise ZeroDivisionError("in episode 7")

    with pytest.raises(ZeroDivisionError, match="in episode 7"):
        zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(
            30, progress_bar=True, callback=fail
        )
    assert "7/30" in kernel.updates[-1]["text/plain"]


def test_a_study_shows_its_progress_in_a_notebook_too(kernel):
    with progress_line("runs") as bar:
        task = bar.add_task("news", total=3)
        bar.update(task, advance=3)
    assert "3/3" in kernel.updates[-1]["text/plain"]


def test_a_terminal_keeps_richs_own_bar(monkeypatch):
    terminal = type("TerminalInteractiveShell", (), {})()
    for fake in (
        None,
        types.SimpleNamespace(get_ipython=lambda: None),
        types.SimpleNamespace(get_ipython=lambda: terminal),
    ):
        monkeypatch.setitem(sys.modules, "IPython", fake)
        assert not in_notebook()


def test_a_status_is_a_table_of_plain_numbers():
    entries = {
        "return": plus_minus(5926.3, 160.4),
        "loss": 1234567.8,
        "most": np.inf,
        "none yet": math.nan,
        EVIL: {EVIL: None, "nested": 3},
        "warnings": [EVIL],
    }
    status = Status(entries)
    assert str(status).splitlines()[:4] == [
        "return: 5,926 ± 160",
        "loss: 1,234,568",
        "most: unlimited",
        "none yet: not known yet",
    ]
    html = status._repr_html_()
    assert "<script" not in html
    shown = [[cell.text or "" for cell in row] for row in ET.fromstring(html).iter("tr")]
    assert shown[0] == ["return", "5,926 ± 160"]
    assert shown[-2:] == [["warnings", ""], ["\N{EM SPACE}", EVIL]]
    assert ["\N{EM SPACE}nested", "3"] in shown


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (5926.0, 160.0, "5,926 ± 160"),
        (-0.001, 1.5, "0.0 ± 1.5"),
        (4.7149, 0.00213, "4.7149 ± 0.0021"),
        (12.0, 0.0, "12 ± 0"),
        (1e7, 1e5, "10,000,000 ± 100,000"),
        (1.0, math.nan, "1 ± not known yet"),
    ],
)
def test_an_uncertainty_has_two_digits_and_no_exponent(mean, error, text):
    assert plus_minus(mean, error) == text
