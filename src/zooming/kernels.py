"""Compiled core: the ball table, selection, the update rule, the split, and whole episodes.

One structured array holds every ball of an agent, one row each. Rows 0 to H-1 are the roots of the H partitions. A split
ball becomes an inner row of a binary tree: it carries an axis, a threshold and the row of its first child, and its `value`
is from then on the largest Q below it. Selection is therefore branch and bound: go to the better child first, skip what
cannot win. Two siblings lie in rows (2i, 2i + 1), so one cache line holds both and `row ^ 1` is the sibling.

    alpha_t = (H + 1) / (H + t)                                      the first visit replaces Q
    Q(B) <- (1 - alpha_t) Q(B) + alpha_t (r + V(x') + b(t))          b(t) = bonus / sqrt(t), or exact_bonus, bernstein_bonus
    V(x) = min(cap, max of Q over the balls relevant for x)
    split B, after its update, when n(B) >= (d_max / diam(B))^2 = 4^depth for cubes   [SBY19 Alg. 1]

All states and actions here are points of the unit cube, except where a docstring says "environment's units". The k-th of m
whole values of an axis is the point (k + 1/2) / m, and borders lie between values. The metric is the largest weighted
distance along an axis, with d_max = 1; an atom (a single value) has length 0. Kernels
validate nothing but what they must look at anyway (points and rewards): they answer with a code, the Python edge explains.
All kernels live in this one file because Numba's disk cache does not notice edits in other files.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba import float64, int64, types, void

from zooming.checks import ROUNDING

BALL = np.dtype(
    [
        ("value", "f8"),  # Q of an active ball; of an inner row, the largest Q below it
        # Inner rows: points with coordinate >= threshold belong to the second child. Active balls: the n(B) that makes it due.
        ("threshold", "f8"),
        ("n_visits", "u4"),  # n(B), ancestors included; stays at 2^32 - 1, so no ball gets deeper than 16
        ("child", "i4"),  # first of two consecutive rows, or ACTIVE
        ("parent", "i4"),  # or NO_PARENT for a root
        ("depth", "u1"),  # splits above it, up to 255; a cube's radius is 2^-depth
        ("axis", "u1"),  # inner rows: the axis that the threshold cuts
    ],
    align=True,
)
CORE = np.dtype(
    [
        ("n_rows", "i8"),
        ("n_balls", "i8"),  # active balls, all steps together
        ("max_balls", "i8"),
        ("random", "u8"),  # state of the agent's own generator
        ("horizon", "i8"),
        ("n_state", "i8"),  # axes 0 .. n_state-1 are the state's, then n_action of the action's
        ("n_action", "i8"),
        ("ties", "i8"),
        ("action_rule", "i8"),
        ("full_cap", "i8"),  # 1: values are capped by H as in the paper; 0: by the number of steps left
        ("cubes", "i8"),  # 1: every ball is a cube of side 2^-depth
        ("rule", "i8"),  # how a ball is split: ALL, LONGEST, OWN
        ("split_axes", "i8"),  # the most axes that the kernel halves at once; 0 if the Python edge splits
        (
            "bonus_rule",
            "i8",
        ),  # SCALED: bonus / sqrt(t); EXACT, BERNSTEIN: by the visits of each ball, in `stats`
        ("bonus", "f8"),  # per_root_iota sqrt(iota) + plain
        ("spacing", "f8"),  # of a net, whose balls are never due; 0: no net
        ("reward_low", "f8"),
        ("reward_high", "f8"),
        ("episode", "i8"),  # begun so far: updates of step 0
        ("first_iota", "f8"),  # if K is not known, iota_k = first_iota + 2 log k in episode k; else 0
        # What only some bonuses need comes last, away from what every step reads.
        ("iota", "f8"),
        ("per_root_iota", "f8"),
        ("plain", "f8"),
        ("phase", "i8"),  # of the doubling trick
        ("reward_span", "f8"),
        ("reward_spread", "f8"),  # exact bonus: the range of the reward around its mean, in spans
        ("lipschitz", "f8"),  # exact bonus: L
        ("c1", "f8"),  # Bernstein's constants
        ("c2", "f8"),
    ],
    align=True,
)
N_STATS = 3  # numbers that the exact and the Bernstein bonus keep per ball
ACTIVE, NO_PARENT = 0, -1
SCALED, EXACT, BERNSTEIN = 0, 1, 2
RANDOM, FIRST, EITHER = 0, 1, 2  # ties: equally likely; the first from low to high, split by split; the one found soonest
CENTER, UNIFORM, CORNER = 0, 1, 2  # the action played in a ball
ALL, LONGEST, OWN = 0, 1, 2  # split rules: every side longer than half the diameter; the longest side; a rule of the user's
FINE, FULL, BAD_REWARD, BAD_STATE = 0, 1, 2, 3  # why `play` and `update` came back
DUE = -1  # from `play`: trouble[1] is a ball to split by the user's own rule; from `update`: DUE - row is
WRONG_SIZE = -(2**40)
NOWHERE = -(2**40)  # from `choose`: no ball has a feasible action
# Columns of `axes`: unit = (x - low) / width; weight in the metric; number of whole values (0: an interval); 1 for float32.
LOW, WIDTH, WEIGHT, ATOMS, SINGLE = 0, 1, 2, 3, 4
FIRST_VALUE = 2  # columns of `allowed`, a row per action axis: LOW and the high end of what is feasible, then a mask of values
MAX_VISITS = 2**32 - 1
SAME = 1e-9  # lengths this close to each other are equal up to rounding

Function = TypeVar("Function", bound=Callable[..., Any])
GENERATOR = types.npy_rng
DYNAMICS = float64(float64[::1], float64[::1], int64, float64[::1], GENERATOR, float64[::1])
GIVEN = float64(float64[::1], float64[::1], int64, float64[::1], float64[::1], float64[::1])
START = void(float64[::1], GENERATOR, float64[::1])

PLAIN = bool(numba.config.DISABLE_JIT)
compiled = numba.njit(cache=True, error_model="numpy", nogil=True)
# For kernels that allocate nothing: counting references to their array arguments would take a third of the time.
lean = numba.njit(cache=True, error_model="numpy", nogil=True, _nrt=False)
# For those on the path of every step: left to itself, the compiler calls some of them, and loses a sixth of the time.
inlined: Callable[[Function], Function] = numba.njit(cache=True, error_model="numpy", nogil=True, _nrt=False, forceinline=True)


@lean
def draw(core):
    """The next 64 random bits of the agent's generator (SplitMix64)."""
    z = core[0]["random"] + np.uint64(0x9E3779B97F4A7C15)
    core[0]["random"] = z
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


if PLAIN:
    draw = np.errstate(over="ignore")(draw)  # it wraps around, which compiled code does without a word


@inlined
def to_unit(axes, first_axis, point, unit):
    """Writes `point` (environment's units) into the unit cube; the index of the first bad coordinate, or -1.

    Rounding just outside a bound is clipped; NaN, infinities and anything further out are bad, and so is what is not whole
    along an axis of whole values.
    """
    for i in range(unit.shape[0]):
        u = (point[i] - axes[first_axis + i, LOW]) / axes[first_axis + i, WIDTH]
        if not (u >= -ROUNDING and u <= 1.0 + ROUNDING):
            return i
        if axes[first_axis + i, ATOMS] > 0.0 and abs(point[i] - np.rint(point[i])) > ROUNDING:
            return i
        unit[i] = min(1.0, max(0.0, u))
    return -1


@compiled
def bend(points, bends, first_axis):
    """Clips and squashes many points in place (environment's units); NaN and infinities stay, to be refused.

    A row of `bends` is (scale, low, high, largest). Scale 0 clips to [low, high]. Else the axis lacks an end, or both, and is
    squashed to [0, 1]: z / (1 + |z|), with z the distance in scales from the end that it has, or from 0.
    """
    for i in range(points.shape[1]):
        scale, low, high = bends[first_axis + i, 0], bends[first_axis + i, 1], bends[first_axis + i, 2]
        for k in range(points.shape[0]):
            x = points[k, i]
            if not np.isfinite(x):
                continue
            if scale == 0.0:
                points[k, i] = min(high, max(low, x))
            elif np.isfinite(low):
                z = (x - low) / scale
                points[k, i] = z / (1.0 + abs(z))
            elif np.isfinite(high):
                z = (high - x) / scale
                points[k, i] = 1.0 - z / (1.0 + abs(z))
            else:
                z = x / scale
                points[k, i] = 0.5 + 0.5 * z / (1.0 + abs(z))


@compiled
def unbend(points, bends, first_axis):
    """The way back from [0, 1] of what `bend` squashed; an end that is not there is a million scales away."""
    for i in range(points.shape[1]):
        scale, low, high, largest = bends[first_axis + i]
        if scale == 0.0:
            continue
        for k in range(points.shape[0]):
            u = points[k, i]
            if not np.isfinite(u):
                continue
            share = u if np.isfinite(low) else 1.0 - u if np.isfinite(high) else 2.0 * u - 1.0
            z = share / max(1.0 - abs(share), 1e-6) * scale
            x = low + z if np.isfinite(low) else high - z if np.isfinite(high) else z
            points[k, i] = min(high, largest, max(low, -largest, x))


@lean
def ceiling(core, step):
    """The largest return from `step` on: what a root starts with, and the cap of V."""
    n_steps = core[0]["horizon"] if core[0]["full_cap"] == 1 else core[0]["horizon"] - step
    high = core[0]["reward_high"]
    # With only negative rewards the best that can happen is to stop after the next one.
    return high * n_steps if high > 0.0 else high


@lean
def find(table, n_state, root, state, action):
    """The row of the active ball whose domain holds (state, action)."""
    row = root
    while table[row]["child"] != ACTIVE:
        axis = np.int64(table[row]["axis"])
        coordinate = state[axis] if axis < n_state else action[axis - n_state]
        row = np.int64(table[row]["child"]) + np.int64(coordinate >= table[row]["threshold"])
    return row


@inlined
def select(table, core, root, state, ties, stack):
    """The relevant ball with the largest Q, and how many rows were read to find it. [SBY19 Alg. 1, selection rule]

    An inner row on a state axis has one relevant side. On an action axis both are: dive into the better one and keep the
    other on the stack; `rival` is the largest value put aside, so most selections end without looking at the stack again.
    With random ties the m-th ball that ties replaces the one kept with probability 1/m, so each is equally likely.
    """
    n_state = core[0]["n_state"]
    all_ties = ties == RANDOM
    n_tied = 0
    best = -np.inf
    rival = -np.inf
    found = root
    row = root
    top = 0
    n_read = 1
    while True:
        while True:
            child = np.int64(table[row]["child"])
            if child == ACTIVE or table[row]["value"] < best or (table[row]["value"] == best and not all_ties):
                break
            axis = np.int64(table[row]["axis"])
            if axis < n_state:
                if state[axis] >= table[row]["threshold"]:
                    row = child + 1
                else:
                    row = child
            else:
                first = table[child]["value"]
                second = table[child + 1]["value"]
                if second > first and ties != FIRST:
                    stack[top] = child
                    rival = max(rival, first)
                    row = child + 1
                else:
                    stack[top] = child + 1
                    rival = max(rival, second)
                    row = child
                top += 1
                n_read += 1
            n_read += 1
        if table[row]["child"] == ACTIVE:
            if table[row]["value"] > best:
                best = table[row]["value"]
                found = row
                n_tied = 1
            elif all_ties and table[row]["value"] == best:
                n_tied += 1
                if draw(core) % np.uint64(n_tied) == np.uint64(0):
                    found = row
        if rival < best or (rival == best and not all_ties):
            return found, n_read
        while True:
            if top == 0:
                return found, n_read
            top -= 1
            row = stack[top]
            if table[row]["value"] > best or (table[row]["value"] == best and all_ties):
                break


@lean
def sides(table, row, first_axis, low, high):
    """Writes the ball's sides along len(low) axes from `first_axis` on, whatever its shape: up until all are known."""
    n_axes = low.shape[0]
    for i in range(n_axes):
        low[i] = 0.0
        high[i] = 1.0
    unknown = 2 * n_axes
    while unknown > 0:
        parent = np.int64(table[row]["parent"])
        if parent == NO_PARENT:
            break
        i = np.int64(table[parent]["axis"]) - first_axis
        if i >= 0 and i < n_axes:
            if row & 1:
                if low[i] == 0.0:  # thresholds lie strictly inside (0, 1)
                    low[i] = table[parent]["threshold"]
                    unknown -= 1
            elif high[i] == 1.0:
                high[i] = table[parent]["threshold"]
                unknown -= 1
        row = parent


@inlined
def cube_sides(table, row, first_axis, low, high):
    """The same for a cube, whose last splits were along the axes D-1, D-2, ... in this order: one row up per axis."""
    side = 1.0 / np.float64(np.int64(1) << np.int64(table[row]["depth"]))
    for i in range(low.shape[0] - 1, -1, -1):
        parent = np.int64(table[row]["parent"])
        low[i] = 0.0
        if parent != NO_PARENT:
            low[i] = table[parent]["threshold"] - (0.0 if row & 1 else side)
            row = parent
        high[i] = low[i] + side


@inlined
def in_units(axes, axis, unit, low):
    """A point of an interval in the environment's units and dtype, not below the border `low`; and back in the unit cube."""
    value = axes[axis, LOW] + unit * axes[axis, WIDTH]
    if axes[axis, SINGLE] == 1.0:
        value = np.float64(np.float32(value))
    back = (value - axes[axis, LOW]) / axes[axis, WIDTH]
    while back < low:
        # A corner is on the border: rounded down it would belong to the neighbor, and its own ball never be updated.
        if axes[axis, SINGLE] == 1.0:
            value = np.float64(np.nextafter(np.float32(value), np.float32(np.inf)))
        else:
            value = np.nextafter(value, np.inf)
        back = (value - axes[axis, LOW]) / axes[axis, WIDTH]
    return value, back


@lean
def play_value(core, axes, axis, rule, low, high):
    """The whole value played along a side of a ball: its middle, or the upper of two, its first, or any."""
    first = np.rint(low * axes[axis, ATOMS])
    n_inside = np.rint(high * axes[axis, ATOMS]) - first
    k = 0.0
    if rule == CENTER:
        k = np.floor(0.5 * n_inside)
    elif rule == UNIFORM:
        k = np.floor(np.float64(draw(core) >> np.uint64(11)) * 2.0**-53 * n_inside)
    return axes[axis, LOW] + 0.5 + first + k


@inlined
def play_action(table, core, axes, row, rule, low, high, action):
    """Writes the action played in a ball, in the environment's units; false if rounding moved it out of the ball."""
    n_state = core[0]["n_state"]
    if core[0]["cubes"] == 1:
        cube_sides(table, row, n_state, low, high)
    else:
        sides(table, row, n_state, low, high)
    inside = True
    for i in range(action.shape[0]):
        axis = n_state + i
        if axes[axis, ATOMS] > 0.0:
            action[i] = play_value(core, axes, axis, rule, low[i], high[i])
            continue
        unit = low[i]
        if rule == CENTER:
            unit = 0.5 * (low[i] + high[i])
        elif rule == UNIFORM:
            share = np.float64(draw(core) >> np.uint64(11)) * 2.0**-53
            unit = low[i] + share * (high[i] - low[i])
        action[i], back = in_units(axes, axis, unit, low[i])
        inside = inside and (back < high[i] or high[i] == 1.0)
    return inside


@inlined
def keep_maxima(table, row):
    """Makes the value of every inner row above `row` the largest Q below it again."""
    value = table[row]["value"]
    while True:
        parent = np.int64(table[row]["parent"])
        if parent == NO_PARENT:
            break
        value = max(value, table[row ^ 1]["value"])
        if value == table[parent]["value"]:
            break
        table[parent]["value"] = value
        row = parent


@lean
def length(axes, axis, low, high):
    """The weighted length of a side: the largest distance between two of its points."""
    n_values = axes[axis, ATOMS]
    if n_values == 0.0:
        return axes[axis, WEIGHT] * (high - low)
    n_inside = np.rint((high - low) * n_values)
    return axes[axis, WEIGHT] * (n_inside - 1.0) / (n_values - 1.0) if n_inside > 1.0 else 0.0


@lean
def diameter(table, core, axes, row):
    """The largest length of a ball's sides; of a net, its spacing. Walks up once per axis: nothing is allocated."""
    if core[0]["cubes"] == 1:
        return 1.0 / np.float64(np.int64(1) << np.int64(table[row]["depth"]))
    if core[0]["spacing"] > 0.0:
        return core[0]["spacing"]
    longest = 0.0
    for axis in range(axes.shape[0]):
        low = 0.0
        high = 1.0
        child = row
        while (low == 0.0 or high == 1.0) and np.int64(table[child]["parent"]) != NO_PARENT:
            parent = np.int64(table[child]["parent"])
            if np.int64(table[parent]["axis"]) == axis:
                if child & 1:
                    if low == 0.0:
                        low = table[parent]["threshold"]
                elif high == 1.0:
                    high = table[parent]["threshold"]
            child = parent
        longest = max(longest, length(axes, axis, low, high))
    return longest


@lean
def due_at(diameter):
    """The visits that make a ball due: (d_max / diam)^2, with d_max = 1; a ball of diameter 0 never is."""
    return (1.0 - 1e-12) / (diameter * diameter) if diameter > 0.0 else np.inf  # less a rounding: 1 / (1/3)^2 is 9


@lean
def set_iota(core):
    """If K is not known: iota_k = log(8 H k^2 / delta) for the episode at hand, and the bonus that it gives."""
    if core[0]["first_iota"] > 0.0:
        core[0]["iota"] = core[0]["first_iota"] + 2.0 * math.log(np.float64(max(core[0]["episode"], 1)))
        core[0]["bonus"] = core[0]["per_root_iota"] * math.sqrt(core[0]["iota"]) + core[0]["plain"]


@lean
def exact_bonus(table, core, stats, axes, step, row, learning_rate):
    """The b(t) that makes Q the weighted mean of r + V' plus exactly the width that the optimism lemma needs.

    That width is B_t = R sqrt(S_t iota / 2) + L D_t, with R the range of r + V', S_t = (1-a)^2 S_{t-1} + a^2 the
    sum of squared weights and D_t = (1-a) D_{t-1} + a diam(B) the weighted diameter of the balls played: b = (B_t - (1-a)
    B_{t-1}) / a. The statistics of a ball are S, D and B.
    """
    reach = core[0]["bonus"] * (core[0]["horizon"] - 1 - step + core[0]["reward_spread"])
    keep = 1.0 - learning_rate
    before = stats[row, 2]
    stats[row, 0] = keep * keep * stats[row, 0] + learning_rate * learning_rate
    stats[row, 1] = keep * stats[row, 1] + learning_rate * diameter(table, core, axes, row)
    stats[row, 2] = reach * np.sqrt(stats[row, 0]) + core[0]["lipschitz"] * stats[row, 1]
    return (stats[row, 2] - keep * before) / learning_rate


@lean
def bernstein_bonus(core, stats, row, n_visits, learning_rate, next_value):
    """The b(t) whose weighted sum is beta_t / 2, and what the noise and L add. [Jin et al. 2018 Alg. 2]

    The statistics of a ball are the mean and the variance of V' (Welford's form, so that it is never negative), and beta.
    """
    t = np.float64(n_visits)
    horizon = np.float64(core[0]["horizon"])
    span = core[0]["reward_span"]
    iota = core[0]["iota"]
    away = next_value - stats[row, 0]
    stats[row, 0] += away / t
    stats[row, 1] += (away * (next_value - stats[row, 0]) - stats[row, 1]) / t
    n_balls = core[0]["n_balls"] / horizon
    deviation = np.sqrt(horizon / t * (stats[row, 1] + horizon * span * span) * iota)
    by_variance = core[0]["c1"] * (deviation + span * np.sqrt(horizon**7 * n_balls) * iota / t)
    by_range = core[0]["c2"] * span * np.sqrt(horizon**3 * iota / t)
    before = stats[row, 2]
    stats[row, 2] = min(by_variance, by_range)
    return (stats[row, 2] - (1.0 - learning_rate) * before) / (2.0 * learning_rate) + core[0]["bonus"] / np.sqrt(t)


@inlined
def update_ball(table, core, stats, axes, step, row, reward, next_value):
    """The update rule, for every agent with a ball table; true when the ball is due to split. [SBY19 Alg. 1]"""
    if step == 0:  # an episode begins, whoever drives the loop
        core[0]["episode"] += 1
        set_iota(core)
    horizon = core[0]["horizon"]
    n_visits = min(np.int64(table[row]["n_visits"]) + 1, MAX_VISITS)
    learning_rate = (horizon + 1.0) / (horizon + n_visits)
    if core[0]["bonus_rule"] == SCALED:
        bonus = core[0]["bonus"] / np.sqrt(np.float64(n_visits))
    elif core[0]["bonus_rule"] == EXACT:
        bonus = exact_bonus(table, core, stats, axes, step, row, learning_rate)
    else:
        bonus = bernstein_bonus(core, stats, row, n_visits, learning_rate, next_value)
    target = reward + next_value + bonus
    table[row]["n_visits"] = n_visits
    table[row]["value"] = (1.0 - learning_rate) * table[row]["value"] + learning_rate * target
    keep_maxima(table, row)
    return n_visits >= table[row]["threshold"] and core[0]["n_balls"] < core[0]["max_balls"]


@lean
def sides_to_halve(core, axes, low, high):
    """Bit i is set if the rule halves axis i: ALL leaves balls of half the diameter, LONGEST halves one longest side."""
    longest = 0.0
    first = 0
    for axis in range(axes.shape[0]):
        side = length(axes, axis, low[axis], high[axis])
        if side > longest * (1.0 + SAME):
            longest = side
            first = axis
    if core[0]["rule"] == LONGEST:
        return np.int64(1) << first
    halved = np.int64(0)
    for axis in range(axes.shape[0]):
        if length(axes, axis, low[axis], high[axis]) > 0.5 * longest * (1.0 + SAME):
            halved |= np.int64(1) << axis
    return halved


@lean
def middle(axes, axis, low, high):
    """Where a side is cut in two; between two values, if they are whole."""
    n_values = axes[axis, ATOMS]
    if n_values == 0.0:
        return 0.5 * (low + high)
    return np.floor(0.5 * (np.rint(low * n_values) + np.rint(high * n_values))) / n_values


@compiled
def halve(table, core, stats, axes, row, low, high, halved):
    """Replaces an active ball by its halves along the axes in `halved`, which inherit Q and n. The caller has made room.

    `low` and `high` are its sides. Every split of every rule is made here. [SBY19 Split Ball]
    """
    depth = np.int64(table[row]["depth"])
    first_parent = row
    n_parents = 1
    next_row = core[0]["n_rows"]
    for axis in range(axes.shape[0]):
        if halved >> axis & 1 == 0:
            continue
        is_last = halved >> (axis + 1) == 0
        threshold = middle(axes, axis, low[axis], high[axis])
        for i in range(n_parents):
            parent = first_parent + i
            child = next_row + 2 * i
            table[parent]["axis"] = axis
            table[parent]["threshold"] = threshold
            table[parent]["child"] = child
            for c in range(child, child + 2):
                table[c]["value"] = table[row]["value"]
                table[c]["n_visits"] = table[row]["n_visits"]
                table[c]["parent"] = parent
                table[c]["child"] = ACTIVE
                table[c]["depth"] = min(depth + 1, 255) if is_last else depth
                if core[0]["bonus_rule"] != SCALED:
                    for i in range(N_STATS):
                        stats[c, i] = stats[row, i]
        first_parent = next_row
        n_parents *= 2
        next_row += n_parents
    # Halves of an interval are alike, so that one look serves a cube; halves of five values are not.
    due = due_at(diameter(table, core, axes, first_parent))
    for c in range(first_parent, next_row):
        table[c]["threshold"] = due if core[0]["cubes"] == 1 else due_at(diameter(table, core, axes, c))
    core[0]["n_rows"] = next_row
    core[0]["n_balls"] += n_parents - 1


@compiled
def split(table, core, stats, axes, row):
    """Splits a ball that is due by the agent's rule, if its halves fit in. The caller has made room."""
    n_axes = axes.shape[0]
    if core[0]["cubes"] == 1 and core[0]["n_balls"] + (np.int64(1) << n_axes) - 1 > core[0]["max_balls"]:
        return
    low = np.empty(n_axes)
    high = np.empty(n_axes)
    halved = (np.int64(1) << n_axes) - 1
    if core[0]["cubes"] == 1:
        cube_sides(table, row, 0, low, high)
    else:
        sides(table, row, 0, low, high)
        halved = sides_to_halve(core, axes, low, high)
        n_children = np.int64(1)
        for axis in range(n_axes):
            n_children <<= halved >> axis & 1
        if core[0]["n_balls"] + n_children - 1 > core[0]["max_balls"]:
            return
    halve(table, core, stats, axes, row, low, high, halved)


@lean
def rows_per_split(core):
    return 2 * ((np.int64(1) << core[0]["split_axes"]) - 1)


@lean
def rows_needed(core, n_splits):
    """The rows that so many splits may take, given that there are never more than `max_balls` balls."""
    return min(n_splits * rows_per_split(core), 2 * (core[0]["max_balls"] - core[0]["n_balls"]))


@compiled
def new_stack(core):
    """Room for every fork of a path: 18 halvings of each action axis, after the 31 bits of an initial net's row numbers."""
    return np.empty(40 + 18 * core[0]["n_action"], np.int64)


@compiled
def best_ball(table, core, axes, step, observation, stack):
    """(row of the relevant ball with the largest Q, rows read); row is -1 - i for a bad coordinate i."""
    state = np.empty(core[0]["n_state"])
    bad = to_unit(axes, 0, observation, state)
    if bad >= 0:
        return -1 - bad, 0
    return select(table, core, step, state, EITHER, stack)


def _act(raw_table, raw_core, axes, step, observation, action):
    """Selects as the agent does when it learns and writes its action; the index of a bad coordinate, -1, or WRONG_SIZE.

    Here and in `update`, table and core cross from Python as plain float64 memory: that takes a third of the time. All scratch
    vectors are parts of one, because an allocation costs as much as a selection.
    """
    table = raw_table.view(BALL)
    core = raw_core.view(CORE)
    n_state = core[0]["n_state"]
    n_action = core[0]["n_action"]
    if observation.shape[0] != n_state:
        return WRONG_SIZE
    scratch = np.empty(n_state + 2 * n_action)
    state = scratch[:n_state]
    bad = to_unit(axes, 0, observation, state)
    if bad >= 0:
        return bad
    row, _ = select(table, core, step, state, core[0]["ties"], new_stack(core))
    low = scratch[n_state : n_state + n_action]
    play_action(table, core, axes, row, core[0]["action_rule"], low, scratch[n_state + n_action :], action)
    return -1


@compiled
def locate(table, core, axes, step, observation, action, unit):
    """The row of the ball that holds (observation, action), written to `unit`; -1 - axis for a bad coordinate."""
    n_state = core[0]["n_state"]
    bad = to_unit(axes, 0, observation, unit[:n_state])
    if bad >= 0:
        return -1 - bad
    bad = to_unit(axes, n_state, action, unit[n_state:])
    if bad >= 0:
        return -1 - n_state - bad
    return find(table, n_state, step, unit[:n_state], unit[n_state:])


def _update(raw_table, raw_core, stats, axes, step, observation, action, reward, next_observation, terminated, next_value):
    """One transition from Python: FINE, DUE - row (a ball that the user's rule is to split), FULL (grow the table, call
    again), WRONG_SIZE, or BAD_STATE + the index of a bad coordinate among (observation, action, next observation). The table
    changes only when the answer is FINE or DUE. `next_value` is V(x') if the caller knows better, else NaN."""
    table = raw_table.view(BALL)
    core = raw_core.view(CORE)
    n_state = core[0]["n_state"]
    n_axes = n_state + core[0]["n_action"]
    if observation.shape[0] != n_state or action.shape[0] != n_axes - n_state or next_observation.shape[0] != n_state:
        return WRONG_SIZE
    if core[0]["n_rows"] + rows_needed(core, 1) > table.shape[0]:
        return FULL
    unit = np.empty(n_axes)
    row = locate(table, core, axes, step, observation, action, unit)
    if row < 0:
        return BAD_STATE - 1 - row
    next_state = unit[:n_state]
    bad = to_unit(axes, 0, next_observation, next_state)
    if bad >= 0:
        return BAD_STATE + n_axes + bad
    if terminated or step + 1 >= core[0]["horizon"]:
        next_value = 0.0
    elif np.isnan(next_value):
        next_row, _ = select(table, core, step + 1, next_state, EITHER, new_stack(core))
        next_value = min(ceiling(core, step + 1), table[next_row]["value"])
    if update_ball(table, core, stats, axes, step, row, reward, next_value):
        if core[0]["rule"] == OWN:
            return DUE - row
        split(table, core, stats, axes, row)
    return FINE


@compiled
def greedy(table, core, axes, steps, observations, rule, actions):
    """Writes the action of the best ball for each (step, observation); (row, index) of a bad coordinate, or (-1, -1)."""
    stack = new_stack(core)
    low = np.empty(actions.shape[1])
    high = np.empty(actions.shape[1])
    for k in range(steps.shape[0]):
        row, _ = best_ball(table, core, axes, steps[k], observations[k], stack)
        if row < 0:
            return k, -1 - row
        play_action(table, core, axes, row, rule, low, high, actions[k])
    return -1, -1


# --- some actions feasible -------------------------------------------------------------------------------------------------
# `allowed` has a row per action axis: the low and the high end of what is feasible, in the unit cube, then, for an axis of
# whole values, 1 or 0 for each.


@lean
def read_mask(row):
    """Sets the ends of a row of `allowed` from its mask of values; how many are feasible, -1 if one is neither 0 nor 1."""
    n_values = row.shape[0] - FIRST_VALUE
    n_feasible = 0
    for k in range(n_values):
        if row[FIRST_VALUE + k] == 1.0:
            row[1] = (k + 0.5) / n_values
            if n_feasible == 0:
                row[0] = row[1]
            n_feasible += 1
        elif row[FIRST_VALUE + k] != 0.0:
            return -1
    return n_feasible


@lean
def has_feasible(axes, n_state, allowed, low, high):
    """Whether the action sides of a ball hold a feasible action."""
    for i in range(allowed.shape[0]):
        n_values = axes[n_state + i, ATOMS]
        if n_values == 0.0:
            if allowed[i, 1] < low[i] or not (allowed[i, 0] < high[i] or high[i] == 1.0):
                return False
        else:
            found = False
            for k in range(np.int64(np.rint(low[i] * n_values)), np.int64(np.rint(high[i] * n_values))):
                found = found or allowed[i, FIRST_VALUE + k] == 1.0
            if not found:
                return False
    return True


@compiled
def select_feasible(table, core, axes, root, state, ties, allowed, low, high):
    """`select` among the balls with a feasible action; NOWHERE if there is none.

    An inner row may be large because of balls that are not feasible, so it bounds less well: every ball in question is
    looked at.
    """
    n_state = core[0]["n_state"]
    stack = new_stack(core)
    stack[0] = root
    top = 1
    best = -np.inf
    found = NOWHERE
    n_tied = 0
    while top > 0:
        top -= 1
        row = stack[top]
        value = table[row]["value"]
        if value < best or (value == best and ties != RANDOM):
            continue
        child = np.int64(table[row]["child"])
        if child == ACTIVE:
            sides(table, row, n_state, low, high)
            if not has_feasible(axes, n_state, allowed, low, high):
                continue
            if value > best:
                best = value
                found = row
                n_tied = 1
            else:
                n_tied += 1
                if draw(core) % np.uint64(n_tied) == np.uint64(0):
                    found = row
            continue
        axis = np.int64(table[row]["axis"])
        threshold = table[row]["threshold"]
        if axis < n_state:
            stack[top] = child + np.int64(state[axis] >= threshold)
            top += 1
            continue
        has_first = allowed[axis - n_state, 0] < threshold
        has_second = allowed[axis - n_state, 1] >= threshold
        # What is put on the stack last is looked at first: the better child, or the first one if ties go by order.
        first_is_last = ties == FIRST or table[child]["value"] >= table[child + 1]["value"]
        if has_second and first_is_last:
            stack[top] = child + 1
            top += 1
        if has_first:
            stack[top] = child
            top += 1
        if has_second and not first_is_last:
            stack[top] = child + 1
            top += 1
    return found


@compiled
def choose(table, core, axes, step, observation, ties, rule, allowed, action):
    """The row of the best ball with a feasible action, and one such action in `action` (environment's units).

    -1 - i for a bad coordinate i of the observation, NOWHERE if nothing is feasible. The center is the middle of what is
    feasible in the ball, or the feasible value nearest to its middle.
    """
    n_state = core[0]["n_state"]
    n_action = core[0]["n_action"]
    state = np.empty(n_state)
    bad = to_unit(axes, 0, observation, state)
    if bad >= 0:
        return -1 - bad
    low = np.empty(n_action)
    high = np.empty(n_action)
    row = select_feasible(table, core, axes, step, state, ties, allowed, low, high)
    if row == NOWHERE:
        return row
    sides(table, row, n_state, low, high)
    for i in range(n_action):
        axis = n_state + i
        n_values = axes[axis, ATOMS]
        share = 0.5 if rule == CENTER else 0.0
        if rule == UNIFORM:
            share = np.float64(draw(core) >> np.uint64(11)) * 2.0**-53
        if n_values == 0.0:
            least = max(low[i], allowed[i, 0])
            most = min(high[i], allowed[i, 1])
            action[i], _ = in_units(axes, axis, least + share * (most - least), low[i])
            continue
        first = np.int64(np.rint(low[i] * n_values))
        last = np.int64(np.rint(high[i] * n_values)) - 1
        played = np.int64(-1)
        n_feasible = 0
        for k in range(first, last + 1):
            n_feasible += np.int64(allowed[i, FIRST_VALUE + k])
        pick = np.int64(share * n_feasible)
        for k in range(first, last + 1):
            if allowed[i, FIRST_VALUE + k] == 1.0:
                if rule == CENTER:
                    if played < 0 or abs(2 * k - first - last) < abs(2 * played - first - last):
                        played = k
                elif pick == 0:
                    played = k
                pick -= 1
        action[i] = axes[axis, LOW] + 0.5 + played
    return row


def _play(table, core, stats, axes, dynamics, start, params, rng, n_env_steps, returns, n_balls, trouble, paused):
    """Plays len(returns) whole episodes; how many were finished, with the reason for fewer in `trouble`.

    `trouble` is (code, step, coordinate, value). When a ball is due to split by the user's own rule, the caller splits it
    and calls again: `paused` keeps where the episode stands, (steps played, row to play next, return so far, state).
    The next state is looked up once: its best ball gives both V(x') for this update and the ball to play next; the partition
    of step h+1 does not change in between.
    """
    n_state = core[0]["n_state"]
    n_action = core[0]["n_action"]
    n_steps = min(core[0]["horizon"], n_env_steps)
    ties = core[0]["ties"]
    rule = core[0]["action_rule"]
    stack = new_stack(core)
    state = np.empty(n_state)
    next_state = np.empty(n_state)
    unit_state = np.empty(n_state)
    unit_action = np.empty(n_action)
    action = np.empty(n_action)
    low = np.empty(n_action)
    high = np.empty(n_action)
    for episode in range(returns.shape[0]):
        if core[0]["n_rows"] + rows_needed(core, n_steps) > table.shape[0]:
            trouble[0] = FULL
            return episode
        first_step = np.int64(paused[0])
        total = 0.0
        row = np.int64(0)
        if first_step > 0:
            paused[0] = 0.0
            row = np.int64(paused[1])
            total = paused[2]
            for i in range(n_state):
                state[i] = paused[3 + i]
        else:
            start(params, rng, state)
        bad = to_unit(axes, 0, state, unit_state)
        if bad >= 0:
            trouble[0], trouble[1], trouble[2], trouble[3] = BAD_STATE, 0, bad, state[bad]
            return episode
        if first_step == 0:
            row, _ = select(table, core, 0, unit_state, ties, stack)
        for step in range(first_step, n_steps):
            if not play_action(table, core, axes, row, rule, low, high, action):
                to_unit(axes, n_state, action, unit_action)
                row = find(table, n_state, step, unit_state, unit_action)
            for i in range(n_state):
                next_state[i] = np.nan  # so that a coordinate that the dynamics forget to write is found
            reward = dynamics(state, action, step, params, rng, next_state)
            if not (reward >= core[0]["reward_low"] and reward <= core[0]["reward_high"]):
                trouble[0], trouble[1], trouble[3] = BAD_REWARD, step, reward
                return episode
            bad = to_unit(axes, 0, next_state, unit_state)
            if bad >= 0:
                trouble[0], trouble[1], trouble[2], trouble[3] = BAD_STATE, step + 1, bad, next_state[bad]
                return episode
            next_row = row
            next_value = 0.0
            if step + 1 < n_steps:
                next_row, _ = select(table, core, step + 1, unit_state, ties, stack)
                next_value = min(ceiling(core, step + 1), table[next_row]["value"])
            if update_ball(table, core, stats, axes, step, row, reward, next_value):
                if core[0]["rule"] == OWN:
                    trouble[0], trouble[1] = DUE, row
                    paused[0], paused[1], paused[2] = step + 1, next_row, total + reward
                    for i in range(n_state):
                        paused[3 + i] = next_state[i]
                    return episode
                split(table, core, stats, axes, row)
            total += reward
            row = next_row
            for i in range(n_state):
                state[i] = next_state[i]
        returns[episode] = total
        n_balls[episode] = core[0]["n_balls"]
    trouble[0] = FINE
    return returns.shape[0]


# --- kernels that Python calls with a fixed signature --------------------------------------------------------------------
# A fixed signature takes what fits and refuses the rest with a TypeError: no check in Python on the way in, and no
# compiling anew for a float32 or read-only array. It also lets one compiled `play` run any environment's dynamics.


@functools.cache
def play() -> Callable[..., int]:
    """`_play`, compiled on first use."""
    table, core, stats, axes = numba.from_dtype(BALL)[::1], numba.from_dtype(CORE)[::1], float64[:, ::1], float64[:, ::1]
    functions = types.FunctionType(DYNAMICS), types.FunctionType(START)
    return fixed(
        _play, table, core, stats, axes, *functions, float64[::1], GENERATOR, int64, float64[::1], int64[::1], float64[::1],
        float64[::1],
    )  # fmt: skip


@functools.cache
def act() -> Callable[..., int]:
    """`_act`, compiled on first use."""
    return fixed(_act, float64[::1], float64[::1], float64[:, ::1], int64, float64[::1], float64[::1])


@functools.cache
def update() -> Callable[..., int]:
    """`_update`, compiled on first use."""
    vector, matrix = float64[::1], float64[:, ::1]
    return fixed(_update, vector, vector, matrix, matrix, int64, vector, vector, float64, vector, types.boolean, float64)


def fixed(function: Callable[..., int], *arguments: Any) -> Callable[..., int]:
    """The function compiled for these argument types alone; anything else is refused with a TypeError."""
    if not PLAIN:
        kernel: Callable[..., int] = numba.njit(int64(*arguments), cache=True, error_model="numpy", nogil=True)(function)
        return kernel

    def refusing(*values: Any) -> int:
        for value, expected in zip(values, arguments, strict=True):
            if isinstance(expected, types.Array) and not (
                type(value) is np.ndarray
                and value.ndim == expected.ndim
                and value.dtype in (np.dtype(np.float64), np.dtype(np.int64), BALL, CORE)
                and value.flags.c_contiguous
                and value.flags.writeable
            ):
                raise TypeError(f"expected {expected}")
        return function(*values)

    return refusing
