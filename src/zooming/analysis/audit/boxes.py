"""Check the laws on boxes.

A split rule that does not make cubes is checked against the conditions of the theorem on nested
schemes: c1 <= sqrt(n) diam <= c2, with bounded aspect ratios. A table that has reached its budget
of balls has removed some, see `kernels.boxes.budget`: then only covering and the table are laws.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np

from zooming.agents.tables.adaptive_q import AdaptiveQ
from zooming.agents.tables.q_learner import QLearner
from zooming.analysis.audit.report import Audit, Law, find_optimistic_bonus, growth
from zooming.analysis.optimal import Optimal
from zooming.kernels import LENGTH_TOLERANCE, LOW, WEIGHT, WIDTH
from zooming.partitions.faults import lengths
from zooming.partitions.view import Partition
from zooming.validation import count_own_frames

# The built-in rules keep c1 >= 1/4, c2 <= sqrt(number of axes) and aspect ratios <= 2.
SMALLEST_C1, LARGEST_C2, LARGEST_ASPECT = 0.1, 10.0, 8.0


def audit_boxes(agent: QLearner, optimal: Optimal | None, n_points: int, seed: int) -> Audit:
    """Return the audit of an agent whose balls are boxes. See `zooming.audit`."""
    partitions = [_to_unit_cube(agent, agent.partition(step)) for step in range(agent.horizon)]
    grows, c1, c2, aspect = isinstance(agent, AdaptiveQ), *_constants(agent, partitions)
    generator = np.random.default_rng(seed)
    laws = [_covering(partitions, generator, n_points)]
    if agent.table.core["cubes"][0]:
        laws += [_separation(partitions), _visits(partitions)]
    elif _removes(agent):
        laws.append(_removals(agent, partitions))
    elif isinstance(agent, AdaptiveQ):
        laws.append(_conditions(agent, c1, c2, aspect))
    else:
        laws += [
            Law(name, None, "a net does not split") for name in ("separation", "visits per depth")
        ]
    laws.append(_maxima(agent))
    failures = dimension = None
    if optimal is not None:
        law, failures = _optimism(agent, optimal, generator, n_points)
        laws.append(law)
        dimension = _zooming_dimension(agent, optimal, partitions) if grows else None
    d, k = agent.axes.n_wide, max(agent.n_episodes, 1)
    return Audit(
        title=f"Audit of {agent!r}",
        laws=tuple(laws),
        c1=c1,
        c2=c2,
        aspect=aspect,
        size_ratio=max(len(p) for p in partitions) / k ** (d / (d + 2)),
        optimism_failures=failures,
        zooming_dimension=dimension,
        nbytes=agent.nbytes,
    )


def _removes(agent: QLearner) -> bool:
    """Return whether balls may have been removed, because the table has reached its budget."""
    return bool(agent.table.has_budget and agent.is_full)


def _removals(agent: QLearner, partitions: list[Partition]) -> Law:
    """Say what removals do to the lemmas, and count the balls that reach over a removed one."""
    n_enlarged = 0
    for p in partitions:
        kept = agent.table.stats[agent.table.boxes(p.step)[0], -len(agent.axes) :]
        larger = lengths(agent.axes.table, p.low, p.high) > kept * (1 + LENGTH_TOLERANCE)
        n_enlarged += int((larger & agent.axes.are_intervals).any(axis=1).sum())
    return Law(
        "split rule",
        None,
        f"max_balls={agent.max_balls:,} is reached, so splits remove balls; {n_enlarged} of "
        f"{agent.n_balls} reach over removed ones. Visits per radius (lemma 5.4) and the distance "
        "of centers (lemma 5.3) are no laws, nor is optimism (lemma 5.1): V does not fall by "
        "removals along an action axis, but may along a state axis. No regret bound holds",
    )


def _to_unit_cube(agent: QLearner, balls: Partition) -> Partition:
    """Return the partition in coordinates of the unit cube, where distances are defined."""
    _, low, high = agent.table.boxes(balls.step)
    return replace(balls, low=low, high=high)


def _constants(agent: QLearner, partitions: list[Partition]) -> tuple[float, float, float]:
    """Return (c1, c2, largest aspect ratio) over the visited balls of positive diameter."""
    products, aspect = [np.empty(0)], 1.0
    for p in partitions:
        sides = lengths(agent.axes.table, p.low, p.high)
        diameter = sides.max(axis=1)
        products.append((np.sqrt(p.n_visits) * diameter)[(p.n_visits > 0) & (diameter > 0)])
        shortest = np.where(sides > 0, sides, np.inf).min(axis=1)
        aspect = max(aspect, float((diameter / shortest).max()))
    found = np.concatenate(products)
    return (
        (float(found.min()), float(found.max()), aspect)
        if len(found)
        else (float("nan"), float("nan"), aspect)
    )


def _conditions(agent: AdaptiveQ, c1: float, c2: float, aspect: float) -> Law:
    """Check the conditions of the theorem on nested schemes, and warn if one is violated.

    The theorem holds for any constants c1 and c2, but its bound is useless if they are far from 1.
    This happens if a rule splits too early, too late or along one axis only. So the check requires
    that c1 and c2 are within a factor of ten of 1, and the aspect ratio within a factor of
    LARGEST_ASPECT of the root's aspect ratio.
    """
    rule = agent.split
    root = agent.axes.table[:, WEIGHT][agent.axes.table[:, WEIGHT] > 0]
    widest = LARGEST_ASPECT * float(root.max() / root.min())
    faults = []
    if c1 < SMALLEST_C1:
        faults.append(f"balls are split too early, c1 = {c1:.3g} < {SMALLEST_C1:g}")
    if c2 > LARGEST_C2:
        faults.append(f"balls are split too late, c2 = {c2:.3g} > {LARGEST_C2:g}")
    if aspect > widest:
        faults.append(f"balls are too long, aspect ratio {aspect:.3g} > {widest:.3g}")
    if faults:
        found = (
            f"the split rule {rule!r} breaks the conditions of the regret bound: "
            f"{'; '.join(faults)}"
        )
        warnings.warn(found, stacklevel=count_own_frames())
        return Law("split rule", False, found)
    return Law("split rule", True, f"{rule!r} keeps c1^2 / diam^2 <= n <= c2^2 / diam^2")


def _ball_text(p: Partition, i: int) -> str:
    """Return the name of ball i for a message: its step, box, depth and visits."""
    corners = ", ".join(
        f"[{low:.4g}, {high:.4g}]" for low, high in zip(p.low[i], p.high[i], strict=True)
    )
    return f"step {p.step}, the ball {corners} (depth {p.depth[i]}, {p.n_visits[i]} visits)"


def _covering(partitions: list[Partition], generator: np.random.Generator, n_points: int) -> Law:
    """Check that the volumes sum to 1 and that each random point lies in exactly one domain."""
    for p in partitions:
        volume = float(np.prod(p.high - p.low, axis=1).sum())
        points = generator.random((min(n_points, 10_000_000 // len(p) + 1), p.low.shape[1]))
        holding = np.array(
            [((p.low <= x) & ((x < p.high) | (p.high >= 1.0))).all(axis=1).sum() for x in points]
        )
        if abs(volume - 1) > 1e-9 or (holding != 1).any():
            bad = points[np.argmax(holding != 1)] if (holding != 1).any() else None
            where = (
                ""
                if bad is None
                else f"; the point {bad.round(4).tolist()} is in {int(holding[holding != 1][0])} "
                "domains"
            )
            return Law(
                "covering", False, f"step {p.step}: the domains have volume {volume:.6g}{where}"
            )
    return Law("covering", True, "every point is in exactly one domain")


def _separation(partitions: list[Partition]) -> Law:
    """Check that balls of equal radius are distinct cells of one lattice.

    Then their centers are at least a radius apart.
    """
    for p in partitions:
        cell = np.round(p.low / p.radius[:, None])
        off = np.abs(cell * p.radius[:, None] - p.low).max(axis=1) > 1e-9
        key = np.column_stack([p.depth, cell])
        _, first, counts = np.unique(key, axis=0, return_index=True, return_counts=True)
        if off.any() or (counts > 1).any():
            i = int(np.flatnonzero(off)[0]) if off.any() else int(first[counts > 1][0])
            return Law(
                "separation",
                False,
                f"{_ball_text(p, i)} is nearer than its radius to another ball of that radius",
            )
    return Law("separation", True, "centers of equal radius are at least a radius apart")


def _visits(partitions: list[Partition]) -> Law:
    """Check 4^(l-1) <= n < 4^l for every ball of depth l."""
    deepest = 0
    for p in partitions:
        least = np.where(p.depth > 0, 4.0 ** (p.depth - 1.0), 0.0)
        bad = (p.n_visits < least) | (p.n_visits >= 4.0**p.depth)
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            most = 4.0 ** p.depth[i] - 1
            return Law(
                "visits per depth",
                False,
                f"{_ball_text(p, i)} should have from {least[i]:.0f} to {most:.0f}",
            )
        deepest = max(deepest, int(p.depth.max()))
    return Law(
        "visits per depth",
        True,
        f"4^(l-1) <= n < 4^l for every ball of depth l, up to l = {deepest}",
    )


def _maxima(agent: QLearner) -> Law:
    """Check the structure of the ball table, and the largest Q that each inner row stores."""
    n, table = agent.table.rows_in_use, agent.table
    fault = table.fault()
    return Law(
        "ball table",
        fault is None,
        fault or f"{n} rows, every inner row holds the largest Q below it",
    )


def _optimism(
    agent: QLearner, optimal: Optimal, generator: np.random.Generator, n_points: int
) -> tuple[Law, float]:
    """Check Q(B) >= Q*(x, a) at the center and the corners of every ball and at random points.

    Return the law, and the share of points where Q is too low by more than the optimum's error.
    """
    n_state, n_axes, failed, looked, first, worst = (
        agent.axes.n_state,
        len(agent.axes),
        0,
        0,
        "",
        0.0,
    )
    corners = np.array([*itertools.product((1e-9, 1 - 1e-9), repeat=n_axes), (0.5,) * n_axes])
    for step in range(agent.horizon):
        balls = agent.partition(step)
        in_balls = (balls.low[:, None] + (balls.high - balls.low)[:, None] * corners).reshape(
            -1, n_axes
        )
        random = agent.axes.low + generator.random((n_points, n_axes)) * (
            agent.axes.high - agent.axes.low
        )
        points = np.concatenate([in_balls, random])
        states, actions = optimal.grid.env.round_discrete(points[:, :n_state], points[:, n_state:])
        pairs = zip(states[len(in_balls) :], actions[len(in_balls) :], strict=True)
        estimate = np.concatenate(
            [np.repeat(balls.q_value, len(corners)), [agent.q_value(step, x, a) for x, a in pairs]]
        )
        truth = optimal.q_values(step, states, actions)
        short = truth - estimate - optimal.error
        failed, looked = failed + int((short > 1e-9).sum()), looked + len(short)
        worst = max(worst, float(short.max()))
        if not first and (short > 1e-9).any():
            i = int(np.argmax(short > 1e-9))
            where = (
                _ball_text(balls, i // len(corners))
                if i < len(in_balls)
                else f"step {step}, {points[i].round(4).tolist()}"
            )
            first = f"; first in {where}: Q = {estimate[i]:.4f} < Q* = {truth[i]:.4f}"
    share = failed / looked
    proved = find_optimistic_bonus(agent.bonus, optimal.grid.env, generator) is not None
    proved = proved and not _removes(agent)
    found = f"Q >= Q* fails at {share:.2%} of the points" + (
        f", by up to {worst:.3g}{first}" if failed else ""
    )
    # The law is broken only if the bonus guarantees optimism.
    found += "" if proved or not failed else " (this bonus promises none here)"
    return Law("optimism", not failed if proved else None, found), share


def _zooming_dimension(
    agent: QLearner, optimal: Optimal, partitions: list[Partition]
) -> float | None:
    """Return the zooming dimension: the slope over l of log2(near-optimal balls of depth l).

    A ball is near-optimal if the gap V* - Q* at its center is at most H 2^-l.
    """
    n_state, counts = agent.axes.n_state, np.zeros(17)
    for step, p in enumerate(partitions):
        center = agent.axes.table[:, LOW] + (p.low + p.high) / 2 * agent.axes.table[:, WIDTH]
        states, actions = optimal.grid.env.round_discrete(center[:, :n_state], center[:, n_state:])
        gap = optimal.values(step, states) - optimal.q_values(step, states, actions)
        near = (gap <= agent.horizon * p.radius) & (p.radius > 0)  # an atom has radius 0
        level = np.rint(-np.log2(p.radius[near])).astype(
            np.int64
        )  # the depth of a cube of this radius
        counts += np.bincount(level, minlength=17)[:17]
    return growth(counts)
