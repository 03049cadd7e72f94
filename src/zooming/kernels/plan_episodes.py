"""Run a planner: choose actions, record samples, and play whole episodes in compiled code."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import float64, int64

from zooming.kernels.crossing import HANDLE, unpack
from zooming.kernels.grids import place_of, state_cell
from zooming.kernels.jit import jit_inline, jit_kernel, jit_with_signature
from zooming.kernels.layout import (
    ATOMS,
    BAD_REWARD,
    BAD_STATE,
    DUE,
    FINE,
    FIRST_VALUE,
    FULL,
    LOW,
)
from zooming.kernels.plan_layout import (
    CORE_TYPE,
    ENDED,
    GRID_TYPE,
    MEAN_REWARD,
    PLAN_TYPE,
    PLAYED,
    SAMPLES_TYPE,
    SLOPE,
    SMOOTH,
    SPREAD,
    WEIGHT,
)
from zooming.kernels.points import in_units, to_unit
from zooming.kernels.update_rule import draw, learned_reward


@jit_inline
def draw_share(core):
    """Return a uniform number in [0, 1) from the agent's own generator."""
    return np.float64(draw(core) >> np.uint64(11)) * 2.0**-53


@jit_kernel
def begin_episode(core):
    """Draw the weight of the bonus in the coming episode: its mean is 1."""
    core[0]["boldness"] = 2.0 * draw_share(core)


@jit_kernel
def feasible_at(grid, axis, i, allowed_row):
    """Return the feasible coordinate in bin i of an axis that is nearest to its center, or -1."""
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

    Ties are broken at random if `boldness` is positive. `allowed` without rows allows everything.
    The bonus of a cell falls with the plays since the plan was made. The best action of the plan
    is mixed with those of neighboring states.
    """
    n_state, n_axes = core[0]["n_state"], grid.bins.shape[0]
    n_actions = plan.q.shape[1] // plan.values.shape[1]
    is_masked = allowed.shape[0] > 0
    cell = state_cell(grid, n_state, state)
    slack = 1e-12 * max(0.0, core[0]["most"] - core[0]["least"])
    best, most, n_tied = np.int64(-1), -np.inf, 0
    for b in range(n_actions):
        c = cell * n_actions + b
        q = plan.q[step, c]
        if boldness > 0.0:
            q += boldness * plan.bonus[step, c] / np.sqrt(1.0 + plan.played[c])
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
    if best == plan.best[step, cell]:
        mix(grid, plan, n_state, step, state, cell, allowed, action)
    return cell * n_actions + best


@jit_kernel
def mix(grid, plan, n_state, step, state, cell, allowed, action):
    """Move an action towards the best ones of the neighboring states' cells.

    A neighbor counts by how near the state is to it. Where its best action differs by more than
    SLOPE times the distance, the policy jumps, and nothing is mixed. On axes of values nothing is.
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
    """Return the distance of the centers of two action cells along the axis where it is largest."""
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
def act(core, grid, plan, step, state, allowed, unit_action):
    """Choose as in training, and count the play; the action is a point of the unit cube."""
    cell = choose(core, grid, plan, step, state, core[0]["boldness"], allowed, unit_action)
    plan.played[cell] += 1.0 / (PLAYED + plan.visits[step, cell])


@jit_kernel
def choose_many(core, grid, plan, axes, steps, observations, actions):
    """Write the best action for each (step, observation), in the environment's units.

    Return (k, i) if coordinate i of observation k is bad, else (-1, -1).
    """
    state, unit = np.empty(core[0]["n_state"]), np.empty(core[0]["n_action"])
    everything = np.empty((0, FIRST_VALUE))
    for k in range(steps.shape[0]):
        bad = to_unit(axes, 0, observations[k], state)
        if bad >= 0:
            return k, bad
        choose(core, grid, plan, steps[k], state, 0.0, everything, unit)
        write_action(axes, core[0]["n_state"], unit, actions[k])
    return -1, -1


@jit_kernel
def record(core, samples, units, step, state, action, reward, next_state, is_ended):
    """Append a transition; its points are in the unit cube. The caller has reserved room.

    The end of the last step is that of the horizon, not of the state: other steps, if pooled, learn
    from it that the process goes on.
    """
    is_ended = is_ended and step + 1 < core[0]["horizon"]
    row, n_state, n_action = core[0]["n_samples"], core[0]["n_state"], core[0]["n_action"]
    places = samples.places[row]
    for j in range(n_state):
        places[j] = place_of(state[j], units[j])
        after = place_of(next_state[j], units[j])
        places[n_state + n_action + j] = ENDED if is_ended else after
    for j in range(n_action):
        places[n_state + j] = place_of(action[j], units[n_state + j])
    samples.steps[row] = step
    samples.numbers[row, WEIGHT] = 1.0
    samples.numbers[row, MEAN_REWARD] = reward
    samples.numbers[row, SPREAD] = 0.0
    core[0]["n_samples"] = row + 1
    core[0]["least"] = min(core[0]["least"], reward)
    core[0]["most"] = max(core[0]["most"], reward)
    if step == 0:  # an episode begins, in either driver
        core[0]["n_episodes"] += 1


def _play(
    core, samples, grid, plan, axes, handle, params, n_env_steps, returns, n_balls, done, end,
    trouble, clipping,
):  # fmt: skip
    """Play whole episodes until done[0] equals `end`; return a code, as `episodes.make_play` says.

    FULL asks for more room for samples, and DUE for a new plan; then the caller calls again.
    """
    n_state, n_action = core[0]["n_state"], core[0]["n_action"]
    rng, dynamics, start = unpack(handle)
    n_steps = min(core[0]["horizon"], n_env_steps)
    state, next_state = np.empty(n_state), np.empty(n_state)
    unit_state, unit_next = np.empty(n_state), np.empty(n_state)
    action, unit_action = np.empty(n_action), np.empty(n_action)
    everything = np.empty((0, FIRST_VALUE))
    while done[0] < end:
        if core[0]["n_episodes"] >= core[0]["due"]:
            return DUE
        if core[0]["n_samples"] + n_steps > samples.steps.shape[0]:
            return FULL
        start(params, rng, state)
        bad = to_unit(axes, 0, state, unit_state)
        if bad >= 0:
            trouble[0], trouble[1], trouble[2] = 0, bad, state[bad]
            return BAD_STATE
        begin_episode(core)
        total = 0.0
        for step in range(n_steps):
            act(core, grid, plan, step, unit_state, everything, unit_action)
            write_action(axes, n_state, unit_action, action)
            for i in range(n_state):
                next_state[i] = np.nan  # reveals a coordinate that the dynamics do not write
            reward = dynamics(state, action, step, params, rng, next_state)
            learned = learned_reward(
                reward, core[0]["reward_low"], core[0]["reward_high"], clipping
            )
            if np.isnan(learned):
                trouble[0], trouble[2] = step, reward
                return BAD_REWARD
            bad = to_unit(axes, 0, next_state, unit_next)
            if bad >= 0:
                trouble[0], trouble[1], trouble[2] = step + 1, bad, next_state[bad]
                return BAD_STATE
            if learned != reward:
                clipping[1] += 1
            to_unit(axes, n_state, action, unit_action)
            is_ended = step + 1 == n_env_steps
            record(core, samples, grid.units, step, unit_state, unit_action, learned, unit_next,
                   is_ended)  # fmt: skip
            total += reward
            for i in range(n_state):
                state[i], unit_state[i] = next_state[i], unit_next[i]
        returns[done[0]] = total
        n_balls[done[0]] = plan.q.shape[0] * plan.q.shape[1]
        done[0] += 1
    return FINE


@functools.cache
def play() -> Callable[..., int]:
    """Return `_play`, compiled on first use."""
    vector, whole = float64[::1], int64[::1]
    return jit_with_signature(
        _play, CORE_TYPE, SAMPLES_TYPE, GRID_TYPE, PLAN_TYPE, float64[:, ::1], HANDLE, vector,
        int64, vector, whole, whole, int64, vector, whole,
    )  # fmt: skip
