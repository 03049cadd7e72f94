"""Upper bounds of the expected regret."""

from __future__ import annotations

import math

from zooming.theory.arguments import check_whole
from zooming.theory.regret_bounds import regret_bound, regret_exponent_bound


def expected_regret_delta(episodes: int, dimension: float) -> float:
    """Return delta = K^(-1/(d+2)), the failure probability for the expected regret.

    Runs in which the bound fails then cost at most delta H K = H K^((d+1)/(d+2)) on average. This
    is the rate of the bound. [SBY19 sec. 4.1]

    Parameters
    ----------
    episodes : int
        Number of episodes K, at least 2.
    dimension : float
        Covering dimension d: N_r <= c r^-d.

    Returns
    -------
    float
        The failure probability.

    Raises
    ------
    ConfigurationError
        If an argument is out of range.

    Examples
    --------
    >>> expected_regret_delta(10_000, dimension=2), expected_regret_delta(10_000, dimension=0)
    (0.1, 0.01)
    """
    check_whole(low=2, episodes=episodes)
    return math.pow(episodes, regret_exponent_bound(dimension) - 1)


def expected_regret_bound(
    horizon: int,
    episodes: int,
    dimension: float,
    c: float = 1.0,
    lipschitz: float = 1.0,
    d_max: float = 1.0,
) -> float:
    """Return a bound on the expected regret E[R(K)].

    It is `regret_bound` with delta = `expected_regret_delta`, plus delta H K.

    For rewards in [0, 1] no run has more regret than H K. Give the agent the same delta:
    `bonuses.Theory(episodes, delta)`. [SBY19 sec. 4.1]

    Parameters
    ----------
    horizon : int
        Number of steps H of an episode.
    episodes : int
        Number of episodes K, at least 2.
    dimension : float
        Covering dimension d: N_r <= c r^-d.
    c : float
        Constant c of N_r <= c r^-d.
    lipschitz : float
        Lipschitz constant L of Q*.
    d_max : float
        Diameter of the space.

    Returns
    -------
    float
        The bound on E[R(K)].

    Raises
    ------
    ConfigurationError
        If an argument is out of range, or c < d_max^d.

    Examples
    --------
    >>> round(expected_regret_bound(5, 2000, dimension=2) / 1e6, 3)
    7.429
    """
    delta = expected_regret_delta(episodes, dimension)
    return (
        regret_bound(horizon, episodes, dimension, c, delta, lipschitz, d_max)
        + delta * horizon * episodes
    )
