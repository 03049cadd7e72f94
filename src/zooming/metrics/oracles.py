"""Covering oracles: choose balls of half the radius that cover the domain of a ball to be split.

An oracle answers one of two questions [SBY19 sec. 3]. The first: given a set and the balls so far,
which point is not covered yet, if any? The balls around the points that the oracle returns form an
r/2-net of dom(B). The second (`Packing`): what is an r-packing of a set, that is, points at
distances greater than r? If no point can be added, their balls cover the set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zooming.validation import check_int

if TYPE_CHECKING:
    from zooming.metrics.space import Space

# (uncovered [n_states, n_actions], radius of the new balls, space) -> an uncovered pair
# (state, action), or None if everything is covered
Oracle = Callable[[NDArray[np.bool_], float, "Space"], tuple[int, int] | None]


class Greedy:
    """The compiled oracle. It returns the uncovered point nearest to the center of the parent.

    Points are compared by the distance of their states, then by the distance of their actions.

    Parameters
    ----------
    tries : int, default 1
        Number of candidates. With more than 1, they are spread evenly over the uncovered points,
        and the oracle returns the one whose ball covers the most points.

    Examples
    --------
    >>> Greedy(tries=8)
    Greedy(8)
    """

    def __init__(self, tries: int = 1) -> None:
        self.tries = check_int(tries, "Greedy: tries", 1)

    def __repr__(self) -> str:
        return f"Greedy({self.tries})"


def packing(points: NDArray[np.bool_], radius: float, space: Space) -> list[tuple[int, int]]:
    """Return an r-packing of a set of pairs to which no pair can be added.

    The first pair of the set comes first. The next one is always the farthest from those chosen.

    Parameters
    ----------
    points : array of bool [n_states, n_actions]
        True for the pairs of the set.
    radius : float
        The distances between chosen pairs are greater than this.
    space : Space
        The metric space.

    Returns
    -------
    list of (int, int)
        Indices (state, action) of the chosen pairs.

    Examples
    --------
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
    """The oracle that covers a ball with balls around `packing` of its domain.

    Examples
    --------
    >>> Packing()
    Packing()
    """

    def __repr__(self) -> str:
        return "Packing()"
