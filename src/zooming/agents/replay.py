"""Learn from recorded transitions in compiled code. The result equals calling `update` for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.clipping import warn_of_clipping
from zooming.errors import ConfigurationError
from zooming.kernels import plan_replay
from zooming.kernels.layout import ATOMS, LOW, WIDTH
from zooming.kernels.plan_layout import ENDED, MEAN_REWARD, WEIGHT
from zooming.validation import Floats

if TYPE_CHECKING:
    from zooming.agents.agent import Agent
    from zooming.agents.planner import Planner
    from zooming.agents.q_learner import QLearner


class Transitions(NamedTuple):
    """Recorded transitions, episode by episode, in the order they were played.

    Each field has one entry per transition. States and actions are flat vectors in the
    environment's units, as `axes.states.flat` and `axes.actions.flat` return them. Any agent on the
    same spaces can learn from them.
    """

    steps: NDArray[np.int64]  # [n]
    states: Floats  # [n, n_state]
    actions: Floats  # [n, n_action]
    rewards: Floats  # [n], before clipping
    next_states: Floats  # [n, n_state]
    terminated: NDArray[np.bool_]  # [n]

    def part(self, first: int, last: int) -> Transitions:
        """Return the transitions from `first` to `last` - 1."""
        columns: Any = (column[first:last] for column in self)
        return Transitions(*columns)


Done = NDArray[np.int64] | None  # [1], the number of transitions learned; see `Agent`


def update_each(agent: Agent, recorded: Transitions, done: Done = None) -> None:
    """Call `agent.update` for each transition, beginning at index done[0]."""
    states, actions = agent.axes.states, agent.axes.actions
    done = _none_done() if done is None else done
    for k in range(int(done[0]), len(recorded.steps)):
        step, state, action, reward, after, is_terminated = (column[k] for column in recorded)
        agent.update(
            int(step), states.shaped(state), actions.shaped(action), float(reward),
            states.shaped(after), bool(is_terminated),
        )  # fmt: skip
        done[0] += 1


def replay(agent: QLearner, recorded: Transitions, done: Done = None) -> None:
    """Learn from all transitions in compiled code.

    The result equals that of `update_each`, to the last bit.
    """
    problem, table = agent.problem, agent.table
    flat = flat_transitions(agent, recorded)
    done = _none_done() if done is None else done
    while done[0] < len(flat.steps):
        alive = dict(vars(table))  # noqa: F841  # the kernel has addresses, and runs unlocked
        code = table.replay(
            table.handle, *flat, *agent.reward_range, agent.clipping, done
        )  # fmt: skip
        k = int(done[0])
        if code == kernels.FULL:
            table.make_room()
        elif code == kernels.DUE:
            table.split(table.payload)
        elif code == kernels.BAD_REWARD:
            raise problem.bad_reward(int(flat.steps[k]), float(flat.rewards[k]))
        elif code != kernels.FINE:
            raise problem.bad_point(
                int(flat.steps[k]),
                table.payload,
                flat.states[k],
                flat.actions[k],
                flat.next_states[k],
            )
    warn_of_clipping(agent)


def record_samples(agent: Planner, recorded: Transitions, done: Done = None) -> None:
    """Add all transitions to a planner's samples. The result equals that of `update_each`."""
    problem, table, flat = agent.problem, agent.table, flat_transitions(agent, recorded)
    done = _none_done() if done is None else done
    while done[0] < len(flat.steps):
        table.reserve(len(flat.steps) - int(done[0]))
        code, i = plan_replay.record_many(
            table.handle, *flat, agent.clipping, done
        )  # fmt: skip
        k = int(done[0])
        if code == kernels.DUE:
            table.refit()
        elif code == kernels.BAD_REWARD:
            raise problem.bad_reward(int(flat.steps[k]), float(flat.rewards[k]))
        elif code != kernels.FINE:
            raise problem.bad_point(
                int(flat.steps[k]), i, flat.states[k], flat.actions[k], flat.next_states[k]
            )
    warn_of_clipping(agent)


def kept_transitions(agent: Planner) -> Transitions | None:
    """Return the transitions that a planner keeps, in the order in which they were learned.

    Points are the centers of their places, see `kernels.plan_layout`. Return None if there are no
    transitions, or if similar ones were joined.
    """
    axes, table = agent.axes, agent.table
    n, n_state = table.n_samples, axes.n_state
    steps, places, numbers = (part[:n] for part in table.samples)
    if not n or (numbers[:, WEIGHT] != 1).any():
        return None
    is_ended = places[:, len(axes)] == ENDED
    after = np.where(is_ended[:, None], places[:, :n_state], places[:, len(axes) :])

    def values(which: NDArray[Any], first: int) -> Floats:
        own = slice(first, first + which.shape[1])
        low, width, n_values = axes.table[own, LOW], axes.table[own, WIDTH], axes.table[own, ATOMS]
        found = low + (which + 0.5) / table.units[own] * width
        # Many integers share one place. The ends of their axis are half-integers.
        whole = np.clip(np.rint(found), low + 0.5, low + width - 0.5)
        return axes.from_unit_cube(np.where(n_values > 0, whole, found), first)

    return Transitions(
        steps.astype(np.int64), values(places[:, :n_state], 0),
        values(places[:, n_state : len(axes)], n_state), numbers[:, MEAN_REWARD].copy(),
        values(after, 0), is_ended,
    )  # fmt: skip


def flat_transitions(agent: Agent, recorded: Transitions) -> Transitions:
    """Convert states and actions to flat points of the agent's axes, which the kernels read.

    Raise TransitionError if a step is outside the episode.
    """
    steps = np.ascontiguousarray(recorded.steps, np.int64)
    if len(steps) and (steps.min() < 0 or steps.max() >= agent.horizon):
        outside = (steps < 0) | (steps >= agent.horizon)
        agent.problem.check_step(int(steps[outside][0]))
    n_state, is_plain = agent.axes.n_state, agent.axes.are_plain
    return Transitions(
        steps,
        _flat(agent, recorded.states, 0, n_state, is_plain),
        _flat(agent, recorded.actions, n_state, agent.axes.n_action, is_plain),
        np.ascontiguousarray(recorded.rewards, np.float64),
        _flat(agent, recorded.next_states, 0, n_state, is_plain),
        np.ascontiguousarray(recorded.terminated, np.bool_),
    )


def _flat(agent: Agent, points: Floats, first_axis: int, n_axes: int, is_plain: bool) -> Floats:
    """Convert points to flat vectors, as `axes.flat_state` and `axes.flat_action` do."""
    flat = np.ascontiguousarray(points, np.float64)
    if flat.ndim != 2 or flat.shape[1] != n_axes:
        raise ConfigurationError(
            f"recorded points have the shape {flat.shape}; give one row of {n_axes} numbers each"
        )
    if is_plain:
        return flat
    return np.asarray(agent.axes.to_unit_cube(flat.copy(), first_axis))


def _none_done() -> NDArray[np.int64]:
    return np.zeros(1, np.int64)
