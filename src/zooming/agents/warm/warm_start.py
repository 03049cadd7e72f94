"""Warm start: an agent first learns from a rule that people use, and later takes over from it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import rules
from zooming.agents.base.status import Status
from zooming.agents.training.history import History, RunArrays
from zooming.agents.warm.ledger import LEAST, SQUARES, Ledger, N
from zooming.errors import ConfigurationError
from zooming.spaces.masks import split_info
from zooming.validation import ANY_REWARD, known_options
from zooming.version import __version__

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent


class WarmStartOptions(TypedDict, total=False):
    """Names and types of the options of `Agent.warm_start`. See `warm_start` for their meaning."""

    confidence: float
    loss: float | None
    margin: float
    progress_bar: bool


@known_options
def warm_start(
    agent: Agent,
    rule: Any,
    episodes: int = 200,
    *,
    confidence: float = 0.95,
    loss: float | None = None,
    margin: float = 0.0,
    progress_bar: bool = False,
) -> History:
    """Play a rule and learn from it.

    Later calls of `learn` let the agent explore as long as that costs at most `loss` per episode.
    Otherwise the rule plays. A test on the returns decides when to let go of the rule, and the
    history records when. Until then, `predict` plays the rule. docs/offline.md states what is
    guaranteed.

    Parameters
    ----------
    agent : Agent
        The agent that learns.
    rule : function, Agent or rule
        A function `rule(step, observation)` that returns an action, or an object with `predict`:
        an agent, or the rule of a gallery problem.
    episodes : int, default 200
        Number of episodes that the rule plays first, at least 40.
    confidence : float, default 0.95
        Probability with which the bounds on the mean returns hold.
    loss : float, optional
        How much of the return exploring may lose per episode, compared with the rule, until the
        rule is let go. By default 0.5 % of the absolute mean return of the rule.
    margin : float, default 0.0
        The rule is let go when the agent is better than it, or worse by at most this much return.
    progress_bar : bool, default False
        Show a progress bar. Needs rich.

    Returns
    -------
    History
        The episodes that the rule played.

    Raises
    ------
    ConfigurationError
        If an option is wrong, another rule is in use, or the rule returns an invalid action.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0", noise=0.05)
    >>> agent = zooming.AdaptiveQ(env, seed=0)
    >>> history = agent.warm_start(lambda step, state: [0.5], episodes=100)
    >>> history += agent.learn(1000)
    >>> history.let_go, len(history.rule_episodes), agent.guide.is_open
    (518, 461, False)
    """
    if agent.is_guided:
        raise ConfigurationError(
            f"a rule guides this agent already ({agent.guide.words()}); learn goes on with it, and "
            "agent.guide = None ends it"
        )
    if rule is None or rule is agent:
        raise ConfigurationError(
            f"rule={'None' if rule is None else 'the agent itself'}: give another agent, or a "
            "function rule(step, observation)"
        )
    before, n_before, generator = agent.guide, agent.n_episodes, copy.deepcopy(agent.run.env_rng)
    agent.guide = Guide(agent, rule, episodes, confidence=confidence, loss=loss, margin=margin)
    try:
        return agent.learn(episodes, progress_bar=progress_bar)
    finally:
        if agent.n_episodes == n_before:  # the rule failed in its first episode
            agent.guide, agent.run.env_rng = before, generator


class Guide:
    """Play the rule of a warm start until it is let go. See `Agent.warm_start`.

    In training loops of your own, call `act` and `update` of the guide, not those of the agent.

    Parameters
    ----------
    agent : Agent
        The learner.
    rule : function or Agent
        The rule.
    episodes : int
        Number of episodes that the rule plays first.
    **options
        The options confidence, loss and margin of `Agent.warm_start`.
    """

    def __init__(self, agent: Any, rule: Any, episodes: int, **options: Any) -> None:
        self.agent = agent
        self.rule = None if rule is None else rules.as_function(rule, "rule")
        self.ledger = Ledger(episodes, least_return=_least_return(agent), **options)
        self.n_before = agent.n_episodes  # episodes of the agent before the warm start
        self.plays_rule = True  # in the episode that `act` and `update` play
        self._total: float | None = None  # return so far of that episode

    @property
    def is_open(self) -> bool:
        """Whether the rule is still in use, that is, has not been let go."""
        return self.ledger.is_open

    @property
    def n_played(self) -> int:
        """Number of the agent's episodes since the warm start began, those of the rule included."""
        return int(self.agent.n_episodes - self.n_before)

    def set_rule(self, rule: Any) -> None:
        """Set the rule again after loading the agent from a file, which does not hold the rule."""
        self.rule = rules.as_function(rule, "rule")

    # --- playing ----------------------------------------------------------------------------------

    def rule_action(self, step: int, observation: Any, info: Mapping[str, Any] | None) -> Any:
        """Return the action of the rule, validated and made feasible."""
        if self.rule is None:
            raise ConfigurationError(
                "this agent was saved while a rule guided it, and a file does not hold the rule; "
                "give it again: agent.guide.set_rule(rule), or drop it: agent.guide = None"
            )
        return self.agent.axes.shaped_action(
            rules.rule_action(self.agent, self.rule, step, observation, info)
        )

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action of the rule or the agent: of the one that plays.

        The arguments are those of `Agent.act`.
        """
        if self.agent.problem.check_step(step) == 0:
            self.agent.checked_state(step, observation)  # raise before anything changes
            self._close()
            self.plays_rule = self.ledger.plays_rule()
            if self.plays_rule:
                self.agent.drop_paused()
        if self.plays_rule:
            return self.rule_action(step, observation, info)
        return self.agent.act(step, observation, **({"info": info} if info else {}))

    def update(
        self,
        step: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool = False,
        truncated: bool = False,
        *,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        """Let the agent learn from one transition. At the end of an episode, count its return.

        The arguments are those of `Agent.update`. If `truncated` is not passed, a truncated episode
        is counted when the next one begins.
        """
        masks = {"next_info": next_info} if next_info else {}
        agent = self.agent
        agent.update(step, observation, action, reward, next_observation, terminated, **masks)
        if step == 0:  # only an episode with an update counts
            self._total = 0.0
        if self._total is not None:
            self._total += float(reward)
        if terminated or truncated or step + 1 == agent.horizon:
            self._close()

    def _close(self) -> None:
        """Count the return of an episode that was played with `act` and `update`."""
        if self._total is not None:
            self.ledger.credit(self._total, self.plays_rule)
        self._total = None

    def drop_open(self) -> None:
        """Forget an unfinished episode that was played with `act` and `update`."""
        self._total = None

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        info: Any = None,
    ) -> tuple[Any, NDArray[np.int64]]:
        """Return the action of the rule or, once the rule is let go, of the agent.

        The arguments are those of `Agent.predict`, which calls this method until the rule is let
        go. The rule is deterministic.
        """
        agent, axes = self.agent, self.agent.axes
        if not self.is_open:
            found: tuple[Any, NDArray[np.int64]] = agent.predict(
                observation, state, episode_start, deterministic, info=info
            )
            return found
        steps, _, is_batch = agent.problem.check_steps(observation, state, episode_start)
        states = axes.states.batch(observation, "observation")[0]
        infos = split_info(info, len(steps), is_batch)
        actions = [
            axes.actions.flat(self.rule_action(step, axes.states.shaped(states[k]), one), "action")
            for k, (step, one) in enumerate(zip(steps.tolist(), infos, strict=True))
        ]
        return axes.shaped_action(np.array(actions) if is_batch else actions[0]), steps + 1

    # --- words ------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return who plays and why, the budget and the test. `print` shows one entry per line."""
        ledger = self.ledger
        plays_rule = ledger.plays_rule()
        if not ledger.is_open:
            why = "the rule was let go"
        elif ledger.n_returns < ledger.n_warm:
            why = "the warm start is not over"
        elif plays_rule:
            why = "for comparison, or because exploring would cost too much"
        else:
            why = "exploring is within the allowed loss"
        by_rule, own = int(ledger.of_rule[N]), self.n_played - int(ledger.of_rule[N])
        return Status(
            {
                "plays": "the rule" if plays_rule else "the agent",
                "why": why,
                "episodes": f"{by_rule:,} of the rule, {own:,} of the agent",
                **ledger.facts(),
                "predict plays": "the rule" if ledger.is_open else "the agent's policy",
            }
        )

    def words(self) -> str:
        """Return text that completes "the rule ...", such as "let go after 322 episodes"."""
        if self.is_open:
            return "is kept: predict plays the rule"
        return f"let go after {self.ledger.let_go:,} episodes"

    def __repr__(self) -> str:
        return f"Guide(the rule {self.words()})"

    # --- copies and files -------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "rule": None}  # as in a file: functions may not be picklable

    def __deepcopy__(self, memo: dict[int, Any]) -> Guide:
        memo[id(self)] = found = type(self).__new__(type(self))
        vars(found).update(copy.deepcopy(self.__getstate__(), memo))
        found.rule = self.rule
        return found

    def state(self) -> dict[str, Any]:
        """Return the state to save as JSON values, without the rule and an unfinished episode."""
        return {**self.ledger.state(), "n_before": self.n_before}

    @classmethod
    def from_state(cls, agent: Any, kept: dict[str, Any]) -> Guide:
        """Return a guide with the saved `state`. Raise ValueError if it is invalid."""
        if "counts" in kept:
            kept = _simplified(kept, agent.n_episodes)
        found = cls(agent, None, 2 * LEAST, **kept["options"])
        found.ledger.restore(kept)
        if type(kept["n_before"]) is not int or not 0 <= kept["n_before"] <= agent.n_episodes:
            raise ValueError("the episodes of the guide are invalid")
        found.n_before = kept["n_before"]
        return found


class Guided:
    """Driver of learn() after a warm start: plays each episode by the rule or by the agent.

    Parameters
    ----------
    agent : Agent
        The agent, which has a guide.
    own : driver
        The driver for the agent's own episodes.
    by_rule : function
        Returns a driver for the rule's episodes, given the object that acts and the log.
    log : RunArrays
        The arrays of this call of learn().
    """

    def __init__(
        self, agent: Any, own: Any, by_rule: Callable[[Any, RunArrays], Any], log: RunArrays
    ) -> None:
        self.agent, self.own, self.by_rule, self.log = agent, own, by_rule, log

    def play(self, end: int, advance: Callable[[int], None]) -> None:
        """Play until the log has `end` episodes."""
        log, guide = self.log, self.agent.guide
        if guide is not None:  # a callback may have ended the warm start
            guide.drop_open()
            while guide.is_open and (first := int(log.done[0])) < end:
                plays_rule = guide.ledger.plays_rule()
                run = self.by_rule(RuleSide(self.agent, guide), log) if plays_rule else self.own
                try:
                    run.play(first + 1, advance)
                finally:  # an interrupt may come between two episodes
                    if log.done[0] > first:
                        log.rule_episodes += [first + 1] * plays_rule
                        guide.ledger.credit(float(log.returns[first]), plays_rule)
                        log.let_go = None if guide.is_open else first + 1
        self.own.play(end, advance)


class RuleSide:
    """Take the agent's place in a driver: play the rule for it.

    The agent learns from each episode when it has ended. If the rule raises an error within an
    episode, the agent learns nothing from that episode.

    Parameters
    ----------
    agent : Agent
        The agent, which learns.
    guide : Guide
        The guide, which has the rule.
    """

    def __init__(self, agent: Any, guide: Guide) -> None:
        self.agent, self.guide = agent, guide
        self.transitions: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agent, name)

    def __setattr__(self, name: str, value: Any) -> None:
        is_own = name in ("agent", "guide", "transitions")
        object.__setattr__(self if is_own else self.agent, name, value)

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action of the rule."""
        if step == 0:
            self.transitions = []
        return self.guide.rule_action(step, observation, info)

    def update(self, *transition: Any, **masks: Any) -> None:
        """Keep a transition until the episode ends. An environment may reuse masks: copy them."""
        self.transitions.append((transition, copy.deepcopy(masks)))

    def end_episode(self) -> None:
        """Let the agent learn from the transitions of the episode, if all of them are valid."""
        for transition, _ in self.transitions:
            self.agent.problem.check_transition(*transition[:5])
        for transition, masks in self.transitions:
            self.agent.update(*transition, **masks)
        self.transitions = []


def _least_return(agent: Any) -> float:
    """Return the least possible return, of episodes that may end early."""
    low, high = agent.reward_range
    if getattr(agent, "_known_range", agent.reward_range) is None:
        return -math.inf  # `Auto` has made up a range for its trees
    if (low, high) == ANY_REWARD or agent.rewards != "refuse":
        return -math.inf
    return float(agent.horizon * min(low, 0.0))


def _simplified(kept: dict[str, Any], n_episodes: int) -> dict[str, Any]:
    """Return the state of a file that has five players as one of the rule and the agent.

    Episodes of the other players are not counted: they earn and use none of the allowed loss.
    """
    n_warm, _, _, _, n_played, let_go, _ = kept["counts"]
    if kept["options"]["bound"] != "normal" and not let_go:
        raise ValueError(
            f'its warm start has bound="range", which zooming {__version__} no longer reads; set '
            "agent.guide = None in the version that wrote the file, and save it again"
        )
    return {
        "options": {name: kept["options"][name] for name in ("confidence", "loss", "margin")},
        "of_rule": kept["of_rule"][: SQUARES + 1],
        "windows": [window[: SQUARES + 1] for window in kept["windows"]],
        "n_warm": n_warm - int(kept["of_noisy"][N]),
        "n_before": 0 if let_go else n_episodes - n_played,
        "let_go": let_go,
    }
