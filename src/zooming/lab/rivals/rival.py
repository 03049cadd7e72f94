"""The base class of rivals, and the libraries that they run."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from zooming.agents.base.agent import Agent
from zooming.errors import ConfigurationError
from zooming.kernels import LOW
from zooming.spaces.masks import Allowed
from zooming.validation import Floats, Ints

# Of the agents of a study that run a library: its package, module, and the extra that brings it.
LIBRARIES = {
    "rule-search": ("cmaes", "cmaes", "rivals"),
    "sb3": ("stable-baselines3", "stable_baselines3", "sb3"),
}


def import_library(kind: str) -> Any:
    """Import the library that agents of a kind run.

    If the library is not installed, raise ConfigurationError with the pip command.
    """
    package, module, extra = LIBRARIES[kind]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"this agent needs {package} ({error}): pip install 'zooming[{extra}]'"
        ) from error


def library_of(kind: str) -> str | None:
    """Return the package that an agent of a study runs, or None if it is zooming itself.

    >>> library_of("rule-search"), library_of("sb3:PPO"), library_of("auto")
    ('cmaes', 'stable-baselines3', None)
    """
    return LIBRARIES.get(kind.partition(":")[0], (None,))[0]


def versions_of(kinds: Iterable[str]) -> dict[str, str]:
    """Return {package: version} of the libraries of these agents, "not installed" if missing."""
    found = {}
    for package in filter(None, (library_of(kind) for kind in kinds)):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


class Transition(NamedTuple):
    """A validated transition in flat form."""

    step: int
    state: Floats
    action: Floats
    reward: float
    next_state: Floats
    is_last: bool  # whether the episode ended, by the environment or the horizon


class Rival(Agent):
    """Base class of rivals: methods that people use without zooming, as agents.

    An action that `info` excludes is moved to the nearest feasible one. Subclasses define `act`,
    `_learn` and `_policy`.
    """

    interleaves = False

    def update(
        self,
        step: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool = False,
        *,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        """Learn from one transition. A TransitionError leaves the agent unchanged."""
        checked = self.checked_transition(step, observation, action, reward, next_observation)
        is_last = bool(terminated) or step + 1 == self.horizon
        self._learn(Transition(step, *checked, is_last))

    def _learn(self, seen: Transition) -> None:
        """Learn from one transition."""
        raise NotImplementedError

    def _policy(self, steps: Ints, states: Floats, deterministic: bool, allowed: Allowed) -> Floats:
        """Return one flat action for each step and flat state. It need not be feasible."""
        raise NotImplementedError

    def greedy_actions(
        self, steps: Ints, states: Floats, deterministic: bool, allowed: Allowed
    ) -> Floats:
        low, high = self.axes.table[: self.axes.n_state, LOW], self.axes.ends[: self.axes.n_state]
        states = np.array(states)
        for k in np.flatnonzero(~((states >= low) & (states <= high)).all(axis=1)).tolist():
            states[k] = self.problem.check_point(int(steps[k]), states[k], 0)
        actions = np.array(self._policy(steps, states, deterministic, allowed))
        for k, one in enumerate(allowed):
            if one is not None:
                actions[k] = self._nearest(actions[k], one)
        return actions
