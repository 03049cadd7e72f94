"""Compiled kernels: all code that runs once per step.

Each file imports only from files named before it:

- for all tables: `numba_parts` (private parts of Numba), `watching` (say what is compiled), `jit`
  (compile and cache), `laws` (random outcomes), `crossing` (pass environments into compiled code),
  `layout` (the ball table), `update_rule`, `records` (pass tables into compiled code)
- boxes: `points`, `box_sides`, `boxes` (select, act, update), `splitting`, `masks` (feasible
  actions)
- balls of any metric: `balls`, `ball_domains`; optimistic trees: `trees`
- loops: `table_parts` (the functions in which tables differ), `pausing`, `replay` (learn from
  recorded transitions), `episodes` (both drivers)
- these functions for each kind of table: `box_episodes`, `box_queries` (kernels on boxes that
  Python calls), `searching` and `models` (agents of other papers), `tree_episodes`,
  `ball_episodes`, `heuristics` (agents that follow a fixed rule)
- `distances` (distance matrices), `backups` (values on a grid of states)
- the planner: `plan_layout` (its memory and constants), `grids`, `trends`, `smoothing`,
  `exploring`, `planning` (backward induction), `plan_actions`, `plan_episodes`, `plan_replay`
- `recording`: record what an agent plays, for other agents

All kernels are in this folder, because their cache on disk is stamped with its contents. This file
exports the box kernels that the rest of the package uses.
"""

from zooming.kernels.boxes.select import length, sides  # noqa: I001
from zooming.kernels.boxes.select import most_splits, new_stack, play_action, update_ball
from zooming.kernels.loop.jit import DYNAMICS, GENERATOR, GIVEN, IS_JIT_DISABLED, START, WEIGH
from zooming.kernels.loop.jit import (
    compile_kernel,
    jit_kernel,
    jit_with_signature,
    jit_inline,
    jit_no_refcount,
)
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
    OWN,
    PAYLOAD,
    PLAIN,
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
    WRONG_SIZE,
)
from zooming.kernels.boxes.update_rule import ceiling, draw, set_iota
from zooming.kernels.boxes.points import bend, to_unit, unbend
from zooming.kernels.boxes.split import cut, due_after, due_at, middle, rows_needed, rows_per_split

__all__ = [
    "DYNAMICS", "GENERATOR", "GIVEN", "IS_JIT_DISABLED", "START", "WEIGH", "compile_kernel",
    "jit_kernel", "jit_with_signature", "jit_inline", "jit_no_refcount", "ACTIVE", "ALL", "ATOMS",
    "BAD_REWARD", "BAD_STATE", "BALL", "BERNSTEIN", "CENTER", "CORE", "CORNER", "DUE", "EITHER",
    "EXACT", "FINE", "FIRST", "FIRST_COPY", "FIRST_VALUE", "FULL", "GOES_ON", "LONGEST", "LOW",
    "METRIC_BALL", "METRIC_CORE", "MODEL", "N_PLACES", "N_STATS", "NO_PARENT", "NOT_PLAYED",
    "STORED_BALL",
    "TERMINATED", "TRUNCATED", "OWN", "PAYLOAD", "PLAIN", "POINT", "PUBLISHED_SEARCH",
    "SCALED", "SEARCH",
    "RANDOM", "RANDOMIZED", "LENGTH_TOLERANCE", "UNIFORM",
    "WEIGHT", "WIDTH", "WRONG_SIZE", "ceiling", "draw",
    "set_iota", "bend", "to_unit", "unbend", "length", "most_splits", "new_stack", "play_action",
    "sides", "update_ball", "cut", "due_after", "due_at", "middle", "rows_needed", "rows_per_split",
    "read_mask",
]  # fmt: skip
