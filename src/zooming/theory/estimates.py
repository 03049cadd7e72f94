"""Learning rates, bonuses, and the Lipschitz constant of Q*."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.theory.coverings import check_positive, check_whole

MOST_TERMS = 1000  # longer geometric sums are computed by their closed form
MOST_SIDES = 6  # the most axes for which iota covers balls that depend on the data, see `iota`


def learning_rate(t: int, horizon: int) -> float:
    """Return alpha_t = (H + 1) / (H + t), the learning rate of the t-th visit. [SBY19 eq. 3]

    It is 1 at the first visit, which therefore replaces the initial Q.

    Examples
    --------
    >>> learning_rate(1, horizon=5), learning_rate(7, horizon=5)
    (1.0, 0.5)
    """
    check_whole(t=t, horizon=horizon)
    return (horizon + 1) / (horizon + t)


def learning_rate_weights(t: int, horizon: int) -> NDArray[np.float64]:
    """Return alpha_t^i = alpha_i prod_{j=i+1..t} (1 - alpha_j) for i = 0..t. [SBY19 Lemma 3.1]

    These are the weights of the samples in Q after t visits. alpha_0 = 1 belongs to the initial Q.
    They sum to 1. The sum of alpha_t^i / sqrt(i) lies between 1 / sqrt(t) and 2 / sqrt(t) (the
    lemma prints sqrt(t) for sqrt(i)).

    Examples
    --------
    >>> learning_rate_weights(3, horizon=2)
    array([0. , 0.1, 0.3, 0.6])
    """
    check_whole(horizon=horizon)
    check_whole(low=0, t=t)
    weights = np.ones(t + 1)
    weights[1:] = (horizon + 1) / (horizon + np.arange(1, t + 1))
    weights[:-1] *= np.cumprod(1 - weights[:0:-1])[::-1]
    return weights


def iota(horizon: int, episodes: int, delta: float = 0.05) -> float:
    """Return iota = log(4 H K / delta). [SBY19 Lemma E.5]

    Examples
    --------
    >>> round(iota(5, 2000), 3)
    13.592
    """
    # The lemma takes a union bound over episodes, although the balls depend on the data. It applies
    # Azuma to |Z| <= H. Hoeffding for a range of H has four times the exponent, which pays for a
    # union over (4HK/delta)^3 balls: all reachable cubes for D <= 6 and delta < 3/4.
    check_whole(horizon=horizon, episodes=episodes)
    if not 0 < delta < 1:
        raise ConfigurationError(f"delta={delta}: the failure probability must lie between 0 and 1")
    return math.log(4 * horizon * episodes / delta)


def bonus(
    t: int,
    horizon: int,
    episodes: int,
    delta: float = 0.05,
    lipschitz: float = 1.0,
    d_max: float = 1.0,
) -> float:
    """Return b(t) = 2 sqrt(H^3 iota / t) + 4 L d_max / sqrt(t). [SBY19 eq. 4]

    Lemmas E.5 and E.6 prove these constants.

    Examples
    --------
    >>> round(bonus(1, 5, 2000), 2), round(bonus(100, 5, 2000), 3)
    (86.44, 8.644)
    """
    check_whole(t=t, horizon=horizon)
    return (
        2 * math.sqrt(horizon**3 * iota(horizon, episodes, delta)) + 4 * bias_of(lipschitz, d_max)
    ) / math.sqrt(t)


def lipschitz_of_q(
    horizon: int, lipschitz_kernel: float, lipschitz_reward: float, kind: str = "total_variation"
) -> float:
    """Return L of Q* at every step, from the Lipschitz constants of the kernel and the reward.

    "total_variation": L = 2 H L_kernel + L_reward. "wasserstein": L = L_reward sum_{i=0}^{H-1}
    L_kernel^i, the constant of the first step, which is the largest. The second also holds for
    deterministic systems, and needs D((x,a),(x',a)) <= d_S(x,x'). [SBY19 Props 2.4, 2.5]

    Parameters
    ----------
    lipschitz_kernel : float
        Lipschitz constant of the transition kernel.
    lipschitz_reward : float
        Lipschitz constant of the expected reward.
    kind : {"total_variation", "wasserstein"}
        Distance of distributions in which the transition kernel is Lipschitz.

    Examples
    --------
    >>> lipschitz_of_q(5, 0.5, 1.0), lipschitz_of_q(5, 0.5, 1.0, "wasserstein")
    (6.0, 1.9375)
    >>> lipschitz_of_q(5, 1.0, 1.0, "wasserstein")
    5.0
    """
    check_whole(horizon=horizon)
    check_positive(
        or_zero=True, lipschitz_kernel=lipschitz_kernel, lipschitz_reward=lipschitz_reward
    )
    if kind == "total_variation":
        return float(2 * horizon * lipschitz_kernel + lipschitz_reward)
    if kind == "wasserstein":
        return float(lipschitz_reward * _geometric_sum(lipschitz_kernel, horizon))
    raise ConfigurationError(
        f'kind={kind!r}: the kernel is Lipschitz in "total_variation" or in "wasserstein"'
    )


def bias_of(lipschitz: float, d_max: float) -> float:
    """Return L d_max, after checking both numbers."""
    check_positive(or_zero=True, lipschitz=lipschitz)
    check_positive(d_max=d_max)
    return lipschitz * d_max


def _geometric_sum(ratio: float, n: int) -> float:
    """Return sum_{i=0}^{n-1} ratio^i. Raise ConfigurationError if it overflows."""
    try:
        if n <= MOST_TERMS:
            return sum(float(ratio) ** i for i in range(n))
        return float(n) if ratio == 1 else (1 - math.pow(ratio, n)) / (1 - ratio)
    except OverflowError as error:
        raise ConfigurationError(
            f"lipschitz_kernel={ratio:g} over {n:.10g} steps is beyond floating point; give a "
            "smaller horizon or a smaller constant of the kernel"
        ) from error
