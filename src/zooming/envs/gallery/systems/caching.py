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

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import Decide, GalleryEnv, amount, count
from zooming.envs.gallery.systems.traces import trace_of
from zooming.kernels import jit_inline
from zooming.kernels.solve.laws import draw_index

_CAPACITY, _KEEP, _SOFT, _WRITE, _N_BLOCKS, _N_CLASSES, _CLASSES = range(7)  # places in params
N_CLASSES = 16  # classes of requests in a block
LEAST_PRESSURE = 0.01


@dataclass(frozen=True)
class Settings:
    """Numbers of the problem; see `Caching`."""

    capacity: float = 60.0
    write_cost: float = 0.1
    keep: float = 0.6
    softness: float = 0.1
    blocks: int = 8
    start: float = 1.0
    horizon: int = 12
    trace: str | None = None

    def __post_init__(self) -> None:
        amount(self, "capacity", "the room of the cache, in requests of mean size", 1e-3, 1e6)
        amount(self, "write_cost", "the cost of writing all requests, in hits", 0.0, 10.0)
        amount(self, "keep", "the share of the pressure that stays for a period", 0.0, 0.99)
        amount(self, "softness", "the width in which admission is random", 1e-3, 1.0)
        amount(self, "start", "the pressure before the first period", 0.0, 1.0)
        count(self, "blocks", 1, 64)
        count(self, "horizon")


def caching(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw a block of the trace, write the next pressure and return the reward."""
    weights = np.ones(int(params[_N_BLOCKS]))
    return admit(state, action, params, draw_index(weights, rng), next_state)


def caching_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next pressure for block `outcome[0]` and return the reward."""
    return admit(state, action, params, int(outcome[0]), next_state)


def caching_law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in equal weights: all blocks of the trace are equally likely."""
    weights[:] = 1.0


@jit_inline
def admit(state: Any, action: Any, params: Any, block: Any, next_state: Any) -> Any:
    """Write the next pressure and return the hits minus the cost of writing."""
    n = int(params[_N_CLASSES])
    first = _CLASSES + 3 * n * block
    written, total = 0.0, 0.0
    for j in range(n):
        share = min(1.0, max(0.0, 1.0 + (params[first + 3 * j] - action[0]) / params[_SOFT]))
        written += share * params[first + 3 * j + 2]
        total += params[first + 3 * j + 2]
    written /= total
    next_state[0] = params[_KEEP] * state[0] + (1.0 - params[_KEEP]) * written
    stay = params[_CAPACITY] / max(next_state[0], LEAST_PRESSURE)
    hits = 0.0
    for j in range(n):
        share = min(1.0, max(0.0, 1.0 + (params[first + 3 * j] - action[0]) / params[_SOFT]))
        hits += share * (1.0 - math.exp(-params[first + 3 * j + 1] * stay))
    return hits / n - params[_WRITE] * written


class Caching(GalleryEnv):
    """The environment `zooming/Caching-v0`: which requests to admit to a cache.

    Parameters
    ----------
    capacity : float, default 60.0
        Room of the cache, in requests of mean size.
    write_cost : float, default 0.1
        Cost of writing all requests of a period, in hits per request.
    keep : float, default 0.6
        Share of the pressure that stays for a period.
    softness : float, default 0.1
        Width of the scores in which admission is random.
    blocks : int, default 8
        Parts of the trace; a period plays one of them at random.
    start : float, default 1.0
        Pressure before the first period.
    horizon : int, default 12
        Periods of an episode.
    trace : str, optional
        CSV file with the columns time, object and size, see `read_trace`. By default the trace that
        is shipped.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Caching-v0")
    >>> sorted(env.unwrapped.rules)
    ['LFU admission', 'LRU']
    """

    known: ClassVar[Mapping[str, tuple[float, ...]]] = {"LRU": (0.0,), "LFU admission": (0.3,)}

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(Settings, "Caching", options)
        self.settings = s
        classes = trace_of(s.trace).classes(s.blocks, N_CLASSES)
        most = 1.0 - np.exp(-classes[:, :, 1] * s.capacity / LEAST_PRESSURE).mean(axis=1)
        numbers = [s.capacity, s.keep, s.softness, s.write_cost, s.blocks, N_CLASSES]
        unit = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
        super().__init__(
            caching, unit, unit, s.horizon, start=[s.start], params=[*numbers, *classes.ravel()],
            given=caching_given, weigh=caching_law, values=range(s.blocks), resolution=60,
            reward_range=(-s.write_cost, float(most.max())), name="caching",
            render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
        def threshold(step: int, states: Any, numbers: Any) -> Any:
            return np.full(len(states), numbers[0])

        return "LFU admission", threshold, {"threshold": (0.3, 0.0, 1.0)}
