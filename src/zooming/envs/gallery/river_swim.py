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

from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `RiverSwim`."""

    reach: float = amount(0.2, "the length of a stroke; the river is 1 long", 1e-6, 1.0)
    ahead: float = amount(0.6, "the probability that a stroke succeeds", 0.0, 1.0)
    back: float = amount(0.05, "the probability that the current undoes a stroke", 0.0, 1.0)
    small: float = amount(0.05, "the reward on the near bank")
    large: float = amount(1.0, "the reward on the far bank", 1e-6)
    bank: float = amount(0.2, "the width of a bank", 1e-6, 0.5)
    start: float = amount(0.0, "the place at the start", 0.0, 1.0)
    horizon: int = count(20, "steps of an episode")

    def check(self) -> None:
        problem.require(
            self.ahead + self.back <= 1.0,
            f"ahead={self.ahead:g} and back={self.back:g} are probabilities of the same stroke: "
            "their sum is at most 1",
        )


AT = problem.places(Settings)


def swim(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next place for the stroke `outcome[0]`, and return the reward of this place."""
    place = state[0]
    next_state[0] = min(max(place + params[AT.reach] * action[0] * outcome[0], 0.0), 1.0)
    near = max(1.0 - place / params[AT.bank], 0.0)
    far = max(1.0 - (1.0 - place) / params[AT.bank], 0.0)
    return params[AT.small] * near + params[AT.large] * far


def law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities that a stroke succeeds, has no effect, or is reversed."""
    is_upstream = action[0] > 0.0
    weights[0] = params[AT.ahead] if is_upstream else 1.0
    weights[2] = params[AT.back] if is_upstream else 0.0
    weights[1] = max(1.0 - params[AT.ahead] - params[AT.back], 0.0) if is_upstream else 0.0


class RiverSwim(GalleryEnv):
    """The environment `zooming/RiverSwim-v0`: a large reward far against the current.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/RiverSwim-v0")
    >>> round(zooming.solve(env).return_, 2)  # 20 steps on the near bank pay 1
    11.18
    """

    model = Model(Settings, AT, swim, law)

    def _layout(self, s: Any) -> Layout:
        return Layout(
            problem.box(0.0, 1.0), problem.box(-1.0, 1.0), start=[s.start],
            values=(1.0, 0.0, -1.0), reward_range=(0.0, max(s.small, s.large)),
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        def stroke(step: int, states: Any, numbers: Any) -> Any:
            return np.full(len(states), numbers[0])

        return "always swim upstream", stroke, {"stroke": (1.0, -1.0, 1.0)}
