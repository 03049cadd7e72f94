"""Base class of the problems of the gallery: settings, outcomes, and the classical rule.

A problem is a compiled environment whose settings are a dataclass, in practical units. It states
the range of its rewards, in money. Its `rule` is the policy that practitioners use. It may have an
optimum in closed form.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.envs.compiled import CompiledEnv, Outcomes
from zooming.errors import ConfigurationError
from zooming.validation import Floats, as_float, as_floats, check_int, refuse_unknown, short_repr

T = TypeVar("T")
Decide = Callable[[int, Floats, Floats], Floats]
MOST_MEAN = 500.0  # of a Poisson law: exp(-mean) must not vanish
MOST_STEPS = 10_000


@dataclass(frozen=True)
class Rule:
    """A classical policy with a few numbers, which may be tuned within `low` and `high`.

    It has Stable-Baselines3's `predict`, so `zooming.evaluate(env.rule, env)` returns its value.

    Attributes
    ----------
    name
        What practitioners call it.
    names
        Names of the numbers.
    numbers
        The numbers in use. The defaults are those of a textbook.
    low, high
        Range in which to tune each number.
    decide
        `decide(step, states, numbers)` returns actions [n, n_action] for states [n, n_state].
    """

    name: str
    names: tuple[str, ...]
    numbers: Floats
    low: Floats
    high: Floats
    decide: Decide
    env: CompiledEnv

    @property
    def horizon(self) -> int:
        """Steps of an episode."""
        return self.env.horizon

    @property
    def env_name(self) -> str:
        """Name of the problem, for messages."""
        return self.env.name

    def with_numbers(self, numbers: ArrayLike) -> Rule:
        """Return the same rule with other numbers, each between its `low` and its `high`."""
        try:
            found = np.atleast_1d(as_floats(numbers))
        except (TypeError, ValueError):
            found = np.empty(0)
        if found.shape != self.low.shape:
            wanted = ", ".join(self.names)
            raise ConfigurationError(
                f"the rule {self.name!r} takes {len(self.names)} numbers ({wanted}), "
                f"got {short_repr(numbers)}"
            )
        for name, number, low, high in zip(self.names, found, self.low, self.high, strict=True):
            if not low <= number <= high:
                raise ConfigurationError(
                    f"the rule {self.name!r} takes {name} from {low:g} to {high:g}, got {number:g}"
                )
        return Rule(self.name, self.names, found, self.low, self.high, self.decide, self.env)

    def act(self, step: int, observation: Any) -> Any:
        """Return the action of the rule at one observation.

        Parameters
        ----------
        step : int
            Step of the episode, from 0.
        observation : Any
            One observation of the environment.
        """
        action = self._actions(step, np.asarray(observation, np.float64).reshape(1, -1))[0]
        return np.int64(action[0]) if self.env.has_whole_actions else action

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        info: Any = None,
    ) -> tuple[Any, NDArray[np.int64]]:
        """Return (action, next steps), like `Agent.predict`.

        Only `observation` and the steps are used.
        """
        given = np.asarray(observation, np.float64)
        is_single = given.ndim == (0 if self.env.has_whole_states else 1)
        states = given.reshape(1 if is_single else len(given), -1)
        steps = np.zeros(len(states), np.int64) if state is None else np.array(state).reshape(-1)
        if episode_start is not None:
            steps = np.where(np.asarray(episode_start).reshape(-1), 0, steps)
        actions = np.empty((len(states), self.env.action_box.shape[0]))
        for step in np.unique(steps):
            actions[steps == step] = self._actions(int(step), states[steps == step])
        played: Any = actions[:, 0].astype(np.int64) if self.env.has_whole_actions else actions
        return (played[0] if is_single else played), steps + 1

    def _actions(self, step: int, states: Floats) -> Floats:
        box = self.env.action_box
        actions = np.asarray(self.decide(step, states, self.numbers), np.float64)
        return np.clip(actions.reshape(len(states), -1), box.low, box.high)

    def __repr__(self) -> str:
        pairs = zip(self.names, self.numbers, strict=True)
        return f"Rule({self.name}: {', '.join(f'{name}={value:.4g}' for name, value in pairs)})"


class GalleryEnv(CompiledEnv):
    """Base class of gallery problems: a finite set of outcomes, and a classical rule.

    Three functions of a problem must describe the same law. `given` plays a step for one outcome, a
    row of `values`. `weigh` fills in the weights of all `values`. The dynamics draw an outcome with
    these weights and do what `given` does. `values` holds all outcomes of a step: numbers, or rows
    of numbers. Continuous noise must be approximated by finitely many values. `zooming list` shows
    the text after the colon in the first line of the class's docstring.

    Subclasses set `settings` and define `_rule`, and `closed_form` if there is a formula.
    """

    settings: Any
    known: ClassVar[Mapping[str, tuple[float, ...]]] = {}  # {name of a rule in use: its numbers}

    def __init__(
        self, *arguments: Any, values: ArrayLike, resolution: int | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.resolution = resolution
        found = as_floats(values)
        found = found.reshape(len(found), -1)
        self._outcomes = found, np.full(len(found), 1 / len(found))

    def outcomes(self, step: int, n: int) -> Outcomes:
        """Return all outcomes. Their weights come from `weigh`."""
        return self._outcomes

    @property
    def rule(self) -> Rule:
        """The policy that practitioners use, with its textbook numbers."""
        name, decide, numbers = self._rule()
        usual, low, high = (
            np.array(column, np.float64) for column in zip(*numbers.values(), strict=True)
        )
        inside = np.clip(usual, low, high)
        return Rule(name, tuple(numbers), inside, low, high, decide, self)

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules that practitioners use by name: the rule with the numbers of each."""
        rule = self.rule
        found = {name: rule.with_numbers(numbers) for name, numbers in self.known.items()}
        return found or {rule.name: rule}

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
        """Return the rule's name, its function, and {name: (usual number, lowest, highest)}."""
        raise NotImplementedError

    def closed_form(self) -> float | None:
        """Return the optimal return by formula, or None if these settings have no formula."""
        return None


def read(kind: type[T], label: str, options: Mapping[str, Any]) -> T:
    """Return the settings of a problem. For an unknown option, the error names the nearest one."""
    refuse_unknown(label, options, kind)
    return kind(**options)


def amount(
    settings: Any, name: str, meaning: str, low: float = 0.0, high: float = math.inf
) -> None:
    """Check that one setting is a number from `low` to `high`, and store it as a float.

    `meaning` describes the setting in the error message.
    """
    value = getattr(settings, name)
    object.__setattr__(settings, name, _number(value, name, meaning, low, high))


def count(settings: Any, name: str, low: int = 1, high: int = MOST_STEPS) -> None:
    """Check that one setting is a whole number from `low` to `high`."""
    object.__setattr__(settings, name, check_int(getattr(settings, name), name, low, high))


def profile(
    settings: Any, name: str, meaning: str, low: float = 0.0, high: float = math.inf
) -> None:
    """Check a setting that is one number, or one number per step.

    Store it as a tuple, one per step. If the settings have no `horizon`, the length of the tuple is
    the number of steps.
    """
    value, n_steps = getattr(settings, name), getattr(settings, "horizon", None)
    is_many = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    found = list(value) if is_many else [value] * (n_steps or 1)
    if not found or len(found) != (n_steps or len(found)):
        steps = f"each of the {n_steps} steps" if n_steps else "each step"
        raise ConfigurationError(
            f"{name} has {len(found)} entries: give one number, or one for {steps}"
        )
    checked = [
        _number(entry, f"{name}[{i}]" if is_many else name, meaning, low, high)
        for i, entry in enumerate(found)
    ]
    object.__setattr__(settings, name, tuple(checked))


def require(holds: bool, sentence: str) -> None:
    """Raise ConfigurationError with `sentence` unless `holds` is true."""
    if not holds:
        raise ConfigurationError(sentence)


def largest(mean: float, deviations: float = 6.0) -> int:
    """Return the number at which a Poisson law is cut: `deviations` deviations above its mean."""
    return math.ceil(mean + deviations * math.sqrt(mean) + 2.0)


def align_cells(n_units: float, least: int) -> int | None:
    """Return a number of cells, at least `least`, such that all whole units are grid points.

    This also holds for the grid with half as many cells. States that are whole units then need no
    interpolation. Return None if that takes too many cells.
    """
    n = round(n_units)
    if abs(n - n_units) > 1e-9 or not 0 < 2 * n <= 4 * least:
        return None
    return 2 * n * math.ceil(least / (2 * n))


def poisson(mean: float, n: int) -> Floats:
    """Return the probabilities of min(N, n) for a Poisson N, as an array [n + 1]."""
    chances = np.empty(n + 1)
    chances[0] = math.exp(-mean)
    for i in range(1, n + 1):
        chances[i] = chances[i - 1] * mean / i
    chances[n] = max(0.0, 1.0 - chances[:n].sum())
    return chances


def _number(value: Any, name: str, meaning: str, low: float, high: float) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = as_float(value) if is_number else math.nan
    if not (math.isfinite(number) and low <= number <= high):
        bound = f"of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise ConfigurationError(
            f"{name}={short_repr(value)}: {meaning} must be a finite number {bound}"
        )
    return number
