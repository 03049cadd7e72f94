"""The data of learning curves: runs of one agent on one problem, from histories or a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.agents.training.history import History
from zooming.analysis.optimal import Optimal
from zooming.analysis.regret import (
    RETURN_TOLERANCE,
    Regret,
    best_return,
    optimum_error,
    zero_below_error,
)
from zooming.errors import ConfigurationError
from zooming.validation import Floats


@dataclass(frozen=True)
class Runs:
    """The runs of one agent on one problem, one row per seed.

    Parameters
    ----------
    episode : array [n]
        The episodes of the columns, counted from 1: all episodes, or the checkpoints of a study.
    total_return : array [n_seeds, n]
        The sum of the returns up to each episode.
    n_balls : array [n_seeds, n]
        The number of active balls, summed over the steps.
    nbytes : array [n_seeds]
        The memory of the agent after the last episode.
    optimum : float, optional
        The optimal return. Regret needs it.
    error : float
        The error of the optimum.

    Examples
    --------
    >>> runs = Runs.of_returns([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], optimum=3.0)
    >>> runs.total_return[:, -1].tolist(), runs.regret[:, -1].tolist()
    ([6.0, 6.0], [3.0, 3.0])
    """

    episode: NDArray[np.int64]
    total_return: Floats
    n_balls: NDArray[np.int64]
    nbytes: NDArray[np.int64]  # at the end, one per seed
    optimum: float | None = None
    error: float = 0.0

    @classmethod
    def of_histories(
        cls, histories: Sequence[History], optimum: float | Optimal | None = None
    ) -> Runs:
        """Return the runs in several histories, one per seed.

        Parameters
        ----------
        histories : sequence of History
            One per seed and all of the same length, as `zooming.learn_many` returns them.
        optimum : float or Optimal, optional
            The optimal return.
        """
        if isinstance(histories, History) or not all(
            isinstance(history, History) for history in histories
        ):
            raise ConfigurationError(
                "histories must be a list of History, one per seed of one agent, as "
                "zooming.learn_many returns it"
            )
        if not histories or not all(len(history) == len(histories[0]) > 0 for history in histories):
            raise ConfigurationError(
                "histories must hold at least one History, and all must have the same number of "
                "episodes, at least one"
            )
        return cls(
            np.arange(1, len(histories[0]) + 1),
            np.array([np.cumsum(history.returns) for history in histories]),
            np.array([history.n_balls for history in histories]),
            np.array([getattr(history.agent, "nbytes", 0) for history in histories]),
            None if optimum is None else best_return(optimum),
            0.0 if optimum is None else optimum_error(optimum),
        )

    @classmethod
    def of_returns(cls, returns: ArrayLike, optimum: float | None = None) -> Runs:
        """Return the runs in an array of returns. Numbers of balls and bytes are 0.

        Parameters
        ----------
        returns : array [n_seeds, n_episodes]
            Finite returns.
        optimum : float, optional
            The optimal return.
        """
        values = np.atleast_2d(np.asarray(returns, np.float64))
        if values.ndim != 2 or not values.size or not np.isfinite(values).all():
            raise ConfigurationError(
                f"returns of shape {values.shape}: give finite numbers [n_seeds, n_episodes], at "
                "least one of each"
            )
        nothing = np.zeros(values.shape, np.int64)
        episode = np.arange(1, values.shape[1] + 1)
        return cls(episode, np.cumsum(values, axis=1), nothing, nothing[:, 0], optimum)

    @property
    def n_seeds(self) -> int:
        """The number of runs."""
        return len(self.total_return)

    @property
    def regret(self) -> Floats:
        """Realized cumulative regret [n_seeds, n]; 0 where it is within the optimum's error."""
        optimum, error = self._solved()
        return zero_below_error(optimum * self.episode - self.total_return, self.episode, error)

    def regrets(self) -> list[Regret]:
        """Return one `zooming.Regret` per seed.

        The regret between two checkpoints of a study is spread evenly over the episodes.
        """
        optimum, error = self._solved()
        every, known = np.arange(self.episode[-1] + 1), np.concatenate([[0], self.episode])
        return [
            Regret(np.diff(np.interp(every, known, [0.0, *row])), error=error)
            for row in optimum * self.episode - self.total_return
        ]

    def _solved(self) -> tuple[float, float]:
        """Return the optimum and its error, or raise ConfigurationError if it is not known."""
        if self.optimum is None:
            raise ConfigurationError(
                "regret needs the optimum: give optimum=, for example zooming.solve(env).return_"
            )
        return self.optimum, max(self.error, RETURN_TOLERANCE * abs(self.optimum))
