"""Bracket the optimal return of a problem whose outcomes are a finite set.

Let V be the values on a grid, interpolated, and Q_h(x, a) one backup of them. Then every policy pi
earns

    V^pi = Q_0(x_0, a_0) + E_pi sum over h > 0 of (Q_h(x_h, a_h) - V_h(x_h))

The lower end is this sum for the policy that maximizes Q, over sampled episodes. The optimum is at
least that much, whatever the grid misses. So the lower end is proved, at the confidence level of
the interval over the episodes. Only the terms of the sum are sampled, and they are as small as the
errors of the grid. So few episodes are enough.

The upper end is an estimate. A second backward induction adds, at every step, what the grid may
miss near each point: the height of a peak that the action search missed, and the height of V above
its interpolation inside the neighboring cells. Let V rise by l, m and r over three consecutive
cells. If V is concave there, it lies below both outer slopes extended into the middle cell. So it
is at most (l - m)(m - r) / (l - r) above the interpolation. In a cell at the border, the difference
of the rises of two cells bounds it. If V is convex, it lies below the interpolation. If V is
neither, max(|l - m|, |m - r|) / 4 is added. So a feature narrower than a cell can be missed.
`Optimal.error` is the largest error over all states. The upper end instead weighs each error by how
often an optimal policy meets it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from zooming.analysis.state_grid import DEVIATIONS, Grid
from zooming.envs.compiled import CompiledEnv
from zooming.envs.starts import FUNCTION, N_STARTS, UNIFORM
from zooming.kernels.backups import GIVEN_ACTIONS
from zooming.validation import Floats

N_EPISODES = 400  # sampled for the lower end


def can_bracket(env: CompiledEnv) -> bool:
    """Return whether outcomes and start states are finite sets, and some step has two outcomes.

    Deterministic problems are left out: their grids are fine enough without a bracket.
    """
    if env.start_kind in (FUNCTION, UNIFORM):
        return False
    few, more = ([len(env.outcomes(step, n)[1]) for step in range(env.horizon)] for n in (4, 8))
    return few == more and max(few) > 1


def bracket(solved: Grid) -> tuple[float, float]:
    """Return (low, high) of the optimal return. `solved` holds the values of all steps."""

    def choose(step: int, states: Floats) -> Floats:
        return solved.backup(step, states, solved.actions, solved.search)[1]

    value, half = policy_value(solved, choose)
    starts, weights = solved.env.start_states(1)
    raised = _solve_raised(Grid(solved.env, solved.resolution))
    values, _, missed = raised.backup(0, starts, raised.actions, raised.search)
    return value - half, max(value - half, float(weights @ (values + missed)))


def policy_value(
    grid: Grid, choose: Callable[[int, Floats], Floats], n_episodes: int = N_EPISODES
) -> tuple[float, float]:
    """Return the value of a policy, and half the width of its 95 % interval over sampled episodes.

    The formula at the top of this module holds for any values on the grid. The closer these are to
    the optimum, and the policy to the best one, the narrower is the interval.

    Parameters
    ----------
    grid
        The grid with the values of all steps. Its environment has a finite set of outcomes.
    choose
        `choose(step, states)` returns the actions [n, n_action] in n states.
    n_episodes
        Number of sampled episodes, at least 2.
    """
    env, rng = grid.env, np.random.default_rng(0)
    starts, weights = env.start_states(N_STARTS)
    weights = weights / weights.sum()
    at_start = float(weights @ grid.backup(0, starts, choose(0, starts), GIVEN_ACTIONS)[0])
    states = starts[rng.choice(len(starts), n_episodes, p=weights)]
    terms = np.zeros(n_episodes)
    for step in range(env.horizon):
        different, place = np.unique(states, axis=0, return_inverse=True)
        place = place.ravel()
        actions = np.ascontiguousarray(choose(step, different))
        if step > 0:
            q_values = grid.backup(step, different, actions, GIVEN_ACTIONS)[0]
            terms += (q_values - [grid.value(step, state) for state in different])[place]
        after = np.empty_like(states)
        for i, k in enumerate(place):
            _draw_next(env, step, different[k], actions[k], rng, after[i])
        states = after
    half = DEVIATIONS * float(terms.std(ddof=1)) / math.sqrt(n_episodes)
    return at_start + float(terms.mean()), half


def _draw_next(
    env: CompiledEnv,
    step: int,
    state: Floats,
    action: Floats,
    rng: np.random.Generator,
    after: Floats,
) -> None:
    """Draw an outcome by its weight and write the next state."""
    assert env.given is not None
    outcomes, weights = env.outcomes(step, 4)
    if env.weigh is not None:
        weights = weights.copy()
        env.weigh(state, action, step, env.params, outcomes, weights)
    sums = np.cumsum(weights)
    drawn = min(int(np.searchsorted(sums, rng.random() * sums[-1], "right")), len(sums) - 1)
    env.given(state, action, step, env.params, outcomes[drawn], after)


def _solve_raised(grid: Grid) -> Grid:
    """Fill `grid.values` with values that include what the grid may miss. Return the grid."""
    shape = [grid.n_cells + 1] * grid.n_state
    for step in reversed(range(1, grid.env.horizon)):
        values, _, missed = grid.backup(step, grid.states, grid.actions, grid.search)
        values += missed
        if not grid.env.has_whole_states:
            values += _excess(values.reshape(shape)).ravel()
        grid.values[step] = values
    return grid


def _excess(values: Floats) -> Floats:
    """Return, at each grid point, how far V may exceed its interpolation in the cells around it."""
    total = np.zeros_like(values)
    for axis in range(values.ndim):
        rise = np.diff(np.moveaxis(values, axis, 0), axis=0)
        above = np.empty_like(rise)
        left, middle, right = rise[:-2], rise[1:-1], rise[2:]
        product, bend = (left - middle) * (middle - right), left - right
        concave = np.divide(product, bend, out=np.zeros_like(bend), where=bend > 1e-12)
        more = np.maximum(np.abs(left - middle), np.abs(middle - right)) / 4
        above[1:-1] = np.where(product >= 0, concave, more)
        above[0] = np.maximum(rise[0] - rise[1], 0.0)
        above[-1] = np.maximum(rise[-2] - rise[-1], 0.0)
        for other in range(1, values.ndim):  # a line between two lines of the grid
            above = _largest_around(above, other)
        cells = np.concatenate([above[:1], above, above[-1:]])
        total += np.moveaxis(np.maximum(cells[:-1], cells[1:]), 0, axis)
    return total


def _largest_around(values: Floats, axis: int) -> Floats:
    """Return the maximum of each entry and its two neighbors along an axis."""
    along = np.moveaxis(values, axis, 0)
    wide = np.concatenate([along[:1], along, along[-1:]])
    return np.moveaxis(np.maximum(np.maximum(wide[:-2], along), wide[2:]), 0, axis)
