"""Learn from recorded transitions in compiled code. The result equals calling `update` for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.base.status import warn_of_clipping
from zooming.errors import ConfigurationError
from zooming.kernels.boxes.layout import ATOMS, LOW, WIDTH
from zooming.kernels.loop import crossing as recording
from zooming.kernels.loop.crossing import Crossing
from zooming.kernels.plans import play as plan_replay
from zooming.kernels.plans.layout import ENDED, MEAN_REWARD, WEIGHT
from zooming.validation import Floats, Ints

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent
    from zooming.agents.planner.planner import Planner
    from zooming.agents.tables.q_learner import QLearner


class Transitions(NamedTuple):
    """Recorded transitions, episode by episode, in the order they were played.

    Each field has one entry per transition. States and actions are flat vectors in the
    environment's units, as `axes.states.flat` and `axes.actions.flat` return them. Any agent on the
    same spaces can learn from them.
    """

    steps: Ints  # [n]
    states: Floats  # [n, n_state]
    actions: Floats  # [n, n_action]
    rewards: Floats  # [n], before clipping
    next_states: Floats  # [n, n_state]
    terminated: NDArray[np.bool_]  # [n]

    def part(self, first: int, last: int) -> Transitions:
        """Return the transitions from `first` to `last` - 1."""
        columns: Any = (column[first:last] for column in self)
        return Transitions(*columns)


Done = Ints | None  # [1], the number of transitions learned; see `Agent`


def update_each(agent: Agent, recorded: Transitions, done: Done = None) -> None:
    """Call `agent.update` for each transition, beginning at index done[0]."""
    states, actions = agent.axes.states, agent.axes.actions
    done = np.zeros(1, np.int64) if done is None else done
    for k in range(int(done[0]), len(recorded.steps)):
        step, state, action, reward, after, is_terminated = (column[k] for column in recorded)
        agent.update(
            int(step), states.shaped(state), actions.shaped(action), float(reward),
            states.shaped(after), bool(is_terminated),
        )  # fmt: skip
        done[0] += 1


def replay(agent: QLearner, recorded: Transitions, done: Done = None) -> None:
    """Learn from all transitions in compiled code, as `update_each` does, to the last bit."""
    table, flat = agent.table, flat_transitions(agent, recorded)

    def learn(done: Ints) -> tuple[int, int]:
        alive = dict(vars(table))  # noqa: F841  # the kernel has addresses, and runs unlocked
        code = table.replay(table.handle, *flat, *agent.reward_range, agent.run.clipping, done)
        if code == kernels.FULL:
            table.make_room()
        elif code == kernels.DUE:
            table.split(table.payload)
        return code, table.payload

    _learn_all(agent, flat, done, learn)


def record_samples(agent: Planner, recorded: Transitions, done: Done = None) -> None:
    """Add all transitions to a planner's samples, as `update_each` does, to the last bit."""
    table, flat = agent.table, flat_transitions(agent, recorded)

    def learn(done: Ints) -> tuple[int, int]:
        table.reserve(len(flat.steps) - int(done[0]))
        code, i = plan_replay.record_many(table.handle, *flat, agent.run.clipping, done)
        if code == kernels.DUE:
            table.refit()
        return code, i

    _learn_all(agent, flat, done, learn)


def _learn_all(
    agent: Agent, flat: Transitions, done: Done, learn: Callable[[Ints], tuple[int, int]]
) -> None:
    """Call `learn(done)` until all transitions are learned. It returns a code and a coordinate."""
    done = np.zeros(1, np.int64) if done is None else done
    while done[0] < len(flat.steps):
        code, i = learn(done)
        if code in (kernels.FINE, kernels.FULL, kernels.DUE):
            continue
        step, state, action, reward, after, _ = (column[int(done[0])] for column in flat)
        if code == kernels.BAD_REWARD:
            raise agent.problem.bad_reward(int(step), float(reward))
        raise agent.problem.bad_point(int(step), i, state, action, after)
    warn_of_clipping(agent)


def kept_transitions(agent: Planner) -> Transitions | None:
    """Return the transitions that a planner keeps, in the order in which they were learned.

    Points are the centers of their places, see `kernels.plans.layout`. Return None if there are no
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


class Recorder:
    """A compiled environment that records its transitions while an agent plays it.

    Call the agent's `play` with this object in place of the environment, and with `recording` in
    place of the environment's `crossing`. At most `n_rows` transitions are recorded. For a reward
    outside `reward_range`, the agent gets NaN, which it refuses.
    """

    def __init__(
        self, env: Any, crossing: Crossing, n_rows: int, reward_range: tuple[float, float]
    ) -> None:
        self.env, self.horizon = env, env.horizon
        self.n_state, self.n_action = len(env.state_box.low), len(env.action_box.low)
        self.n_numbers = 2 + 2 * self.n_state + self.n_action
        self.params: NDArray[np.float64] = recording.new_memory(
            crossing.handle, env.params, n_rows, self.n_numbers, *reward_range
        )
        functions = recording.recording_functions(crossing.dynamics, crossing.start)
        self.real = crossing  # the memory has addresses into it
        self.recording = Crossing(crossing.generator, *functions)

    def crossing(self, generator: np.random.Generator | None = None) -> Any:
        """Return a crossing of the real environment with `generator`. It records nothing."""
        return self.env.crossing(generator)

    @property
    def n_rows(self) -> int:
        """Number of recorded transitions."""
        return int(self.params[recording.COUNT])

    @property
    def last_reward(self) -> float:
        """The reward of the last transition, even if the agent got NaN in its place."""
        return float(self._rows()[-1, 1])

    def set_range(self, reward_range: tuple[float, float]) -> None:
        """Let the agent get NaN for rewards outside this range from now on."""
        self.params[[recording.REWARD_LOW, recording.REWARD_HIGH]] = reward_range

    def clear(self) -> None:
        """Forget all transitions."""
        self.params[recording.COUNT] = 0.0

    def drop_last(self) -> None:
        """Forget the last transition, which the agent refused."""
        self.params[recording.COUNT] -= 1.0

    def rewards(self, first: int) -> NDArray[np.float64]:
        """Return the recorded rewards from row `first` on."""
        return self._rows()[first:, 1]

    def transitions(self, first: int = 0) -> Transitions:
        """Return the recorded transitions from row `first` on."""
        rows, n_state = self._rows()[first:], self.n_state
        after = 2 + n_state + self.n_action
        steps = rows[:, 0].astype(np.int64)
        return Transitions(
            steps=steps,
            states=rows[:, 2 : 2 + n_state].copy(),
            actions=rows[:, 2 + n_state : after].copy(),
            rewards=rows[:, 1].copy(),
            next_states=rows[:, after:].copy(),
            terminated=steps + 1 == self.horizon,
        )

    def _rows(self) -> NDArray[np.float64]:
        first, n = int(self.params[recording.FIRST_ROW]), self.n_rows * self.n_numbers
        return self.params[first : first + n].reshape(-1, self.n_numbers)
