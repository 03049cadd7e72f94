"""Where an episode stands while the caller splits a ball: `paused` is (steps played, row to play next, return, state)."""

from __future__ import annotations

import numpy as np

from zooming.kernels.compiling import inlined


@inlined
def pause(paused, n_steps, row, total, state):
    paused[0], paused[1], paused[2] = n_steps, row, total
    for i in range(state.shape[0]):
        paused[3 + i] = state[i]


@inlined
def resume(paused, state):
    """(steps played, row to play next, return so far), with the state written; all 0 if a new episode is to begin."""
    n_steps = np.int64(paused[0])
    if n_steps == 0:
        return n_steps, np.int64(0), 0.0
    paused[0] = 0.0
    for i in range(state.shape[0]):
        state[i] = paused[3 + i]
    return n_steps, np.int64(paused[1]), paused[2]
