"""Problems and agents by name, as the command line writes them."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from zooming import metrics
from zooming.agents.adaptive_q import AdaptiveQ
from zooming.agents.agent import Agent
from zooming.agents.heuristics import Median, NoMovement, Random
from zooming.agents.metric_q import MetricQ
from zooming.agents.net_q import NetQ
from zooming.analysis.solve import Optimal, default_resolution, is_finite, solvable, solve
from zooming.errors import SpaceError
from zooming.study import modules
from zooming.validation import nearest, passes_options_to


@passes_options_to(MetricQ)
def metric_q(
    env: Any,
    metric: str = "linf",
    combine: str | float | None = None,
    scale: Any = (1.0, 1.0),
    points_per_axis: int | None = None,
    tries: int | None = None,
    **options: Any,
) -> MetricQ:
    """Q-learning on balls of a norm of the pair (state, action), or of no metric at all: MetricQ by plain settings.

    `metric` is "linf", "l1" or "l2" on boxes, "discrete" on finite spaces; `combine` (by default the same norm again) and
    `scale` are those of `metrics.Product`, `tries` that of `metrics.Greedy`. The rest are settings of MetricQ.

    >>> import gymnasium as gym
    >>> metric_q(gym.make("zooming/Oil-v0"), "l2", points_per_axis=9).metric
    Product(L2(points_per_axis=9, scale=[1.0]), L2(points_per_axis=9, scale=[1.0]), combine=2.0, scale=(1.0, 1.0))
    """
    if metric not in _METRICS:
        raise SpaceError(f"metric-q: metric={metric!r}: choose one of {', '.join(_METRICS)}{nearest(str(metric), _METRICS)}")
    kind, same = _METRICS[metric]
    if kind is metrics.Discrete and points_per_axis is not None:
        raise SpaceError("metric-q: points_per_axis is for the net of a box; metric=discrete has none, so leave it out")
    side = metrics.Discrete() if kind is metrics.Discrete else kind(points_per_axis)
    both = metrics.Product(side, side, same if combine is None else combine, scale)
    return MetricQ(env, both, oracle=None if tries is None else metrics.Greedy(tries), **options)


_METRICS: dict[str, tuple[Any, str | float]] = {
    "linf": (metrics.LInf, "max"),
    "l1": (metrics.L1, "sum"),
    "l2": (metrics.L2, 2.0),
    "discrete": (metrics.Discrete, "max"),
}
AGENTS: dict[str, Callable[..., Agent]] = {
    "adaptive-q": AdaptiveQ,
    "adaptive-q-published": AdaptiveQ.as_published,
    "net-q": NetQ,
    "net-q-published": NetQ.as_published,
    "metric-q": metric_q,
    "random": Random,
    "no-movement": NoMovement,
    "median": Median,
}
_OIL = {f"oil-{survey}-{sharpness:g}": {"survey": survey, "sharpness": sharpness}
        for survey in ("laplace", "quadratic") for sharpness in (1.0, 10.0, 50.0)}  # fmt: skip
_AMBULANCE = {f"ambulance-{arrivals}-{weight:g}": {"arrivals": arrivals, "travel_weight": weight}
              for arrivals in ("beta", "uniform", "shifting") for weight in (0.0, 0.25, 1.0)}  # fmt: skip


def as_lists(value: Any) -> Any:
    """Tuples and arrays as lists, as they come back from JSON: a study must be the same whether written or read."""
    if isinstance(value, dict):
        return {key: as_lists(entry) for key, entry in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return [as_lists(entry) for entry in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class Problem:
    """An environment: its name, its Gymnasium id (or module:id), and the arguments that make it."""

    name: str
    env_id: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", as_lists(self.options))

    def make(self) -> Any:
        """Make the environment. Its module, if it names one, must have been imported before."""
        return gym.make(modules.find(self.env_id), **self.options)

    def import_module(self) -> None:
        """Import the module that the id names, if any: for problems that a user named, never for those of a folder."""
        for module in modules.of([self.env_id]):
            modules.import_named(module)

    def optimal(self, optimum: str = "fine") -> Optimal | None:
        """The optimum, solved once per process; "rough" at half the resolution. None if it cannot be solved."""
        key = json.dumps([self.env_id, self.options, optimum], sort_keys=True, default=listed)
        if key not in _OPTIMA:
            try:
                env = self.make()
                inner = solvable(env)
                is_rough = optimum == "rough" and not is_finite(inner)
                _OPTIMA[key] = solve(env, default_resolution(inner) // 4 * 2 if is_rough else None)
            except SpaceError:
                _OPTIMA[key] = None
        return _OPTIMA[key]


_OPTIMA: dict[str, Optimal | None] = {}
OPTIMUM = ("fine", "rough")


PRESETS = {name: Problem(name, "zooming/Oil-v0", options) for name, options in _OIL.items()}
PRESETS |= {name: Problem(name, "zooming/Ambulance-v0", options) for name, options in _AMBULANCE.items()}


@dataclass(frozen=True)
class AgentChoice:
    """An agent with its settings; `label` is how tables name it: adaptive-q, or adaptive-q:bonus=0.5."""

    kind: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", as_lists(self.settings))

    @property
    def label(self) -> str:
        return ":".join([self.kind, *(f"{key}={value}" for key, value in sorted(self.settings.items()))])

    def make(self, env: Any, seed: int) -> Agent:
        return AGENTS[self.kind](env, seed=seed, **self.settings)


def posed(problem: str | Problem) -> Problem:
    """Return the problem that a user gave or named. Its module is imported."""
    if not isinstance(problem, Problem):
        return problem_named(problem)
    problem.import_module()
    return problem


def problem_named(name: str, options: dict[str, Any] | None = None) -> Problem:
    """Return a preset, or any registered Gymnasium id with options. SpaceError, with the nearest name, if there is none.

    The module of `module:Id` is imported.
    """
    if not isinstance(name, str):
        raise SpaceError(f"{name!r} is not a problem; give a preset's name, a registered Gymnasium id, or a Problem")
    options = options or {}
    if name in PRESETS:
        preset = PRESETS[name]
        if not options:
            return preset
        merged = {**preset.options, **options}
        return Problem(_labelled(name, options), preset.env_id, merged)
    head, colon, _ = name.partition(":")
    if colon and (head in PRESETS or head in gym.registry):
        raise SpaceError(f"no problem is named {name!r}; give {head} its options by --set key=value")
    problem = Problem(_labelled(name, options), name, options)
    problem.import_module()
    if modules.find(name) not in gym.registry:
        near = nearest(name, [*PRESETS, *gym.registry])
        raise SpaceError(f"no problem is named {name!r}{near} (zooming list shows the presets; {modules.HOW})")
    return problem


def agents_named(text: str) -> list[AgentChoice]:
    """Agents separated by commas; a comma inside brackets belongs to a value.

    >>> [agent.label for agent in agents_named("random:reward_range=(-17, 0),net-q")]
    ['random:reward_range=[-17, 0]', 'net-q']
    """
    return [agent_named(part) for part in _split(text, ",")]


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def agent_named(text: str) -> AgentChoice:
    """`adaptive-q` or `adaptive-q:bonus=0.5:cap=horizon`."""
    if not isinstance(text, str):
        raise SpaceError(
            f"{text!r} is not an agent's name; give one of {', '.join(AGENTS)}, with settings: adaptive-q:bonus=0.5"
        )
    kind, *settings = _split(text, ":")
    if kind not in AGENTS:
        raise SpaceError(f"no agent is named {kind!r}{nearest(kind, AGENTS)} (there are {', '.join(AGENTS)})")
    return AgentChoice(kind, settings_from(settings))


def settings_from(pairs: Iterable[str]) -> dict[str, Any]:
    """{"key": value} of texts key=value; a value is read as a Python literal, else as a string."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise SpaceError(f"{pair!r} is not a setting; write key=value")
        try:
            found[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[key] = text
    return found


def _labelled(name: str, options: dict[str, Any]) -> str:
    return ":".join([name, *(f"{key}={value}" for key, value in sorted(options.items()))])


def listed(value: Any) -> Any:
    """Arrays as lists, anything else as text: for JSON."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
