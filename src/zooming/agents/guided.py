"""Driver of learn() after a warm start. It plays the rule, the careful policy and the agent."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from zooming.agents.guide import Guide
from zooming.agents.history import Log
from zooming.agents.ledger import LEARNER, LEFT, LET_GO, PLAYED

Advance = Callable[[int], None]


class Guided:
    """Driver that plays each episode with the player that the guide chooses.

    Parameters
    ----------
    agent : Agent
        The agent, which has a guide.
    own : driver
        The driver for the agent's own episodes.
    by_rule : function
        Returns a driver for the other episodes, given the object that acts and the log.
    log : Log
        The log of this call of learn().
    """

    def __init__(self, agent: Any, own: Any, by_rule: Callable[[Any, Log], Any], log: Log) -> None:
        self.agent, self.own, self.by_rule, self.log = agent, own, by_rule, log

    def play(self, end: int, advance: Advance) -> None:
        """Play until the log has `end` episodes."""
        log, guide = self.log, self.agent.guide
        if guide is None:  # a callback has ended the warm start
            self.own.play(end, advance)
            return
        guide.drop_open()
        while (first := int(log.done[0])) < end:
            guide.choose()
            ledger, was_open = guide.ledger, guide.is_open
            player, n_before = ledger.player, int(ledger.counts[PLAYED])
            last = min(end, first + int(ledger.counts[LEFT]))
            is_own, is_careful = player == LEARNER, guide.plays_careful
            run = self.own if is_own else self.by_rule(RuleSide(self.agent, guide), log)
            try:
                run.play(last, advance)
            finally:  # an interrupt may come between two episodes
                done = int(log.done[0])
                ledger.credit(log.returns[first:done].tolist())
                if is_careful:
                    log.careful_episodes += range(first + 1, done + 1)
                elif player != LEARNER:
                    log.rule_episodes += range(first + 1, done + 1)
                if was_open and not guide.is_open:
                    log.let_go = first + int(ledger.counts[LET_GO]) - n_before


class RuleSide:
    """Take the agent's place in a driver: play the rule or the careful policy for it.

    The agent learns from each episode when it has ended. If the rule raises an error within an
    episode, the agent learns nothing from that episode.

    Parameters
    ----------
    agent : Agent
        The agent, which learns.
    guide : Guide
        The guide, which acts.
    """

    def __init__(self, agent: Any, guide: Guide) -> None:
        self.agent, self.guide = agent, guide
        self.env, self.horizon, self.env_name = agent.env, agent.horizon, agent.env_name
        self.seed, self.stop_flag = agent.seed, agent.stop_flag
        self.drop_paused, self._take_n_episodes = agent.drop_paused, agent._take_n_episodes
        self.transitions: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    @property
    def was_cut(self) -> bool:
        """Whether the horizon has ended an episode that would have gone on, see `Agent`."""
        return bool(self.agent.was_cut)

    @was_cut.setter
    def was_cut(self, was_cut: bool) -> None:
        self.agent.was_cut = was_cut

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action of the rule or of the careful policy."""
        if step == 0:
            self.transitions = []
        return self.guide.own_action(step, observation, info)

    def update(self, *transition: Any, **masks: Any) -> None:
        """Keep a copy of a transition until the episode ends.

        A copy is needed because environments may reuse their arrays.
        """
        self.transitions.append(copy.deepcopy((transition, masks)))

    def end_episode(self) -> None:
        """Let the agent learn from the transitions of the episode, if all of them are valid."""
        for transition, _ in self.transitions:
            self.agent.problem.check_transition(*transition[:5])
        for transition, masks in self.transitions:
            self.agent.update(*transition, **masks)
        self.transitions = []

    @property
    def n_episodes(self) -> int:
        """Number of episodes of the agent."""
        return int(self.agent.n_episodes)

    @property
    def n_balls(self) -> int:
        """Number of balls of the agent."""
        return int(self.agent.n_balls)

    @property
    def env_rng(self) -> np.random.Generator | None:
        """The generator of the environment."""
        found: np.random.Generator | None = self.agent.env_rng
        return found

    @env_rng.setter
    def env_rng(self, generator: np.random.Generator | None) -> None:
        self.agent.env_rng = generator
