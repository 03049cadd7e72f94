"""Reinforcement learning in continuous state-action spaces that learns its own discretization.

Importing zooming registers its environments, `zooming/Oil-v0` and the others that `zooming list`
shows. `__init__.pyi` lists the public names: first those in `__all__`, then further ones. Each is
loaded on first use, which keeps the import fast.
"""

from __future__ import annotations

import ast as _ast
import importlib as _importlib
from pathlib import Path as _Path
from typing import Any as _Any

import gymnasium as _gym

from zooming.version import __version__ as __version__

_STUB = _ast.parse(_Path(__file__).with_suffix(".pyi").read_text()).body
_HOME = {
    alias.name: node.module or ""
    for node in _STUB
    if isinstance(node, _ast.ImportFrom)
    for alias in node.names
}
_N_LISTED = next(i for i, node in enumerate(_STUB) if isinstance(node, _ast.AnnAssign))
__all__ = list(_HOME)[:_N_LISTED]  # each import of the stub is one name


def __getattr__(name: str) -> _Any:
    if name not in _HOME:
        raise AttributeError(f"module 'zooming' has no attribute {name!r}")
    home = _HOME[name]
    if home == "zooming":  # the name is a module
        return _importlib.import_module(f"{home}.{name}")
    value = getattr(_importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})


for _id, _entry_point in (
    ("zooming/Oil-v0", "oil:Oil"),
    ("zooming/Ambulance-v0", "ambulance:Ambulance"),
    ("zooming/Newsvendor-v0", "gallery.newsvendor:Newsvendor"),
    ("zooming/Inventory-v0", "gallery.inventory:Inventory"),
    ("zooming/Pricing-v0", "gallery.pricing:Pricing"),
    ("zooming/Queue-v0", "gallery.queue:Queue"),
    ("zooming/Admission-v0", "gallery.queue:Admission"),
    ("zooming/Storage-v0", "gallery.storage:Storage"),
    ("zooming/Autoscaling-v0", "gallery.autoscaling:Autoscaling"),
    ("zooming/Bidding-v0", "gallery.bidding:Bidding"),
    ("zooming/Allocation-v0", "gallery.allocation:Allocation"),
    ("zooming/GraphAmbulance-v0", "gallery.graph_ambulance:GraphAmbulance"),
    ("zooming/RiverSwim-v0", "gallery.river_swim:RiverSwim"),
    ("zooming/Regulator-v0", "gallery.regulator:Regulator"),
    ("zooming/Caching-v0", "gallery.systems.caching:Caching"),
    ("zooming/Balancing-v0", "gallery.systems.balancing:Balancing"),
    ("zooming/Prefetching-v0", "gallery.systems.prefetching:Prefetching"),
):
    _gym.register(_id, entry_point=f"zooming.envs.{_entry_point}")
