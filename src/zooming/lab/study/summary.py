"""Summarize a finished study: one row per problem and agent."""

from __future__ import annotations

from dataclasses import dataclass, field

from zooming.analysis.intervals import Interval, mean_interval
from zooming.lab.study.store import Store
from zooming.lab.study.stored import Optima

FEW_SEEDS = 5


@dataclass(frozen=True)
class Row:
    """The summary of one agent on one problem over the seeds of a study.

    Attributes
    ----------
    problem, agent
        Names, as in the tables.
    optimum
        Expected return of the optimal policy; None if the problem cannot be solved.
    final_return
        Mean return of the last tenth of the episodes, with its 95 % interval; None with one seed.
    regret
        Regret of a run, with its 95 % interval; None with one seed or without an optimum.
    advantage
        Return per episode minus that of the first agent with the same seed: the mean over the
        seeds, with its 95 % interval. None for the first agent, or with one seed.
    mean_return, mean_regret
        The means of `final_return` and `regret`, also with one seed.
    n_balls, nbytes
        Mean number of balls and mean memory of the agent after a run.
    seconds
        Mean processor time of learning in a run, without the exact values of policies.
    n_clipped
        Mean number of clipped rewards in a run.
    """

    problem: str
    agent: str
    optimum: float | None
    final_return: Interval | None
    regret: Interval | None
    advantage: Interval | None
    mean_return: float
    mean_regret: float | None
    n_balls: float
    nbytes: float
    seconds: float = field(compare=False)
    n_clipped: float = 0.0


def summarize(store: Store, optima: Optima) -> list[Row]:
    """Return one row per problem and agent for a store whose chunks are complete."""
    configuration, seconds = store.configuration, seconds_per_run(store)
    rows = []
    for problem in configuration.problems:
        first = store.runs(problem, configuration.agents[0])["total_return"]
        for i, agent in enumerate(configuration.agents):
            a, optimum = store.runs(problem, agent), optima[problem.name]
            best = None if optimum is None else optimum.return_
            several = len(a["total_return"]) > 1
            regret = None if best is None else configuration.episodes * best - a["total_return"]
            rows.append(
                Row(
                    problem.name,
                    agent.label,
                    best,
                    mean_interval(a["final_return"]) if several else None,
                    mean_interval(regret) if several and regret is not None else None,
                    mean_interval((a["total_return"] - first) / configuration.episodes)
                    if several and i
                    else None,
                    float(a["final_return"].mean()),
                    None if regret is None else float(regret.mean()),
                    float(a["n_balls"].mean()),
                    float(a["nbytes"].mean()),
                    seconds[problem.name, agent.label],
                    float(a["n_clipped"].mean()),
                )
            )
    return rows


def seconds_per_run(store: Store) -> dict[tuple[str, str], float]:
    """Return {(problem, agent's label): mean processor seconds of learning in a run}.

    A time is NaN if that of a chunk is not known.
    """
    timings, found = store.seconds(), dict[tuple[str, str], float]()
    for chunk in store.configuration.chunks():
        key = chunk.problem.name, chunk.agent.label
        found[key] = found.get(key, 0.0) + timings.get(chunk.name, float("nan"))
    return {key: total / store.configuration.n_seeds for key, total in found.items()}
