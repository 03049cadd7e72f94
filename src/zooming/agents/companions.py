"""Check that several agents can learn together in a portfolio."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zooming.agents.agent import Agent
from zooming.errors import ConfigurationError


def check_agents(agents: Any) -> list[Agent]:
    """Return the agents as a list. Raise ConfigurationError if they cannot learn together."""
    if isinstance(agents, (str, bytes)) or not isinstance(agents, Iterable):
        raise ConfigurationError(
            f"Portfolio({agents!r}): give a list of agents, for example "
            "Portfolio([zooming.Planner(env, seed=0), zooming.AdaptiveQ(env, seed=1)])"
        )
    found = list(agents)
    if not found:
        raise ConfigurationError("Portfolio([]): give at least one agent")
    for k, agent in enumerate(found):
        if not isinstance(agent, Agent):
            raise ConfigurationError(
                f"agent {k} of the portfolio is {agent!r}; give agents of zooming, or of your own "
                "class derived from zooming.Agent"
            )
        if agent.is_guided:
            raise ConfigurationError(
                f"a rule guides agent {k} of the portfolio; warm-start the portfolio instead, or "
                "set agent.guide = None"
            )
        if agent.env is None:
            raise ConfigurationError(
                f"agent {k} of the portfolio was loaded without its environment "
                f"({agent.env_name}); give it: zooming.load(path, env=env)"
            )
        for j, other in enumerate(found[:k]):
            if agent is other:
                raise ConfigurationError(
                    f"agents {j} and {k} of the portfolio are the same object; make two"
                )
        first = found[0]
        if agent.env is not first.env:
            raise ConfigurationError(
                f"agents 0 and {k} of the portfolio have different environment objects "
                f"({first.env_name}, {agent.env_name}); make all agents with one env"
            )
        if agent.horizon != first.horizon:
            raise ConfigurationError(
                f"agents 0 and {k} of the portfolio have the horizons {first.horizon} and "
                f"{agent.horizon}; give all agents the same horizon="
            )
        if agent.rewards != first.rewards:
            raise ConfigurationError(
                f"agents 0 and {k} of the portfolio have rewards={first.rewards!r} and "
                f"{agent.rewards!r}; give all agents the same rewards="
            )
        if _geometry(agent) != _geometry(first):
            raise ConfigurationError(
                f"agents 0 and {k} of the portfolio have different axes; give all agents the same "
                "bounds, ordered and squash"
            )
    common_range(found)
    return found


def _geometry(agent: Agent) -> Any:
    options = agent.axes.options
    return agent.axes.describe(), options["bounds"], options["ordered"], options["squash"]


def common_range(agents: Sequence[Agent]) -> tuple[float, float]:
    """Return the range of rewards that all agents accept."""
    ranges = [agent.reward_range for agent in agents]
    if agents[0].rewards == "clip":  # nothing is refused
        return min(low for low, _ in ranges), max(high for _, high in ranges)
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    if low >= high:
        raise ConfigurationError(
            f"no reward lies in the reward ranges of all agents of the portfolio: {ranges}; give "
            "all the same, reward_range=(low, high)"
        )
    return low, high
