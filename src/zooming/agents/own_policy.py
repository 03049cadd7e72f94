"""The own policy of an agent that a rule still guides: refuse to export it, or warn."""

from __future__ import annotations

import copy
import warnings
from typing import Any

from zooming.errors import ConfigurationError


def check_let_go(agent: Any) -> None:
    """Raise ConfigurationError if a rule is still in use, because a rule cannot be exported."""
    if getattr(agent, "is_guided", False):
        raise ConfigurationError(
            f"the rule of the warm start {agent.guide.words()}, and a file cannot hold the rule. "
            "Export rules that come close to what predict plays, agent.explain().export(path); or "
            "set agent.guide = None to export the agent's own policy, which was not shown to be as "
            "good: compare zooming.evaluate(agent) before and after that"
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
