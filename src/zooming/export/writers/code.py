"""Write a policy as a Python module or as a C99 header: two templates, filled in one way.

The templates are `policy.py.txt`, `policy.h` and `learner.h` in this folder. Lines between `@if
part` and `@else` or `@end` are kept if the policy needs that part. `@word` is replaced. In C, `zl_`
and `ZL_` become the prefix of the names.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.export.forms import PolicyForm
from zooming.export.grid import NEAREST, ActionGrid
from zooming.export.tree import DecisionTree
from zooming.validation import Floats, check_choice, check_float, short_repr

LONGEST_NAME = 40  # C99 tells names of 63 characters apart, and ours get endings
# C type of states and thresholds; "int" means states in whole units of 1 / scale.
NUMBERS = {"double": "double", "float": "float", "int": "int32_t"}


def fill_template(name: str, parts: Mapping[str, bool], words: Mapping[str, Any]) -> str:
    """Return a template of this folder with some of its parts, and with its words replaced."""
    text = resources.files("zooming.export.writers").joinpath(name).read_text()
    lines, shown = [], [True]
    for line in text.splitlines(keepends=True):
        if line.startswith("@if "):
            shown.append(parts[line[4:].strip()])
        elif line.startswith("@else"):
            shown[-1] = not shown[-1]
        elif line.startswith("@end"):
            shown.pop()
        elif all(shown):
            lines.append(line)
    return re.sub(r"@(\w+)", lambda found: str(words[found[1]]), "".join(lines))


def _parts(form: PolicyForm) -> dict[str, bool]:
    """Return which parts of a template a policy needs."""
    chosen = form.parts if isinstance(form, ActionGrid) else []
    found = {part: part in chosen for part in ("whole", "unsquash", "clip", "single")}
    return {**found, "grid": isinstance(form, ActionGrid), "squash": len(form.squash) > 0}


# --- Python ---------------------------------------------------------------------------------------


def python_module(form: PolicyForm) -> str:
    """Return the text of a Python file with a function `act(step, state)`. It needs no package."""
    tables: dict[str, Any] = {
        "HORIZON": form.horizon,
        "STATE": form.state_names,
        "ACTION": form.action_names,
        **{name.upper(): _tuples(table.tolist()) for name, table in form.tables().items()},
    }
    if isinstance(form, DecisionTree):
        tables["ACTIONS"] = tuple(
            tuple(int(x) if w else x for x, w in zip(row, form.action_is_whole, strict=True))
            for row in form.actions.tolist()
        )
    else:
        tables["ACTION_IS_WHOLE"] = form.action_is_whole
    lines = "\n".join(_assignment(*one) for one in tables.items())
    code = fill_template("policy.py.txt", _parts(form), {"tables": lines, "nearest": NEAREST})
    heading = "\n".join(form.describe())
    return f'"""{heading}\n"""\n\n{code}'


def _tuples(value: Any) -> Any:
    """Return nested lists as nested tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _assignment(name: str, value: Any) -> str:
    """Return the assignment of a table. Lines are broken between numbers, never in a string."""
    if any(isinstance(one, str) for one in (value if isinstance(value, tuple) else ())):
        return f"{name} = (\n" + "".join(f"    {one!r},\n" for one in value) + ")"
    text = f"{name} = {value!r}"
    return "\n".join(textwrap.wrap(text, 100, subsequent_indent="    ", break_long_words=False))


# --- C --------------------------------------------------------------------------------------------


def c_header(form: PolicyForm, name: str, number: str = "double", scale: float = 1.0) -> str:
    """Return the text of a C99 header with a function `NAME_act(step, state, action)`.

    `number` is the type of a state: "double", "float", or "int" for whole multiples of 1 / scale.
    Comparisons are exact for every state of that type. All other arithmetic is in double.
    """
    name = c_name(name, number, scale)
    tables, parts = form.tables(), _parts(form)
    kinds = {
        key: "double" if table.dtype.kind == "f" else f"{table.dtype.name}_t"
        for key, table in tables.items()
    }
    action = "float" if number == "float" else "double"
    if all(form.action_is_whole):
        action = "int64_t" if kinds.get("actions") == "int64_t" else "int32_t"
    elif isinstance(form, DecisionTree):
        kinds["actions"] = action
    if isinstance(form, DecisionTree) and not parts["squash"]:
        kinds["threshold"] = NUMBERS[number]
        tables["threshold"] = _thresholds(form.threshold, number, scale)
    n_bytes = sum(table.size * _size(kinds[key]) for key, table in tables.items())
    words = {
        "number": NUMBERS[number], "action": action,
        "value": "value" if action == "double" else f"({action})value",
        "horizon": form.horizon, "n_state": len(form.state_names),
        "n_action": len(form.action_names), "n_squash": len(form.squash),
        "n_action_squash": len(getattr(form, "action_squash", ())), "nearest": NEAREST,
        "unit": f" in whole units of {1.0 / scale:g}" if number == "int" else "",
        "read": f"state[i] / {c_literal(scale, 'double')}" if number == "int" else "state[i]",
        "x": "x" if parts["squash"] else "state", "piece": kinds.get("pieces"),
        "arrays": "\n".join(c_array(kinds[key], f"zl_{key}", tables[key]) for key in tables),
    }  # fmt: skip
    parts["reads"] = parts["grid"] or parts["squash"]
    return c_code("policy.h", name, parts, words, form.describe(n_bytes))


def c_code(
    template: str,
    name: str,
    parts: Mapping[str, bool],
    words: Mapping[str, Any],
    heading: list[str],
) -> str:
    """Return a template of C with the prefix `name`, below a comment with the lines `heading`."""
    code = fill_template(template, parts, words)
    code = re.sub(r"\bZL_", f"{name.upper()}_", re.sub(r"\bzl_", f"{name}_", code))
    lines = "\n".join(f" * {line}" for line in heading)
    return f"/*\n{lines}\n */\n{code}"


def c_name(name: str, number: str, scale: float) -> str:
    """Return the prefix of C names for `name`. Raise ConfigurationError if an option is wrong."""
    prefix = re.sub(r"\W", "_", name, flags=re.ASCII) if isinstance(name, str) else ""
    check_choice("number", number, NUMBERS)
    if not re.match(r"[A-Za-z]", prefix) or len(prefix) > LONGEST_NAME:
        raise ConfigurationError(
            f"name={short_repr(name)}: give at most {LONGEST_NAME} letters, digits and "
            "underscores; a C name begins with a letter"
        )
    if not (check_float(scale, "scale", 0.0, np.inf) > 0.0 and (number == "int" or scale == 1.0)):
        rule = 'only number="int" has one' if scale else "give a positive number"
        raise ConfigurationError(f"scale={scale!r}: {rule}")
    return prefix


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
