"""Write a policy as a C99 header: constant tables and one function, no allocation."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

import numpy as np

from zooming.errors import ConfigurationError
from zooming.export.decision_tree import DecisionTree
from zooming.validation import Floats

# C type of states and thresholds; "int" means states in whole units of 1 / scale.
NUMBERS = {"double": "double", "float": "float", "int": "int32_t"}

_CODE = """/* Write the action of `state` ({n_state} numbers{unit}) to `action` ({n_action}).
 * Steps count from 0. Return 0, or -1 if the step is outside the episode: nothing is written. */
static inline int {name}_act(int step, const {number} *state, {action} *action)
{{
    int32_t at;
    int i;
    if (step < 0 || step >= {NAME}_HORIZON) {{
        return -1;
    }}
    at = {name}_roots[step];
    while (at >= 0) {{ /* the number of a comparison; a negative number is an action */
        at = state[{name}_axis[at]] >= {name}_threshold[at] ? {name}_right[at] : {name}_left[at];
    }}
    for (i = 0; i < {NAME}_N_ACTION; ++i) {{
        action[i] = {name}_actions[-1 - at][i];
    }}
    return 0;
}}
"""


def c_header(tree: DecisionTree, name: str, number: str = "double", scale: float = 1.0) -> str:
    """Return the text of a C99 header with a function `NAME_act(step, state, action)`.

    `number` is the type of a state: "double", "float", or "int" for whole multiples of 1 / scale.
    The comparisons are exact for every state of that type.
    """
    name = re.sub(r"\W", "_", name)
    if number not in NUMBERS:
        raise ConfigurationError(
            f"number={number!r}: choose one of {', '.join(map(repr, NUMBERS))}"
        )
    if not name or name[0].isdigit():
        raise ConfigurationError(f"name={name!r}: a C name begins with a letter")
    action = "int32_t" if all(tree.action_is_whole) else "float" if number == "float" else "double"
    padding = [0] if not len(tree.axis) else []  # C has no empty arrays
    kind = NUMBERS[number]
    arrays = [
        _array("int32_t", f"{name}_roots", tree.roots.tolist()),
        _array("int32_t", f"{name}_axis", tree.axis.tolist() + padding),
        _array(kind, f"{name}_threshold", _thresholds(tree.threshold, number, scale) or ["0"]),
        _array("int32_t", f"{name}_left", tree.left.tolist() + padding),
        _array("int32_t", f"{name}_right", tree.right.tolist() + padding),
        _array(
            action,
            f"{name}_actions",
            ["{" + ", ".join(_literal(x, action) for x in row) + "}" for row in tree.actions],
            f"[{len(tree.action_names)}]",
        ),
    ]
    guard = f"{name.upper()}_H"
    unit = f" in whole units of {1.0 / scale:g}" if number == "int" else ""
    code = _CODE.format(
        name=name, NAME=name.upper(), n_state=len(tree.state_names), unit=unit, number=kind,
        n_action=len(tree.action_names), action=action,
    )  # fmt: skip
    heading = "\n".join(f" * {line}" for line in tree.describe()).replace("*/", "* /")
    return (
        f"/*\n{heading}\n */\n#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n"
        f"#define {name.upper()}_HORIZON {tree.horizon}\n"
        f"#define {name.upper()}_N_STATE {len(tree.state_names)}\n"
        f"#define {name.upper()}_N_ACTION {len(tree.action_names)}\n\n"
        + "\n".join(arrays)
        + f"\n{code}\n#endif\n"
    )


def _thresholds(threshold: Floats, number: str, scale: float) -> list[str]:
    """Return the smallest number of the type that is at least each threshold, as C literals."""
    if number == "double":
        return [_literal(x, "double") for x in threshold]
    if number == "int":
        whole = np.ceil(threshold * scale)
        if (np.abs(whole) >= 2**31).any():
            raise ConfigurationError(
                f"scale={scale:g}: a state does not fit into 32 bits; give less"
            )
        return [str(int(x)) for x in whole]
    single = threshold.astype(np.float32)
    single = np.where(single < threshold, np.nextafter(single, np.float32(np.inf)), single)
    return [_literal(x, "float") for x in single]


def _literal(value: float, kind: str) -> str:
    if kind == "int32_t":
        return str(int(value))
    return f"{np.float32(value)!s}f" if kind == "float" else repr(float(value))


def _array(kind: str, name: str, values: Sequence[object], inner: str = "") -> str:
    body = textwrap.fill(
        ", ".join(map(str, values)), 96, initial_indent="    ", subsequent_indent="    "
    )
    return f"static const {kind} {name}[{len(values)}]{inner} = {{\n{body}\n}};"
