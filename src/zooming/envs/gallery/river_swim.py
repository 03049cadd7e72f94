"""RiverSwim on an interval: a small reward nearby, and a large one far against the current.

The state is the place x in [0, 1]. The action is the stroke a in [-1, 1], whose length is at most
`reach`. Downstream (a <= 0) a stroke always succeeds. Upstream it succeeds with probability
`ahead`, and the current reverses it with probability `back`. Otherwise the swimmer stays:

    x' = x + reach a W,    W = 1 if a <= 0,    W in {1, -1, 0} with (ahead, back, the rest) else,

cut to [0, 1]. Reward is paid on both banks, each of the width `bank`:

    r = small (1 - x / bank)+ + large (1 - (1 - x) / bank)+.

An agent that does not explore deeply stays on the near bank. [Strehl and Littman 2008, made
continuous.] There is no closed form. The rule is to swim upstream, always.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import Decide, GalleryEnv, amount, count, require
from zooming.kernels import jit_inline, jit_kernel
from zooming.kernels.solve.laws import draw_index

_REACH, _AHEAD, _BACK, _SMALL, _LARGE, _BANK = range(6)  # places in params
MOVES = (1.0, 0.0, -1.0)


@dataclass(frozen=True)
class Settings:
    """Numbers of the problem; see `RiverSwim`."""

    reach: float = 0.2
    ahead: float = 0.6
    back: float = 0.05
    small: float = 0.05
    large: float = 1.0
    bank: float = 0.2
    start: float = 0.0
    horizon: int = 20

    def __post_init__(self) -> None:
        count(self, "horizon")
        amount(self, "reach", "the length of a stroke", 1e-6, 1.0)
        amount(self, "ahead", "the probability that a stroke succeeds", 0.0, 1.0)
        amount(self, "back", "the probability that the current undoes a stroke", 0.0, 1.0)
        require(
            self.ahead + self.back <= 1.0,
            f"ahead={self.ahead:g} and back={self.back:g} are probabilities of the same stroke: "
            "their sum is at most 1",
        )
        amount(self, "small", "the reward on the near bank")
        amount(self, "large", "the reward on the far bank", 1e-6)
        amount(self, "bank", "the width of a bank", 1e-6, 0.5)
        amount(self, "start", "the place at the start", 0.0, 1.0)


def river(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw how the stroke ends, write the next state and return the reward."""
    return swim(state, action, params, draw_stroke(action, params, rng), next_state)


def river_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw the result of the stroke into `outcome[0]`."""
    outcome[0] = draw_stroke(action, params, rng)
    return 0.0


@jit_kernel
def draw_stroke(action: Any, params: Any, rng: Any) -> Any:
    """Return the result of a stroke: 1 if it succeeds, 0 without effect, -1 if it is reversed."""
    weights = np.empty(3)
    fill_strokes(action[0], params, weights)
    return 1.0 - draw_index(weights, rng)


def river_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for the result `outcome[0]` of a stroke and return the reward."""
    return swim(state, action, params, outcome[0], next_state)


def river_law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of the results of a stroke, which depend on its direction."""
    fill_strokes(action[0], params, weights)


@jit_inline
def fill_strokes(stroke: Any, params: Any, weights: Any) -> None:
    """Fill in the probabilities that a stroke succeeds, has no effect, or is reversed."""
    weights[0] = params[_AHEAD] if stroke > 0.0 else 1.0
    weights[2] = params[_BACK] if stroke > 0.0 else 0.0
    weights[1] = max(1.0 - params[_AHEAD] - params[_BACK], 0.0) if stroke > 0.0 else 0.0


@jit_inline
def swim(state: Any, action: Any, params: Any, success: Any, next_state: Any) -> Any:
    """Write the next place and return the reward of the current place."""
    place = state[0]
    next_state[0] = min(max(place + params[_REACH] * action[0] * success, 0.0), 1.0)
    near = max(1.0 - place / params[_BANK], 0.0)
    far = max(1.0 - (1.0 - place) / params[_BANK], 0.0)
    return params[_SMALL] * near + params[_LARGE] * far


class RiverSwim(GalleryEnv):
    """The environment `zooming/RiverSwim-v0`: a large reward far against the current.

    Parameters
    ----------
    reach : float, default 0.2
        Length of a full stroke. The river is 1 long.
    ahead, back : float, default 0.6, 0.05
        Probabilities that a stroke upstream succeeds, and that the current undoes it.
    small, large : float, default 0.05, 1.0
        Reward of a step at the near end and at the far end.
    bank : float, default 0.2
        Width of the two banks on which there is reward.
    start : float, default 0.0
        Place at the start.
    horizon : int, default 20
        Steps of an episode.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/RiverSwim-v0")
    >>> round(zooming.solve(env).return_, 2)  # 20 steps on the near bank pay 1
    11.18
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(Settings, "RiverSwim", options)
        self.settings = s
        super().__init__(
            river, gym.spaces.Box(0.0, 1.0, (1,), np.float64),
            gym.spaces.Box(-1.0, 1.0, (1,), np.float64), s.horizon, start=[s.start],
            params=[s.reach, s.ahead, s.back, s.small, s.large, s.bank], given=river_given,
            draw=river_draw,
            weigh=river_law, values=MOVES, reward_range=(0.0, max(s.small, s.large)),
            name="river swim", render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
        def stroke(step: int, states: Any, numbers: Any) -> Any:
            return np.full(len(states), numbers[0])

        return "always swim upstream", stroke, {"stroke": (1.0, -1.0, 1.0)}
