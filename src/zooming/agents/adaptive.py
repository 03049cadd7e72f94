"""The class of agents whose balls are boxes that are split: AdaptiveQ and its relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.q_learner import MOST_BALLS, QLearner
from zooming.errors import ConfigurationError, SpaceError
from zooming.partitions.boxes import BoxTable
from zooming.partitions.splits import MOST_HALVED, RULES, Rule, TreeRule, check_rule

MOST_CELLS = 2**20  # balls of an initial partition


class AdaptiveLearner(QLearner):
    """An agent that learns Q of boxes and splits them.

    A subclass calls `begin(make_table(make_core()))` at the end of its `__init__`.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    split : {"all", "longest"} or a rule, default "all"
        Sides that a split halves: all that are longer than half the diameter, or one longest side.
    max_balls : int, optional
        Largest number of active balls. A ball is split only while its children fit in.
    **options
        Options of `QLearner`.
    """

    def __init__(
        self,
        env: Any,
        *,
        split: str | Rule | TreeRule = "all",
        max_balls: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(env, **options)
        is_whole = isinstance(max_balls, (int, np.integer)) and not isinstance(max_balls, bool)
        if max_balls is not None and not (is_whole and self._n_roots <= max_balls <= MOST_BALLS):
            raise ConfigurationError(
                f"max_balls={max_balls!r}: give a whole number, at least one ball per "
                f"{'agent' if self._shares_steps else 'step'} "
                f"({self._n_roots}) and at most {MOST_BALLS:,}"
            )
        self.max_balls = None if max_balls is None else int(max_balls)
        self.split = check_rule(split)
        if self.split == "all" and self.axes.n_wide > MOST_HALVED:
            raise SpaceError(
                f"{self.axes.n_wide} axes are too many: a split makes 2^axes balls, so at most "
                f"{MOST_HALVED} axes are "
                'supported. Give the agent fewer features (a wrapper), or split="longest", which '
                "halves one at a time."
            )

    def make_core(
        self, max_balls: int | None = None, layout: np.dtype[Any] = kernels.CORE
    ) -> NDArray[Any]:
        core = super().make_core(max_balls or self.max_balls or MOST_BALLS, layout)
        core["rule"] = (
            RULES.get(self.split, kernels.OWN) if isinstance(self.split, str) else kernels.OWN
        )
        core["cubes"] = self.split == "all" and self.axes.are_cubes
        core["split_axes"] = {kernels.ALL: self.axes.n_wide, kernels.LONGEST: 1, kernels.OWN: 0}[
            int(core["rule"][0])
        ]
        return core

    def make_table(self, core: NDArray[Any], kind: type[BoxTable] = BoxTable) -> Any:
        """Return the first table: one ball per root for each combination of categories."""
        n_balls, most = (
            self._n_roots * math.prod(self.axes.n_values),
            min(MOST_CELLS, self.max_balls or MOST_BALLS),
        )
        if n_balls > most:
            names = [
                name for name, n in zip(self.axes.names, self.axes.n_values, strict=True) if n > 1
            ]
            limit = f"max_balls={most:,} allows" if most < MOST_CELLS else "are supported"
            raise SpaceError(
                f"the categories of {', '.join(names)} make {n_balls:,} balls over {self._n_roots} "
                "steps, more than the "
                f"{most:,} that {limit}. Name axes whose values have an order, "
                f"ordered={names[-1:]}, or give an axis weight 0"
            )
        table = kind.of_cells(self.axes, core, self.axes.cells(), self.split)
        table.set_due()
        return table

    @property
    def is_full(self) -> bool:
        """Whether `max_balls` prevented a split of a user's rule."""
        return bool(self.table.is_full)

    def _known_options(self) -> dict[str, Any]:
        return {**super()._known_options(), "split": self.split, "max_balls": self.max_balls}

    def _options(self) -> dict[str, Any]:
        if not isinstance(self.split, str):
            raise ConfigurationError(
                f"a split rule of your own ({type(self.split).__name__}) cannot be saved: a file "
                "that named its class would "
                f"have to run its code"
            )
        return super()._options()
