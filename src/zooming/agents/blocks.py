"""Blocks of a portfolio: one agent plays, all others learn from it, and it gets the returns."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.agent import Agent
from zooming.agents.balance import FREE, SAFE
from zooming.agents.clipping import warn_of_clipping
from zooming.agents.history import Log
from zooming.agents.planner import ANY_REWARD
from zooming.agents.recorder import Recorder
from zooming.kernels.crossing import Crossing

if TYPE_CHECKING:
    from zooming.agents.portfolio import Portfolio

# Indices of `Portfolio.counts`: who plays, episodes left in the block, whether an episode of the
# block is in progress, number of episodes so far.
PLAYER, LEFT, IS_OPEN, N_EPISODES = range(4)
SAFE_PLAYS = -1  # value of counts[PLAYER] if the safe agent of a guarantee plays
Keeper = TypeVar("Keeper")


class Played:
    """Episodes just played: their transitions, their returns, and the agents that learn from them.

    `first` is the index in `log` of the first of these episodes.
    """

    def __init__(self, recorder: Recorder, log: Log, first: int, others: list[Agent]) -> None:
        self.recorder, self.log, self.first = recorder, log, first
        # Each agent with the number of transitions that it has learned so far.
        self.others = [(agent, np.zeros(1, np.int64)) for agent in others]


def play_blocks(portfolio: Portfolio, env: Any, crossing: Crossing, log: Log, end: int) -> int:
    """Play episodes until log.done[0] equals `end`; return the code of the last kernel.

    A portfolio uses it as its method `play` if all of its agents have one.
    """
    settle(portfolio)
    portfolio.counts[IS_OPEN], portfolio._total[0] = 0, 0.0
    first, n_steps = int(log.done[0]), min(portfolio.horizon, env.horizon)
    wanted = portfolio.reward_range if portfolio.rewards == "refuse" else ANY_REWARD
    recorder = Recorder(env, crossing, (end - first) * n_steps, wanted)
    while first < end:
        portfolio._choose()
        player: Any = portfolio.player
        recorder.clear()
        others = [agent for agent in portfolio.agents if agent is not player]
        portfolio._played = Played(recorder, log, first, others)
        last = min(end, first + int(portfolio.counts[LEFT]))
        code = player.play(recorder, recorder.recording, log, last)
        if code in (kernels.BAD_REWARD, kernels.BAD_STATE):
            _drop_refused(portfolio, recorder, code, log)
            return int(code)
        settle(portfolio)
        log.is_full = code == kernels.FULL
        first = int(log.done[0])
    return kernels.FINE


def _drop_refused(portfolio: Portfolio, recorder: Recorder, code: int, log: Log) -> None:
    """Drop the transition that was refused, and let the agents learn from those before it."""
    step = int(log.trouble[0]) - (code == kernels.BAD_STATE)  # -1: a start was refused
    if code == kernels.BAD_REWARD:
        log.trouble[2] = recorder.last_reward  # the player got NaN if another agent refused it
    if step >= 0:
        recorder.drop_last()
    settle(portfolio)
    portfolio.counts[N_EPISODES] += step > 0


def settle(portfolio: Portfolio) -> None:
    """Let the other agents learn from the episodes just played; credit their returns to the player.

    Do nothing if no episodes wait. After an interrupt, the next call continues where it stopped.
    `act` at step 0, `update`, `play_blocks` and saving call it first.
    """
    played = portfolio._played
    if played is None:
        return
    recorded = played.recorder.transitions()
    for agent, n_learned in played.others:
        agent._learn_transitions(recorded, n_learned)
    last = int(played.log.done[0])
    n_played, counts = last - played.first, portfolio.counts.copy()
    counts[LEFT] -= n_played
    counts[N_EPISODES] += n_played
    credit(portfolio, played.log.returns[played.first : last].tolist(), counts=counts, _played=None)
    warn_of_clipping(portfolio.player)


def close_episode(portfolio: Portfolio) -> None:
    """Credit the return of an episode that was played step by step to its player, once."""
    if portfolio.counts[IS_OPEN]:
        counts = portfolio.counts.copy()
        counts[LEFT] -= 1
        counts[IS_OPEN] = 0
        credit(portfolio, portfolio._total.tolist(), counts=counts)
    portfolio._total[0] = 0.0


def credit(portfolio: Portfolio, returns: list[float], **changes: Any) -> None:
    """Add returns to the statistics of the player, and set the attributes named in `changes`.

    Statistics are changed in copies, which one call puts in place. So an interrupt leaves either
    all old values or all new ones, and no return is lost or counted twice.
    """
    player, guarantee = int(portfolio.counts[PLAYER]), portfolio.guarantee
    trend = changes["trend"] = _copy_arrays(portfolio.trend)
    trend.add(returns)
    if player != SAFE_PLAYS:
        choice = changes["choice"] = _copy_arrays(portfolio.choice)
        choice.credit(player, returns)
    if guarantee is not None:
        guarantee = changes["guarantee"] = copy.copy(guarantee)
        guarantee.balance = _copy_arrays(guarantee.balance)
        guarantee.balance.credit(SAFE if player == SAFE_PLAYS else FREE, returns)
    vars(portfolio).update(changes)


def _copy_arrays(keeper: Keeper) -> Keeper:
    """Return a copy of an object of statistics, with copies of its arrays."""
    found = copy.copy(keeper)
    arrays = {name: one for name, one in vars(keeper).items() if isinstance(one, np.ndarray)}
    vars(found).update({name: array.copy() for name, array in arrays.items()})
    return found


def check_counts(counts: NDArray[Any], total: NDArray[Any], n_agents: int, is_safe: bool) -> None:
    """Raise ValueError if the stored counts, or the return of the open episode, are invalid.

    `is_safe`: whether the portfolio has a safe agent.
    """
    if counts.dtype != np.int64 or counts.shape != (4,) or (counts[LEFT:] < 0).any():
        raise ValueError("the counts of the portfolio are invalid")
    first = SAFE_PLAYS if is_safe else 0
    if not first <= counts[PLAYER] < n_agents or counts[IS_OPEN] > 1:
        raise ValueError(f"the player is agent {counts[PLAYER]}, but there are {n_agents} agents")
    if total.dtype != np.float64 or total.shape != (1,) or not np.isfinite(total).all():
        raise ValueError("the return of the episode is not a finite number")
