"""Reinforcement learning in continuous state-action spaces that learns its own discretization.

Importing zooming registers the environments `zooming/Oil-v0` and `zooming/Ambulance-v0`. Names are
loaded on first use, which keeps the import fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium as _gym

from zooming.version import __version__ as __version__

if TYPE_CHECKING:
    from zooming import bonuses, callbacks, metrics, plots, theory
    from zooming.agents.adaptive_q import AdaptiveQ
    from zooming.agents.agent import Agent
    from zooming.agents.checkpoints import load
    from zooming.agents.heuristics import Median, NoMovement, Random
    from zooming.agents.history import History
    from zooming.agents.many import learn_many
    from zooming.agents.metric_q import MetricQ
    from zooming.agents.net_q import NetQ
    from zooming.analysis.audit import Audit, audit
    from zooming.analysis.evaluate import Evaluation, evaluate
    from zooming.analysis.pac import Certificate
    from zooming.analysis.pac import learn_pac as learn_pac
    from zooming.analysis.pilot import reward_range
    from zooming.analysis.regret import Regret, regret_exponent
    from zooming.analysis.solve import Optimal, solve
    from zooming.envs.compiled import CompiledEnv, compiled_env
    from zooming.errors import (
        BrokenPromise,
        CheckpointError,
        OptionError,
        SpaceError,
        TransitionError,
        ZoomingError,
    )
    from zooming.partitions import splits
    from zooming.partitions.view import Partition
    from zooming.study.study import Study
    from zooming.study.tune import tune
    from zooming.testing.harness import Checked, check_agent


_HOME = {
    "AdaptiveQ": "agents.adaptive_q",
    "NetQ": "agents.net_q",
    "MetricQ": "agents.metric_q",
    "Random": "agents.heuristics",
    "NoMovement": "agents.heuristics",
    "Median": "agents.heuristics",
    "Agent": "agents.agent",
    "History": "agents.history",
    "Partition": "partitions.view",
    "load": "agents.checkpoints",
    "learn_many": "agents.many",
    "compiled_env": "envs.compiled",
    "reward_range": "analysis.pilot",
    "solve": "analysis.solve",
    "Optimal": "analysis.solve",
    "evaluate": "analysis.evaluate",
    "Evaluation": "analysis.evaluate",
    "regret_exponent": "analysis.regret",
    "Regret": "analysis.regret",
    "audit": "analysis.audit",
    "Study": "study.study",
    "tune": "study.tune",
    "Audit": "analysis.audit",
    "Certificate": "analysis.pac",
    "learn_pac": "analysis.pac",  # for agent.learn_pac
    "CompiledEnv": "envs.compiled",
    "ZoomingError": "errors",
    "SpaceError": "errors",
    "OptionError": "errors",
    "TransitionError": "errors",
    "CheckpointError": "errors",
    "check_agent": "testing.harness",
    "Checked": "testing.harness",
    "BrokenPromise": "errors",
}
_MODULES = {name: name for name in ("bonuses", "callbacks", "metrics", "plots", "theory")} | {
    "splits": "partitions.splits"
}

__all__ = [
    "AdaptiveQ",
    "NetQ",
    "MetricQ",
    "Random",
    "NoMovement",
    "Median",
    "Agent",
    "History",
    "Partition",
    "load",
    "learn_many",
    "compiled_env",
    "reward_range",
    "solve",
    "Optimal",
    "evaluate",
    "Evaluation",
    "regret_exponent",
    "Regret",
    "audit",
    "Study",
    "tune",
    "Audit",
    "Certificate",
    "CompiledEnv",
    "ZoomingError",
    "SpaceError",
    "OptionError",
    "TransitionError",
    "CheckpointError",
    "check_agent",
    "Checked",
    "BrokenPromise",
    "bonuses",
    "callbacks",
    "metrics",
    "plots",
    "splits",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"zooming.{_MODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'zooming' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"zooming.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})


for _id, _entry_point in (
    ("zooming/Oil-v0", "oil:Oil"),
    ("zooming/Ambulance-v0", "ambulance:Ambulance"),
):
    _gym.register(_id, entry_point=f"zooming.envs.{_entry_point}")
