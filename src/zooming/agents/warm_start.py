"""Warm start: an agent first learns from a rule that people use, and later takes over from it."""

from __future__ import annotations

import copy
from typing import Any, TypedDict

from zooming.agents.agent import Agent
from zooming.agents.guide import Guide
from zooming.agents.history import History
from zooming.errors import ConfigurationError
from zooming.validation import known_options


class WarmStartOptions(TypedDict, total=False):
    """Names and types of the options of `Agent.warm_start`. See `warm_start` for their meaning."""

    confidence: float
    loss: float | None
    margin: float
    noise: float | None
    spread: float
    bound: str
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
    noise: float | None = None,
    spread: float = 0.5,
    bound: str = "normal",
    progress_bar: bool = False,
) -> History:
    """Play a rule and learn from it.

    Later calls of `learn` keep the rule until the agent is as good. In the warm start, every second
    episode plays the rule exactly, and the others add a little noise. After it, `learn` lets the
    agent explore as long as that costs at most `loss` per episode. Otherwise it plays the rule or a
    careful policy: the rule, except where the samples of a planner (`Auto`, `Planner`) clearly
    favor another action. Every second such episode has small noise, from which the planner learns
    what is better nearby. A test on the returns decides when to let go of the rule, and the history
    records when. Until then, `predict` plays the rule, or the careful policy if that has earned
    more with the stated confidence. docs/offline.md states what is guaranteed.

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
    noise : float, optional
        Share of the steps of noisy episodes at which the action is drawn near the rule's. By
        default 0.5 / horizon, one step of every second noisy episode, but at most 0.1. With the
        default, noise stops while it has cost more than 3 % of the rule's mean return per episode.
        With 0, the careful policy gets no noise either.
    spread : float, default 0.5
        Largest distance of the noisy actions from the rule's, as a share of the range of each
        action axis. A category is drawn from all categories.
    bound : {"normal", "range"}, default "normal"
        "normal" is exact for normal returns and about right for others. "range" holds for all
        returns within the reward range, and needs far more episodes.
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
    (322, 300, False)
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
    before, n_before, generator = agent.guide, agent.n_episodes, copy.deepcopy(agent.env_rng)
    agent.guide = Guide(
        agent, rule, episodes, confidence=confidence, loss=loss, margin=margin, noise=noise,
        spread=spread, bound=bound,
    )  # fmt: skip
    try:
        return agent.learn(episodes, progress_bar=progress_bar)
    finally:
        if not agent.guide.has_played:  # the rule failed in its first episode
            agent.guide = before
            agent.env_rng = generator if agent.n_episodes == n_before else agent.env_rng
