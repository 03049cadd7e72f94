"""Compiled rules of thumb: what they play, what they remember, and whole episodes of it.

A family of its own beside `kernels`: nothing here calls a kernel of that file, so Numba's disk cache cannot go stale.
Points are in the environment's units.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import float64, int64, types

from zooming.checks import ROUNDING
from zooming.kernels import BAD_REWARD, BAD_STATE, DYNAMICS, FINE, GENERATOR, START, compiled, fixed, lean

RANDOM, STAY, MEDIAN = 0, 1, 2


@compiled
def choose(rule, requests, n_requests, bounds, generator, state, action):
    """Writes the rule's action: anywhere, where the state is, or at the quantiles 1/2k, 3/2k, ... of the sorted requests.

    `bounds` has a row (low, high, 1 if only whole numbers are played) for each axis of the action.
    """
    k = action.shape[0]
    for i in range(k):
        if rule == RANDOM:
            low, high, reach = bounds[i, 0], bounds[i, 1], 0.5 * bounds[i, 2]
            action[i] = low - reach + generator.random() * (high + reach - (low - reach))
            if reach > 0.0:
                action[i] = min(high, max(low, np.floor(action[i] + 0.5)))
        elif rule == STAY or n_requests == 0:
            action[i] = state[i]
        else:
            place = (2 * i + 1) / (2 * k) * (n_requests - 1)
            below = np.int64(place)
            first, second = requests[below], requests[min(below + 1, n_requests - 1)]
            action[i] = first + (place - below) * (second - first)


@lean
def n_below(requests, n_requests, place, or_at):
    """How many of the sorted requests lie below a place, or at it as well."""
    first, last = 0, n_requests
    while first < last:
        middle = (first + last) // 2
        if requests[middle] < place or (or_at and requests[middle] == place):
            first = middle + 1
        else:
            last = middle
    return first


@lean
def insert(requests, n_requests, request):
    """Puts a request into its place among the sorted ones; the caller has made room."""
    place = n_below(requests, n_requests, request, True)
    for k in range(n_requests - place):
        i = np.uint64(n_requests - k)  # unsigned: no check for indices from the end, so that the loop becomes one move
        requests[i] = requests[i - np.uint64(1)]
    requests[place] = request


@lean
def see(requests, n_requests, action, next_state):
    """Inserts the requests of a step; how many there are then.

    A request is read off the next state: a coordinate that is not where the action put it. If there is none, the call came
    where an ambulance waited already: most likely where most calls came from before.
    """
    n_known = n_requests
    for i in range(next_state.shape[0]):
        if next_state[i] != action[i]:
            insert(requests, n_requests, next_state[i])
            n_requests += 1
    if n_requests > n_known:
        return n_requests
    place, most = next_state[0], -1
    for i in range(next_state.shape[0]):
        n_there = n_below(requests, n_known, next_state[i], True) - n_below(requests, n_known, next_state[i], False)
        if n_there > most:
            place, most = next_state[i], n_there
    insert(requests, n_requests, place)
    return n_requests + 1


@lean
def clip(bounds, point, clipped):
    """Writes the point with rounding outside the bounds clipped; the index of the first coordinate further out, or -1.

    Along an axis of whole numbers it writes the number; what is not whole is as bad.
    """
    for i in range(point.shape[0]):
        low, high = bounds[i, 0], bounds[i, 1]
        slack = ROUNDING * (high - low)
        if bounds[i, 2] == 1.0:
            clipped[i] = np.rint(point[i])
            if not (abs(point[i] - clipped[i]) <= ROUNDING and clipped[i] >= low and clipped[i] <= high):
                return i
        elif not (point[i] >= low - slack and point[i] <= high + slack):
            return i
        else:
            clipped[i] = min(high, max(low, point[i]))
    return -1


def _play(rule, requests, count, bounds, rewards, generator, dynamics, start, params, rng, n_steps, action, returns, trouble):
    """Plays len(returns) whole episodes; how many were finished, with the reason for fewer in `trouble`, as in `kernels`.

    `bounds` has a row (low, high, is whole) for each axis, the state's first; `action` is scratch. `requests` has room for all
    that may come, and count[0] of them are known.
    """
    n_state = bounds.shape[0] - action.shape[0]
    state = np.empty(n_state)
    next_state = np.empty(n_state)
    seen = np.empty(n_state)  # the state as the rule sees it: rounding clipped
    for episode in range(returns.shape[0]):
        start(params, rng, state)
        bad = clip(bounds, state, seen)
        if bad >= 0:
            trouble[0], trouble[1], trouble[2], trouble[3] = BAD_STATE, 0, bad, state[bad]
            return episode
        total = 0.0
        for step in range(n_steps):
            choose(rule, requests, count[0], bounds[n_state:], generator, seen, action)
            for i in range(n_state):
                next_state[i] = np.nan  # so that a coordinate that the dynamics forget to write is found
            reward = dynamics(state, action, step, params, rng, next_state)
            if not (reward >= rewards[0] and reward <= rewards[1]):
                trouble[0], trouble[1], trouble[3] = BAD_REWARD, step, reward
                return episode
            bad = clip(bounds, next_state, seen)
            if bad >= 0:
                trouble[0], trouble[1], trouble[2], trouble[3] = BAD_STATE, step + 1, bad, next_state[bad]
                return episode
            if rule == MEDIAN:
                count[0] = see(requests, count[0], action, seen)
            total += reward
            for i in range(n_state):
                state[i] = next_state[i]
        returns[episode] = total
    trouble[0] = FINE
    return returns.shape[0]


@functools.cache
def play() -> Callable[..., int]:
    """`_play`, compiled on first use."""
    vector, functions = float64[::1], (types.FunctionType(DYNAMICS), types.FunctionType(START))
    return fixed(
        _play, int64, vector, int64[::1], float64[:, ::1], vector, GENERATOR, *functions, vector, GENERATOR, int64,
        vector, vector, vector,
    )  # fmt: skip
