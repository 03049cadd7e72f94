"""What the paper says about its figures, each checked on the runs: a verdict, and a sentence with the numbers behind it.

Agents are compared seed by seed. A claim is confirmed if the whole 95 % interval is on its side, not confirmed if it is all
on the other, and undecided between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming.intervals import Interval, mean_interval
from zooming.partition import Partition
from zooming.plots.runs import Runs

if TYPE_CHECKING:
    from zooming.paper.sweep import Evidence

Floats = NDArray[np.float64]
N_PARTITIONS = 10  # runs whose partitions are looked into
NEAR = 0.1  # how far from a point, in each coordinate, still counts as near it
CLOSE = 0.05  # of the optimum: a return that is this close counts as learned
MUCH = 2.0  # how many times fewer balls count as much fewer
FOLLOWS = 0.5  # a rank correlation above it counts as following
_GRID = (np.arange(64) + 0.5) / 64


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds (None: undecided), in a sentence."""

    claim: str
    holds: bool | None
    finding: str

    def __str__(self) -> str:
        word = {True: "Confirmed", False: "Not confirmed", None: "Undecided"}[self.holds]
        return f"{word}: {self.claim} {self.finding}"


class Claim(ABC):
    """Something that the paper says about a figure."""

    @abstractmethod
    def check(self, evidence: Evidence) -> Verdict:
        """The verdict on these runs."""


@dataclass(frozen=True)
class AdaptiveBeats(Claim):
    """The adaptive agent converges faster than the net; or ends with a better policy than a heuristic: a mixed one should."""

    other: str = "net"

    def check(self, evidence: Evidence) -> Verdict:
        runs = evidence.runs
        if self.other == "net":
            ours, theirs = (runs[name].total_return[:, -1] / evidence.episodes for name in ("adaptive", "net"))
            advantage = mean_interval(ours - theirs)
            ends = f"It {_learned(evidence, 'adaptive')}, the net {_learned(evidence, 'net')}."
            finding = f"It returns {_more(advantage)} per episode over all episodes. {ends}"
            return Verdict("the adaptive agent learns faster than the net.", _sign(advantage), finding)
        advantage = mean_interval(_final(evidence, "adaptive") - _final(evidence, self.other))
        finding = f"In the last tenth of the episodes it returns {_more(advantage)}."
        return Verdict(
            f"the adaptive agent learns a mixed policy, better than {_called(self.other)}.", _sign(advantage), finding
        )


@dataclass(frozen=True)
class FewerBalls(Claim):
    """The adaptive partition is much smaller than the net: at most half of it."""

    def check(self, evidence: Evidence) -> Verdict:
        ours, theirs = (evidence.runs[name].n_balls[:, -1].astype(np.float64) for name in ("adaptive", "net"))
        times = mean_interval(theirs / ours)
        finding = f"{ours.mean():,.0f} balls against {theirs.mean():,.0f}; {MUCH:g} times fewer counts as much."
        return Verdict("the adaptive partition is much smaller.", _sign(times, MUCH), finding)


@dataclass(frozen=True)
class NetExploresMore(Claim):
    """The net plays in more balls than the adaptive agent has."""

    def check(self, evidence: Evidence) -> Verdict:
        runs = range(_n_partitions(evidence))
        agents = {name: [evidence.trained(name, run) for run in runs] for name in ("adaptive", "net")}
        played = {
            name: np.array([sum((agent.partition(h).n_visits > 0).sum() for h in range(agent.horizon)) for agent in trained])
            for name, trained in agents.items()
        }
        more = mean_interval(played["net"] - played["adaptive"])
        finding = f"It played in {played['net'].mean():,.0f} balls, the adaptive agent in {played['adaptive'].mean():,.0f}."
        return Verdict("the net explores more parts of the space.", _sign(more), finding)


@dataclass(frozen=True)
class IsBest(Claim):
    """A heuristic returns the most of the paper's agents."""

    agent: str

    def check(self, evidence: Evidence) -> Verdict:
        mine = evidence.runs[self.agent].total_return[:, -1] / evidence.episodes
        leads = {
            name: mean_interval(mine - runs.total_return[:, -1] / evidence.episodes)
            for name, runs in _papers(evidence).items()
            if name != self.agent
        }
        runner_up = min(leads, key=lambda name: leads[name].mean)
        gap = mean_interval(evidence.optimal.return_ - mine)
        finding = (
            f"It returns {_more(leads[runner_up])} per episode than {_called(runner_up)}, the best of the others, and "
            f"{max(gap.mean, 0.0):.3f} less than the optimum."
        )
        signs = [_sign(lead) for lead in leads.values()]
        return Verdict(f"{_called(self.agent)} is the best.", _all_of(signs), finding)


@dataclass(frozen=True)
class NetFallsShort(Claim):
    """The net is too coarse for the peak: the best that its points allow is worse than what the adaptive agent reaches."""

    def check(self, evidence: Evidence) -> Verdict:
        best = evidence.optimal.return_
        gaps = {name: best - _final(evidence, name) for name in ("adaptive", "net")}
        error = best - best_on_net(evidence)
        more = mean_interval(error - gaps["adaptive"])
        finding = (
            f"The best that its points allow is {error:.2f} below the optimum of {best:.2f}. In the last tenth of the episodes "
            f"the net is {gaps['net'].mean():.2f} below it, the adaptive agent {gaps['adaptive'].mean():.2f}."
        )
        return Verdict("the net suffers from its discretization error.", _sign(more), finding)


@dataclass(frozen=True)
class NobodyIsOptimal(Claim):
    """No agent of the paper's reaches the optimum."""

    def check(self, evidence: Evidence) -> Verdict:
        gaps = {name: mean_interval(evidence.optimal.return_ - _final(evidence, name)) for name in _papers(evidence)}
        nearest = min(gaps, key=lambda name: gaps[name].mean)
        # A gap within the solver's error says nothing either way.
        is_short = [True if gap.low > evidence.optimal.return_error else None for gap in gaps.values()]
        finding = (
            f"Nearest to {evidence.optimal.return_:.3f} is {_called(nearest)}, {gaps[nearest].mean:.3f} below it in the last "
            f"tenth of the episodes."
        )
        return Verdict("no agent is optimal.", _all_of(is_short), finding)


@dataclass(frozen=True)
class FineNear(Claim):
    """The partition is finer around a point than elsewhere."""

    state: float
    action: float

    def check(self, evidence: Evidence) -> Verdict:
        near = _near(lambda x, a: np.maximum(abs(x - self.state), abs(a - self.action)))
        where = f"around ({self.state:g}, {self.action:g})"
        return _finer(evidence, near, where)


@dataclass(frozen=True)
class FineAlongDiagonal(Claim):
    """The partition is finer where the action is to stay."""

    def check(self, evidence: Evidence) -> Verdict:
        return _finer(evidence, _near(lambda x, a: abs(x - a)), "along the diagonal")


@dataclass(frozen=True)
class FollowsOptimum(Claim):
    """Where the agent comes, the partition is fine where Q* is high and coarse where it is low."""

    def check(self, evidence: Evidence) -> Verdict:
        step, env = evidence.figure.step, evidence.figure.preset.make()
        states = _visited(env, step)
        points = np.stack([np.repeat(states, len(_GRID)), np.tile(_GRID, len(states))], axis=1)
        q = evidence.optimal.q_values(step, points[:, :1], points[:, 1:])
        best = np.repeat(evidence.optimal.values(step, states[:, None]), len(_GRID))
        agreement = mean_interval(
            np.array([_rank_correlation(best - q, _side(balls, points)) for balls in _partitions(evidence)])
        )
        finding = (
            f"Over the states that occur, the rank correlation of a ball's size and of what its points lose against the "
            f"optimum is {agreement.mean:.2f} ({agreement.low:.2f} to {agreement.high:.2f}, {_n_partitions(evidence)} runs); "
            f"above {FOLLOWS:g} counts."
        )
        return Verdict("the partition follows the contours of Q*.", _sign(agreement, FOLLOWS), finding)


# --- measures ------------------------------------------------------------------------------------------------------------


def _final(evidence: Evidence, name: str) -> Floats:
    """Mean return of each seed over about the last tenth of the episodes."""
    runs = evidence.runs[name]
    first = int(np.argmin(np.abs(runs.episode[:-1] - 0.9 * runs.episode[-1])))
    final: Floats = (runs.total_return[:, -1] - runs.total_return[:, first]) / (runs.episode[-1] - runs.episode[first])
    return final


def best_on_net(evidence: Evidence) -> float:
    """The return of the best policy that plays points of the net, on a problem where nothing is random and x' = a."""
    env, net = evidence.figure.preset.make().unwrapped, evidence.choices["net"].make(evidence.figure.preset.make(), 0)
    points = _points(net)
    start, next_state = env.start_states(1)[0][0], np.empty(1)
    values = np.zeros(len(points))
    for step in reversed(range(env.horizon)):
        outcome = env.outcomes(step, 1)[0][0]
        states = points if step else start
        rewards = [
            [env.given(np.array([x]), np.array([a]), step, env.params, outcome, next_state) for a in points] for x in states
        ]
        values = (np.array(rewards) + values).max(axis=1)
    return float(values[0])


def _points(net: Any) -> Floats:
    """The actions that a net on the unit interval plays."""
    low, high = (np.unique(side[:, 1]) for side in (net.partition(0).low, net.partition(0).high))
    points: Floats = np.arange(len(low)) * net.spacing if net.points == "multiples" else (low + high) / 2
    return points


def _papers(evidence: Evidence) -> dict[str, Runs]:
    """The runs of the agents that the paper compares: all but the untuned one."""
    return {name: runs for name, runs in evidence.runs.items() if name in ("adaptive", "net", "no-movement", "median")}


def _learned(evidence: Evidence, name: str) -> str:
    """When the mean return between two checkpoints first came close to the optimum."""
    runs = evidence.runs[name]
    mean = np.diff(runs.total_return.mean(axis=0)) / np.diff(runs.episode)
    close = np.flatnonzero(mean >= (1 - CLOSE) * evidence.optimal.return_)
    within = f"within {CLOSE:.0%} of the optimum"
    return f"comes {within} after {runs.episode[close[0] + 1]:,} episodes" if len(close) else f"never comes {within}"


def _partitions(evidence: Evidence) -> list[Partition]:
    runs = range(_n_partitions(evidence))
    return [evidence.trained("adaptive", run).partition(evidence.figure.step) for run in runs]


def _n_partitions(evidence: Evidence) -> int:
    return min(N_PARTITIONS, evidence.runs["adaptive"].n_seeds)


def _near(distance: Callable[[Floats, Floats], Floats]) -> NDArray[np.bool_]:
    x, a = np.meshgrid(_GRID, _GRID, indexing="ij")
    near: NDArray[np.bool_] = (distance(x, a) <= NEAR).ravel()
    return near


def _finer(evidence: Evidence, near: NDArray[np.bool_], where: str) -> Verdict:
    points = np.stack(np.meshgrid(_GRID, _GRID, indexing="ij"), axis=-1).reshape(-1, 2)
    sizes = [np.log2(_side(balls, points)) for balls in _partitions(evidence)]
    halvings = mean_interval(np.array([size[~near].mean() - size[near].mean() for size in sizes]))
    mean, low, high = (2**-bound for bound in (halvings.mean, halvings.high, halvings.low))
    side = f"{mean:.0%} ({low:.0%} to {high:.0%}, {_n_partitions(evidence)} runs)"
    finding = f"A ball there has {side} of the side of one elsewhere."
    return Verdict(f"the partition is finer {where}.", _sign(halvings), finding)


def _side(balls: Partition, points: Floats) -> Floats:
    """The side of the ball that holds each point."""
    top = balls.high.max(axis=0)
    inside = ((balls.low[None] <= points[:, None]) & ((points[:, None] < balls.high[None]) | (balls.high[None] == top))).all(
        axis=2
    )
    side: Floats = (balls.high - balls.low).max(axis=1)[inside.argmax(axis=1)]
    return side


def _visited(env: object, step: int, n: int = 64) -> Floats:
    """States that occur at a step, evenly through their distribution, when actions are random."""
    from zooming.agents.heuristics import Random

    agent, found = Random(env, seed=0), list[float]()
    for _ in range(n):
        state, _ = agent.env.reset(seed=0) if not found else agent.env.reset()
        for h in range(step):
            state = agent.env.step(agent.act(h, state))[0]
        found.append(float(state[0]))
    return np.sort(np.array(found))


def _rank_correlation(x: Floats, y: Floats) -> float:
    """Spearman's: the correlation of the ranks, ties at their mean rank; 0 if one of them is all the same."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def _ranks(x: Floats) -> Floats:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[inverse]
    return ranks


# --- words ---------------------------------------------------------------------------------------------------------------


def _sign(interval: Interval, level: float = 0.0) -> bool | None:
    """Whether the whole interval is above a level, below it (False), or on both sides (None)."""
    return True if interval.low > level else False if interval.high < level else None


def _all_of(signs: list[bool | None]) -> bool | None:
    return True if all(signs) else False if False in signs else None


def _more(interval: Interval) -> str:
    """`0.123 (0.1 to 0.2) more`, or less."""
    sign, word = (1.0, "more") if interval.mean >= 0 else (-1.0, "less")
    low, high = sorted((sign * interval.low, sign * interval.high))
    return f"{abs(interval.mean):.3f} ({low:.3f} to {high:.3f}) {word}"


def _called(name: str) -> str:
    return {"no-movement": "no movement", "median": "the median", "net": "the net", "adaptive": "the adaptive agent"}.get(
        name, "the adaptive agent with its defaults"
    )
