"""Base class of agents that use the policy of another agent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.agent import Agent
from zooming.partitions.view import Partition
from zooming.spaces.masks import Feasible
from zooming.validation import Floats


class Delegate(Agent):
    """Base class of agents that take policy, Q and balls from another agent, `recommended`."""

    @property
    @abstractmethod
    def recommended(self) -> Agent:
        """The agent whose policy `predict` plays."""

    @property
    def interpolates(self) -> bool:  # type: ignore[override]
        """Whether the recommended policy's action varies within a ball."""
        return self.recommended.interpolates

    def _greedy(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        return self.recommended._greedy(steps, states, deterministic, allowed)

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        """Return V(x) of the recommended agent."""
        return self.recommended.value(step, observation, info=info)

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        """Return Q of the recommended agent."""
        return self.recommended.q_value(step, observation, action)

    def visits(self, step: int, observation: Any, action: Any) -> int:
        """Return the visits of the recommended agent's ball or cell."""
        return self.recommended.visits(step, observation, action)

    def partition(self, step: int) -> Partition:
        """Return the balls or cells of the recommended agent."""
        return self.recommended.partition(step)
