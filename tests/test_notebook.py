"""What a notebook shows: well-formed, escaped, small, and without a plotting library."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming import notebook

EVIL = "<script>alert('x')</script> & \"co\""


def trained(episodes=300, **options):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0, **options)
    return agent, agent.learn(episodes)


def rects(html):
    return [e for e in ET.fromstring(html).iter() if e.tag.endswith("rect")]


def test_an_agent_shows_its_facts_and_a_picture_of_every_step():
    agent, _ = trained()
    html = agent._repr_html_()
    for fact in ("AdaptiveQ", "zooming/Oil-v0", "300", "state[0] in [0, 1]", f"{agent.n_balls:,} in {agent.nbytes:,} bytes"):
        assert fact in html
    assert len(rects(html)) == agent.n_balls
    assert zooming.Median(gym.make("zooming/Ambulance-v0"))._repr_html_().count("<tr>") == 4


def test_an_agent_of_many_steps_says_which_it_shows():
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", horizon=40), seed=0)
    html = agent._repr_html_()
    assert "5 of 40 steps; partition(step) has any" in html
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
    lines = [e.get("points").split() for e in ET.fromstring(html).iter() if e.tag.endswith("polyline")]
    assert [len(points) for points in lines] == [100, 100]
    ET.fromstring(zooming.History(np.empty(0), np.empty(0, int))._repr_html_())
    ET.fromstring(zooming.History(np.ones(1), np.ones(1, int))._repr_html_())  # no span, one point


def test_a_history_with_checkpoints_shows_the_value_of_the_policy():
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    history = agent.learn(50, checkpoints=[50])
    assert f"{history.policy_values[-1]:.4f}" in history._repr_html_()


def test_a_study_names_its_problems_and_agents():
    study = zooming.Study(["oil-laplace-10"], ["adaptive-q:bonus=0.5", "net-q"], episodes=10, seeds=2)
    html = study._repr_html_()
    ET.fromstring(html)
    for word in ("oil-laplace-10", "sharpness=10.0", "adaptive-q:bonus=0.5", "4 runs"):
        assert word in html


def test_every_string_is_escaped():
    agent, _ = trained(5)
    agent.env_name = EVIL
    shown = [agent._repr_html_(), notebook.card(EVIL, {EVIL: EVIL}), notebook.table(EVIL, [EVIL], [[EVIL]])]
    shown += [notebook.sparkline([1.0], EVIL), notebook.boxes(np.zeros((1, 2)), np.ones((1, 2)), np.zeros(1), EVIL)]
    for html in shown:
        assert "&lt;script&gt;" in html
        assert "<script" not in html
        ET.fromstring(f"<div>{html}</div>")


@pytest.mark.process
def test_showing_needs_no_extra():
    program = (
        "import sys, gymnasium as gym, zooming; agent = zooming.AdaptiveQ(gym.make('zooming/Oil-v0'));"
        "history = agent.learn(2); agent._repr_html_(), history._repr_html_(), repr(agent);"
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
