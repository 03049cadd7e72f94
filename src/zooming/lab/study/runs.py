"""Read the runs of a finished study, for plots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from zooming.errors import ConfigurationError
from zooming.lab.study.store import Store
from zooming.lab.study.values import find_optima, read_values
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
    values, optimum = read_values(folder), find_optima(store)[problem]
    found: dict[str, Runs] = {}
    for agent in store.configuration.agents:
        runs = store.runs(problems[problem], agent)
        curves = runs["curve_total"], runs["curve_n_balls"], runs["nbytes"]
        found[agent.label] = Runs(runs["curve_episode"], *curves, optimum and optimum.return_)
        valued = values.get((problem, agent.label))
        if valued is not None:
            found[agent.label] = replace(
                found[agent.label],
                checkpoints=valued.checkpoints,
                policy_values=valued.values,
                error=valued.optimum_error,
            )
    return found
