"""Compiled balls of a metric space of finitely many points: selection, update, covering, and whole episodes.

The space is the product of n_x states and n_a actions, each a finite set with a distance matrix; the points are pairs. One
structured array holds every ball of an agent, one row each; rows 0 to H-1 are the roots. `owner[h, x, a]` is the row of the
ball whose domain holds (x, a) at step h. So a ball is found by one look, and the balls relevant for x are those named in
owner[h, x]. No distance of two pairs is ever stored.

    B = {(x, a) : d((x, a), center) <= r(B)}              closed; the paper's are open, which for whole distances loses points
    dom(B) = B without all balls of smaller radius        and, so that domains are disjoint, without older ones of its radius
    alpha_t = (H + 1) / (H + t),   Q(B) <- (1 - alpha_t) Q(B) + alpha_t (r + V(x') + bonus / sqrt(t))
    split B, after its update, when n(B) >= split_after (d_max / r(B))^2 = split_after 4^depth          [SBY19 Alg. 1]

A split covers dom(B) by balls of radius r(B) / 2 around points of dom(B). A center is outside all balls of that radius and of
smaller ones, so that centers of equal radius are further apart than it.

Distances of a p-norm product are kept to the power p: the pair's is then their sum, and no root is taken (p = 0: the maximum).
`orders[x]` has the points from the nearest to x to the farthest, so that a ball is walked through without its outside.

A family of its own beside `kernels`: nothing here calls a kernel of that file, so Numba's disk cache cannot go stale. The
update rule and the generator are therefore written here a second time; a test holds them against those of `kernels`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numba
import numpy as np
from numba import float64, int32, int64, types, uint8

from zooming.checks import ROUNDING
from zooming.kernels import BAD_REWARD, BAD_STATE, DUE, DYNAMICS, FINE, FULL, GENERATOR, PLAIN, START, compiled, inlined, lean

BALL = np.dtype(
    [
        ("value", "f8"),  # Q
        ("radius", "f8"),
        ("reach", "f8"),  # the radius to the power p: what distances are compared with
        ("n_visits", "i8"),  # n(B), ancestors included
        ("state", "i4"),  # the center
        ("action", "i4"),
        ("parent", "i4"),  # or NO_PARENT for a root
        ("n_points", "i4"),  # of the domain; a ball without any is not active
        ("depth", "i4"),
        ("step", "i4"),
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
        ("n_state", "i8"),  # axes of the state, then those of the action
        ("n_action", "i8"),
        ("ties", "i8"),
        ("action_rule", "i8"),
        ("full_cap", "i8"),  # 1: values are capped by H as in the paper; 0: by the number of steps left
        ("lazy", "i8"),  # 1: a ball that is due gets one child a visit, where it was played
        ("bonus", "f8"),
        ("split_after", "f8"),
        ("power", "f8"),  # p of the product; 0 for the maximum
        ("reward_low", "f8"),
        ("reward_high", "f8"),
    ],
    align=True,
)
NO_PARENT = -1
SAMPLE = 256  # points that a candidate for a center is judged by: all of a small domain, and no more time for a large one
MAX_DEPTH = 26  # 4^26 visits are more than a lifetime
RANDOM, FIRST, EITHER = 0, 1, 2  # ties, as in `kernels`; the last two are the oldest ball here
CENTER, UNIFORM = 0, 1
LOW, HIGH, COUNT, WHOLE = 0, 1, 2, 3  # columns of `grid`, a row per axis: ends, number of points, 1 if values are their numbers


@lean
def draw(core):
    """The next 64 random bits of the agent's generator (SplitMix64), as `kernels.draw`."""
    z = core[0]["random"] + np.uint64(0x9E3779B97F4A7C15)
    core[0]["random"] = z
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


if PLAIN:
    draw = np.errstate(over="ignore")(draw)  # it wraps around, which compiled code does without a word


@lean
def index_of(grid, first, n_axes, point):
    """The number of the point nearest to (environment's units); -1 - i for a bad coordinate i."""
    index = 0
    for i in range(n_axes):
        low = grid[first + i, LOW]
        n = grid[first + i, COUNT]
        if grid[first + i, WHOLE] == 1.0:
            k = np.rint(point[i] - low)
            if not (abs(point[i] - low - k) <= ROUNDING and k >= 0.0 and k < n):
                return -1 - i
        else:
            unit = (point[i] - low) / (grid[first + i, HIGH] - low)
            if not (unit >= -ROUNDING and unit <= 1.0 + ROUNDING):
                return -1 - i
            k = np.rint(min(1.0, max(0.0, unit)) * (n - 1.0))
        index = index * np.int64(n) + np.int64(k)
    return index


@lean
def point_of(grid, first, n_axes, index, point):
    """Writes the point of a number, in the environment's units."""
    for j in range(n_axes):
        i = n_axes - 1 - j
        n = np.int64(grid[first + i, COUNT])
        k = index % n
        index //= n
        low, high = grid[first + i, LOW], grid[first + i, HIGH]
        if k == n - 1:
            point[i] = high  # not what rounding makes of it
        elif grid[first + i, WHOLE] == 1.0:
            point[i] = low + k
        else:
            point[i] = low + (high - low) * (k / (n - 1))


@lean
def ceiling(core, step):
    """The largest return from `step` on: what a root starts with, and the cap of V; as `kernels.ceiling`."""
    n_steps = core[0]["horizon"] if core[0]["full_cap"] == 1 else core[0]["horizon"] - step
    high = core[0]["reward_high"]
    return high * n_steps if high > 0.0 else high


@inlined
def together(core, along_state, along_action):
    """The distance of two pairs, to the power p, from those of their states and of their actions."""
    if core[0]["power"] == 0.0:
        return max(along_state, along_action)
    return along_state + along_action


# --- selection -------------------------------------------------------------------------------------------------------------


@inlined
def select(table, core, owner, mask, step, state, ties, seen):
    """The relevant ball with the largest Q: of those that own (state, a) for some a with mask[a] = 1. [SBY19, selection rule]

    With random ties the m-th ball that ties replaces the one kept with probability 1/m. A ball owns many actions and must be
    counted once: seen[ball] is the number of the last selection that met it, and seen[-1] counts selections.
    """
    best = -np.inf
    found = np.int64(-1)
    is_tied = False
    for a in range(mask.shape[0]):
        row = owner[step, state, a]
        value = table[row]["value"]
        if value >= best and row != found and mask[a] == 1:
            if value > best:
                best = value
                found = np.int64(row)
                is_tied = False
            else:
                is_tied = True
                if row < found:
                    found = np.int64(row)
    if ties != RANDOM or not is_tied:
        return found
    stamp = seen[seen.shape[0] - 1] + 1
    seen[seen.shape[0] - 1] = stamp
    n_tied = 0
    for a in range(mask.shape[0]):
        row = owner[step, state, a]
        if table[row]["value"] == best and mask[a] == 1 and seen[row] != stamp:
            seen[row] = stamp
            n_tied += 1
            if (n_tied > 1 and draw(core) % np.uint64(n_tied) == np.uint64(0)) or n_tied == 1:
                found = np.int64(row)
    return found


@inlined
def play_action(table, core, owner, mask, order, row, step, state, rule):
    """An action a with (state, a) in dom(B): the one nearest to the center, or any, equally likely."""
    if rule == CENTER:
        center = table[row]["action"]
        for j in range(mask.shape[0]):
            a = order[center, j]
            if owner[step, state, a] == row and mask[a] == 1:
                return np.int64(a)
    n = 0
    for a in range(mask.shape[0]):
        n += np.int64(owner[step, state, a] == row and mask[a] == 1)
    left = np.int64(draw(core) % np.uint64(n))
    for a in range(mask.shape[0]):
        if owner[step, state, a] == row and mask[a] == 1:
            if left == 0:
                return np.int64(a)
            left -= 1
    return np.int64(-1)


# --- update and split ------------------------------------------------------------------------------------------------------


@inlined
def update_ball(table, core, row, reward, next_value):
    """The update rule, as `kernels.update_ball`; true when the ball is due to split. [SBY19 Alg. 1]"""
    horizon = core[0]["horizon"]
    n_visits = table[row]["n_visits"] + 1
    learning_rate = (horizon + 1.0) / (horizon + n_visits)
    target = reward + next_value + core[0]["bonus"] / np.sqrt(np.float64(n_visits))
    table[row]["n_visits"] = n_visits
    table[row]["value"] = (1.0 - learning_rate) * table[row]["value"] + learning_rate * target
    return is_due(table, core, row) and core[0]["n_balls"] < core[0]["max_balls"]


@lean
def is_due(table, core, row):
    """n(B) >= split_after (d_max / r(B))^2; a domain of one point has nothing to split."""
    depth = table[row]["depth"]
    threshold = core[0]["split_after"] * np.float64(np.int64(1) << (2 * depth))
    return table[row]["n_points"] > 1 and depth < MAX_DEPTH and table[row]["n_visits"] >= threshold


@lean
def add_ball(table, core, owner, distances, action_distances, orders, action_orders, parent, state, action):
    """Adds the child of a ball around a pair, with the parent's Q and n; it takes what larger balls owned.

    The caller has made room.
    """
    row = core[0]["n_rows"]
    step = table[parent]["step"]
    radius = 0.5 * table[parent]["radius"]
    reach = table[parent]["reach"] * 0.5 ** (core[0]["power"] if core[0]["power"] > 0.0 else 1.0)
    n_points = 0
    for i in range(orders.shape[0]):
        x = orders[state, i]
        along = distances[state, x]
        if along > reach:
            break
        for j in range(action_orders.shape[0]):
            a = action_orders[action, j]
            if together(core, along, action_distances[action, a]) > reach:
                break
            old = owner[step, x, a]
            if table[old]["radius"] > radius:
                owner[step, x, a] = row
                n_points += 1
                table[old]["n_points"] -= 1
                if table[old]["n_points"] == 0:
                    core[0]["n_balls"] -= 1
    table[row]["value"] = table[parent]["value"]
    table[row]["n_visits"] = table[parent]["n_visits"]
    table[row]["radius"] = radius
    table[row]["reach"] = reach
    table[row]["state"] = state
    table[row]["action"] = action
    table[row]["parent"] = parent
    table[row]["depth"] = table[parent]["depth"] + 1
    table[row]["step"] = step
    table[row]["n_points"] = n_points
    core[0]["n_rows"] = row + 1
    core[0]["n_balls"] += 1


@lean
def n_within(core, owner, distances, action_distances, row, step, reach, points, n_points, point):
    """How many of up to SAMPLE points of a domain, evenly spread over it, a child around one of them would take."""
    n_actions = action_distances.shape[0]
    state = point // n_actions
    action = point % n_actions
    n_looks = min(n_points, SAMPLE)
    n = 0
    for k in range(n_looks):
        other = points[k * n_points // n_looks]
        x = other // n_actions
        a = other % n_actions
        if together(core, distances[state, x], action_distances[action, a]) <= reach:
            n += np.int64(owner[step, x, a] == row)
    return n


@lean
def domain(table, core, owner, distances, action_distances, orders, action_orders, row, points):
    """Writes the points of a domain, as x * n_a + a, from the center outwards; how many there are."""
    step = table[row]["step"]
    state = table[row]["state"]
    action = table[row]["action"]
    reach = table[row]["reach"]
    n_actions = action_orders.shape[0]
    n = 0
    for i in range(orders.shape[0]):
        x = np.int64(orders[state, i])
        along = distances[state, x]
        if along > reach:
            break
        for j in range(n_actions):
            a = action_orders[action, j]
            if together(core, along, action_distances[action, a]) > reach:
                break
            if owner[step, x, a] == row:
                points[n] = x * n_actions + a
                n += 1
    return n


@compiled
def cover(table, core, owner, distances, action_distances, orders, action_orders, row, n_candidates, points, n_left):
    """Covers dom(B) by children: FINE, or FULL when rows have run out; call again then, with the same points.

    The covering oracle, `covering.Greedy`: of `n_candidates` points that are not covered, evenly spread over `points` from
    its first on, the one whose ball takes the most. `points` is the domain as it was; its first n_left[0] entries hold all
    that is not covered.
    """
    step = table[row]["step"]
    reach = table[row]["reach"] * 0.5 ** (core[0]["power"] if core[0]["power"] > 0.0 else 1.0)
    n_actions = action_orders.shape[0]
    while table[row]["n_points"] > 0:
        if core[0]["n_balls"] >= core[0]["max_balls"]:
            return FINE
        if core[0]["n_rows"] >= table.shape[0]:
            return FULL
        if 2 * table[row]["n_points"] <= n_left[0]:  # half are covered: only now, so that all this takes linear time
            n = 0
            for i in range(n_left[0]):
                if owner[step, points[i] // n_actions, points[i] % n_actions] == row:
                    points[n] = points[i]
                    n += 1
            n_left[0] = n
        best = np.int64(-1)
        most = -1
        n_tries = min(n_candidates, np.int64(table[row]["n_points"]))
        for c in range(n_tries):
            i = c * n_left[0] // n_tries
            while owner[step, points[i] // n_actions, points[i] % n_actions] != row:
                i = (i + 1) % n_left[0]
            if n_tries == 1:
                best = points[i]
                break
            n = n_within(core, owner, distances, action_distances, row, step, reach, points, n_left[0], points[i])
            if n > most:
                most = n
                best = points[i]
        add_ball(
            table, core, owner, distances, action_distances, orders, action_orders, row, best // n_actions, best % n_actions
        )
    return FINE


# --- what Python calls -----------------------------------------------------------------------------------------------------


# Table and core cross from Python as plain float64 memory: as records they would take ten times as long.


@compiled
def act(raw_table, raw_core, owner, mask, action_orders, grid, step, observation, ties, rule, seen, action):
    """Selects and writes the action, in the environment's units; the row that is played, or -1 - i for a bad coordinate i."""
    table = raw_table.view(BALL)
    core = raw_core.view(CORE)
    n_state = core[0]["n_state"]
    state = index_of(grid, 0, n_state, observation)
    if state < 0:
        return state
    row = select(table, core, owner, mask, step, state, ties, seen)
    played = play_action(table, core, owner, mask, action_orders, row, step, state, rule)
    point_of(grid, n_state, core[0]["n_action"], played, action)
    return row


@lean
def locate(core, owner, grid, step, observation, action):
    """The row of the ball that owns (observation, action); -1 - axis for a bad coordinate."""
    n_state = core[0]["n_state"]
    state = index_of(grid, 0, n_state, observation)
    if state < 0:
        return state
    played = index_of(grid, n_state, core[0]["n_action"], action)
    if played < 0:
        return played - n_state
    return np.int64(owner[step, state, played])


@compiled
def update(
    raw_table, raw_core, owner, mask, grid, seen, step, observation, action, reward, next_observation, terminated, next_value
):
    """One transition from Python: FINE, DUE - row (a ball to split), or BAD_STATE + the index of a bad coordinate among
    (observation, action, next observation). `next_value` is V(x') if the caller knows better, else NaN."""
    table = raw_table.view(BALL)
    core = raw_core.view(CORE)
    row = locate(core, owner, grid, step, observation, action)
    if row < 0:
        return BAD_STATE - 1 - row
    next_state = index_of(grid, 0, core[0]["n_state"], next_observation)
    if next_state < 0:
        return BAD_STATE + grid.shape[0] - 1 - next_state
    if terminated or step + 1 >= core[0]["horizon"]:
        next_value = 0.0
    elif np.isnan(next_value):
        best = select(table, core, owner, mask, step + 1, next_state, EITHER, seen)
        next_value = min(ceiling(core, step + 1), table[best]["value"])
    if update_ball(table, core, row, reward, next_value):
        return DUE - row
    return FINE


def _play(
    table, core, owner, distances, action_distances, orders, action_orders, grid, mask, seen, dynamics, start, params, rng,
    n_env_steps, returns, n_balls, trouble, paused,
):  # fmt: skip
    """Plays len(returns) whole episodes; how many were finished, with the reason for fewer in `trouble`, as in `kernels`.

    A ball that is due is split by the caller, who calls again (`paused` keeps where the episode stands); lazy children are made
    here, while there is room for one a step.
    """
    n_state = core[0]["n_state"]
    n_action = core[0]["n_action"]
    n_steps = min(core[0]["horizon"], n_env_steps)
    ties = core[0]["ties"]
    rule = core[0]["action_rule"]
    point = np.empty(n_state)
    next_point = np.empty(n_state)
    action = np.empty(n_action)
    for episode in range(returns.shape[0]):
        if core[0]["lazy"] == 1 and core[0]["n_rows"] + n_steps > table.shape[0]:
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
                point[i] = paused[3 + i]
        else:
            start(params, rng, point)
        state = index_of(grid, 0, n_state, point)
        if state < 0:
            trouble[0], trouble[1], trouble[2], trouble[3] = BAD_STATE, 0, -1 - state, point[-1 - state]
            return episode
        if first_step == 0:
            row = select(table, core, owner, mask, 0, state, ties, seen)
        for step in range(first_step, n_steps):
            played = play_action(table, core, owner, mask, action_orders, row, step, state, rule)
            point_of(grid, n_state, n_action, played, action)
            for i in range(n_state):
                next_point[i] = np.nan  # so that a coordinate that the dynamics forget to write is found
            reward = dynamics(point, action, step, params, rng, next_point)
            if not (reward >= core[0]["reward_low"] and reward <= core[0]["reward_high"]):
                trouble[0], trouble[1], trouble[3] = BAD_REWARD, step, reward
                return episode
            next_state = index_of(grid, 0, n_state, next_point)
            if next_state < 0:
                bad = -1 - next_state
                trouble[0], trouble[1], trouble[2], trouble[3] = BAD_STATE, step + 1, bad, next_point[bad]
                return episode
            next_row = row
            next_value = 0.0
            if step + 1 < n_steps:
                next_row = select(table, core, owner, mask, step + 1, next_state, ties, seen)
                next_value = min(ceiling(core, step + 1), table[next_row]["value"])
            due = update_ball(table, core, row, reward, next_value)
            if due and core[0]["lazy"] == 1:
                add_ball(table, core, owner, distances, action_distances, orders, action_orders, row, state, played)
                due = False
            total += reward
            last = row
            row = next_row
            state = next_state
            for i in range(n_state):
                point[i] = next_point[i]
            if due:
                trouble[0], trouble[1] = DUE, last
                paused[0], paused[1], paused[2] = step + 1, row, total
                for i in range(n_state):
                    paused[3 + i] = point[i]
                return episode
        returns[episode] = total
        n_balls[episode] = core[0]["n_balls"]
    trouble[0] = FINE
    return returns.shape[0]


@functools.cache
def play() -> Callable[..., int]:
    """`_play`, compiled on first use for any environment's dynamics."""
    if PLAIN:
        return _play
    vector, matrix, order = float64[::1], float64[:, ::1], int32[:, ::1]
    functions = types.FunctionType(DYNAMICS), types.FunctionType(START)
    signature = int64(
        numba.from_dtype(BALL)[::1], numba.from_dtype(CORE)[::1], int32[:, :, ::1], matrix, matrix, order, order, matrix,
        uint8[::1], int64[::1], *functions, vector, GENERATOR, int64, vector, int64[::1], vector, vector,
    )  # fmt: skip
    return numba.njit(signature, cache=True, error_model="numpy", nogil=True)(_play)
