"""Solve a compiled environment by backward induction on a grid of states.

    V_H = 0,
       Q_h(x, a) = sum_w p_w (r_h(x, a, w) + V_{h+1}(x'(x, a, w))),    V_h(x) = max_a Q_h(x, a)

The sum runs over the environment's weighted outcomes: exact for a finite set, slices of a density
otherwise. V is interpolated linearly between grid points. The maximum is searched on a grid of
actions, and then around the best one, with a step that is halved until it is a thousandth of the
grid's spacing.
The grid of a Discrete space is all its values. A next state outside the space is an error, and so
is a fractional one in a Discrete space.

The reported error is an estimate. It is the larger of two terms, plus a third:

- the largest difference, over all steps and states, to the solution at half the resolution, which
  covers the outcomes;
- the sum over the steps of the largest interpolation loss in a cell, given the slopes of the
  neighboring cells, which covers a kink of V that both grids miss;
- the sum over the steps of the largest height of a peak above the action that the search found,
  given the slopes on both sides, because both grids may stop at the same action.

A feature narrower than a cell can escape all three. With a Lipschitz constant L of Q* on the unit
cube the error is a bound: for the spacing h, a step loses at most L h by interpolation, L h / 2 by
the search and L h / 2 by the outcomes.

The return is the mean of V over the start distribution. `return_error` adds the error of that mean:
1.96 standard errors for a start function, which is known only by draws, and the difference to half
as many points along each axis for "uniform" on a box. It adds nothing for one state, for
(states, weights) and for "uniform" on a Discrete space.

If outcomes and start states are finite sets, `return_error` is narrower: `bracket` finds a lower
end of the optimal return that is proved, and an upper end that is estimated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from zooming.analysis.optimal import Optimal
from zooming.envs.compiled import CompiledEnv, find_compiled
from zooming.envs.functions import is_python
from zooming.envs.starts import FUNCTION, N_STARTS, UNIFORM
from zooming.envs.state_grid import DEVIATIONS, Grid, n_cells
from zooming.errors import ConfigurationError
from zooming.kernels.solve.backups import GIVEN_ACTIONS
from zooming.validation import Floats, check_float, check_int, known_options

N_EPISODES = 400  # sampled for the lower end


def can_bracket(env: CompiledEnv) -> bool:
    """Return whether outcomes and start states are finite sets, and some step has two outcomes."""
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

    The closer the values on the grid are to the optimum, and the policy to the best one, the
    narrower is the interval. `choose(step, states)` returns the actions in n states. The
    environment has a finite set of outcomes.
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
    env: CompiledEnv, step: int, state: Floats, action: Floats, rng: Any, after: Floats
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


def _kink_loss(rise: Floats, bend: Floats) -> Floats:
    """Return what linear interpolation loses in the inner cells, along the first axis.

    Let V rise by l, m and r over three consecutive cells. If the middle cell has one kink, between
    the slopes l and r, it loses (l-m)(m-r)/(l-r). A rise that is not between its neighbors has more
    than one kink. `bend` is l - r, or its size to count convex kinks, too.
    """
    left, middle, right = rise[:-2], rise[1:-1], rise[2:]
    product = (left - middle) * (middle - right)
    one_kink = np.divide(product, bend, out=np.zeros_like(bend), where=bend > 1e-12)
    more = np.maximum(np.abs(left - middle), np.abs(middle - right)) / 4
    return np.where(product >= 0, one_kink, more)


def _excess(values: Floats) -> Floats:
    """Return, at each grid point, how far V may exceed its interpolation in the cells around it."""
    total = np.zeros_like(values)
    for axis in range(values.ndim):
        rise = np.diff(np.moveaxis(values, axis, 0), axis=0)
        above = np.empty_like(rise)
        above[1:-1] = _kink_loss(rise, rise[:-2] - rise[2:])
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


# Cells per axis, by number of state axes, that solve in seconds.
DEFAULT_RESOLUTION = {1: 200, 2: 20, 3: 8}
DETERMINISTIC_RESOLUTION = {1: 1000, 2: 40, 3: 12}  # if each action has one outcome
MOST_BACKUPS = 2e8  # limit for the default resolution
_SUM_TOLERANCE = 1e-9  # smallest reported error: the rounding of floating-point sums


@known_options
def solve(
    env: Any,
    resolution: int | None = None,
    *,
    lipschitz: float | None = None,
) -> Optimal:
    """Return the optimum of a compiled environment, by backward induction on a grid of states.

    With finitely many states, actions and outcomes the optimum is exact.

    Parameters
    ----------
    env
        A compiled environment with declared outcomes and 1 to 3 state axes.
    resolution
        Cells per axis of the grid: an even number, at least 4. The default takes a few seconds.
        Must be None if the environment is finite.
    lipschitz
        A Lipschitz constant of Q* on the unit cube. It makes the reported error a bound.

    Returns
    -------
    Optimal
        The optimal return, values and actions, with their errors.

    Raises
    ------
    ConfigurationError
        If the environment cannot be solved, or `resolution` is invalid.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0", survey="quadratic", sharpness=1.0)
    >>> optimal = zooming.solve(env, resolution=100, lipschitz=2.0)
    >>> round(optimal.return_, 2), optimal.error, optimal.is_bound  # 2 H L / resolution = 0.2
    (4.8, 0.2, True)
    """
    inner = check_solvable(env)
    began, n_state, is_exact = time.perf_counter(), inner.state_box.shape[0], is_finite(inner)
    if is_exact and resolution is not None:
        raise ConfigurationError(
            f"{inner.name} has finitely many states and actions; all are used, so give no "
            "resolution"
        )
    if resolution is None:
        resolution = 4 if is_exact else default_resolution(inner)
    resolution = check_int(resolution, "resolution", 4)
    if resolution % 2:
        raise ConfigurationError(
            f"resolution={resolution} is odd: give an even number of cells per axis, such "
            f"as {resolution + 1} (the error is estimated by a second grid with half as "
            "many)"
        )
    fine, error = Grid(inner, resolution), _SUM_TOLERANCE
    fine.solve()
    if not is_exact:
        coarse, shared = Grid(inner, resolution // 2), fine.values
        coarse.solve()
        if not inner.has_whole_states:
            on_grid = fine.values.reshape(inner.horizon + 1, *[resolution + 1] * n_state)
            every_other = on_grid[(slice(None), *[slice(None, None, 2)] * n_state)]
            shared = every_other.reshape(inner.horizon + 1, -1)
            error = max(error, _interpolation_error(on_grid))
        error = max(error, float(np.abs(shared - coarse.values).max())) + fine.search_error
    if lipschitz is not None and not is_exact:
        slope = check_float(lipschitz, "lipschitz", 0.0, np.inf)
        error = max(error, 2 * inner.horizon * slope / resolution)
    return_, start_error = fine.start_value()
    return_error = error + start_error
    low, high = return_ - return_error, return_ + return_error
    if not is_exact and lipschitz is None and can_bracket(inner):
        least, most = bracket(fine)
        low, high = max(low, least), min(high, most)
        return_ = min(max(return_, low), high)
        return_error = max(high - return_, return_ - low, _SUM_TOLERANCE)
    is_bound = (is_exact or lipschitz is not None) and not start_error
    return Optimal(
        fine, None if is_exact else resolution, return_, error, return_error, low, high, is_bound,
        time.perf_counter() - began,
    )  # fmt: skip


def is_finite(env: CompiledEnv) -> bool:
    """Return whether an environment has finitely many states, actions and outcomes."""
    if not (env.has_whole_states and env.has_whole_actions):
        return False
    few, more = ([len(env.outcomes(step, n)[1]) for step in range(env.horizon)] for n in (4, 8))
    return few == more


def default_resolution(env: CompiledEnv, most_backups: float = MOST_BACKUPS) -> int:
    """Return the default number of cells per axis, for which at most `most_backups` are needed."""
    most_backups *= 0.01 if is_python(env.given) else 1.0
    n_state, n_action = env.state_box.shape[0], env.action_box.shape[0]
    is_deterministic = all(len(env.outcomes(step, 2)[1]) == 1 for step in range(env.horizon))
    usual = (DETERMINISTIC_RESOLUTION if is_deterministic else DEFAULT_RESOLUTION)[n_state]
    default = env.resolution or usual
    values = n_cells(env.state_box) + 1 if env.has_whole_states else 1  # of Discrete spaces
    values *= n_cells(env.action_box) + 1 if env.has_whole_actions else 1
    n_axes = (not env.has_whole_states) * n_state + (not env.has_whole_actions) * n_action
    while default > 4:
        n_outcomes = min(len(env.outcomes(0, default)[1]), default + 1)
        if env.horizon * values * n_outcomes * (default + 1) ** n_axes <= most_backups:
            break
        default -= 2
    return default


def check_solvable(env: Any) -> CompiledEnv:
    """Return the compiled environment inside `env`, or say why it cannot be solved."""
    inner = find_compiled(env)
    if inner is None and isinstance(getattr(env, "unwrapped", env), CompiledEnv):
        raise ConfigurationError(
            f"{env} has wrappers that may change the problem; give the environment inside them, "
            "env.unwrapped"
        )
    if inner is None:
        raise ConfigurationError(
            f"{env} is not a compiled environment, so its law is unknown. Write its dynamics as "
            "one function: zooming.compiled_env"
        )
    inner.outcomes(0, 1)
    if inner.given is None:
        raise ConfigurationError(
            f"{inner.name} declares outcomes but no dynamics for a given outcome"
        )
    if inner.state_box.shape[0] not in DEFAULT_RESOLUTION:
        raise ConfigurationError(
            f"{inner.name} has {inner.state_box.shape[0]} state axes; grids are feasible for 1 to 3"
        )
    return inner


def _interpolation_error(values: Floats) -> float:
    """Return the sum over the steps of the largest interpolation loss in a cell."""
    total = np.zeros(len(values))
    for axis in range(1, values.ndim):
        rise = np.moveaxis(np.diff(values, axis=axis), axis, 0)
        inside = np.abs(_kink_loss(rise, np.abs(rise[:-2] - rise[2:])))
        ends = np.abs(np.stack([rise[0] - rise[1], rise[-1] - rise[-2]])) / 4  # one neighbor each
        others = (0, *range(2, values.ndim))
        total += np.maximum(inside.max(axis=others), ends.max(axis=others))
    return float(total.sum())
