"""Compiled heuristics: their actions, their memory, and whole episodes.

The median keeps its requests in two sorted runs: requests[: count[1]], and the newest of them in
requests[count[1] : count[0]]. An insertion moves at most the newest, and the runs become one when
these are many. With one run alone, a long training would move megabytes at every step. count[2] is
the number of episodes begun.

Points are in the environment's units.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import float64, int64

from zooming.kernels.crossing import HANDLE, unpack
from zooming.kernels.jit import jit_kernel, jit_no_refcount, jit_with_signature
from zooming.kernels.layout import BAD_REWARD, BAD_STATE, BOUND_TOLERANCE, FINE
from zooming.kernels.update_rule import learned_reward

RANDOM, STAY, MEDIAN = 0, 1, 2


@jit_kernel
def draw(bounds, generator, action):
    """Write an action drawn uniformly.

    `bounds` has a row (low, high, 1 for an axis of integers) for each axis of the action.
    """
    for i in range(action.shape[0]):
        low, high, reach = bounds[i, 0], bounds[i, 1], 0.5 * bounds[i, 2]
        action[i] = low - reach + generator.random() * (high + reach - (low - reach))
        if reach > 0.0:
            action[i] = min(high, max(low, np.floor(action[i] + 0.5)))


@jit_kernel
def choose(rule, requests, count, state, action):
    """Write the action of STAY or of MEDIAN.

    STAY plays the state. MEDIAN plays the quantiles 1/2k, 3/2k, ... of the requests, or the state
    if there are none.
    """
    k, last = action.shape[0], count[0] - 1
    for i in range(k):
        if rule == STAY or last < 0:
            action[i] = state[i]
        else:
            place = (2 * i + 1) / (2 * k) * last
            below = np.int64(place)
            first = ranked(requests, count, below)
            second = ranked(requests, count, min(below + 1, last))
            action[i] = first + (place - below) * (second - first)


@jit_no_refcount
def ranked(requests, count, rank):
    """Return the request of rank `rank`, from 0, of both runs together."""
    n_old = count[1]
    least, most = max(0, rank + 1 - n_old), min(rank + 1, count[0] - n_old)
    while least < most:  # bisect for the number of new requests among the rank + 1 smallest
        n_new = (least + most) // 2
        if requests[n_old + n_new] < requests[rank - n_new]:
            least = n_new + 1
        else:
            most = n_new
    if least == 0 or (least <= rank and requests[rank - least] > requests[n_old + least - 1]):
        return requests[rank - least]
    return requests[n_old + least - 1]


@jit_kernel
def insert(requests, count, request):
    """Insert a request into the new run. The caller has reserved room."""
    n_larger = count[0] - count[1]
    n_larger -= np.searchsorted(requests[count[1] : count[0]], request, "right")
    for k in range(n_larger):
        i = np.uint64(count[0] - k)  # unsigned indices need no wraparound: compiles to a memmove
        requests[i] = requests[i - np.uint64(1)]
    requests[count[0] - n_larger] = request
    count[0] += 1
    if (count[0] - count[1]) ** 2 > 16 * count[0] + 4096:
        merge(requests, count)


@jit_kernel
def merge(requests, count):
    """Merge the two sorted runs into one, from the end."""
    new, old, place = requests[count[1] : count[0]].copy(), count[1], count[0]
    for request in new[::-1]:
        while old > 0 and requests[old - 1] > request:
            old, place = old - 1, place - 1
            requests[place] = requests[old]
        place -= 1
        requests[place] = request
    count[1] = count[0]


@jit_kernel
def see(requests, count, step, action, next_state):
    """Insert the requests of one step. Count an episode if it is step 0.

    A request is a coordinate of the next state that differs from the action. If there is none, the
    call came from the position of an ambulance. Then take the position with the most requests so
    far, which is the most likely.
    """
    if step == 0:
        count[2] += 1
    n_known = count[0]
    for i in range(next_state.shape[0]):
        if next_state[i] != action[i]:
            insert(requests, count, next_state[i])
    if count[0] > n_known:
        return
    request, most = next_state[0], -1
    for place in next_state:
        n_there = 0
        for run in (requests[: count[1]], requests[count[1] : count[0]]):
            n_there += np.searchsorted(run, place, "right") - np.searchsorted(run, place, "left")
        if n_there > most:
            request, most = place, n_there
    insert(requests, count, request)


@jit_no_refcount
def clip(bounds, point, clipped):
    """Write the point with rounding errors clipped to the bounds.

    Return the index of the first coordinate that is further outside, or -1. On an axis of integers,
    write the integer; a value that is not an integer is bad, too.
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


def _play(
    rule, requests, count, bounds, rewards, own_handle, handle, params, n_steps, action, returns,
    done, end, trouble,
    clipping,
):  # fmt: skip
    """Play whole episodes until done[0] equals `end`; return a code, as `episodes._play` does.

    `own_handle` has the agent's own generator, `handle` the environment. `bounds` has a row (low,
    high, 1 for integers) for each axis, the state's first. `action` is scratch memory. `requests`
    has room for all requests of these episodes.
    """
    generator, _, _ = unpack(own_handle)
    rng, dynamics, start = unpack(handle)
    n_state = bounds.shape[0] - action.shape[0]
    state = np.empty(n_state)
    next_state = np.empty(n_state)
    seen = np.empty(n_state)  # the state with rounding errors clipped
    while done[0] < end:
        start(params, rng, state)
        bad = clip(bounds, state, seen)
        if bad >= 0:
            trouble[0], trouble[1], trouble[2] = 0, bad, state[bad]
            return BAD_STATE
        total = 0.0
        for step in range(n_steps):
            if rule == RANDOM:
                draw(bounds[n_state:], generator, action)
            else:
                choose(rule, requests, count, seen, action)
            for i in range(n_state):
                next_state[i] = np.nan  # reveals a coordinate that the dynamics do not write
            reward = dynamics(state, action, step, params, rng, next_state)
            learned = learned_reward(reward, rewards[0], rewards[1], clipping)
            if np.isnan(learned):
                trouble[0], trouble[2] = step, reward
                return BAD_REWARD
            bad = clip(bounds, next_state, seen)
            if bad >= 0:
                trouble[0], trouble[1], trouble[2] = step + 1, bad, next_state[bad]
                return BAD_STATE
            if learned != reward:
                clipping[1] += 1
            if rule == MEDIAN:
                see(requests, count, step, action, seen)
            elif step == 0:
                count[2] += 1
            total += reward
            for i in range(n_state):
                state[i] = next_state[i]
        returns[done[0]] = total
        done[0] += 1
    return FINE


@functools.cache
def play() -> Callable[..., int]:
    """Return `_play`, compiled on first use."""
    vector, whole = float64[::1], int64[::1]
    return jit_with_signature(
        _play, int64, vector, whole, float64[:, ::1], vector, HANDLE, HANDLE, vector, int64,
        vector, vector, whole, int64,
        vector, whole,
    )  # fmt: skip
