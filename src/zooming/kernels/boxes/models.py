"""Models of balls: counts of next states, and planning with them.

A ball B has the mean of its own rewards, and a histogram of the next states after its own visits.
The histogram is on the grid of states of the ball's level. In an adaptive partition, the grid of
level l has 2^l cells along an interval. A net has a single level: its own cells. The estimates of a
ball pool its own samples and those of its ancestors, whose cells are spread evenly over smaller
ones:

    Q(B) = mean reward + c / sqrt(n) + (1/n) sum over B and its ancestors A, and cells i,
                                       of count_A(i) times the mean of V_{h+1} over cell i
    V_h(cell) = min(cap, largest Q of the balls relevant for its center), and then, if L_V is given,
    V_h(cell) = min over cells i of (V_h(i) + L_V dist(cell, i))

One-step planning computes Q and V of the ball that was visited. Full planning computes those of all
balls, from the last step to the first, after each episode. [Sinclair, Wang, Jain, Banerjee, Yu
2020; Azar, Osband, Munos 2017]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.boxes import play
from zooming.kernels.boxes.layout import ACTIVE, ATOMS, EITHER, ENDED, MAX_VISITS, NO_PARENT, WEIGHT
from zooming.kernels.boxes.select import keep_maxima, select, sides
from zooming.kernels.boxes.update_rule import ceiling, set_iota
from zooming.kernels.loop.crossing import boxes_at, itself, matrix_at, vector_at
from zooming.kernels.loop.episodes import compile_later
from zooming.kernels.loop.jit import IS_JIT_DISABLED, jit_inline, jit_inline_refcount, jit_kernel

PLAN = np.dtype(
    [
        ("is_full", "i8"),  # 1: full planning; 0: one-step planning
        ("is_monotone", "i8"),  # 1: Q and V never rise
        ("is_stale", "i8"),  # 1: there are samples that full planning has not seen
        ("used", "i8"),  # entries of `counts` in use
        ("deepest", "i8"),  # largest level of a ball
        ("n_levels", "i8"),  # levels that have a grid
        ("lipschitz", "f8"),  # L_V, by which V is smoothed; infinite: it is not
    ],
    align=True,
)
MODEL_BALL = np.dtype(
    [
        ("reward", "f8"),  # mean reward of the ball's own visits
        ("n_visits", "f8"),  # its own visits, without those of its ancestors
        ("first", "i8"),  # where its histogram begins in `counts`; -1: it has none
        ("step", "i4"),
        ("level", "i4"),  # of its grid of next states
    ],
    align=True,
)


class Model(NamedTuple):
    """The arrays of a model: `Boxes.more` of a `ModelTable`."""

    plan: Any  # PLAN [1]
    balls: Any  # MODEL_BALL [n_rows]
    counts: Any  # float64: histograms of next states
    values: Any  # float64 [horizon, cells of all levels]: V, and its means over larger cells
    levels: Any  # int64 [n_levels + 1]: where each level begins in a row of `values`
    bins: Any  # int64 [n_levels, n_state]: cells along each axis
    borders: Any  # float64 [n_state, most]: inner borders of a net's cells, filled up by infinity
    sides: Any  # float64 [3, n_state]: scratch memory for two corners and a point


box_best, box_has_room, box_split = play.best, play.has_room, play.split


@jit_inline_refcount
def _open_model(words):
    return Model(
        vector_at(words, 0, PLAN),
        vector_at(words, 1, MODEL_BALL),
        vector_at(words, 2, np.float64),
        matrix_at(words, 3, np.float64),
        vector_at(words, 4, np.int64),
        matrix_at(words, 5, np.int64),
        matrix_at(words, 6, np.float64),
        matrix_at(words, 7, np.float64),
    )


model_at = itself if IS_JIT_DISABLED else _open_model  # return the record of `Boxes.more`


@jit_kernel
def cell_of(m, level, state):
    """Return the index of the cell of a state in the grid of a level."""
    cell = np.int64(0)
    for axis in range(state.shape[0]):
        n_bins = m.bins[level, axis]
        place = np.int64(0)
        if m.borders.shape[1] > 0:
            while place < n_bins - 1 and state[axis] >= m.borders[axis, place]:
                place += 1
        else:
            place = min(np.int64(state[axis] * n_bins), n_bins - 1)
        cell = cell * n_bins + place
    return cell


@jit_kernel
def write_center(m, level, cell, point):
    """Write the center of a cell."""
    for axis in range(point.shape[0] - 1, -1, -1):
        n_bins = m.bins[level, axis]
        place = cell % n_bins
        cell = cell // n_bins
        if m.borders.shape[1] > 0:
            low = m.borders[axis, place - 1] if place > 0 else 0.0
            high = m.borders[axis, place] if place < n_bins - 1 else 1.0
            point[axis] = 0.5 * (low + high)
        else:
            point[axis] = (place + 0.5) / n_bins


@jit_kernel
def coarser_cell(m, level, cell):
    """Return the cell of the next coarser level that contains a cell of this level."""
    found = np.int64(0)
    factor = np.int64(1)
    for axis in range(m.bins.shape[1] - 1, -1, -1):
        place = cell % m.bins[level, axis]
        cell = cell // m.bins[level, axis]
        n_bins = m.bins[level - 1, axis]
        found += factor * (place * n_bins // m.bins[level, axis])
        factor *= n_bins
    return found


@jit_kernel
def estimate_q(t, m, step, row):
    """Return the model's estimate of Q of a ball that has been visited."""
    n = np.float64(t.rows[row]["n_visits"])
    rewards = 0.0
    values = 0.0
    ball = row
    while ball != NO_PARENT:
        rewards += m.balls[ball]["n_visits"] * m.balls[ball]["reward"]
        first = m.balls[ball]["first"]
        if first >= 0:
            start = m.levels[m.balls[ball]["level"]]
            for i in range(m.levels[m.balls[ball]["level"] + 1] - start):
                values += m.counts[first + i] * m.values[step + 1, start + i]
        ball = np.int64(t.rows[ball]["parent"])
    found = (rewards + values) / n + t.core[0]["bonus"] / np.sqrt(n)
    found = min(found, ceiling(t.core, step))
    return min(found, t.rows[row]["value"]) if m.plan[0]["is_monotone"] == 1 else found


@jit_kernel
def estimate_values(t, m, step, low, high):
    """Compute V of the smallest cells between two corners, and its means over larger cells."""
    level = m.plan[0]["n_levels"] - 1
    start = m.levels[level]
    point = m.sides[2]
    cap = ceiling(t.core, step)
    for cell in range(m.levels[level + 1] - start):
        write_center(m, level, cell, point)
        is_inside = True
        for axis in range(point.shape[0]):
            is_inside = is_inside and low[axis] <= point[axis] < high[axis]
        if is_inside:
            row, _ = select(t.rows, t.core, step, point, EITHER, t.stack)
            value = min(cap, t.rows[row]["value"])
            if m.plan[0]["is_monotone"] == 1:
                value = min(value, m.values[step, start + cell])
            m.values[step, start + cell] = value
    if m.plan[0]["lipschitz"] < np.inf:
        smooth_values(t, m, step, level)
    while level > 0:
        below = m.levels[level - 1]
        share = (start - below) / (m.levels[level + 1] - start)
        for cell in range(below, start):
            m.values[step, cell] = 0.0
        for cell in range(m.levels[level + 1] - start):
            value = share * m.values[step, start + cell]
            m.values[step, below + coarser_cell(m, level, cell)] += value
        level -= 1
        start = below


@jit_kernel
def smooth_values(t, m, step, level):
    """Lower V of the smallest cells until it changes by at most L_V per distance.

    A value may be used after it was lowered: distances obey the triangle inequality. Cells that
    differ along a discrete axis are not compared.
    """
    start, end = m.levels[level], m.levels[level + 1]
    here, there = m.sides[0], m.sides[2]
    for cell in range(end - start):
        write_center(m, level, cell, here)
        for other in range(end - start):
            write_center(m, level, other, there)
            distance = 0.0
            for axis in range(here.shape[0]):
                away = abs(here[axis] - there[axis])
                if t.axes[axis, ATOMS] > 0.0 and away > 0.0:
                    distance = np.inf
                distance = max(distance, t.axes[axis, WEIGHT] * away)
            bound = m.values[step, start + other] + m.plan[0]["lipschitz"] * distance
            m.values[step, start + cell] = min(m.values[step, start + cell], bound)


@jit_kernel
def plan_all(t, m):
    """Compute Q of all visited balls, and V of all cells, from the last step to the first."""
    n_rows = t.core[0]["n_rows"]
    low, high = m.sides[0], m.sides[1]
    for step in range(t.core[0]["horizon"] - 1, -1, -1):
        for row in range(n_rows - 1, -1, -1):  # children have larger numbers than their parents
            if m.balls[row]["step"] != step:
                continue
            child = np.int64(t.rows[row]["child"])
            if child != ACTIVE:
                t.rows[row]["value"] = max(t.rows[child]["value"], t.rows[child + 1]["value"])
            elif t.rows[row]["n_visits"] > 0:
                t.rows[row]["value"] = estimate_q(t, m, step, row)
        for axis in range(low.shape[0]):
            low[axis], high[axis] = 0.0, 1.0
        estimate_values(t, m, step, low, high)
    m.plan[0]["is_stale"] = 0


@jit_kernel
def plan_if_stale(t):
    """Make a full plan if there are samples that the last plan did not use."""
    m = model_at(t.more)
    if m.plan[0]["is_stale"] == 1:
        plan_all(t, m)


@jit_kernel
def learn_model(t, step, row, reward, next_value, action):
    """Add a sample to the model and plan. Return whether the ball is due to split."""
    m = model_at(t.more)
    if step == 0:
        t.core[0]["episode"] += 1
        set_iota(t.core)
    is_last = step + 1 == t.core[0]["horizon"] or t.place[ENDED] == 1
    t.rows[row]["n_visits"] = min(np.int64(t.rows[row]["n_visits"]) + 1, MAX_VISITS)
    m.balls[row]["n_visits"] += 1.0
    m.balls[row]["reward"] += (reward - m.balls[row]["reward"]) / m.balls[row]["n_visits"]
    if not is_last:
        level = m.balls[row]["level"]
        if m.balls[row]["first"] < 0:
            first = m.plan[0]["used"]
            m.balls[row]["first"] = first
            m.plan[0]["used"] += m.levels[level + 1] - m.levels[level]
            for i in range(first, m.plan[0]["used"]):
                m.counts[i] = 0.0
        m.counts[m.balls[row]["first"] + cell_of(m, level, t.state)] += 1.0
    if m.plan[0]["is_full"] == 0:
        t.rows[row]["value"] = estimate_q(t, m, step, row)
        keep_maxima(t.rows, row)
        sides(t.rows, row, 0, m.sides[0], m.sides[1])
        estimate_values(t, m, step, m.sides[0], m.sides[1])
    else:
        m.plan[0]["is_stale"] = 1
        if is_last:
            plan_all(t, m)
    return (
        t.rows[row]["n_visits"] >= t.rows[row]["due_at"]
        and t.core[0]["n_balls"] < t.core[0]["max_balls"]
    )


@jit_kernel
def has_room(t, n_splits):
    """Return whether there are grids, histograms and rows for `n_splits` steps with a split."""
    m = model_at(t.more)
    n_levels = m.plan[0]["n_levels"]
    largest = m.levels[n_levels] - m.levels[n_levels - 1]
    return (
        m.plan[0]["deepest"] < n_levels
        and m.plan[0]["used"] + n_splits * largest <= m.counts.shape[0]
        and box_has_room(t, n_splits)
    )


@jit_inline
def best(t, step, ties):
    """Return (row of the best ball, V) for the state that was read. An episode begins planned."""
    if step == 0:
        plan_if_stale(t)
    return box_best(t, step, ties)


@jit_kernel
def split(t, row):
    """Split a ball and initialize the models of its children. Return True."""
    first_child = t.core[0]["n_rows"]
    box_split(t, row)
    m = model_at(t.more)
    for child in range(first_child, t.core[0]["n_rows"]):
        m.balls[child]["reward"] = 0.0
        m.balls[child]["n_visits"] = 0.0
        m.balls[child]["first"] = -1
        m.balls[child]["step"] = m.balls[row]["step"]
        m.balls[child]["level"] = t.rows[child]["depth"]
        m.plan[0]["deepest"] = max(m.plan[0]["deepest"], np.int64(t.rows[child]["depth"]))
    return True


@jit_kernel
def plan(handle):
    """Make a full plan if there are samples that the last plan did not use."""
    plan_if_stale(boxes_at(handle))


KERNELS = compile_later(
    "models",
    play.PARTS._replace(has_room=has_room, best=best, learn=learn_model, split=split),
)
