"""What the paper says about its figures, each checked on the runs: a verdict, and a sentence with the numbers behind it.

Agents are compared seed by seed. A claim is confirmed if the whole 95 % interval is on its side, not confirmed if it is all
on the other, and undecided between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zooming.intervals import Interval, mean_interval
from zooming.partition import Partition

if TYPE_CHECKING:
    from zooming.paper.sweep import Evidence

Floats = NDArray[np.float64]
N_PARTITIONS = 10  # runs whose partitions are looked into
NEAR = 0.1  # how far from a point, in each coordinate, still counts as near it
CLOSE = 0.05  # of the optimum: a return that is this close counts as learned
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
    """The adaptive agent converges faster than the net; or ends with a better policy than a heuristic."""

    other: str = "net"

    def check(self, evidence: Evidence) -> Verdict:
        runs = evidence.runs
        if self.other == "net":
            ours, theirs = (runs[name].total_return[:, -1] / evidence.episodes for name in ("adaptive", "net"))
            advantage = mean_interval(ours - theirs)
            ends = f"It {_learned(evidence, 'adaptive')}, the net {_learned(evidence, 'net')}."
            finding = f"It returns {_signed(advantage)} more per episode over all episodes. {ends}"
            return Verdict("the adaptive agent learns faster than the net.", _sign(advantage), finding)
        advantage = mean_interval(_final(evidence, "adaptive") - _final(evidence, self.other))
        finding = f"In the last tenth of the episodes it returns {_signed(advantage)} more."
        return Verdict(f"the adaptive agent learns a better policy than {_called(self.other)}.", _sign(advantage), finding)


@dataclass(frozen=True)
class FewerBalls(Claim):
    """The adaptive partition is much smaller than the net."""

    def check(self, evidence: Evidence) -> Verdict:
        ours, theirs = (evidence.runs[name].n_balls[:, -1].astype(np.float64) for name in ("adaptive", "net"))
        share = mean_interval(theirs / ours)
        finding = f"{ours.mean():,.0f} balls against {theirs.mean():,.0f}, {share.mean:.1f} times fewer."
        return Verdict(
            "the adaptive partition is much smaller.", _sign(Interval(share.mean - 1, share.low - 1, share.high - 1)), finding
        )


@dataclass(frozen=True)
class IsBest(Claim):
    """A heuristic returns the most of all agents."""

    agent: str

    def check(self, evidence: Evidence) -> Verdict:
        mine = evidence.runs[self.agent].total_return[:, -1] / evidence.episodes
        leads = {
            name: mean_interval(mine - runs.total_return[:, -1] / evidence.episodes)
            for name, runs in evidence.runs.items()
            if name != self.agent
        }
        runner_up = min(leads, key=lambda name: leads[name].mean)
        gap = mean_interval(evidence.optimal.return_ - mine)
        finding = (
            f"It returns {_signed(leads[runner_up])} more per episode than the next, {_called(runner_up)}, and "
            f"{max(gap.mean, 0.0):.3f} less than the optimum."
        )
        signs = [_sign(lead) for lead in leads.values()]
        holds = True if all(signs) else False if any(sign is False for sign in signs) else None
        return Verdict(f"{_called(self.agent)} is the best.", holds, finding)


@dataclass(frozen=True)
class NetFallsShort(Claim):
    """The net is too coarse for the peak: what it settles on is worse."""

    def check(self, evidence: Evidence) -> Verdict:
        gaps = {name: evidence.optimal.return_ - _final(evidence, name) for name in ("adaptive", "net")}
        more = mean_interval(gaps["net"] - gaps["adaptive"])
        finding = (
            f"In the last tenth of the episodes it is {gaps['net'].mean():.2f} below the optimum of "
            f"{evidence.optimal.return_:.2f}, the adaptive agent {gaps['adaptive'].mean():.2f}."
        )
        return Verdict("the net suffers from its discretization error.", _sign(more), finding)


@dataclass(frozen=True)
class NobodyIsOptimal(Claim):
    """No agent reaches the optimum."""

    def check(self, evidence: Evidence) -> Verdict:
        gaps = {name: mean_interval(evidence.optimal.return_ - _final(evidence, name)) for name in evidence.runs}
        nearest = min(gaps, key=lambda name: gaps[name].mean)
        signs = [_sign(Interval(*(bound - evidence.optimal.error for bound in (g.mean, g.low, g.high)))) for g in gaps.values()]
        finding = (
            f"Nearest to {evidence.optimal.return_:.3f} is {_called(nearest)}, {gaps[nearest].mean:.3f} below it in the last "
            f"tenth of the episodes."
        )
        return Verdict("no agent is optimal.", True if all(signs) else False if False in signs else None, finding)


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
            f"optimum is {agreement.mean:.2f} ({agreement.low:.2f} to {agreement.high:.2f})."
        )
        return Verdict("the partition follows the contours of Q*.", _sign(agreement), finding)


# --- measures ------------------------------------------------------------------------------------------------------------


def _final(evidence: Evidence, name: str) -> Floats:
    """Mean return of each seed over about the last tenth of the episodes."""
    runs = evidence.runs[name]
    first = int(np.argmin(np.abs(runs.episode[:-1] - 0.9 * runs.episode[-1])))
    final: Floats = (runs.total_return[:, -1] - runs.total_return[:, first]) / (runs.episode[-1] - runs.episode[first])
    return final


def _learned(evidence: Evidence, name: str) -> str:
    """When the mean return between two checkpoints first came close to the optimum."""
    runs = evidence.runs[name]
    mean = np.diff(runs.total_return.mean(axis=0)) / np.diff(runs.episode)
    close = np.flatnonzero(mean >= (1 - CLOSE) * evidence.optimal.return_)
    within = f"within {CLOSE:.0%} of the optimum"
    return f"comes {within} after {runs.episode[close[0] + 1]:,} episodes" if len(close) else f"never comes {within}"


def _partitions(evidence: Evidence) -> list[Partition]:
    n = min(N_PARTITIONS, evidence.runs["adaptive"].n_seeds)
    return [evidence.trained("adaptive", run).partition(evidence.figure.step) for run in range(n)]


def _near(distance: Callable[[Floats, Floats], Floats]) -> NDArray[np.bool_]:
    x, a = np.meshgrid(_GRID, _GRID, indexing="ij")
    near: NDArray[np.bool_] = (distance(x, a) <= NEAR).ravel()
    return near


def _finer(evidence: Evidence, near: NDArray[np.bool_], where: str) -> Verdict:
    points = np.stack(np.meshgrid(_GRID, _GRID, indexing="ij"), axis=-1).reshape(-1, 2)
    sizes = [np.log2(_side(balls, points)) for balls in _partitions(evidence)]
    halvings = mean_interval(np.array([size[~near].mean() - size[near].mean() for size in sizes]))
    mean, low, high = (2**-bound for bound in (halvings.mean, halvings.high, halvings.low))
    finding = f"A ball there has {mean:.0%} ({low:.0%} to {high:.0%}) of the side of one elsewhere."
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


def _sign(interval: Interval) -> bool | None:
    return True if interval.low > 0 else False if interval.high < 0 else None


def _signed(interval: Interval) -> str:
    return f"{interval.mean:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})"


def _called(name: str) -> str:
    return {"no-movement": "no movement", "median": "the median", "net": "the net", "adaptive": "the adaptive agent"}.get(
        name, "the adaptive agent with its defaults"
    )
