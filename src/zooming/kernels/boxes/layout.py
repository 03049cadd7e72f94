"""The ball table of boxes: one record per ball, one core record per agent, and the codes in them.

One structured array holds every ball of an agent, one row each. Rows 0 to H-1 are the roots of the
H partitions, or of fewer if steps share them. A split ball becomes an inner row
of a binary tree: it carries an axis, a cut and the row of its first child, and its `value` is from
then on the largest Q below it. Two siblings lie in rows (2i, 2i + 1), so one cache line holds both
and `row ^ 1` is the sibling.
"""

from __future__ import annotations

import numpy as np

# Two names for one place: a ball is cut, or it is due, never both. So two siblings fit in one cache
# line. `cut` is for inner rows: points with coordinate >= cut belong to the second child. `due_at`
# is for active balls: the ball is due to split when n(B) >= due_at.
BALL = np.dtype(
    {
        "names": ["value", "cut", "due_at", "n_visits", "child", "parent", "depth", "axis"],
        "formats": ["f8", "f8", "f8", "u4", "i4", "i4", "u1", "u1"],
        "offsets": [0, 8, 8, 16, 20, 24, 28, 29],
        "itemsize": 32,
    },
    align=True,
)
# The same rows as a file names them.
STORED_BALL = np.dtype(
    [
        ("value", "f8"),  # Q of an active ball; of an inner row, the largest Q below it
        ("threshold", "f8"),  # `cut` of an inner row, `due_at` of an active ball
        ("n_visits", "u4"),  # n(B), ancestors included; at most 2^32 - 1, so cubes have depth <= 16
        ("child", "i4"),  # first of two consecutive rows, or ACTIVE
        ("parent", "i4"),  # or NO_PARENT for a root
        ("depth", "u1"),  # number of splits above it, up to 255; a cube's radius is 2^-depth
        ("axis", "u1"),  # inner rows: the axis that is cut
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
        ("shared", "i8"),  # steps in a row that share a partition; 0: each step has its own
        ("learning", "i8"),  # PLAIN: the update rule; the others: see their kernels
        ("n_state", "i8"),  # axes 0 to n_state - 1 are the state's, the next n_action the action's
        ("n_action", "i8"),
        ("ties", "i8"),
        ("action_rule", "i8"),
        ("full_cap", "i8"),  # 1: the cap of V counts H steps, as in the paper; 0: the steps left
        ("cubes", "i8"),  # 1: every ball is a cube of side 2^-depth
        ("rule", "i8"),  # how to split: ALL, LONGEST, MEDIAN, VARIANCE; plus WITHIN with a budget
        ("split_axes", "i8"),  # the most axes that the kernel halves at once; 0 if Python splits
        ("bonus_rule", "i8"),  # SCALED: bonus / sqrt(t); the others compute from `stats`
        ("n_stats", "i8"),  # numbers that the rule keeps per ball, if it keeps any
        ("bonus", "f8"),  # per_root_iota sqrt(iota) + plain
        ("spacing", "f8"),  # spacing of a net, whose balls are never due; 0: no net
        ("reward_low", "f8"),
        ("reward_high", "f8"),
        ("episode", "i8"),  # episodes begun so far: updates of step 0
        ("first_iota", "f8"),  # K unknown: iota_k = first_iota + 2 log k in episode k; K known: 0
        # Fields that only some bonuses read come last, away from those that every step reads.
        ("iota", "f8"),
        ("per_root_iota", "f8"),
        ("plain", "f8"),
        ("phase", "i8"),  # phase of the doubling trick
        ("reward_span", "f8"),
        ("reward_spread", "f8"),  # exact bonus: range of the reward around its mean, in reward_span
        ("lipschitz", "f8"),  # exact bonus: L; trees: their slope
        ("c1", "f8"),  # Bernstein's constants
        ("c2", "f8"),
        ("rates_seed", "u8"),  # randomized learning rates: seed of their own stream
        ("due_power", "f8"),  # a ball is due at due_factor / diam^due_power visits
        ("due_factor", "f8"),
        ("prior_samples", "f8"),  # randomized learning rates: number of optimistic prior samples
        ("mean_reward", "f8"),  # recent mean reward of a step, see `budget`
        ("memory", "i8"),  # T: the learning rate is that of visit min(t, T)
    ],
    align=True,
)
# Balls of a metric: see `balls`.
METRIC_BALL = np.dtype(
    [
        ("value", "f8"),  # Q
        ("radius", "f8"),
        ("reach", "f8"),  # the radius to the power p, in the unit of the stored distances
        ("n_visits", "i8"),  # n(B), ancestors included
        ("state", "i4"),  # (state, action) is the center
        ("action", "i4"),
        ("parent", "i4"),  # or NO_PARENT for a root
        ("n_points", "i4"),  # size of the domain; 0: the ball is not active
        ("depth", "i4"),
        ("step", "i4"),
    ],
    align=True,
)
# The core of boxes, with three more fields.
METRIC_CORE = np.dtype(
    [
        *CORE.descr,
        ("lazy", "i8"),  # 1: each visit of a due ball adds one child, around the pair played
        ("split_after", "f8"),
        ("power", "f8"),  # p of the product; 0: the maximum; PAIRS: the metric is not a product
    ],
    align=True,
)
N_STATS = 3  # numbers that the exact and the Bernstein bonus keep per ball
ACTIVE, NO_PARENT = 0, -1
SCALED, EXACT, BERNSTEIN, RANDOMIZED, INDEX = 0, 1, 2, 3, 4  # INDEX: see `trees`
PLAIN, SEARCH, MODEL, PUBLISHED_SEARCH = 0, 1, 2, 3
# Columns of `stats` with randomized learning rates: visits in this stage, number of the stage, and
# from the third on the copies of Q.
IN_STAGE, STAGE, FIRST_COPY = 0, 1, 2
# Ties between balls: draw uniformly; take the first from low to high, split by split; take the one
# found first.
RANDOM, FIRST, EITHER = 0, 1, 2
# The action played in a ball. POINT: a multiple of the net's spacing.
CENTER, UNIFORM, POINT = 0, 1, 3
# Split rules: halve every side longer than half the diameter; halve the longest side. With the bit
# WITHIN, a full table makes room for a split, see `budget`; without it, it makes no split. Rules
# below 0 see the data in a ball, see `data_cuts`.
ALL, LONGEST, WITHIN, VARIANCE, MEDIAN = 0, 1, 2, -1, -2
# Codes that kernels return. Some have a payload, a row or the number of a coordinate. It is the
# second of a pair, or an entry of `place`.
FINE, FULL, BAD_REWARD, BAD_STATE = 0, 1, 2, 3
DUE = 4  # Python must split a ball
WRONG_SIZE = 5  # a vector has not the length of its space
NOT_PLAYED = 6  # the kernels did not play the action to learn from
# How a step of an episode ended.
GOES_ON, TERMINATED, TRUNCATED = 0, 1, 2
# Entries of `place`: the payload of the last answer to Python; step and row that a driver in Python
# has played but not learned from yet; for balls of a metric, the numbers of the state read last, of
# the state played, and of the action; 1 if the environment ended the episode at the step to learn
# from.
PAYLOAD, KEPT_STEP, KEPT_ROW, LAST_READ, STATE_PLAYED, ACTION_PLAYED, ENDED = 0, 1, 2, 3, 4, 5, 6
N_PLACES = 7
# Columns of `axes`: unit = (x - LOW) / WIDTH; weight in the metric; number of integer values (0 for
# an interval); 1 for float32.
LOW, WIDTH, WEIGHT, ATOMS, SINGLE = 0, 1, 2, 3, 4
# Columns of `allowed`, one row per action axis: the two ends of the feasible interval; from this
# column on, a mask of the integer values.
FIRST_VALUE = 2
MAX_VISITS = 2**32 - 1
BOUND_TOLERANCE = 1e-6  # coordinates up to this share of the axis outside the bounds are clipped
LENGTH_TOLERANCE = 1e-9  # lengths with a smaller relative difference are taken as equal
