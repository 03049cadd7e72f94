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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import Decide, GalleryEnv, amount, count, require
from zooming.errors import ConfigurationError
from zooming.kernels import jit_inline, jit_kernel
from zooming.kernels.solve.laws import draw_index
from zooming.validation import as_floats, short_repr

_VALUE, _N, _LAW = 0, 1, 2  # places in params; from _LAW on: needs, then chances


@dataclass(frozen=True)
class Settings:
    """Numbers of the problem; see `Allocation`."""

    budget: float = 100.0
    needs: Sequence[float] = (10.0, 20.0, 40.0)
    chances: Sequence[float] = (0.5, 0.3, 0.2)
    value: float = 1.0
    horizon: int = 8

    def __post_init__(self) -> None:
        count(self, "horizon")
        amount(self, "budget", "the budget", 1e-6)
        amount(self, "value", "the value of a unit of served need", 1e-6)
        for name in ("needs", "chances"):
            try:
                numbers = tuple(as_floats(getattr(self, name)).ravel().tolist())
            except (TypeError, ValueError) as error:
                given = short_repr(getattr(self, name))
                raise ConfigurationError(f"{name}={given}: give a list of numbers") from error
            object.__setattr__(self, name, numbers)
        require(
            len(self.needs) == len(self.chances) > 0,
            f"{len(self.needs)} needs and {len(self.chances)} chances: give one chance per need",
        )
        require(
            all(0 < need < math.inf for need in self.needs),
            f"needs={self.needs}: every need must be a finite number above 0",
        )
        require(
            all(chance >= 0 for chance in self.chances) and abs(sum(self.chances) - 1) < 1e-9,
            f"chances={self.chances}: probabilities are not negative and sum to 1",
        )


def allocation(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw the next need, write the next state and return the reward."""
    return give(state, action, params, draw_need(params, rng), next_state)


def allocation_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw the next need into `outcome[0]`."""
    outcome[0] = draw_need(params, rng)
    return 0.0


@jit_kernel
def draw_need(params: Any, rng: Any) -> Any:
    """Return the next need."""
    n = int(params[_N])
    return params[_LAW + draw_index(params[_LAW + n : _LAW + 2 * n], rng)]


def allocation_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for the next need `outcome[0]` and return the reward."""
    return give(state, action, params, outcome[0], next_state)


def allocation_law(
    state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any
) -> None:
    """Fill in the probabilities of the needs, which are the same in every round."""
    n = int(params[_N])
    for i in range(n):
        weights[i] = params[_LAW + n + i]


@jit_inline
def give(state: Any, action: Any, params: Any, next_need: Any, next_state: Any) -> Any:
    """Write the next state for the next need `next_need` and return the reward."""
    given = min(action[0] * state[0], state[1])
    next_state[0] = max(state[0] - given, 0.0)
    next_state[1] = next_need
    return params[_VALUE] * math.sqrt(given * state[1])


class Allocation(GalleryEnv):
    """The environment `zooming/Allocation-v0`: divide a budget among needs that come one by one.

    Parameters
    ----------
    budget : float, default 100.0
        Total amount to give in all rounds together.
    needs, chances : sequence, default (10, 20, 40), (0.5, 0.3, 0.2)
        Possible needs of a round and their probabilities.
    value : float, default 1.0
        Value of a unit of need that is served in full.
    horizon : int, default 8
        Rounds of an episode.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Allocation-v0", needs=[20.0], chances=[1.0], budget=80.0)
    >>> round(env.unwrapped.closed_form(), 2)
    113.14
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(Settings, "Allocation", options)
        self.settings = s
        low, high = min(s.needs), max(s.needs)
        ends = np.array([0.0, low]), np.array([s.budget, max(high, 1.001 * low)])
        starts = [(s.budget, need) for need in s.needs], s.chances
        super().__init__(
            allocation, gym.spaces.Box(*ends, dtype=np.float64),
            gym.spaces.Box(0.0, 1.0, (1,), np.float64), s.horizon, start=starts,
            params=[s.value, len(s.needs), *s.needs, *s.chances], given=allocation_given,
            draw=allocation_draw,
            weigh=allocation_law, values=s.needs,
            reward_range=(0.0, s.value * math.sqrt(min(s.budget, high) * high)),
            name="allocation", resolution=120, render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
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
