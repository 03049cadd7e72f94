"""Add transitions that other agents played to the samples of a planner."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.boxes.layout import BAD_REWARD, BAD_STATE, DUE, FINE, FIRST_VALUE
from zooming.kernels.boxes.points import to_unit
from zooming.kernels.boxes.update_rule import draw, learned_reward
from zooming.kernels.loop.episodes import Parts, itself, make_play, no_split
from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.actions import choose, write_action
from zooming.kernels.plans.grids import place_of
from zooming.kernels.plans.layout import (
    ENDED,
    EXPLORING,
    FADING,
    FULL,
    MEAN_REWARD,
    PLAYED,
    SPREAD,
    WEIGHT,
    cells_at,
)


@jit_inline
def draw_share(core):
    """Return a uniform number in [0, 1) from the agent's own generator."""
    return np.float64(draw(core) >> np.uint64(11)) * 2.0**-53


@jit_kernel
def begin_episode(core):
    """Count the return of the planner's last episode, and draw how the coming one explores."""
    count_return(core)
    draw_boldness(core)


@jit_kernel
def draw_boldness(core):
    """Draw the weight of the bonus in an episode, and whether it explores.

    The weight is uniform, so that episodes side by side differ. Its mean is 1 for the first FULL
    episodes, and then falls slowly. While all rewards are equal, every episode explores.
    """
    mean = (FULL / max(FULL, core[0]["n_episodes"])) ** FADING
    core[0]["boldness"] = 2.0 * mean * draw_share(core)
    is_drawn = draw_share(core) * np.sqrt(core[0]["n_episodes"] + 1.0) < EXPLORING
    core[0]["explores"] = 1 if is_drawn or core[0]["most"] <= core[0]["least"] else 0


@jit_kernel
def count_return(core):
    """Count the return of the last episode."""
    if 0 <= core[0]["own"] < core[0]["n_episodes"]:  # not if nothing was recorded after `act`
        core[0]["plays"] += 1.0
        away = core[0]["total"] - core[0]["earned"]
        core[0]["earned"] += away / core[0]["plays"]
        core[0]["squares"] += away * (core[0]["total"] - core[0]["earned"])
    core[0]["own"], core[0]["total"] = core[0]["n_episodes"], 0.0


@jit_kernel
def act(core, grid, plan, step, state, allowed, unit_action):
    """Write an action for learning, a point of the unit cube, and count the play of its cell."""
    cell = choose(core, grid, plan, step, state, core[0]["boldness"], allowed, unit_action)
    plan.played[cell] += 1.0 / (PLAYED + plan.visits[step, cell])


@jit_kernel
def act_at(handle, step, state, allowed, unit_action):
    """Call `act` with the arrays of a handle."""
    core, _, grid, plan, _ = cells_at(handle)
    act(core, grid, plan, step, state, allowed, unit_action)


@jit_kernel
def explore_at(handle, core, step, state, allowed, unit_action):
    """Write an action for learning and return its cell. Draw from `core`; count nothing."""
    _, _, grid, plan, _ = cells_at(handle)
    return choose(core, grid, plan, step, state, core[0]["boldness"], allowed, unit_action)


@jit_kernel
def explore_many(handle, core, steps, observations, actions):
    """Write an action for learning for each (step, observation), each with a weight of its own.

    Return (k, i) if coordinate i of observation k is bad, else (-1, -1). Draw from `core`.
    """
    _, _, grid, plan, axes = cells_at(handle)
    state, unit = np.empty(core[0]["n_state"]), np.empty(core[0]["n_action"])
    everything = np.empty((0, FIRST_VALUE))
    for k in range(steps.shape[0]):
        bad = to_unit(axes, 0, observations[k], state)
        if bad >= 0:
            return k, bad
        draw_boldness(core)
        choose(core, grid, plan, steps[k], state, core[0]["boldness"], everything, unit)
        write_action(axes, core[0]["n_state"], unit, actions[k])
    return -1, -1


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
    n_samples, size = t.core[0]["n_samples"], t.samples.steps.shape[0]
    is_due = t.core[0]["n_episodes"] >= t.core[0]["due"] or n_samples > t.core[0]["most_samples"]
    return not is_due and n_samples + n_steps <= size


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
    act(t.core, t.grid, t.plan, step, t.state, t.everything, t.action)
    write_action(t.axes, t.state.shape[0], t.action, action)
    return row


@jit_kernel
def learn(t, step, row, reward, next_value, action):
    """Record a transition; return False, since nothing is split.

    `next_value` is 0 if the episode has ended, else NaN. The sample has the action that the
    environment got, which may be rounded.
    """
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
    """Return `episodes.play` for planners, compiled on first use. FULL may mean that a plan is due.

    A handle is that of `plan_layout.pack_cells`.
    """
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
        is_due = (
            core[0]["n_episodes"] >= core[0]["due"]
            or core[0]["n_samples"] > core[0]["most_samples"]
        )
        if steps[k] == 0 and is_due:
            return DUE, -1
        if reward != rewards[k]:
            clipping[1] += 1
        record(core, samples, grid.units, steps[k], state, action, reward, after, terminated[k])
        done[0] += 1
    return FINE, -1
