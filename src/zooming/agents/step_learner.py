"""What a class of agents defines: act, update, and what is saved; with checks of the inputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from zooming.agents.clipping import count_clipped
from zooming.agents.policy import LearnedPolicy
from zooming.agents.replay import Transitions, update_each
from zooming.agents.stored_options import build_agent, fixed_options_of, options_of
from zooming.validation import as_float

if TYPE_CHECKING:
    from zooming.agents.agent import Agent


class StepLearner(LearnedPolicy):
    """Base class of `Agent` with the methods that a subclass defines or calls.

    A subclass defines `act` and `update`. To be saved, it also defines `_state` and `_restore`.
    Every instance is an `Agent`; the casts below tell mypy so.
    """

    clipping: NDArray[np.int64]  # whether to clip rewards, number clipped
    _n_episodes: int

    # --- one step at a time -----------------------------------------------------------------------

    @abstractmethod
    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action to play while learning.

        Parameters
        ----------
        step : int
            Step of the episode, from 0.
        observation : Any
            The observation of the environment.
        info : dict, optional
            Info of the observation. `action_mask`, `action_low` and `action_high` in it
            restrict the action, see `zooming.spaces.masks`.
        """

    @abstractmethod
    def update(
        self,
        step: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool = False,
        *,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        """Learn from one transition. A TransitionError leaves the agent unchanged.

        Parameters
        ----------
        step, observation, action
            Step of the episode, from 0, the observation, and the action that was played.
        reward : float
            The reward of the step.
        next_observation : Any
            The observation after the step.
        terminated : bool, default False
            Whether the environment ended the episode. The value of the next observation is then 0.
        next_info : dict, optional
            Info of the next observation. If it restricts actions, only feasible ones count for the
            value of the next observation.
        """

    def _learn_transitions(
        self, recorded: Transitions, done: NDArray[np.int64] | None = None
    ) -> None:
        """Learn from recorded transitions. The result equals calling `update` for each in order.

        If a transition is bad, TransitionError is raised and the ones before it stay learned.
        done[0] counts the learned transitions. After an interrupt, learning resumes there.
        """
        update_each(cast("Agent", self), recorded, done)

    # --- episodes ---------------------------------------------------------------------------------

    @property
    def n_episodes(self) -> int:
        """Number of episodes begun. The agent counts an episode at its update of step 0.

        In an agent class of your own, learn() counts the episodes. If an interrupt stops an episode
        at a split, the next learn() continues that episode, and it counts when it is finished.
        """
        return self._n_episodes

    def _take_n_episodes(self, n: int) -> None:
        """Set the number of episodes, given by learn() or a file.

        Agents that count their episodes themselves ignore it.
        """
        self._n_episodes = n

    def drop_paused(self) -> None:
        """Drop an episode paused for a split."""
        return  # most agents have none

    # --- inputs -----------------------------------------------------------------------------------

    def checked_state(self, step: int, observation: Any) -> NDArray[np.float64]:
        """Return the observation as a float64 vector in its bounds. Rounding errors are clipped.

        Parameters
        ----------
        step : int
            Step of the episode, from 0.
        observation : Any
            An observation of the environment.

        Raises
        ------
        TransitionError
            If the observation is not a state of the environment, or `step` is outside the episode.
        """
        problem = self.problem
        step = problem.check_step(step)
        return problem.check_point(step, problem.flat_state(step, observation), 0)

    def checked_transition(
        self, step: int, observation: Any, action: Any, reward: float, next_observation: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64]]:
        """Return (state, action, reward, next state), each validated like `checked_state`.

        With `rewards="clip"`, a reward outside the range is clipped and counted.

        Parameters
        ----------
        step, observation, action, reward, next_observation
            The transition, as `update` takes it.

        Raises
        ------
        TransitionError
            If a value is invalid.
        """
        checked = self.problem.check_transition(step, observation, action, reward, next_observation)
        if checked[2] != as_float(reward):
            count_clipped(cast("Agent", self))
        return checked

    @property
    def n_clipped(self) -> int:
        """Number of rewards that were clipped; 0 with `rewards="refuse"`."""
        return int(self.clipping[1])

    # --- files ------------------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        """Return the keyword arguments that rebuild this agent, as JSON values."""
        return options_of(self)

    def _fixed_options(self) -> dict[str, Any]:
        """Return the options that the class of this agent sets itself, as JSON values."""
        return fixed_options_of(self)

    def _known_options(self) -> dict[str, Any]:
        """Return the options of zooming's own classes that this agent has, as JSON values."""
        return {**self.problem.options, "seed": self.seed}

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what was learned as JSON values and arrays."""
        raise NotImplementedError

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Restore what `_state` returned; raise ValueError or KeyError if it is invalid."""
        raise NotImplementedError

    @classmethod
    def _from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        """Return a new agent with those of the options that its constructor accepts.

        `_restore` then restores what was learned.
        """
        return build_agent(cls, env, options)
