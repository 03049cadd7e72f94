"""Where an episode stands while the caller splits a ball: (steps played, row to play next, return, row to split, state).

The agent keeps it, so that an episode that an interrupt stops here goes on in the next call of learn().
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_inline

N_STEPS, NEXT_ROW, RETURN, DUE_ROW, STATE = 0, 1, 2, 3, 4  # places in `paused`; N_STEPS is 0 if no episode waits


@jit_inline
def pause(paused, n_steps, row, total, due_row, state):
    paused[N_STEPS], paused[NEXT_ROW], paused[RETURN], paused[DUE_ROW] = n_steps, row, total, due_row
    for i in range(state.shape[0]):
        paused[STATE + i] = state[i]


@jit_inline
def resume(paused, state):
    """(steps played, row to play next, return so far), with the state written; all 0 if a new episode is to begin."""
    n_steps = np.int64(paused[N_STEPS])
    if n_steps == 0:
        return n_steps, np.int64(0), 0.0
    paused[N_STEPS] = 0.0
    for i in range(state.shape[0]):
        state[i] = paused[STATE + i]
    return n_steps, np.int64(paused[NEXT_ROW]), paused[RETURN]
