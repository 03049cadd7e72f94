"""Write the states of a rule as text, and rows of text as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_LISTED = 6  # categories of a rule; more are shortened


def side_text(
    low: float, high: float, is_whole: bool, categories: tuple[int, int] | None = None
) -> str:
    """Return the range of one axis as text, or the values if they are categories.

    `categories` is the (first, last) category. Their numbers have no order, so they are listed.

    >>> side_text(-np.inf, 0.25, False), side_text(0.25, 0.5, False), side_text(0.5, np.inf, False)
    ('below 0.25', '0.25 to 0.5', 'from 0.5')
    >>> side_text(1.5, 4.5, True), side_text(1.5, 2.5, True), side_text(-np.inf, 2.5, True)
    ('2 to 4', '2', 'up to 2')
    >>> side_text(1.5, 4.5, True, (0, 9)), side_text(-np.inf, 0.5, True, (0, 9))
    ('in {2, 3, 4}', '= 0')
    >>> side_text(1.5, np.inf, True, (0, 9))
    'in {2, 3, ..., 9}'
    """
    if low == -np.inf and high == np.inf:
        return "any"
    if categories is not None:
        return _values_text(max(np.ceil(low), categories[0]), min(np.ceil(high) - 1, categories[1]))
    if is_whole:
        low, high = np.ceil(low), np.ceil(high) - 1
        if low == high:
            return f"{low:g}"
        return f"up to {high:g}" if low == -np.inf else _range_text(low, high)
    return f"below {high:.4g}" if low == -np.inf else _range_text(low, high)


def _values_text(first: float, last: float) -> str:
    low, high = int(first), int(last)
    if low == high:
        return f"= {low}"
    shown: list[object] = [*range(low, min(high, low + MOST_LISTED - 1) + 1)]
    if high - low >= MOST_LISTED:
        shown = [low, low + 1, "...", high]
    return f"in {{{', '.join(map(str, shown))}}}"


def _range_text(low: float, high: float) -> str:
    return f"from {low:.4g}" if high == np.inf else f"{low:.4g} to {high:.4g}"


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines with aligned columns.

    >>> align([["a", "b"], ["long", "c"]])
    ['  a     b', '  long  c']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
