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


def sql_query(form: PolicyForm, table: str = "states") -> str:
    """Return a query that adds the action to every row of `table`.

    The table has a column `step` and one column for each state axis. The action is NULL for a step
    outside the episode.
    """
    action = _columns(form.action_names)
    if not (isinstance(table, str) and re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", table)):
        raise ConfigurationError(
            f"table={table!r}: give the name of a table, of letters, digits and underscores"
        )
    state = [f"{table}.{column}" for column in _columns(form.state_names)]
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
    columns = [f"{value} AS {name}" for value, name in zip(values, action, strict=True)]
    chosen = ",\n  ".join([f"{table}.*", *columns])
    return f"{heading}\n{tables}SELECT\n  {chosen}\nFROM {table}{joins};\n"


def _columns(names: tuple[str, ...]) -> list[str]:
    """Convert the names of axes to SQL names: state[0] becomes state_0.

    >>> _columns(("state[0]", 'action["gas"][1]'))
    ['state_0', 'action_gas_1']
    """
    return [re.sub(r"\W+", "_", name).strip("_") for name in names]


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
