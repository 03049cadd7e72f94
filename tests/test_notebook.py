"""What a notebook shows: well-formed, escaped, and without a plotting library."""

import math
import sys
import types
import xml.etree.ElementTree as ET

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming import notebook
from zooming.agents.base.status import Status, plus_minus
from zooming.notebook import in_notebook

EVIL = "<script>alert('x')</script> & \"co\""


def trained(episodes=300, **options):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0, **options)
    return agent, agent.learn(episodes)


def test_every_string_is_escaped():
    agent, _ = trained(5)
    agent.env_name = EVIL
    shown = [
        Status({EVIL: EVIL})._repr_html_(),
        notebook.card(EVIL, [(EVIL, EVIL)]),
        notebook.table(EVIL, [EVIL], [[EVIL]]),
        agent.explain(0, episodes=0)._repr_html_(),
    ]
    for html in shown:
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
    # Colab's shell inherits from it, too.
    shell = type("Shell", (type("ZMQInteractiveShell", (), {}),), {})()
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
    entries = {"return": plus_minus(5926.3, 160.4), "loss": 1234567.8, "most": np.inf}
    entries |= {"none yet": math.nan, EVIL: {EVIL: None, "nested": 3}, "warnings": [EVIL]}
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


@pytest.mark.parametrize(("mean", "error", "text"), [
    (5926.0, 160.0, "5,926 ± 160"), (-0.001, 1.5, "0.0 ± 1.5"),
    (4.7149, 0.00213, "4.7149 ± 0.0021"), (12.0, 0.0, "12 ± 0"),
    (1e7, 1e5, "10,000,000 ± 100,000"), (1.0, math.nan, "1 ± not known yet"),
])  # fmt: skip
def test_an_uncertainty_has_two_digits_and_no_exponent(mean, error, text):
    assert plus_minus(mean, error) == text
