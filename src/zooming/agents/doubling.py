"""Work between two episodes of a Q-learner: pending splits, and restarts of the doubling trick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zooming.agents.core import write_bonus
from zooming.bonuses import number_of_phase
from zooming.kernels import pausing

if TYPE_CHECKING:
    from zooming.agents.q_learner import QLearner


def restart_if_due(agent: QLearner) -> None:
    """Reset the table if the next episode begins a phase of the doubling trick."""
    old = agent.table.core
    if agent._first_table is None or number_of_phase(int(old["episode"][0]) + 1) == old["phase"][0]:
        return
    fresh = agent._first_table.copy()
    fresh.core["random"], fresh.core["episode"] = old["random"], old["episode"]
    write_bonus(fresh.core, agent.bonus, agent._has_only_atoms())
    agent.table = fresh  # last, so that an interrupt leaves the old or the new table


def prepare_episodes(agent: QLearner, n: int) -> int:
    """Do the split or the restart that is due. Return how many episodes to play next.

    The number is `n`, or less if the doubling trick restarts the agent earlier.
    """
    if agent._paused[pausing.N_STEPS]:
        row = int(agent._paused[pausing.DUE_ROW])
        if agent.table.is_due(row):  # false if an interrupt came right after the split
            agent.table.split(row)
    elif agent._first_table is not None:
        restart_if_due(agent)
    if agent._first_table is None:
        return n
    n_left: int = 2 ** (int(agent.table.core["phase"][0]) + 1) - 1 - agent.n_episodes
    return min(n, n_left)
