"""Count clipped rewards, warn about them, and mention them in a repr."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from zooming.validation import count_own_frames

if TYPE_CHECKING:
    from zooming.agents.agent import Agent


def count_clipped(agent: Agent) -> None:
    """Count one clipped reward. Warn if it is the first one."""
    agent.clipping[1] += 1
    warn_of_clipping(agent)


def warn_of_clipping(agent: Agent) -> None:
    """Warn that rewards are clipped, once per agent."""
    if agent.clipping[1] and not agent.has_warned_of_clipping:
        agent.has_warned_of_clipping = True
        low, high = agent.reward_range
        warnings.warn(
            f"{agent.env_name}: a reward outside the reward range [{low}, {high}] was clipped, "
            "and others will be, too; "
            "agent.n_clipped counts them, and zooming.reward_range(env, "
            f"horizon={agent.horizon}) proposes a wider range",
            stacklevel=count_own_frames(),
        )


def clipping_text(agent: Agent) -> str:
    """Return the number of clipped rewards as text for a repr, such as ", 3 rewards clipped".

    The text is empty if none was clipped.
    """
    return f", {agent.n_clipped:,} rewards clipped" if agent.n_clipped else ""
