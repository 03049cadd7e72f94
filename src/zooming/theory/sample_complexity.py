"""Number of episodes after which a policy is probably nearly optimal."""

from __future__ import annotations

import math
from collections.abc import Callable

from zooming.errors import ConfigurationError
from zooming.theory.coverings import QUOTIENT_TOLERANCE, check_positive, check_whole, scale_of
from zooming.theory.regret_bounds import discrete_regret_bound, regret_bound


def visits_per_depth(depth: int) -> tuple[int, int]:
    """Return the visits n(B) of a ball of depth l at its creation and at its split.

    They are (4^(l-1), 4^l). [SBY19 Lemma 5.4] The root has (0, 1). In between, a ball is played 3/4
    4^l times, and the root once.

    Examples
    --------
    >>> visits_per_depth(0), visits_per_depth(3)
    ((0, 1), (16, 64))
    """
    check_whole(low=0, depth=depth)
    return (4**depth // 4, 4**depth)


def partition_size_bound(
    episodes: int,
    dimension: float,
    c: float = 1.0,
    d_max: float = 1.0,
    *,
    n_children: int | None = None,
) -> int:
    """Return the largest number of active balls that K episodes can make in one step's partition.

    This is O(K^(d/(d+2))). [SBY19 Thm 6.1, condition 3] Splitting a ball of depth l takes 3/4 4^l
    plays of its own, and there are at most C 2^(ld) such balls. So the worst case splits the
    coarsest balls first. Cubes (c = 1) attain it, and it is at most (4/3 (2^(d+2) - 1)
    K)^(d/(d+2)).

    Parameters
    ----------
    n_children : int, optional
        The most children of one ball. Default: ceil(C 2^d).

    Examples
    --------
    >>> partition_size_bound(13, 2), partition_size_bound(24, 2), partition_size_bound(25, 2)
    (16, 16, 19)
    >>> partition_size_bound(2000, 2)
    175
    """
    # The paper overlooks that the covering dimension alone does not bound the children of one ball.
    # Cubes have 2^d. For other balls, the default assumes that every ball, rescaled, has the same
    # c and d as the space.
    check_whole(episodes=episodes)
    scale = scale_of(dimension, c, d_max)
    children = (
        math.ceil(scale * 2**dimension * (1 - QUOTIENT_TOLERANCE))
        if n_children is None
        else n_children
    )
    check_whole(n_children=children)
    n_splits, n_left, depth, n_here = 0, episodes, 0, 1
    while n_here:
        first, last = visits_per_depth(depth)
        n_balls = (
            math.floor(scale * 2 ** (depth * dimension) * (1 + QUOTIENT_TOLERANCE)) if depth else 1
        )
        n_here = min(n_balls, n_left // (last - first))
        n_splits, n_left, depth = n_splits + n_here, n_left - n_here * (last - first), depth + 1
    n_active = 1 + (children - 1) * n_splits
    # Dimension 0 is a set of at most c points.
    return n_active if dimension > 0 else min(n_active, math.floor(c))


START_SHARE = 0.25  # share of delta for random starts


def pac_episodes(
    horizon: int,
    epsilon: float,
    delta: float,
    dimension: float,
    c: float = 1.0,
    lipschitz: float = 1.0,
    d_max: float = 1.0,
    random_starts: bool = False,
) -> int:
    """Return the K after which a random one of the K policies is epsilon-optimal. [SBY19 Thm 4.2]

    It is the least K for which this holds with probability 1 - delta. Markov's inequality gives
    P(gap > epsilon) <= E[R(K)] / (K epsilon). Half of delta covers the runs where the bound fails,
    which the paper neglects: they have probability delta epsilon / (2H) and regret at most H K. The
    other half requires regret_bound(K) / K <= delta epsilon / 2. K also enters iota, so it is found
    by bisection, to the precision of a float.

    With `random_starts`, the regret is about the starts that were drawn, and the gap is about all
    starts. A quarter of delta then covers `start_error`, and the rest is halved as above.

    Parameters
    ----------
    random_starts : bool
        Whether the starts are drawn independently, from one distribution.

    Examples
    --------
    >>> f"{pac_episodes(1, epsilon=0.5, delta=0.5, dimension=0):.3e}"
    '9.124e+07'
    """
    return _least_episodes(
        horizon,
        epsilon,
        delta,
        lambda k, failure: regret_bound(horizon, k, dimension, c, failure, lipschitz, d_max),
        random_starts,
    )


def discrete_pac_episodes(
    horizon: int,
    epsilon: float,
    delta: float,
    n_states: int,
    n_actions: int,
    random_starts: bool = False,
) -> int:
    """Return `pac_episodes` for `discrete_regret_bound`. [SBY19 Thm 4.2, sec. 4.1]

    Parameters
    ----------
    random_starts : bool
        Whether the starts are drawn independently, from one distribution.

    Examples
    --------
    >>> discrete_pac_episodes(1, epsilon=0.5, delta=0.5, n_states=1, n_actions=2)
    7186403
    """
    return _least_episodes(
        horizon,
        epsilon,
        delta,
        lambda k, failure: discrete_regret_bound(horizon, k, n_states, n_actions, failure),
        random_starts,
    )


def start_error(horizon: int, episodes: int, delta: float) -> float:
    """Return H sqrt(K log(1/delta) / 2), the error of K random starts.

    With probability 1 - delta, the gaps over all starts sum to at most this much more than the gaps
    from the K starts that were drawn. The proof is by Azuma and Hoeffding: given the past, the gap
    of a policy from a new start lies in [0, H], and its expectation is the mean over all starts.
    This is not in the paper, which lets an adversary choose the starts.

    Examples
    --------
    >>> round(start_error(5, 2000, 0.05), 1)
    273.7
    """
    check_whole(horizon=horizon, episodes=episodes)
    if not 0 < delta < 1:
        raise ConfigurationError(f"delta={delta}: the failure probability must lie between 0 and 1")
    return horizon * math.sqrt(episodes * math.log(1 / delta) / 2)


def _least_episodes(
    horizon: int,
    epsilon: float,
    delta: float,
    bound: Callable[[int, float], float],
    random_starts: bool,
) -> int:
    """Return the least K with bound(K, delta epsilon / (2H)) <= K delta epsilon / 2.

    See `pac_episodes` for random starts.
    """
    check_whole(horizon=horizon)
    check_positive(epsilon=epsilon)
    if epsilon > horizon or not 0 < delta < 1:
        raise ConfigurationError(
            f"epsilon={epsilon}, delta={delta}: the gap must be at most H = {horizon}, and "
            "delta lie in (0, 1)"
        )
    share = START_SHARE * delta if random_starts else 0.0
    budget = (delta - share) * epsilon / 2

    def enough(episodes: int) -> bool:
        beyond = start_error(horizon, episodes, share) if random_starts else 0.0
        return bound(episodes, budget / horizon) + beyond <= budget * episodes

    # `enough` changes once: the bound per episode falls with K, except for small K, where it is far
    # above H.
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if high > 2**900:
            raise ConfigurationError(
                "more than 2^900 episodes would be needed; give a larger epsilon or delta, or "
                "fewer dimensions"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
