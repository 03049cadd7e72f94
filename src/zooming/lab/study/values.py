"""Compute exact values of the policies of a finished study, for its expected regret.

Computing the value of a policy takes about as long as a whole run, so only the first runs of each
agent are valued. A study with `valued=N` values them while they run, and its chunks hold the
values. For a study without `valued`, `value_policies` trains these runs again, identical to the
last bit, and writes values.zoom. The file has a checksum, like a chunk, so an edited number is
detected.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.files import container as files
from zooming.analysis.regret import optimum_error
from zooming.errors import CheckpointError, ConfigurationError, ZoomingError
from zooming.lab.study import modules
from zooming.lab.study.chunks import N_VALUES, checkpoint_episodes, learn_valued
from zooming.lab.study.configuration import Configuration
from zooming.lab.study.problems import AgentChoice, Problem
from zooming.lab.study.store import Store
from zooming.lab.study.stored import Optima, StoredOptimum
from zooming.validation import Floats


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


VALUES = "values.zoom"  # in the folder of a study


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

    Do nothing if the folder already has them, in its chunks or in values.zoom. Problems that cannot
    be solved, and agents that cannot be made or evaluated exactly, are left out.
    """
    configuration = Store.of_folder(folder).configuration
    n_runs = min(n_runs, configuration.n_seeds)
    if max(configuration.n_valued, _n_valued(folder)) >= n_runs:
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
    """Return {(problem, agent's label): policy values} of a study; empty if not computed.

    Raises
    ------
    ConfigurationError
        If the file is damaged, or holds the values of another study.
    """
    store = Store.of_folder(folder)
    path, configuration = Path(folder) / VALUES, store.configuration
    if not path.exists():
        return _values_of_chunks(store) if configuration.n_valued else {}
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
    """Return how many runs of each agent have values, or 0 if the file is missing or damaged."""
    try:
        if not (Path(folder) / VALUES).exists():
            return 0
        read_values(folder)
        return int(files.read_container(Path(folder) / VALUES)[0]["n_runs"])
    except (ConfigurationError, FileNotFoundError):
        return 0


def _values_of_chunks(store: Store) -> dict[tuple[str, str], PolicyValues]:
    """Return the policy values that the chunks of a study hold."""
    optima, configuration = find_optima(store), store.configuration
    points, found = checkpoint_episodes(configuration.episodes, N_VALUES), {}
    for problem in configuration.problems:
        optimum = optima[problem.name]
        for choice in configuration.agents if optimum is not None else ():
            chunks = [c for c in configuration.chunks_of(problem, choice) if c.n_valued]
            values = np.concatenate([store.read(chunk)["policy_values"] for chunk in chunks])
            if optimum is not None and len(values):
                found[problem.name, choice.label] = PolicyValues(points, values, optimum.error)
    return found


def _value_runs(
    problem: Problem, choice: AgentChoice, configuration: Configuration, n_runs: int
) -> PolicyValues | None:
    """Return the policy values of the first runs of an agent, or None if that is impossible."""
    try:
        env, optimal = problem.make(), problem.optimal(configuration.optimum)
        if optimal is None:
            return None
        values = []
        for i in range(n_runs):
            seed = seeds.derive_seed(configuration.entropy, f"{configuration.stream} {i}")
            agent = choice.make(problem.make(), seed, configuration.episodes)
            values.append(learn_valued(agent, env, configuration.episodes)[1])
    except (ZoomingError, TypeError):
        return None
    if not all(values):
        return None
    points = checkpoint_episodes(configuration.episodes, N_VALUES)
    return PolicyValues(points, np.array(values), optimum_error(optimal))
