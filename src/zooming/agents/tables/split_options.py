"""Options and first table of agents whose balls are boxes that are split.

Such an agent is a `QLearner` whose `__init__` calls `take_split_options`, then
`begin(first_boxes(self, split_core(self)))`. With `set_budget`, its table stays within `max_balls`
by removing balls; without, no ball is split that would not fit. `AdaptiveQ` is the example.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.tables.core import MOST_BALLS
from zooming.errors import ConfigurationError, SpaceError
from zooming.partitions.boxes import BoxTable
from zooming.partitions.table import n_roots as count_roots
from zooming.spaces.axes import Axes
from zooming.validation import check_choice, check_int, count_noun

if TYPE_CHECKING:
    from zooming.agents.tables.q_learner import QLearner

MOST_CELLS = 2**20  # balls of an initial partition
RULES = {"all": kernels.ALL, "longest": kernels.LONGEST}
MOST_HALVED = 12  # axes that one split may halve; it makes up to 2^12 balls


def take_split_options(agent: QLearner, split: str, max_balls: int | None) -> None:
    """Check `split` and `max_balls` and keep them as attributes of the agent.

    Parameters
    ----------
    agent : QLearner
        An agent that knows its axes and its horizon.
    split : {"all", "longest"}
        Sides that a split halves: all that are longer than half the diameter, or one longest side.
    max_balls : int or None
        Largest number of active balls.

    Raises
    ------
    ConfigurationError
        If an option is wrong.
    SpaceError
        If the space has too many axes for the split rule.
    """
    is_whole = isinstance(max_balls, (int, np.integer)) and not isinstance(max_balls, bool)
    if max_balls is not None and not (is_whole and agent._n_roots <= max_balls <= MOST_BALLS):
        raise ConfigurationError(
            f"max_balls={max_balls!r}: give a whole number, at least one ball per "
            f"{'agent' if agent._shares_steps else 'step'} "
            f"({agent._n_roots}) and at most {MOST_BALLS:,}"
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

    Call it when the bonus is in the core. Without a limit nothing changes. With `max_bytes`, the
    largest size of the table, `agent.max_balls` becomes the largest number whose table fits. See
    `kernels.boxes.budget`.

    Raises
    ------
    ConfigurationError
        If `max_bytes` is too small for the first balls.
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
        n_first = n_roots * n_first_balls(agent.axes, getattr(agent, "first_cut", None))
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


def n_first_balls(axes: Axes, first_cut: float | None) -> int:
    """Return the number of balls with which a partition begins, see `first_boxes`."""
    n_cut = 0 if first_cut is None else sum(axes.are_intervals)
    return math.prod(axes.n_values) << n_cut


def first_boxes(
    agent: QLearner,
    core: NDArray[Any],
    kind: type[BoxTable] = BoxTable,
    first_cut: float | None = None,
) -> Any:
    """Return the first table. Each partition has one ball per combination of categories.

    If `first_cut` is given, intervals are cut at this share of their length.

    Raises
    ------
    SpaceError
        If the categories, or the cuts, make more balls than `max_balls` or `MOST_CELLS`.
    """
    axes, n_roots = agent.axes, agent._n_roots
    n_balls = n_roots * n_first_balls(axes, None)
    most = min(MOST_CELLS, agent.max_balls or MOST_BALLS)
    n_cut = n_roots * n_first_balls(axes, first_cut)
    if n_balls <= most < n_cut:
        raise SpaceError(
            f"first_cut={first_cut:g} makes {n_cut:,} balls of {sum(axes.are_intervals)} "
            f"intervals, more than {most:,}; leave it out"
        )
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
    borders = axes.cells()
    if first_cut is not None:
        core["cubes"] = 0
        for i in np.flatnonzero(axes.are_intervals):
            borders[i] = np.array([first_cut])
    table = kind.of_cells(axes, core, borders)
    table.first_cut = first_cut
    table.set_due()
    return table
