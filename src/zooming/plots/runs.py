"""What curves are drawn from: the runs of one agent on one problem, from histories or from the folder of a study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.errors import SpaceError
from zooming.history import History
from zooming.optimal import Optimal
from zooming.regret import Regret, best_return

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Runs:
    """One agent on one problem: a row per seed, a column per episode (or per checkpoint of a study).

    `episode` counts from 1; `total_return` is the sum of returns so far.

    >>> runs = Runs.of_returns([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], optimum=3.0)
    >>> runs.total_return[:, -1].tolist(), runs.regret[:, -1].tolist()
    ([6.0, 6.0], [3.0, 3.0])
    """

    episode: NDArray[np.int64]
    total_return: Floats
    n_balls: NDArray[np.int64]
    nbytes: NDArray[np.int64]  # at the end, one per seed
    optimum: float | None = None

    @classmethod
    def of_histories(cls, histories: Sequence[History], optimum: float | Optimal | None = None) -> Runs:
        """Histories of one length, one per seed, as `zooming.learn_many` gives them."""
        if isinstance(histories, History) or not all(isinstance(history, History) for history in histories):
            raise SpaceError("give a list of histories, one per seed, as zooming.learn_many does; one agent at a time")
        if not histories or not all(len(history) == len(histories[0]) > 0 for history in histories):
            raise SpaceError("give histories of one length, at least one, with at least one episode")
        return cls(
            np.arange(1, len(histories[0]) + 1),
            np.array([np.cumsum(history.returns) for history in histories]),
            np.array([history.n_balls for history in histories]),
            np.array([getattr(history.agent, "nbytes", 0) for history in histories]),
            None if optimum is None else best_return(optimum),
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
        """R at each episode or checkpoint; needs the optimum."""
        if self.optimum is None:
            raise SpaceError("regret needs the optimum: give optimum=, for example zooming.solve(env).return_")
        return self.optimum * self.episode - self.total_return

    def regrets(self) -> list[Regret]:
        """One `zooming.Regret` per seed; between the checkpoints of a study every episode has the same regret."""
        every = np.arange(self.episode[-1] + 1)
        known = np.concatenate([[0], self.episode])
        return [Regret(np.diff(np.interp(every, known, np.concatenate([[0.0], row])))) for row in self.regret]


def read_study(folder: str | Path, problem: str | None = None) -> dict[str, Runs]:
    """The runs of every agent on a problem of a finished study, by the agent's label, in the study's order.

    `problem` may be left out if the study has one.
    """
    try:
        import polars as pl
    except ImportError as error:
        raise ImportError("tables of studies need polars: pip install 'zooming[study]'") from error
    folder = Path(folder)
    if not (folder / "curves.parquet").exists():
        raise SpaceError(f"{folder} holds no finished study: there is no curves.parquet. zooming run writes it at the end")
    curves, results = (pl.read_parquet(folder / f"{name}.parquet") for name in ("curves", "results"))
    optima = json.loads((folder / "optima.json").read_text())
    problems = results["problem"].unique(maintain_order=True).to_list()
    if problem is None and len(problems) == 1:
        problem = problems[0]
    if problem not in problems:
        raise SpaceError(f"problem={problem!r}: choose one of the study's, {', '.join(problems)}")
    found = {}
    for label in results.filter(pl.col("problem") == problem)["agent"].unique(maintain_order=True).to_list():
        ours = (pl.col("problem") == problem) & (pl.col("agent") == label)
        curve, result = curves.filter(ours).sort("seed", "episode"), results.filter(ours).sort("seed")
        shape = len(result), -1
        found[label] = Runs(
            curve["episode"].to_numpy().reshape(shape)[0].astype(np.int64),
            curve["total_return"].to_numpy().reshape(shape),
            curve["n_balls"].to_numpy().reshape(shape),
            result["nbytes"].to_numpy(),
            optima.get(problem),
        )
    return found
