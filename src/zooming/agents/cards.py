"""Show an agent in a notebook as a card: a table of facts and pictures of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zooming import notebook
from zooming.partitions.view import some_steps
from zooming.spaces.axes import Axes

if TYPE_CHECKING:
    from zooming.agents.agent import Agent

MOST_PICTURES = 5  # of partitions, in a notebook


def card(agent: Agent) -> str:
    """Return the agent as HTML: a table of facts, and pictures of its partitions."""
    facts = {
        "environment": agent.env_name,
        "episodes": f"{agent.n_episodes:,}",
        "horizon": agent.horizon,
        **agent._facts(),
    }
    if agent.n_clipped:
        facts["rewards clipped"] = f"{agent.n_clipped:,}"
    return notebook.card(type(agent).__name__, facts, agent._pictures())


def thumbnails(agent: Agent) -> list[str]:
    """Return pictures of the partitions of at most `MOST_PICTURES` steps."""
    return [agent.partition(step).thumbnail() for step in some_steps(agent.horizon, MOST_PICTURES)]


def shown_fact(horizon: int) -> dict[str, Any]:
    """Return a fact for the card on how many steps are shown, or {} if all are."""
    shown = f"{MOST_PICTURES} of {horizon} steps; partition(step) returns any of them"
    return {"shown": shown} if horizon > MOST_PICTURES else {}


def axes_text(axes: Axes) -> str:
    """Return one line of text with name, low and high of each axis."""
    return ", ".join(
        f"{name} in [{low:g}, {high:g}]"
        for name, low, high in zip(axes.names, axes.low, axes.high, strict=True)
    )
