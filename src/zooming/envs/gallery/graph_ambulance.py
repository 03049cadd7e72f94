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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import Decide, GalleryEnv, amount, count, require
from zooming.errors import ConfigurationError
from zooming.kernels import jit_inline
from zooming.kernels.solve.laws import draw_index
from zooming.validation import Floats, as_floats, short_repr

_MOVE, _WAIT, _N, _CALLS = range(4)  # places in params; after the calls, the distances by rows
MOST_NODES = 300
# A center (0) with three arms of three nodes, whose ends a ring road joins.
CITY = (
    (0, 1, 3.0), (1, 2, 3.0), (2, 3, 4.0), (0, 4, 2.0), (4, 5, 3.0), (5, 6, 5.0),
    (0, 7, 4.0), (7, 8, 3.0), (8, 9, 3.0), (3, 6, 9.0), (6, 9, 8.0), (9, 3, 10.0),
)  # fmt: skip
CALLS = (0.1, 0.05, 0.05, 0.25, 0.05, 0.05, 0.15, 0.05, 0.05, 0.2)


@dataclass(frozen=True)
class Settings:
    """Numbers of the problem; see `GraphAmbulance`."""

    edges: Sequence[tuple[int, int, float]] = CITY
    calls: Sequence[float] | None = None
    move_cost: float = 1.0
    wait_cost: float = 4.0
    start: int = 0
    horizon: int = 5

    def __post_init__(self) -> None:
        count(self, "horizon")
        amount(self, "move_cost", "the cost of a minute on the way to a node")
        amount(self, "wait_cost", "the cost of a minute that a caller waits")
        require(
            self.move_cost + self.wait_cost > 0,
            "move_cost and wait_cost are both 0, so that nothing costs anything",
        )
        n = len(shortest_ways(self.edges))
        usual = CALLS if self.edges is CITY else [1.0 / n] * n
        try:
            calls = as_floats(usual if self.calls is None else self.calls).ravel()
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"calls={short_repr(self.calls)}: give a list of numbers"
            ) from error
        require(
            len(calls) == n,
            f"calls has {len(calls)} entries, but the graph has the {n} nodes 0 to {n - 1}",
        )
        require(
            bool((calls >= 0).all() and abs(calls.sum() - 1) < 1e-9),
            f"calls={calls.tolist()}: probabilities are not negative and sum to 1",
        )
        object.__setattr__(self, "calls", tuple(calls.tolist()))
        count(self, "start", 0, n - 1)


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
        require(
            min(checked[-1][:2]) >= 0 and 0 < checked[-1][2] < math.inf,
            f"edge {short_repr(edge)}: nodes are numbered from 0, and a way takes more than 0 "
            "minutes",
        )
    require(bool(checked), "edges is empty: give at least one (node, node, minutes)")
    n = 1 + max(max(first, second) for first, second, _ in checked)
    require(n <= MOST_NODES, f"the graph has {n} nodes; at most {MOST_NODES} are supported")
    ways = np.full((n, n), np.inf)
    np.fill_diagonal(ways, 0.0)
    for first, second, minutes in checked:
        ways[first, second] = ways[second, first] = min(ways[first, second], minutes)
    for middle in range(n):
        ways = np.minimum(ways, ways[:, middle : middle + 1] + ways[middle])
    apart = np.flatnonzero(np.isinf(ways[0])).tolist()
    require(not apart, f"the graph falls apart: there is no way from node 0 to {short_repr(apart)}")
    return ways


def ambulance(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw the node of the call, write the next state and return the reward."""
    call = draw_index(params[_CALLS : _CALLS + int(params[_N])], rng)
    return respond(state, action, params, call, next_state)


def ambulance_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw the node of the call into `outcome[0]`."""
    outcome[0] = draw_index(params[_CALLS : _CALLS + int(params[_N])], rng)
    return 0.0


def ambulance_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for a call from `outcome[0]` and return the reward."""
    return respond(state, action, params, int(outcome[0]), next_state)


def ambulance_law(
    state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any
) -> None:
    """Fill in the probabilities of the nodes, which are the same at every step."""
    for i in range(weights.shape[0]):
        weights[i] = params[_CALLS + i]


@jit_inline
def respond(state: Any, action: Any, params: Any, call: Any, next_state: Any) -> Any:
    """Write the next state for a given call and return the reward."""
    n = int(params[_N])
    ways = _CALLS + n
    place = int(action[0])
    next_state[0] = float(call)
    moved = params[ways + int(state[0]) * n + place]
    return -(params[_MOVE] * moved + params[_WAIT] * params[ways + place * n + call])


class GraphAmbulance(GalleryEnv):
    """The environment `zooming/GraphAmbulance-v0`: at which node of a graph to wait for a call.

    Parameters
    ----------
    edges : sequence of (node, node, minutes), default a small city
        The edges of a connected graph. Nodes are whole numbers from 0.
    calls : sequence, optional
        Probability of a call from each node. By default uniform, except in the small city.
    move_cost, wait_cost : float, default 1.0, 4.0
        Cost of a minute on the way to the node, and of a minute that the caller waits.
    start : int, default 0
        Node at the start.
    horizon : int, default 5
        Calls of an episode.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/GraphAmbulance-v0")
    >>> optimal = zooming.solve(env)  # exact: everything is finite
    >>> round(optimal.return_, 2), int(optimal.action(0, 0))
    (-155.44, 0)
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(Settings, "GraphAmbulance", options)
        self.settings = s
        self.distances = shortest_ways(s.edges)
        calls = np.array(s.calls)
        n, farthest = len(calls), self.distances[:, calls > 0].max(axis=1)
        most = float((s.move_cost * self.distances.max(axis=0) + s.wait_cost * farthest).max())
        nodes = gym.spaces.Discrete(n)
        super().__init__(
            ambulance, nodes, nodes, s.horizon, start=s.start,
            params=[s.move_cost, s.wait_cost, n, *calls, *self.distances.ravel()],
            given=ambulance_given, draw=ambulance_draw, weigh=ambulance_law, values=range(n),
            reward_range=(-max(most, 1e-6), 0.0), name="graph ambulance", render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
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
