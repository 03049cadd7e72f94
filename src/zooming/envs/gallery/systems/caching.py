"""Cache admission: which requests to let into a cache that evicts the least recently used object.

The state is the pressure x on the cache: the share of the requested bytes that was admitted lately.
The action is a threshold a on the score of a request, which grows with the frequency of its object
and falls with its size and with the time since its last request (`Trace.classes`). In a period, one
block of the trace is played. Requests of class j, of score s_j, are admitted with probability

    p_j = min(1, max(0, 1 + (s_j - a) / softness)),    z = sum_j p_j size_j / sum_j size_j,
    x' = keep x + (1 - keep) z.

After T = capacity / max(x', 1/100) requests everything in the cache has been replaced, so that an
object of request rate f is still there at its next request with probability 1 - exp(-f T). This is
Che's approximation of LRU. With writes that cost `write_cost`,

    r = mean_j p_j (1 - exp(-f_j T)) - write_cost z.

Admitting everything (a = 0) is LRU. A constant threshold is admission by frequency, as in TinyLFU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count
from zooming.envs.gallery.systems.traces import TRACE, equal_weights, trace_of

N_CLASSES = 16  # classes of requests in a block
LEAST_PRESSURE = 0.01


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Caching`."""

    capacity: float = amount(60.0, "the room of the cache, in requests of mean size", 1e-3, 1e6)
    write_cost: float = amount(0.1, "the cost of writing all requests, in hits", 0.0, 10.0)
    keep: float = amount(0.6, "the share of the pressure that stays for a period", 0.0, 0.99)
    softness: float = amount(0.1, "the width in which admission is random", 1e-3, 1.0)
    blocks: int = count(8, "parts of the trace; a period plays one of them at random", 1, 64)
    start: float = amount(1.0, "the pressure before the first period", 0.0, 1.0)
    horizon: int = count(12, "periods of an episode")
    trace: str | None = problem.option(None, "str", TRACE)


AT = problem.places(Settings, tail="classes")


def admit(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next pressure for block `outcome[0]` and return hits minus the cost of writing."""
    first = AT.classes + 3 * N_CLASSES * int(outcome[0])
    soft = params[AT.softness]
    written, total = 0.0, 0.0
    for j in range(N_CLASSES):
        share = min(1.0, max(0.0, 1.0 + (params[first + 3 * j] - action[0]) / soft))
        written += share * params[first + 3 * j + 2]
        total += params[first + 3 * j + 2]
    written /= total
    next_state[0] = params[AT.keep] * state[0] + (1.0 - params[AT.keep]) * written
    stay = params[AT.capacity] / max(next_state[0], LEAST_PRESSURE)
    hits = 0.0
    for j in range(N_CLASSES):
        share = min(1.0, max(0.0, 1.0 + (params[first + 3 * j] - action[0]) / soft))
        hits += share * (1.0 - math.exp(-params[first + 3 * j + 1] * stay))
    return hits / N_CLASSES - params[AT.write_cost] * written


class Caching(GalleryEnv):
    """The environment `zooming/Caching-v0`: which requests to admit to a cache.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Caching-v0")
    >>> sorted(env.unwrapped.rules)
    ['LFU admission', 'LRU']
    """

    model = Model(Settings, AT, admit, equal_weights)
    known: ClassVar[Mapping[str, tuple[float, ...]]] = {"LRU": (0.0,), "LFU admission": (0.3,)}

    def _layout(self, s: Any) -> Layout:
        classes = trace_of(s.trace).classes(s.blocks, N_CLASSES)
        most = 1.0 - np.exp(-classes[:, :, 1] * s.capacity / LEAST_PRESSURE).mean(axis=1)
        unit = problem.box(0.0, 1.0)
        return Layout(
            unit, unit, start=[s.start], values=range(s.blocks),
            reward_range=(-s.write_cost, float(most.max())), resolution=60,
            tail=classes.ravel().tolist(),
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        def threshold(step: int, states: Any, numbers: Any) -> Any:
            return np.full(len(states), numbers[0])

        return "LFU admission", threshold, {"threshold": (0.3, 0.0, 1.0)}
