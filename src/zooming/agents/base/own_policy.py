"""Policies that are not ready: those that a rule still guides, and untrained ones."""

from __future__ import annotations

import copy
import warnings
from typing import Any

from zooming.errors import ConfigurationError
from zooming.validation import count_own_frames


def check_let_go(agent: Any) -> None:
    """Raise ConfigurationError if a rule is still in use, because a rule cannot be exported."""
    if getattr(agent, "is_guided", False):
        raise ConfigurationError(
            f"the rule of the warm start {agent.guide.words()}, and a file cannot hold the rule. "
            "Export rules that come close to what predict plays, agent.explain().export(path); or "
            "set agent.guide = None to export the agent's own policy, which was not shown to be as "
            "good: compare zooming.evaluate(agent) before and after that"
        )


def warn_untrained(agent: Any) -> None:
    """Warn if a policy is to be exported before the agent has learned anything."""
    if agent.n_episodes == 0 and agent.n_balls:
        warnings.warn(
            f"{type(agent).__name__} has not learned from any episode yet, so the file will hold "
            "the guess that it begins with; call agent.learn(episodes) first",
            UserWarning,
            stacklevel=count_own_frames(),
        )


def own_policy(agent: Any) -> Any:
    """Return a copy of the agent without its guide, for functions that describe its own policy.

    Warn if the rule is still kept, because `predict` then plays another policy. Use the copy to
    read the policy, not to learn.
    """
    if not getattr(agent, "is_guided", False):
        return agent
    warnings.warn(
        f"the rule of the warm start {agent.guide.words()}. This is the agent's own policy, which "
        "was not shown to be as good. In Python, agent.explain() tells what predict plays, after "
        "agent.guide.set_rule(rule) if the agent was loaded",
        UserWarning,
        stacklevel=3,
    )
    found = copy.copy(agent)
    found.guide = None
    return found
