"""Compiled kernels: all code that runs once per step.

- `loop`: compile and cache (`jit`, `numba_parts`, `watching`), pass environments and tables into
  compiled code (`crossing`), both drivers (`episodes`), and what they record and replay
- `boxes`: the ball table (`layout`), `update_rule`, selection, splits, masks, optimistic `trees`,
  and the agents of other papers (`searching`, `models`)
- `balls`: balls of any metric, and distance matrices
- `plans`: the planner; `layout` has its memory and constants, `planning` the backward induction
- `solve`: values on a grid of states, and the laws of random outcomes

All kernels are in this folder, because their cache on disk is stamped with its contents. This file
exports the box kernels that the rest of the package uses.
"""

from zooming.kernels.boxes.select import length, sides  # noqa: I001
from zooming.kernels.boxes.select import most_splits, new_stack, play_action
from zooming.kernels.loop.jit import DYNAMICS, GIVEN, IS_JIT_DISABLED, START, WEIGH
from zooming.kernels.loop.jit import compile_kernel, jit_inline, jit_kernel
from zooming.kernels.boxes.masks import read_mask
from zooming.kernels.boxes.layout import (
    ACTIVE,
    ALL,
    ATOMS,
    BAD_REWARD,
    BAD_STATE,
    BALL,
    BERNSTEIN,
    CENTER,
    CORE,
    CORNER,
    DUE,
    EITHER,
    EXACT,
    FINE,
    FIRST,
    FIRST_COPY,
    FIRST_VALUE,
    FULL,
    GOES_ON,
    LONGEST,
    LOW,
    METRIC_BALL,
    METRIC_CORE,
    MODEL,
    N_PLACES,
    N_STATS,
    NO_PARENT,
    NOT_PLAYED,
    PAYLOAD,
    POINT,
    RANDOM,
    RANDOMIZED,
    LENGTH_TOLERANCE,
    PUBLISHED_SEARCH,
    SCALED,
    SEARCH,
    STORED_BALL,
    TERMINATED,
    TRUNCATED,
    UNIFORM,
    WEIGHT,
    WIDTH,
    WITHIN,
    WRONG_SIZE,
)
from zooming.kernels.boxes.update_rule import ceiling, set_iota
from zooming.kernels.boxes.points import bend, to_unit, unbend
from zooming.kernels.boxes.split import due_after, due_at, rows_needed, rows_per_split

__all__ = [
    "DYNAMICS", "GIVEN", "IS_JIT_DISABLED", "START", "WEIGH", "compile_kernel", "jit_kernel",
    "jit_inline", "ACTIVE", "ALL", "ATOMS", "BAD_REWARD", "BAD_STATE", "BALL", "BERNSTEIN",
    "CENTER", "CORE", "CORNER", "DUE", "EITHER", "EXACT", "FINE", "FIRST", "FIRST_COPY",
    "FIRST_VALUE", "FULL", "GOES_ON", "LONGEST", "LOW", "METRIC_BALL", "METRIC_CORE", "MODEL",
    "N_PLACES", "N_STATS", "NO_PARENT", "NOT_PLAYED", "STORED_BALL", "TERMINATED", "TRUNCATED",
    "PAYLOAD", "POINT", "PUBLISHED_SEARCH", "SCALED", "SEARCH", "RANDOM", "RANDOMIZED",
    "LENGTH_TOLERANCE", "UNIFORM", "WEIGHT", "WIDTH", "WITHIN", "WRONG_SIZE", "ceiling", "set_iota",
    "bend", "to_unit", "unbend", "length", "most_splits", "new_stack", "play_action", "sides",
    "due_after", "due_at", "rows_needed", "rows_per_split", "read_mask",
]  # fmt: skip
