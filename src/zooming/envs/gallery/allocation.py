"""Allocation over rounds: divide a budget among needs that become known one by one.

The state is the budget b that is left and the need n of this round. The action is the share a of
the budget to give. A need is served at most once, with a return that diminishes:

    g = min(a b, n),    r = value sqrt(g n),    b' = b - g,    n' ~ (needs, chances).

If there is one need n only, all H rounds are alike, and the budget is divided evenly:

    V* = H value sqrt(min(b_0 / H, n) n).

The rule gives each round a share of the budget: its need divided by the needs still expected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Allocation`."""

    budget: float = amount(100.0, "the budget; of all rounds together", 1e-6)
    needs: Sequence[float] = problem.number_list((10.0, 20.0, 40.0), "possible needs of a round")
    chances: Sequence[float] = problem.number_list((0.5, 0.3, 0.2), "their probabilities")
    value: float = amount(1.0, "the value of a unit of served need", 1e-6)
    horizon: int = count(8, "rounds of an episode")

    def check(self) -> None:
        problem.require(
            len(self.needs) == len(self.chances) > 0,
            f"{len(self.needs)} needs and {len(self.chances)} chances: give one chance per need",
        )
        problem.require(
            all(0 < need < math.inf for need in self.needs),
            f"needs={self.needs}: every need must be a finite number above 0",
        )
        problem.require_law(self.chances, "chances")


AT = problem.places(Settings, tail="chances")


def give(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for the next need `outcome[0]` and return the reward."""
    given = min(action[0] * state[0], state[1])
    next_state[0] = max(state[0] - given, 0.0)
    next_state[1] = outcome[0]
    return params[AT.value] * math.sqrt(given * state[1])


def law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of the needs, which are the same in every round."""
    for i in range(weights.shape[0]):
        weights[i] = params[AT.chances + i]


class Allocation(GalleryEnv):
    """The environment `zooming/Allocation-v0`: divide a budget among needs that come one by one.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Allocation-v0", needs=[20.0], chances=[1.0], budget=80.0)
    >>> round(env.unwrapped.closed_form(), 2)
    113.14
    """

    model = Model(Settings, AT, give, law)

    def _layout(self, s: Any) -> Layout:
        low, high = min(s.needs), max(s.needs)
        return Layout(
            problem.box([0.0, low], [s.budget, max(high, 1.001 * low)]), problem.box(0.0, 1.0),
            start=([(s.budget, need) for need in s.needs], s.chances), values=s.needs,
            reward_range=(0.0, s.value * math.sqrt(min(s.budget, high) * high)), resolution=120,
            tail=s.chances,
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        s = self.settings
        mean = float(np.dot(s.needs, s.chances))

        def share(step: int, states: Any, numbers: Any) -> Any:
            need = states[:, 1]
            return np.minimum(1.0, numbers[0] * need / (need + (s.horizon - 1 - step) * mean))

        return "share of the expected need", share, {"factor": (1.0, 0.0, 3.0)}

    def closed_form(self) -> float | None:
        """Return H value sqrt(min(b_0 / H, n) n) if there is one need n only, else None."""
        s = self.settings
        if len(s.needs) > 1:
            return None
        need = s.needs[0]
        return float(s.horizon * s.value * math.sqrt(min(s.budget / s.horizon, need) * need))
