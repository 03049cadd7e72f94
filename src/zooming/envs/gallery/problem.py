"""Base class of the problems of the gallery: settings, outcomes, and the classical rule.

A problem is a compiled environment whose settings are a dataclass, in practical units. It states
the range of its rewards, in money. Its `rule` is the policy that practitioners use. It may have an
optimum in closed form.

The kernels of a problem read its numbers from one vector by name: `AT = places(Settings)` has the
place of each setting, so that `params[AT.price]` is the price. The vector holds

    number of outcomes, place of the outcomes, settings, further numbers, tail, outcomes,

where the tail is a sequence of any length, such as the mean demand of each day.
"""

from __future__ import annotations

import math
import numbers
import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from zooming.envs.compiled import CompiledEnv, Outcomes
from zooming.envs.functions import (
    GIVEN_FORM,
    WEIGH_FORM,
    compile_as,
    compose,
    compose_weighed,
    draw_weighed,
)
from zooming.errors import ConfigurationError
from zooming.kernels import GIVEN, WEIGH
from zooming.validation import (
    Floats,
    Ints,
    as_float,
    as_floats,
    check_int,
    refuse_unknown,
    short_repr,
)

Decide = Callable[[int, Floats, Floats], Floats]
RuleParts = tuple[str, Decide, Mapping[str, tuple[float, float, float]]]
Bound = float | Callable[[Any], float]  # a number, or a function of the other settings
MOST_MEAN = 500.0  # of a Poisson law: exp(-mean) must not vanish
MOST_STEPS = 10_000


@dataclass(frozen=True)
class Rule:
    """A classical policy with a few numbers, which may be tuned within `low` and `high`.

    It has Stable-Baselines3's `predict`, so `zooming.evaluate(env.rule, env)` returns its value.
    `names` are those of the numbers; `numbers` are by default those of a textbook.
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
            raise ConfigurationError(
                f"the rule {self.name!r} takes {len(self.names)} numbers "
                f"({', '.join(self.names)}), got {short_repr(numbers)}"
            )
        for name, number, low, high in zip(self.names, found, self.low, self.high, strict=True):
            if not low <= number <= high:
                raise ConfigurationError(
                    f"the rule {self.name!r} takes {name} from {low:g} to {high:g}, got {number:g}"
                )
        return replace(self, numbers=found)

    def act(self, step: int, observation: Any) -> Any:
        """Return the action of the rule at one observation. Steps are counted from 0."""
        action = self._actions(step, np.asarray(observation, np.float64).reshape(1, -1))[0]
        return np.int64(action[0]) if self.env.has_whole_actions else action

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        info: Any = None,
    ) -> tuple[Any, Ints]:
        """Return (action, next steps), like `Agent.predict`. Only observation and steps count."""
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


class Settings:
    """Base of the settings of a problem: a frozen dataclass of `amount`, `count`, `profile`."""

    def __post_init__(self) -> None:
        settings: Any = self
        own: dict[str, Any] = {one.name: one.metadata.get("check") for one in fields(settings)}
        for name in sorted(own, key=lambda name: name != "horizon"):
            if own[name] is not None:
                object.__setattr__(self, name, own[name](self, name))
        self.check()

    def check(self) -> None:
        """Raise ConfigurationError if settings do not fit together."""


def option(default: Any, kind: str, meaning: str, check: Any = None, **marks: bool) -> Any:
    """Return a field of settings. `check(settings, name)` returns its value in final form."""
    checks = {} if check is None else {"check": check}
    return field(default=default, metadata={"kind": kind, "meaning": meaning, **checks, **marks})


def amount(default: Any, meaning: str, low: Bound = 0.0, high: Bound = math.inf) -> Any:
    """Return a field that is a number from `low` to `high`."""

    def check(settings: Any, name: str) -> float:
        value = getattr(settings, name)
        return _number(value, name, meaning, _bound(low, settings), _bound(high, settings))

    return option(default, "float", meaning, check, scalar=True)


def count(default: int, meaning: str, low: int = 1, high: int = MOST_STEPS) -> Any:
    """Return a field that is a whole number from `low` to `high`."""

    def check(settings: Any, name: str) -> int:
        return check_int(getattr(settings, name), name, low, high)

    return option(default, "int", meaning, check, scalar=True)


def profile(default: Any, meaning: str, low: float = 0.0, high: float = MOST_MEAN) -> Any:
    """Return a field that is one number, or one number per step, stored as a tuple."""

    def check(settings: Any, name: str) -> tuple[float, ...]:
        value, n_steps = getattr(settings, name), getattr(settings, "horizon", None)
        is_many = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        found = list(value) if is_many else [value] * (n_steps or 1)
        if not found or len(found) != (n_steps or len(found)):
            steps = f"each of the {n_steps} steps" if n_steps else "each step"
            raise ConfigurationError(
                f"{name} has {len(found)} entries: give one number, or one for {steps}"
            )
        return tuple(
            _number(entry, f"{name}[{i}]" if is_many else name, meaning, low, high)
            for i, entry in enumerate(found)
        )

    meaning += "; one number, or one per step"
    return option(default, "float or sequence", meaning, check, tail=True)


def number_list(default: Any, meaning: str) -> Any:
    """Return a field that is a list of numbers, stored as a tuple."""

    def check(settings: Any, name: str) -> Any:
        value = getattr(settings, name)
        try:
            return None if value is None else tuple(as_floats(value).ravel().tolist())
        except (TypeError, ValueError) as error:
            sentence = f"{name}={short_repr(value)}: give a list of numbers"
            raise ConfigurationError(sentence) from error

    return option(default, "sequence", meaning, check)


def require(holds: bool, sentence: str) -> None:
    """Raise ConfigurationError with `sentence` unless `holds` is true."""
    if not holds:
        raise ConfigurationError(sentence)


def require_law(chances: Any, name: str) -> None:
    """Raise ConfigurationError unless the numbers are probabilities."""
    require(
        all(chance >= 0 for chance in chances) and abs(sum(chances) - 1) < 1e-9,
        f"{name}={chances}: probabilities are not negative and sum to 1",
    )


def places(settings: type, *further: str, tail: str | None = None) -> Any:
    """Return the place in params of each number of a problem, as a named tuple."""
    tails = [tail] if tail else _names_of(settings, "tail")
    found = [*_names_of(settings, "scalar"), *further, *tails]
    return namedtuple("Places", found)(*range(2, 2 + len(found)))


def _parameters(settings: Any) -> str:
    """Return the section of a docstring that lists the settings and the render mode."""
    lines = ["Parameters", "----------"]
    for one in fields(settings):
        given = one.default
        usual = f"{len(given)} entries" if isinstance(given, tuple) and len(given) > 4 else given
        said = "optional" if given is None else f"default {usual!r}".replace("'", "")
        meaning = one.metadata["meaning"]
        lines += [f"{one.name} : {one.metadata['kind']}, {said}"]
        lines += [f"    {meaning[0].upper()}{meaning[1:]}."]
    lines += ['render_mode : {"rgb_array"}, optional']
    lines += ["    See `CompiledEnv.render`."]
    return "".join(f"    {line}\n" for line in lines)


def _names_of(settings: Any, what: str) -> list[str]:
    """Return the names of the fields that are a "scalar", or a "tail" of many numbers."""
    return [one.name for one in fields(settings) if what in one.metadata]


@dataclass(frozen=True)
class Model:
    """The functions of a problem, with its settings and their places in params."""

    settings: type
    at: Any
    given: Any
    weigh: Any
    draw: Any = None


@dataclass(frozen=True)
class Layout:
    """What the settings make of a problem.

    `values` are all outcomes of a step: numbers, or rows of numbers. Continuous noise must be
    approximated by finitely many. `further` and `tail` are those of `places`.
    """

    states: Any  # a space
    actions: Any
    start: Any
    values: Any
    reward_range: tuple[float, float]
    resolution: int | None = None
    horizon: int | None = None
    name: str | None = None
    further: Sequence[float] = ()
    tail: Sequence[float] = ()


class GalleryEnv(CompiledEnv):
    """Base class of gallery problems: a finite set of outcomes, and a classical rule.

    Subclasses set `model` and define `_layout` and `_rule`, and `closed_form` if there is a
    formula. `zooming list` shows the text after the colon in the first line of the class's
    docstring. The docstring gets the parameters that the settings state.
    """

    model: ClassVar[Model]
    known: ClassVar[Mapping[str, tuple[float, ...]]] = {}  # {name of a rule in use: its numbers}

    def __init_subclass__(cls) -> None:
        head, examples, tail = (cls.__doc__ or "").partition("    Examples\n")
        cls.__doc__ = head + _parameters(cls.model.settings) + "\n" + examples + tail

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        model, label = self.model, type(self).__name__
        refuse_unknown(label, options, model.settings)
        self.settings: Any = model.settings(**options)
        layout = self._layout(self.settings)
        values = as_floats(layout.values)
        values = values.reshape(len(values), -1)
        self._outcomes = values, np.full(len(values), 1 / len(values))
        settings = self.settings
        scalars = [getattr(settings, name) for name in _names_of(model.settings, "scalar")]
        profiles = [
            x for name in _names_of(model.settings, "tail") for x in getattr(settings, name)
        ]
        numbers, width = [*scalars, *layout.further, *(layout.tail or profiles)], values.shape[1]
        given = compile_as(model.given, GIVEN, GIVEN_FORM)
        weigh = compile_as(model.weigh, WEIGH, WEIGH_FORM)
        draw = model.draw or draw_weighed(weigh, 0, width)
        dynamics = (
            compose(given, draw, width) if model.draw else compose_weighed(given, weigh, width)
        )
        super().__init__(
            dynamics, layout.states, layout.actions,
            layout.horizon or self.settings.horizon, start=layout.start,
            params=[len(values), 2 + len(numbers), *numbers, *values.ravel()], given=given,
            draw=draw, n_noise=width, weigh=weigh, reward_range=layout.reward_range,
            name=layout.name or re.sub("(?<!^)(?=[A-Z])", " ", label).lower(),
            render_mode=render_mode,
        )  # fmt: skip
        self.resolution = layout.resolution

    def _layout(self, s: Any) -> Layout:
        """Return spaces, start, outcomes and range for the settings `s`."""
        raise NotImplementedError

    def _rule(self) -> RuleParts:
        """Return the rule's name, its function, and {name: (usual number, lowest, highest)}."""
        raise NotImplementedError

    def closed_form(self) -> float | None:
        """Return the optimal return by formula, or None if these settings have no formula."""
        return None

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
        return Rule(name, tuple(numbers), np.clip(usual, low, high), low, high, decide, self)

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules that practitioners use by name: the rule with the numbers of each."""
        rule = self.rule
        found = {name: rule.with_numbers(numbers) for name, numbers in self.known.items()}
        return found or {rule.name: rule}


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


def box(low: Any, high: Any) -> gym.spaces.Box:
    """Return a box of float64 numbers: of one axis for two numbers, else one axis per entry."""
    low, high = np.atleast_1d(low).astype(np.float64), np.atleast_1d(high).astype(np.float64)
    return gym.spaces.Box(low, high, dtype=np.float64)


def _bound(bound: Bound, settings: Any) -> float:
    return bound(settings) if callable(bound) else bound


def _number(value: Any, name: str, meaning: str, low: float, high: float) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = as_float(value) if is_number else math.nan
    if not (math.isfinite(number) and low <= number <= high):
        bound = f"of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        said = meaning.partition(";")[0]
        raise ConfigurationError(
            f"{name}={short_repr(value)}: {said} must be a finite number {bound}"
        )
    return number
