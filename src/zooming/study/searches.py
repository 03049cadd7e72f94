"""The arguments and the result of a search for the best value of an option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zooming.analysis.intervals import Interval, mean_interval
from zooming.study.problems import AgentChoice, Problem

STREAM = "tune"  # seeds of the search; an evaluation uses the stream "run"


@dataclass(frozen=True)
class Tried:
    """A value that was tried, and its return on the tuning seeds.

    Attributes
    ----------
    value
        Value of the option.
    mean_return
        Mean return per episode.
    interval
        95 % interval of `mean_return`; None with one seed.
    n_seeds
        Number of seeds played; fewer than requested if optuna pruned the value.
    """

    value: float
    mean_return: float
    interval: Interval | None
    n_seeds: int

    @classmethod
    def of(cls, value: float, returns: Sequence[float]) -> Tried:
        """Return the entry of a value, given the mean return per episode of each seed."""
        return cls(
            value,
            float(np.mean(returns)),
            mean_interval(returns) if len(returns) > 1 else None,
            len(returns),
        )


@dataclass(frozen=True)
class Scope:
    """The arguments of a search, validated."""

    problems: tuple[Problem, ...]
    agents: tuple[AgentChoice, ...]
    folder: Path
    option: str
    values: tuple[float, ...]
    trials: int
    episodes: int
    n_seeds: int
    entropy: int
    workers: int | None
    progress_bar: bool


@dataclass(frozen=True)
class Searched:
    """The result of a search for one agent on one problem."""

    value: float
    mean_return: float
    tried: tuple[Tried, ...]
    samples: int


Best = dict[tuple[str, str], Searched]  # by problem and agent
