"""Draw bands, levels, labels and legends in plots of several agents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.plots.curve_data import Runs
from zooming.plots.groups import half_interval
from zooming.plots.look import (
    BAND,
    GRAY,
    line,
    set_integer_ticks,
)
from zooming.validation import Floats


def draw_band(ax: Any, x: NDArray[Any], samples: Floats, label: str | None, i: int) -> None:
    """Draw the mean of the samples [n_seeds, n] of agent number i, with its 95 % band."""
    mean, half = samples.mean(axis=0), half_interval(samples)
    style = line(i)
    ax.plot(x, mean, label=label, marker="o" if len(x) == 1 else None, **style)
    if len(samples) > 1:
        ax.fill_between(x, mean - half, mean + half, color=style["color"], alpha=BAND, linewidth=0)


def draw_level(ax: Any, height: float, name: str) -> None:
    """Draw a horizontal line. The legend shows its name and height."""
    ax.axhline(
        height, color=GRAY, linestyle=(0, (1, 1)), linewidth=1.2, label=f"{name} {height:.4g}"
    )


def label_episodes(ax: Any, named: Mapping[str, Runs], widths: Sequence[int]) -> None:
    """Set up the episode axis. Its label says how many episodes each point averages."""
    set_integer_ticks(ax.xaxis)
    ax.set_xlim(0, max(int(runs.episode[-1]) for runs in named.values()))
    if max(widths, default=1) == 1:
        ax.set_xlabel("episode")
        return
    about = "" if max(widths) == min(widths) else "about "
    ax.set_xlabel(f"episode (means over {about}{int(np.median(widths)):,} episodes)")


def draw_legend(ax: Any, n_seeds: list[int], where: str, *, bars: bool = False) -> None:
    """Draw the legend, if a line has a label.

    With several seeds, its title explains the 95 % bands. A plot without bands or bars calls
    `ax.legend` instead.
    """
    if not ax.get_legend_handles_labels()[1]:
        return
    seeds = f"{n_seeds[0]}" if len(set(n_seeds)) == 1 else f"{min(n_seeds)} to {max(n_seeds)}"
    title = (
        f"mean and 95 % {'bars' if bars else 'band'}, {seeds} seeds" if max(n_seeds) > 1 else None
    )
    legend = ax.legend(loc=where, title=title, alignment="left")
    legend.get_title().set_color(GRAY)


def make_room(ax: Any) -> None:
    """Raise the upper limit of a logarithmic axis so that the legend lies above all lines."""
    legend = ax.get_legend()
    if legend is None:
        return
    points = ax.get_window_extent().height / ax.figure.dpi * 72
    share = min(
        0.5, 1.45 * legend.get_texts()[0].get_fontsize() * (len(legend.get_texts()) + 1.5) / points
    )
    bottom, top = (math.log10(limit) for limit in ax.get_ylim())
    ax.set_ylim(10**bottom, 10 ** (bottom + (top - bottom) / (1 - share)))
