"""Plot the balls of a `MetricQ` agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.analysis.optimal import Optimal
from zooming.errors import ConfigurationError
from zooming.metrics.space import Balls
from zooming.partitions.cuts import View, most_visited
from zooming.plots.look import drawing
from zooming.plots.partitions import MOST_NAMES, add_colorbar, axis_label, set_ticks, wrap
from zooming.validation import count_noun


def balls(
    found: Balls,
    ax: Any = None,
    *,
    optimal: Optimal | None = None,
    axes: Sequence[int | str] | None = None,
    at: Any = None,
    state_names: Sequence[Any] | None = None,
    action_names: Sequence[Any] | None = None,
    colorbar: bool = True,
    cmap: str = "viridis",
) -> Any:
    """Draw the domains of the balls of one step, colored by Q.

    Each state-action pair is a cell. Lines separate the domains of different balls, and dots mark
    the centers. Pairs are drawn in the order of their coordinates. The metric may order them
    differently, so a domain may consist of several parts. With more than one state axis or action
    axis, the plot is a slice, as in `partition`.

    Parameters
    ----------
    found : Balls
        The balls of one step, from `MetricQ.balls`.
    ax : Axes, optional
        The Axes to draw on. By default a new one.
    optimal : Optimal, optional
        The result of `zooming.solve`. If given, the color shows Q* instead of Q.
    axes : two axes, optional
        The two axes to draw, as numbers or names.
    at : dict or point, optional
        Where to cut the other axes. See `partition`.
    state_names, action_names : sequence, optional
        Labels of the values along the drawn state and action axis. By default the names that the
        metric has for them. An axis with more than sixteen values is not labeled in full.
    colorbar : bool
        Whether to add a colorbar.
    cmap : str
        The matplotlib colormap.

    Returns
    -------
    Axes

    Raises
    ------
    ConfigurationError
        If `found` is not a `Balls`, `axes` is not two different axes, or the number of names
        differs from the number of values.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> from matplotlib.figure import Figure
    >>> env = gym.make("zooming/Oil-v0", horizon=2)
    >>> agent = zooming.MetricQ(env, zooming.metrics.LInf(5), seed=0)
    >>> balls(agent.balls(0), Figure().subplots()).get_title()
    'step 0: 1 ball'
    """
    if not isinstance(found, Balls):
        raise ConfigurationError(
            f"a {type(found).__name__} is not what MetricQ.balls gives; for example agent.balls(0)"
        )
    points = [
        np.unique(side[:, i])
        for side in (found.states, found.actions)
        for i in range(side.shape[1])
    ]
    view = _view(found, points)
    drawn_axes = (
        [*view.first("state"), *view.first("action")]
        if axes is None
        else [view.index(i, "axes") for i in axes]
    )
    if len(drawn_axes) != 2 or drawn_axes[0] == drawn_axes[1]:
        raise ConfigurationError(
            f"axes={axes}: give two different axes out of {dict(enumerate(view.names))}"
        )
    centers = np.hstack([found.state, found.action])
    visited = most_visited(centers, found.n_visits, found.depth)
    cut = view.cut(drawn_axes, at, view.middle() if visited is None else visited)
    # The points form a grid; move the cut to the nearest grid point.
    nearest = [
        int(np.abs(values - value).argmin())
        for values, value in zip(points, cut.point, strict=True)
    ]
    cut = replace(
        cut, point=np.array([values[k] for values, k in zip(points, nearest, strict=True)])
    )
    place: list[Any] = [slice(None) if i in drawn_axes else k for i, k in enumerate(nearest)]
    order = [np.lexsort(side.T[::-1]) for side in (found.states, found.actions)]
    shape = [len(values) for values in points]
    owner = found.owner[np.ix_(*order)].reshape(shape)[tuple(place)]
    values = found.q_value[owner]
    across, up = (points[i] for i in drawn_axes)
    if drawn_axes[0] > drawn_axes[1]:
        owner, values = owner.T, values.T
    x, a = _edges(across), _edges(up)
    if optimal is not None:
        n_state = found.states.shape[1]
        pairs = np.tile(cut.point, (values.size, 1))
        pairs[:, drawn_axes] = np.stack(np.meshgrid(across, up, indexing="ij"), axis=-1).reshape(
            -1, 2
        )
        values = optimal.q_values(found.step, pairs[:, :n_state], pairs[:, n_state:]).reshape(
            values.shape
        )
    with drawing(ax, boxed=True) as ax:
        drawn = ax.pcolormesh(x, a, values.T, cmap=cmap, rasterized=True)
        color = "white" if optimal is None else "black"
        ax.add_collection(_borders(owner, x, a, color=color, linewidth=0.7))
        others = [i for i in range(len(points)) if i not in drawn_axes]
        here = (centers[:, others] == cut.point[others]).all(axis=1)  # centers in the slice
        ax.plot(*centers[here][:, drawn_axes].T, ".", color=color, markersize=2)
        ax.set(xlim=(x[0], x[-1]), ylim=(a[0], a[-1]))
        ax.set(
            xlabel=axis_label(found.names, drawn_axes[0]),
            ylabel=axis_label(found.names, drawn_axes[1]),
        )
        part = f", a slice through {len(np.unique(owner))}" if others else ""
        title = (
            f"step {found.step}: {count_noun(len(found), 'ball')}"
            + ("" if optimal is None else " over Q*")
            + part
        )
        ax.set_title("\n".join([title, *wrap(cut.caption)]))
        for axis, i in zip((ax.xaxis, ax.yaxis), drawn_axes, strict=True):
            given = state_names if i < found.states.shape[1] else action_names
            names = found.value_names.get(view.names[i]) if given is None else given
            if names is not None and len(names) != shape[i]:
                raise ConfigurationError(
                    f"{len(names)} names for {shape[i]} points; give one for each"
                )
            set_ticks(
                axis,
                view,
                i,
                None if names is None or not view.is_whole[i] else {view.names[i]: names},
            )
            if names is not None and not view.is_whole[i] and len(names) <= MOST_NAMES:
                axis.set_ticks(points[i], [str(name) for name in names])
        if colorbar:
            add_colorbar(drawn, ax, "Q" if optimal is None else "Q*")
    return ax


def _view(found: Balls, points: list[NDArray[np.float64]]) -> View:
    """Return the `View` of the axes of the pairs.

    An axis whose points are consecutive integers is treated as discrete.
    """
    low, high = (np.array([values[k] for values in points]) for k in (0, -1))
    is_whole = tuple(
        bool((values == np.arange(len(values)) + values[0]).all() and values[0] % 1 == 0)
        for values in points
    )
    return View(tuple(found.names), low, high, is_whole, (True,) * len(points), found.paths)


def _borders(
    owner: NDArray[np.int64], x: NDArray[np.float64], a: NDArray[np.float64], **look: Any
) -> Any:
    """Return lines between neighboring cells that belong to different balls."""
    from matplotlib.collections import LineCollection

    i, j = np.nonzero(owner[1:] != owner[:-1])
    upright = np.stack(
        [np.stack([x[i + 1], a[j]], axis=1), np.stack([x[i + 1], a[j + 1]], axis=1)], axis=1
    )
    i, j = np.nonzero(owner[:, 1:] != owner[:, :-1])
    level = np.stack(
        [np.stack([x[i], a[j + 1]], axis=1), np.stack([x[i + 1], a[j + 1]], axis=1)], axis=1
    )
    return LineCollection(list(np.concatenate([upright, level])), **look)


def _edges(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cell borders: halfway between points, and equally far outside the two ends."""
    if len(points) == 1:
        return np.array([points[0] - 0.5, points[0] + 0.5])
    middle = (points[1:] + points[:-1]) / 2
    return np.concatenate([[2 * points[0] - middle[0]], middle, [2 * points[-1] - middle[-1]]])
