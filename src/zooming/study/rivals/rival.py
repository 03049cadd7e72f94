"""The base class of adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.agent import Agent
from zooming.errors import ConfigurationError
from zooming.kernels import LOW
from zooming.spaces.masks import Feasible
from zooming.validation import Floats


class Rival(Agent):
    """Base class of agents that wrap what people use today. Their policy answers in batches.

    An action that `info` excludes is moved to the nearest feasible one. Subclasses define
    `_policy`, `act` and `update`.
    """

    def _policy(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        """Return one flat action, feasible or not, for each step and flat state."""
        raise NotImplementedError

    def _greedy(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        low, high = self.axes.table[: self.axes.n_state, LOW], self.axes.ends[: self.axes.n_state]
        states = np.array(states)
        for k in np.flatnonzero(~((states >= low) & (states <= high)).all(axis=1)).tolist():
            states[k] = self.problem.check_point(int(steps[k]), states[k], 0)
        actions = np.array(self._policy(steps, states, deterministic, allowed))
        for k, one in enumerate(allowed):
            if one is not None:
                actions[k] = self._nearest(actions[k], one)
        return actions

    def _check_asked(self, asked: Floats | None, played: Floats) -> None:
        """Raise ConfigurationError if an action is not the one that `act` returned last.

        Learners that own their loop cannot be told of other actions.
        """
        if asked is None or not np.allclose(asked, played, rtol=1e-6, atol=1e-12):
            raise ConfigurationError(
                f"{type(self).__name__} learns only from the action that act returned last: call "
                "act, then update"
            )

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "horizon": self.horizon}
