"""Write a policy as a C99 header: constant tables and one function, no allocation."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.export.forms import PolicyForm
from zooming.export.grid import NEAREST, ActionGrid
from zooming.export.tree import DecisionTree
from zooming.validation import Floats, short_repr

# C type of states and thresholds; "int" means states in whole units of 1 / scale.
LONGEST_NAME = 40  # C99 tells names of 63 characters apart, and ours get endings
NUMBERS = {"double": "double", "float": "float", "int": "int32_t"}

_HEAD = """/* Write the action of `state` ({n_state} numbers{unit}) to `action` ({n_action}).
 * Steps count from 0. Return 0, or -1 if the step is outside the episode: nothing is written. */
static inline int {name}_act(int step, const {number} *state, {action} *action)
{{
"""

_CHECK = """    if (step < 0 || step >= {NAME}_HORIZON) {{
        return -1;
    }}
"""

_READ = """    for (i = 0; i < {NAME}_N_STATE; ++i) {{
        x[i] = {read};
    }}
"""

_SQUASH = """    for (i = 0; i < {n_squash}; ++i) {{
        const double *map = {name}_squash[i];
        const double z = (x[(int)map[0]] - map[1]) / map[2];
        x[(int)map[0]] = map[3] + map[4] * (z / (1.0 + (z < 0.0 ? -z : z)));
    }}
"""

_TREE = """    at = {name}_roots[step];
    while (at >= 0) {{ /* the number of a comparison; a negative number is an action */
        at = {x}[{name}_axis[at]] >= {name}_threshold[at] ? {name}_right[at] : {name}_left[at];
    }}
    for (i = 0; i < {NAME}_N_ACTION; ++i) {{
        action[i] = {name}_actions[-1 - at][i];
    }}
"""

_GRID = """    for (i = 0; i < {NAME}_N_STATE; ++i) {{
        int low = {name}_first[i], high = {name}_first[i + 1];
        x[i] = (x[i] - {name}_low[i]) / {name}_width[i];
        cell = cell * (high - low) - low;
        while (high - low > 1) {{ /* find the bin */
            const int middle = (low + high) / 2;
            if (x[i] >= {name}_border[middle]) {{
                low = middle;
            }} else {{
                high = middle;
            }}
        }}
        cell += low;
        entry[i] = low;
    }}
    piece = {name}_pieces[{name}_cells[{name}_plan[step]][cell]];
    for (k = 0; k < {NAME}_N_ACTION; ++k) {{
        mixed[k] = {name}_points[piece[0]][k];
    }}
    for (i = {NAME}_N_STATE - 1; i >= 0; --i) {{ /* mix with the neighbor on the state's side */
        const double center = {name}_center[entry[i]], away = x[i] - center;
        const int side = away > 0.0;
        double gap, weight;
        if (piece[1 + 2 * i + side] == piece[0]) {{
            continue;
        }}
        gap = side ? {name}_center[entry[i] + 1] - center : center - {name}_center[entry[i] - 1];
        weight = (side ? away : -away) / gap;
        for (k = 0; k < {NAME}_N_ACTION; ++k) {{
            if ({name}_is_mixed[k]) {{
                product = weight * ({name}_points[piece[1 + 2 * i + side]][k]
                                    - {name}_points[piece[0]][k]);
                mixed[k] += product;
            }}
        }}
    }}
    for (k = 0; k < {NAME}_N_ACTION; ++k) {{
        double point = mixed[k], value;
        if (point < {name}_point_low[k]) {{
            point = {name}_point_low[k];
        }}
        if (point > {name}_point_high[k]) {{
            point = {name}_point_high[k];
        }}
        product = point * {name}_action_width[k];
        value = {name}_action_low[k] + product;
"""

_PARTS = {
    "whole": """        if ({name}_n_values[k]) {{
            int32_t number = (int32_t)(point * {name}_n_values[k]);
            if (number > {name}_n_values[k] - 1) {{
                number = {name}_n_values[k] - 1;
            }}
            value = {name}_action_low[k] + 0.5 + number;
        }}
""",
    "unsquash": """        for (i = 0; i < {n_action_squash}; ++i) {{
            const double *map = {name}_action_squash[i];
            if ((int)map[0] == k) {{
                const double share = (value - map[3]) / map[4];
                double rest = 1.0 - (share < 0.0 ? -share : share);
                if (rest < {nearest}) {{
                    rest = {nearest};
                }}
                product = share / rest * map[2];
                value = map[1] + product;
            }}
        }}
""",
    "clip": """        if (value < {name}_action_least[k]) {{
            value = {name}_action_least[k];
        }}
        if (value > {name}_action_most[k]) {{
            value = {name}_action_most[k];
        }}
""",
    "single": """        if ({name}_is_single[k]) {{
            value = (double)(float)value;
        }}
""",
}

_WRITE = """        action[k] = {cast}value;
    }}
"""

_TREE_LOCALS = """    int32_t at;
    int i;
"""

_GRID_LOCALS = """    volatile double product; /* volatile: no compiler fuses it with a sum */
    double x[{NAME}_N_STATE], mixed[{NAME}_N_ACTION];
    int entry[{NAME}_N_STATE], i, k;
    int32_t cell = 0;
    const {piece} *piece;
"""

_X = """    double x[{NAME}_N_STATE];
"""


def c_header(form: PolicyForm, name: str, number: str = "double", scale: float = 1.0) -> str:
    """Return the text of a C99 header with a function `NAME_act(step, state, action)`.

    `number` is the type of a state: "double", "float", or "int" for whole multiples of 1 / scale.
    Comparisons are exact for every state of that type. All other arithmetic is in double.
    """
    name = c_name(name, number, scale)
    tables = form.tables()
    kinds = {key: _kind(table) for key, table in tables.items()}
    action = "float" if number == "float" else "double"
    if all(form.action_is_whole):
        action = "int64_t" if kinds.get("actions") == "int64_t" else "int32_t"
    elif isinstance(form, DecisionTree):
        kinds["actions"] = action
    if isinstance(form, DecisionTree) and not len(form.squash):
        kinds["threshold"] = NUMBERS[number]
        tables["threshold"] = _thresholds(form.threshold, number, scale)
    n_bytes = sum(table.size * _size(kinds[key]) for key, table in tables.items())
    words = {
        "name": name, "NAME": name.upper(), "number": NUMBERS[number], "action": action,
        "n_state": len(form.state_names), "n_action": len(form.action_names),
        "unit": f" in whole units of {1.0 / scale:g}" if number == "int" else "",
        "read": f"state[i] / {c_literal(scale, 'double')}" if number == "int" else "state[i]",
        "cast": "" if action == "double" else f"({action})",
        "n_squash": len(form.squash), "nearest": NEAREST,
        "x": "x" if len(form.squash) else "state",
    }  # fmt: skip
    if isinstance(form, ActionGrid):
        words |= {"piece": kinds["pieces"], "n_action_squash": len(form.action_squash)}
    arrays = [c_array(kinds[key], f"{name}_{key}", table) for key, table in tables.items()]
    guard = f"{name.upper()}_H"
    heading = "\n".join(f" * {line}" for line in form.describe(n_bytes))
    return (
        f"/*\n{heading}\n */\n#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n"
        f"#define {name.upper()}_HORIZON {form.horizon}\n"
        f"#define {name.upper()}_N_STATE {len(form.state_names)}\n"
        f"#define {name.upper()}_N_ACTION {len(form.action_names)}\n\n"
        + "\n".join(arrays)
        + f"\n\n{_code(form).format(**words)}\n#endif\n"
    )


def c_name(name: str, number: str, scale: float) -> str:
    """Return the prefix of C names for `name`. Raise ConfigurationError if an option is wrong."""
    prefix = re.sub(r"\W", "_", name, flags=re.ASCII) if isinstance(name, str) else ""
    if number not in NUMBERS:
        raise ConfigurationError(
            f"number={number!r}: choose one of {', '.join(map(repr, NUMBERS))}"
        )
    if not re.match(r"[A-Za-z]", prefix) or len(prefix) > LONGEST_NAME:
        raise ConfigurationError(
            f"name={short_repr(name)}: give at most {LONGEST_NAME} letters, digits and "
            "underscores; a C name begins with a letter"
        )
    if not 0.0 < scale < np.inf:
        raise ConfigurationError(f"scale={scale!r}: give a positive number")
    return prefix


def _code(form: PolicyForm) -> str:
    """Return the C code of `NAME_act`, with only the operations that the policy needs."""
    squash = _SQUASH if len(form.squash) else ""
    end = "    return 0;\n}}\n"
    if not isinstance(form, ActionGrid):
        first, read = (_X, _READ) if squash else ("", "")
        return _HEAD + first + _TREE_LOCALS + _CHECK + read + squash + _TREE + end
    chosen = "".join(_PARTS[part] for part in form.parts)
    return _HEAD + _GRID_LOCALS + _CHECK + _READ + squash + _GRID + chosen + _WRITE + end


def _thresholds(threshold: Floats, number: str, scale: float) -> NDArray[Any]:
    """Round each threshold up to a number of the given type."""
    if number == "double":
        return threshold
    if number == "int":
        whole = np.floor(threshold * scale) - 1.0
        if (np.abs(whole) >= 2**31 - 8).any():
            raise ConfigurationError(
                f"scale={scale:g}: a state times the scale does not fit into 32 bits; "
                "give a smaller scale"
            )
        for _ in range(3):
            whole = np.where(whole / scale < threshold, whole + 1.0, whole)
        return whole.astype(np.int64)
    single = threshold.astype(np.float32)
    return np.where(single < threshold, np.nextafter(single, np.float32(np.inf)), single)


def _kind(table: NDArray[Any]) -> str:
    """Return the C type of the numbers of a table."""
    return "double" if table.dtype.kind == "f" else f"{table.dtype.name}_t"


def _size(kind: str) -> int:
    return {"float": 4, "double": 8}.get(kind) or int(re.sub(r"\D", "", kind)) // 8


def c_literal(value: float, kind: str) -> str:
    """Return a number as a constant of a C type."""
    if kind.endswith("_t") or kind.endswith("char"):
        return str(int(value))
    return f"{np.float32(value)!s}f" if kind == "float" else repr(float(value))


def c_array(kind: str, name: str, table: NDArray[Any]) -> str:
    """Return the definition of a constant array of C."""
    if table.ndim == 1:
        values = [c_literal(x, kind) for x in table] or ["0"]  # C has no empty arrays
        inner = ""
    else:
        values = ["{" + ", ".join(c_literal(x, kind) for x in row) + "}" for row in table]
        inner = f"[{table.shape[1]}]"
    body = textwrap.fill(", ".join(values), 96, initial_indent="    ", subsequent_indent="    ")
    return f"static const {kind} {name}[{len(values)}]{inner} = {{\n{body}\n}};"
