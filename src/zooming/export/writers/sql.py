"""Write a policy as a SQL query over a table of states.

The query uses CASE, abs, VALUES and LEFT JOIN only, which mean the same in all dialects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from zooming.errors import ConfigurationError
from zooming.export.forms import PolicyForm
from zooming.export.grid import LARGEST, ActionGrid
from zooming.export.tree import DecisionTree
from zooming.validation import short_repr

MOST_ROWS = 50_000  # of the table of cells
Rows = list[tuple[float, ...]]


def grid_parts(grid: ActionGrid, table: str, state: list[str]) -> tuple[str, list[str], str]:
    """Return the tables of the query, the expression of each action axis, and the joins."""
    _check(grid)
    n_state, n_action = len(grid.state_names), len(grid.action_names)
    tables: dict[str, Rows] = {"steps(step, plan)": list(enumerate(grid.plan.tolist()))}
    joins = [f"LEFT JOIN steps ON steps.step = {table}.step"]
    units = []
    for j in range(n_state):
        units.append(_unit(state[j], grid.low[j], grid.width[j]))
        tables[f"axis_{j}(bin, low, high, center, below, above)"] = _bins(grid, j)
        inside = f"{units[j]} >= axis_{j}.low AND {units[j]} < axis_{j}.high"
        joins.append(f"LEFT JOIN axis_{j} ON {inside}")
    columns = [f"bin_{j}" for j in range(n_state)] + [f"own_{k}" for k in range(n_action)]
    columns += [f"{side}_{j}_{k}" for j, k, side in _changes(grid)]
    tables[f"cells(plan, {', '.join(columns)})"] = _cells(grid)
    same = ["cells.plan = steps.plan", *(f"cells.bin_{j} = axis_{j}.bin" for j in range(n_state))]
    joins.append(f"LEFT JOIN cells ON {' AND '.join(same)}")
    first = ",\n".join(
        f"{name} AS (VALUES\n  " + ",\n  ".join(map(_row, rows)) + "\n)"
        for name, rows in tables.items()
    )
    values = [_action(grid, k, units) for k in range(n_action)]
    return f"WITH\n{first}\n", values, "\n" + "\n".join(joins)


def float_text(value: float) -> str:
    """Return a SQL literal of type double.

    >>> float_text(0.5), float_text(1e-7)
    ('0.5e0', '1e-07')
    """
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _check(grid: ActionGrid) -> None:
    if grid.cells.size > MOST_ROWS:
        raise ConfigurationError(
            f"the query would hold a table of {grid.cells.size:,} cells, and the limit is "
            f"{MOST_ROWS:,}; export .py, .json or .h, or rules: agent.explain().export(path)"
        )
    if len(grid.action_squash):
        name = grid.action_names[int(grid.action_squash[0, 0])]
        raise ConfigurationError(
            f"{name} is a squashed axis, which a query cannot compute; export .py, .json or .h, "
            f"or give the agent bounds={{{name!r}: (low, high)}} instead of squash"
        )


def _unit(state: str, low: float, width: float) -> str:
    """Return the SQL expression of a unit coordinate, without operations that change nothing.

    >>> _unit("x", -1.0, 2.0), _unit("x", 0.0, 1.0)
    ('(x + 1.0e0) / 2.0e0', 'x')
    """
    if low:
        state = f"({state} {'+' if low < 0 else '-'} {float_text(abs(low))})"
    return state if width == 1.0 else f"{state} / {float_text(width)}"


def _bins(grid: ActionGrid, j: int) -> Rows:
    """Return the rows of the table of state axis `j`."""
    first, last = grid.first[j : j + 2].tolist()
    inner, center = grid.border[first + 1 : last], grid.center[first:last]
    gaps = np.abs(np.diff(center))
    columns = [
        np.append(-LARGEST, inner),
        np.append(inner, LARGEST),
        center,
        np.append(1.0, gaps),  # the outer bins lack a neighbor
        np.append(gaps, 1.0),
    ]
    return list(zip(range(last - first), *(column.tolist() for column in columns), strict=True))


def _changes(grid: ActionGrid) -> list[tuple[int, int, str]]:
    """Return (state axis, action axis, side) of all columns that hold a change."""
    mixed, n_state = np.flatnonzero(grid.is_mixed).tolist(), len(grid.state_names)
    return [(j, k, side) for j in range(n_state) for k in mixed for side in ("below", "above")]


def _cells(grid: ActionGrid) -> Rows:
    """Return the rows of the table of cells."""
    places = np.array(np.unravel_index(np.arange(grid.cells.shape[1]), np.diff(grid.first))).T
    is_final = np.array(grid.action_is_whole) & (grid.is_mixed == 0)
    changes = [(1 + 2 * j + (side == "above"), k) for j, k, side in _changes(grid)]
    rows: Rows = []
    for plan, numbers in enumerate(grid.cells):
        pieces = grid.pieces[numbers]
        own = grid.points[pieces[:, 0]]
        change = [grid.points[pieces[:, i], k] - own[:, k] for i, k in changes]
        points = [x.astype(int) if whole else x for x, whole in zip(own.T, is_final, strict=True)]
        columns = [column.tolist() for column in (*places.T, *points, *change)]
        rows += [(plan, *row) for row in zip(*columns, strict=True)]
    return rows


def _action(grid: ActionGrid, k: int, units: Sequence[str]) -> str:
    """Return coordinate `k` of the action as a SQL expression."""
    point = f"cells.own_{k}"
    if not grid.is_mixed[k]:
        return point
    n_bins = np.diff(grid.first)
    mixing = [j for j in reversed(range(len(units))) if n_bins[j] > 1]
    for j in mixing:
        unit, axis = units[j], f"axis_{j}"
        above = f"({unit} - {axis}.center) / {axis}.above * cells.above_{j}_{k}"
        below = f"({axis}.center - {unit}) / {axis}.below * cells.below_{j}_{k}"
        point += f"\n    + CASE WHEN {unit} > {axis}.center THEN {above} ELSE {below} END"
    low, n_values = float(grid.action_low[k]), int(grid.n_values[k])
    if len(mixing) > 1:  # several changes may add up to too much
        point = _clip(point, float(grid.point_low[k]), float(grid.point_high[k]))
    if n_values:
        number = _clip(f"floor(({point}) * {n_values})", None, n_values - 1)
        return f"CAST({float_text(low + 0.5)} + {number} AS BIGINT)"
    value = f"({point}) * {float_text(grid.action_width[k])}"
    value = f"{float_text(low)} + {value}" if low else value
    is_clipped = grid.is_single[k] and grid.action_least[k] > low
    return _clip(value, float(grid.action_least[k]), None) if is_clipped else value


def _clip(value: str, low: float | None, high: float | None) -> str:
    """Return the SQL expression of `value` clipped to [low, high]. None means no limit."""
    ends = [(end, side) for end, side in ((low, "<"), (high, ">")) if end is not None]
    cases = " ".join(
        f"WHEN {value} {side} {float_text(end)} THEN {float_text(end)}" for end, side in ends
    )
    return f"CASE {cases} ELSE {value} END"


def _row(row: Sequence[float]) -> str:
    return "(" + ", ".join(str(x) if isinstance(x, int) else float_text(x) for x in row) + ")"


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
    needs = ", ".join(["step", *map(_sql_name, form.state_columns)])
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
    about = [*form.describe(), f"Needs a table {table}({needs})"]
    heading = "\n".join(f"-- {line}" for line in about)
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
