# ruff: noqa: F401, F403
"""Compiled kernels: all code that runs once per step.

- `loop`: compile and cache (`jit`, `numba_parts`), pass environments and tables into compiled
  code and record what is played (`crossing`), both drivers (`episodes`), `heuristics`
- `boxes`: the ball table (`layout`), `update_rule`, selection, splits, optimistic `trees`,
  and the agents of other papers (`searching`, `models`)
- `balls`: balls of any metric, and distance matrices
- `plans`: the planner; `layout` has its memory and constants, `planning` the backward induction
- `solve`: values on a grid of states, and the laws of random outcomes

All kernels are in this folder, because their cache on disk is stamped with its contents. This file
exports the box kernels that the rest of the package uses.
"""

from zooming.kernels.boxes.layout import *
from zooming.kernels.boxes.points import bend, to_unit, unbend
from zooming.kernels.boxes.select import length, most_splits, new_stack, read_mask, sides
from zooming.kernels.boxes.split import due_after, due_at, rows_needed, rows_per_split
from zooming.kernels.boxes.update_rule import ceiling, set_iota
from zooming.kernels.loop.jit import (
    DYNAMICS,
    GIVEN,
    IS_JIT_DISABLED,
    START,
    WEIGH,
    compile_kernel,
    jit_inline,
    jit_kernel,
)
