"""HTML for notebooks and pages, and whether a notebook is running.

All strings that may come from a user, such as environment names, are escaped here.
"""

from __future__ import annotations

import base64
import hashlib
import io
import sys
from collections.abc import Sequence
from html import escape
from typing import Any

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;overflow-wrap:anywhere}.wide,pre{overflow-x:auto}table{border-collapse:collapse;"
    "overflow-wrap:normal}th,td{padding:.2rem .7rem;text-align:right;white-space:nowrap;"
    "border-bottom:1px solid #ddd}th:first-child,td:first-child{text-align:left}pre{background:"
    "#f6f6f6;padding:.8rem;font-size:12px}img{max-width:100%}svg{width:100%;height:auto}"
    ".warn{color:#a33}.quiet{color:#666}"
)


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


def page(title: str, body: str) -> str:
    """Return an HTML page that loads nothing from the network. `body` is HTML already."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" '
        f'content="{escape(policy)}"><link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def picture(figure: Any, what: str) -> str:
    """Return a figure of matplotlib as an HTML image. `what` is its text for screen readers."""
    figure.savefig(file := io.BytesIO(), format="png")
    coded = base64.b64encode(file.getvalue()).decode()
    return f'<p><img alt="{escape(what)}" src="data:image/png;base64,{coded}"></p>'
