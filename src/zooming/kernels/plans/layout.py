"""The memory of a planner: its samples, its grid, its core record, and all of its constants.

Coordinates are stored as integers, `places`. An interval has UNITS places. An axis of categories,
or of at most UNITS values, has one place per value. An axis of weight 0 has one place. A bin is a
range of consecutive places. A cell of the grid is a product of bins, one of each axis. The last
axis varies fastest in the numbering of cells, so the cells of one state are consecutive.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.loop.crossing import itself, matrix_at, pack, vector_at
from zooming.kernels.loop.jit import IS_JIT_DISABLED, jit_inline_refcount

# How much the planner explores, and when it plans.
OPTIMISM = 0.5  # weight of the standard error in the bonus
CAUTION = 0.5  # and in the penalty of the policy, which avoids what was never tried
FULL, FADING = 100.0, 0.25  # after k > FULL episodes the bonus is scaled by (FULL / k)^FADING
BALLS = 4.0  # a sample is evidence within a ball; BALLS sqrt(samples) balls cover the space
EXPLORING = 0.5  # episode k goes far from samples with probability EXPLORING / sqrt(k)
FAR_BALLS = 0.2  # as BALLS, for the least distance that is worth such an episode
TIE_BONUS = 1e-4  # bonus for few samples, in spans of the rewards seen; it breaks ties
GROWTH = 1.1  # a new plan is made when the episodes have grown by this factor
LATER = 1.2  # the same plan serves this much longer while others play
# A plan is replaced early if its episodes earn less than those before, by DISAPPOINTED standard
# errors, after at least FEW episodes and the share SOON of all. USUAL: share of all episodes, the
# latest ones, that tell what is usual.
DISAPPOINTED, FEW, SOON, USUAL = 4.0, 30.0, 0.01, 0.2
# The grid.
UNITS = 6561  # places of an interval: 3^8, so that thirds of thirds keep their centers
FIRST_CELLS, ENOUGH_CELLS = (125, 300), (729, 2401)  # up to two axes, and from three on
CELLS_PER_EPISODE = 5  # growth from FIRST_CELLS to ENOUGH_CELLS; 729 are 27 bins on two axes
CELLS_PER_ROOT = 2.3  # at least 2.3 sqrt(samples) cells; more would explore for ever
MOST_CELLS = 60_000  # 0.5 MB for each step and table
WIDTH_POWER = 0.7  # the bin with the most samples * width^WIDTH_POWER is cut next
END = 1 / 9  # an outermost bin of an action axis is played at its end if at most this wide
EVEN = 0.1  # share of the bins of an action axis that is placed evenly, not by the data
# The regression.
PRIOR = 0.01  # weight of the trend, in samples, against the kernel's mass
ENOUGH = 4.0  # samples for each coefficient of the trend; with fewer, it is simpler
RIDGE = 0.1  # samples against each coefficient of the trend
LEAST_HATS, MOST_HATS = 9, 40  # knots of a function of the drift: the fourth root of the samples
MOST_FITTED = 4000  # samples from which drifts are fitted; they have few coefficients
STRONG = 10.0  # F statistic from which functions of a drift are features
FLAT, NARROW, FIRST_WIDTH = 2.0, -10.0, -2.0  # bandwidths are powers of 2; FLAT ignores the axis
GAIN = 0.995  # another bandwidth must lower the leave-one-out error by this factor
DOUBT = 2.0  # a step leaves the pool if its squared errors fall by this many standard deviations
# An axis is exogenous unless F exceeds 1 by so many standard deviations. Every plan tests again:
# with 3, plans of Allocation rejected its need by chance, and their policies were bad.
EXOGENOUS = 5.0
LEAST_FREEDOM = 30.0  # with fewer degrees of freedom, no axis is exogenous
MOST_CATEGORIES = 32  # an axis of more categories is never exogenous: each of them is tested
OTHER_STEPS = 3.0  # samples: what the law of all steps counts in the law of one
SHARES = np.array([1e9, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.01])  # see `leave_one_out`
# A problem has no noise if transitions from the same place agree, see `repeats`.
RECENT = 20_000  # samples that are compared
LEAST_REPEATS = 5  # of them, from a place that another one has, too
CLOSE = 0.02  # difference of rewards that agree, in spans
AGREE = 0.99  # share of the repeats that must agree
EMPTY = 0.05  # kernel mass added to the visited cells around a cell
THIN = 1e-3  # kernel mass added to the samples around a cell
# The action.
SLOPE = 2.0  # actions of neighboring states are mixed up to this slope; beyond it the policy jumps
PLAYED = 0.3  # samples added to those of a cell when a play of it is counted

SMOOTH, ORDERED, CATEGORIES = 0, 1, 2  # kinds of axes
REWARDS, VALUES = 0, 1  # targets: first index of `widths` and `apart`
ALIKE, ALONE, CORRECTED = 0, 1, 2  # forms of a target at a step, see `step_models`
ENDED = -1  # place of the next state if the episode ended
WEIGHT, MEAN_REWARD, SPREAD = 0, 1, 2  # columns of `Samples.numbers`

# Rows of `work`: statistics of a target, such as the reward, in each cell. COUNT, TOTAL, SQUARE:
# number of samples, sum and sum of squares of the target (after `remove_trend`, of its residuals).
# TREND: the trend. SUM, MASS, MEAN: kernel-weighted sum, weight and mean of the residuals. NEAR:
# kernel weight of visited cells. EVIDENCE, AROUND: MASS and NEAR with the narrower kernel of the
# variance, see `narrow_kernel`.
COUNT, TOTAL, SQUARE, TREND, SUM, MASS, MEAN, NEAR, EVIDENCE, AROUND = range(10)
N_ROWS = 10
# Fits, the first index of `Models.work`. REWARDS, VALUES: the fit that a step is compared with.
# POOL: rewards of all steps that are alike. target + OWN: the step's own fit. TRIAL: a fit that is
# only compared.
POOL, OWN, TRIAL, N_FITS = 2, 3, 5, 6

CORE = np.dtype(
    [
        ("n_samples", "i8"),  # rows of `Samples` in use
        ("n_planned", "i8"),  # rows from which the current plan was made
        ("n_episodes", "i8"),  # episodes begun: updates of step 0
        ("due", "i8"),  # number of episodes after which the next plan is made
        ("most_samples", "i8"),  # with more rows, a plan is due too: it condenses them
        ("n_plans", "i8"),
        ("random", "u8"),  # state of the agent's own generator
        ("explores", "i8"),  # 1: this episode heads for cells far from all samples
        ("far", "f8"),  # the least distance from samples that is worth going to
        ("boldness", "f8"),  # weight of the bonus in this episode
        ("own", "i8"),  # number of the episode that the planner played last; -1: none
        ("total", "f8"),  # its return so far
        ("plays", "f8"),  # episodes of the current plan: number, mean return, squared deviations
        ("earned", "f8"),
        ("squares", "f8"),
        ("usual_plays", "f8"),  # episodes of the plans before: number, mean return, variance
        ("usual", "f8"),
        ("usual_variance", "f8"),
        ("horizon", "i8"),
        ("n_state", "i8"),
        ("n_action", "i8"),
        ("reward_low", "f8"),  # rewards outside are refused or clipped
        ("reward_high", "f8"),
        ("highest", "f8"),  # highest possible reward; infinity if unknown
        ("least", "f8"),  # lowest and highest reward seen
        ("most", "f8"),
        ("is_exact", "i8"),  # 1: repeated transitions show no noise
        ("reward_noise", "f8"),  # leave-one-out variance of rewards
        ("value_noise", "f8"),  # leave-one-out variance of next values at step 0
    ],
    align=True,
)


class Samples(NamedTuple):
    """Transitions. A row is one transition, or several similar ones joined by `condense`."""

    steps: Any  # [M] int32
    places: Any  # [M, n_axes + n_state] int16: state, action, next state (ENDED: none)
    numbers: Any  # [M, 3]: number of samples, mean reward, sum of squared deviations from it


class Sorted(NamedTuple):
    """Samples sorted by step, with the cells of a grid. Step h has rows first[h] to first[h+1]-1.

    The value of a next state is interpolated between its cell and the neighbor on its side of the
    center, along each axis.
    """

    first: Any  # [horizon + 1] int64
    cells: Any  # [M] int64: cells of (state, action)
    nexts: Any  # [M] int64: state cells of the next states, or ENDED
    neighbors: Any  # [M, n_state] int64: neighbors of these cells, or ENDED
    shares: Any  # [M, n_state]: weights of the neighbors
    weights: Any  # [M]: numbers of samples
    rewards: Any  # [M]: mean rewards
    spreads: Any  # [M]: sums of squared deviations from the mean reward


class Grid(NamedTuple):
    """Bins of every axis; bin i of axis j has the places edges[j, i] to edges[j, i + 1] - 1."""

    kinds: Any  # [n_axes] int64
    units: Any  # [n_axes] int64: places of each axis
    bins: Any  # [n_axes] int64: bins of each axis
    edges: Any  # [n_axes, most bins + 1] int64
    centers: Any  # [n_axes, most bins] in the unit cube
    bin_of: Any  # [n_axes, most places] int16


class Plan(NamedTuple):
    """A plan: values of every cell (state and action) and of every state, at each step."""

    q: Any  # [horizon, n_cells]
    bonus: Any  # [horizon, n_cells]
    way: Any  # [horizon, n_cells]: largest expected distance from samples, see `find_way`
    visits: Any  # [horizon, n_cells]: samples in the cell; if pooled, of all steps that are alike
    played: Any  # [n_cells]: plays since the plan was made, each divided by PLAYED + visits
    best: Any  # [horizon, n_states] int32: the best action's cell
    values: Any  # [horizon + 1, n_states]


class Models(NamedTuple):
    """The regressions of one plan, and scratch memory.

    What depends only on the samples of a fit and on its bandwidths is kept from step to step:
    counts, kernel masses, and the factor of the trend's normal equations.
    """

    work: Any  # [N_FITS, N_ROWS, n_cells], see COUNT
    found: Any  # [N_FITS, 3]: noise, gap and share of each fit
    members: Any  # [N_FITS, horizon] bool: the steps whose samples are in COUNT
    kernels: Any  # [N_FITS, n_axes]: the bandwidths of MASS and NEAR; NaN if these are not valid
    factors: Any  # [N_FITS, n_columns, n_columns]: Cholesky factors, see `trends`
    between: Any  # [2]: variance between a step apart and the pool; -1 if the step is alike
    targets: Any  # [n_samples]: next values, minus the value of the drift if that is used
    rests: Any  # [n_samples]: targets of a correction
    losses: Any  # [2, 3, n_samples]: leave-one-out errors of each target and form
    features: Any  # see `features`
    decay: Any  # [n_axes, most bins], see `smoothing`
    buffer: Any  # [2 n_cells]
    errors: Any  # [number of SHARES]
    radius: Any  # float: largest bandwidth of the standard error, see `exploring`


class Cells(NamedTuple):
    """All arrays of a planner that one call of a kernel reads."""

    core: Any  # CORE [1]
    samples: Any
    grid: Any
    plan: Any
    axes: Any  # float64 [n_axes, 5], see `layout.LOW`


def pack_cells(cells: Cells) -> Any:
    """Return the handle of a planner's arrays, or the record if compilation is disabled.

    Numba unboxes a named tuple by calling back into Python, where a signal may be handled. So only
    the handle crosses, see `records`.
    """
    core, samples, grid, plan, axes = cells
    return cells if IS_JIT_DISABLED else pack((core, *samples, *grid, *plan, axes))


@jit_inline_refcount
def _open_cells(words):
    samples = Samples(
        vector_at(words, 1, np.int32), matrix_at(words, 2, np.int16),
        matrix_at(words, 3, np.float64),
    )  # fmt: skip
    grid = Grid(
        kinds=vector_at(words, 4, np.int64),
        units=vector_at(words, 5, np.int64),
        bins=vector_at(words, 6, np.int64),
        edges=matrix_at(words, 7, np.int64),
        centers=matrix_at(words, 8, np.float64),
        bin_of=matrix_at(words, 9, np.int16),
    )
    plan = Plan(
        q=matrix_at(words, 10, np.float64),
        bonus=matrix_at(words, 11, np.float64),
        way=matrix_at(words, 12, np.float64),
        visits=matrix_at(words, 13, np.float64),
        played=vector_at(words, 14, np.float64),
        best=matrix_at(words, 15, np.int32),
        values=matrix_at(words, 16, np.float64),
    )
    return Cells(vector_at(words, 0, CORE), samples, grid, plan, matrix_at(words, 17, np.float64))


# Return the `Cells` of a handle. For use in compiled code.
cells_at = itself if IS_JIT_DISABLED else _open_cells


def wanted_cells(n_episodes: int, n_samples: float, n_categories: int, n_others: int) -> int:
    """Return the number of cells that a grid may have.

    It grows with the episodes up to ENOUGH_CELLS, then with the root of the samples, so that all
    bins keep shrinking. It suffices for every category and for three bins on every other axis,
    unless that exceeds MOST_CELLS.
    """
    few_or_many = 0 if n_others <= 2 else 1
    grown = max(FIRST_CELLS[few_or_many], CELLS_PER_EPISODE * n_episodes)
    n_cells = max(min(ENOUGH_CELLS[few_or_many], grown), CELLS_PER_ROOT * n_samples**0.5)
    return int(min(MOST_CELLS, max(n_cells, n_categories * 3**n_others)))
