"""Read the findings of a reproduction for the page: title, verdicts, scales of the bonus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zooming.errors import ConfigurationError
from zooming.study.stored import read_json
from zooming.validation import check_float, count_noun

FINDINGS = "findings.json"
REPRODUCTION = "Adaptive discretization: the paper's figures, reproduced"
REMEDY = "delete it, and zooming reproduce makes it again"


def title(folder: Path, n_problems: int) -> str:
    """Return the title of the page."""
    if (folder / FINDINGS).exists():
        return REPRODUCTION
    if (folder / "evaluation").exists():
        return f"Agents tuned on {count_noun(n_problems, 'problem')}, and tested on fresh seeds"
    return f"Agents compared on {count_noun(n_problems, 'problem')}"


def figures(path: Path) -> list[dict[str, Any]]:
    """Return the findings of a reproduction, one entry per figure.

    Raise ConfigurationError if the file is damaged.
    """
    content = replace_non_finite(read_json(path, REMEDY))
    try:
        found = list(content["figures"].values())
        for one in found:
            texts = [one["problem"], one.get("heading", ""), *one["agents"].values()]
            if (
                not all(isinstance(text, str) for text in texts)
                or Path(one["problem"]).name != one["problem"]
            ):
                raise ValueError("the name of a problem or an agent is not valid")
            _check(one.get("verdicts", []))
            one["scales"] = scales(one)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _damage_error(path, error) from error
    if not found:
        raise ConfigurationError(f"{path} holds no figure; zooming reproduce continues it")
    return found


def overall(path: Path) -> list[dict[str, Any]]:
    """Return the verdicts on claims about several figures, or an empty list without a file."""
    if not path.exists():
        return []
    content = replace_non_finite(read_json(path, REMEDY))
    try:
        found: list[dict[str, Any]] = content.get("overall", [])
        _check(found)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _damage_error(path, error) from error
    return found


def _check(verdicts: Sequence[dict[str, Any]]) -> None:
    """Raise ValueError if an entry is not a verdict."""
    for verdict in verdicts:
        if not isinstance(verdict["sentence"], str) or verdict["holds"] not in (True, False, None):
            raise ValueError("an entry of the verdicts is not a verdict")


def _damage_error(path: Path, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{path} is damaged ({error!r}); {REMEDY}")


def count_confirmed(verdicts: Sequence[dict[str, Any]]) -> str:
    """Return a sentence that counts the confirmed claims, or "" if there are no claims."""
    if not verdicts:
        return ""
    holds = [verdict["holds"] for verdict in verdicts]
    rest = [(holds.count(False), "refuted"), (holds.count(None), "undecided")]
    others = ", ".join(f"{n} {word}" for n, word in rest if n)
    return f"{holds.count(True)} of {len(holds)} claims confirmed" + (
        f"; {others}" if others else ""
    )


def scales(found: dict[str, Any]) -> dict[str, Any] | None:
    """Return the mean return at each scale of the bonus, by agent, or None if none were tried."""
    scores = found.get("scores")
    if not scores:
        return None
    numbers = {
        name: [
            [
                check_float(number, "score", -math.inf, math.inf)
                for number in (scale, mean, low, high)
            ]
            for scale, mean, low, high in rows
        ]
        for name, rows in scores.items()
    }
    tried = sorted({scale for rows in numbers.values() for scale, *_ in rows})
    by_agent = {name: {scale: bounds for scale, *bounds in rows} for name, rows in numbers.items()}
    return {
        "agents": list(scores),
        "rows": [[scale, *(at.get(scale) for at in by_agent.values())] for scale in tried],
        "best": [found["best_scale"][name] for name in scores],
    }


def replace_non_finite(content: Any) -> Any:
    """Return JSON content with NaN and infinities as strings. Strict JSON has neither."""
    if isinstance(content, dict):
        return {key: replace_non_finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [replace_non_finite(value) for value in content]
    return str(content) if isinstance(content, float) and not math.isfinite(content) else content
