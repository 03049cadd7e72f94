"""Exact values of the policies of a finished study, for its expected regret.

A study keeps returns, which are cheap. The value of a policy takes about as long as a whole run, so it is computed afterwards,
for the first runs of each agent: they are trained again, the same to the last bit, and valued at checkpoints.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from zooming import files, seeds
from zooming.errors import ZoomingError
from zooming.evaluation import evaluate
from zooming.plots.runs import VALUES
from zooming.regret import optimum_error
from zooming.study.problems import AgentChoice, Problem
from zooming.study.runs import Configuration, checkpoints
from zooming.study.store import Store

N_VALUES = 16  # checkpoints of a run
N_OUTCOMES = (
    64  # of chance along one axis: within 0.003 of `evaluate`'s 400 on the paper's problems, in a twentieth of the time
)


def value_policies(folder: str | Path, n_runs: int) -> None:
    """Write `values.parquet` into the folder of a finished study, unless it has at least `n_runs` runs of each agent.

    Problems that cannot be solved exactly, and agents that cannot be made again, are left out.
    """
    import polars as pl

    path, configuration = Path(folder) / VALUES, Store.existing(folder).configuration
    n_runs = min(n_runs, configuration.n_seeds)
    if _n_valued(path) >= n_runs:
        return
    rows = [row for p in configuration.problems for a in configuration.agents for row in _values(p, a, configuration, n_runs)]
    names = {"problem": pl.String, "agent": pl.String, "seed": pl.Int64, "episode": pl.Int64}
    table = pl.DataFrame(rows, {**names, "policy_value": pl.Float64, "optimum_error": pl.Float64}, orient="row")
    content = io.BytesIO()
    table.write_parquet(content)
    files.write_atomically(path, content.getvalue())


def _n_valued(path: Path) -> int:
    """Return how many runs of each agent a file holds: 0 if it is not there or damaged, and has to be written anew."""
    import polars as pl

    try:
        return pl.read_parquet(path)["seed"].n_unique()
    except Exception:  # polars has an error for each way in which a file can be damaged
        return 0


def _values(problem: Problem, choice: AgentChoice, configuration: Configuration, n_runs: int) -> list[tuple[Any, ...]]:
    """Return a row (problem, agent, seed, episode, value, error of the optimum) per run and checkpoint."""
    rows: list[tuple[Any, ...]] = []
    try:
        env, optimal = problem.make(), problem.optimal(configuration.optimum)
        if optimal is None:
            return []
        resolution = N_OUTCOMES if env.observation_space.shape == (1,) else None
        for seed in range(n_runs):
            agent = choice.make(problem.make(), seeds.word(configuration.entropy, f"{configuration.stream} {seed}"))
            for episode in checkpoints(configuration.episodes, N_VALUES).tolist():
                agent.learn(episode - agent.n_episodes)
                value = evaluate(agent, env, exact=True, resolution=resolution).mean
                rows.append((problem.name, choice.label, seed, episode, value, optimum_error(optimal)))
    except (ZoomingError, TypeError):
        return []
    return rows
