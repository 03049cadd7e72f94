"""Names that come from data (keys of a Dict, ids of environments) as text and as columns.

A key may hold anything, also code. Whatever writes a name to a file takes it from here.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence

from zooming.spaces.axes import COLUMNS

LONGEST = 100  # characters of a name; more are cut


def printable(text: str, most: int = LONGEST) -> str:
    """Return text as one line that is harmless in a comment, a docstring and a string literal.

    Control characters, line separators, marks that change the direction of writing, lone surrogates
    and backslashes become `_`. So do asterisks next to a slash, which begin or end a comment in C.
    Semicolons become commas, because many tools cut SQL at every semicolon. Repeated quotes and
    question marks (`\"\"\"` ends a docstring, `??/` is a backslash in C) become one. The text is
    cut to `most` characters.

    >>> printable('state["gas"][0]'), printable("a\\nDROP TABLE b;"), printable("a */ b /* c")
    ('state["gas"][0]', 'a_DROP TABLE b,', 'a _/ b /_ c')
    """
    text = text if len(text) <= most else f"{text[: most - 3]}..."
    text = "".join(mark if mark.isprintable() and mark != "\\" else "_" for mark in text)
    text = re.sub(r"(?<=/)\*|\*(?=/)", "_", text.replace(";", ","))
    return re.sub(r"([\"'?])\1+", r"\1", text)


def printable_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of axes as printable text, all different.

    >>> printable_names(['state["a\\\\b"]', 'state["a_b"]'])
    ('state["a_b"]', 'state["a_b"]_2')
    """
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        found.append(_free(printable(name), taken))
        taken.add(_same(found[-1]))
    return tuple(found)


def column_names(
    axis_names: Sequence[str], n_state: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the columns of the state axes and of the action axes.

    A column is the name of its axis with `_` for everything but letters, digits and `_`. A column
    that is taken gets the ending `_2`, `_3`, ... Capital and small letters count as the same, as in
    SQL. The other columns of a log are taken, too: episode, step, reward, terminated, and for
    each state column a second one with `next_` in front.

    >>> column_names(["state[0]", 'action["gas"][1]', "action"], 1)
    (('state_0',), ('action_gas_1', 'action'))
    >>> column_names(['state["a-b"]', 'state["a_b"]', 'state["A B"]', "action"], 3)[0]
    ('state_a_b', 'state_a_b_2', 'state_A_B_3')
    """
    taken = set(COLUMNS)
    found = []
    for i, name in enumerate(axis_names):
        column = re.sub(r"\W+", "_", name).strip("_")[:LONGEST] or "axis"
        column = f"axis_{column}" if not re.match(r"[^\W\d]", column) else column
        prefixes = ("", "next_") if i < n_state else ("",)
        found.append(_free(column, taken, prefixes))
        taken.update(_same(prefix + found[-1]) for prefix in prefixes)
    return tuple(found[:n_state]), tuple(found[n_state:])


def _free(name: str, taken: set[str], prefixes: tuple[str, ...] = ("",)) -> str:
    """Return the name, with the first ending that makes it a new one."""
    for k in itertools.count(1):
        found = name if k == 1 else f"{name}_{k}"
        if taken.isdisjoint(_same(prefix + found) for prefix in prefixes):
            break
    return found


def _same(name: str) -> str:
    """Return what is equal for names that a database may take for the same."""
    return unicodedata.normalize("NFKC", name).casefold()
