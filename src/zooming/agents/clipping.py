"""Clipped rewards: their count, the warning, and the words for them in a repr."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from zooming.validation import count_own_frames

if TYPE_CHECKING:
    from zooming.agents.agent import Agent


def count_clipped(agent: Agent) -> None:
    """Count one clipped reward, and warn of the first."""
    agent.clipping[1] += 1
    warn_of_clipping(agent)


def warn_of_clipping(agent: Agent) -> None:
    """Warn once per agent, when the first reward was clipped."""
    if agent.clipping[1] and not agent.has_warned_of_clipping:
        agent.has_warned_of_clipping = True
        low, high = agent.reward_range
        warnings.warn(
            f"{agent.env_name}: a reward outside the reward range [{low}, {high}] was clipped, "
            "and so will be others; "
            "agent.n_clipped counts them, and zooming.reward_range(env, "
            f"horizon={agent.horizon}) proposes a wider range",
            stacklevel=count_own_frames(),
        )


def clipping_text(agent: Agent) -> str:
    """Return how many rewards were clipped, as the end of a sentence; "" if none was."""
    return f", {agent.n_clipped:,} rewards clipped" if agent.n_clipped else ""
