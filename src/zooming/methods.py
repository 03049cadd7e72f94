"""Methods of a class whose work is done in an upper room, and where each agent is, in two tables.

A lower room declares such a method, `export = UpperMethod()`, and `METHODS` names its function,
which is imported when it is first used. So lower rooms import nothing from above, and users find
`agent.export(...)` where they expect it.
"""

from __future__ import annotations

import importlib
from types import MethodType
from typing import Any

# Method: the module and the function.
METHODS = {
    "Agent.export": ("zooming.export.write", "export_policy"),
    "Agent.explain": ("zooming.export.rules", "explain"),
    "Agent.show": ("zooming.export.show", "show"),
    "Agent._drive": ("zooming.agents.training.drivers", "learn"),
    "Agent.learn_from": ("zooming.logs.learn", "learn_from"),
    "Agent.to_log": ("zooming.logs.record", "to_log"),
    "Pauses.value_policy": ("zooming.analysis.evaluate", "value_at_pause"),
    "Records.read": ("zooming.logs.noise", "read_records"),
    "QLearner.learn_pac": ("zooming.analysis.pac", "learn_pac"),
    "History.regret": ("zooming.analysis.regret", "regret_of"),
    "History.plot": ("zooming.plots.curves", "learning_curves"),
    "Partition.plot": ("zooming.plots.partitions", "partition"),
    "CompiledEnv._draw": ("zooming.plots.rendering", "draw_episode"),
}

# Zooming's agents, by class name: the one list of them. Files name agents by these names.
AGENTS = {
    "AdaptiveQ": "zooming.agents.tables.adaptive_q",
    "NetQ": "zooming.agents.tables.net_q",
    "MetricQ": "zooming.agents.tables.metric_q",
    "TreeQ": "zooming.agents.tables.tree_q",
    "Planner": "zooming.agents.planner.planner",
    "Resolver": "zooming.agents.resolver",
    "Portfolio": "zooming.agents.auto.portfolio",
    "Auto": "zooming.agents.auto.auto",
    "SinglePartitionQ": "zooming.lab.relatives.single_partition_q",
    "RandomizedQ": "zooming.lab.relatives.randomized_q",
    "NetMB": "zooming.lab.relatives.model_based",
    "AdaptiveMB": "zooming.lab.relatives.model_based",
    "NearestNeighborQ": "zooming.lab.relatives.nearest_neighbor_q",
    "Random": "zooming.agents.heuristics",
    "NoMovement": "zooming.agents.heuristics",
    "Median": "zooming.agents.heuristics",
}


class UpperMethod:
    """A method that an upper room defines: a function whose first argument is the instance."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"{owner.__name__}.{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        module, name = METHODS[self.name]
        function = getattr(importlib.import_module(module), name)
        return function if instance is None else MethodType(function, instance)
