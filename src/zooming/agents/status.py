"""The status of an agent: a dictionary that prints as readable lines."""

from __future__ import annotations

from typing import Any, NamedTuple


class Status(dict[str, Any]):
    """The result of `agent.status()`: a dictionary that prints as one line per entry.

    Examples
    --------
    >>> axes = {"state[0]": Bandwidths(0.25, float("inf"))}
    >>> print(Status({"plays": "Planner", "axes": axes, "gain": 0.5}))
    plays: Planner
    axes:
      state[0]: reward bandwidth 0.25, value bandwidth inf
    gain: 0.5
    """

    def __str__(self) -> str:
        return "\n".join(_lines(self, ""))


class Bandwidths(NamedTuple):
    """Bandwidths of a planner's models along an axis, as shares of the axis."""

    reward_bandwidth: float
    value_bandwidth: float


def _lines(entries: dict[str, Any], indent: str) -> list[str]:
    """Return one line per entry. Nested dictionaries and lists are indented."""
    found = []
    for name, value in entries.items():
        if isinstance(value, dict):
            found += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        elif isinstance(value, list):
            found.append(f"{indent}{name}: {'' if value else 'none'}".rstrip())
            found += [f"{indent}  {entry}" for entry in value]
        else:
            found.append(f"{indent}{name}: {in_words(value)}")
    return found


def in_words(value: Any) -> str:
    """Return a value of a status as text: numbers with at most four digits."""
    if isinstance(value, Bandwidths):
        return ", ".join(
            f"{name.replace('_', ' ')} {in_words(one)}" for name, one in value._asdict().items()
        )
    if isinstance(value, tuple):
        return ", ".join(in_words(one) for one in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known yet"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
