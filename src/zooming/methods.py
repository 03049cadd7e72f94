"""The methods that upper rooms give to classes of lower rooms, in one table. See `upper`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from zooming.upper import bind

# Method: the module and the function. The function is imported when the method is first used.
METHODS = {
    "LearnedPolicy.export": ("zooming.export.write", "export_policy"),
    "LearnedPolicy.explain": ("zooming.export.explain", "explain_step"),
    "LearnedPolicy.show": ("zooming.app.show.policy_page", "show"),
    "Pauses.value_policy": ("zooming.analysis.evaluate", "value_at_pause"),
    "Agent.learn_from": ("zooming.logs.learn", "learn_from"),
    "Agent.to_log": ("zooming.logs.record", "to_log"),
    "QLearner.learn_pac": ("zooming.analysis.pac", "learn_pac"),
    "History.regret": ("zooming.analysis.regret", "regret_of"),
    "History.plot": ("zooming.plots.curves", "plot_history"),
    "Partition.plot": ("zooming.plots.partitions", "partition"),
    "Balls.plot": ("zooming.plots.ball_pictures", "balls"),
    "Rules.plot": ("zooming.plots.rule_pictures", "rules"),
    "RenderedEnv.draw": ("zooming.plots.rendering", "draw_ranges"),
    "RenderedEnv._make_pictures": ("zooming.plots.rendering", "Pictures"),
}


def _find(module: str, function: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


for _name, _home in METHODS.items():
    bind(_name, partial(_find, *_home))
