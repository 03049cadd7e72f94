"""Notebooks: whether one is running, and HTML tables for them and for pages.

All strings that may come from a user, such as environment names, are escaped here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from typing import Any


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook: Jupyter, VS Code, Colab."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)


def card(title: str, facts: Sequence[tuple[str, Any]]) -> str:
    """Return HTML with a title and a table of (label, value)."""
    cell = 'style="text-align:left;padding:1px 12px 1px 0"'
    rows = "".join(
        f"<tr><th {cell}>{escape(str(k))}</th><td {cell}>{escape(str(v))}</td></tr>"
        for k, v in facts
    )
    return f'<div><strong>{escape(title)}</strong><table style="margin:4px 0">{rows}</table></div>'


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
