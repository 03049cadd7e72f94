"""Make HTML for notebooks: small tables and inline SVG, without a plotting library or scripts.

All strings that may come from a user, such as environment names, are escaped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_BOXES = 1500  # more are too small to be seen at this size
_VIRIDIS = np.array(
    [(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)], np.float64
)


def card(
    title: str,
    facts: dict[str, Any] | Sequence[tuple[str, Any]],
    pictures: Sequence[str] = (),
) -> str:
    """Return HTML with a title, a table of (label, value), and pictures side by side."""
    cell = 'style="text-align:left;padding:1px 12px 1px 0"'
    rows = "".join(
        f"<tr><th {cell}>{escape(str(k))}</th><td {cell}>{escape(str(v))}</td></tr>"
        for k, v in (facts.items() if isinstance(facts, dict) else facts)
    )
    shown = "".join(f'<div style="margin:4px 12px 0 0">{picture}</div>' for picture in pictures)
    return (
        f'<div><strong>{escape(title)}</strong><table style="margin:4px 0">{rows}</table>'
        f'<div style="display:flex;flex-wrap:wrap">{shown}</div></div>'
    )


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str] = ()
) -> str:
    """Return HTML with a title, a table with a header row, and one line per note."""
    cell = 'style="text-align:left;padding:1px 12px 1px 0"'
    head = "".join(f"<th {cell}>{escape(str(name))}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td {cell}>{escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return (
        f'<div><strong>{escape(title)}</strong><table style="margin:4px '
        f'0"><tr>{head}</tr>{body}</table>{below}</div>'
    )


def sparkline(values: ArrayLike, caption: str, *, width: int = 220, height: int = 48) -> str:
    """Return an SVG line chart of the values, averaged to at most 100 points."""
    line = np.asarray(values, np.float64)
    if not len(line):
        return ""
    parts = np.array_split(line, min(100, len(line)))
    means = np.array([part.mean() for part in parts])
    caption += f", means of {len(parts[0]):,}" if len(parts[0]) > 1 else ""
    low, high = float(means.min()), float(means.max())
    x = np.linspace(2, width - 2, len(means)) if len(means) > 1 else np.array([width / 2])
    y = (
        height
        - 3
        - (height - 6) * ((means - low) / (high - low) if high > low else np.full(len(means), 0.5))
    )
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    mark = f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="2" fill="#0072B2"/>'
    line_drawn = f'<polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="1.5"/>'
    return _figure(f"{caption}: {low:.4g} to {high:.4g}", line_drawn + mark, width, height)


def boxes(
    low: NDArray[Any], high: NDArray[Any], q_value: NDArray[Any], caption: str, *, size: int = 130
) -> str:
    """Return an SVG of boxes [n, 2], dark for low values and light for high ones.

    Only the MOST_BOXES largest boxes are drawn.
    """
    corner, end = low.min(axis=0), high.max(axis=0)
    left, right = (low - corner) / (end - corner) * size, (high - corner) / (end - corner) * size
    order = np.argsort(-(right - left).prod(axis=1), kind="stable")[:MOST_BOXES]
    span = float(np.ptp(q_value)) or 1.0
    place = (q_value - q_value.min()) / span * (len(_VIRIDIS) - 1)
    channels = [
        np.interp(place, range(len(_VIRIDIS)), _VIRIDIS[:, i]).round().astype(int) for i in range(3)
    ]
    drawn = "".join(
        f'<rect x="{left[i, 0]:.2f}" y="{size - right[i, 1]:.2f}" '
        f'width="{right[i, 0] - left[i, 0]:.2f}" '
        f'height="{right[i, 1] - left[i, 1]:.2f}" '
        f'fill="#{channels[0][i]:02x}{channels[1][i]:02x}{channels[2][i]:02x}"/>'
        for i in order
    )
    return _figure(caption, f'<g stroke="white" stroke-width="0.25">{drawn}</g>', size, size)


def _figure(caption: str, drawn: str, width: int, height: int) -> str:
    # The caption is HTML above the SVG, so it has the text color of dark themes too.
    return (
        f'<div style="font-size:80%;max-width:{width + 60}px">{escape(caption)}</div>'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img"><title>{escape(caption)}</title>{drawn}</svg>'
    )
