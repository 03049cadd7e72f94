"""Pictures: what is drawn is what is in the data."""

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
import pytest

import zooming
from zooming import plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_a_partition_draws_every_ball_in_its_color():
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(300)
    balls = agent.partition(1)
    ax = balls.plot()
    (drawn,) = [c for c in ax.collections if len(c.get_paths()) == len(balls)]
    assert drawn.get_array().tolist() == balls.q_value.tolist()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("state", "action")
    assert ax.get_xlim() == ax.get_ylim() == (0.0, 1.0)


def test_a_slice_of_more_dimensions_draws_the_balls_it_cuts():
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", n_ambulances=2), seed=0)
    agent.learn(300)
    balls = agent.partition(0)
    ax = balls.plot(axes=(2, 3), at=[0.1, 0.9, 0.5, 0.5])
    boxes = [path.get_extents() for path in ax.collections[0].get_paths()]
    assert sum(box.width * box.height for box in boxes) == pytest.approx(1.0)  # a slice of a partition is a partition
    assert ax.get_xlabel() == "action[0]"
    for options, message in (
        ({"axes": (0, 9)}, "two different axes"),
        ({"at": [0.5]}, "one point"),
        ({"at": [2.0] * 4}, "point"),
    ):
        with pytest.raises(zooming.SpaceError, match=message):
            balls.plot(**options)


def test_learning_curves_show_the_mean_the_band_and_the_optimum():
    histories = [zooming.History(np.full(100, float(level)), np.ones(100, int)) for level in (1, 3)]
    ax = plots.returns(histories, label="two", optimum=4.0, window=10)
    assert ax.lines[0].get_ydata().tolist() == pytest.approx([2.0] * 91)
    assert len(ax.collections) == 1
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["two", "optimum"]
    assert histories[0].plot(ax) is ax
    with pytest.raises(zooming.SpaceError, match="one length"):
        plots.returns([histories[0], histories[0] + histories[0]])
