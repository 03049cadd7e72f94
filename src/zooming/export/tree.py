"""A policy as one decision tree per step: compare a state axis, go left or right, act.

Regions of states with the same action are merged. Equal subtrees are stored once, also across
steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.export.forms import PolicyForm, about, head_of
from zooming.export.regions import action_boxes, has_boxes, merge
from zooming.validation import Floats, Ints, count_noun

Nodes = dict[tuple[int, float, int, int], int]  # (axis, threshold, left, right): index
MOST_CUTS = 64  # cuts per axis among which the best one is chosen


@dataclass(frozen=True, kw_only=True)
class DecisionTree(PolicyForm):
    """The policy of an agent as nodes of binary trees. Returned by `decision_tree(agent)`.

    A reference r >= 0 is the index of a node. A negative reference r means the action with index
    ~r.

    Attributes
    ----------
    roots : array [horizon]
        Reference of the tree of each step.
    axis, threshold : arrays [n_nodes]
        A state with state[axis] >= threshold goes to the right. A squashed axis is mapped first.
    left, right : arrays [n_nodes]
        References of the subtrees below `threshold`, and at or above it.
    actions : array [n_actions, n_action_axes]
        The different actions, in the environment's units.
    """

    roots: Ints
    axis: Ints
    threshold: Floats
    left: Ints
    right: Ints
    actions: Floats

    kind = "tree"

    @property
    def horizon(self) -> int:
        return len(self.roots)

    @property
    def depth(self) -> int:
        depth = np.zeros(len(self.axis) + 1, np.int64)  # the last entry stands for every action
        for i in range(len(self.axis)):  # children come before their parents
            depth[i] = 1 + max(depth[max(self.left[i], -1)], depth[max(self.right[i], -1)])
        return int(depth[np.maximum(self.roots, -1)].max())

    def own_tables(self) -> dict[str, NDArray[Any]]:
        names = ("roots", "axis", "threshold", "left", "right", "actions")
        found = {name: getattr(self, name) for name in names}
        if all(self.action_is_whole):
            found["actions"] = self.actions.astype(np.int64)
        return found

    def facts(self) -> list[str]:
        return [
            f"{count_noun(self.horizon, 'step')}, {count_noun(len(self.axis), 'comparison')} "
            f"stored, {count_noun(len(self.actions), 'different action')}"
        ]


def decision_tree(agent: Any) -> DecisionTree:
    """Convert the policy of an agent with a partition to a tree. It plays exactly as `predict`."""
    if not has_boxes(agent):
        raise ConfigurationError(
            f"{type(agent).__name__} has no partition of the states into boxes with one action "
            "each; agent.explain(n_rules=None).export(path) writes rules that are close to it"
        )
    boxes = [action_boxes(agent, step) for step in range(agent.horizon)]
    return tree_of(boxes, head_of(agent.axes, f"Policy of {about(agent)}"))


def tree_of(boxes: Sequence[tuple[Floats, Floats, Floats]], head: dict[str, Any]) -> DecisionTree:
    """Return a tree that plays boxes (low, high, action), given for each step; they cover all."""
    actions: dict[tuple[float, ...], int] = {}
    nodes: Nodes = {}
    roots = []
    for low, high, chosen in boxes:
        numbers = [~actions.setdefault(tuple(one), len(actions)) for one in chosen.tolist()]
        roots.append(_grow(nodes, *merge(low, high, np.array(numbers))))
    axis, threshold, left, right = list(zip(*nodes, strict=True)) or [()] * 4
    return DecisionTree(
        **head,
        roots=np.array(roots),
        axis=np.array(axis, np.int64),
        threshold=np.array(threshold, np.float64),
        left=np.array(left, np.int64),
        right=np.array(right, np.int64),
        actions=np.array(list(actions)),
    )


def _grow(nodes: Nodes, low: Floats, high: Floats, actions: Ints) -> int:
    """Build a tree that gives each box its action, and return its reference."""
    if (actions == actions[0]).all():
        return int(actions[0])
    axis, cut = min(_cuts(low, high), key=lambda one: _cost(low, high, actions, *one))
    is_left, is_right = low[:, axis] < cut, high[:, axis] > cut
    left = _grow(nodes, low[is_left], high[is_left], actions[is_left])
    right = _grow(nodes, low[is_right], high[is_right], actions[is_right])
    if left == right:
        return left
    return nodes.setdefault((axis, float(cut), left, right), len(nodes))


def _cuts(low: Floats, high: Floats) -> Iterator[tuple[int, float]]:
    """Yield cuts to try, as (axis, threshold): evenly chosen faces between the boxes."""
    for axis in range(low.shape[1]):
        faces = np.unique(low[:, axis])[1:]
        if len(faces):
            for i in np.unique(np.linspace(0, len(faces) - 1, MOST_CUTS).astype(int)):
                yield axis, faces[i]


def _cost(low: Floats, high: Floats, actions: Ints, axis: int, cut: float) -> tuple[int, int]:
    """Return how much work a cut leaves, as a pair to compare cuts by.

    The work of a side is its number of boxes, or 0 if they all have one action. Boxes that the cut
    divides are on both sides. The larger side counts twice: it decides the depth of the tree.
    """
    sides = [low[:, axis] < cut, high[:, axis] > cut]
    left = [int(side.sum()) if np.ptp(actions[side]) else 0 for side in sides]
    return max(left) + sum(left), max(left)
