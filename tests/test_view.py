"""A partition's window, center and sections, against numbers worked out by hand."""

import numpy as np
import pytest

import zooming
from helpers import box
from zooming.kernels import WIDTH
from zooming.partitions.view import Partition, corners
from zooming.plots.policies import some_steps
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import INTERVAL, ORDERED

pytestmark = pytest.mark.plain


def partition(low, high, n_visits, depth=None, **options):
    """Balls of a state axis x and an action axis y."""
    n, n_axes = len(low), len(low[0])
    arrays = np.array(low, float), np.array(high, float), np.arange(n, dtype=float)
    arrays += np.array(n_visits), np.zeros(n, int) if depth is None else np.array(depth), np.ones(n)
    named = {"names": ("state[0]", "action[0]"), "kinds": (INTERVAL,) * n_axes, **options}
    return Partition(*arrays, step=0, weights=(1.0,) * n_axes, **named)


HALVES = [[0, 0], [2, 0]], [[2, 8], [4, 8]]


def test_the_center_is_that_of_the_ball_with_the_most_visits_and_the_deepest_of_those():
    assert partition(*HALVES, [1, 3]).center().tolist() == [3.0, 4.0]
    assert partition(*HALVES, [3, 3], [2, 1]).center().tolist() == [1.0, 4.0]
    assert partition(*HALVES, [0, 0]).center().tolist() == [2.0, 4.0]  # the middle of the space


def test_an_axis_of_integers_ends_at_its_values_and_its_center_is_one_of_them():
    whole = partition([[-0.5, 0]], [[4.5, 8]], [1], kinds=(ORDERED, INTERVAL))
    assert (whole.view().low.tolist(), whole.view().high.tolist()) == ([0.0, 0.0], [4.0, 8.0])
    assert whole.center().tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("low", "high", "window"),
    [
        ([[0, 0], [2, 0]], [[2, 8], [4, 8]], ([0, 0], [4, 8])),
        ([[-np.inf, 0], [2, 0]], [[2, 8], [6, 8]], ([0, 0], [6, 8])),  # borders 2 to 6
        ([[-np.inf, 0], [-1, 0], [3, 0]], [[-1, 8], [3, 8], [np.inf, 8]], ([-3, 0], [5, 8])),
        ([[-np.inf, 0]], [[np.inf, 8]], ([-1, 0], [1, 8])),  # no border at all
        ([[5, 0]], [[np.inf, 8]], ([5, 0], [6, 8])),
    ],
)
def test_the_window_extends_an_endless_axis_by_half_of_its_borders_range(low, high, window):
    found = partition(low, high, [1] * len(low)).window()
    assert tuple(corner.tolist() for corner in found) == window


def test_a_section_is_that_of_the_state_and_the_action_or_of_two_axes_that_are_named():
    found = partition(*HALVES, [1, 3])
    assert found.cut().drawn == (0, 1)
    assert found.cut(["action[0]", "state[0]"]).drawn == (1, 0)
    for axes in (["state[0]"], ["state[0]", "state[0]"]):
        with pytest.raises(zooming.ConfigurationError, match="give two different axes out of"):
            found.cut(axes)


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (0.0, [True, False, True]),
        (1.9, [True, False, True]),
        (2.0, [False, True, True]),  # a border belongs to the ball above it
        (4.0, [False, True, True]),  # the last one to the ball below it
    ],
)
def test_a_plane_meets_the_balls_that_contain_it(at, shown):
    low, high = [[0, 0, 0], [0, 2, 0], [3, 0, 0]], [[3, 2, 8], [3, 4, 8], [6, 4, 8]]
    balls = partition(low, high, [1, 1, 1], names=("state[0]", "state[1]", "action[0]"))
    drawn, point, found = balls.slice(at={"state[1]": at})
    assert (drawn, point[1], found.tolist()) == ((0, 2), at, shown)
    assert balls.slice([0, 1], at={"action[0]": 8.0})[2].all()


def test_a_partition_is_shown_in_words():
    balls = partition(*HALVES, [1, 3], [2, 1])
    assert repr(balls) == "Partition(step=0, n_balls=2, depth 1 to 2, q_value 0.000 to 1.000)"


def test_some_steps_are_evenly_spaced_with_the_first_and_the_last():
    assert [some_steps(n, 5) for n in (1, 3, 40)] == [[0], [0, 1, 2], [0, 10, 20, 29, 39]]


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.3), (-0.3, 1.1), (0.1, 7.7), (1e6, 1e6 + 0.1)])
def test_a_border_is_the_smallest_number_that_is_not_below_it(low, high):
    axes = Axes(box((low, high)), box((0, 1)))
    unit = np.linspace(0.0, 1.0, 28)
    found = corners(axes, np.stack([unit, unit], axis=1))[:, 0]
    assert (found[0], found[-1]) == (low, high)

    def share(x):
        return (x - low) / axes.table[0, WIDTH]

    assert (share(found[1:-1]) >= unit[1:-1]).all()
    assert (share(np.nextafter(found[1:-1], -np.inf)) < unit[1:-1]).all()
