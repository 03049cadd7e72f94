"""Exact values of the policies of a finished study, for its expected regret.

A study keeps returns, which are cheap. The value of a policy takes about as long as a whole run, so it is computed
afterwards, for the first runs of each agent: they are trained again, the same to the last bit, and valued at checkpoints.
The file is a checksummed container like a chunk, so an edited number never reaches the regret.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents import files, seeds
from zooming.analysis.evaluate import evaluate
from zooming.analysis.regret import optimum_error
from zooming.errors import CheckpointError, SpaceError, ZoomingError
from zooming.study.problems import AgentChoice, Problem
from zooming.study.runs import Configuration, checkpoints
from zooming.study.store import Store

Floats = NDArray[np.float64]
VALUES = "values.zoom"  # in the folder of a study
N_VALUES = 16  # checkpoints of a run
# Outcomes of chance along one axis: within 0.003 of `evaluate`'s 400 on the paper's problems, in a twentieth of the time.
N_OUTCOMES = 64


@dataclass(frozen=True)
class PolicyValues:
    """Exact values of the policies of one agent on one problem: a row per run, a column per checkpoint."""

    checkpoints: NDArray[np.int64]
    values: Floats
    optimum_error: float


def value_policies(folder: str | Path, n_runs: int) -> None:
    """Write the policy values of a finished study, unless its folder has at least `n_runs` runs of each agent.

    Problems that cannot be solved exactly, and agents that cannot be made again, are left out.
    """
    configuration = Store.existing(folder).configuration
    n_runs = min(n_runs, configuration.n_seeds)
    if _n_valued(folder) >= n_runs:
        return
    entries: list[list[Any]] = []
    arrays: dict[str, Floats] = {}
    for problem in configuration.problems:
        for choice in configuration.agents:
            found = _value_runs(problem, choice, configuration, n_runs)
            if found is not None:
                arrays[f"values {len(entries)}"] = found.values
                entries.append([problem.name, choice.label, found.optimum_error])
    header = {"study": configuration.as_json(), "n_runs": n_runs, "entries": entries}
    files.write_container(Path(folder) / VALUES, header, arrays)


def read_values(folder: str | Path) -> dict[tuple[str, str], PolicyValues]:
    """Return the policy values of a study by (problem, agent's label); an empty dict if nobody asked for any.

    Raises
    ------
    SpaceError
        If the file is damaged, or holds the values of another study.
    """
    path, configuration = Path(folder) / VALUES, Store.existing(folder).configuration
    if not path.exists():
        return {}
    try:
        header, arrays = files.read_container(path)
        if header["study"] != configuration.as_json():
            raise ValueError("it belongs to another study")
        points = checkpoints(configuration.episodes, N_VALUES)
        found = {}
        for i, (problem, label, error) in enumerate(header["entries"]):
            values = arrays[f"values {i}"]
            if values.shape != (header["n_runs"], len(points)) or not np.isfinite([*values.ravel(), error]).all():
                raise ValueError(f"the values of {label} on {problem} are not those of its first runs")
            found[problem, label] = PolicyValues(points, values, float(error))
        return found
    except (CheckpointError, KeyError, TypeError, ValueError) as error:
        raise SpaceError(f"{path} is damaged ({error}); delete it, and zooming report --expected N makes it again") from error


def _n_valued(folder: str | Path) -> int:
    """Return how many runs of each agent were valued: 0 if the file is missing or damaged, and has to be written anew."""
    try:
        read_values(folder)
        return int(files.read_container(Path(folder) / VALUES)[0]["n_runs"])
    except (SpaceError, FileNotFoundError):
        return 0


def _value_runs(problem: Problem, choice: AgentChoice, configuration: Configuration, n_runs: int) -> PolicyValues | None:
    """Return the values of the first runs of an agent, or None if they cannot be computed."""
    points = checkpoints(configuration.episodes, N_VALUES)
    values: list[list[Any]] = []
    try:
        env, optimal = problem.make(), problem.optimal(configuration.optimum)
        if optimal is None:
            return None
        resolution = N_OUTCOMES if env.observation_space.shape == (1,) else None
        for seed in range(n_runs):
            agent = choice.make(problem.make(), seeds.word(configuration.entropy, f"{configuration.stream} {seed}"))
            values.append([])
            for episode in points.tolist():
                agent.learn(episode - agent.n_episodes)
                values[-1].append(evaluate(agent, env, exact=True, resolution=resolution).mean)
    except (ZoomingError, TypeError):
        return None
    return PolicyValues(points, np.array(values), optimum_error(optimal))
