"""Check the laws on balls of a metric.

The checks use the definitions and every pair of points, not the index of the table.

    B = {(x, a) : d((x, a), center) <= r(B)}, a closed ball
    dom(B) = the points of B that lie in no smaller ball and in no older ball of the same radius

When a ball is made, its center lies in its parent's domain: the parent is the smallest older ball
that holds the center. So centers of equal radius are more than the radius apart. A ball that is due
is split at once. With lazy children, it gets one child per visit instead. Its visits may then
exceed (d_max / r)^2 by up to the number of its children.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.tables.metric_q import MetricQ
from zooming.analysis.audit.report import TOLERANCE, Audit, Law, Sample, check_optimism
from zooming.analysis.optimal import Optimal
from zooming.analysis.solve import is_finite
from zooming.bonuses import Exact, Theory
from zooming.kernels import NO_PARENT
from zooming.kernels.balls import MAX_DEPTH


def audit_balls(
    agent: MetricQ, optimal: Optimal | None, n_points: int, generator: np.random.Generator
) -> Audit:
    """Return the audit of an agent whose balls are balls of a metric. See `zooming.audit`."""
    rows = agent.table.rows[: agent.table.rows_in_use]
    table = _table(agent, rows)
    laws, failures = [table], None
    if table.holds:  # the other checks need a valid table
        laws = [_covering(agent, rows), *_centers(agent, rows), _visits(agent, rows), table]
    if optimal is not None and table.holds:
        # On boxes the guarantee is for the problem on the net, but the optimum is of the original
        # one.
        is_finite_problem = is_finite(optimal.grid.env)

        def applies(promise: Theory | Exact) -> bool:
            # The constant 4 of Theory covers samples up to 3 r away, the largest distance to a
            # sample of an ancestor of radius r. It needs at most (d_max / r)^2 visits, so balls
            # must be split in time. Exact uses the radii themselves.
            is_in_time = not agent.lazy and agent.split_after <= 1 and agent.max_balls is None
            return is_finite_problem and (isinstance(promise, Exact) or is_in_time)

        samples = _samples(agent, rows, None if is_finite_problem else n_points, generator)
        law, failures = check_optimism(agent, optimal, samples, generator, applies)
        laws.append(law)
    played = rows[(rows["n_visits"] > 0) & (rows["n_points"] > 1)]
    sizes = np.sqrt(played["n_visits"]) * 0.5 ** played["depth"]
    return Audit.of(agent, laws, sizes, failures)


def _samples(
    agent: MetricQ, rows: NDArray[Any], n_points: int | None, generator: np.random.Generator
) -> Iterator[Sample]:
    """Yield the pairs at which optimism is checked: all, or all centers and random ones."""
    table, space = agent.table, agent.table.space
    states, actions = (space.points(side, agent.axes) for side in (0, 1))
    for step in range(agent.horizon):
        pairs = np.arange(space.n_pairs)
        if n_points is not None:
            used = rows[(rows["step"] == step) & (rows["n_points"] > 0)]
            centers = used["state"].astype(np.int64) * len(actions) + used["action"]
            pairs = np.concatenate([centers, generator.integers(space.n_pairs, size=n_points)])
        x, a = np.divmod(pairs, len(actions))
        q_value = table.rows["value"][table.owner[step, x, a]]

        def name(i: int, x: Any = x, a: Any = a) -> str:
            return _pair_text(agent, int(x[i]), int(a[i]))

        yield Sample(states[x], actions[a], q_value, name)


def _ball_text(agent: MetricQ, row: int) -> str:
    """Return the name of a ball for a message: its step, center, radius, depth and visits."""
    ball = agent.table.rows[row]
    where = _pair_text(agent, int(ball["state"]), int(ball["action"]))
    return (
        f"step {ball['step']}, the ball {row} around {where} (radius {ball['radius']:.4g}, depth "
        f"{ball['depth']}, {ball['n_visits']} visits)"
    )


def _pair_text(agent: MetricQ, state: int, action: int) -> str:
    """Return a pair for a message: the names of its points, or their coordinates."""
    metric, named = agent.metric, []
    for side, (one, what, index) in enumerate(
        ((metric.states, "state", state), (metric.actions, "action", action))
    ):
        points = agent.table.space.points(side, agent.axes)
        names = one if isinstance(one, list) else getattr(one, "points", None)
        if not 0 <= index < len(points):
            named.append(f"{what} number {index}")
        else:
            text = points[index].round(6).tolist() if names is None else names[index]
            named.append(f"{what} {text}")
    return f"({', '.join(named)})"


def _covering(agent: MetricQ, rows: NDArray[Any]) -> Law:
    """Check that each pair belongs to the smallest ball around it; if several, to the oldest."""
    table, space = agent.table, agent.table.space
    x, a = np.indices(table.owner.shape[1:], sparse=True)
    for step in range(agent.horizon):
        right = np.full(table.owner.shape[1:], -1, np.int32)
        found = np.flatnonzero(rows["step"] == step)
        # From large to small radius, then from young to old: the last ball holding a pair owns it.
        for row in found[np.lexsort((-found, rows["depth"][found]))].tolist():
            ball = rows[row]
            apart = space.pair_distances(int(ball["state"]), int(ball["action"]), x, a)
            right[apart <= ball["reach"]] = row
        wrong = table.owner[step] != right
        if wrong.any():
            i, j = np.argwhere(wrong)[0].tolist()
            holder = "no ball holds it"
            if right[i, j] >= 0:
                smallest = _ball_text(agent, int(right[i, j]))
                holder = f"the smallest ball that holds it is {smallest}"
            fault = (
                f"step {step}: the pair {_pair_text(agent, i, j)} is in the domain of ball "
                f"{table.owner[step, i, j]}, but {holder}"
            )
            return Law("covering", False, fault)
        counts = np.bincount(right.ravel(), minlength=len(rows))
        wrong = (counts != rows["n_points"]) & (rows["step"] == step)
        if wrong.any():
            row = int(np.argmax(wrong))
            said = f"says that its domain has {rows['n_points'][row]} pairs; it has {counts[row]}"
            return Law("covering", False, f"{_ball_text(agent, row)} {said}")
    n_active = int((rows["n_points"] > 0).sum())
    if n_active != agent.n_balls:
        said = f"the agent counts {agent.n_balls} active balls; {n_active} have a domain"
        return Law("covering", False, said)
    return Law(
        "covering",
        True,
        "every pair is in exactly one domain, that of the smallest ball that holds it",
    )


def _centers(agent: MetricQ, rows: NDArray[Any]) -> tuple[Law, Law]:
    """Check the separation of centers, and that each center was in its parent's domain."""
    space, closest, near, orphan = agent.table.space, np.inf, "", ""
    for step in range(agent.horizon):
        number = np.flatnonzero(rows["step"] == step)
        for j, row in enumerate(number[1:].tolist(), start=1):
            older, ball = rows[number[:j]], rows[row]
            states, actions = older["state"].astype(np.int64), older["action"].astype(np.int64)
            center = int(ball["state"]), int(ball["action"])
            apart = space.pair_distances(states, actions, *center)
            ratio = np.where(older["depth"] == ball["depth"], apart / ball["reach"], np.inf)
            closest = min(closest, float(ratio.min()))
            if not near and ratio.min() <= 1.0:
                other = _ball_text(agent, int(number[np.argmin(ratio)]))
                near = f"{_ball_text(agent, row)} is no further than its radius from {other}"
            depth = np.where(apart <= older["reach"], older["depth"], -1)
            smallest = number[np.argmax(depth)]  # of equals the oldest
            if not orphan and smallest != ball["parent"]:
                orphan = (
                    f"{_ball_text(agent, row)} had its center in the domain of ball {smallest}, "
                    f"not in that of its parent {ball['parent']}, when it was made"
                )
    apart_text = "centers of equal radius are further than the radius apart"
    if np.isfinite(closest):
        apart_text += f", the nearest {closest ** (1 / space.exponent):.3f} radii"
    held = "every center was in the domain of its parent when the ball was made"
    separation = Law("separation", not near, near or apart_text)
    return separation, Law("parents", not orphan, orphan or held)


def _table(agent: MetricQ, rows: NDArray[Any]) -> Law:
    """Check centers, steps, parents, depths, radii and values, on which other checks rely."""
    space, n = agent.table.space, len(rows)
    is_root = np.arange(n) < agent.horizon
    has_older = (rows["parent"] >= 0) & (rows["parent"] < np.arange(n))
    is_right = np.where(is_root, rows["parent"] == NO_PARENT, has_older)
    parents = np.where(is_right & ~is_root, rows["parent"], 0)
    radius = space.diameter * 0.5 ** rows["depth"].astype(float)
    reach = space.reach * 0.5 ** (space.exponent * rows["depth"])
    n_points = (("state", space.n_states), ("action", space.n_actions))
    outside = [(rows[name] < 0) | (rows[name] >= size) for name, size in n_points]
    sizes = (("radius", radius), ("reach", reach))
    other = [~np.isclose(rows[name], size, rtol=TOLERANCE, atol=0.0) for name, size in sizes]
    step = np.where(is_root, np.arange(n), rows["step"][parents])
    depth = np.where(is_root, 0, rows["depth"][parents] + 1)
    faults = {
        "has a center that is no point": outside[0] | outside[1],
        "names a parent that is not older": ~is_right,
        "is not at its parent's step": rows["step"] != step,
        "is not one deeper than its parent": rows["depth"] != depth,
        "has a radius that is not d_max 2^-depth": other[0] | other[1],
        "has a value that is not finite": ~np.isfinite(rows["value"]),
    }
    for fault, wrong in faults.items():
        if wrong.any():
            return Law("ball table", False, f"{_ball_text(agent, int(np.argmax(wrong)))} {fault}")
    found = f"{n} balls so far, each of half its parent's radius, with finite values"
    return Law("ball table", True, found)


def _visits(agent: MetricQ, rows: NDArray[Any]) -> Law:
    """Check that the visits of each ball lie in the range of its depth."""
    depth, n = rows["depth"].astype(float), rows["n_visits"]
    is_root = np.arange(len(rows)) < agent.horizon
    least = np.where(is_root, 0.0, agent.split_after * 4.0 ** (depth - 1))
    due = agent.split_after * 4.0**depth
    inherited = np.where(is_root, 0, n[np.where(is_root, 0, rows["parent"])])
    children = np.bincount(rows["parent"][~is_root], minlength=len(rows))
    # With a small split_after, the inherited visits may exceed the number that is due. A due ball
    # is split at its next visit, or gets one child then.
    most = np.maximum(np.ceil(due) - 1, inherited) + children
    can_split = (rows["n_points"] > 1) & (depth < MAX_DEPTH)
    wrong = (n < least) | (can_split & (n > most) & (agent.max_balls is None))
    rule = "4^l" if agent.split_after == 1 else f"{agent.split_after:g} 4^l"
    if wrong.any():
        row = int(np.argmax(wrong))
        last = f"to {most[row]:.0f}" if can_split[row] else "on"
        fault = f"{_ball_text(agent, row)} should have from {np.ceil(least[row]):.0f} {last}"
        return Law("visits per depth", False, fault)
    deepest = int(depth[rows["n_points"] > 0].max())
    found = (
        f"a ball of depth l has a quarter of {rule} visits at least, and is split at {rule}, "
        f"up to l = {deepest}"
    )
    over = int(np.where(can_split, n - np.ceil(due) + 1, 0).max())
    if agent.max_balls is not None:
        found += "; the most is not checked, since max_balls may stop splits"
    elif agent.lazy and over > 0:
        found += f"; lazily up to {over} more, one for each child"
    return Law("visits per depth", True, found)
