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

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count
from zooming.envs.gallery.systems.traces import TRACE, equal_weights, trace_of

N_RUNS, N_OTHER = 6, 3  # outcomes: shares of runs, and traffic of others


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Prefetching`."""

    latency: float = amount(2.0, "the lines that pass while one is fetched", 1e-3, 1e4)
    farthest: float = amount(16.0, "the largest distance, in lines", 1e-3, 1e4)
    load: float = amount(2.0, "the traffic of fetching farthest lines in vain", 0.0, 100.0)
    bandwidth: float = amount(1.2, "the traffic that the bus carries in a period", 1e-3, 100.0)
    most_backlog: float = amount(4.0, "the largest backlog of the bus", 1e-3, 100.0)
    mix: float = amount(0.5, "the share of the measured runs that a period replaces", 0.0, 1.0)
    pollution: float = amount(0.4, "the cost of fetching farthest lines in vain", 0.0, 100.0)
    delay: float = amount(0.2, "the cost of a unit of backlog", 0.0, 100.0)
    horizon: int = count(12, "periods of an episode; it begins with x = 1/2 and no backlog")
    trace: str | None = problem.option(None, "str", TRACE)


AT = problem.places(Settings, tail="runs")


def fetch(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for `outcome` = (runs, traffic), and return hits minus the costs."""
    needed = params[AT.latency] * (1.0 + state[1])
    useful = state[0] * min(1.0, action[0] / needed)
    waste = (1.0 - state[0]) * action[0] / params[AT.farthest]
    traffic = 0.2 + 0.3 * outcome[1] + useful + params[AT.load] * waste
    backlog = max(state[1] + traffic - params[AT.bandwidth], 0.0)
    next_state[1] = min(backlog, params[AT.most_backlog])
    runs = params[AT.runs + int(outcome[0])]
    next_state[0] = state[0] + params[AT.mix] * (runs - state[0])
    return useful - params[AT.pollution] * waste - params[AT.delay] * next_state[1]


class Prefetching(GalleryEnv):
    """The environment `zooming/Prefetching-v0`: how far ahead to fetch from memory.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Prefetching-v0")
    >>> sorted(env.unwrapped.rules)
    ['distance 1', 'distance 2', 'distance 4', 'distance 8']
    """

    model = Model(Settings, AT, fetch, equal_weights)
    known: ClassVar[Mapping[str, tuple[float, ...]]] = {
        f"distance {d}": (float(d),) for d in (1, 2, 4, 8)
    }

    def _layout(self, s: Any) -> Layout:
        return Layout(
            problem.box([0.0, 0.0], [1.0, s.most_backlog]), problem.box(0.0, s.farthest),
            start=[0.5, 0.0], values=[(i, j) for i in range(N_RUNS) for j in range(N_OTHER)],
            reward_range=(-s.pollution - s.delay * s.most_backlog, 1.0), resolution=32,
            tail=trace_of(s.trace).runs(N_RUNS).tolist(),
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        s = self.settings

        def distance(step: int, states: Any, numbers: Any) -> Any:
            return np.full(len(states), numbers[0])

        return "fixed distance", distance, {"distance": (s.latency, 0.0, s.farthest)}
