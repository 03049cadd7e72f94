"""The memory of a planner: its samples, its grid, its core record, and all of its constants.

Coordinates are stored as integers, `places`. An interval has UNITS places. An axis of categories,
or of at most UNITS values, has one place per value. An axis of weight 0 has one place. A bin is a
range of consecutive places. A cell of the grid is a product of bins, one of each axis. The last
axis varies fastest in the numbering of cells, so the cells of one state are consecutive.
"""

from __future__ import annotations

from typing import Annotated as A
from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.loop.crossing import itself, matrix_at, pack, vector_at
from zooming.kernels.loop.jit import IS_JIT_DISABLED, jit_inline_refcount


class Constants(NamedTuple):
    """The constants of a planner, each with its reason."""

    OPTIMISM: A[float, "standard errors in the bonus of learning and the policy's penalty"] = 0.5
    FULL: A[float, "after k > FULL episodes the bonus is scaled by (FULL / k)^FADING"] = 100.0
    FADING: A[float, "what has been uncertain for long matters less"] = 0.25
    BALLS: A[float, "a sample is evidence in a ball; BALLS sqrt(samples) fill the space"] = 4.0
    EXPLORING: A[float, "episode k goes far from samples with chance EXPLORING / sqrt(k)"] = 0.3
    FAR_BALLS: A[float, "as BALLS, for the least distance worth such an episode"] = 0.2
    PRICE: A[float, "no bonus, nor part in the second fit, for a loss of PRICE spreads"] = 3.0
    FAR_PRICE: A[float, "nor exploring for a loss of more than FAR_PRICE times that"] = 10.0
    GROWTH: A[float, "a plan is made when the episodes have grown by this factor"] = 1.1
    EARLY: A[int, "plans that tune all bandwidths and compare all steps"] = 10
    SPARING: A[int, "later, every SPARING-th does: it takes most of the time"] = 2
    UNITS: A[int, "places of an interval: 3^8, so that thirds keep their centers"] = 6561
    FEW_AXES: A[int, "cells on one or two axes: 27 bins on each of two"] = 729
    MORE_AXES: A[int, "cells on three and four axes: 7 bins on each of four"] = 2401
    MANY_AXES: A[int, "cells on more axes; with categories, without many samples"] = 6561
    CELLS_PER_ROOT: A[float, "at least so many sqrt(samples) cells; more explore for ever"] = 2.3
    MOST_CELLS: A[int, "most cells of a step: 0.5 MB for each table"] = 60_000
    WIDTH_POWER: A[float, "the bin with most samples * width^WIDTH_POWER is cut next"] = 0.7
    EVEN: A[float, "share of the bins of an action axis that is placed evenly, not by data"] = 0.1
    END: A[float, "an outermost bin of actions this narrow is played at its end"] = 1 / 9
    PRIOR: A[float, "samples that count against the kernel's mass, here and in its error"] = 0.01
    ENOUGH: A[float, "samples for each coefficient of the trend; else it is simpler"] = 4.0
    RIDGE: A[float, "samples against each coefficient of the trend"] = 0.1
    N_HATS: A[int, "knots of a function of the drift"] = 9
    STRONG: A[float, "F statistic from which functions of a drift are features"] = 10.0
    FLAT: A[float, "powers of 2 are bandwidths, from -FLAT; from FLAT on the axis is ignored"] = 2.0
    CLEAR: A[float, "deviations of a clear difference: a step is alone, a rule is better"] = 2.0
    EXOGENOUS: A[float, "deviations of F above 1 from which an axis is not exogenous"] = 5.0
    LEAST_FREEDOM: A[float, "with fewer degrees of freedom, no axis is exogenous"] = 30.0
    MOST_CATEGORIES: A[int, "with more categories, an axis is never exogenous"] = 32
    OTHER_STEPS: A[float, "samples that the law of all steps counts in that of one"] = 3.0
    LEAST_REPEATS: A[int, "repeated transitions that must agree if there is no noise"] = 5
    CLOSE: A[float, "difference of rewards that agree, in spans of those seen"] = 0.02
    AGREE: A[float, "share of the repeated transitions that must agree"] = 0.99
    EMPTY: A[float, "kernel mass added to the visited cells around a cell"] = 0.05
    SLOPE: A[float, "up to this slope actions of neighbors are mixed; beyond they jump"] = 2.0
    PLAYED: A[float, "samples added to those of a cell when a play is counted"] = 0.3
    REPLAYS: A[float, "share of the episodes that play the recommended policy"] = 0.1
    MARGIN: A[float, "standard errors of the mean return that a newer policy must earn more"] = 0.3


CONSTANTS = Constants()
# Kernels read plain names, which the compiler takes as numbers.
(
    OPTIMISM, FULL, FADING, BALLS, EXPLORING, FAR_BALLS, PRICE, FAR_PRICE, GROWTH, EARLY,
    SPARING, UNITS, FEW_AXES, MORE_AXES, MANY_AXES, CELLS_PER_ROOT, MOST_CELLS, WIDTH_POWER, EVEN,
    END, PRIOR, ENOUGH, RIDGE, N_HATS, STRONG, FLAT, CLEAR, EXOGENOUS,
    LEAST_FREEDOM, MOST_CATEGORIES, OTHER_STEPS, LEAST_REPEATS, CLOSE, AGREE, EMPTY, SLOPE,
    PLAYED, REPLAYS, MARGIN,
) = CONSTANTS  # fmt: skip
SHARES = np.array([1e9, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.01])  # see `leave_one_out`

SMOOTH, ORDERED, CATEGORIES = 0, 1, 2  # kinds of axes
REWARDS, VALUES = 0, 1  # targets: first index of `widths` and `apart`
ALIKE, ALONE = 0, 1  # forms of a target at a step, see `step_models`
FAR, RECALLED = 1, 2  # values of `explores`: go far from all samples; play an old policy
NONE, OLD = -1, -2  # values of `own`: the planner has not played; an old policy played last
ENDED = -1  # place of the next state if the episode ended
WEIGHT, MEAN_REWARD, SPREAD = 0, 1, 2  # columns of `Samples.numbers`

# Rows of `work`: statistics of a target, such as the reward, in each cell. COUNT, TOTAL, SQUARE:
# number of samples, sum and sum of squares of the target (after `remove_trend`, of its residuals).
# TREND: the trend. SUM, MASS, MEAN: kernel-weighted sum, weight and mean of the residuals. NEAR:
# kernel weight of visited cells. EVIDENCE, AROUND: MASS and NEAR with the narrower kernel of the
# variance, see `narrow`.
COUNT, TOTAL, SQUARE, TREND, SUM, MASS, MEAN, NEAR, EVIDENCE, AROUND = range(10)
N_ROWS = 10
# Columns of `found`: mean squared leave-one-out error, mean error of a cell left out, see
# `smoothing`, the factor of `remove_trend`, and the variance of the target.
NOISE, GAP, SHARE, FACTOR, VARIANCE = range(5)
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
        ("explores", "i8"),  # how this episode plays: with a bonus (0), FAR or RECALLED
        ("far", "f8"),  # the least distance from samples that is worth going to
        ("boldness", "f8"),  # weight of the bonus in this episode
        ("replays", "i8"),  # number of episodes until which the recommended policy plays; 0: no
        ("own", "i8"),  # number of the episode that the planner played last; or NONE or OLD
        ("total", "f8"),  # its return so far
        ("plays", "f8"),  # episodes of what plays: number, mean return, squared deviations
        ("earned", "f8"),
        ("squares", "f8"),
        ("horizon", "i8"),
        ("n_state", "i8"),
        ("n_action", "i8"),
        ("reward_low", "f8"),  # rewards outside are refused or clipped
        ("reward_high", "f8"),
        ("least", "f8"),  # lowest and highest reward seen
        ("most", "f8"),
        ("is_exact", "i8"),  # 1: repeated transitions show no noise
        ("reward_noise", "f8"),  # leave-one-out variance of rewards
        ("spread", "f8"),  # of returns: twice from the median to the 95 % quantile; 0: unknown
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


class Cells(NamedTuple):
    """All arrays of a planner that one call of a kernel reads."""

    core: Any  # CORE [1]
    samples: Any
    grid: Any
    plan: Any
    axes: Any  # float64 [n_axes, 5], see `layout.LOW`


def pack_cells(cells: Cells) -> Any:
    """Return the handle of a planner's arrays, or the record if compilation is disabled."""
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


def wanted_cells(n_samples: float, n_categories: int, n_others: int) -> int:
    """Return the number of cells that a grid may have.

    It depends on the number of axes, and grows with the root of the samples, so that all bins keep
    shrinking. Each category has so many, unless all together exceed MANY_AXES and the samples; and
    three bins on every other axis, unless that exceeds MOST_CELLS.
    """
    of_axes = FEW_AXES if n_others <= 2 else MORE_AXES if n_others <= 4 else MANY_AXES
    n_cells = max(of_axes, CELLS_PER_ROOT * n_samples**0.5)
    if n_categories > 1:
        n_cells = max(n_cells, min(max(MANY_AXES, n_samples), n_categories * n_cells))
    return int(min(MOST_CELLS, max(n_cells, n_categories * 3**n_others)))
