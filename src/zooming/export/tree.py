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
from zooming.validation import Floats, count_noun

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

    roots: NDArray[np.int64]
    axis: NDArray[np.int64]
    threshold: Floats
    left: NDArray[np.int64]
    right: NDArray[np.int64]
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
        is_whole = all(self.action_is_whole)
        return {
            "roots": self.roots,
            "axis": self.axis,
            "threshold": self.threshold,
            "left": self.left,
            "right": self.right,
            "actions": self.actions.astype(np.int64) if is_whole else self.actions,
        }

    def facts(self) -> list[str]:
        return [
            f"{count_noun(self.horizon, 'step')}, {count_noun(len(self.axis), 'comparison')} "
            f"stored, {count_noun(len(self.actions), 'different action')}"
        ]

    def act(self, step: int, state: Any) -> Floats:
        """Return the action in a state, by the same comparisons that every format writes out."""
        state, at = self.squash_state(state), int(self.roots[step])
        while at >= 0:
            at = int((self.right if state[self.axis[at]] >= self.threshold[at] else self.left)[at])
        return np.asarray(self.actions[~at])


def decision_tree(agent: Any) -> DecisionTree:
    """Convert the policy of an agent with a partition to a tree. It plays exactly as `predict`.

    Raises
    ------
    ConfigurationError
        If the agent has no partition, or interpolates its actions.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(2000)
    >>> tree = decision_tree(agent)
    >>> tree.act(0, [0.5]).tolist() == agent.predict([0.5])[0].tolist()
    True
    """
    if not has_boxes(agent):
        raise ConfigurationError(
            f"{type(agent).__name__} has no partition of the states into boxes with one action "
            "each; agent.explain(n_rules=None).export(path) writes rules that are close to it"
        )
    boxes = [action_boxes(agent, step) for step in range(agent.horizon)]
    return tree_of(boxes, head_of(agent.axes, f"Policy of {about(agent)}"))


def tree_of(boxes: Sequence[tuple[Floats, Floats, Floats]], head: dict[str, Any]) -> DecisionTree:
    """Return a tree that plays the actions of boxes (low, high, action), given for each step.

    The boxes of a step must cover all states. `head` has the attributes that all forms share.
    """
    store = _Store()
    roots = []
    for low, high, chosen in boxes:
        numbers = np.array([store.action(action) for action in chosen])
        roots.append(_grow(store, *merge(low, high, numbers)))
    axis, threshold, left, right = store.nodes()
    return DecisionTree(
        **head,
        roots=np.array(roots),
        axis=axis,
        threshold=threshold,
        left=left,
        right=right,
        actions=np.array(list(store.actions)),
    )


class _Store:
    """Collect nodes and actions. Equal ones get the same index."""

    def __init__(self) -> None:
        self.actions: dict[tuple[float, ...], int] = {}
        self._nodes: dict[tuple[int, float, int, int], int] = {}

    def action(self, action: Floats) -> int:
        return ~self.actions.setdefault(tuple(action.tolist()), len(self.actions))

    def node(self, axis: int, threshold: float, left: int, right: int) -> int:
        if left == right:
            return left
        return self._nodes.setdefault((axis, threshold, left, right), len(self._nodes))

    def nodes(self) -> tuple[NDArray[Any], Floats, NDArray[Any], NDArray[Any]]:
        columns = list(zip(*self._nodes, strict=True)) or [(), (), (), ()]
        axis, threshold, left, right = columns
        return (
            np.array(axis, np.int64),
            np.array(threshold, np.float64),
            np.array(left, np.int64),
            np.array(right, np.int64),
        )


def _grow(store: _Store, low: Floats, high: Floats, actions: NDArray[np.int64]) -> int:
    """Build a tree that gives each box its action, and return its reference.

    The boxes are cut in two where little work remains, and then each side in the same way.
    """
    if (actions == actions[0]).all():
        return int(actions[0])
    axis, cut = min(_cuts(low, high), key=lambda one: _cost(low, high, actions, *one))
    left, right = low[:, axis] < cut, high[:, axis] > cut
    return store.node(
        axis,
        float(cut),
        _grow(store, low[left], high[left], actions[left]),
        _grow(store, low[right], high[right], actions[right]),
    )


def _cuts(low: Floats, high: Floats) -> Iterator[tuple[int, float]]:
    """Yield cuts to try, as (axis, threshold): evenly chosen faces between the boxes."""
    for axis in range(low.shape[1]):
        faces = np.unique(low[:, axis])[1:]
        if len(faces):
            for i in np.unique(np.linspace(0, len(faces) - 1, MOST_CUTS).astype(int)):
                yield axis, faces[i]


def _cost(
    low: Floats, high: Floats, actions: NDArray[np.int64], axis: int, cut: float
) -> tuple[int, int]:
    """Return how much work a cut leaves, as a pair to compare cuts by.

    The work of a side is its number of boxes, or 0 if they all have one action. The first number is
    the work of both sides, with the larger side counted twice, because it decides the depth of the
    tree. The second is the larger side. Boxes that the cut divides are on both sides.
    """
    sides = [low[:, axis] < cut, high[:, axis] > cut]
    left = [int(side.sum()) if np.ptp(actions[side]) else 0 for side in sides]
    return max(left) + sum(left), max(left)
