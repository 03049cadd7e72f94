"""The style shared by all plots. It is set on the Axes, never globally."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from zooming.errors import ConfigurationError

# Okabe and Ito's palette for color-blind readers
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
LINES = ("-", "--", "-.", ":", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))  # distinct in black and white
MARKERS = ("o", "s", "^", "D", "v", "P")
GRAY = "0.35"  # for reference values: an optimum, a bound
BAND = 0.18  # opacity
_TEXT = 9.0
TICKS = _TEXT - 1
_SETTINGS: dict[Any, Any] = {
    "font.size": _TEXT,
    "axes.titlesize": _TEXT + 1,
    "legend.fontsize": _TEXT - 1,
    "legend.title_fontsize": _TEXT - 1,
    "legend.frameon": False,
    "legend.handlelength": 2.6,  # long enough to tell the line styles apart
    "lines.linewidth": 1.6,
    "figure.dpi": 110,
    "image.cmap": "viridis",
}


@contextmanager
def drawing(ax: Any, *, boxed: bool = False) -> Iterator[Any]:
    """Give an Axes the style of this package's plots, as a context manager.

    You can use it for plots of your own, too.

    Parameters
    ----------
    boxed : bool
        Whether to draw all four sides and no grid. By default the left and lower sides and a grid
        are drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> with drawing(Figure().subplots()) as ax:
    ...     lines = ax.plot([1, 2, 3])
    >>> lines[0].get_linewidth(), ax.spines["top"].get_visible()
    (1.6, False)
    """
    try:
        import matplotlib as mpl
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'zooming[lab]'") from error
    if ax is not None and not hasattr(ax, "plot"):
        raise ConfigurationError(
            f"ax={ax!r} is not an Axes of matplotlib: leave it out to draw on a new one; the steps "
            "to draw are steps=[0, 1]"
        )
    with mpl.rc_context(_SETTINGS):
        if ax is None:
            ax = plt.subplots(figsize=(5, 3.8), layout="constrained")[1]
        yield ax
        # A given Axes was made with the caller's settings, so each property is set on it.
        show_literally(ax.title, ax.xaxis.label, ax.yaxis.label)
        if ax.get_legend() is not None:
            show_literally(*ax.get_legend().get_texts())
        ax.title.set_fontsize(_TEXT + 1)
        for label in (ax.xaxis.label, ax.yaxis.label):
            label.set_fontsize(_TEXT)
        ax.tick_params(labelsize=TICKS, width=0.8)
        for side, spine in ax.spines.items():
            spine.set_linewidth(0.8)
            spine.set_visible(boxed or side in ("left", "bottom"))
        if not boxed:
            ax.grid(True, color="0.9", linewidth=0.6)
            ax.set_axisbelow(True)


def show_literally(*texts: Any) -> None:
    """Let texts of matplotlib show names from data: two dollar signs are no formula."""
    for text in texts:
        text.set_parse_math(False)
        text.set_text(text.get_text().encode(errors="replace").decode())  # lone surrogates


def panels(ax: Any, n_rows: int, n_columns: int, size: tuple[float, float] = (2.7, 2.4)) -> Any:
    """Return an array [n_rows, n_columns] of Axes.

    If `ax` is None, make them in a new figure. If `ax` is a single Axes, divide it.
    """
    if ax is None:
        with drawing(None) as first:
            figure = first.figure
            figure.clear()
            figure.set_size_inches(size[0] * n_columns + 1.2, size[1] * n_rows + 0.5)
            return figure.subplots(n_rows, n_columns, squeeze=False)
    given = np.array(ax, object).reshape(-1)
    if len(given) == n_rows * n_columns:
        return given.reshape(n_rows, n_columns)
    place = given[0].get_subplotspec() if len(given) == 1 else None
    if place is None:
        raise ConfigurationError(
            f"ax: {n_rows} x {n_columns} panels are needed; give that many Axes, or a "
            "single one to be divided"
        )
    given[0].set_axis_off()
    return place.subgridspec(n_rows, n_columns).subplots(squeeze=False)


def line(i: int) -> dict[str, Any]:
    """Return color and line style of agent number i, as options of matplotlib."""
    return {"color": COLORS[i % len(COLORS)], "linestyle": LINES[i % len(LINES)]}


def set_integer_ticks(axis: Any) -> None:
    """Use few integer ticks with thousands separators, such as 10,000."""
    axis.get_major_locator().set_params(nbins=5, integer=True)
    axis.set_major_formatter("{x:,.0f}")
