"""Pass all arrays of a table into compiled code as one array of addresses.

Each array that crosses into compiled code costs about 0.1 us, and a tuple of arrays several times
as much. So a table crosses as one `handle`, and compiled code makes its record of arrays from it.
The caller keeps the arrays alive: it packs a new handle whenever it replaces one of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import float64, from_dtype, int32, int64, types, uint8
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from zooming.kernels.jit import IS_JIT_DISABLED
from zooming.kernels.layout import BALL, CORE, METRIC_BALL, METRIC_CORE

# Numba's type of a handle, for the signatures of kernels.
TABLE = types.pyobject if IS_JIT_DISABLED else int64[::1]
_WORDS = 4  # of each array in a handle: its address, and up to three lengths


class Boxes(NamedTuple):
    """The arrays of a `BoxTable`, and scratch memory."""

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


class Balls(NamedTuple):
    """The arrays of a `BallTable` with its metric, and scratch memory. See `balls`."""

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
    """Return the handle of a record of arrays; the record itself if compilation is disabled."""
    if IS_JIT_DISABLED:
        return record
    words = np.zeros((len(record), _WORDS), np.int64)
    for i, array in enumerate(record):
        words[i, 0], words[i, 1 : 1 + array.ndim] = array.ctypes.data, array.shape
    return words.ravel()


def _opener(record: Any, *kinds: Any) -> Any:
    """Return a function for compiled code that makes a record of arrays from its handle.

    `kinds` are the Numba types of the arrays. They count no references.
    """
    made = types.NamedTuple(kinds, record)

    @intrinsic
    def open_record(context, handle):
        def build(context, builder, signature, arguments):
            words = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            arrays = [_array(context, builder, words, i, kind) for i, kind in enumerate(kinds)]
            return context.make_tuple(builder, made, arrays)

        return made(handle), build

    return open_record


def _array(context, builder, words, i, kind):
    """Build Numba's array from its address and lengths, which begin at words[_WORDS * i]."""
    address, *shape = (
        builder.load(cgutils.gep(builder, words, _WORDS * i + k)) for k in range(1 + kind.ndim)
    )
    array = context.make_array(kind)(context, builder)
    itemsize = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    )
    strides = [itemsize]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(
        array,
        data=builder.inttoptr(address, array.data.type),
        shape=shape,
        strides=strides,
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


def _itself(handle):
    return handle


_VECTOR, _MATRIX, _WHOLE, _ORDER = float64[::1], float64[:, ::1], int64[::1], int32[:, ::1]
# Return the record of a handle. For use in compiled code.
boxes_at = balls_at = _itself
if not IS_JIT_DISABLED:
    boxes_at = _opener(
        Boxes, from_dtype(BALL)[::1], from_dtype(CORE)[::1], _MATRIX, _MATRIX, _WHOLE, _VECTOR,
        _VECTOR, _VECTOR, _VECTOR, _WHOLE,
    )  # fmt: skip
    balls_at = _opener(
        Balls, from_dtype(METRIC_BALL)[::1], from_dtype(METRIC_CORE)[::1], _MATRIX,
        int32[:, :, ::1], _MATRIX, _MATRIX, _ORDER, _ORDER, _MATRIX, uint8[::1], _WHOLE, _WHOLE,
    )  # fmt: skip
