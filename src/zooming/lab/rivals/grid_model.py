"""A model on a grid with backward induction, as practitioners write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.agents.base.delegates import Delegate
from zooming.lab.relatives.model_based import NetMB
from zooming.lab.rivals.bins import MOST_BINS, ActionGrid
from zooming.validation import check_float, check_int


class GridModel(Delegate):
    """Estimate a model on a grid, plan by backward induction, and act epsilon-greedily.

    It uses the model of `NetMB` without a bonus. Each axis has `bins` equal cells. The model has
    the mean reward of each cell of states and actions, and counts how often each cell of states
    followed. After every episode it is solved from the last step to the first. A cell that was
    never tried keeps the largest possible value. So each cell is tried once, as in R-max. Actions
    are the centers of cells.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    bins : int, default 10
        Cells of each axis.
    epsilon : float, default 0.1
        Probability of a random action while learning.
    **options
        Options of `Agent`: horizon, reward_range, rewards, bounds, ordered, squash, weights,
        names, seed.

    Examples
    --------
    >>> import gymnasium as gym
    >>> agent = GridModel(gym.make("zooming/Oil-v0"), bins=5, seed=0)
    >>> history = agent.learn(200)
    >>> agent.n_balls  # 5 steps, 5 cells of states, 5 actions
    125
    """

    def __init__(self, env: Any, *, bins: int = 10, epsilon: float = 0.1, **options: Any) -> None:
        super().__init__(env, **options)
        self.bins = check_int(bins, "bins", 1, MOST_BINS)
        self.epsilon = check_float(epsilon, "epsilon", 0.0, 1.0)
        self.model = NetMB(env, spacing=1.0 / self.bins, bonus=0.0, **self._known_options())
        self._grid = ActionGrid(self.axes, self.bins, centers=True)
        self._generator = np.random.Generator(
            np.random.PCG64(seeds.seed_sequence(self.seed, "exploration"))
        )

    @property
    def recommended(self) -> Agent:
        """The model agent, whose greedy policy `predict` plays."""
        return self.model

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the planned action or, with probability `epsilon`, a random action of the grid."""
        planned = self.model.act(step, observation, info=info)
        if self._generator.random() >= self.epsilon:
            return planned
        allowed = self._feasible(step, info)
        drawn = self._generator.choice(self._grid.feasible(allowed))
        return self.axes.shaped_action(self._nearest(self._grid.actions[drawn].copy(), allowed))

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
        """Let the model count one transition."""
        self.model.update(
            step, observation, action, reward, next_observation, terminated, next_info=next_info
        )

    @property
    def n_episodes(self) -> int:
        """Number of episodes begun."""
        return self.model.n_episodes

    def _take_n_episodes(self, n: int) -> None:
        self.model._take_n_episodes(n)

    @property
    def n_clipped(self) -> int:
        """Number of rewards that were clipped."""
        return self.model.n_clipped

    counted = "cells"

    @property
    def n_balls(self) -> int:
        """Number of cells of states and actions, summed over all steps."""
        return self.model.n_balls

    @property
    def nbytes(self) -> int:
        """Memory of the model in bytes."""
        return self.model.nbytes

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values, arrays = self.model._state()
        return {"model": values, "generator": self._generator.bit_generator.state}, arrays

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.model._restore(values["model"], arrays)
        self._generator.bit_generator.state = values["generator"]
