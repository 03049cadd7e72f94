"""Balls of a metric: which pairs share a ball, and what is expected of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError
from zooming.metrics.covering import Balls
from zooming.optimal import Optimal
from zooming.plots.look import TICKS, drawing
from zooming.plots.space import label

MOST_NAMES = 16  # along an axis: more of them overlap


def balls(
    found: Balls,
    ax: Any = None,
    *,
    optimal: Optimal | None = None,
    state_names: Sequence[Any] | None = None,
    action_names: Sequence[Any] | None = None,
    colorbar: bool = True,
    cmap: str = "viridis",
) -> Any:
    """The domains of the balls of a step, colored by their Q: a cell for each pair, lines where one ball ends, dots at centers.

    With `optimal` (from `zooming.solve`) Q* in color instead. Pairs lie in the order of their numbers, which need not be that
    of their distances: a domain may have several parts. `state_names` and `action_names` label up to sixteen points, for
    example `metric.points`. For one state axis and one action axis.
    """
    if not isinstance(found, Balls):
        raise SpaceError(f"a {type(found).__name__} is not what MetricQ.balls gives; for example agent.balls(0)")
    if found.states.shape[1] != 1 or found.actions.shape[1] != 1:
        n_state, n_action = found.states.shape[1], found.actions.shape[1]
        raise SpaceError(f"balls are drawn for one state axis and one action axis, not for {n_state} and {n_action}")
    x, a = _edges(found.states[:, 0]), _edges(found.actions[:, 0])
    values = found.q_value[found.owner]
    if optimal is not None:
        state, action = np.divmod(np.arange(values.size), len(found.actions))
        values = optimal.q_values(found.step, found.states[state], found.actions[action]).reshape(values.shape)
    with drawing(ax, boxed=True) as ax:
        drawn = ax.pcolormesh(x, a, values.T, cmap=cmap, rasterized=True)
        color = "white" if optimal is None else "black"
        ax.add_collection(_borders(found.owner, x, a, color=color, linewidth=0.7))
        ax.plot(found.state[:, 0], found.action[:, 0], ".", color=color, markersize=2)
        ax.set(xlim=(x[0], x[-1]), ylim=(a[0], a[-1]), xlabel=label(found.names, 0), ylabel=label(found.names, 1))
        ax.set_title(f"step {found.step}: {len(found)} balls" + ("" if optimal is None else " over Q*"))
        for axis, names, points in ((ax.xaxis, state_names, found.states), (ax.yaxis, action_names, found.actions)):
            if names is not None and len(names) != len(points):
                raise SpaceError(f"{len(names)} names for {len(points)} points; give one for each")
            if names is not None and len(names) <= MOST_NAMES:
                axis.set_ticks(points[:, 0], [str(name) for name in names])
        if state_names is not None and len(state_names) <= MOST_NAMES:
            ax.tick_params(axis="x", rotation=45)
        if colorbar:
            bar = ax.figure.colorbar(drawn, ax=ax, label="Q" if optimal is None else "Q*")
            bar.outline.set_linewidth(0.8)
            bar.ax.tick_params(labelsize=TICKS)
    return ax


def _borders(owner: NDArray[np.int64], x: NDArray[np.float64], a: NDArray[np.float64], **look: Any) -> Any:
    """A line between each two neighboring cells of different balls."""
    from matplotlib.collections import LineCollection

    i, j = np.nonzero(owner[1:] != owner[:-1])
    upright = np.stack([np.stack([x[i + 1], a[j]], axis=1), np.stack([x[i + 1], a[j + 1]], axis=1)], axis=1)
    i, j = np.nonzero(owner[:, 1:] != owner[:, :-1])
    level = np.stack([np.stack([x[i], a[j + 1]], axis=1), np.stack([x[i + 1], a[j + 1]], axis=1)], axis=1)
    return LineCollection(list(np.concatenate([upright, level])), **look)


def _edges(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cell borders halfway between points, and as far out at both ends."""
    if len(points) == 1:
        return np.array([points[0] - 0.5, points[0] + 0.5])
    middle = (points[1:] + points[:-1]) / 2
    return np.concatenate([[2 * points[0] - middle[0]], middle, [2 * points[-1] - middle[-1]]])
