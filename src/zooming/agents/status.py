"""The status of an agent: a dictionary that shows its numbers plainly, as lines or as a table."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from zooming import notebook

PLAIN = 1e-5, 1e15  # numbers outside are written with an exponent


class Status(dict[str, Any]):
    """The result of `agent.status()`: a dictionary that prints as one line per entry.

    A notebook shows it as a table.

    Examples
    --------
    >>> axes = {"stock": Bandwidths(0.25, float("inf"))}
    >>> print(Status({"plays": "Planner", "axes": axes, "gain": 1234567.8}))
    plays: Planner
    axes:
      stock: reward bandwidth 0.25, value follows the trend
    gain: 1,234,568
    """

    def __str__(self) -> str:
        return "\n".join(
            f"{'  ' * depth}{f'{name}: {text}'.rstrip() if name else text}"
            for depth, name, text in _rows(self, 0)
        )

    def _repr_html_(self) -> str:
        indent = "\N{EM SPACE}"
        rows = [(indent * depth + name, text) for depth, name, text in _rows(self, 0)]
        return notebook.card("Status", rows)


class Bandwidths(NamedTuple):
    """Bandwidths of a planner's models along an axis, as shares of the axis.

    An infinite one means that the axis does not matter beyond the trend.
    """

    reward_bandwidth: float
    value_bandwidth: float


def plain(value: float) -> str:
    """Return a number with at least four digits, without an exponent.

    >>> plain(1234567.8), plain(0.51234), plain(2.0), plain(float("nan"))
    ('1,234,568', '0.5123', '2', 'not known yet')
    """
    if math.isnan(value):
        return "not known yet"
    if math.isinf(value):
        return "unlimited" if value > 0 else "minus infinity"
    if value != 0.0 and not PLAIN[0] <= abs(value) < PLAIN[1]:
        return f"{value:.4g}"
    places = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plus_minus(mean: float, error: float) -> str:
    """Return a mean with its uncertainty, which has two digits.

    >>> plus_minus(5926.3, 160.4), plus_minus(67.749, 1.5), plus_minus(0.5, 0.0)
    ('5,926 ± 160', '67.7 ± 1.5', '0.5 ± 0')
    """
    if not (math.isfinite(error) and error > 0.0 and PLAIN[0] <= abs(error) < PLAIN[1]):
        return f"{plain(mean)} ± {plain(error)}"
    places = 1 - math.floor(math.log10(error))
    shown = max(0, places)
    return f"{round(mean, shown) + 0.0:,.{shown}f} ± {round(error, places):,.{shown}f}"


def in_words(value: Any) -> str:
    """Return a value of a status as text."""
    if isinstance(value, Bandwidths):
        return ", ".join(
            f"{name} follows the trend" if math.isinf(one) else f"{name} bandwidth {plain(one)}"
            for name, one in zip(("reward", "value"), value, strict=True)
        )
    if isinstance(value, tuple):
        return ", ".join(in_words(one) for one in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known yet"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return plain(value) if isinstance(value, float) else str(value)


def _rows(entries: dict[str, Any], depth: int) -> list[tuple[int, str, str]]:
    """Return (depth, name, text) of each entry, and of those in nested dictionaries and lists."""
    found: list[tuple[int, str, str]] = []
    for name, value in entries.items():
        if isinstance(value, dict):
            found += [(depth, name, ""), *_rows(value, depth + 1)]
        elif isinstance(value, list):
            found.append((depth, name, "" if value else "none"))
            found += [(depth + 1, "", str(entry)) for entry in value]
        else:
            found.append((depth, name, in_words(value)))
    return found
