"""Compiled heuristics: their actions, their memory, and whole episodes.

The median keeps its requests sorted in requests[: count[0]]. count[1] is the number of episodes
begun. Points are in the environment's units.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, types

from zooming.kernels.boxes.layout import BOUND_TOLERANCE
from zooming.kernels.loop.crossing import HANDLE, unpack
from zooming.kernels.loop.episodes import Parts, itself, make_play, no_split
from zooming.kernels.loop.jit import jit_inline, jit_kernel, jit_no_refcount

RANDOM, STAY, MEDIAN = 0, 1, 2


@jit_kernel
def draw(bounds, generator, action):
    """Write a uniform action. A row of `bounds` is (low, high, 1 for an axis of integers)."""
    for i in range(action.shape[0]):
        low, high, reach = bounds[i, 0], bounds[i, 1], 0.5 * bounds[i, 2]
        action[i] = low - reach + generator.random() * (high + reach - (low - reach))
        if reach > 0.0:
            action[i] = min(high, max(low, np.floor(action[i] + 0.5)))


@jit_kernel
def choose(rule, requests, count, state, action):
    """Write the action of the rule STAY, the state, or MEDIAN.

    MEDIAN plays the quantiles 1/2k, 3/2k, ... of the requests, or the state if there are none.
    """
    k, last = action.shape[0], count[0] - 1
    for i in range(k):
        if rule == STAY or last < 0:
            action[i] = state[i]
        else:
            place = (2 * i + 1) / (2 * k) * last
            below = np.int64(place)
            first, second = requests[below], requests[min(below + 1, last)]
            action[i] = first + (place - below) * (second - first)


@jit_kernel
def insert(requests, count, request):
    """Insert a request. The caller has reserved room."""
    place = np.searchsorted(requests[: count[0]], request, "right")
    for i in range(count[0], place, -1):
        requests[np.uint64(i)] = requests[np.uint64(i - 1)]  # unsigned: compiles to a memmove
    requests[place] = request
    count[0] += 1


@jit_kernel
def see(requests, count, step, action, next_state):
    """Insert the requests of one step. Count an episode if it is step 0.

    A request is a coordinate of the next state that differs from the action. If all are equal, the
    call came from an ambulance's position: insert the one with the most requests so far.
    """
    if step == 0:
        count[1] += 1
    n_known = count[0]
    for i in range(next_state.shape[0]):
        if next_state[i] != action[i]:
            insert(requests, count, next_state[i])
    if count[0] > n_known:
        return
    known = requests[: count[0]]
    request, most = next_state[0], -1
    for place in next_state:
        n_there = np.searchsorted(known, place, "right") - np.searchsorted(known, place, "left")
        if n_there > most:
            request, most = place, n_there
    insert(requests, count, request)


@jit_no_refcount
def clip(bounds, point, clipped):
    """Write the point, clipped to the bounds or rounded to an integer.

    Return the index of the first coordinate that is outside, or no integer, beyond rounding, or -1.
    """
    for i in range(point.shape[0]):
        low, high = bounds[i, 0], bounds[i, 1]
        slack = BOUND_TOLERANCE * (high - low)
        if bounds[i, 2] == 1.0:
            clipped[i] = np.rint(point[i])
            if not (
                abs(point[i] - clipped[i]) <= BOUND_TOLERANCE
                and clipped[i] >= low
                and clipped[i] <= high
            ):
                return i
        elif not (point[i] >= low - slack and point[i] <= high + slack):
            return i
        else:
            clipped[i] = min(high, max(low, point[i]))
    return -1


class Memory(NamedTuple):
    """The memory of a heuristic: its rule, the requests, the bounds of the axes, its generator."""

    rule: Any  # int64
    requests: Any  # float64, with room for all requests of the coming episodes
    count: Any  # int64 [2]
    bounds: Any  # float64 [n_axes, 3]: (low, high, 1 for integers), states first
    seen: Any  # float64 [n_state]: the state with rounding errors clipped
    generator: Any  # for RANDOM


@jit_kernel
def open_memory(handle):
    """Return the record of a handle. Its last entry is the `Crossing.handle` of the generator."""
    rule, requests, count, bounds, seen, own = handle
    generator, _, _ = unpack(own)
    return Memory(rule, requests, count, bounds, seen, generator)


# Heuristics have no balls: ties, rows and values are 0, and nothing is split.


@jit_inline
def options(t):
    """Return (0, rule)."""
    return 0, t.rule


@jit_inline
def has_room(t, n_splits):
    """Return True."""
    return True


@jit_inline
def read(t, point):
    """Read a state into scratch memory. Return the index of a bad coordinate, or -1."""
    return clip(t.bounds, point, t.seen)


@jit_inline
def best(t, step, ties):
    """Return row 0 and value 0."""
    return np.int64(0), 0.0


@jit_inline
def act(t, row, step, rule, action):
    """Write the action of the rule."""
    if rule == RANDOM:
        draw(t.bounds[t.seen.shape[0] :], t.generator, action)
    else:
        choose(rule, t.requests, t.count, t.seen, action)
    return row


@jit_inline
def learn(t, step, row, reward, next_value, action):
    """Learn from the state that was read last. Return False."""
    if t.rule == MEDIAN:
        see(t.requests, t.count, step, action, t.seen)
    elif step == 0:
        t.count[1] += 1
    return False


@jit_inline
def n_balls(t):
    """Return 0."""
    return 0


PARTS = Parts(open_memory, itself, options, has_room, read, best, act, learn, no_split, n_balls)


@functools.cache
def play() -> Callable[..., int]:
    """Return `episodes.play` for heuristics, compiled on first use."""
    vector = float64[::1]
    handle = types.Tuple((int64, vector, int64[::1], float64[:, ::1], vector, HANDLE))
    return make_play("heuristics", PARTS, handle)
