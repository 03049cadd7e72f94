"""The data of learning curves: runs of one agent on one problem, from histories or a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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

NOT_VALUED = "there are no exact values of policies: learn(checkpoints=...)"


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
    checkpoints : array [m]
        The episodes after which policies were valued exactly.
    policy_values : array [n_valued, m]
        Exact policy values of the first runs. Expected regret needs them.

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
    checkpoints: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    policy_values: Floats = field(default_factory=lambda: np.empty((0, 0)))

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
        are_valued = all(
            np.array_equal(history.checkpoints, histories[0].checkpoints) for history in histories
        )
        valued = histories if are_valued and len(histories[0].checkpoints) else []
        return cls(
            np.arange(1, len(histories[0]) + 1),
            np.array([np.cumsum(history.returns) for history in histories]),
            np.array([history.n_balls for history in histories]),
            np.array([getattr(history.agent, "nbytes", 0) for history in histories]),
            None if optimum is None else best_return(optimum),
            0.0 if optimum is None else optimum_error(optimum),
            histories[0].checkpoints if valued else np.empty(0, np.int64),
            np.array([history.policy_values for history in valued]) if valued else np.empty((0, 0)),
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

    @property
    def expected_regret(self) -> Floats:
        """Expected cumulative regret [n_valued, m] at `checkpoints`."""
        return np.array([regret.exact_cumulative for regret in self.regrets(expected=True)])

    def regrets(self, *, expected: bool = False) -> list[Regret]:
        """Return one `zooming.Regret` per seed.

        The regret between two checkpoints of a study is spread evenly over the episodes.

        Parameters
        ----------
        expected : bool
            Whether to return only the runs with exact policy values, and to include these values.
        """
        optimum, error = self._solved()
        every, known = np.arange(self.episode[-1] + 1), np.concatenate([[0], self.episode])
        realized = [
            np.diff(np.interp(every, known, [0.0, *row]))
            for row in optimum * self.episode - self.total_return
        ]
        if not expected:
            return [Regret(per_episode, error=error) for per_episode in realized]
        if not self.policy_values.size:
            raise ConfigurationError(NOT_VALUED)
        exact = zip(realized, self.policy_values, strict=False)  # only the first runs are valued
        return [
            Regret(per_episode, self.checkpoints, optimum - values, error)
            for per_episode, values in exact
        ]

    def _solved(self) -> tuple[float, float]:
        """Return the optimum and its error, or raise ConfigurationError if it is not known."""
        if self.optimum is None:
            raise ConfigurationError(
                "regret needs the optimum: give optimum=, for example zooming.solve(env).return_"
            )
        return self.optimum, max(self.error, RETURN_TOLERANCE * abs(self.optimum))
