"""Pass all arrays of a table into compiled code as one array of addresses.

Each array that crosses into compiled code costs about 0.1 us, and a tuple of arrays several times
as much. So a table crosses as one `handle`, and compiled code builds its record of arrays from it.
The caller keeps the arrays alive, and packs a new handle whenever it replaces one of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, int64, types
from numba.extending import intrinsic

from zooming.kernels.jit import IS_JIT_DISABLED, jit_inline_refcount
from zooming.kernels.layout import BALL, CORE, METRIC_BALL, METRIC_CORE

# Numba's type of a handle, for the signatures of kernels.
TABLE = types.pyobject if IS_JIT_DISABLED else int64[::1]
_WORDS = 4  # of each array in a handle: its address, and up to three lengths


class Boxes(NamedTuple):
    """The arrays of a `BoxTable`, with scratch memory."""

    rows: Any  # BALL [n_rows]
    core: Any  # CORE [1]
    stats: Any  # float64 [n_rows or 0, N_STATS]
    axes: Any  # float64 [n_axes, 5], see `layout.LOW`
    place: Any  # int64, see `layout.KEPT_STEP`
    state: Any  # float64 [n_state], in the unit cube
    action: Any  # float64 [n_action], in the unit cube
    low: Any  # float64 [n_action]
    high: Any  # float64 [n_action]
    stack: Any  # int64, see `new_stack`
    more: Any  # handle of what is kept beside the balls, see `layout.SEARCH`; empty for most agents


class Balls(NamedTuple):
    """The arrays of a `BallTable` with its metric and scratch memory. See `balls`."""

    rows: Any  # METRIC_BALL [n_rows]
    core: Any  # METRIC_CORE [1]
    stats: Any  # float64 [n_rows or 0, N_STATS]
    owner: Any  # int32 [n_steps, n_states, n_actions]
    distances: Any  # float64 [n_states, n_states], or of all pairs
    action_distances: Any  # float64 [n_actions, n_actions]
    orders: Any  # int32, as `distances`
    action_orders: Any  # int32, as `action_distances`, or of all pairs
    grid: Any  # float64 [n_axes, 4], see `balls.COUNT`
    everything: Any  # uint8 [n_actions], all 1: the mask if every action is feasible
    place: Any  # int64, see `layout.KEPT_STEP`
    seen: Any  # int64 [n_rows + 1], see `balls.select`


def pack(record: Any) -> Any:
    """Return the handle of a record of arrays, or the record if compilation is disabled."""
    if IS_JIT_DISABLED:
        return record
    words = np.zeros((len(record), _WORDS), np.int64)
    for i, array in enumerate(record):
        words[i, 0], words[i, 1 : 1 + array.ndim] = array.ctypes.data, array.shape
    return words.ravel()


@intrinsic
def _pointer(context, address):
    """Convert an address to a pointer."""

    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(address), build


@jit_inline_refcount
def vector_at(words, i, dtype):
    """Return the one-dimensional array number i of a handle. References are not counted."""
    return carray(_pointer(words[_WORDS * i]), words[_WORDS * i + 1], dtype)


@jit_inline_refcount
def matrix_at(words, i, dtype):
    """Return the two-dimensional array number i of a handle."""
    k = _WORDS * i
    return carray(_pointer(words[k]), (words[k + 1], words[k + 2]), dtype)


@jit_inline_refcount
def _cube(words, i, dtype):
    """Return the three-dimensional array number i of a handle."""
    k = _WORDS * i
    return carray(_pointer(words[k]), (words[k + 1], words[k + 2], words[k + 3]), dtype)


@jit_inline_refcount
def _open_boxes(words):
    return Boxes(
        rows=vector_at(words, 0, BALL),
        core=vector_at(words, 1, CORE),
        stats=matrix_at(words, 2, np.float64),
        axes=matrix_at(words, 3, np.float64),
        place=vector_at(words, 4, np.int64),
        state=vector_at(words, 5, np.float64),
        action=vector_at(words, 6, np.float64),
        low=vector_at(words, 7, np.float64),
        high=vector_at(words, 8, np.float64),
        stack=vector_at(words, 9, np.int64),
        more=vector_at(words, 10, np.int64),
    )


@jit_inline_refcount
def _open_balls(words):
    return Balls(
        rows=vector_at(words, 0, METRIC_BALL),
        core=vector_at(words, 1, METRIC_CORE),
        stats=matrix_at(words, 2, np.float64),
        owner=_cube(words, 3, np.int32),
        distances=matrix_at(words, 4, np.float64),
        action_distances=matrix_at(words, 5, np.float64),
        orders=matrix_at(words, 6, np.int32),
        action_orders=matrix_at(words, 7, np.int32),
        grid=matrix_at(words, 8, np.float64),
        everything=vector_at(words, 9, np.uint8),
        place=vector_at(words, 10, np.int64),
        seen=vector_at(words, 11, np.int64),
    )


def itself(handle):
    """Return the handle. It is the record itself if compilation is disabled."""
    return handle


# Return the record of a handle. For use in compiled code.
boxes_at = itself if IS_JIT_DISABLED else _open_boxes
balls_at = itself if IS_JIT_DISABLED else _open_balls
