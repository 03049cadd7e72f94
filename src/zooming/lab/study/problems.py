"""Find problems and agents by name, in the syntax of the command line."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from zooming import metrics
from zooming.agents.base.agent import Agent
from zooming.agents.files import registry
from zooming.agents.tables.adaptive_q import AdaptiveQ
from zooming.agents.tables.metric_q import MetricQ
from zooming.agents.tables.net_q import NetQ
from zooming.analysis.optimal import Optimal
from zooming.analysis.solve import check_solvable, default_resolution, is_finite, solve
from zooming.errors import ConfigurationError
from zooming.lab.rivals.deep import DeepAgent
from zooming.lab.rivals.grid_q import GridQ
from zooming.lab.rivals.rule_search import RuleSearch
from zooming.lab.study import modules
from zooming.validation import check_choice, check_float, passes_options_to, suggest


@passes_options_to(MetricQ)
def metric_q(env: Any, metric: str = "linf", **options: Any) -> MetricQ:
    """Return a MetricQ agent whose metric is given by name, for the command line.

    `metric` is "linf", "l1" or "l2" on boxes, and "discrete" on finite spaces. All other options
    are passed to MetricQ.

    >>> import gymnasium as gym
    >>> metric_q(gym.make("zooming/Oil-v0"), "l2").metric.combine
    2.0
    """
    kind, combine = _METRICS[check_choice("metric", metric, _METRICS)]
    return MetricQ(env, metrics.Product(kind(), kind(), combine), **options)


_METRICS: dict[str, tuple[Any, str | float]] = {
    "linf": (metrics.LInf, "max"),
    "l1": (metrics.L1, "sum"),
    "l2": (metrics.L2, 2.0),
    "discrete": (metrics.Discrete, "max"),
}
# A class such as AdaptiveQ is called adaptive-q here. A portfolio needs agents, not only a problem.
_NAMED = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower(): registry.find_class(name)
    for name in registry.HOMES
    if name != "Portfolio"
}
AGENTS: dict[str, Callable[..., Agent]] = {
    **{name: kind for name, kind in _NAMED.items() if kind is not None},
    "adaptive-q-published": AdaptiveQ.as_published,
    "net-q-published": NetQ.as_published,
    "metric-q": metric_q,
    "grid-q": GridQ,
    "rule-search": RuleSearch,
    "sb3:PPO": DeepAgent,
}
DEEP = "sb3:"  # agents that take seconds or minutes a run
_OIL = {f"oil-{survey}-{sharpness:g}": {"survey": survey, "sharpness": sharpness}
        for survey in ("laplace", "quadratic") for sharpness in (1.0, 10.0, 50.0)}  # fmt: skip
_AMBULANCE = {
    f"ambulance-{arrivals}-{weight:g}": {"arrivals": arrivals, "travel_weight": weight}
    for arrivals in ("beta", "uniform", "shifting")
    for weight in (0.0, 0.25, 1.0)
}


def as_lists(value: Any) -> Any:
    """Convert tuples and arrays inside a value to lists, which is how JSON restores them.

    So a study is the same before it is written and after it is read.
    """
    if isinstance(value, dict):
        return {key: as_lists(entry) for key, entry in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return [as_lists(entry) for entry in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class Problem:
    """An environment of a study: its name, its Gymnasium id (or module:Id) and its options."""

    name: str
    env_id: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", as_lists(self.options))

    def make(self) -> Any:
        """Make the environment. The module that its id names must be imported already."""
        return gym.make(modules.find_id(self.env_id), **self.options)

    def import_module(self) -> None:
        """Import the module that the id names, if any.

        Call it only for problems that a user named, never for those of a stored study.
        """
        module, _ = modules.split_id(self.env_id)
        if module is not None:
            modules.import_named(module)

    def optimal(self, optimum: str = "fine") -> Optimal | None:
        """Return the optimum, or None if it cannot be solved. It is solved once per process.

        With `optimum="rough"`, the resolution is half the default.
        """
        key = json.dumps([self.env_id, self.options, optimum], sort_keys=True, default=json_default)
        if key not in _OPTIMA:
            try:
                env = self.make()
                inner = check_solvable(env)
                is_rough = optimum == "rough" and not is_finite(inner)
                _OPTIMA[key] = solve(env, default_resolution(inner) // 4 * 2 if is_rough else None)
            except ConfigurationError:
                _OPTIMA[key] = None
        return _OPTIMA[key]


def stated_optimum(env: Any) -> float | None:
    """Return `env.metadata["optimal_return"]`, the optimal mean return; None if not stated.

    Problems that are sums of independent parts, for instance, are known but cannot be solved.
    """
    found = (env.metadata or {}).get("optimal_return")
    return None if found is None else check_float(found, "optimal_return", -math.inf, math.inf)


_OPTIMA: dict[str, Optimal | None] = {}
OPTIMUM = ("fine", "rough")


PRESETS = {name: Problem(name, "zooming/Oil-v0", options) for name, options in _OIL.items()}
PRESETS |= {
    name: Problem(name, "zooming/Ambulance-v0", options) for name, options in _AMBULANCE.items()
}


@dataclass(frozen=True)
class AgentChoice:
    """An agent of a study: its kind (a key of AGENTS) and its settings."""

    kind: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", as_lists(self.settings))

    @property
    def label(self) -> str:
        """The name in tables: `adaptive-q`, or `adaptive-q:bonus=0.5`."""
        return _make_label(self.kind, self.settings)

    def make(self, env: Any, seed: int, episodes: int | None = None) -> Agent:
        """Make the agent. `episodes` is passed to rivals that need the number of episodes."""
        is_told = self.kind == "rule-search" and episodes is not None
        budget = {"episodes": episodes} if is_told else {}
        return AGENTS[self.kind](env, seed=seed, **{**budget, **self.settings})


def resolve_problem(problem: str | Problem) -> Problem:
    """Return the problem that a user gave as a name or an object, and import its module."""
    if not isinstance(problem, Problem):
        return problem_named(problem)
    problem.import_module()
    return problem


def problem_named(name: str, options: dict[str, Any] | None = None) -> Problem:
    """Return a preset or a registered Gymnasium id as a problem, with options.

    The module of `module:Id` is imported. If there is no such problem, raise ConfigurationError
    with the nearest name.
    """
    if not isinstance(name, str):
        raise ConfigurationError(
            f"{name!r} is not a problem; give a preset's name, a registered Gymnasium id, or a "
            "Problem"
        )
    options = options or {}
    if name in PRESETS:
        preset = PRESETS[name]
        if not options:
            return preset
        merged = {**preset.options, **options}
        return Problem(_make_label(name, options), preset.env_id, merged)
    head, colon, _ = name.partition(":")
    if colon and (head in PRESETS or head in gym.registry):
        raise ConfigurationError(
            f"no problem is named {name!r}; give {head} its options by --set key=value"
        )
    problem = Problem(_make_label(name, options), name, options)
    problem.import_module()
    if modules.find_id(name) not in gym.registry:
        here = modules.ids_here(name)
        near = f"; did you mean {here[0]!r}?" if here else suggest(name, [*PRESETS, *gym.registry])
        raise ConfigurationError(
            f"no problem is named {name!r}{near} (zooming list shows the presets; {modules.HOW})"
        )
    return problem


def agents_named(text: str) -> list[AgentChoice]:
    """Parse a list of agents separated by commas. Commas in brackets belong to values.

    >>> [agent.label for agent in agents_named("random:reward_range=(-17, 0),net-q")]
    ['random:reward_range=[-17, 0]', 'net-q']
    """
    return [agent_named(part) for part in _split(text, ",")]


def _split(text: str, separator: str) -> list[str]:
    """Split a text at the separators that are not inside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def agent_named(text: str) -> AgentChoice:
    """Parse an agent such as `adaptive-q` or `adaptive-q:bonus=0.5:cap=horizon`."""
    if not isinstance(text, str):
        raise ConfigurationError(
            f"{text!r} is not an agent's name; give one of {', '.join(AGENTS)}, with settings: "
            "adaptive-q:bonus=0.5"
        )
    kind, *settings = _split(text, ":")
    if kind not in AGENTS and settings:
        kind = f"{kind}:{settings.pop(0)}"  # such as sb3:PPO
    if kind not in AGENTS:
        raise ConfigurationError(
            f"no agent is named {kind!r}{suggest(kind, AGENTS)} (there are {', '.join(AGENTS)})"
        )
    return AgentChoice(kind, settings_from(settings))


def settings_from(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse texts key=value to a dict. A value is a Python literal, or else a string.

    >>> settings_from(["ordered=true", "cap=horizon", "bonus=0.5"])
    {'ordered': True, 'cap': 'horizon', 'bonus': 0.5}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigurationError(f"{pair!r} is not a setting; write key=value")
        try:
            found[key] = ast.literal_eval(text.title() if text in ("true", "false") else text)
        except (ValueError, SyntaxError):
            found[key] = text
    return found


def _make_label(name: str, options: dict[str, Any]) -> str:
    """Return `name:key=value:...` with the keys sorted."""
    return ":".join([name, *(f"{key}={value}" for key, value in sorted(options.items()))])


def json_default(value: Any) -> Any:
    """Convert an array to a list and anything else to text, for `json.dumps(default=...)`."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
