"""The rivals by name, for studies and the command line."""

from __future__ import annotations

from collections.abc import Callable

from zooming.agents.base.agent import Agent
from zooming.lab.rivals import bandits, deep
from zooming.lab.rivals.bandits import BanditAgent
from zooming.lab.rivals.deep import DeepAgent
from zooming.lab.rivals.grid_q import GridQ
from zooming.lab.rivals.rival import maker
from zooming.lab.rivals.rule_search import RuleSearch

_SB3 = {
    f"sb3:{name}": maker(
        DeepAgent, name, f"{name} of Stable-Baselines3, with the step in the observation."
    )
    for name in deep.ALGORITHMS
}
_PYXAB = {
    f"pyxab:{name}": maker(
        BanditAgent, name, f"{name} of PyXAB, a bandit on boxes, for one step without context."
    )
    for name in bandits.ALGORITHMS
}
RIVALS: dict[str, Callable[..., Agent]] = {
    "grid-q": GridQ,
    "rule-search": RuleSearch,
    **_SB3,
    **_PYXAB,
}
BUDGETED = frozenset({"rule-search", *_SB3, *_PYXAB})  # take `episodes`, that of the study
SLOW = frozenset({*_SB3, *_PYXAB})  # seconds or minutes a run
