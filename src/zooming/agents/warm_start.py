"""Warm start: an agent learns from a rule that people use, and then takes over from it."""

from __future__ import annotations

import copy
from typing import Any

from zooming.agents.agent import Agent
from zooming.agents.guide import Guide
from zooming.agents.history import History
from zooming.errors import ConfigurationError
from zooming.validation import known_options


@known_options
def warm_start(
    agent: Agent,
    rule: Any,
    episodes: int = 200,
    *,
    confidence: float = 0.95,
    loss: float | None = None,
    margin: float = 0.0,
    noise: float = 0.2,
    spread: float = 0.1,
    bound: str = "normal",
    progress_bar: bool = False,
) -> History:
    """Play a rule and learn from it; `learn` then keeps it until the agent is as good.

    Every second episode is played exactly, the others with noise. From then on `learn` lets the
    agent play as long as it loses at most `loss` per episode against the rule, and the rule
    otherwise. A test on the returns lets go of the rule, and the history says when.
    docs/offline.md states what is guaranteed. `predict` is the agent's own policy;
    `agent.guide.predict` is the rule's until it is let go.

    Parameters
    ----------
    agent : Agent
        The agent that learns.
    rule : function, Agent or rule
        A function `rule(step, observation)` that returns an action, or what has `predict`: an
        agent, or the rule of a gallery problem.
    episodes : int, default 200
        Episodes of the rule at first, at least 40.
    confidence : float, default 0.95
        Probability with which the bounds on the mean returns hold.
    loss : float, optional
        Return per episode that may be lost against the rule until it is let go. By default 5 %
        of the absolute mean return of the rule.
    margin : float, default 0.0
        The rule is let go when the agent is better, or worse by at most this, in units of the
        return.
    noise : float, default 0.2
        Share of the steps of noisy episodes at which the action is drawn near the rule's.
    spread : float, default 0.1
        How near, as a share of the range of each action axis. Categories are drawn from all.
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
        If an option is wrong, another rule is in use, or the rule gives something that is no
        action.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0", noise=0.05)
    >>> agent = zooming.AdaptiveQ(env, seed=0)
    >>> history = agent.warm_start(lambda step, state: [0.5], episodes=100)
    >>> history += agent.learn(1000)
    >>> history.let_go, len(history.rule_episodes), agent.guide.is_open
    (167, 115, False)
    """
    if agent.guide is not None and agent.guide.is_open:
        raise ConfigurationError(
            f"a rule guides this agent already ({agent.guide.words()}); to end that, set "
            "agent.guide = None"
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
