"""Covering oracles: how the domain of a ball that is due is covered by balls of half its radius.

An oracle answers one of the two questions of the paper's section 3. Given a set and the balls so far, say "covered", or give a
point that is not: covering dom(B) greedily, a ball around each point that it gives, is an r/2-net of dom(B). Or give an
r-packing of a set (`Packing`): points further than r from each other; if no more fit, their balls cover it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError
from zooming.validation import check_int

if TYPE_CHECKING:
    from zooming.metrics.space import Space

# (uncovered [n_x, n_a], radius of the balls to be added, the space) -> a pair (state, action), or None for "covered"
Oracle = Callable[[NDArray[np.bool_], float, "Space"], tuple[int, int] | None]


class Greedy:
    """The compiled oracle: the point not covered yet that is nearest to the parent's center, first its state, then its action.

    With more than one of `tries`, evenly spread over what is not covered, it is the one whose ball takes the most.
    """

    def __init__(self, tries: int = 1) -> None:
        self.tries = check_int(tries, "Greedy: tries", 1)

    def __repr__(self) -> str:
        return f"Greedy({self.tries})"


def packing(points: NDArray[np.bool_], radius: float, space: Space) -> list[tuple[int, int]]:
    """An r-packing of a set of pairs to which none can be added: pairs (state, action) further than `radius` from each other.

    `points` [n_states, n_actions] says which pairs are in the set. The first pair comes first, and then the one that is
    farthest from those so far.

    >>> import gymnasium as gym, zooming
    >>> class Stops(gym.Env):
    ...     observation_space = action_space = gym.spaces.Discrete(5)
    >>> line = zooming.metrics.Graph([(0, 1), (1, 2), (2, 3), (3, 4)])
    >>> space = zooming.MetricQ(Stops(), line, horizon=1).table.space
    >>> packing(space.distances_from(0, 0) >= 0, 2.0, space)
    [(0, 0), (0, 4), (4, 0), (4, 4)]
    """
    found: list[tuple[int, int]] = []
    nearest = np.where(points, np.inf, -1.0)
    while nearest.max() > radius:
        state, action = divmod(int(nearest.argmax()), nearest.shape[1])
        found.append((state, action))
        nearest = np.minimum(nearest, space.distances_from(state, action))
    return found


class Packing:
    """An oracle that covers a ball by balls around a packing of its domain: `packing`, or a function of yours in its place.

    `give(points, radius, space)` gives pairs (state, action) of the set that are further than the radius from each other. If
    something is not covered by their balls, it is asked again for that.
    """

    def __init__(self, give: Callable[[NDArray[np.bool_], float, Space], Sequence[tuple[int, int]]] = packing) -> None:
        if not callable(give):
            raise SpaceError(f"Packing: give={give!r} is not a function (points, radius, space)")
        self.give = give

    def __repr__(self) -> str:
        return "Packing()" if self.give is packing else f"Packing({self.give!r})"
