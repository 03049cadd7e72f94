"""Tabular Q-learning on a grid, as practitioners write it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.errors import ConfigurationError
from zooming.kernels import LOW, WIDTH
from zooming.lab.rivals.rival import Rival, Transition
from zooming.spaces.axes import Axes, Axis
from zooming.spaces.flatten import CATEGORICAL, INTERVAL
from zooming.spaces.masks import Allowed
from zooming.validation import Floats, Ints, check_float, check_int

MOST_ACTIONS = 100_000
MOST_BINS = 100_000
MOST_ENTRIES = 50_000_000  # of a table: 400 MB


class GridQ(Rival):
    """Q-learning on a grid, epsilon-greedy, with one table per step.

    After each transition, Q(h, x, a) moves by the share `learning_rate` towards r + max Q(h + 1,
    x', .). Here x is the cell of the state and a the action of the grid. Among equal values, the
    first action is played. Q is of the action that was played, which `info` may have moved.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    bins : int, default 10
        Cells of each state axis, and actions along each action axis.
    epsilon : float, default 0.1
        Probability of a random action while learning.
    learning_rate : float, default 0.1
        Share of the difference to the target by which Q moves.
    initial : float, default 0.0
        Value of Q before the first visit.
    **options
        Options of `Agent`.

    Examples
    --------
    >>> import gymnasium as gym
    >>> agent = GridQ(gym.make("zooming/Oil-v0"), bins=5, seed=0)
    >>> history = agent.learn(500)
    >>> agent.n_balls  # 5 steps, 5 cells of states, 5 actions
    125
    """

    def __init__(
        self,
        env: Any,
        *,
        bins: int = 10,
        epsilon: float = 0.1,
        learning_rate: float = 0.1,
        initial: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(env, **options)
        self.states, self.actions = StateGrid(self.axes, bins), ActionGrid(self.axes, bins)
        self.bins = bins
        self.epsilon = check_float(epsilon, "epsilon", 0.0, 1.0)
        self.learning_rate = check_float(learning_rate, "learning_rate", 0.0, 1.0)
        self.initial = check_float(initial, "initial", -np.inf, np.inf)
        shape = (self.horizon, self.states.n_cells, len(self.actions))
        if (n_entries := shape[0] * shape[1] * shape[2]) > MOST_ENTRIES:
            raise ConfigurationError(
                f"bins={bins} makes a table of {n_entries:,} entries ({shape[0]} steps x "
                f"{shape[1]:,} cells of states x {shape[2]:,} actions), more than "
                f"{MOST_ENTRIES:,}; give fewer bins"
            )
        self.table = np.full(shape, self.initial)
        self._generator = np.random.Generator(
            np.random.PCG64(seeds.seed_sequence(self.seed, "agent"))
        )

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the greedy action or, with probability `epsilon`, a random action of the grid."""
        row = self.table[step, self.states.cells(self.checked_state(step, observation))]
        is_random = self._generator.random() < self.epsilon
        k = int(self._generator.integers(len(row)) if is_random else row.argmax())
        chosen = self.actions.actions[k].copy()
        return self.axes.shaped_action(self._nearest(chosen, self._feasible(step, info)))

    def _learn(self, seen: Transition) -> None:
        target = seen.reward
        if not seen.is_last:
            target += self.table[seen.step + 1, self.states.cells(seen.next_state)].max()
        place = seen.step, self.states.cells(seen.state), self.actions.nearest(seen.action)
        self.table[place] += self.learning_rate * (target - self.table[place])

    def _policy(self, steps: Ints, states: Floats, deterministic: bool, allowed: Allowed) -> Floats:
        best = self.table[steps, self.states.cells(states)].argmax(axis=1)
        found: Floats = self.actions.actions[best]
        return found

    counted = "cells"

    @property
    def n_balls(self) -> int:
        """Number of entries of the table."""
        return self.table.size

    @property
    def nbytes(self) -> int:
        """Memory of the table in bytes."""
        return self.table.nbytes

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"generator": self._generator.bit_generator.state}, {"table": self.table}

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        table = arrays["table"]
        if table.shape != self.table.shape or table.dtype != np.float64:
            raise ValueError(f"the table has the shape {table.shape}, not {self.table.shape}")
        self.table = np.array(table)
        self._generator.bit_generator.state = values["generator"]


class StateGrid:
    """Cells of states: each axis is cut into `bins` equal parts, a categorical one into its values.

    An axis of integers has at most one cell for each value.
    """

    def __init__(self, axes: Axes, bins: int) -> None:
        bins = check_int(bins, "bins", 1, MOST_BINS)
        self._n = np.array([_n_cells(axes[i], bins) for i in range(axes.n_state)])
        width = axes.table[: axes.n_state, WIDTH]
        self._low = axes.table[: axes.n_state, LOW]
        self._scale = self._n / np.where(width > 0, width, 1.0)
        self._strides = np.cumprod(np.concatenate([[1], self._n[:0:-1]]))[::-1]
        self.n_cells = math.prod(self._n.tolist())

    def cells(self, states: Floats) -> Ints:
        """Return the index of the cell of each flat state. `states` is [..., n_state]."""
        parts = ((states - self._low) * self._scale).astype(np.int64)
        found: Ints = np.minimum(parts, self._n - 1) @ self._strides
        return found


class ActionGrid:
    """Flat actions on a grid with `bins` evenly spaced points per axis.

    The points include both ends of an axis. A categorical axis has one point per value, and an axis
    of integers has at most one.

    Attributes
    ----------
    actions
        The actions, [n, n_action].
    """

    def __init__(self, axes: Axes, bins: int) -> None:
        bins = check_int(bins, "bins", 1, MOST_BINS)
        points = [_points(axes[axes.n_state + i], bins) for i in range(axes.n_action)]
        n_actions = math.prod(len(values) for values in points)
        if n_actions > MOST_ACTIONS:
            raise ConfigurationError(
                f"bins={bins} on {axes.n_action} action axes makes {n_actions:,} actions, more "
                f"than {MOST_ACTIONS:,}; give fewer bins"
            )
        self.actions = np.stack(np.meshgrid(*points, indexing="ij"), -1).reshape(n_actions, -1)
        self._scale = np.array([max(float(np.ptp(values)), 1e-300) for values in points])

    def __len__(self) -> int:
        return len(self.actions)

    def nearest(self, action: Floats) -> int:
        """Return the index of the grid point that is nearest to a flat action."""
        return int((np.abs(self.actions - action) / self._scale).max(axis=1).argmin())


def _n_cells(axis: Axis, bins: int) -> int:
    if axis.kind == INTERVAL:
        return bins if axis.weight > 0 and (axis.squash or axis.low < axis.high) else 1
    n_values = int(axis.high - axis.low) + 1
    return n_values if axis.kind == CATEGORICAL else min(bins, n_values)


def _points(axis: Axis, bins: int) -> Floats:
    middles = (np.arange(bins) + 0.5) / bins
    if axis.squash:  # its ends are infinite
        return middles
    if axis.kind == CATEGORICAL:
        return np.arange(axis.low, axis.high + 1)
    shares = middles if bins == 1 else np.linspace(0.0, 1.0, bins)
    points = axis.low + shares * (axis.high - axis.low)
    return np.unique(points if axis.kind == INTERVAL else np.rint(points))
