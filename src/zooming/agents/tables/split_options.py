"""Options and first table of agents whose balls are boxes that are split.

Such an agent is a `QLearner` whose `__init__` calls `take_split_options`, then
`begin(first_boxes(self, split_core(self)))`. With `set_budget`, its table stays within `max_balls`
by removing balls; without, no ball is split that would not fit. `AdaptiveQ` is the example.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.tables.q_learner import MOST_BALLS, QLearner
from zooming.errors import ConfigurationError, SpaceError
from zooming.partitions.boxes import BoxTable
from zooming.partitions.table import n_roots as count_roots
from zooming.validation import check_choice, check_int, count_noun

MOST_CELLS = 2**20  # balls of an initial partition
RULES = {"all": kernels.ALL, "longest": kernels.LONGEST}
MOST_HALVED = 12  # axes that one split may halve; it makes up to 2^12 balls


def take_split_options(agent: QLearner, split: str, max_balls: int | None) -> None:
    """Check `split` and `max_balls` and keep them as attributes of the agent."""
    is_whole = isinstance(max_balls, (int, np.integer)) and not isinstance(max_balls, bool)
    if max_balls is not None and not (is_whole and agent.n_roots <= max_balls <= MOST_BALLS):
        raise ConfigurationError(
            f"max_balls={max_balls!r}: give a whole number, at least one ball per "
            f"{'agent' if agent.shares_steps else 'step'} "
            f"({agent.n_roots}) and at most {MOST_BALLS:,}"
        )
    agent.max_balls = None if max_balls is None else int(max_balls)
    agent.split = check_choice("split", split, RULES)
    if agent.split == "all" and agent.axes.n_wide > MOST_HALVED:
        raise SpaceError(
            f"{agent.axes.n_wide} axes are too many: a split makes 2^axes balls, so at most "
            f"{MOST_HALVED} axes are "
            'supported. Give the agent fewer features (a wrapper), or split="longest", which '
            "halves one at a time."
        )


def split_core(agent: QLearner) -> NDArray[Any]:
    """Return the core of a table of boxes: `make_core`, with the split rule written into it."""
    core = agent.make_core(agent.max_balls or MOST_BALLS)
    core["rule"] = RULES[agent.split]
    core["cubes"] = agent.split == "all" and agent.axes.are_cubes
    core["split_axes"] = agent.axes.n_wide if agent.split == "all" else 1
    return core


def set_budget(agent: QLearner, core: NDArray[Any], max_bytes: int | None) -> None:
    """Let a table with `max_balls` or `max_bytes` remove balls when it is full.

    Call it when the bonus is in the core. With `max_bytes`, `agent.max_balls` becomes the largest
    number whose table fits. See `kernels.boxes.budget`.
    """
    agent.max_bytes = None if max_bytes is None else check_int(max_bytes, "max_bytes", 1)
    if agent.max_balls is None and agent.max_bytes is None:
        return
    core["rule"] |= kernels.WITHIN
    core["cubes"] = 0
    n_kept = int(core["n_stats"][0]) if core["bonus_rule"][0] else 0
    core["n_stats"] = n_kept + 1 + len(agent.axes)
    if agent.max_bytes is not None:
        n_roots = count_roots(core)
        n_first = n_roots * math.prod(agent.axes.n_values)
        row = kernels.BALL.itemsize + 8 * int(core["n_stats"][0])
        n_balls = (agent.max_bytes // row - n_roots - n_roots % 2) // 2 + n_roots
        if n_balls < n_first:
            least = (2 * n_first - n_roots + n_roots % 2) * row
            raise ConfigurationError(
                f"max_bytes={agent.max_bytes:,} is too small: {count_noun(n_first, 'first ball')} "
                f"take {least:,} bytes, and each further one {2 * row}"
            )
        agent.max_balls = min(n_balls, agent.max_balls or MOST_BALLS)
    core["max_balls"] = agent.max_balls


def first_boxes(agent: QLearner, core: NDArray[Any], kind: type[BoxTable] = BoxTable) -> Any:
    """Return the first table. Each partition has one ball per combination of categories."""
    axes, n_roots = agent.axes, agent.n_roots
    n_balls = n_roots * math.prod(axes.n_values)
    most = min(MOST_CELLS, agent.max_balls or MOST_BALLS)
    if n_balls > most:
        names = [name for name, n in zip(axes.names, axes.n_values, strict=True) if n > 1]
        limit = f"max_balls={most:,} allows" if most < MOST_CELLS else "are supported"
        if not names:
            raise SpaceError(
                f"{n_roots:,} steps make as many balls, more than the {most:,} that {limit}; give "
                "a shorter horizon"
            )
        raise SpaceError(
            f"the categories of {', '.join(names)} make {n_balls:,} balls over {n_roots} "
            "steps, more than the "
            f"{most:,} that {limit}. Name axes whose values have an order, "
            f"ordered={names[-1:]}, or give an axis weight 0"
        )
    table = kind.of_cells(axes, core, axes.cells())
    table.set_due()
    return table
