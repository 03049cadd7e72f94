"""Base class of agents that model their balls and plan: NetMB and AdaptiveMB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zooming import kernels
from zooming.agents.q_learner import QLearner
from zooming.bonuses import Doubling
from zooming.errors import ConfigurationError
from zooming.kernels import models
from zooming.partitions.modeled import Estimates
from zooming.spaces.masks import has_mask
from zooming.validation import check_choice

PLANNING = ("full", "one-step")


class ModelLearner(QLearner):
    """Base class of agents with a model of rewards and next states for each ball.

    See `kernels.models`.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    planning : {"full", "one-step"}, default "full"
        Plan for all balls after each episode, or for each ball when it is visited.
    monotone : bool
        Forbid that Q and V rise.
    **options
        Options of `QLearner`.
    """

    def __init__(self, env: Any, *, planning: str, monotone: bool, **options: Any) -> None:
        self.planning = check_choice("planning", planning, PLANNING)
        if not isinstance(monotone, bool):
            raise ConfigurationError(f"monotone={monotone!r}: give True or False")
        self.monotone = monotone
        super().__init__(env, **options)  # last: `NetQ` makes its table there

    def make_core(self, *arguments: Any, **options: Any) -> Any:
        core = super().make_core(*arguments, **options)
        core["learning"] = kernels.MODEL
        if core["bonus_rule"][0] != kernels.SCALED or isinstance(self.bonus, Doubling):
            raise ConfigurationError(
                f"{type(self).__name__} needs a bonus of the form c / sqrt(n), and bonus="
                f"{self.bonus} has another form; give a number, or bonuses.Theory"
            )
        return core

    def model(self, step: int) -> Estimates:
        """Return the estimated rewards and next states of the balls of a step.

        Parameters
        ----------
        step : int
            The step, from 0.

        Returns
        -------
        Estimates
            `n_visits` and mean `reward` of each ball, in the order of `partition(step)`.
            `next_state` [ball, cell] is the share of visits that led to each cell of states. The
            corners of the cells in the unit cube are `low` and `high`. A visit that ended the
            episode led to no cell.
        """
        found: Estimates = self.table.estimates(self.problem.check_step(step))
        return found

    def _act(self, step: int, observation: Any, info: Mapping[str, Any] | None, keeps: bool) -> Any:
        if step == 0 and info and has_mask(info):
            self.checked_state(step, observation)
            models.plan(self.table.handle)
        return super()._act(step, observation, info, keeps)
