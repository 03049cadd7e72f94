"""Nearest-neighbor Q-learning on a net: a sample counts for all states of the net near to it.

A ball of the net is a pair (c, a) of a state c and a cell a of actions. Its Q averages the targets
of all samples (x, a) with |x - c| below the spacing along every axis, by the update rule. The value
of a state is that of the nearest c. [Shah and Xie 2018]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.boxes import play
from zooming.kernels.boxes.data_cuts import act, locate
from zooming.kernels.boxes.select import find, update_ball
from zooming.kernels.loop.crossing import itself, matrix_at, vector_at
from zooming.kernels.loop.episodes import compile_later
from zooming.kernels.loop.jit import IS_JIT_DISABLED, jit_inline_refcount, jit_kernel

root_of = play.root_of


class Neighbors(NamedTuple):
    """`Boxes.more` of a table of neighbors. The first field is that of `data_cuts.Played`."""

    points: Any  # float64 [horizon, n_axes]: the last pair of each step, in the unit cube
    centers: Any  # float64 [n_state, most]: states of the net along each axis, then infinity
    reach: Any  # float64 [n_state]: the distance below which a center is near, 0 for categories


@jit_inline_refcount
def _open_neighbors(words):
    return Neighbors(
        matrix_at(words, 0, np.float64), matrix_at(words, 1, np.float64),
        vector_at(words, 2, np.float64),
    )  # fmt: skip


neighbors_at = itself if IS_JIT_DISABLED else _open_neighbors


@jit_kernel
def learn(t, step, row, reward, next_value, action):
    """Apply the update rule to the ball that was played and to all near ones. Return False."""
    update_ball(t, step, row, reward, next_value, action)
    near, core = neighbors_at(t.more), t.core
    n_state, most = near.centers.shape
    state, played = np.empty(n_state), near.points[step, n_state:].copy()
    # Count through all combinations of centers, the last axis fastest.
    place = np.zeros(n_state, np.int64)
    axis = 0
    while axis >= 0:
        if axis == n_state:
            found = find(t.rows, n_state, root_of(core, step), state, played)
            if found != row:
                if step == 0:
                    core[0]["episode"] -= 1  # the update rule counts it again
                update_ball(t, step, found, reward, next_value, action)
            axis -= 1
            continue
        i = place[axis]
        if i == most:
            place[axis] = 0
            axis -= 1
            continue
        place[axis] += 1
        state[axis] = near.centers[axis, i]
        if abs(near.points[step, axis] - state[axis]) < near.reach[axis]:
            axis += 1
        elif near.reach[axis] == 0.0 and i == 0:  # a category: the sample's own
            state[axis] = near.points[step, axis]
            axis += 1
    return False


KERNELS = compile_later("boxes_nearest", play.PARTS._replace(act=act, learn=learn, locate=locate))
