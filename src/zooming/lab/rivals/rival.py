"""Base classes of rivals: `Rival`, and `LibraryAgent` for rivals that run another library."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.agent import Agent
from zooming.errors import ConfigurationError, OptionError
from zooming.kernels import LOW
from zooming.spaces.masks import Feasible
from zooming.validation import Floats, option_names, suggest

# Name of the package that is installed, and the extra of zooming that brings it.
_PACKAGES = {
    "cmaes": ("cmaes", "rivals"),
    "PyXAB": ("PyXAB", "rivals"),
    "stable_baselines3": ("stable-baselines3", "sb3"),
}


def import_library(module: str) -> Any:
    """Import a module of a rival's library.

    If the library is not installed, raise ConfigurationError with the pip command.
    """
    package, extra = _PACKAGES[module.partition(".")[0]]
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
    return _LIBRARIES.get(kind.partition(":")[0])


_LIBRARIES = {"rule-search": "cmaes", "sb3": "stable-baselines3", "pyxab": "PyXAB"}


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
    """A validated transition in flat form. `next_info` is the info of the next state."""

    step: int
    state: Floats
    action: Floats
    reward: float
    next_state: Floats
    is_last: bool  # whether the episode ended, by the environment or the horizon
    next_info: Mapping[str, Any] | None


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
        self._learn(Transition(step, *checked, is_last, next_info))

    def _learn(self, seen: Transition) -> None:
        """Learn from one transition."""
        raise NotImplementedError

    def _policy(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        """Return one flat action for each step and flat state. It need not be feasible."""
        raise NotImplementedError

    def _greedy(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
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


class LibraryAgent(Rival):
    """Base class of agents that run a class of another library, which chooses every action.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    algorithm : str
        Name of the library's class.
    settings : dict, optional
        Arguments of that class.
    **options
        Options of `Agent`.
    """

    family = ""  # the part of names before the colon

    def __init__(
        self,
        env: Any,
        algorithm: str,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(env, **options)
        self.algorithm, self.settings = algorithm, dict(settings or {})
        self._asked: Floats | None = None  # the action that has no outcome yet

    @property
    def label(self) -> str:
        """The name in studies, such as "sb3:PPO"."""
        return f"{self.family}:{self.algorithm}"

    def _check_settings(self, learner: Any, ours: Iterable[str]) -> None:
        """Raise OptionError for a setting that the library's class does not accept.

        `ours` are the arguments that the adapter sets, which are not accepted either.
        """
        taken = inspect.signature(learner).parameters
        known = [name for name in taken if name not in ours and not name.startswith("_")]
        for name in self.settings:
            if name not in known:
                near = suggest(name, [*known, *own_options(type(self))])
                raise OptionError(f"{self.label} has no option {name!r}{near}")

    def _check_asked(self, played: Floats) -> None:
        """Raise ConfigurationError if an action is not the one that `act` returned last."""
        if self._asked is None or not np.allclose(self._asked, played, rtol=1e-6, atol=1e-12):
            raise ConfigurationError(
                f"{self.label} learns only from the action that act returned last: call act, then "
                "update"
            )


def own_options(kind: type[LibraryAgent]) -> frozenset[str]:
    """Return the names of the adapter's own options, without those of the library."""
    return frozenset(option_names(kind)) - {"env", "algorithm", "settings"}


def maker(kind: type[LibraryAgent], algorithm: str, line: str) -> Callable[..., LibraryAgent]:
    """Return a function `make(env, seed=..., **settings)` that makes a rival for a study.

    Options that are not the adapter's own are passed to the library. `line` describes the agent in
    lists.
    """
    own = own_options(kind)

    def make(env: Any, **options: Any) -> LibraryAgent:
        ours = {name: options.pop(name) for name in [*options] if name in own}
        return kind(env, algorithm, options, **ours)

    make.__doc__, make.__name__ = line, algorithm
    return make
