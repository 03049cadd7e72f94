"""Play a plan: choose actions, record transitions, and the parts of the training loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.boxes.layout import ATOMS, BAD_REWARD, BAD_STATE, DUE, FINE, FIRST_VALUE, LOW
from zooming.kernels.boxes.points import in_units, to_unit
from zooming.kernels.boxes.update_rule import draw, learned_reward
from zooming.kernels.loop.episodes import Parts, itself, make_play, no_split
from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.grids import action_cell, place_of, state_cell
from zooming.kernels.plans.layout import (
    ENDED,
    EXPLORING,
    FADING,
    FAR,
    FULL,
    MEAN_REWARD,
    OLD,
    PLAYED,
    RECALLED,
    SLOPE,
    SMOOTH,
    SPREAD,
    WEIGHT,
    cells_at,
)

# --- actions --------------------------------------------------------------------------------------


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
    """Interpolate between the best action of the state's cell and those of its neighbors."""
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
def choose_at(handle, core, step, state, boldness, allowed, action):
    """Call `choose` with the arrays of a handle. Draw from `core`."""
    _, _, grid, plan, _ = cells_at(handle)
    return choose(core, grid, plan, step, state, boldness, allowed, action)


@jit_kernel
def choose_many(handle, core, steps, observations, is_learning, actions):
    """Write an action for each (step, observation), in the environment's units.

    For learning, each has a boldness of its own, drawn from `core`. Return (k, i) if coordinate i
    of observation k is bad, else (-1, -1).
    """
    _, _, grid, plan, axes = cells_at(handle)
    state, unit = np.empty(core[0]["n_state"]), np.empty(core[0]["n_action"])
    everything = np.empty((0, FIRST_VALUE))
    for k in range(steps.shape[0]):
        bad = to_unit(axes, 0, observations[k], state)
        if bad >= 0:
            return k, bad
        if is_learning:
            draw_boldness(core)
        boldness = core[0]["boldness"] if is_learning else 0.0
        choose(core, grid, plan, steps[k], state, boldness, everything, unit)
        write_action(axes, core[0]["n_state"], unit, actions[k])
    return -1, -1


@jit_kernel
def find_cell(handle, state, action):
    """Return the number of the cell of two points of the unit cube."""
    core, _, grid, plan, _ = cells_at(handle)
    n_actions = plan.q.shape[1] // plan.values.shape[1]
    n_state = core[0]["n_state"]
    return state_cell(grid, n_state, state) * n_actions + action_cell(grid, n_state, action)


@jit_kernel
def add_values(handle, policy, first, last):
    """Return the sum of Q over the states of samples first to last - 1, at the policy's actions.

    Q and the samples are those of `handle`, actions those of the handle `policy`.
    """
    core, samples, grid, plan, _ = cells_at(handle)
    _, _, other_grid, other, _ = cells_at(policy)
    n_state, total = core[0]["n_state"], 0.0
    state, action = np.empty(n_state), np.empty(core[0]["n_action"])
    everything = np.empty((0, FIRST_VALUE))
    n_actions = plan.q.shape[1] // plan.values.shape[1]
    for i in range(first, last):
        step = samples.steps[i]
        for j in range(n_state):
            state[j] = (samples.places[i, j] + 0.5) / grid.units[j]
        here = state_cell(other_grid, n_state, state)
        rest = other.best[step, here]  # as `choose`, which compares all actions
        for j in range(grid.bins.shape[0] - 1, n_state - 1, -1):
            action[j - n_state] = other_grid.centers[j, rest % other_grid.bins[j]]
            rest //= other_grid.bins[j]
        mix(other_grid, other, n_state, step, state, here, everything, action)
        cell = state_cell(grid, n_state, state) * n_actions + action_cell(grid, n_state, action)
        total += samples.numbers[i, WEIGHT] * plan.q[step, cell]
    return total


# --- episodes -------------------------------------------------------------------------------------


@jit_inline
def draw_share(core):
    """Return a uniform number in [0, 1) from the agent's own generator."""
    return np.float64(draw(core) >> np.uint64(11)) * 2.0**-53


@jit_kernel
def begin_episode(core):
    """Count the return of the planner's last episode, and draw how the coming one explores."""
    count_return(core)
    draw_boldness(core)
    if core[0]["explores"] == RECALLED:
        core[0]["own"] = OLD
        core[0]["due"] += 1  # so that plans and replays have as many episodes as without it
        core[0]["replays"] += 1 if core[0]["replays"] > 0 else 0


@jit_kernel
def draw_boldness(core):
    """Draw the weight of the bonus in an episode, and whether it explores. Policies do neither."""
    if core[0]["explores"] == RECALLED:
        core[0]["boldness"] = 0.0
        return
    mean = (FULL / max(FULL, core[0]["n_episodes"])) ** FADING
    core[0]["boldness"] = 2.0 * mean * draw_share(core)
    is_drawn = draw_share(core) * np.sqrt(core[0]["n_episodes"] + 1.0) < EXPLORING
    core[0]["explores"] = FAR if is_drawn or core[0]["most"] <= core[0]["least"] else 0
    if core[0]["replays"] > 0:
        core[0]["boldness"], core[0]["explores"] = 0.0, 0


@jit_kernel
def count_return(core):
    """Count the return of the last episode."""
    if 0 <= core[0]["own"] < core[0]["n_episodes"]:  # not if nothing was recorded after `act`
        core[0]["plays"] += 1.0
        away = core[0]["total"] - core[0]["earned"]
        core[0]["earned"] += away / core[0]["plays"]
        core[0]["squares"] += away * (core[0]["total"] - core[0]["earned"])
    core[0]["own"], core[0]["total"] = core[0]["n_episodes"], 0.0


@jit_inline
def is_due(core):
    """Return whether a plan is due, or samples must be condensed, or replays end."""
    n, ends = core[0]["n_episodes"], core[0]["replays"]
    is_crowded = core[0]["n_samples"] > core[0]["most_samples"]
    return n >= core[0]["due"] or is_crowded or 0 < ends <= n


@jit_kernel
def record(core, samples, units, step, state, action, reward, next_state, is_ended):
    """Append a transition of points in the unit cube. The caller has reserved room.

    At the last step, `is_ended` is ignored: the horizon ends the episode, whatever the next state
    is. Steps that share their samples with the last one would learn that this state is terminal.
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
    if core[0]["n_episodes"] == core[0]["own"] + 1:  # not an episode of another agent
        core[0]["total"] += reward


@jit_kernel
def record_at(handle, step, state, action, reward, next_state, is_ended):
    """Call `record` with the arrays of a handle."""
    core, samples, grid, _, _ = cells_at(handle)
    record(core, samples, grid.units, step, state, action, reward, next_state, is_ended)


# --- parts of the loop ----------------------------------------------------------------------------


class Memory(NamedTuple):
    """The arrays of a planner, and scratch memory. Points are in the unit cube."""

    core: Any
    samples: Any
    grid: Any
    plan: Any
    axes: Any  # float64 [n_axes, 5], see `layout.LOW`
    state: Any  # float64 [n_state]: the state that was read last
    before: Any  # float64 [n_state]: the state that was acted on last
    action: Any  # float64 [n_action]
    everything: Any  # float64 [0, FIRST_VALUE]: the `allowed` of `choose` without restriction


@jit_kernel
def open_memory(handle):
    """Return the record of a handle, with scratch memory."""
    core, samples, grid, plan, axes = cells_at(handle)
    n_state, n_action = core[0]["n_state"], core[0]["n_action"]
    return Memory(
        core, samples, grid, plan, axes, np.empty(n_state), np.empty(n_state), np.empty(n_action),
        np.empty((0, FIRST_VALUE)),
    )  # fmt: skip


@jit_inline
def options(t):
    """Return (0, 0). Planners ignore both options, the rule for ties and the action rule."""
    return 0, 0


@jit_inline
def has_room(t, n_steps):
    """Return whether no plan is due, and there is room for the samples of an episode."""
    return not is_due(t.core) and t.core[0]["n_samples"] + n_steps <= t.samples.steps.shape[0]


@jit_inline
def read(t, point):
    """Read a state into scratch memory. Return the index of a bad coordinate, or -1."""
    return to_unit(t.axes, 0, point, t.state)


@jit_inline
def best(t, step, ties):
    """Return (0, NaN) for (row, value): planners have no rows, and only plans compute values."""
    return np.int64(0), np.nan


@jit_kernel
def act_on_state(t, row, step, rule, action):
    """Write the action for the state that was read last."""
    if step == 0:
        begin_episode(t.core)
    for i in range(t.state.shape[0]):
        t.before[i] = t.state[i]
    boldness = t.core[0]["boldness"]
    cell = choose(t.core, t.grid, t.plan, step, t.state, boldness, t.everything, t.action)
    t.plan.played[cell] += 1.0 / (PLAYED + t.plan.visits[step, cell])
    write_action(t.axes, t.state.shape[0], t.action, action)
    return row


@jit_kernel
def learn(t, step, row, reward, next_value, action):
    """Record a transition; return False, since nothing is split."""
    to_unit(t.axes, t.state.shape[0], action, t.action)
    is_ended = not np.isnan(next_value)
    record(t.core, t.samples, t.grid.units, step, t.before, t.action, reward, t.state, is_ended)
    return False


@jit_inline
def n_cells(t):
    """Return the number of cells, summed over all steps."""
    return t.plan.q.shape[0] * t.plan.q.shape[1]


PARTS = Parts(
    open_memory, itself, options, has_room, read, best, act_on_state, learn, no_split, n_cells
)


@functools.cache
def play() -> Callable[..., int]:
    """Return `episodes.play` for planners, compiled on first use. FULL: a plan may be due."""
    return make_play("planners", PARTS)


@jit_kernel
def record_many(
    handle, steps, states, actions, rewards, next_states, terminated, clipping, done
):  # fmt: skip
    """Keep the transitions from index done[0] on, in their order. Return (code, coordinate).

    Points are flat as in `Axes.flat_state`. FINE: all are kept. DUE: transition done[0] begins an
    episode for which a plan is due. BAD_REWARD and BAD_STATE: transition done[0] is
    refused, as by `update`. Coordinates are counted over state, action and next state. The caller
    has reserved room.
    """
    core, samples, grid, _, axes = cells_at(handle)
    n_state, n_action = core[0]["n_state"], core[0]["n_action"]
    state, action, after = np.empty(n_state), np.empty(n_action), np.empty(n_state)
    while done[0] < steps.shape[0]:
        k = done[0]
        reward = learned_reward(rewards[k], core[0]["reward_low"], core[0]["reward_high"], clipping)
        if np.isnan(reward):
            return BAD_REWARD, -1
        bad = to_unit(axes, 0, states[k], state)
        if bad >= 0:
            return BAD_STATE, bad
        bad = to_unit(axes, n_state, actions[k], action)
        if bad >= 0:
            return BAD_STATE, n_state + bad
        bad = to_unit(axes, 0, next_states[k], after)
        if bad >= 0:
            return BAD_STATE, n_state + n_action + bad
        if steps[k] == 0 and is_due(core):
            return DUE, -1
        if reward != rewards[k]:
            clipping[1] += 1
        record(core, samples, grid.units, steps[k], state, action, reward, after, terminated[k])
        done[0] += 1
    return FINE, -1
