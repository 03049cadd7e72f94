"""Learn from recorded transitions: call `update` of `episodes` in a compiled loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import boolean, float64, int64

from zooming.kernels.boxes.layout import BAD_REWARD, DUE, FINE
from zooming.kernels.boxes.update_rule import learned_reward
from zooming.kernels.loop.crossing import TABLE
from zooming.kernels.loop.jit import jit_with_signature


def make_replay(name: str, update: Callable[..., int]) -> Callable[..., int]:
    """Return the compiled kernel `replay`, which calls the kernel `update` of a kind of table."""

    def replay(
        table, steps, states, actions, rewards, next_states, terminated, reward_low, reward_high,
        clipping, done,
    ):  # fmt: skip
        """Learn from the transitions from index done[0] on, in their order. Return a code.

        FINE: all are learned. DUE: transitions before done[0] are learned, and Python must split
        the ball of the last of these. For the other codes of `update`, and for BAD_REWARD,
        transition done[0] is not learned. `clipping` is (1 if rewards are clipped, number of
        clipped rewards).
        """
        while done[0] < steps.shape[0]:
            k = done[0]
            reward = learned_reward(rewards[k], reward_low, reward_high, clipping)
            if np.isnan(reward):
                return BAD_REWARD
            code = update(
                table, steps[k], states[k], actions[k], reward, next_states[k], terminated[k],
                np.nan,
            )  # fmt: skip
            if code != FINE and code != DUE:
                return code
            if reward != rewards[k]:
                clipping[1] += 1
            done[0] += 1
            if code == DUE:
                return DUE
        return FINE

    replay.__name__ = replay.__qualname__ = f"replay_{name}"
    vector, matrix, whole = float64[::1], float64[:, ::1], int64[::1]
    return jit_with_signature(
        replay, TABLE, whole, matrix, matrix, vector, matrix, boolean[::1], float64, float64,
        whole, whole, name=replay.__name__,
    )  # fmt: skip
