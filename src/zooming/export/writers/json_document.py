"""Write a policy as JSON. `docs/export.md` documents the schema."""

from __future__ import annotations

import json
from typing import Any

from zooming.export.forms import PolicyForm
from zooming.version import __version__

FORMAT, VERSION = "zooming-policy", 1


def json_document(form: PolicyForm) -> str:
    """Return the policy as a JSON document with one line per table."""
    content = json_content(form)
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def json_content(form: PolicyForm) -> dict[str, Any]:
    """Return the content of the JSON document as a dict."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "form": form.kind,
        "written_by": f"zooming {__version__}",
        "about": form.describe(),
        "horizon": form.horizon,
        "state": _axes(form.state_names, form.state_is_whole),
        "action": _axes(form.action_names, form.action_is_whole),
        "most_comparisons": form.depth,
        **{name: table.tolist() for name, table in form.tables().items()},
    }


def _axes(names: tuple[str, ...], whole: tuple[bool, ...]) -> list[dict[str, object]]:
    return [
        {"name": name, "is_whole": is_whole} for name, is_whole in zip(names, whole, strict=True)
    ]
