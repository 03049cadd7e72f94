"""Write a policy as one Python file that imports nothing."""

from __future__ import annotations

import textwrap
from typing import Any

from zooming.export.decision_tree import DecisionTree

_CODE = '''
def act(step, state):
    """Return the action as a tuple of numbers.

    `step` counts from 0. `state` is a sequence of numbers, one for each state axis; a single
    number will do if there is one axis.
    """
    if isinstance(state, (int, float)):
        state = (state,)
    if not 0 <= step < HORIZON:
        raise ValueError(f"step {step} is outside the episode: steps run from 0 to {HORIZON - 1}")
    if len(state) != len(STATE):
        raise ValueError(f"the state has {len(state)} numbers; give {len(STATE)}: {STATE}")
    if any(value != value for value in state):
        raise ValueError(f"the state {state} holds a NaN")
    at = ROOTS[step]
    while at >= 0:  # the number of a comparison; a negative number is an action
        at = RIGHT[at] if state[AXIS[at]] >= THRESHOLD[at] else LEFT[at]
    return ACTIONS[~at]


if __name__ == "__main__":  # lines "step state..." in, one action per line out
    import sys

    for line in sys.stdin:
        step, *state = line.split()
        print(*act(int(step), [float(value) for value in state]))
'''


def python_module(tree: DecisionTree) -> str:
    """Return the text of a Python file with a function `act(step, state)`."""
    actions = [
        tuple(int(x) if whole else x for x, whole in zip(row, tree.action_is_whole, strict=True))
        for row in tree.actions.tolist()
    ]
    tables = {
        "HORIZON": tree.horizon,
        "STATE": tree.state_names,
        "ACTION": tree.action_names,
        "ROOTS": tuple(tree.roots.tolist()),
        "AXIS": tuple(tree.axis.tolist()),
        "THRESHOLD": tuple(tree.threshold.tolist()),
        "LEFT": tuple(tree.left.tolist()),
        "RIGHT": tuple(tree.right.tolist()),
        "ACTIONS": tuple(actions),
    }
    heading = "\n".join(tree.describe())
    return (
        f'"""{heading}\n"""\n\n' + "\n".join(_table(*one) for one in tables.items()) + "\n" + _CODE
    )


def _table(name: str, value: Any) -> str:
    text = f"{name} = {value!r}"
    return "\n".join(textwrap.wrap(text, 100, subsequent_indent="    ", break_long_words=False))
