"""What curves are drawn from: the runs of one agent on one problem, from histories or from the folder of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.agents.history import History
from zooming.analysis.regret import ROUNDING, Regret, best_return, optimum_error, without_error
from zooming.analysis.solve import Optimal
from zooming.errors import SpaceError
from zooming.study.store import Store
from zooming.study.values import read_values

Floats = NDArray[np.float64]
NOT_VALUED = "there are no exact values of policies: learn(checkpoints=...), or for a study zooming report --expected N"


@dataclass(frozen=True)
class Runs:
    """One agent on one problem: a row per seed, a column per episode (or per checkpoint of a study).

    `episode` counts from 1; `total_return` is the sum of returns so far. `policy_values` are exact, of the first runs, after
    the episodes in `checkpoints`; without them there is no expected regret. `error` is that of the optimum.

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
    policy_values: Floats = field(default_factory=lambda: np.empty((0, 0)))  # a row per run, a column per checkpoint

    @classmethod
    def of_histories(cls, histories: Sequence[History], optimum: float | Optimal | None = None) -> Runs:
        """Histories of one length, one per seed, as `zooming.learn_many` gives them."""
        if isinstance(histories, History) or not all(isinstance(history, History) for history in histories):
            raise SpaceError("give a list of histories, one per seed, as zooming.learn_many does; one agent at a time")
        if not histories or not all(len(history) == len(histories[0]) > 0 for history in histories):
            raise SpaceError("give histories of one length, at least one, with at least one episode")
        are_valued = all(np.array_equal(history.checkpoints, histories[0].checkpoints) for history in histories)
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
        """Returns [n_seeds, n_episodes] that came from anywhere."""
        values = np.atleast_2d(np.asarray(returns, np.float64))
        if values.ndim != 2 or not values.size or not np.isfinite(values).all():
            raise SpaceError(
                f"returns of shape {values.shape}: give finite numbers [n_seeds, n_episodes], at least one of each"
            )
        nothing = np.zeros(values.shape, np.int64)
        return cls(np.arange(1, values.shape[1] + 1), np.cumsum(values, axis=1), nothing, nothing[:, 0], optimum)

    @property
    def n_seeds(self) -> int:
        """Number of runs."""
        return len(self.total_return)

    @property
    def regret(self) -> Floats:
        """Realized R at each episode or checkpoint, 0 where it is within the error of the optimum."""
        optimum, error = self._solved()
        return without_error(optimum * self.episode - self.total_return, self.episode, error)

    @property
    def expected_regret(self) -> Floats:
        """Expected R at `checkpoints`, a row per run whose policies were valued; see `Regret.exact_cumulative`."""
        return np.array([regret.exact_cumulative for regret in self.regrets(expected=True)])

    def regrets(self, *, expected: bool = False) -> list[Regret]:
        """One `zooming.Regret` per seed; between the checkpoints of a study every episode has the same regret.

        `expected` ones are of the runs whose policies were valued, and have their exact values.
        """
        optimum, error = self._solved()
        every, known = np.arange(self.episode[-1] + 1), np.concatenate([[0], self.episode])
        realized = [np.diff(np.interp(every, known, [0.0, *row])) for row in optimum * self.episode - self.total_return]
        if not expected:
            return [Regret(per_episode, error=error) for per_episode in realized]
        if not self.policy_values.size:
            raise SpaceError(NOT_VALUED)
        exact = zip(realized, self.policy_values, strict=False)  # the first runs are valued, not all
        return [Regret(per_episode, self.checkpoints, optimum - values, error) for per_episode, values in exact]

    def _solved(self) -> tuple[float, float]:
        """Return the optimum and its error."""
        if self.optimum is None:
            raise SpaceError("regret needs the optimum: give optimum=, for example zooming.solve(env).return_")
        return self.optimum, max(self.error, ROUNDING * abs(self.optimum))


def read_study(folder: str | Path, problem: str | None = None) -> dict[str, Runs]:
    """The runs of every agent on a problem of a finished study, by the agent's label, in the study's order.

    `problem` may be left out if the study has one.
    """
    store = Store.existing(folder)
    store.check_finished()
    problems = {known.name: known for known in store.configuration.problems}
    if problem is None and len(problems) == 1:
        problem = next(iter(problems))
    if problem not in problems:
        raise SpaceError(f"problem={problem!r}: choose one of the study's, {', '.join(problems)}")
    values = read_values(folder)
    found: dict[str, Runs] = {}
    for agent in store.configuration.agents:
        runs = store.runs(problems[problem], agent)
        curves = runs["curve_total"], runs["curve_n_balls"], runs["nbytes"]
        found[agent.label] = Runs(runs["curve_episode"], *curves, store.optima()[problem])
        valued = values.get((problem, agent.label))
        if valued is not None:
            found[agent.label] = replace(
                found[agent.label],
                checkpoints=valued.checkpoints,
                policy_values=valued.values,
                error=valued.optimum_error,
            )
    return found
