"""Write a policy as a SQL query over a table of states.

The query uses CASE, abs, VALUES and LEFT JOIN only, which mean the same in all dialects.
"""

from __future__ import annotations

import re

from zooming.errors import ConfigurationError
from zooming.export.action_grid import ActionGrid
from zooming.export.decision_tree import DecisionTree
from zooming.export.forms import PolicyForm
from zooming.export.sql_grid import float_text, grid_parts
from zooming.validation import short_repr

# Words that SQLite, DuckDB or PostgreSQL do not take as the name of a table or column.
WORDS = frozenset(
    """
    add all alter analyse analyze and anti any array as asc asof asymmetric at authorization
    autoincrement between binary both by case cast check collate collation column commit
    concurrently constraint create cross current_catalog current_date current_role
    current_schema current_time current_timestamp current_user default deferrable delete desc
    describe distinct do drop else end escape except exists false fetch for foreign freeze from
    full glob grant group having ilike in index initially inner insert intersect into is isnull
    join lambda lateral leading left like limit localtime localtimestamp natural not nothing
    notnull null offset on only or order outer overlaps pivot pivot_longer pivot_wider placing
    positional primary qualify raise references returning right select semi session_user set
    show similar some summarize symmetric table tablesample then to trailing transaction true
    union unique unpack unpivot update user using values variadic verbose when where window with
""".split()  # noqa: SIM905
)


def sql_query(form: PolicyForm, table: str = "states") -> str:
    """Return a query that adds the action to every row of `table`.

    The table has a column `step` and one column for each state axis. The action is NULL for a step
    outside the episode.
    """
    table = _table_name(table, form)
    state = [f"{table}.{_sql_name(column)}" for column in form.state_columns]
    action = [*map(_sql_name, form.action_columns)]
    for i, origin, scale, offset, gain in form.squash:
        z = f"(({state[int(i)]} - {float_text(origin)}) / {float_text(scale)})"
        share = f"({z} / (1e0 + abs({z})))"
        state[int(i)] = f"({float_text(offset)} + {float_text(gain)} * {share})"
    if isinstance(form, DecisionTree):
        tables, joins = "", ""
        values = [f"CASE {table}.step\n{_steps(form, state, k)}\n  END" for k in range(len(action))]
    else:
        assert isinstance(form, ActionGrid)
        tables, values, joins = grid_parts(form, table, state)
    heading = "\n".join(f"-- {line}" for line in form.describe())
    added = [f"{value} AS {name}" for value, name in zip(values, action, strict=True)]
    chosen = ",\n  ".join([f"{table}.*", *added])
    return f"{heading}\n{tables}SELECT\n  {chosen}\nFROM {table}{joins};\n"


def _table_name(table: str, form: PolicyForm) -> str:
    """Return the SQL of the name of a table. Raise ConfigurationError for what is not a name."""
    name = r"[A-Za-z_]\w{0,62}"
    if not (isinstance(table, str) and re.fullmatch(rf"{name}(\.{name})?", table)):
        raise ConfigurationError(
            f"table={short_repr(table)}: give the name of a table, of letters, digits and "
            "underscores"
        )
    *_, last = parts = table.split(".")
    if isinstance(form, ActionGrid) and re.fullmatch(r"steps|cells|axis_\d+", last, re.I):
        raise ConfigurationError(
            f"table={table!r}: the query has a table of this name itself; give the table of the "
            "states another name, or a view of it"
        )
    return ".".join(map(_sql_name, parts))


def _sql_name(name: str) -> str:
    """Return a name, in quotes if SQL has it as a word of its own.

    >>> _sql_name("states"), _sql_name("order")
    ('states', '"order"')
    """
    return f'"{name}"' if name.lower() in WORDS else name


def _steps(tree: DecisionTree, state: list[str], k: int) -> str:
    return "\n".join(
        f"    WHEN {step} THEN {_case(tree, state, k, int(root))}"
        for step, root in enumerate(tree.roots)
    )


def _case(tree: DecisionTree, state: list[str], k: int, at: int) -> str:
    """Return coordinate `k` of the action of a subtree as a SQL expression."""
    if at < 0:
        value = float(tree.actions[~at, k])
        return str(int(value)) if tree.action_is_whole[k] else float_text(value)
    left, right = (_case(tree, state, k, int(side[at])) for side in (tree.left, tree.right))
    if left == right:  # the subtrees differ in another coordinate of the action
        return left
    axis, threshold = state[tree.axis[at]], float_text(tree.threshold[at])
    return f"CASE WHEN {axis} >= {threshold} THEN {right} ELSE {left} END"
