"""Collect what an agent knows about actions in cells of states: Q and visits.

A visit is spread evenly over the ball that was visited, even if that ball was split later. So the
visits of all cells of a step sum to the number of episodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.agents.base.status import spread_visits
from zooming.errors import ConfigurationError
from zooming.export.forms import recommended
from zooming.export.regions import Regions, borders_in_units, cell_boxes, contain, volumes
from zooming.partitions.cells import CellTable
from zooming.validation import Floats

MOST_PAIRS = 2_000_000  # of cells and balls that are compared at once
FLOOR = 0.01  # share of the weight that is spread evenly over all states


@dataclass(frozen=True)
class Evidence:
    """What an agent knows about one action in each cell. NaN marks what it does not know.

    Attributes
    ----------
    q_value, visits : array [n]
        Q of the action, and how often it was played in the cell.
    total : array [n]
        How often any action was played in the cell.
    """

    q_value: Floats
    visits: Floats
    total: Floats


def gather(agent: Any, step: int, regions: Regions, actions: Floats) -> Evidence:
    """Return what an agent knows about `actions`, one action per cell of `regions`."""
    inner = recommended(agent)
    if isinstance(getattr(inner, "table", None), CellTable):
        return _look_up(inner.table, step, regions, actions)
    try:
        balls = agent.partition(step)
    except (AttributeError, NotImplementedError, ConfigurationError):
        return _ask(agent, step, regions, actions)
    n, n_state = len(actions), agent.axes.n_state
    low, high = balls.low.copy(), balls.high.copy()
    first, last = balls.window()
    density = spread_visits(agent, step, balls, volumes(low, high, first, last)) / volumes(
        low[:, :n_state], high[:, :n_state], regions.first, regions.last
    )
    low[low == low.min(axis=0)], high[high == high.max(axis=0)] = -np.inf, np.inf
    q_value, visits, total = np.empty(n), np.empty(n), np.empty(n)
    size = max(1, MOST_PAIRS // len(density))
    for begin in range(0, n, size):
        part = slice(begin, begin + size)
        is_near = contain(low[:, :n_state], high[:, :n_state], regions.points[part])
        is_own = is_near & contain(low[:, n_state:], high[:, n_state:], actions[part])
        total[part], visits[part] = is_near @ density, is_own @ density
        q_value[part] = balls.q_value[is_own.argmax(axis=1)]
    inside = regions.volumes
    return Evidence(_cap(agent, step, regions, q_value), visits * inside, total * inside)


def weigh(regions: Regions, evidence: Evidence) -> Floats:
    """Return the weight of each cell: its visits, plus a small weight for its volume."""
    known = next(
        (x for x in (evidence.total, evidence.visits) if np.isfinite(x).all() and x.sum() > 0),
        np.zeros(len(regions.points)),
    )
    share = regions.volumes / regions.volumes.sum()
    return np.asarray(known + (FLOOR * known.sum() or 1.0) * share)


def _look_up(table: CellTable, step: int, regions: Regions, actions: Floats) -> Evidence:
    """Return the evidence of a planner, read from its cells."""
    axes, n_state, policy = table.axes, table.axes.n_state, table.policy()
    plan, counts, bins = policy.plan, table.counts(), policy.grid.bins
    points = np.hstack(
        [
            axes.to_unit_cube(regions.points.copy(), 0),
            axes.to_unit_cube(actions.copy(), n_state),
        ]
    )
    borders = [borders_in_units(table, j) for j in range(len(axes))]
    places = [
        np.maximum(0, np.searchsorted(border, points[:, j], "right") - 1)
        for j, border in enumerate(borders)
    ]
    state = np.ravel_multi_index(places[:n_state], bins[:n_state])
    action = np.ravel_multi_index(places[n_state:], bins[n_state:])
    low, high = cell_boxes(table)
    part = regions.volumes / volumes(low, high, regions.first, regions.last)[state]
    shape = plan.values.shape[1], -1
    q, visits = plan.q[step].reshape(shape), counts[step].reshape(shape)
    return Evidence(
        q[state, action], visits[state, action] * part, visits.sum(axis=1)[state] * part
    )


def _ask(agent: Any, step: int, regions: Regions, actions: Floats) -> Evidence:
    """Return the evidence of an agent without boxes, from its `q_value` and `visits`."""
    n, axes = len(actions), agent.axes
    unknown = np.full(n, np.nan)
    pairs = [
        (axes.states.shaped(x), axes.actions.shaped(a))
        for x, a in zip(regions.points, actions, strict=True)
    ]
    try:
        q_value = np.array([agent.q_value(step, *pair) for pair in pairs])
        visits = np.array([agent.visits(step, *pair) for pair in pairs], np.float64)
    except (AttributeError, NotImplementedError, ConfigurationError):
        return Evidence(unknown, unknown, unknown)
    return Evidence(_cap(agent, step, regions, q_value), visits, unknown)


def _cap(agent: Any, step: int, regions: Regions, q_value: Floats) -> Floats:
    """Return Q, capped by the agent's value of the state."""
    shaped = agent.axes.states.shaped
    return np.minimum(q_value, [agent.value(step, shaped(point)) for point in regions.points])
