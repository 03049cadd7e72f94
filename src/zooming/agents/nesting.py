"""Save and restore agents inside another agent's file: options, values and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from zooming.agents.agent import Agent
from zooming.errors import CheckpointError
from zooming.validation import check_int, short_repr

Arrays = dict[str, NDArray[Any]]


def nested_options(agents: Sequence[Agent]) -> list[dict[str, Any]]:
    """Return class name and options of each agent.

    Raise ConfigurationError if one of them cannot be saved.
    """
    from zooming.agents import checkpoints  # imported here because checkpoints import agents

    for agent in agents:
        checkpoints.check_class(agent)
    return [{"agent": type(agent).__name__, "options": agent._options()} for agent in agents]


def build_arms(env: Any, described: list[dict[str, Any]], arrays: Arrays) -> list[Agent]:
    """Return new agents on one environment, from the output of `nested_options`."""
    from zooming.agents import checkpoints

    agents = []
    for k, one in enumerate(described):
        if one["agent"] not in checkpoints.AGENTS:
            raise CheckpointError(
                f"the file has an agent of the class {short_repr(one['agent'])} in a portfolio; "
                f"only zooming's own can be loaded there: {', '.join(checkpoints.AGENTS)}"
            )
        kind = checkpoints.AGENTS[one["agent"]]
        agents.append(kind._from_options(env, one["options"], arrays_of(k, arrays)))
    return agents


def nested_state(agents: Sequence[Agent]) -> tuple[list[dict[str, Any]], Arrays]:
    """Return what the agents have learned: JSON values, and arrays named `number/name`."""
    values, arrays = [], {}
    for k, agent in enumerate(agents):
        own, found = agent._state()
        values.append({"values": own, "n_episodes": agent.n_episodes, "n_clipped": agent.n_clipped})
        arrays.update({f"{k}/{name}": array for name, array in found.items()})
    return values, arrays


def restore_arms(agents: Sequence[Agent], values: list[dict[str, Any]], arrays: Arrays) -> None:
    """Restore the agents from `nested_state`. Raise ValueError or KeyError if it is invalid."""
    for k, (agent, one) in enumerate(zip(agents, values, strict=True)):
        agent._restore(one["values"], arrays_of(k, arrays))
        agent._take_n_episodes(check_int(one["n_episodes"], "n_episodes", 0))
        agent.clipping[1] = n_clipped = check_int(one["n_clipped"], "n_clipped", 0)
        agent.has_warned_of_clipping = n_clipped > 0


def arrays_of(k: int, arrays: Arrays) -> Arrays:
    """Return the arrays of agent number k, without the prefix `k/` of their names."""
    prefix = f"{k}/"
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
