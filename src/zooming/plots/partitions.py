"""Plot partitions: the active balls of a step in the state-action space."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from zooming.analysis.optimal import Optimal
from zooming.errors import ConfigurationError
from zooming.partitions.view import Partition, View
from zooming.plots.style import TICKS, drawing, show_literally
from zooming.validation import Floats, count_noun

MOST_TICKS = 12  # integers of an axis that are all labeled
WRAP = 52  # characters per line of a title


def partition(
    balls: Partition,
    ax: Any = None,
    *,
    optimal: Optimal | None = None,
    axes: Sequence[int | str] | None = None,
    at: Any = None,
    colorbar: bool = True,
    limits: tuple[float, float] | None = None,
    n: int = 101,
) -> Any:
    """Draw the active balls of one step, colored by Q.

    A space with more than two axes is drawn as a slice along two of them. The title says where the
    slice cuts the others.

    Parameters
    ----------
    balls : Partition
        The partition of one step, from `agent.partition`.
    optimal : Optimal, optional
        The result of `zooming.solve`. If given, the borders of the balls are drawn over Q*. A good
        partition is fine where Q* is high.
    axes : two axes, optional
        The two axes to draw, as numbers or names. By default the first state axis and the first
        action axis with several values and a weight above 0.
    at : dict, optional
        Where to cut some of the other axes: {axis: value}. By default at the center of the most
        visited ball.
    colorbar : bool
        Whether to add a colorbar.
    limits : pair of floats, optional
        The values at the two ends of the colormap.
    n : int
        Q* is evaluated on n x n points.

    Raises
    ------
    ConfigurationError
        If `balls` is not a `Partition`, or an axis is unknown.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> from matplotlib.figure import Figure
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0", horizon=2), seed=0)
    >>> history = agent.learn(3)
    >>> partition(agent.partition(0), Figure().subplots()).get_title()
    'step 0: 4 balls'
    """
    if not isinstance(balls, Partition):
        raise ConfigurationError(
            f"a {type(balls).__name__} is not a partition; give that of a step, for example "
            "agent.partition(0)"
        )
    (horizontal, vertical), point, shown = balls.slice(axes, at)
    pair = [horizontal, vertical]
    low, high = balls.window()
    first, last = (np.clip(corner, low, high)[shown][:, pair] for corner in (balls.low, balls.high))
    sides = (last - first) / (high - low)[pair]
    with drawing(ax, boxed=True) as ax:
        # Smaller balls have thinner borders, so that borders do not hide the color.
        borders = {"linewidth": np.clip(12 * sides.min(axis=1, initial=1.0), 0.12, 0.5)}
        if optimal is None:
            drawn = _boxes(first, last, edgecolor="white", **borders)
            drawn.set_array(balls.q_value[shown])
            ax.add_collection(drawn)
        else:
            x, y, q = _over_optimum(balls, optimal, pair, point, n)
            drawn = ax.pcolormesh(x, y, q, shading="gouraud", rasterized=True)
            wide = 1.4 * borders["linewidth"]
            ax.add_collection(
                _boxes(first, last, facecolor="none", edgecolor="black", linewidth=wide)
            )
        if limits:
            drawn.set_clim(*limits)
        ax.set(xlim=(low[horizontal], high[horizontal]), ylim=(low[vertical], high[vertical]))
        ax.set(xlabel=axis_label(balls.names, horizontal), ylabel=axis_label(balls.names, vertical))
        view = balls.view()
        set_ticks(ax.xaxis, view, horizontal)
        set_ticks(ax.yaxis, view, vertical)
        part = f", a slice through {int(shown.sum())}" if len(balls.names) > 2 else ""
        title = (
            f"step {balls.step}: {count_noun(len(balls), balls.noun)}"
            + ("" if optimal is None else " over Q*")
            + part
        )
        ax.set_title("\n".join([title, *wrap(balls.cut(axes, at).caption)]))
        if colorbar:
            add_colorbar(drawn, ax, "Q" if optimal is None else "Q*")
    return ax


def _over_optimum(
    balls: Partition, optimal: Optimal, pair: list[int], point: Floats, n: int
) -> tuple[Floats, Floats, Floats]:
    low, high = balls.window()
    x, y = (np.linspace(low[axis], high[axis], n) for axis in pair)
    points = np.tile(point, (n * n, 1))
    points[:, pair] = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    n_state = sum(path.startswith("state") for path in balls.paths or balls.names)
    states, actions = optimal.grid.env.round_discrete(points[:, :n_state], points[:, n_state:])
    return x, y, optimal.q_values(balls.step, states, actions).reshape(n, n)


def _boxes(low: Floats, high: Floats, **options: Any) -> Any:
    from matplotlib.collections import PolyCollection

    left, bottom, right, top = low[:, 0], low[:, 1], high[:, 0], high[:, 1]
    corners = np.stack([left, bottom, right, bottom, right, top, left, top], axis=1).reshape(
        -1, 4, 2
    )
    # Matplotlib's documentation allows an array of polygons.
    return PolyCollection(corners, **options)  # type: ignore[arg-type]


def axis_label(names: Sequence[str], axis: int) -> str:
    """Return the label of an axis: "state" if it is the only state axis, else its full name."""
    kinds = [name.split("[")[0] for name in names]
    is_only = kinds[axis] in ("state", "action") and kinds.count(kinds[axis]) == 1
    return kinds[axis] if is_only else names[axis]


def wrap(caption: str) -> list[str]:
    """Split a caption into lines of at most `WRAP` characters. An empty caption has no lines."""
    found = textwrap.wrap(
        caption.removeprefix(", ").replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"), WRAP
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in found]


def set_ticks(axis: Any, view: View, i: int) -> None:
    """Set ticks at integers on a discrete axis."""
    if not view.is_whole[i]:
        return
    low, high = int(view.low[i]), int(view.high[i])
    if high - low >= MOST_TICKS:
        axis.get_major_locator().set_params(nbins=8, integer=True)
        axis.set_major_formatter("{x:.0f}")
    else:
        axis.set_ticks(range(low, high + 1), list(map(str, range(low, high + 1))))


def add_colorbar(drawn: Any, ax: Any, text: str) -> Any:
    """Add a colorbar next to one Axes, or next to several, and return it."""
    several = list(np.ravel(ax)) if isinstance(ax, (list, np.ndarray)) else [ax]
    n = len(several)  # Matplotlib takes shares of the width of all of them
    bar = several[0].figure.colorbar(drawn, ax=several, label=text, fraction=0.15 / n, pad=0.05 / n)
    bar.outline.set_linewidth(0.8)
    show_literally(bar.ax.yaxis.label)
    bar.ax.tick_params(labelsize=TICKS)
    return bar
