"""Compiled heuristics: their actions, their memory, and whole episodes.

The median stores requests as two sorted runs in one array: requests[: count[1]] are old, and
requests[count[1] : count[0]] are new. A request is inserted into the new run. The new run is merged
into the old one when it has about 4 sqrt(n) entries. With a single run, a long training would move
megabytes at every step. count[2] is the number of episodes begun.

Points are in the environment's units.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import float64, int64

from zooming.kernels.crossing import HANDLE, unpack
from zooming.kernels.jit import jit_kernel, jit_no_refcount, jit_with_signature
from zooming.kernels.layout import BAD_REWARD, BAD_STATE, FINE, ROUNDING
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
    k, n_requests = action.shape[0], count[0]
    for i in range(k):
        if rule == STAY or n_requests == 0:
            action[i] = state[i]
        else:
            place = (2 * i + 1) / (2 * k) * (n_requests - 1)
            below = np.int64(place)
            first, second = ranked(requests, count, below)
            action[i] = first + (place - below) * (second - first)


@jit_no_refcount
def ranked(requests, count, rank):
    """Return the request of rank `rank` (from 0) and the next one; the last one comes twice."""
    n_requests, n_old = count[0], count[1]
    least, most = max(0, rank - n_old), min(rank, n_requests - n_old)
    while least < most:  # bisect for the number of new requests among the first `rank`
        n_new = (least + most) // 2
        if requests[n_old + n_new] < requests[rank - n_new - 1]:
            least = n_new + 1
        else:
            most = n_new
    old, new = rank - least, n_old + least
    is_old = new == n_requests or (old < n_old and requests[old] <= requests[new])
    first = requests[old] if is_old else requests[new]
    if is_old:
        old += 1
    else:
        new += 1
    if old < n_old and (new == n_requests or requests[old] <= requests[new]):
        return first, requests[old]
    return first, requests[new] if new < n_requests else first


@jit_no_refcount
def insertion_point(requests, first, last, place, or_at):
    """Return the insertion point of `place` in the sorted requests[first:last].

    It is behind equal entries if `or_at`, else before them.
    """
    while first < last:
        middle = (first + last) // 2
        if requests[middle] < place or (or_at and requests[middle] == place):
            first = middle + 1
        else:
            last = middle
    return first


@jit_no_refcount
def n_at(requests, count, place):
    """Return the number of requests equal to `place`."""
    n_old = insertion_point(requests, 0, count[1], place, True) - insertion_point(
        requests, 0, count[1], place, False
    )
    return (
        n_old
        + insertion_point(requests, count[1], count[0], place, True)
        - insertion_point(requests, count[1], count[0], place, False)
    )


@jit_kernel
def insert(requests, count, request):
    """Insert a request into the new run, and merge the runs if the new one is long.

    The caller has reserved room.
    """
    n_requests = count[0]
    place = insertion_point(requests, count[1], n_requests, request, True)
    for k in range(n_requests - place):
        i = np.uint64(n_requests - k)  # unsigned indices need no wraparound: compiles to a memmove
        requests[i] = requests[i - np.uint64(1)]
    requests[place] = request
    count[0] += 1
    n_new = count[0] - count[1]
    if n_new >= 64 and n_new * n_new > 16 * count[0]:
        merge(requests, count)


@jit_kernel
def merge(requests, count):
    """Merge the two sorted runs into one, from the end.

    Old requests below every new one stay where they are.
    """
    new = requests[count[1] : count[0]].copy()
    left, old, place = len(new), count[1], count[0]
    while left > 0:
        place -= 1
        if old > 0 and requests[old - 1] > new[left - 1]:
            old -= 1
            requests[place] = requests[old]
        else:
            left -= 1
            requests[place] = new[left]
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
    place, most = next_state[0], -1
    for i in range(next_state.shape[0]):
        n_there = n_at(requests, count, next_state[i])
        if n_there > most:
            place, most = next_state[i], n_there
    insert(requests, count, place)


@jit_no_refcount
def clip(bounds, point, clipped):
    """Write the point with rounding errors clipped to the bounds.

    Return the index of the first coordinate that is further outside, or -1. On an axis of integers,
    write the integer; a value that is not an integer is bad, too.
    """
    for i in range(point.shape[0]):
        low, high = bounds[i, 0], bounds[i, 1]
        slack = ROUNDING * (high - low)
        if bounds[i, 2] == 1.0:
            clipped[i] = np.rint(point[i])
            if not (
                abs(point[i] - clipped[i]) <= ROUNDING and clipped[i] >= low and clipped[i] <= high
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
