"""Ambulance on a graph: at which node to wait for the next call.

States and actions are the nodes of a connected graph. d is the shortest travel time between two
nodes in minutes. The ambulance goes from x to the node a, a call comes from the node p, and the
ambulance goes there:

    x' = p,    r = -(move_cost d(x, a) + wait_cost d(a, p)),    p ~ calls.

`env.unwrapped.distances` is d, for `zooming.metrics.Matrix`. If moving is free, the best node is
the median of the calls, and V* = -H wait_cost min_a E d(a, p). The rule looks one call ahead. It
has one number, the factor of the cost of the way to the node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count
from zooming.errors import ConfigurationError
from zooming.validation import Floats, check_int, short_repr

MOST_NODES = 300
# A center (0) with three arms of three nodes, whose ends a ring road joins.
CITY = (
    (0, 1, 3.0), (1, 2, 3.0), (2, 3, 4.0), (0, 4, 2.0), (4, 5, 3.0), (5, 6, 5.0),
    (0, 7, 4.0), (7, 8, 3.0), (8, 9, 3.0), (3, 6, 9.0), (6, 9, 8.0), (9, 3, 10.0),
)  # fmt: skip
CALLS = (0.1, 0.05, 0.05, 0.25, 0.05, 0.05, 0.15, 0.05, 0.05, 0.2)


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `GraphAmbulance`."""

    edges: Sequence[tuple[int, int, float]] = problem.option(
        CITY,
        "sequence",
        "(node, node, minutes) of each edge of a connected graph; nodes count from 0",
    )
    calls: Sequence[float] | None = problem.number_list(
        None, "probability of a call from each node; by default uniform, except in the small city"
    )
    move_cost: float = amount(1.0, "the cost of a minute on the way to a node")
    wait_cost: float = amount(4.0, "the cost of a minute that a caller waits")
    start: int = problem.option(0, "int", "node at the start")
    horizon: int = count(5, "calls of an episode")

    def check(self) -> None:
        problem.require(
            self.move_cost + self.wait_cost > 0,
            "move_cost and wait_cost are both 0, so that nothing costs anything",
        )
        n = len(shortest_ways(self.edges))
        calls = self.calls or (CALLS if self.edges is CITY else (1.0 / n,) * n)
        problem.require(
            len(calls) == n,
            f"calls has {len(calls)} entries, but the graph has the {n} nodes 0 to {n - 1}",
        )
        problem.require_law(calls, "calls")
        object.__setattr__(self, "calls", calls)
        object.__setattr__(self, "start", check_int(self.start, "start", 0, n - 1))


def shortest_ways(edges: Any) -> Floats:
    """Return the matrix of shortest travel times between nodes 0 to n - 1 of a connected graph."""
    checked = []
    for edge in edges:
        try:
            first, second, minutes = edge
            checked.append((int(first), int(second), float(minutes)))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"edge {short_repr(edge)}: give (node, node, minutes), nodes as whole numbers "
                "from 0"
            ) from error
        problem.require(
            min(checked[-1][:2]) >= 0 and 0 < checked[-1][2] < math.inf,
            f"edge {short_repr(edge)}: nodes are numbered from 0, and a way takes more than 0 "
            "minutes",
        )
    problem.require(bool(checked), "edges is empty: give at least one (node, node, minutes)")
    n = 1 + max(max(first, second) for first, second, _ in checked)
    problem.require(n <= MOST_NODES, f"the graph has {n} nodes; at most {MOST_NODES} are supported")
    ways = np.full((n, n), np.inf)
    np.fill_diagonal(ways, 0.0)
    for first, second, minutes in checked:
        ways[first, second] = ways[second, first] = min(ways[first, second], minutes)
    for middle in range(n):
        ways = np.minimum(ways, ways[:, middle : middle + 1] + ways[middle])
    apart = np.flatnonzero(np.isinf(ways[0])).tolist()
    problem.require(
        not apart, f"the graph falls apart: there is no way from node 0 to {short_repr(apart)}"
    )
    return ways


AT = problem.places(Settings, "n", tail="calls")  # after the calls, the distances by rows


def respond(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for a call from `outcome[0]` and return the reward."""
    n = int(params[AT.n])
    ways = AT.calls + n
    place, call = int(action[0]), int(outcome[0])
    next_state[0] = float(call)
    moved = params[ways + int(state[0]) * n + place]
    waited = params[ways + place * n + call]
    return -(params[AT.move_cost] * moved + params[AT.wait_cost] * waited)


def law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of the nodes, which are the same at every step."""
    for i in range(weights.shape[0]):
        weights[i] = params[AT.calls + i]


class GraphAmbulance(GalleryEnv):
    """The environment `zooming/GraphAmbulance-v0`: at which node of a graph to wait for a call.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/GraphAmbulance-v0")
    >>> optimal = zooming.solve(env)  # exact: everything is finite
    >>> round(optimal.return_, 2), int(optimal.action(0, 0))
    (-155.44, 0)
    """

    model = Model(Settings, AT, respond, law)

    def _layout(self, s: Any) -> Layout:
        self.distances = shortest_ways(s.edges)
        calls = np.array(s.calls)
        n, farthest = len(calls), self.distances[:, calls > 0].max(axis=1)
        most = float((s.move_cost * self.distances.max(axis=0) + s.wait_cost * farthest).max())
        nodes = gym.spaces.Discrete(n)
        return Layout(
            nodes, nodes, start=s.start, values=range(n), reward_range=(-max(most, 1e-6), 0.0),
            further=[n], tail=[*s.calls, *self.distances.ravel()],
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        s = self.settings
        waiting = s.wait_cost * self.distances @ np.array(s.calls)

        def place(step: int, states: Any, numbers: Any) -> Any:
            at = states[:, 0].astype(int)
            cost = numbers[0] * s.move_cost * self.distances[at] + waiting
            return cost.argmin(axis=1)

        return "look one call ahead", place, {"weight of the way": (1.0, 0.0, 5.0)}

    def closed_form(self) -> float | None:
        """Return -H wait_cost min_a E d(a, p) if moving is free, else None."""
        s = self.settings
        if s.move_cost > 0:
            return None
        return -float(s.horizon * s.wait_cost * (self.distances @ np.array(s.calls)).min())
