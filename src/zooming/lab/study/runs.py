"""Read the runs and optima of a finished study, for plots and summaries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from zooming.analysis.regret import optimum_error
from zooming.errors import ConfigurationError
from zooming.lab.study import modules
from zooming.lab.study.chunks import N_VALUES, checkpoint_episodes
from zooming.lab.study.problems import Problem
from zooming.lab.study.store import Store
from zooming.lab.study.stored import Optima, StoredOptimum
from zooming.plots.curve_data import Runs


def read_study(folder: str | Path, problem: str | None = None) -> dict[str, Runs]:
    """Read the runs of every agent on one problem of a finished study.

    Parameters
    ----------
    folder : str or Path
        The folder of the study.
    problem : str, optional
        The name of the problem. May be omitted if the study has only one.

    Returns
    -------
    dict of Runs
        By label of the agent, in the order of the study.

    Raises
    ------
    ConfigurationError
        If the study is not finished or has no such problem.

    Examples
    --------
    >>> import tempfile, zooming
    >>> study = zooming.Study(["oil-laplace-1"], ["adaptive-q"], episodes=20, seeds=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = study.run(folder, workers=1)
    ...     runs = read_study(folder)
    >>> list(runs), runs["adaptive-q"].n_seeds, int(runs["adaptive-q"].episode[-1])
    (['adaptive-q'], 2, 20)
    """
    store = Store.of_folder(folder)
    store.check_finished()
    problems = {known.name: known for known in store.configuration.problems}
    if problem is None and len(problems) == 1:
        problem = next(iter(problems))
    if problem not in problems:
        raise ConfigurationError(
            f"problem={problem!r}: choose one of the study's, {', '.join(problems)}"
        )
    optimum, found = find_optima(store)[problem], dict[str, Runs]()
    for agent in store.configuration.agents:
        runs = store.runs(problems[problem], agent)
        curves = runs["curve_total"], runs["curve_n_balls"], runs["nbytes"]
        found[agent.label] = Runs(runs["curve_episode"], *curves, optimum and optimum.return_)
        chunks = [c for c in store.configuration.chunks_of(problems[problem], agent) if c.n_valued]
        if optimum is None or not chunks:
            continue
        values = np.concatenate([store.read(chunk)["policy_values"] for chunk in chunks])
        if len(values):
            found[agent.label] = replace(
                found[agent.label],
                checkpoints=checkpoint_episodes(store.configuration.episodes, N_VALUES),
                policy_values=values,
                error=optimum.error,
            )
    return found


def find_optima(store: Store) -> Optima:
    """Return {problem: optimum}. The optimum is None if the problem cannot be solved.

    New optima are written to the folder if it is open for writing.
    """
    optima = store.optima()
    if optima is None:
        problems, precision = store.configuration.problems, store.configuration.optimum
        optima = {one.name: _solve(one, precision, store.is_open) for one in problems}
        if store.is_open:
            store.write_optima(optima)
    return optima


def _solve(problem: Problem, precision: str, is_strict: bool) -> StoredOptimum | None:
    """Solve a problem. If that fails, return None, or raise the error if `is_strict`."""
    try:
        modules.find_id(problem.env_id)
        optimal = problem.optimal(precision)
    except Exception:  # a user's environment may raise anything
        if is_strict:
            raise
        return None  # a reader shows the rest
    if optimal is None:
        return None
    return StoredOptimum(float(optimal.return_), optimum_error(optimal))
