"""Check the laws on boxes.

A split rule that does not make cubes is checked against the conditions of the theorem on nested
schemes: c1 <= sqrt(n) diam <= c2, with bounded aspect ratios. A table that has reached its budget
of balls has removed some, see `kernels.boxes.budget`: then only covering and the table are laws.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zooming.agents.tables.adaptive_q import AdaptiveQ
from zooming.agents.tables.q_learner import QLearner
from zooming.agents.tables.tree_q import TreeQ
from zooming.analysis.audit.report import TOLERANCE, Audit, Law, Sample, check_optimism
from zooming.analysis.optimal import Optimal
from zooming.kernels import ACTIVE, LENGTH_TOLERANCE, MAX_VISITS, WEIGHT
from zooming.partitions.faults import lengths, levels
from zooming.partitions.view import Partition
from zooming.validation import Floats, count_noun, count_own_frames

# The built-in rules keep c1 >= 1/4, c2 <= sqrt(number of axes) and aspect ratios <= 2.
SMALLEST_C1, LARGEST_C2, LARGEST_ASPECT = 0.1, 10.0, 8.0


def audit_boxes(
    agent: QLearner, optimal: Optimal | None, n_points: int, generator: np.random.Generator
) -> Audit:
    """Return the audit of an agent whose balls are boxes. See `zooming.audit`."""
    partitions = [_to_unit_cube(agent, agent.partition(step)) for step in range(agent.horizon)]
    sizes, aspect = _sizes(agent)
    laws = [_covering(partitions, generator, n_points)]
    are_cubes = agent.table.core["cubes"][0]
    if are_cubes:
        laws.append(_separation(partitions))
    if isinstance(agent, TreeQ):
        laws.append(_tree_splits(agent, partitions))
    elif are_cubes:
        laws.append(_visits(partitions))
    elif _removes(agent):
        laws.append(_removals(agent, partitions))
    elif isinstance(agent, AdaptiveQ):
        laws.append(_conditions(agent, sizes, aspect))
    else:
        laws += [
            Law(name, None, "a net does not split") for name in ("separation", "visits per depth")
        ]
    fault = agent.table.fault()
    right = f"{agent.table.rows_in_use} rows, every inner row holds the largest Q below it"
    laws.append(Law("ball table", fault is None, fault or right))
    failures, memory = None, int(agent.table.core["memory"][0])
    if forgets := memory < MAX_VISITS:
        text = f"with memory={memory:,}, it stays above (H + 1) / (H + {memory:,}), so optimism"
        laws.append(Law("learning rate", None, f"{text} (lemma 5.1) is no law. No bound holds"))
    if optimal is not None:
        samples = _samples(agent, optimal, n_points, generator)
        law, failures = check_optimism(
            agent, optimal, samples, generator, lambda promise: not _removes(agent) and not forgets
        )
        laws.append(law)
    d, k = agent.axes.n_wide, max(agent.n_episodes, 1)
    ratio = max(len(p) for p in partitions) / k ** (d / (d + 2))
    return Audit.of(agent, laws, sizes, failures, aspect, ratio)


def _samples(
    agent: QLearner, optimal: Optimal, n_points: int, generator: np.random.Generator
) -> Iterator[Sample]:
    """Yield the center and the corners of every ball, and random points, of each step."""
    axes, n_axes = agent.axes, len(agent.axes)
    corners = np.array([*itertools.product((1e-9, 1 - 1e-9), repeat=n_axes), (0.5,) * n_axes])
    for step in range(agent.horizon):
        balls = agent.partition(step)
        in_balls = balls.low[:, None] + (balls.high - balls.low)[:, None] * corners
        random = axes.low + generator.random((n_points, n_axes)) * (axes.high - axes.low)
        points = np.concatenate([in_balls.reshape(-1, n_axes), random])
        n_in_balls = len(points) - n_points
        states, actions = optimal.grid.env.round_discrete(
            points[:, : axes.n_state], points[:, axes.n_state :]
        )
        pairs = zip(states[n_in_balls:], actions[n_in_balls:], strict=True)
        of_pairs = [agent.q_value(step, x, a) for x, a in pairs]
        q_value = np.concatenate([np.repeat(balls.q_value, len(corners)), of_pairs])

        def name(i: int, balls: Partition = balls, points: Floats = points) -> str:
            ball = i // len(corners)
            return _box_text(balls, ball) if ball < len(balls) else str(points[i].round(4).tolist())

        yield Sample(states, actions, q_value, name)


def _removes(agent: QLearner) -> bool:
    """Return whether `max_balls` has made the agent remove balls, or share them between steps."""
    return bool(agent.table.has_budget and (agent.is_full or agent.table.core["shared"][0]))


def _tree_splits(agent: TreeQ, partitions: list[Partition]) -> Law:
    """Say which lemmas are no laws for a tree, and count the balls that removals enlarged."""
    found = (
        "TreeQ splits a ball by its noise, so visits do not tell the radius (lemma 5.4); optimism "
        "(lemma 5.1) and a regret bound are not proved"
    )
    if agent.table.has_budget:
        n_enlarged, most = _n_enlarged(agent, partitions), count_noun(agent.max_balls or 0, "ball")
        found += f"; of at most {most}, {n_enlarged} reach over removed ones"
    return Law("visits per depth", None, found)


def _n_enlarged(agent: QLearner, partitions: list[Partition]) -> int:
    """Return how many balls became larger because a ball beside them was removed."""
    n_enlarged = 0
    for p in partitions[:: max(1, int(agent.table.core["shared"][0]))]:
        kept = agent.table.stats[agent.table.boxes(p.step)[0], -len(agent.axes) :]
        larger = lengths(agent.axes.table, p.low, p.high) > kept * (1 + LENGTH_TOLERANCE)
        n_enlarged += int((larger & agent.axes.are_intervals).any(axis=1).sum())
    return n_enlarged


def _removals(agent: QLearner, partitions: list[Partition]) -> Law:
    """Say what removals do to the lemmas."""
    together = max(1, int(agent.table.core["shared"][0]))
    return Law(
        "split rule",
        None,
        f"with max_balls={agent.max_balls:,}, {count_noun(together, 'step')} in a row share balls, "
        f"and splits remove balls of a full table; {_n_enlarged(agent, partitions)} of "
        f"{agent.n_balls} reach over removed ones. A removal does not lower V, but visits per "
        "radius (lemma 5.4), the distance of centers (lemma 5.3) and optimism (lemma 5.1) are no "
        "laws. No regret bound holds",
    )


def _to_unit_cube(agent: QLearner, balls: Partition) -> Partition:
    """Return the partition in coordinates of the unit cube, where distances are defined."""
    _, low, high = agent.table.boxes(balls.step)
    return replace(balls, low=low, high=high)


def _sizes(agent: QLearner) -> tuple[Floats, float]:
    """Return sqrt(n) diam of the visited balls of positive diameter, and the largest aspect.

    The least sqrt(n) diam with which a split has ever made a part is among them, for c1.
    """
    rows, products, first, aspect = agent.table.rows, [], [], 1.0
    for row, low, high in levels(rows, np.arange(agent.n_roots), len(agent.axes)):
        sides = lengths(agent.axes.table, low, high)
        diameter, active = sides.max(axis=1), rows["child"][row] == ACTIVE
        products.append((np.sqrt(rows["n_visits"][row]) * diameter)[active])
        parent = rows["parent"][row]
        first.append(np.sqrt(np.where(parent < 0, 0, rows["n_visits"][parent])) * diameter)
        shortest = np.where(sides > 0, sides, np.inf).min(axis=1)
        aspect = max(aspect, float((diameter / shortest)[active].max(initial=1.0)))
    found, made = np.concatenate(products), np.concatenate(first)
    return np.concatenate([found[found > 0], np.sort(made[made > 0])[:1]]), aspect


def _conditions(agent: AdaptiveQ, sizes: Floats, aspect: float) -> Law:
    """Check the conditions of the theorem on nested schemes, and warn if one is violated.

    The theorem holds for any c1 and c2, but its bound is useless if they are far from 1: if a rule
    splits too early, too late or along one axis only.
    """
    rule = agent.split
    c1, c2 = (sizes.min(), sizes.max()) if len(sizes) else (np.nan, np.nan)
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
        why = "; ".join(faults)
        found = f"the split rule {rule!r} breaks the conditions of the regret bound: {why}"
        warnings.warn(found, stacklevel=count_own_frames())
        return Law("split rule", False, found)
    return Law("split rule", True, f"{rule!r} keeps c1^2 / diam^2 <= n <= c2^2 / diam^2")


def _box_text(p: Partition, i: int) -> str:
    """Return the name of ball i for a message: its box, depth and visits."""
    corners = ", ".join(
        f"[{low:.4g}, {high:.4g}]" for low, high in zip(p.low[i], p.high[i], strict=True)
    )
    return f"the ball {corners} (depth {p.depth[i]}, {p.n_visits[i]} visits)"


def _covering(partitions: list[Partition], generator: np.random.Generator, n_points: int) -> Law:
    """Check that the volumes sum to 1 and that each random point lies in exactly one domain."""
    for p in partitions:
        volume = float(np.prod(p.high - p.low, axis=1).sum())
        points = generator.random((min(n_points, 10_000_000 // len(p) + 1), p.low.shape[1]))
        holding = np.array(
            [((p.low <= x) & ((x < p.high) | (p.high >= 1.0))).all(axis=1).sum() for x in points]
        )
        wrong = np.flatnonzero(holding != 1)
        if abs(volume - 1) > TOLERANCE or len(wrong):
            found = f"step {p.step}: the domains have volume {volume:.6g}"
            if len(wrong):
                point = points[wrong[0]].round(4).tolist()
                found += f"; the point {point} is in {holding[wrong[0]]} domains"
            return Law("covering", False, found)
    return Law("covering", True, "every point is in exactly one domain")


def _separation(partitions: list[Partition]) -> Law:
    """Check that balls of equal radius are distinct cells of one lattice, so a radius apart."""
    for p in partitions:
        cell = np.round(p.low / p.radius[:, None])
        off = np.abs(cell * p.radius[:, None] - p.low).max(axis=1) > TOLERANCE
        key = np.column_stack([p.depth, cell])
        _, first, counts = np.unique(key, axis=0, return_index=True, return_counts=True)
        if off.any() or (counts > 1).any():
            i = int(np.flatnonzero(off)[0]) if off.any() else int(first[counts > 1][0])
            fault = "is nearer than its radius to another ball of that radius"
            return Law("separation", False, f"step {p.step}, {_box_text(p, i)} {fault}")
    return Law("separation", True, "centers of equal radius are at least a radius apart")


def _visits(partitions: list[Partition]) -> Law:
    """Check 4^(l-1) <= n < 4^l for every ball of depth l."""
    deepest = 0
    for p in partitions:
        least = np.where(p.depth > 0, 4.0 ** (p.depth - 1.0), 0.0)
        bad = (p.n_visits < least) | (p.n_visits >= 4.0**p.depth)
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            fault = f"should have from {least[i]:.0f} to {4.0 ** p.depth[i] - 1:.0f}"
            return Law("visits per depth", False, f"step {p.step}, {_box_text(p, i)} {fault}")
        deepest = max(deepest, int(p.depth.max()))
    found = f"4^(l-1) <= n < 4^l for every ball of depth l, up to l = {deepest}"
    return Law("visits per depth", True, found)
