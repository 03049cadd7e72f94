"""A learned policy as one decision tree per step: compare a state axis, go left or right, act.

All formats are written from this tree. Regions of states with the same action are merged, and
equal subtrees are stored once, also across steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.export.regions import (
    divide,
    greedy_actions,
    has_boxes,
    low_corners,
    merge,
    state_boxes,
)
from zooming.validation import Floats

MOST_CUTS = 64  # cuts per axis among which the best one is chosen


@dataclass(frozen=True)
class DecisionTree:
    """The policy of an agent as nodes of binary trees. Returned by `decision_tree(agent)`.

    A reference is the number of a node if it is 0 or more, and ~reference is the number of an
    action if it is negative.

    Attributes
    ----------
    roots : array [horizon]
        Reference of the tree of each step.
    axis, threshold : arrays [n_nodes]
        A state with state[axis] >= threshold goes to the right.
    left, right : arrays [n_nodes]
        References.
    actions : array [n_actions, n_action_axes]
        The different actions, in the environment's units.
    state_names, action_names : tuples of str
        Names of the axes.
    state_is_whole, action_is_whole : tuples of bool
        Whether an axis has integers only.
    about : str
        One line that says which agent and environment the policy comes from.
    """

    roots: NDArray[np.int64]
    axis: NDArray[np.int64]
    threshold: Floats
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    actions: Floats
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    state_is_whole: tuple[bool, ...]
    action_is_whole: tuple[bool, ...]
    about: str

    @property
    def horizon(self) -> int:
        return len(self.roots)

    @property
    def depth(self) -> int:
        """The largest number of comparisons that an action takes."""
        depth = np.zeros(len(self.axis) + 1, np.int64)  # the last entry stands for every action
        for i in range(len(self.axis)):  # children come before their parents
            depth[i] = 1 + max(depth[max(self.left[i], -1)], depth[max(self.right[i], -1)])
        return int(depth[np.maximum(self.roots, -1)].max())

    def act(self, step: int, state: Floats) -> Floats:
        """Return the action of a state; the plain form of what every format computes."""
        at = int(self.roots[step])
        while at >= 0:
            at = int((self.right if state[self.axis[at]] >= self.threshold[at] else self.left)[at])
        return np.asarray(self.actions[~at])

    def describe(self) -> list[str]:
        """Return the facts that head every file."""
        return [
            self.about,
            f"state: {', '.join(self.state_names)}; action: {', '.join(self.action_names)}",
            f"{self.horizon} steps, {len(self.axis):,} comparisons stored, {len(self.actions):,} "
            f"different actions, at most {self.depth} comparisons for an action",
            "A state outside the space gets the action of the nearest region.",
        ]


def decision_tree(agent: Any) -> DecisionTree:
    """Return the policy of an agent that has a partition, exactly as `agent.predict` plays it.

    Parameters
    ----------
    agent : AdaptiveQ or NetQ
        The agent.

    Raises
    ------
    ConfigurationError
        If the agent has no partition, or squashes a state axis.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(2000)
    >>> tree = decision_tree(agent)
    >>> tree.act(0, [0.5]).tolist() == agent.predict([0.5])[0].tolist()
    True
    """
    axes = _exportable(agent)
    n_state = axes.n_state
    store = _Store()
    roots = []
    for step in range(agent.horizon):
        boxes = divide(*state_boxes(agent, step))
        chosen = greedy_actions(agent, step, low_corners(agent.axes, boxes[:, 0]))
        numbers = np.array([store.action(action) for action in chosen])
        roots.append(_grow(store, *merge(boxes[:, 0], boxes[:, 1], numbers)))
    is_whole = [kind != "interval" for kind in axes.kinds]
    nodes = store.nodes()
    return DecisionTree(
        np.array(roots),
        *nodes,
        np.array(list(store.actions)),
        tuple(axes.names[:n_state]),
        tuple(axes.names[n_state:]),
        tuple(is_whole[:n_state]),
        tuple(is_whole[n_state:]),
        f"Policy of {type(agent).__name__} on {agent.env_name} after {agent.n_episodes:,} episodes",
    )


def _exportable(agent: Any) -> Any:
    """Return the axes of the agent; ConfigurationError if its policy is not a set of boxes."""
    name = type(agent).__name__
    if getattr(agent, "interpolates", False):
        raise ConfigurationError(
            f"{name} interpolates its actions between cells, which a decision tree cannot say; "
            "export an AdaptiveQ or a NetQ"
        )
    if not has_boxes(agent):
        raise ConfigurationError(
            f"{name} has no partition of the states to export; export an AdaptiveQ or a NetQ"
        )
    squashed = [agent.axes.names[i] for i in range(agent.axes.n_state) if agent.axes[i].squash]
    if squashed:
        raise ConfigurationError(
            f"{squashed[0]} is squashed, and a policy with squashed state axes cannot be exported; "
            f"give bounds={{{squashed[0]!r}: (low, high)}} instead of squash"
        )
    return agent.axes


class _Store:
    """Collects nodes and actions; equal ones get the same number."""

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

    It cuts the boxes in two where little work remains, and does the same on either side.
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
    """Yield some faces (axis, threshold) between the boxes, evenly from all of them."""
    for axis in range(low.shape[1]):
        faces = np.unique(low[:, axis])[1:]
        if len(faces):
            for i in np.unique(np.linspace(0, len(faces) - 1, MOST_CUTS).astype(int)):
                yield axis, faces[i]


def _cost(
    low: Floats, high: Floats, actions: NDArray[np.int64], axis: int, cut: float
) -> tuple[int, int]:
    """Return how much work a cut leaves: boxes on sides with several actions, larger side first.

    The largest side decides the depth of the tree; boxes that the cut divides count twice.
    """
    sides = [low[:, axis] < cut, high[:, axis] > cut]
    left = [int(side.sum()) if np.ptp(actions[side]) else 0 for side in sides]
    return max(left) + sum(left), max(left)
