"""Find signs in a planner's samples that an option of the agent does not fit the problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zooming.kernels.plan_layout import CATEGORIES, ENDED

if TYPE_CHECKING:
    from zooming.agents.planner import Planner

ENOUGH = 20  # episodes before which nothing is doubted
MANY = 20  # categories of an axis that are probably quantities
SMALL = 0.02  # share of the reward range that the rewards seen should span


def doubts(agent: Planner) -> list[str]:
    """Return one sentence per sign that an option of the agent may not fit the problem."""
    table, core = agent.table, agent.table.core[0]
    if agent.n_episodes < ENOUGH:
        return []
    found, n = [], table.n_samples
    least, most = float(core["least"]), float(core["most"])
    low, high = agent.reward_range
    span = high - low
    if np.isfinite(span) and most - least < SMALL * span:
        found.append(
            f"rewards seen lie in [{least:.4g}, {most:.4g}], a small part of the range "
            f"[{low:.4g}, {high:.4g}]"
        )
    if least == most:
        found.append(f"every reward was {least:.4g}: no action was better than another")
    longest = int(table.samples.steps[:n].max()) + 1
    if longest < agent.horizon:
        found.append(
            f"no episode was longer than {longest} of {agent.horizon} steps; if none can be, give "
            f"horizon={longest}"
        )
    for j, name in enumerate(agent.axes.names):
        if table.kinds[j] == CATEGORIES and table.units[j] >= MANY:
            found.append(
                f"{name} has {table.units[j]} categories, and each of them must be tried; if "
                f"neighboring values are similar, ordered=['{name}'] learns faster"
            )
    places = table.samples.places[:n]
    for j in range(agent.axes.n_state):
        after = places[:, len(agent.axes) + j]
        seen = np.concatenate([places[:, j], after[after != ENDED]])
        if table.units[j] > 1 and (seen == seen[0]).all():
            found.append(
                f"{agent.axes.names[j]} never changed: weights={{'{agent.axes.names[j]}': 0}} "
                "would ignore it"
            )
    return found
