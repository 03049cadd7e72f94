"""The one look of all pictures, set on the Axes and never globally."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from zooming.errors import SpaceError

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito: safe for color-blind readers
LINES = ("-", "--", "-.", ":", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))  # so that black and white suffices
MARKERS = ("o", "s", "^", "D", "v", "P")
GRAY = "0.35"  # what is compared with: an optimum, a bound
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
}


@contextmanager
def drawing(ax: Any, *, boxed: bool = False) -> Iterator[Any]:
    """The Axes to draw on, a new one if none was given, with the look of all pictures; `boxed` keeps all four sides.

    For drawings of your own: `with plots.drawing(ax) as ax: ax.plot(...)`.
    """
    try:
        import matplotlib as mpl
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'zooming[study]'") from error
    with mpl.rc_context(_SETTINGS):
        if ax is None:
            ax = plt.subplots(figsize=(5, 3.8), layout="constrained")[1]
        yield ax
        # A given Axes was made with the caller's settings, so these are set one by one.
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


def panels(ax: Any, n_rows: int, n_columns: int, size: tuple[float, float] = (2.7, 2.4)) -> Any:
    """Return [n_rows, n_columns] Axes to draw on: new ones, those given, or parts of the place of the one given."""
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
        raise SpaceError(f"ax: there are {n_rows} x {n_columns} panels to draw; give as many Axes, or one of plt.subplots")
    given[0].set_axis_off()
    return place.subgridspec(n_rows, n_columns).subplots(squeeze=False)


def line(i: int) -> dict[str, Any]:
    """Color and line style of the i-th agent."""
    return {"color": COLORS[i % len(COLORS)], "linestyle": LINES[i % len(LINES)]}


def power(value: float) -> str:
    """A large number typeset in powers of ten: 7.7 x 10^6."""
    if not 1e5 <= abs(value) < math.inf:
        return f"{value:,.0f}"
    exponent = math.floor(math.log10(abs(value)))
    return f"${value / 10**exponent:.1f} \\times 10^{{{exponent}}}$"


def thousands(axis: Any) -> None:
    """Few ticks, with separators: 10,000."""
    axis.get_major_locator().set_params(nbins=5, integer=True)
    axis.set_major_formatter("{x:,.0f}")
