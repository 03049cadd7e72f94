"""Find the drawn states that an agent has hardly ever visited, and shade them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.visit_shares import spread_visits
from zooming.errors import ConfigurationError
from zooming.kernels.layout import LOW, WIDTH
from zooming.kernels.plan_layout import WEIGHT
from zooming.partitions.cuts import Cut
from zooming.validation import Floats

NEAR = 0.05  # a visit is near a state if it is at most this share of each drawn axis away
AT_ONCE = 20_000  # boxes that are compared with all drawn states at once: about 100 MB
UNSEEN = "no visits nearby"
SHADE = "0.92"  # gray

Boxes = tuple[Floats, Floats, Floats]  # low corners, high corners, visits


def have_visits(
    agent: Any, step: int, cut: Cut, places: list[Floats], ends: list[tuple[float, float]]
) -> NDArray[np.bool_] | None:
    """Return for each drawn state whether the agent has visited a state near it at a step.

    On a discrete axis, only the value itself is near.

    Parameters
    ----------
    agent : Agent
        The agent.
    step : int
        The step, from 0.
    cut : Cut
        The drawn axes, and the values of the others.
    places : list of array
        The states along each drawn axis. The result has all combinations, first axis slowest.
    ends : list of (float, float)
        The first and the last value of each drawn axis.

    Returns
    -------
    array of bool or None
        None if the agent does not know where it has been, or has not been anywhere.
    """
    found = _sampled_states(agent, step)
    low, high, visits = _visited_boxes(agent, step, cut) if found is None else found
    if not visits.sum() > 0:
        return None
    near: Any = 0.0
    for first in range(0, len(visits), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        near = near + _visits_near(low[part], high[part], visits[part], cut, places, ends)
    return np.asarray(near.ravel() > 1.0 - 1e-9)


def _visits_near(
    low: Floats,
    high: Floats,
    visits: Floats,
    cut: Cut,
    places: list[Floats],
    ends: list[tuple[float, float]],
) -> Floats:
    """Return how many visits of some boxes are near each drawn state."""
    shares = []
    for i, along, (left, right) in zip(cut.drawn, places, ends, strict=True):
        reach = 0.5 if cut.view.is_whole[i] else NEAR * (right - left)
        begin, end = along[:, None] - reach, along[:, None] + reach
        inside = np.minimum(end, high[:, i]) - np.maximum(begin, low[:, i])
        width = high[:, i] - low[:, i]
        share = np.maximum(inside, 0.0) / np.where(width > 0, width, 1.0)
        shares.append(np.where(width > 0, share, inside >= 0))  # a sample has no width
    near = shares[0] * visits
    return np.asarray(near.sum(axis=1) if len(shares) == 1 else near @ shares[1].T)


def _sampled_states(agent: Any, step: int) -> Boxes | None:
    """Return the states of a planner's samples of a step as boxes without width.

    None if neither the agent nor one of its `agents` keeps samples.
    """
    for keeper in (agent, *getattr(agent, "agents", ())):
        table: Any = getattr(keeper, "table", None)
        if not hasattr(table, "samples"):
            continue
        axes = keeper.axes
        own, n = slice(0, axes.n_state), table.n_samples
        is_own = table.samples.steps[:n] == step
        unit = (table.samples.places[:n][is_own, own] + 0.5) / np.asarray(table.units)[own]
        scaled = axes.table[own, LOW] + unit * axes.table[own, WIDTH]
        states = np.asarray(axes.from_unit_cube(scaled, 0), np.float64)
        return states, states, table.samples.numbers[:n][is_own, WEIGHT].astype(np.float64)
    return None


def _visited_boxes(agent: Any, step: int, cut: Cut) -> Boxes:
    """Return the balls of a step as boxes of states, with their visits.

    Balls that do not contain the fixed values of the axes that are not drawn have 0 visits. A visit
    is spread evenly over the ball that was visited, also if it was split later.
    """
    try:
        balls = agent.partition(step)
    except (AttributeError, NotImplementedError, ConfigurationError):
        return np.empty((0, len(cut.point))), np.empty((0, len(cut.point))), np.empty(0)
    first, last = balls.window()
    low, high = np.maximum(balls.low, first), np.minimum(balls.high, last)
    visits = spread_visits(agent, step, balls, (high - low).prod(axis=1))
    others = [i for i in range(len(cut.point)) if i not in cut.drawn]
    at = cut.point[others]
    is_cut = (balls.low[:, others] <= at) & (at <= balls.high[:, others])
    return low, high, visits * is_cut.all(axis=1)


def shade_unseen(ax: Any, borders: Floats, is_seen: NDArray[np.bool_]) -> None:
    """Shade the parts of a state axis without visits nearby. The first part has a label.

    `borders` are those of the drawn states: one more than `is_seen` has entries.
    """
    turns = np.flatnonzero(np.diff(np.concatenate([[True], is_seen, [True]])))
    for k, (begin, end) in enumerate(turns.reshape(-1, 2).tolist()):
        label = UNSEEN if k == 0 else "_"
        ax.axvspan(borders[begin], borders[end], color=SHADE, linewidth=0, zorder=-1, label=label)
