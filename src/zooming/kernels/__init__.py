"""Compiled kernels: all code that runs once per step.

Each file imports only from files named before it. `jit` compiles, `laws` weighs random outcomes,
`crossing` passes environments into compiled code, `layout` defines the ball table, `update_rule`
has the update rule, and `records` passes tables into compiled code. For boxes there are `points`,
`boxes` (selection), `splitting` and `masks` (feasible actions), for balls of any metric `balls` and
`ball_domains`, for optimistic trees `trees`. Relatives of other papers have `searching` (when to
train, evaluate and go back) and `models` (counts of next states, planning). `pausing` and
`episodes` are both drivers, written once for any table, and `replay` learns from recorded
transitions. `box_episodes`, `tree_episodes`, `ball_episodes` and `heuristics` (agents that follow a
fixed rule) have the parts in which tables differ; `box_queries` has what Python asks. `distances`
computes distance matrices, and `backups` values on a grid of states. A planner has `plan_layout`
(its memory and constants), `grids`, `smoothing`, `planning` (backward induction), `plan_actions`,
`plan_episodes` (its parts of the loop), and `plan_replay`. `recording` writes down what an agent
plays, for others.

All kernels live in this folder, because their cache on disk is stamped with its contents. This file
exports the box kernels that the rest of the package uses.
"""

from zooming.kernels.boxes import (  # noqa: I001
    length,
    most_splits,
    new_stack,
    play_action,
    sides,
    update_ball,
)
from zooming.kernels.jit import DYNAMICS, GENERATOR, GIVEN, IS_JIT_DISABLED, START, WEIGH
from zooming.kernels.jit import (
    compile_kernel,
    jit_kernel,
    jit_with_signature,
    jit_inline,
    jit_no_refcount,
)
from zooming.kernels.masks import read_mask
from zooming.kernels.layout import (
    ACTIVE, ALL, ATOMS, BAD_REWARD, BAD_STATE, BALL, BERNSTEIN, CENTER, CORE, CORNER, DUE, EITHER,
    EXACT, FINE, FIRST,
    FIRST_COPY, FIRST_VALUE, FULL, GOES_ON, LONGEST, LOW, METRIC_BALL, METRIC_CORE, MODEL, N_PLACES,
    N_STATS, NO_PARENT, NOT_PLAYED, OWN, PAYLOAD, PLAIN, POINT, RANDOM, RANDOMIZED,
    LENGTH_TOLERANCE, SCALED, SEARCH,
    STORED_BALL, TERMINATED,
    TRUNCATED, UNIFORM, WEIGHT, WIDTH, WRONG_SIZE,
)  # fmt: skip
from zooming.kernels.update_rule import ceiling, draw, set_iota
from zooming.kernels.points import bend, to_unit, unbend
from zooming.kernels.splitting import cut, due_after, due_at, middle, rows_needed, rows_per_split

__all__ = [
    "DYNAMICS", "GENERATOR", "GIVEN", "IS_JIT_DISABLED", "START", "WEIGH", "compile_kernel",
    "jit_kernel", "jit_with_signature", "jit_inline", "jit_no_refcount", "ACTIVE", "ALL", "ATOMS",
    "BAD_REWARD", "BAD_STATE", "BALL", "BERNSTEIN", "CENTER", "CORE", "CORNER", "DUE", "EITHER",
    "EXACT", "FINE", "FIRST", "FIRST_COPY", "FIRST_VALUE", "FULL", "GOES_ON", "LONGEST", "LOW",
    "METRIC_BALL", "METRIC_CORE", "MODEL", "N_PLACES", "N_STATS", "NO_PARENT", "NOT_PLAYED",
    "STORED_BALL",
    "TERMINATED", "TRUNCATED", "OWN", "PAYLOAD", "PLAIN", "POINT", "SCALED", "SEARCH",
    "RANDOM", "RANDOMIZED", "LENGTH_TOLERANCE", "UNIFORM",
    "WEIGHT", "WIDTH", "WRONG_SIZE", "ceiling", "draw",
    "set_iota", "bend", "to_unit", "unbend", "length", "most_splits", "new_stack", "play_action",
    "sides", "update_ball", "cut", "due_after", "due_at", "middle", "rows_needed", "rows_per_split",
    "read_mask",
]  # fmt: skip
