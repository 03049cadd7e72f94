"""The episodes of a log as arrays, and the actions that a policy would play in their states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.agent import Agent
from zooming.agents.base.problem import LearningProblem
from zooming.agents.base.rules import as_function, check_action
from zooming.errors import ConfigurationError, TransitionError
from zooming.kernels.boxes.layout import LOW, WIDTH
from zooming.logs.checks import Checker
from zooming.logs.learn import whole_episodes
from zooming.logs.reading import open_log
from zooming.spaces.flatten import CATEGORICAL, ORDERED
from zooming.validation import Floats

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Trajectories:
    """The complete episodes of a log as arrays. Entries after the end of an episode are 0.

    Attributes
    ----------
    states, actions, next_states : array [n, horizon, axes]
        Points in the environment's units.
    rewards : array [n, horizon]
        Rewards.
    has_step, is_last : array of bool [n, horizon]
        Whether the episode has this step, and whether no reward follows it.
    propensities : array [n, horizon] or None
        Densities of the logged actions.
    n_dropped, n_dropped_rows : int
        Episodes with faults, which were left out, and their rows.
    """

    states: Floats
    actions: Floats
    rewards: Floats
    next_states: Floats
    has_step: Mask
    is_last: Mask
    propensities: Floats | None
    n_dropped: int
    n_dropped_rows: int

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def horizon(self) -> int:
        """Largest number of steps of an episode."""
        return int(self.rewards.shape[1])

    def are_whole(self) -> bool:
        """Return whether every episode reaches the horizon or a terminal state."""
        n_steps = self.has_step.sum(axis=1)
        return bool(self.is_last[np.arange(len(self)), n_steps - 1].all())

    def part(self, rows: NDArray[np.int64]) -> Trajectories:
        """Return the episodes with these indices."""
        return Trajectories(
            self.states[rows], self.actions[rows], self.rewards[rows], self.next_states[rows],
            self.has_step[rows], self.is_last[rows],
            None if self.propensities is None else self.propensities[rows],
            self.n_dropped, self.n_dropped_rows,
        )  # fmt: skip


def read_episodes(
    log: Any, problem: LearningProblem, options: dict[str, Any], bad: str
) -> Trajectories:
    """Read the episodes of a log. With `bad="skip"`, episodes with faults are left out."""
    source = open_log(log, problem.axes, options)
    wanted = SimpleNamespace(  # any finite reward will do
        axes=problem.axes, horizon=problem.horizon, reward_range=problem.reward_range,
        rewards="clip",
    )  # fmt: skip
    checker = Checker(wanted)
    parts: list[Any] = []
    n_before = n_dropped = n_rows = 0
    for rows in whole_episodes(source, problem.horizon):
        found = checker.feed(rows)
        runs = checker.runs
        place = np.arange(len(runs)) - np.flatnonzero(np.diff(runs, prepend=0))[runs - 1]
        is_good = checker.is_kept.copy()
        is_good[checker.is_kept] &= found.steps == place[checker.is_kept]
        bad_runs = np.unique(runs[~is_good])
        n_dropped += len(bad_runs)
        is_chosen = ~np.isin(runs[checker.is_kept], bad_runs)
        _, names = np.unique(runs[checker.is_kept][is_chosen], return_inverse=True)
        chances = rows.propensities
        if chances is not None:
            chances = chances[checker.is_kept][is_chosen]
            _check_propensities(
                chances, rows.first_row + np.flatnonzero(checker.is_kept)[is_chosen]
            )
        parts.append((n_before + names, [column[is_chosen] for column in found], chances))
        n_rows += len(names)
        n_before += int(names.max(initial=-1)) + 1
    checker.refuse(source, bad, "evaluated")
    if n_before < 2:
        raise ConfigurationError(
            f"{source.name} has {n_before} whole episodes without faults; give at least 2"
        )
    return _gather(parts, n_before, problem, (n_dropped, checker.n_rows - n_rows))


def _gather(
    parts: list[Any], n_episodes: int, problem: LearningProblem, n_dropped: tuple[int, int]
) -> Trajectories:
    """Arrange rows as arrays over episodes and steps.

    `n_dropped` is the number of episodes and of rows that were left out.
    """
    at = np.concatenate([names for names, _, _ in parts])
    steps, states, actions, rewards, after, is_terminated = (
        np.concatenate([columns[i] for _, columns, _ in parts]) for i in range(6)
    )
    shape = (n_episodes, problem.horizon)

    def spread(values: Any) -> Any:
        found = np.zeros((*shape, *values.shape[1:]), values.dtype)
        found[at, steps] = values
        return found

    chances = None
    if parts[0][2] is not None:
        chances = spread(np.concatenate([part[2] for part in parts]))
    return Trajectories(
        spread(states), spread(actions), spread(rewards), spread(after),
        spread(np.ones(len(at), bool)), spread(is_terminated | (steps == problem.horizon - 1)),
        chances, *n_dropped,
    )  # fmt: skip


def _check_propensities(chances: Floats, rows: NDArray[np.int64]) -> None:
    is_bad = ~(chances > 0)
    if is_bad.any():
        k = int(np.flatnonzero(is_bad)[0])
        raise TransitionError(
            f"row {int(rows[k])} has the propensity {chances[k]:g}; a logged action has a positive "
            f"probability or density ({int(is_bad.sum()):,} such rows)"
        )


class Played:
    """Compute the actions that a policy would play in the states of a log."""

    def __init__(
        self, policy: Any, problem: LearningProblem, kinds: Sequence[str] | None = None
    ) -> None:
        self.policy, self.problem, self.axes = policy, problem, problem.axes
        self.kinds = np.array(problem.axes.kinds if kinds is None else kinds)
        is_own = isinstance(policy, Agent) and not policy.is_guided
        self._act = None if is_own else as_function(policy)

    def reach(self, radius: float) -> Floats:
        """Return the largest distance that counts as near on each axis, in the environment's units.

        It is the share `radius` of the range, rounded to whole steps on integer axes, and 0 for
        categories.
        """
        found = radius * (self.axes.high - self.axes.low)
        found = np.where(self.kinds == ORDERED, np.rint(found), found)
        return np.where(self.kinds == CATEGORICAL, 0.0, found)

    def actions(self, step: int, states: Floats) -> Floats:
        """Return one action for each state, in the environment's units."""
        axes, n_state = self.axes, self.axes.n_state
        found, place = np.unique(states, axis=0, return_inverse=True)
        if self._act is None:
            flat = axes.to_unit_cube(found.copy(), 0)
            flat = np.clip(flat, axes.table[:n_state, LOW], axes.ends[:n_state])
            steps = np.full(len(flat), step)
            played = self.policy._greedy(steps, flat, True, [None] * len(flat))
            actions = axes.from_unit_cube(np.asarray(played, np.float64), n_state)
        else:
            actions = np.array([self._action(step, state) for state in found])
        return np.asarray(actions)[place.reshape(-1)]

    def _action(self, step: int, state: Floats) -> Floats:
        assert self._act is not None
        played = self._act(step, self.axes.states.shaped(state), None)
        flat = check_action(self.problem, step, played, "policy")
        return np.asarray(self.axes.from_unit_cube(flat, self.axes.n_state))

    def in_unit_cube(self, points: Floats, first: int) -> Floats:
        """Scale states (first = 0) or actions (first = n_state) to [0, 1]."""
        axes = self.axes
        own = slice(first, first + points.shape[-1])
        flat = axes.to_unit_cube(points.copy(), first)
        width = np.where(axes.table[own, WIDTH] > 0, axes.table[own, WIDTH], 1.0)
        return np.asarray((flat - axes.table[own, LOW]) / width)
