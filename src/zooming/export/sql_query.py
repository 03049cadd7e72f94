"""Write a policy as a SQL query over a table of states."""

from __future__ import annotations

import re

from zooming.export.decision_tree import DecisionTree


def sql_query(tree: DecisionTree, table: str = "states") -> str:
    """Return a query that adds the action to every row of `table`.

    The table has a column `step` and one column for each state axis. The action is NULL for a step
    outside the episode.
    """
    state, action = (_columns(names) for names in (tree.state_names, tree.action_names))
    heading = "\n".join(f"-- {line}" for line in tree.describe())
    cases = ",\n  ".join(
        f"CASE step\n{_steps(tree, state, k)}\n  END AS {column}" for k, column in enumerate(action)
    )
    return f"{heading}\nSELECT\n  {table}.*,\n  {cases}\nFROM {table};\n"


def _columns(names: tuple[str, ...]) -> list[str]:
    """Return the names of axes as SQL names: state[0] is state_0.

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
        return str(int(value)) if tree.action_is_whole[k] else _float(value)
    left, right = (_case(tree, state, k, int(side[at])) for side in (tree.left, tree.right))
    if left == right:  # the subtrees differ in another coordinate of the action
        return left
    axis, threshold = state[tree.axis[at]], _float(tree.threshold[at])
    return f"CASE WHEN {axis} >= {threshold} THEN {right} ELSE {left} END"


def _float(value: float) -> str:
    """Return a SQL literal of type double.

    >>> _float(0.5), _float(1e-7)
    ('0.5e0', '1e-07')
    """
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"
