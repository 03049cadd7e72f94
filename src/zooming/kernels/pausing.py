"""Store where an episode stopped while the caller splits a ball.

`paused` is (steps played, row to play next, return so far, row to split, state). If the number of
steps played is 0, no episode is stored. The agent keeps `paused`, so that the next call of learn()
continues an episode that was interrupted here.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_inline

N_STEPS, NEXT_ROW, RETURN, DUE_ROW, STATE = 0, 1, 2, 3, 4  # indices in `paused`


@jit_inline
def pause(paused, n_steps, row, total, due_row, state):
    """Store where the episode stopped."""
    paused[N_STEPS], paused[NEXT_ROW], paused[RETURN], paused[DUE_ROW] = (
        n_steps,
        row,
        total,
        due_row,
    )
    for i in range(state.shape[0]):
        paused[STATE + i] = state[i]


@jit_inline
def resume(paused, state):
    """Write the stored state. Return (steps played, row to play next, return so far).

    If no episode is stored, return zeros and write nothing.
    """
    n_steps = np.int64(paused[N_STEPS])
    if n_steps == 0:
        return n_steps, np.int64(0), 0.0
    paused[N_STEPS] = 0.0
    for i in range(state.shape[0]):
        state[i] = paused[STATE + i]
    return n_steps, np.int64(paused[NEXT_ROW]), paused[RETURN]
