"""Play blocks of a portfolio in compiled code: one agent plays, then all others learn from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.agent import Agent
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


class Played:
    """Episodes just played: their transitions and returns, and the agents still to learn them."""

    def __init__(self, recorder: Recorder, log: Log, n_credited: int, others: list[Agent]) -> None:
        self.recorder, self.log, self.n_credited, self.others = recorder, log, n_credited, others
        self.n_learned = np.zeros(1, np.int64)  # transitions learned so far by others[-1]


def play_blocks(portfolio: Portfolio, env: Any, crossing: Crossing, log: Log, end: int) -> int:
    """Play episodes until log.done[0] equals `end`; return the code of the last kernel.

    It becomes the method `play` of a portfolio if all agents have such a method.
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

    Do nothing if there are none. After an interrupt, the next call continues where it stopped.
    `act` at step 0, `update`, `play_blocks` and saving call it first.
    """
    played = portfolio._played
    if played is None:
        return
    recorded = played.recorder.transitions()
    while played.others:
        played.others[-1]._learn_transitions(recorded, played.n_learned)
        played.others.pop()
        played.n_learned[0] = 0
    first, last = played.n_credited, int(played.log.done[0])
    played.n_credited = last
    portfolio._credit(played.log.returns[first:last].tolist())
    portfolio.counts[[LEFT, N_EPISODES]] += (first - last, last - first)
    warn_of_clipping(portfolio.player)
    portfolio._played = None


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
