"""Compare two configurations, and list their differences."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

MOST_SHOWN = 120  # characters shown of a setting that differs


def are_equal(stored: Any, ours: Any) -> bool:
    """Return whether two configurations are equal as JSON."""
    return json.dumps(stored, sort_keys=True) == json.dumps(ours, sort_keys=True)


def list_differences(stored: Any, ours: Any, where: str = "") -> Iterable[str]:
    """Yield one line of text for each entry in which two configurations differ."""
    if isinstance(stored, dict) and isinstance(ours, dict):
        for key in sorted({*stored, *ours}):
            yield from list_differences(
                stored.get(key), ours.get(key), f"{where}.{key}" if where else key
            )
    elif isinstance(stored, list) and isinstance(ours, list) and len(stored) == len(ours):
        for i, (there, here) in enumerate(zip(stored, ours, strict=True)):
            yield from list_differences(there, here, f"{where}[{i}]")
    elif stored != ours:
        yield f"  {where}: there {_short_json(stored)}, here {_short_json(ours)}"


def _short_json(value: Any) -> str:
    """Return a value as JSON, cut to MOST_SHOWN characters."""
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
