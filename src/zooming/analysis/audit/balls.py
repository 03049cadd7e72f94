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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.tables.metric_q import MetricQ
from zooming.analysis.audit.report import Audit, Law, find_optimistic_bonus, growth
from zooming.analysis.optimal import Optimal
from zooming.analysis.solve import is_finite
from zooming.bonuses import Exact
from zooming.kernels import NO_PARENT
from zooming.kernels.balls.balls import MAX_DEPTH
from zooming.metrics.space import Space
from zooming.validation import Floats

ENTRIES = 4_000_000  # distances between centers computed at once: 32 MB


def ball_text(agent: MetricQ, row: int) -> str:
    """Return the name of a ball for a message: its step, center, radius, depth and visits."""
    ball = agent.table.rows[row]
    where = pair_text(agent, int(ball["state"]), int(ball["action"]))
    return (
        f"step {ball['step']}, the ball {row} around {where} (radius {ball['radius']:.4g}, depth "
        f"{ball['depth']}, "
        f"{ball['n_visits']} visits)"
    )


def pair_text(agent: MetricQ, state: int, action: int) -> str:
    """Return a pair for a message: the names of its points, or their coordinates."""
    sides = (agent.metric.states, "state", 0, state), (agent.metric.actions, "action", 1, action)
    named = []
    for metric, what, side, index in sides:
        points = agent.table.space.points(side, agent.axes)
        if not 0 <= index < len(points):
            named.append(f"{what} number {index}")
        else:
            names = (
                metric if isinstance(metric, list) else getattr(metric, "points", None)
            )  # of Pairs; of a finite side
            named.append(
                f"{what} {points[index].round(6).tolist() if names is None else names[index]}"
            )
    return f"({', '.join(named)})"


def check_covering(agent: MetricQ, rows: NDArray[Any]) -> Law:
    """Check that each pair belongs to the smallest ball around it; if several, to the oldest.

    Also check the number of points that each ball stores, and the number of active balls.
    """
    table, space = agent.table, agent.table.space
    for step in range(agent.horizon):
        right = np.full(table.owner.shape[1:], -1, np.int32)
        found = np.flatnonzero(rows["step"] == step)
        # From large to small radius, then from young to old: the last ball holding a pair owns it.
        for row in found[np.lexsort((-found, rows["depth"][found]))].tolist():
            ball = rows[row]
            if not space.is_product:
                near = space.distances[
                    int(ball["state"]) * space.n_actions + int(ball["action"])
                ].reshape(right.shape)
                right[near <= ball["reach"]] = row
                continue
            along, across, reach = (
                space.distances[ball["state"]],
                space.action_distances[ball["action"]],
                ball["reach"],
            )
            x, a = np.flatnonzero(along <= reach), np.flatnonzero(across <= reach)
            block = np.ix_(x, a)
            if space.power:
                right[block] = np.where(
                    along[x][:, None] + across[a][None, :] <= reach, row, right[block]
                )
            else:
                right[block] = row
        wrong = table.owner[step] != right
        if wrong.any():
            x, a = np.argwhere(wrong)[0].tolist()
            owner, ought = int(table.owner[step, x, a]), int(right[x, a])
            holder = (
                "no ball holds it"
                if ought < 0
                else f"the smallest ball that holds it is {ball_text(agent, ought)}"
            )
            pair = f"the pair {pair_text(agent, x, a)} is in the domain of ball {owner}"
            return Law("covering", False, f"step {step}: {pair}, but {holder}")
        counts = np.bincount(right.ravel(), minlength=len(rows))
        wrong = (counts != rows["n_points"]) & (rows["step"] == step)
        if wrong.any():
            row = int(np.argmax(wrong))
            said = f"says that its domain has {rows['n_points'][row]} pairs; it has {counts[row]}"
            return Law("covering", False, f"{ball_text(agent, row)} {said}")
    active = int((rows["n_points"] > 0).sum())
    if active != agent.n_balls:
        return Law(
            "covering",
            False,
            f"the agent counts {agent.n_balls} active balls; {active} have a domain",
        )
    return Law(
        "covering",
        True,
        "every pair is in exactly one domain, that of the smallest ball that holds it",
    )


def check_centers(agent: MetricQ, rows: NDArray[Any]) -> tuple[Law, Law]:
    """Check the separation of centers, and that each center was in its parent's domain.

    Both follow from the distances between each center and the centers of the older balls.
    """
    space, closest = agent.table.space, np.inf
    separation = parents = None
    for step in range(agent.horizon):
        number = np.flatnonzero(rows["step"] == step)
        balls = rows[number]
        size = max(1, ENTRIES // len(balls))
        for start in range(0, len(balls), size):
            younger = np.arange(start, min(start + size, len(balls)))
            apart = _center_distances(space, balls, balls[younger])
            is_older = np.arange(len(balls))[:, None] < younger[None, :]
            is_equal = is_older & (balls["depth"][:, None] == balls["depth"][younger][None, :])
            ratio = np.where(
                is_equal, apart / balls["reach"][:, None] if space.reach else np.inf, np.inf
            )
            closest = min(closest, float(ratio.min()))
            if separation is None and not ratio.min() > 1.0:
                i, j = np.argwhere(ratio <= 1.0)[0].tolist()
                other = ball_text(agent, int(number[i]))
                fault = (
                    f"{ball_text(agent, int(number[younger[j]]))} is no further than its radius "
                    f"from {other}"
                )
                separation = Law("separation", False, fault)
            depth = np.where(
                is_older & (apart <= balls["reach"][:, None]), balls["depth"][:, None], -1
            )
            smallest = number[depth.argmax(axis=0)]  # of equals the oldest
            wrong = (balls["parent"][younger] != NO_PARENT) & (smallest != balls["parent"][younger])
            if parents is None and wrong.any():
                j = int(np.argmax(wrong))
                fault = (
                    f"{ball_text(agent, int(number[younger[j]]))} had its center in the domain of "
                    f"ball {smallest[j]}, not in"
                )
                parents = Law(
                    "parents",
                    False,
                    f"{fault} that of its parent {balls['parent'][younger[j]]}, when it was made",
                )
    least = (
        f", the nearest {closest ** (1 / space.exponent):.3f} radii" if np.isfinite(closest) else ""
    )
    return (
        separation
        or Law(
            "separation", True, f"centers of equal radius are further than the radius apart{least}"
        ),
        parents
        or Law(
            "parents", True, "every center was in the domain of its parent when the ball was made"
        ),
    )


def _center_distances(space: Space, ones: NDArray[Any], others: NDArray[Any]) -> Floats:
    """Return an array [ones, others] of distances between centers, as the kernels store them."""
    first, second = (
        (both["state"].astype(np.int64), both["action"].astype(np.int64)) for both in (ones, others)
    )
    return space.pair_distances(
        *(part[:, None] for part in first), *(part[None, :] for part in second)
    )


RADIUS_TOLERANCE = 1e-9


def audit_balls(agent: MetricQ, optimal: Optimal | None, n_points: int, seed: int) -> Audit:
    """Return the audit of an agent whose balls are balls of a metric. See `zooming.audit`."""
    rows = agent.table.rows[: agent.table.rows_in_use]
    table = _table(agent, rows)
    laws = [table]
    if table.holds:  # the other checks need a valid table
        separation, parents = check_centers(agent, rows)
        laws = [check_covering(agent, rows), separation, parents, _visits(agent, rows), table]
    failures = dimension = None
    if optimal is not None and table.holds:
        law, failures = _optimism(agent, optimal, n_points, np.random.default_rng(seed))
        laws.append(law)
        dimension = _zooming_dimension(agent, optimal)
    played = rows[(rows["n_visits"] > 0) & (rows["n_points"] > 1)]
    sizes = np.sqrt(played["n_visits"]) * 0.5 ** played["depth"]
    c1, c2 = (
        (float(sizes.min()), float(sizes.max())) if len(sizes) else (float("nan"), float("nan"))
    )
    return Audit(
        f"Audit of {agent!r}", tuple(laws), c1, c2, None, None, failures, dimension, agent.nbytes
    )


def _table(agent: MetricQ, rows: NDArray[Any]) -> Law:
    """Check that the table is valid: centers, steps, parents, depths, radii and values.

    The other checks rely on this one.
    """
    space, n, horizon = agent.table.space, len(rows), agent.horizon
    first = np.arange(n) < horizon
    parents = np.where(first, 0, rows["parent"])
    is_older = np.where(
        first, rows["parent"] == NO_PARENT, (parents >= 0) & (parents < np.arange(n))
    )
    parents = np.where(is_older, parents, 0)
    diameter = space.diameter * 0.5 ** rows["depth"].astype(float)
    reach = space.reach * 0.5 ** (space.exponent * rows["depth"])
    faults = {
        "has a center that is no point": (rows["state"] < 0) | (rows["state"] >= space.n_states)
        | (rows["action"] < 0) | (rows["action"] >= space.n_actions),
        "names a parent that is not older": ~is_older,
        "is not at its parent's step": rows["step"]
        != np.where(first, np.arange(n), rows["step"][parents]),
        "is not one deeper than its parent": rows["depth"]
        != np.where(first, 0, rows["depth"][parents] + 1),
        "has a radius that is not d_max 2^-depth": ~np.isclose(
            rows["radius"], diameter, rtol=RADIUS_TOLERANCE, atol=0.0
        )
        | ~np.isclose(rows["reach"], reach, rtol=RADIUS_TOLERANCE, atol=0.0),
        "has a value that is not finite": ~np.isfinite(rows["value"]),
    }  # fmt: skip
    for fault, wrong in faults.items():
        if wrong.any():
            return Law("ball table", False, f"{ball_text(agent, int(np.argmax(wrong)))} {fault}")
    return Law(
        "ball table",
        True,
        f"{n} balls so far, each of half its parent's radius, with finite values",
    )


def _visits(agent: MetricQ, rows: NDArray[Any]) -> Law:
    """Check that the visits of each ball lie in the range of its depth."""
    depth, n, first = (
        rows["depth"].astype(float),
        rows["n_visits"],
        np.arange(len(rows)) < agent.horizon,
    )
    least = np.where(first, 0.0, agent.split_after * 4.0 ** (depth - 1))
    due = agent.split_after * 4.0**depth
    inherited = np.where(first, 0, n[np.where(first, 0, rows["parent"])])
    children = np.bincount(rows["parent"][~first], minlength=len(rows))
    # With a small split_after, the inherited visits may exceed the number that is due. A due ball
    # is split at its next visit, or gets one child then.
    most = np.maximum(np.ceil(due) - 1, inherited) + children
    can_split = (rows["n_points"] > 1) & (depth < MAX_DEPTH)
    wrong = (n < least) | (can_split & (n > most) & (agent.max_balls is None))
    rule = "4^l" if agent.split_after == 1 else f"{agent.split_after:g} 4^l"
    if wrong.any():
        row = int(np.argmax(wrong))
        last = f"to {most[row]:.0f}" if can_split[row] else "on"
        return Law(
            "visits per depth",
            False,
            f"{ball_text(agent, row)} should have from {np.ceil(least[row]):.0f} {last}",
        )
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


def _optimism(
    agent: MetricQ, optimal: Optimal, n_points: int, generator: np.random.Generator
) -> tuple[Law, float]:
    """Check Q(B) >= Q*(x, a), and return the law and the share of pairs where it fails.

    A finite problem is checked at all pairs. A problem on boxes is checked at all centers and at
    n_points random pairs of the net.
    """
    table, space = agent.table, agent.table.space
    states, actions = (space.points(side, agent.axes) for side in (0, 1))
    failed, looked, worst, first = 0, 0, 0.0, ""
    for step in range(agent.horizon):
        if is_finite(optimal.grid.env):
            pairs = np.arange(space.n_pairs)
        else:
            used = table.rows[: table.rows_in_use]
            used = used[(used["step"] == step) & (used["n_points"] > 0)]
            centers = used["state"].astype(np.int64) * len(actions) + used["action"]
            pairs = np.concatenate([centers, generator.integers(space.n_pairs, size=n_points)])
        x, a = np.divmod(pairs, len(actions))
        estimate = table.rows["value"][table.owner[step, x, a]]
        truth = optimal.q_values(step, states[x], actions[a])
        short = truth - estimate - optimal.error
        failed, looked = failed + int((short > RADIUS_TOLERANCE).sum()), looked + len(short)
        worst = max(worst, float(short.max()))
        if not first and (short > RADIUS_TOLERANCE).any():
            i = int(np.argmax(short > RADIUS_TOLERANCE))
            where = f"step {step}, {pair_text(agent, int(x[i]), int(a[i]))}"
            first = f"; first at {where}: Q = {estimate[i]:.4f} < Q* = {truth[i]:.4f}"
    share = failed / looked
    promise = find_optimistic_bonus(agent.bonus, optimal.grid.env, generator)
    # The constant 4 of Theory covers samples up to 3 r away, the largest distance to a sample of an
    # ancestor of radius r. It needs at most (d_max / r)^2 visits, so balls must be split in time.
    # Exact uses the radii themselves.
    is_in_time = not agent.lazy and agent.split_after <= 1 and agent.max_balls is None
    # On boxes the guarantee is for the problem on the net, but the optimum is of the original one.
    proved = (
        promise is not None
        and is_finite(optimal.grid.env)
        and (isinstance(promise, Exact) or is_in_time)
    )
    found = f"Q >= Q* fails at {share:.2%} of {looked:,} pairs" + (
        f", by up to {worst:.3g}{first}" if failed else ""
    )
    found += "" if proved or not failed else " (nothing is promised here)"
    return Law("optimism", not failed if proved else None, found), share


def _zooming_dimension(agent: MetricQ, optimal: Optimal) -> float | None:
    """Return the zooming dimension: the slope over l of log2(near-optimal balls of depth l).

    A ball is near-optimal if the gap V* - Q* at its center is at most H 2^-l.
    """
    counts = np.zeros(MAX_DEPTH + 1)
    for step in range(agent.horizon):
        found = agent.balls(step)
        truth = optimal.q_values(step, found.state, found.action)
        near = optimal.values(step, found.state) - truth <= agent.horizon * 0.5**found.depth
        counts += np.bincount(found.depth[near], minlength=len(counts))
    return growth(counts)
