"""The ball table of boxes: one record per ball, the core with what all balls of an agent share, and the codes in them.

One structured array holds every ball of an agent, one row each. Rows 0 to H-1 are the roots of the H partitions. A split
ball becomes an inner row of a binary tree: it carries an axis, a threshold and the row of its first child, and its `value`
is from then on the largest Q below it. Two siblings lie in rows (2i, 2i + 1), so one cache line holds both and `row ^ 1` is
the sibling.
"""

from __future__ import annotations

import numpy as np

BALL = np.dtype(
    [
        ("value", "f8"),  # Q of an active ball; of an inner row, the largest Q below it
        # Inner rows: points with coordinate >= threshold belong to the second child. Active balls: the n(B) that makes it due.
        ("threshold", "f8"),
        ("n_visits", "u4"),  # n(B), ancestors included; stays at 2^32 - 1, so no ball gets deeper than 16
        ("child", "i4"),  # first of two consecutive rows, or ACTIVE
        ("parent", "i4"),  # or NO_PARENT for a root
        ("depth", "u1"),  # splits above it, up to 255; a cube's radius is 2^-depth
        ("axis", "u1"),  # inner rows: the axis that the threshold cuts
    ],
    align=True,
)
CORE = np.dtype(
    [
        ("n_rows", "i8"),
        ("n_balls", "i8"),  # active balls, all steps together
        ("max_balls", "i8"),
        ("random", "u8"),  # state of the agent's own generator
        ("horizon", "i8"),
        ("n_state", "i8"),  # axes 0 .. n_state-1 are the state's, then n_action of the action's
        ("n_action", "i8"),
        ("ties", "i8"),
        ("action_rule", "i8"),
        ("full_cap", "i8"),  # 1: values are capped by H as in the paper; 0: by the number of steps left
        ("cubes", "i8"),  # 1: every ball is a cube of side 2^-depth
        ("rule", "i8"),  # how a ball is split: ALL, LONGEST, OWN
        ("split_axes", "i8"),  # the most axes that the kernel halves at once; 0 if the Python edge splits
        ("bonus_rule", "i8"),  # SCALED: bonus / sqrt(t); EXACT, BERNSTEIN: by the visits of each ball, in `stats`
        ("bonus", "f8"),  # per_root_iota sqrt(iota) + plain
        ("spacing", "f8"),  # of a net, whose balls are never due; 0: no net
        ("reward_low", "f8"),
        ("reward_high", "f8"),
        ("episode", "i8"),  # begun so far: updates of step 0
        ("first_iota", "f8"),  # if K is not known, iota_k = first_iota + 2 log k in episode k; else 0
        # What only some bonuses need comes last, away from what every step reads.
        ("iota", "f8"),
        ("per_root_iota", "f8"),
        ("plain", "f8"),
        ("phase", "i8"),  # of the doubling trick
        ("reward_span", "f8"),
        ("reward_spread", "f8"),  # exact bonus: the range of the reward around its mean, in spans
        ("lipschitz", "f8"),  # exact bonus: L
        ("c1", "f8"),  # Bernstein's constants
        ("c2", "f8"),
    ],
    align=True,
)
N_STATS = 3  # numbers that the exact and the Bernstein bonus keep per ball
ACTIVE, NO_PARENT = 0, -1
SCALED, EXACT, BERNSTEIN = 0, 1, 2
RANDOM, FIRST, EITHER = 0, 1, 2  # ties: equally likely; the first from low to high, split by split; the one found soonest
CENTER, UNIFORM, CORNER, POINT = 0, 1, 2, 3  # the action played in a ball; POINT: a multiple of the net's spacing
ALL, LONGEST, OWN = 0, 1, 2  # split rules: every side longer than half the diameter; the longest side; a rule of the user's
FINE, FULL, BAD_REWARD, BAD_STATE = 0, 1, 2, 3  # why `play` and `update` came back
DUE = -1  # from `play`: trouble[1] is a ball to split by the user's own rule; from `update`: DUE - row is
WRONG_SIZE = -(2**40)
NOWHERE = -(2**40)  # from `choose`: no ball has a feasible action
# Columns of `axes`: unit = (x - low) / width; weight in the metric; number of whole values (0: an interval); 1 for float32.
LOW, WIDTH, WEIGHT, ATOMS, SINGLE = 0, 1, 2, 3, 4
FIRST_VALUE = 2  # columns of `allowed`, a row per action axis: LOW and the high end of what is feasible, then a mask of values
MAX_VISITS = 2**32 - 1
ROUNDING = 1e-6  # a coordinate this share of its axis outside the bounds is rounding, and clipped
SAME = 1e-9  # lengths this close to each other are equal up to rounding
