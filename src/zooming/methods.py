"""The methods that upper rooms give to classes of lower rooms, in one table. See `upper`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from zooming.agents.files import registry
from zooming.upper import bind

# Method: the module and the function. The function is imported when the method is first used.
METHODS = {
    "LearnedPolicy.export": ("zooming.export.write", "export_policy"),
    "LearnedPolicy.explain": ("zooming.export.explain", "explain_step"),
    "LearnedPolicy.show": ("zooming.export.show.policy_page", "show"),
    "Pauses.value_policy": ("zooming.analysis.evaluate", "value_at_pause"),
    "Agent._drive": ("zooming.agents.training.drivers", "learn"),
    "Agent.learn_from": ("zooming.logs.learn", "learn_from"),
    "Agent.to_log": ("zooming.logs.record", "to_log"),
    "Records.read": ("zooming.logs.noise", "read_records"),
    "QLearner.learn_pac": ("zooming.analysis.pac", "learn_pac"),
    "History.regret": ("zooming.analysis.regret", "regret_of"),
    "History.plot": ("zooming.plots.curves", "plot_history"),
    "Partition.plot": ("zooming.plots.partitions", "partition"),
    "RenderedEnv.draw": ("zooming.plots.rendering", "draw_ranges"),
    "RenderedEnv._make_pictures": ("zooming.plots.rendering", "Pictures"),
}

# Zooming's agents, by class name: the one list of them. Files name agents by these names.
AGENTS = {
    "AdaptiveQ": "zooming.agents.tables.adaptive_q",
    "NetQ": "zooming.agents.tables.net_q",
    "MetricQ": "zooming.agents.tables.metric_q",
    "TreeQ": "zooming.agents.tables.tree_q",
    "Planner": "zooming.agents.planner.planner",
    "Resolver": "zooming.agents.resolver.resolver",
    "Portfolio": "zooming.agents.auto.portfolio",
    "Auto": "zooming.agents.auto.auto",
    "SinglePartitionQ": "zooming.lab.relatives.single_partition_q",
    "RandomizedQ": "zooming.lab.relatives.randomized_q",
    "NetMB": "zooming.lab.relatives.model_based",
    "AdaptiveMB": "zooming.lab.relatives.model_based",
    "Random": "zooming.agents.heuristics",
    "NoMovement": "zooming.agents.heuristics",
    "Median": "zooming.agents.heuristics",
}
registry.HOMES.update(AGENTS)


def _find(module: str, function: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


for _name, _home in METHODS.items():
    bind(_name, partial(_find, *_home))
