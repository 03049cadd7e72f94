"""Compiled kernels: everything that runs per step, in files that call each other from top to bottom.

`compiling` (how), `crossing` (an environment in compiled code), `layout` (the ball table), `learning` (the update rule),
`points`, `boxes` (selection), `splitting`, `feasible` (masks), `pausing`, `episodes` (both drivers); `balls` and
`ball_episodes` are the same for balls of any metric, whose distances `paths` computes; `rules` are the heuristics. All of them
live in this folder, because that is what their cache on disk depends on. Here is what the rest of the package uses of boxes.
"""

from zooming.kernels.boxes import length, most_splits, new_stack, play_action, sides, update_ball  # noqa: I001
from zooming.kernels.jit import DYNAMICS, GENERATOR, GIVEN, PLAIN, START, cached, compiled, fixed, jit_inline, jit_no_refcount
from zooming.kernels.episodes import act, best_ball, greedy, locate, play, update
from zooming.kernels.masks import choose, read_mask
from zooming.kernels.layout import (
    ACTIVE, ALL, ATOMS, BAD_REWARD, BAD_STATE, BALL, BERNSTEIN, CENTER, CORE, CORNER, DUE, EITHER, EXACT, FINE, FIRST,
    FIRST_VALUE, FULL, LONGEST, LOW, N_STATS, NO_PARENT, OWN, POINT, RANDOM, SAME, UNIFORM, WEIGHT, WIDTH, WRONG_SIZE,
)  # fmt: skip
from zooming.kernels.update import ceiling, draw, set_iota
from zooming.kernels.points import bend, to_unit, unbend
from zooming.kernels.splitting import cut, due_at, middle, rows_needed, rows_per_split

__all__ = [
    "DYNAMICS", "GENERATOR", "GIVEN", "PLAIN", "START", "cached", "compiled", "fixed", "jit_inline",
    "jit_no_refcount", "ACTIVE", "ALL",
    "ATOMS", "BAD_REWARD", "BAD_STATE", "BALL", "BERNSTEIN", "CENTER", "CORE", "CORNER", "DUE", "EITHER", "EXACT", "FINE",
    "FIRST", "FIRST_VALUE", "FULL", "LONGEST", "LOW", "N_STATS", "NO_PARENT", "OWN", "POINT", "RANDOM", "SAME", "UNIFORM",
    "WEIGHT", "WIDTH", "WRONG_SIZE", "ceiling", "draw", "set_iota", "bend", "to_unit", "unbend", "length", "most_splits",
    "new_stack", "play_action", "sides", "update_ball", "cut", "due_at", "middle", "rows_needed", "rows_per_split", "choose",
    "read_mask", "act", "best_ball", "greedy", "locate", "play", "update",
]  # fmt: skip
