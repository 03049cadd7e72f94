"""Check claims of the paper on where partitions are fine, compared with random points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zooming.analysis.intervals import Interval, mean_interval
from zooming.lab.paper.claims import CAPTION, Claim, Verdict, n_trained, sign
from zooming.partitions.view import Partition
from zooming.validation import Floats

if TYPE_CHECKING:
    from zooming.lab.paper.sweep import Evidence

NEAR = 0.1  # largest distance, in each coordinate, that counts as near
EFFECT = 0.8  # standard deviations: a large effect by Cohen's convention
AT = 0.05  # tolerance for the position of the finest place
FOLLOWS = 0.5  # a larger rank correlation counts as following
_GRID = (np.arange(64) + 0.5) / 64


@dataclass(frozen=True)
class FineNear(Claim):
    """Claim: the partition is finer around a given point than at random points."""

    state: float
    action: float
    source: str = CAPTION

    def check(self, evidence: Evidence) -> Verdict:
        near = _mark_near(lambda x, a: np.maximum(abs(x - self.state), abs(a - self.action)))
        return _compare_sizes(
            evidence, near, f"around ({self.state:g}, {self.action:g})", self.source
        )


@dataclass(frozen=True)
class FineAlongDiagonal(Claim):
    """Claim: the partition is finer near action = state than at random points.

    This action means to stay.
    """

    source: str = CAPTION

    def check(self, evidence: Evidence) -> Verdict:
        return _compare_sizes(
            evidence, _mark_near(lambda x, a: abs(x - a)), "along the diagonal", self.source
        )


@dataclass(frozen=True)
class FinestAt(Claim):
    """Claim: the partition is finest at a given point, the optimum."""

    state: float
    action: float
    source: str = CAPTION

    def check(self, evidence: Evidence) -> Verdict:
        places = np.array([_finest_center(balls) for balls in _partitions(evidence)])
        away = mean_interval(np.abs(places - [self.state, self.action]).max(axis=1))
        state, action = places.mean(axis=0)
        optimal = _optimal_path(evidence)[evidence.figure.step]
        finding = (
            f"It is finest at ({state:.2f}, {action:.2f}), {away.mean:.2f} ({away.low:.2f} to "
            f"{away.high:.2f}) away; the claim allows {AT:g}. The optimal policy is at "
            f"({optimal[0]:.2f}, {optimal[1]:.2f}) there."
        )
        holds = sign(Interval(-away.mean, -away.high, -away.low), -AT)
        return Verdict(
            f"the partition is finest at ({self.state:g}, {self.action:g}).",
            holds,
            finding,
            self.source,
        )


@dataclass(frozen=True)
class FollowsOptimum(Claim):
    """Claim: in states that occur, the partition is fine where Q* is high and coarse elsewhere."""

    source: str = "section 7.3"

    def check(self, evidence: Evidence) -> Verdict:
        step, env = evidence.figure.step, evidence.figure.preset.make()
        states = _sample_states(env, step)
        points = np.stack([np.repeat(states, len(_GRID)), np.tile(_GRID, len(states))], axis=1)
        q = evidence.optimal.q_values(step, points[:, :1], points[:, 1:])
        best = np.repeat(evidence.optimal.values(step, states[:, None]), len(_GRID))
        agreement = mean_interval(
            np.array(
                [
                    rank_correlation(best - q, ball_sides(balls, points))
                    for balls in _partitions(evidence)
                ]
            )
        )
        finding = (
            "The rank correlation of a ball's size and of what its points lose against the "
            f"optimum is {agreement.mean:.2f} "
            f"({agreement.low:.2f} to {agreement.high:.2f}, {n_trained(evidence)} runs); the "
            f"claim needs more than {FOLLOWS:g}."
        )
        return Verdict(
            "the partition follows the contours of Q*.",
            sign(agreement, FOLLOWS),
            finding,
            self.source,
        )


def _partitions(evidence: Evidence) -> list[Partition]:
    runs = range(n_trained(evidence))
    return [evidence.train_again("adaptive", run).partition(evidence.figure.step) for run in runs]


def _mark_near(distance: Callable[[Floats, Floats], Floats]) -> NDArray[np.bool_]:
    x, a = np.meshgrid(_GRID, _GRID, indexing="ij")
    near: NDArray[np.bool_] = (distance(x, a) <= NEAR).ravel()
    return near


def _compare_sizes(evidence: Evidence, near: NDArray[np.bool_], where: str, source: str) -> Verdict:
    """Return the verdict on the claim that balls are smaller near a place than at random points.

    `near` marks the points near the place. The effect is the difference of mean log2 sizes, in
    standard deviations over the points.
    """
    points = np.stack(np.meshgrid(_GRID, _GRID, indexing="ij"), axis=-1).reshape(-1, 2)
    sizes = [np.log2(ball_sides(balls, points)) for balls in _partitions(evidence)]
    halvings = np.array([size.mean() - size[near].mean() for size in sizes])
    effect = mean_interval(
        [
            more / size.std() if np.ptp(size) else 0.0
            for more, size in zip(halvings, sizes, strict=True)
        ]
    )
    finding = (
        f"A ball there has {2 ** -halvings.mean():.0%} of the side of one at a random point, "
        f"which is {effect.mean:.1f} "
        f"({effect.low:.1f} to {effect.high:.1f}) standard deviations; the claim "
        f"needs {EFFECT:g}."
    )
    return Verdict(f"the partition is finer {where}.", sign(effect, EFFECT), finding, source)


def _finest_center(balls: Partition) -> Floats:
    """Return the median center of the smallest balls."""
    sides = (balls.high - balls.low).max(axis=1)
    smallest = sides == sides.min()
    middle: Floats = np.median((balls.low + balls.high)[smallest] / 2, axis=0)
    return middle


def _optimal_path(evidence: Evidence) -> list[tuple[float, float]]:
    """Return (state, action) of the optimal policy at each step, for a problem with x' = a."""
    state, path = evidence.figure.preset.make().unwrapped.start_states(1)[0][0], []
    for step in range(evidence.optimal.horizon):
        action = np.asarray(evidence.optimal.action(step, state), np.float64)
        path.append((float(state[0]), float(action[0])))
        state = action
    return path


def ball_sides(balls: Partition, points: Floats) -> Floats:
    """Return the longest side of the ball that contains each point."""
    top = balls.high.max(axis=0)
    inside = (
        (balls.low[None] <= points[:, None])
        & ((points[:, None] < balls.high[None]) | (balls.high[None] == top))
    ).all(axis=2)
    found: Floats = (balls.high - balls.low).max(axis=1)[inside.argmax(axis=1)]
    return found


def _sample_states(env: object, step: int, n: int = 64) -> Floats:
    """Return n sorted states that random actions reach at a step."""
    from zooming.agents.heuristics import Random

    agent, found = Random(env, seed=0), list[float]()
    for _ in range(n):
        state, _ = agent.env.reset(seed=0) if not found else agent.env.reset()
        for h in range(step):
            state = agent.env.step(agent.act(h, state))[0]
        found.append(float(state[0]))
    return np.sort(np.array(found))


def rank_correlation(x: Floats, y: Floats) -> float:
    """Return Spearman's rank correlation; 0 if x or y is constant."""
    import polars as pl

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(pl.select(pl.corr(pl.Series(x), pl.Series(y), method="spearman")).item())
