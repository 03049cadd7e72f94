"""A grid of states with the values of all steps, for `zooming.solve`, plans and resolvers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from zooming.envs.compiled import CompiledEnv, Outcomes
from zooming.envs.declared import weights_fault
from zooming.envs.functions import error_of
from zooming.envs.starts import FUNCTION, N_STARTS, UNIFORM
from zooming.errors import ConfigurationError
from zooming.kernels.loop.jit import call_in_thread
from zooming.kernels.solve.backups import (
    GIVEN_ACTIONS,
    HALVINGS,
    backups,
    interpolate,
    keep_weights,
)
from zooming.validation import Floats, clip_rounding, n_cores

LITTLE = 300_000  # backups for which threads take longer than the work
DEVIATIONS = 1.96  # standard errors in the half-width of a 95 % interval


def weigher(env: CompiledEnv) -> Callable[..., None]:
    """Return the environment's `weigh`, or a function that leaves all weights unchanged."""
    return env.weigh or keep_weights()


class Grid:
    """A grid of states with the values of all steps, and the backups on it.

    A box has `resolution` cells per axis. The grid of a Discrete space is all its values.

    The law of each step is the environment's, or one of `laws`. With `laws`, the declared law is
    not read. `n_actions` is the number of cells per action axis at which the search of actions
    begins; by default the resolution. The search halves its step `search` times.
    """

    def __init__(
        self,
        env: CompiledEnv,
        resolution: int,
        *,
        laws: Sequence[Outcomes] | None = None,
        n_actions: int | None = None,
        search: int = HALVINGS,
    ) -> None:
        self.env, self.resolution = env, resolution
        n_actions = n_actions or resolution
        states, actions = env.state_box, env.action_box
        self.n_state, self.n_action = states.shape[0], actions.shape[0]
        self.n_cells = n_cells(states) if env.has_whole_states else resolution
        self.states = points(states, self.n_cells)
        self.actions = points(actions, n_cells(actions) if env.has_whole_actions else n_actions)
        self.search = 0 if env.has_whole_actions else search
        self.table = np.zeros((9, max(self.n_state, self.n_action)))
        self.table[0, : self.n_state] = states.low
        self.table[1, : self.n_state] = (
            1.0 if env.has_whole_states else self.n_cells / (states.high - states.low)
        )
        self.table[2, : self.n_action], self.table[3, : self.n_action] = actions.low, actions.high
        self.table[4, : self.n_action] = (actions.high - actions.low) / n_actions
        self.table[5, 0], self.table[6, 0] = self.n_cells, env.has_whole_states
        self.weigh = keep_weights() if laws is not None else weigher(env)
        self.table[7, 0] = env.weigh is not None and laws is None
        self.outcomes = (
            [env.outcomes(step, resolution) for step in range(env.horizon)]
            if laws is None
            else list(laws)
        )
        self.horizon = len(self.outcomes)  # given laws may be those of fewer steps
        self.values = np.zeros((self.horizon + 1, len(self.states)))
        self.search_error = 0.0  # sum over the steps

    def solve(self, warm: Floats | None = None) -> Floats:
        """Fill in the values from the last step to the first. Return the best actions [H, n, k].

        `warm` are actions [H, n, k] that the search tries, too; no `search_error` is computed then.
        """
        best = np.empty((self.horizon, len(self.states), self.n_action))
        self.search_error = 0.0
        for step in reversed(range(self.horizon)):
            self.values[step], best[step], missed = self.backup(
                step, self.states, self.actions, self.search, None if warm is None else warm[step]
            )
            self.search_error += float(missed.max(initial=0.0))
        return best

    def backup(
        self,
        step: int,
        states: Floats,
        actions: Floats,
        search: int,
        warm: Floats | None = None,
    ) -> tuple[Floats, Floats, Floats]:
        """Return the largest Q found in each state, its action, and how much larger Q may be.

        The action search tries all rows of `actions`, then points around the best one with a step
        that is halved `search` times. With `search=GIVEN_ACTIONS`, state i plays row i. With
        `warm`, one action per state, it tries this one, too, and the last array is empty. All cores
        are used, unless there is little to do.
        """
        outcomes, weights = self.outcomes[step]
        values, missed = np.empty(len(states)), np.empty(len(states) if warm is None else 0)
        best = np.empty((len(states), self.n_action)) if warm is None else warm.copy()
        self.table[8, 0] = warm is not None
        work = len(states) * (len(actions) if search != GIVEN_ACTIONS else 1) * len(weights)
        n_parts = min(n_cores() * 4, len(states)) if work > LITTLE else 1
        kernel, flat = backups(), self.values.reshape(-1)

        def part(k: int) -> None:
            chosen, trial = (
                slice(len(states) * k // n_parts, len(states) * (k + 1) // n_parts),
                np.empty(self.n_action),
            )
            mine = states[chosen]
            arguments = (
                self.env.given, self.weigh, self.env.params, step, outcomes, weights.copy(),
                self.table, flat, (step + 1) * self.values.shape[1],
                mine, actions[chosen] if search == GIVEN_ACTIONS else actions, search,
                values[chosen], best[chosen],
                missed[chosen], np.empty(self.n_state), trial, np.empty(self.n_action),
            )  # fmt: skip
            reached = call_in_thread(lambda: kernel(*arguments))  # functions cross
            if reached < len(mine):
                fault = bad_transition(self.env, step, outcomes, mine[reached], trial)
                raise fault or ConfigurationError(
                    f"{self.env.name}, step {step}: values are beyond floating point; rescale "
                    "rewards"
                )

        if n_parts == 1:
            part(0)
        else:
            with ThreadPoolExecutor(n_cores()) as pool:
                list(pool.map(part, range(n_parts)))
        return values, best, missed

    def value(self, step: int, state: Floats) -> float:
        """Return V_h(x), interpolated between grid points."""
        first, low, scale = (
            step * self.values.shape[1],
            self.table[0, : self.n_state],
            self.table[1, : self.n_state],
        )
        is_whole = self.env.has_whole_states
        return float(
            interpolate(self.values.reshape(-1), first, self.n_cells, is_whole, low, scale, state)
        )

    def start_value(self) -> tuple[float, float]:
        """Return the mean value over the start distribution, and the error of that mean."""
        mean, spread, n = self._mean_value(N_STARTS)
        if self.env.start_kind == FUNCTION and n > 1:
            return mean, DEVIATIONS * spread / math.sqrt(n - 1)
        if self.env.start_kind == UNIFORM:  # half as many points along each axis
            return mean, abs(mean - self._mean_value(N_STARTS >> self.n_state)[0])
        return mean, 0.0

    def _mean_value(self, n: int) -> tuple[float, float, int]:
        """Return (mean of V, standard deviation, number of states) over about n start states."""
        states, weights = self.env.start_states(n)
        values = np.array([self.value(0, state) for state in states])
        mean = float(sum(weight * value for weight, value in zip(weights, values, strict=True)))
        return mean, float(np.sqrt(weights @ (values - mean) ** 2)), len(states)


def bad_transition(
    env: CompiledEnv, step: int, outcomes: Floats, state: Floats, action: Floats
) -> ConfigurationError | None:
    """Return an error for the first outcome with an invalid reward or next state, or None."""
    assert env.given is not None
    low, high = env.state_box.low, env.state_box.high
    where = f"{env.name}, step {step}: in state {state.tolist()}, action {action.tolist()}"
    if env.weigh is not None:
        fault = weights_fault(env, step, state, action)
        if fault:
            return ConfigurationError(f"{env.name}, step {step}: {fault}")
        weights = np.empty(len(outcomes))
        env.weigh(state, action, step, env.params, outcomes, weights)
        outcomes = outcomes[weights > 0]
    for outcome in outcomes:
        after = np.full((1, len(low)), np.nan)
        reward = env.given(state, action, step, env.params, outcome, after[0])
        seen = env.where_recorded(outcome)
        if not np.isfinite(reward):
            raised = error_of(env.given)
            why = f" ({type(raised).__name__}: {raised})" if raised is not None else ""
            return ConfigurationError(
                f"{where}, the reward is {reward}{seen}{why}; check the dynamics"
            )
        if env.are_states(after)[0]:
            continue
        if env.has_whole_states:
            fault = f"not a whole number from {low[0]:g} to {high[0]:g}"
            return ConfigurationError(
                f"{where}, the next state is {after[0, 0]}{seen}, {fault}; check the dynamics, or "
                "round it there"
            )
        _, i = clip_rounding(after[0], low, high)
        fault = f"outside [{low[i]:g}, {high[i]:g}]"
        return ConfigurationError(
            f"{where}, next_state[{i}] is {after[0, i]}{seen}, {fault}; check the dynamics, or "
            "clip it there"
        )
    return None


def n_cells(box: Any) -> int:
    """Return the number of cells of a Discrete space: the number of its values minus one."""
    return int(box.high[0] - box.low[0])


def points(box: Any, n_cells: int) -> Floats:
    """Return the points of a grid with `n_cells` cells per axis as an array [n, n_axes]."""
    axes = [
        np.linspace(low, high, n_cells + 1) for low, high in zip(box.low, box.high, strict=True)
    ]
    return np.array(list(itertools.product(*axes)))
