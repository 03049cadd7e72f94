"""Exact values of the policies of a finished study, for its expected regret.

A study stores returns, which are cheap. To compute the value of a policy takes about as long as a
whole run. So the values are computed afterwards, for the first runs of each agent: these are
trained again, identical to the last bit, and evaluated at checkpoints. The file has a checksum,
like a chunk, so an edited number is detected.
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
from zooming.errors import CheckpointError, ConfigurationError, ZoomingError
from zooming.study.problems import AgentChoice, Problem
from zooming.study.runs import Configuration, checkpoint_episodes
from zooming.study.store import Store

Floats = NDArray[np.float64]
VALUES = "values.zoom"  # in the folder of a study
N_VALUES = 16  # checkpoints of a run
# Outcomes per step for one state axis. On the paper's problems, the values are within 0.003 of
# those with the 400 outcomes of `evaluate`, in a twentieth of the time.
N_OUTCOMES = 64


@dataclass(frozen=True)
class PolicyValues:
    """Exact values of the policies of one agent on one problem.

    `values` has a row per run and a column per checkpoint.
    """

    checkpoints: NDArray[np.int64]
    values: Floats
    optimum_error: float


def value_policies(folder: str | Path, n_runs: int) -> None:
    """Write the policy values of a finished study, for the first `n_runs` runs of each agent.

    Do nothing if the folder has them already. Problems that cannot be solved, and agents that
    cannot be made or evaluated exactly, are left out.
    """
    configuration = Store.of_folder(folder).configuration
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
    """Return the policy values of a study by (problem, agent's label); empty if not computed.

    Raises
    ------
    ConfigurationError
        If the file is damaged, or holds the values of another study.
    """
    path, configuration = Path(folder) / VALUES, Store.of_folder(folder).configuration
    if not path.exists():
        return {}
    try:
        header, arrays = files.read_container(path)
        if header["study"] != configuration.as_json():
            raise ValueError("it belongs to another study")
        points = checkpoint_episodes(configuration.episodes, N_VALUES)
        found = {}
        for i, (problem, label, error) in enumerate(header["entries"]):
            values = arrays[f"values {i}"]
            if (
                values.shape != (header["n_runs"], len(points))
                or not np.isfinite([*values.ravel(), error]).all()
            ):
                raise ValueError(
                    f"the values of {label} on {problem} are not those of its first runs"
                )
            found[problem, label] = PolicyValues(points, values, float(error))
        return found
    except (CheckpointError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{path} is damaged ({error}); delete it, and zooming report --expected N makes it "
            "again"
        ) from error


def _n_valued(folder: str | Path) -> int:
    """Return how many runs of each agent have values; 0 if the file is missing or damaged."""
    try:
        read_values(folder)
        return int(files.read_container(Path(folder) / VALUES)[0]["n_runs"])
    except (ConfigurationError, FileNotFoundError):
        return 0


def _value_runs(
    problem: Problem, choice: AgentChoice, configuration: Configuration, n_runs: int
) -> PolicyValues | None:
    """Return the values of the first runs of an agent, or None if they cannot be computed."""
    points = checkpoint_episodes(configuration.episodes, N_VALUES)
    values: list[list[Any]] = []
    try:
        env, optimal = problem.make(), problem.optimal(configuration.optimum)
        if optimal is None:
            return None
        resolution = N_OUTCOMES if env.observation_space.shape == (1,) else None
        for seed in range(n_runs):
            agent = choice.make(
                problem.make(),
                seeds.derive_seed(configuration.entropy, f"{configuration.stream} {seed}"),
            )
            values.append([])
            for episode in points.tolist():
                agent.learn(episode - agent.n_episodes)
                values[-1].append(evaluate(agent, env, exact=True, resolution=resolution).mean)
    except (ZoomingError, TypeError):
        return None
    return PolicyValues(points, np.array(values), optimum_error(optimal))
