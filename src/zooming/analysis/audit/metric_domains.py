"""Check the domains and centers of balls of a metric. See `analysis.audit.metric_balls`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.metric_q import MetricQ
from zooming.analysis.audit.report import Law
from zooming.kernels import NO_PARENT
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
