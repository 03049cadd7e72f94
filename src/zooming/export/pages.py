"""Fill in the templates of self-contained HTML pages."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from typing import Any

from zooming.errors import ConfigurationError
from zooming.spaces.names import printable
from zooming.version import __version__

LONGEST_TITLE = 400  # characters


def fill_page(package: str, data: dict[str, Any], **parts: str) -> str:
    """Return the page.html of a package with its data, style and script inline.

    In the template, `%%NAME%%` is replaced by the part of that name. TITLE and SIZE are texts of
    the data, escaped. DATA is all data as JSON. STYLE and SCRIPT are page.css and page.js. POLICY
    is what the page may do. Strings of the data never become markup.
    """
    known = {
        "TITLE": html.escape(printable(data["title"], LONGEST_TITLE)),
        "SIZE": html.escape(data.get("size", "")),
        "STYLE": read_text(package, "page.css"),
        # Escape `<`, which could end the script element that holds the data.
        "DATA": json.dumps(data, allow_nan=False, default=str).replace("<", "\\u003c"),
        "SCRIPT": read_text(package, "page.js"),
        "VERSION": html.escape(__version__),
        **parts,
    }
    known["POLICY"] = html.escape(_content_policy(known))
    # One pass, so that placeholders in inserted text are not replaced.
    pieces = read_text(package, "page.html").split("%%")
    return "".join(known[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _content_policy(parts: dict[str, str]) -> str:
    """Return a Content-Security-Policy: no network, and no code but our own scripts, by hash.

    Plotly writes styles into its elements, so pages with plots allow inline styles.
    """
    scripts = " ".join(map(_hash, filter(None, [parts.get("PLOTLY"), parts["SCRIPT"]])))
    has_plots = "PLOTLY" in parts
    styles = "'unsafe-inline'" if has_plots else _hash(parts["STYLE"])
    images = "; img-src data: blob:" if has_plots else ""
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}{images}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def read_text(package: str, name: str) -> str:
    """Return the text of a file in a package."""
    return (resources.files(package) / name).read_text()


def plotly_script() -> str:
    """Return plotly's JavaScript. Raise ConfigurationError if it is not installed."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # it ships no types
    except ImportError as error:
        raise ConfigurationError("the page needs plotly: pip install 'zooming[lab]'") from error
    return str(get_plotlyjs())
