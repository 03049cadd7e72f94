"""Lower bounds of the regret: no algorithm has less."""

from __future__ import annotations

import math

from zooming.theory.arguments import check_positive, check_whole
from zooming.theory.coverings import Covering, scale_of
from zooming.theory.regret_bounds import least_sum, regret_exponent_bound


def lower_bound(
    horizon: int, episodes: int, dimension: float, c: float = 1.0, constant: float = 1.0
) -> float:
    """Return constant H^(3/2) c^(1/(d+2)) K^((d+1)/(d+2)). [SBY19 Thms 4.3, 4.4]

    No algorithm has less regret, up to logarithms. The paper gives no constant, so compare growth
    rates only. With d = 0 and c = SA, it is the tabular Omega(sqrt(H^3 S A K)). For d > 0 the
    paper's construction, H bandits in sequence, shows the factor H, while its section 4.1 claims
    H^(3/2). Here d_max = 1.

    Parameters
    ----------
    horizon : int
        Number of steps H of an episode.
    episodes : int
        Number of episodes K.
    dimension : float
        Covering dimension d: N_r <= c r^-d.
    c : float
        Constant c of N_r <= c r^-d, at least 1.
    constant : float
        Factor of the bound, positive.

    Returns
    -------
    float
        The lower bound, up to a constant and logarithms.

    Raises
    ------
    ConfigurationError
        If an argument is out of range, or c < 1.

    Examples
    --------
    >>> lower_bound(4, 10000, dimension=2), lower_bound(4, 10000, dimension=0, c=9)
    (8000.0, 2400.0)
    """
    check_whole(horizon=horizon, episodes=episodes)
    check_positive(constant=constant)
    exponent = regret_exponent_bound(dimension)
    return float(
        constant * horizon**1.5 * scale_of(dimension, c, 1.0) ** (1 - exponent) * episodes**exponent
    )


def metric_lower_bound(
    horizon: int, episodes: int, covering: Covering, constant: float = 1.0
) -> float:
    """Return the lower bound for given covering numbers r -> N_r. [SBY19 Thm 4.4]

        constant H inf over r0 of K r0 / log(K) + sum of N_r / r over the radii r >= r0

    No algorithm has less expected regret on all problems of a space with d_max = 1. The paper does
    not give the constant. For one step, the paper prints C_0 inf (K r0 + sum of N_r log(K) / r).
    Here this is divided by log(K). H bandits in sequence have H times the regret.

    Parameters
    ----------
    horizon : int
        Number of steps H of an episode.
    episodes : int
        Number of episodes K, at least 2.
    covering : callable
        The function r -> N_r.
    constant : float
        Factor of the bound, positive.

    Returns
    -------
    float
        The lower bound, up to a constant.

    Raises
    ------
    ConfigurationError
        If an argument is out of range, or a covering number is not finite and at least 1.

    Examples
    --------
    >>> from zooming.theory import covering_number
    >>> cube = lambda r: covering_number(r, (1, 1))
    >>> round(metric_lower_bound(1, 10_000, cube)), round(metric_lower_bound(5, 10_000, cube))
    (209, 1044)
    """
    check_whole(horizon=horizon)
    check_whole(low=2, episodes=episodes)  # log(K) = 0 for K = 1
    check_positive(constant=constant)
    return constant * horizon * least_sum(episodes / math.log(episodes), covering, 1.0)
