"""Options that float() cannot take are refused in words, wherever they come in."""

from decimal import Decimal
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, box
from zooming import bonuses, metrics, validation

HUGE = 10**400
ENV = gym.make("zooming/Oil-v0", horizon=2)


class Width:
    def __init__(self, value):
        self.value = value

    def scale(self, horizon, reward_span):
        return self.value


@pytest.mark.parametrize(
    "value", [HUGE, -HUGE, Fraction(HUGE)], ids=["int", "negative", "fraction"]
)
def test_a_category_beyond_floating_point_is_refused(value):
    agent = zooming.AdaptiveQ(
        Boxes(gym.spaces.Discrete(3), gym.spaces.Discrete(3)), horizon=2, seed=0
    )
    with pytest.raises(zooming.ZoomingError, match="observation is not an array of numbers"):
        agent.act(0, value)
    with pytest.raises(zooming.ZoomingError, match="action is not an array of numbers"):
        agent.update(0, 1, value, 0.5, 1)


def unbounded():
    return Boxes(gym.spaces.Box(-np.inf, np.inf, (1,), np.float64), box((0, 1)))


def declared(**options):
    def dynamics(state, action, step, params, outcome, next_state):
        next_state[0] = state[0]
        return 0.5

    given = {"start": [0.5], "outcomes": ([0.0], [1.0]), **options}
    return zooming.compiled_env(dynamics, box((0, 1)), box((0, 1)), 2, **given)


EDGES = {
    "bonus": (lambda v: zooming.AdaptiveQ(ENV, bonus=v), r"bonus c=-?inf: give a finite number"),
    "bonus.scale": (lambda v: zooming.AdaptiveQ(ENV, bonus=Width(v)),
        "has the scale -?inf; it must be finite"),
    "reward_range": (lambda v: zooming.AdaptiveQ(ENV, reward_range=(0, v)),
        "reward_range=.*give two finite numbers"),
    "weights": (lambda v: zooming.AdaptiveQ(ENV, weights={"state[0]": v}),
        r"weight of state\[0\]: .*not a finite number"),
    "bounds": (lambda v: zooming.AdaptiveQ(ENV, bounds={"state[0]": (0, v)}),
        r"bounds of state\[0\]: \(0.0, -?inf\)"),
    "squash": (lambda v: zooming.AdaptiveQ(unbounded(), horizon=2, squash={"state[0]": v}),
        r"squash of state\[0\].*no|not a scale"),
    "horizon": (lambda v: zooming.AdaptiveQ(ENV, horizon=v), "horizon=.*give a whole number"),
    "max_balls": (lambda v: zooming.MetricQ(ENV, metrics.LInf(9), max_balls=v),
        "max_balls=.*give a whole number"),
    "lipschitz": (lambda v: bonuses.Exact(lipschitz=v), "Exact: lipschitz=.*give a finite number"),
    "start": (lambda v: gym.make("zooming/Oil-v0", start=v), "start=.*beyond floating point"),
    "arrivals": (lambda v: gym.make("zooming/Ambulance-v0", arrivals=[v]),
        "arrivals: .*not an array of locations"),
    "params": (lambda v: declared(params=[v]), "params=.*give a sequence of numbers"),
    "outcomes": (lambda v: declared(outcomes=([v], [1.0])), "outcomes=.*give .values, weights"),
    "weighted start": (lambda v: declared(start=([[0.5]], [v])), "start=.*give .states, weights"),
    "Matrix": (lambda v: metrics.Matrix([[0, v], [v, 0]]), "Matrix: the rows must hold numbers"),
}  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize("value", [HUGE, -HUGE], ids=["large", "small"])
@pytest.mark.parametrize("edge", EDGES)
def test_an_option_beyond_floating_point_is_refused_in_words(edge, value):
    make, match = EDGES[edge]
    with pytest.raises(zooming.ZoomingError, match=match):
        make(value)


def test_an_action_beyond_floating_point_is_refused_by_the_environment():
    ENV.reset(seed=0)
    with pytest.raises(zooming.TransitionError, match=r"step 0: action .* is not in Box"):
        ENV.unwrapped.step([HUGE])


@pytest.mark.parametrize("value", [Decimal(1), "1", b"1", None, 1j, [0.5], True], ids=repr)
def test_what_is_no_real_number_is_refused_in_words(value):
    with pytest.raises(zooming.ConfigurationError, match="give a finite number"):
        validation.check_float(value, "it", 0.0, 1.0)


@pytest.mark.parametrize("value", [0, 3, 2**53, np.int64(7)], ids=repr)
def test_whole_numbers_in_range_are_taken_as_they_are(value):
    assert validation.check_int(value, "it", 0) == value
    assert validation.check_int(10**40, "seed", 0, most=None) == 10**40
