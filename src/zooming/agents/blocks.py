"""Blocks of a portfolio: one agent plays, all others learn from it, and it gets the returns."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.agent import Agent
from zooming.agents.clipping import warn_of_clipping
from zooming.agents.history import Log
from zooming.agents.recorder import Recorder
from zooming.agents.replay import Transitions
from zooming.kernels.crossing import Crossing

if TYPE_CHECKING:
    from zooming.agents.portfolio import Portfolio

# Indices of `Portfolio.counts`: who plays, episodes left in the block, whether an episode of the
# block is in progress, number of episodes so far.
PLAYER, LEFT, IS_OPEN, N_EPISODES = range(4)
MANY = 20_000  # recorded transitions that all agents learn before more are played: they need memory
FINITE = (-float(np.finfo(np.float64).max), float(np.finfo(np.float64).max))  # any reward
Keeper = TypeVar("Keeper")


class Learner:
    """An agent, and how many of the recorded transitions it has learned."""

    def __init__(self, agent: Agent, n_learned: int) -> None:
        self.agent = agent
        self.skip(n_learned)

    def skip(self, n_rows: int) -> None:
        """State that the agent has learned the first `n_rows` transitions."""
        # One assignment, so that an interrupt changes both or none.
        self.position = n_rows, np.zeros(1, np.int64)

    def catch_up(self, recorder: Recorder | Given) -> None:
        """Let the agent learn all transitions that it has not learned yet."""
        first, n_done = self.position
        n_rows = recorder.n_rows
        if first < n_rows:
            self.agent._learn_transitions(recorder.transitions(first), n_done)
            self.skip(n_rows)


class Given:
    """Transitions that others played, with the methods of a `Recorder`."""

    def __init__(self, recorded: Transitions) -> None:
        self.recorded, self.n_rows = recorded, len(recorded.steps)

    def transitions(self, first: int = 0) -> Transitions:
        """Return the transitions from row `first` on."""
        return self.recorded.part(first, self.n_rows)

    def rewards(self, first: int) -> NDArray[np.float64]:
        """Return the rewards from row `first` on."""
        return np.asarray(self.recorded.rewards[first:])


class Played:
    """Transitions of the blocks that were just played, and what remains to be done with them.

    An agent that does not play learns them when it is needed, many at once: the result is the same.
    `first` is the index in `log` of the first episode whose return was not credited yet.
    """

    def __init__(self, recorder: Recorder | Given, log: Log, first: int) -> None:
        self.recorder, self.log, self.first = recorder, log, first
        self.learners: list[Learner] = []
        self.player: Agent | None = None  # its transitions need not be learned again
        self.n_given = 0  # episodes that others played, if they are not counted yet

    @classmethod
    def given(cls, agents: list[Agent], recorded: Transitions) -> Played:
        """Return transitions that others played: all agents have them to learn."""
        found = cls(Given(recorded), Log(0), 0)
        found.n_given = int((np.asarray(recorded.steps) == 0).sum())
        found.learners = [Learner(agent, 0) for agent in agents]
        return found

    @property
    def n_uncounted(self) -> int:
        """Number of episodes that the portfolio does not count yet."""
        return int(self.log.done[0]) - self.first + self.n_given

    def begin_block(self, agents: list[Agent], player: Agent) -> None:
        """Let `player` catch up before it plays. New agents learn what is played from now on."""
        known = {id(learner.agent): learner for learner in self.learners}
        n_rows = self.recorder.n_rows
        self.learners = [known.get(id(agent)) or Learner(agent, n_rows) for agent in agents]
        self.catch_up(player)
        self.player = player

    def end_block(self) -> None:
        """State that the player has learned what it played."""
        for learner in self.learners:
            if learner.agent is self.player:
                learner.skip(self.recorder.n_rows)
        self.player = None

    def rewards_unknown_to(self, agent: Agent) -> NDArray[np.float64]:
        """Return the rewards of the transitions that an agent has not learned yet."""
        first = [learner.position[0] for learner in self.learners if learner.agent is agent]
        return self.recorder.rewards(first[0] if first else self.recorder.n_rows)

    def catch_up(self, agent: Agent) -> None:
        """Let an agent learn all transitions played so far."""
        for learner in self.learners:
            if learner.agent is agent:
                learner.catch_up(self.recorder)


def play_blocks(portfolio: Portfolio, env: Any, crossing: Crossing, log: Log, end: int) -> int:
    """Play episodes until log.done[0] equals `end`; return the code of the last kernel.

    A portfolio uses it as its method `play` if all of its agents have one.
    """
    settle(portfolio)
    portfolio.counts[IS_OPEN], portfolio._total[0] = 0, 0.0
    portfolio._order.forget()
    first, n_steps = int(log.done[0]), min(portfolio.horizon, env.horizon)
    recorder = Recorder(env, crossing, (end - first) * n_steps, FINITE)
    portfolio._played = Played(recorder, log, first)
    while first < end:
        portfolio._choose()
        played = portfolio._played
        player: Any = portfolio.player
        played.begin_block(portfolio._parts, player)
        if portfolio.rewards == "refuse":
            recorder.set_range(portfolio.reward_range)  # new agents may have narrowed it
        last = min(end, first + int(portfolio.counts[LEFT]))
        code = player.play(recorder, recorder.recording, log, last)
        if code in (kernels.BAD_REWARD, kernels.BAD_STATE):
            _drop_refused(portfolio, recorder, code, log)
            return int(code)
        played.end_block()
        first = int(log.done[0])
        _credit_played(portfolio, played)
        log.is_full = code == kernels.FULL
        if recorder.n_rows > MANY:
            settle(portfolio)
            recorder.clear()
            portfolio._played = Played(recorder, log, first)
    settle(portfolio)
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
    """Let all agents learn the episodes just played, and credit their returns to the player.

    Do nothing if no episodes wait. After an interrupt, the next call continues where it stopped.
    `act` at step 0, `update`, `play_blocks` and saving call it first.
    """
    portfolio.finish_update()
    played = portfolio._played
    if played is None:
        return
    played.end_block()
    for learner in played.learners:
        learner.catch_up(played.recorder)
    _credit_played(portfolio, played)
    portfolio._played = None
    warn_of_clipping(portfolio.player)


def _credit_played(portfolio: Portfolio, played: Played) -> None:
    """Credit the returns that were not credited yet to the agent that played them."""
    last = int(played.log.done[0])
    n_played, counts = last - played.first, portfolio.counts.copy()
    counts[LEFT] -= n_played
    counts[N_EPISODES] += n_played + played.n_given
    later = copy.copy(played)
    later.first, later.n_given = last, 0
    returns = played.log.returns[played.first : last].tolist()
    credit(portfolio, returns, counts=counts, _played=later)


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
    trend = changes["trend"] = _copy_arrays(portfolio.trend)
    trend.add(returns)
    choice = changes["choice"] = _copy_arrays(portfolio.choice)
    choice.credit(int(portfolio.counts[PLAYER]), returns)
    vars(portfolio).update(changes)


def _copy_arrays(keeper: Keeper) -> Keeper:
    """Return a copy of an object of statistics, with copies of its arrays."""
    found = copy.copy(keeper)
    arrays = {name: one for name, one in vars(keeper).items() if isinstance(one, np.ndarray)}
    vars(found).update({name: array.copy() for name, array in arrays.items()})
    return found


def check_counts(counts: NDArray[Any], total: NDArray[Any], n_agents: int) -> None:
    """Raise ValueError if the stored counts, or the return of the open episode, are invalid."""
    if counts.dtype != np.int64 or counts.shape != (4,) or (counts[LEFT:] < 0).any():
        raise ValueError("the counts of the portfolio are invalid")
    if not 0 <= counts[PLAYER] < n_agents or counts[IS_OPEN] > 1:
        raise ValueError(f"the player is agent {counts[PLAYER]}, but there are {n_agents} agents")
    if total.dtype != np.float64 or total.shape != (1,) or not np.isfinite(total).all():
        raise ValueError("the return of the episode is not a finite number")
