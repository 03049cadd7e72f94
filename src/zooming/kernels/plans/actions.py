"""Choose the action of a plan: the best feasible cell of a state, and the point played in it."""

from __future__ import annotations

import numpy as np

from zooming.kernels.boxes.layout import ATOMS, FIRST_VALUE, LOW
from zooming.kernels.boxes.points import in_units, to_unit
from zooming.kernels.boxes.update_rule import draw
from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.grids import action_cell, state_cell
from zooming.kernels.plans.layout import SLOPE, SMOOTH, cells_at


@jit_kernel
def feasible_at(grid, axis, i, allowed_row):
    """Return the feasible coordinate nearest to the center of bin i; -1 if the bin has none."""
    n_units, center = grid.units[axis], grid.centers[axis, i]
    first, last = grid.edges[axis, i], grid.edges[axis, i + 1]
    if grid.kinds[axis] == SMOOTH:
        is_above = allowed_row[0] >= last / n_units and last < n_units
        if is_above or allowed_row[1] < first / n_units:
            return -1.0
        return min(allowed_row[1], max(allowed_row[0], center))
    found = -1.0
    for k in range(first, last):
        x = (k + 0.5) / n_units
        if allowed_row[FIRST_VALUE + k] == 1.0 and (
            found < 0.0 or abs(x - center) < abs(found - center)
        ):
            found = x
    return found


@jit_kernel
def is_feasible(grid, n_state, b, allowed):
    """Return whether the action cell b contains a feasible action."""
    for j in range(grid.bins.shape[0] - 1, n_state - 1, -1):
        if feasible_at(grid, j, b % grid.bins[j], allowed[j - n_state]) < 0.0:
            return False
        b //= grid.bins[j]
    return True


@jit_kernel
def choose(core, grid, plan, step, state, boldness, allowed, action):
    """Write the best feasible action (unit cube) under Q + boldness * bonus; return its cell.

    If `boldness` is positive, the plan is for learning: ties are broken at random, and the bonus of
    a cell falls with its plays since the plan was made. An episode that explores maximizes
    `plan.way` instead, as long as a distance above `far` can be reached. If `boldness` is 0, the
    plan is for the policy, and its bonus, which is negative, is added once.

    If the chosen cell is the best one of the plan, the action is interpolated by `mix`. `allowed`
    without rows allows all actions.
    """
    n_state, n_axes = core[0]["n_state"], grid.bins.shape[0]
    n_actions = plan.q.shape[1] // plan.values.shape[1]
    is_masked = allowed.shape[0] > 0
    cell = state_cell(grid, n_state, state)
    slack = 1e-12 * max(0.0, core[0]["most"] - core[0]["least"])
    best, most, n_tied = np.int64(-1), -np.inf, 0
    explores = False  # whether this action explores
    if boldness > 0.0 and core[0]["explores"]:
        for b in range(n_actions):
            explores = explores or plan.way[step, cell * n_actions + b] > core[0]["far"]
    for b in range(n_actions):
        c = cell * n_actions + b
        q = plan.q[step, c]
        if boldness > 0.0:
            q += boldness * plan.bonus[step, c] / np.sqrt(1.0 + plan.played[c])
        else:
            q += plan.bonus[step, c]
        if explores:
            q = plan.way[step, c] / np.sqrt(1.0 + plan.played[c])
        if best >= 0 and q < most - slack:
            continue
        if is_masked and not is_feasible(grid, n_state, b, allowed):
            continue
        if best < 0 or q > most + slack:
            best, most, n_tied = np.int64(b), q, 1
        elif boldness > 0.0:
            n_tied += 1
            if draw(core) % np.uint64(n_tied) == np.uint64(0):
                best = np.int64(b)
    rest = best
    for j in range(n_axes - 1, n_state - 1, -1):
        i = rest % grid.bins[j]
        action[j - n_state] = grid.centers[j, i]
        if is_masked:
            action[j - n_state] = feasible_at(grid, j, i, allowed[j - n_state])
        rest //= grid.bins[j]
    if best == plan.best[step, cell] and not explores:
        mix(grid, plan, n_state, step, state, cell, allowed, action)
    return cell * n_actions + best


@jit_kernel
def mix(grid, plan, n_state, step, state, cell, allowed, action):
    """Interpolate between the best action of the state's cell and those of its neighbors.

    The weight of a neighbor is the state's offset towards its center, as a share of the gap between
    the centers. A neighbor whose best action differs by more than SLOPE times the gap is skipped:
    the policy jumps there. Discrete axes are not interpolated.
    """
    n_axes, stride = grid.bins.shape[0], np.int64(1)
    here = plan.best[step, cell]
    for j in range(n_state - 1, -1, -1):
        i = (cell // stride) % grid.bins[j]
        away = state[j] - grid.centers[j, i]
        neighbor = i + 1 if away > 0.0 else i - 1
        if grid.kinds[j] == SMOOTH and 0 <= neighbor < grid.bins[j]:
            there = plan.best[step, cell + (neighbor - i) * stride]
            gap = abs(grid.centers[j, neighbor] - grid.centers[j, i])
            if largest_change(grid, n_state, here, there) <= SLOPE * gap:
                a, b = here, there
                for k in range(n_axes - 1, n_state - 1, -1):
                    if grid.kinds[k] == SMOOTH:
                        change = (
                            grid.centers[k, b % grid.bins[k]] - grid.centers[k, a % grid.bins[k]]
                        )
                        action[k - n_state] += min(1.0, abs(away) / gap) * change
                    a //= grid.bins[k]
                    b //= grid.bins[k]
        stride *= grid.bins[j]
    for k in range(n_state, n_axes):
        if grid.kinds[k] == SMOOTH:
            low, high = grid.centers[k, 0], grid.centers[k, grid.bins[k] - 1]
            if allowed.shape[0] > 0:
                low, high = allowed[k - n_state, 0], allowed[k - n_state, 1]
            action[k - n_state] = min(high, max(low, action[k - n_state]))


@jit_inline
def largest_change(grid, n_state, a, b):
    """Return the largest difference along an axis between the centers of two action cells."""
    largest = 0.0
    for k in range(grid.bins.shape[0] - 1, n_state - 1, -1):
        change = grid.centers[k, b % grid.bins[k]] - grid.centers[k, a % grid.bins[k]]
        largest = max(largest, abs(change))
        a //= grid.bins[k]
        b //= grid.bins[k]
    return largest


@jit_kernel
def write_action(axes, n_state, unit, action):
    """Write a point of the unit cube as an action in the environment's units."""
    for i in range(action.shape[0]):
        n_values = axes[n_state + i, ATOMS]
        if n_values > 0.0:
            k = min(n_values - 1.0, np.floor(unit[i] * n_values))
            action[i] = axes[n_state + i, LOW] + 0.5 + k
        else:
            action[i], _ = in_units(axes, n_state + i, unit[i], 0.0)


@jit_kernel
def choose_at(handle, step, state, allowed, unit_action):
    """Call `choose` with the arrays of a handle, for the policy."""
    core, _, grid, plan, _ = cells_at(handle)
    return choose(core, grid, plan, step, state, 0.0, allowed, unit_action)


@jit_kernel
def find_cell(handle, state, action):
    """Return the number of the cell of two points of the unit cube."""
    core, _, grid, plan, _ = cells_at(handle)
    n_actions = plan.q.shape[1] // plan.values.shape[1]
    n_state = core[0]["n_state"]
    return state_cell(grid, n_state, state) * n_actions + action_cell(grid, n_state, action)


@jit_kernel
def choose_many(handle, steps, observations, actions):
    """Write the best action for each (step, observation), in the environment's units.

    Return (k, i) if coordinate i of observation k is bad, else (-1, -1).
    """
    core, _, grid, plan, axes = cells_at(handle)
    state, unit = np.empty(core[0]["n_state"]), np.empty(core[0]["n_action"])
    everything = np.empty((0, FIRST_VALUE))
    for k in range(steps.shape[0]):
        bad = to_unit(axes, 0, observations[k], state)
        if bad >= 0:
            return k, bad
        choose(core, grid, plan, steps[k], state, 0.0, everything, unit)
        write_action(axes, core[0]["n_state"], unit, actions[k])
    return -1, -1
