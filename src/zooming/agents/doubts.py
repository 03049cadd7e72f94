"""Find signs in a planner's samples that an option of the agent does not fit the problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zooming.agents.env_facts import stated_steps
from zooming.agents.status import plain, plus_minus
from zooming.kernels.plan_layout import CATEGORIES, ENDED
from zooming.validation import ANY_REWARD

if TYPE_CHECKING:
    from zooming.agents.agent import Agent
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
    if (low, high) != ANY_REWARD and most - least < SMALL * span:
        found.append(
            f"rewards seen lie in [{plain(least)}, {plain(most)}], a small part of the range "
            f"[{plain(low)}, {plain(high)}]"
        )
    if least == most:
        found.append(f"every reward was {plain(least)}: no action was better than another")
    found += doubt_promise(agent)
    longest = int(table.samples.steps[:n].max()) + 1
    if longest < agent.horizon:
        found.append(
            f"no episode was longer than {longest} of {agent.horizon} steps; if none can be, give "
            f"horizon={longest}"
        )
    found += doubt_short_horizon(agent)
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


def doubt_promise(agent: Planner) -> list[str]:
    """Return a sentence if the model contradicts what recommended plans earned.

    Both must differ by more than a standard deviation of a return, because episodes that explore
    earn less, and by more than two standard errors.
    """
    if agent.table.kept is None:
        return []
    plays, mean, variance = agent.table.earned.tolist()
    promise, error = agent.promise()
    away, square = abs(promise - mean), variance / plays
    if away <= np.sqrt(variance) or away <= 2.0 * np.sqrt(square + error**2):
        return []
    return [
        f"the model promises {plain(promise)} from the recommended policy, but episodes of such "
        f"plans earned {plus_minus(mean, float(np.sqrt(square)))}: trust what was earned"
    ]


def doubt_short_horizon(agent: Agent) -> list[str]:
    """Return a sentence if the horizon cut episodes off that the environment would go on with.

    Nothing is doubted if the environment states no larger number of steps: then it is for the agent
    to say how long an episode is. An environment may also end by itself before its stated number,
    for example if a wrapper joins several steps to one.
    """
    stated = None if agent.env is None else stated_steps(agent.env)
    if stated is None or stated <= agent.horizon:
        return []
    if not agent.was_cut or agent.n_episodes < ENOUGH:
        return []
    return [
        f"episodes went on when horizon={agent.horizon} ended them, and "
        f"{agent.env_name} states up to {stated:,} steps: what comes later is not "
        "learned; if it matters, leave out horizon="
    ]
