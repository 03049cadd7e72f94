"""Compare the agents of a leaderboard: over all problems, and each with the first agent.

The first agent is the reference, by default `auto`. It loses a problem to another agent if the 95 %
interval of the difference, paired by seed, excludes 0. Among many comparisons of equal agents,
about one in forty is counted as a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.analysis.intervals import Interval
from zooming.lab.leaderboard.measures import Result, Scale, paired
from zooming.validation import Floats

N_RESAMPLES = 2000
Scores = Mapping[str, Sequence[Floats]]  # by agent, one array of runs per problem


def interquartile_mean(values: ArrayLike) -> float:
    """Return the mean of the middle half: a quarter of the values is dropped at each end.

    The number dropped is rounded down.

    >>> interquartile_mean([100.0, 1.0, 2.0, 3.0, -50.0, 4.0, 5.0, 6.0])
    3.5
    """
    return float(_interquartile_means(np.asarray(values, np.float64).reshape(1, -1))[0])


def interquartile_means(scores: Scores, n_resamples: int = N_RESAMPLES) -> dict[str, Interval]:
    """Return the interquartile mean of each agent over all runs on all problems.

    The 95 % interval is over the seeds; the problems are fixed.

    >>> runs = [np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0, 8.0])]
    >>> print(interquartile_means({"a": runs})["a"])
    4.5 (95% interval 3.5 to 5.25)
    """
    found, draws = {}, _Draws(scores, n_resamples)
    for agent, problems in scores.items():
        pooled = np.concatenate(
            [runs[draws.runs(i, len(runs))] for i, runs in enumerate(problems)], axis=1
        )
        value = interquartile_mean(np.concatenate(problems))
        found[agent] = _interval(value, _interquartile_means(pooled))
    return found


def mean_ranks(scores: Scores, n_resamples: int = N_RESAMPLES) -> dict[str, Interval]:
    """Return the mean rank of each agent over the problems. Rank 1 has the largest mean score.

    Agents with equal means share the mean of their ranks. For the 95 % interval, problems are
    resampled too. So it covers other problems of the same kind.

    >>> one, two = np.ones(2), 2 * np.ones(2)
    >>> ranks = mean_ranks({"a": [two, one], "b": [one, 0 * one]})
    >>> ranks["a"].mean, ranks["b"].mean
    (1.0, 2.0)
    """
    draws = _Draws(scores, n_resamples)
    n_problems = len(next(iter(scores.values())))
    ranks, drawn = np.empty((len(scores), n_problems)), []
    for i in range(n_problems):
        means = np.array([problems[i].mean() for problems in scores.values()])
        ranks[:, i] = _rank(means[:, None])[:, 0]
        again = [
            problems[i][draws.runs(i, len(problems[i]))].mean(axis=1)
            for problems in scores.values()
        ]
        drawn.append(_rank(np.array(again)))
    chosen = draws.problems()  # [n_resamples, n_problems]
    each = np.stack(drawn, axis=2)[:, np.arange(n_resamples)[:, None], chosen]
    return {
        agent: _interval(float(ranks[k].mean()), each[k].mean(axis=1))
        for k, agent in enumerate(scores)
    }


class _Draws:
    """Indices of the runs and problems in each bootstrap sample.

    All agents with the same number of runs on a problem get the same indices.
    """

    def __init__(self, scores: Scores, n_resamples: int) -> None:
        self._n = n_resamples
        self._n_problems = len(next(iter(scores.values())))

    def runs(self, problem: int, n_runs: int) -> NDArray[np.int64]:
        rng = np.random.default_rng([0, problem, n_runs])
        return rng.integers(n_runs, size=(self._n, n_runs))

    def problems(self) -> NDArray[np.int64]:
        rng = np.random.default_rng([0, self._n_problems])
        return rng.integers(self._n_problems, size=(self._n, self._n_problems))


def _interquartile_means(values: Floats) -> Floats:
    """Return the interquartile mean of each row."""
    n = values.shape[1]
    cut = n // 4
    return np.asarray(np.sort(values, axis=1)[:, cut : n - cut].mean(axis=1))


def _rank(means: Floats) -> Floats:
    """Return the rank of each row within its column: 1 for the largest; ties get the mean rank."""
    above = (means[None, :, :] > means[:, None, :]).sum(axis=1)
    equal = (means[None, :, :] == means[:, None, :]).sum(axis=1)
    return np.asarray(1.0 + above + (equal - 1) / 2)


def _interval(value: float, resampled: Floats) -> Interval:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Interval(value, float(low), float(high))


@dataclass(frozen=True)
class Record:
    """Numbers of problems on which the reference beats another agent, is level, or loses."""

    better: int
    level: int
    worse: int

    def __str__(self) -> str:
        return f"{self.better} / {self.level} / {self.worse}"


@dataclass(frozen=True)
class Standing:
    """Results of one agent over the problems of a group, at one number of episodes.

    The ranks are None for an agent that cannot play all of the problems. `record` is None for the
    reference, and for agents with one seed.
    """

    agent: str
    n_problems: int
    loss: Interval
    percent: Interval
    rank_loss: Interval | None
    rank_percent: Interval | None
    record: Record | None
    cpu_seconds: float | None
    nbytes: float


@dataclass(frozen=True)
class Loss:
    """A problem on which the reference loses to `agent`, at one number of episodes.

    `regret` is how much more regret the reference has, and `percent` how much worse its final
    policy is. Both are paired by seed. `others` are further agents with less regret than the
    reference.
    """

    problem: str
    agent: str
    ours: Result
    theirs: Result
    regret: Interval
    percent: Interval
    others: tuple[str, ...]

    @property
    def why(self) -> str:
        """The reason of the loss in words: a worse final policy, or a higher cost of learning."""
        ours, theirs = float(self.ours.percent.mean()), float(self.theirs.percent.mean())
        ends = f"{ours:.1f} % against {theirs:.1f} %"
        if self.percent.low > 0:
            return f"it ends with a worse policy ({ends})"
        if self.percent.high < 0:
            return f"it pays more while it learns, and ends with a better policy ({ends})"
        return f"it pays more while it learns; the final policies cannot be told apart ({ends})"


def standings(results: Sequence[Result], names: Sequence[str], reference: str) -> list[Standing]:
    """Return the standing of every agent over the problems `names`, smallest loss first.

    All `results` must have the same number of episodes.
    """
    table = {(result.problem, result.agent): result for result in results}
    agents = list(dict.fromkeys(result.agent for result in results))
    played = {
        agent: [table[name, agent] for name in names if (name, agent) in table] for agent in agents
    }
    complete = {agent: ours for agent, ours in played.items() if len(ours) == len(names)}
    ranks = [
        mean_ranks({agent: [sign * getattr(one, part) for one in ours]
                    for agent, ours in complete.items()}) if complete else {}
        for sign, part in ((-1, "regret"), (1, "percent"))
    ]  # fmt: skip
    found = []
    for agent, ours in played.items():
        if not ours:
            continue
        loss, percent = (
            interquartile_means({agent: [getattr(one, part) for one in ours]})[agent]
            for part in ("loss", "percent")
        )
        times = [one.cpu_seconds for one in ours if one.cpu_seconds is not None]
        found.append(
            Standing(
                agent,
                len(ours),
                loss,
                percent,
                ranks[0].get(agent),
                ranks[1].get(agent),
                _record(ours, {one.problem: one for one in played.get(reference, [])}),
                float(np.mean(times)) if times else None,
                float(np.mean([one.nbytes for one in ours])),
            )
        )
    return sorted(found, key=lambda one: (one.n_problems < len(names), one.loss.mean))


def _record(theirs: Sequence[Result], ours: dict[str, Result]) -> Record | None:
    """Count the problems on which the reference has less, equal or more regret than an agent."""
    differences = [
        paired(one.regret, ours[one.problem].regret)
        for one in theirs
        if one.problem in ours and one.agent != ours[one.problem].agent
    ]
    known = [found for found in differences if found is not None]
    if not known:
        return None
    better, worse = sum(one.low > 0 for one in known), sum(one.high < 0 for one in known)
    return Record(better, len(known) - better - worse, worse)


def losses(results: Sequence[Result], scales: dict[str, Scale], reference: str) -> list[Loss]:
    """Return the problems on which the reference has more regret than another agent.

    Each entry names the agent with the least regret. The largest differences come first. All
    `results` must have the same number of episodes.
    """
    found = []
    for name in scales:
        here = {one.agent: one for one in results if one.problem == name}
        ours = here.pop(reference, None)
        if ours is None:
            continue
        beaten_by: list[tuple[Result, Interval]] = []
        for theirs in here.values():
            difference = paired(ours.regret, theirs.regret)
            if difference is not None and difference.low > 0:
                beaten_by.append((theirs, difference))
        beaten_by.sort(key=lambda pair: float(pair[0].regret.mean()))
        if beaten_by:
            (best, difference), *rest = beaten_by
            worse = paired(best.percent, ours.percent)
            assert worse is not None  # as many seeds as the regret has
            others = tuple(one.agent for one, _ in rest)
            found.append(Loss(name, best.agent, ours, best, difference, worse, others))
    return sorted(found, key=lambda one: -one.regret.mean)
