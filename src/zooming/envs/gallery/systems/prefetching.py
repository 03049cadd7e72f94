"""Prefetch control: how far ahead of a program to fetch from memory.

The state is (x, q): the share x of accesses that continued a run lately, and the backlog q of the
memory bus, in periods of work. The action is the distance d, in lines. A line is in time
if d covers the latency, which grows with the backlog. Lines beyond the end of a run are waste:

    useful = x min(1, d / (latency (1 + q))),    waste = (1 - x) d / farthest,
    q' = clip(q + other + useful + load waste - bandwidth, 0, most_backlog),
    x' = x + mix (X - x),    r = useful - pollution waste - delay q'.

X is drawn from the windows of a trace, and `other`, the traffic of others, is 0.2, 0.5 or 0.8. The
rules that people use are fixed distances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import Decide, GalleryEnv, amount, count
from zooming.envs.gallery.systems.traces import trace_of
from zooming.kernels import jit_inline
from zooming.kernels.solve.laws import draw_index

_LATENCY, _FARTHEST, _LOAD, _WIDTH, _MOST, _MIX, _POLLUTION, _DELAY, _RUNS = range(9)  # in params
N_RUNS, N_OTHER = 6, 3  # outcomes: shares of runs, and traffic of others


@dataclass(frozen=True)
class Settings:
    """Numbers of the problem; see `Prefetching`."""

    latency: float = 2.0
    farthest: float = 16.0
    load: float = 2.0
    bandwidth: float = 1.2
    most_backlog: float = 4.0
    mix: float = 0.5
    pollution: float = 0.4
    delay: float = 0.2
    horizon: int = 12
    trace: str | None = None

    def __post_init__(self) -> None:
        amount(self, "latency", "the lines that pass while one is fetched", 1e-3, 1e4)
        amount(self, "farthest", "the largest distance, in lines", 1e-3, 1e4)
        amount(self, "load", "the traffic of fetching farthest lines in vain", 0.0, 100.0)
        amount(self, "bandwidth", "the traffic that the bus carries in a period", 1e-3, 100.0)
        amount(self, "most_backlog", "the largest backlog of the bus", 1e-3, 100.0)
        amount(self, "mix", "the share of the measured runs that a period replaces", 0.0, 1.0)
        amount(self, "pollution", "the cost of fetching farthest lines in vain", 0.0, 100.0)
        amount(self, "delay", "the cost of a unit of backlog", 0.0, 100.0)
        count(self, "horizon")


def prefetching(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw runs and traffic of others, write the next state and return the reward."""
    drawn = draw_index(np.ones(N_RUNS * N_OTHER), rng)
    return fetch(state, action, params, drawn // N_OTHER, drawn % N_OTHER, next_state)


def prefetching_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for `outcome` = (number of the runs, of the traffic); see `fetch`."""
    return fetch(state, action, params, int(outcome[0]), int(outcome[1]), next_state)


def prefetching_law(
    state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any
) -> None:
    """Fill in equal weights."""
    weights[:] = 1.0


@jit_inline
def fetch(state: Any, action: Any, params: Any, runs: Any, other: Any, next_state: Any) -> Any:
    """Write the next state and return hits minus the costs of waste and backlog."""
    needed = params[_LATENCY] * (1.0 + state[1])
    useful = state[0] * min(1.0, action[0] / needed)
    waste = (1.0 - state[0]) * action[0] / params[_FARTHEST]
    traffic = 0.2 + 0.3 * other + useful + params[_LOAD] * waste
    next_state[1] = min(max(state[1] + traffic - params[_WIDTH], 0.0), params[_MOST])
    next_state[0] = state[0] + params[_MIX] * (params[_RUNS + runs] - state[0])
    return useful - params[_POLLUTION] * waste - params[_DELAY] * next_state[1]


class Prefetching(GalleryEnv):
    """The environment `zooming/Prefetching-v0`: how far ahead to fetch from memory.

    Parameters
    ----------
    latency : float, default 2.0
        Lines that pass while one is fetched and the bus is free.
    farthest : float, default 16.0
        Largest distance, in lines.
    load, pollution : float, default 2.0, 0.4
        Traffic and cost of fetching `farthest` lines in vain.
    bandwidth, most_backlog : float, default 1.2, 4.0
        Traffic that the bus carries in a period, and its largest backlog.
    mix : float, default 0.5
        Share of the measured runs that a period replaces.
    delay : float, default 0.2
        Cost of a unit of backlog.
    horizon : int, default 12
        Periods of an episode. It begins with x = 1/2 and no backlog.
    trace : str, optional
        CSV file with the columns time, object and size, see `read_trace`. By default the trace that
        is shipped.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Prefetching-v0")
    >>> sorted(env.unwrapped.rules)
    ['distance 1', 'distance 2', 'distance 4', 'distance 8']
    """

    known: ClassVar[Mapping[str, tuple[float, ...]]] = {
        f"distance {d}": (float(d),) for d in (1, 2, 4, 8)
    }

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(Settings, "Prefetching", options)
        self.settings = s
        runs = trace_of(s.trace).runs(N_RUNS)
        numbers = [s.latency, s.farthest, s.load, s.bandwidth, s.most_backlog, s.mix, s.pollution]
        pairs = [(i, j) for i in range(N_RUNS) for j in range(N_OTHER)]
        space = gym.spaces.Box(np.zeros(2), np.array([1.0, s.most_backlog]), (2,), np.float64)
        super().__init__(
            prefetching, space, gym.spaces.Box(0.0, s.farthest, (1,), np.float64), s.horizon,
            start=[0.5, 0.0], params=[*numbers, s.delay, *runs], given=prefetching_given,
            weigh=prefetching_law, values=pairs, resolution=32,
            reward_range=(-s.pollution - s.delay * s.most_backlog, 1.0), name="prefetching",
            render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
        s = self.settings

        def distance(step: int, states: Any, numbers: Any) -> Any:
            return np.full(len(states), numbers[0])

        return "fixed distance", distance, {"distance": (s.latency, 0.0, s.farthest)}
