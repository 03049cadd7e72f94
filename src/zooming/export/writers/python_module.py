"""Write a policy as one Python file that imports no other package."""

from __future__ import annotations

import textwrap
from typing import Any

from zooming.export.forms import PolicyForm
from zooming.export.grid import NEAREST, ActionGrid
from zooming.export.tree import DecisionTree

_CODE = '''
def act(step, state):
    """Return the action as a tuple of numbers.

    `step` counts from 0. `state` is a sequence of numbers, one for each state axis; a single
    number will do if there is one axis.
    """
    state = [state] if isinstance(state, (int, float)) else list(state)
    if not 0 <= step < HORIZON:
        raise ValueError(f"step {step} is outside the episode: steps run from 0 to {HORIZON - 1}")
    if len(state) != len(STATE):
        raise ValueError(f"the state has {len(state)} numbers; give {len(STATE)}: {STATE}")
    if any(value != value for value in state):
        raise ValueError(f"the state {state} holds a NaN")
'''

_SQUASH = """    for i, origin, scale, offset, gain in SQUASH:
        z = (state[int(i)] - origin) / scale
        state[int(i)] = offset + gain * (z / (1.0 + abs(z)))
"""

_TREE = """    at = ROOTS[step]
    while at >= 0:  # the number of a comparison; a negative number is an action
        at = RIGHT[at] if state[AXIS[at]] >= THRESHOLD[at] else LEFT[at]
    return ACTIONS[~at]
"""

_GRID = """    units, entries, cell = [], [], 0
    for j in range(len(STATE)):
        u = (state[j] - LOW[j]) / WIDTH[j]
        low, high = FIRST[j], FIRST[j + 1]
        while high - low > 1:  # find the bin
            middle = (low + high) // 2
            if u >= BORDER[middle]:
                low = middle
            else:
                high = middle
        cell = cell * (FIRST[j + 1] - FIRST[j]) + low - FIRST[j]
        units.append(u)
        entries.append(low)
    piece = PIECES[CELLS[PLAN[step]][cell]]
    own = POINTS[piece[0]]
    mixed = list(own)
    for j in range(len(STATE) - 1, -1, -1):  # mix with the neighbor on the state's side
        away = units[j] - CENTER[entries[j]]
        side = 1 if away > 0.0 else 0
        if piece[1 + 2 * j + side] == piece[0]:
            continue
        there = POINTS[piece[1 + 2 * j + side]]
        gap = abs(CENTER[entries[j] + 2 * side - 1] - CENTER[entries[j]])
        weight = abs(away) / gap
        for k in range(len(ACTION)):
            if IS_MIXED[k]:
                mixed[k] += weight * (there[k] - own[k])
    action = []
    for k in range(len(ACTION)):
        point = min(POINT_HIGH[k], max(POINT_LOW[k], mixed[k]))
        value = ACTION_LOW[k] + point * ACTION_WIDTH[k]
"""

_PARTS = {
    "whole": """        if N_VALUES[k]:
            value = ACTION_LOW[k] + 0.5 + min(N_VALUES[k] - 1, int(point * N_VALUES[k]))
""",
    "unsquash": f"""        for i, origin, scale, offset, gain in ACTION_SQUASH:
            if i == k:
                share = (value - offset) / gain
                value = origin + share / max(1.0 - abs(share), {NEAREST}) * scale
""",
    "clip": """        value = min(ACTION_MOST[k], max(ACTION_LEAST[k], value))
""",
    "single": """        if IS_SINGLE[k]:  # round to a number of 32 bits
            value = unpack("f", pack("f", value))[0]
""",
}

_RETURN = """        action.append(int(value) if ACTION_IS_WHOLE[k] else value)
    return tuple(action)
"""

_MAIN = """

if __name__ == "__main__":  # lines "step state..." in, one action per line out
    import sys

    for number, line in enumerate(sys.stdin, 1):
        try:
            step, *state = line.split()
            print(*act(int(step), [float(value) for value in state]))
        except ValueError as error:
            names = ", ".join(STATE)
            sys.exit(f"line {number}: {error}; write a step and a number for each of {names}")
"""


def python_module(form: PolicyForm) -> str:
    """Return the text of a Python file with a function `act(step, state)`."""
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
    heading = "\n".join(form.describe())
    imports = "from struct import pack, unpack\n\n" if "IS_SINGLE" in tables else ""
    lines = "\n".join(_table(*one) for one in tables.items())
    return f'"""{heading}\n"""\n\n{imports}{lines}\n\n{_code(form)}'


def _code(form: PolicyForm) -> str:
    """Return the Python code of `act`, with only the operations that the policy needs."""
    squash = _SQUASH if len(form.squash) else ""
    if not isinstance(form, ActionGrid):
        return _CODE + squash + _TREE + _MAIN
    chosen = "".join(_PARTS[part] for part in form.parts)
    return _CODE + squash + _GRID + chosen + _RETURN + _MAIN


def _tuples(value: Any) -> Any:
    """Return nested lists as nested tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _table(name: str, value: Any) -> str:
    """Return the assignment of a table. Lines are broken between numbers, never in a string."""
    if any(isinstance(one, str) for one in (value if isinstance(value, tuple) else ())):
        return f"{name} = (\n" + "".join(f"    {one!r},\n" for one in value) + ")"
    text = f"{name} = {value!r}"
    return "\n".join(textwrap.wrap(text, 100, subsequent_indent="    ", break_long_words=False))
