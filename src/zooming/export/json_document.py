"""Write a policy as JSON; `docs/export.md` documents the schema."""

from __future__ import annotations

import json

from zooming.export.decision_tree import DecisionTree
from zooming.version import __version__

FORMAT, VERSION = "zooming-policy", 1


def json_document(tree: DecisionTree) -> str:
    """Return the policy as a JSON document."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"zooming {__version__}",
        "about": tree.describe(),
        "horizon": tree.horizon,
        "state": _axes(tree.state_names, tree.state_is_whole),
        "action": _axes(tree.action_names, tree.action_is_whole),
        "roots": tree.roots.tolist(),
        "axis": tree.axis.tolist(),
        "threshold": tree.threshold.tolist(),
        "left": tree.left.tolist(),
        "right": tree.right.tolist(),
        "actions": tree.actions.tolist(),
        "most_comparisons": tree.depth,
    }
    return json.dumps(content, indent=1) + "\n"


def _axes(names: tuple[str, ...], whole: tuple[bool, ...]) -> list[dict[str, object]]:
    return [
        {"name": name, "is_whole": is_whole} for name, is_whole in zip(names, whole, strict=True)
    ]
