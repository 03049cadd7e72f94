"""The guarantees of the paper as numbers: covering numbers, learning rates, bonuses, regret bounds.

Arguments have the same names everywhere, and are described here alone:

- `horizon` is H, the number of steps of an episode, and `episodes` is K (at least 2 where a
  formula divides by log K or takes the expected regret);
- `delta` is the failure probability, in (0, 1), and `epsilon` the largest gap to the optimum, at
  most H;
- `lipschitz` is the Lipschitz constant L of Q*, and `d_max` the diameter of the space;
- `dimension` and `c` are the d and c of N_r <= c r^-d, with c >= d_max^d; `covering` is the
  function r -> N_r, finite and at least 1;
- `n_states` and `n_actions` are S and A; `t` is the number of visits of a ball, `depth` its depth
  l, and `radius` is r;
- `sides` are the lengths of the sides of a box; for the `metric` "discrete", the number of points
  of each axis. The other metrics are "linf", "l1" and "l2";
- `constant` of an upper bound is "derived" (96 kappa) or "printed" (the paper's 192); of a lower
  bound, a positive factor;
- `random_starts` says that the starts are drawn independently, from one distribution.

An argument out of range raises a ConfigurationError.

N_r is the least number of cells of diameter at most r that cover the space, and C = c d_max^-d. The
proofs use only the radii d_max 2^-l. The library's balls are cubes, whose diameter is their radius:
a step has at most N_r balls of radius r, and the unit cube has N_r = r^-D, so c = 1 and d = D. The
paper asks for diameters less than r; under l-infinity that number is `packing_number`.

The proof, for rewards in [0, 1]. The bonus gives beta_t <= 16 (sqrt(H^3 iota) + L d_max) / sqrt(t)
[Lemma E.7]. The plays of one ball of radius r >= r0 sum to at most 2 d_max / r, those of all
smaller balls to at most 2 K r0 / d_max [Lemma E.10]. With probability 1 - delta [Thm E.12],

    R(K) <= 3 H^2 + 6 sqrt(2 H^3 K iota) + 96 H (sqrt(H^3 iota) + L d_max) I(K),
    I(K) = inf over r0 of K r0 / d_max + sum of N_r d_max / r over the radii r >= r0.

Lemma E.11 assumes that the weights of a sample in all later estimates sum to at most 1 + 1/H. But
all children of a ball inherit its samples, so this step is open for H > 1. It is sound for H = 1
and for `discrete_regret_bound`. The other bounds are claims of the paper.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.errors import ConfigurationError

METRICS = ("linf", "l1", "l2", "discrete")
CONSTANTS = ("derived", "printed")  # of the regret bound: 96 kappa, or the 192 of Theorem 4.1
START_SHARE = 0.25  # share of delta for random starts
MOST_SIDES = 6  # the most axes for which iota covers balls that depend on the data, see `iota`
MOST_DIMENSIONS = 500
MOST_TERMS = 1000  # longer geometric sums are computed by their closed form
# Largest whole numbers by name: beyond them, floats overflow or an array or a loop does not end.
LIMITS = {"episodes": 2**1000, "t": 10**8, "depth": 500}
N_RADII = 32  # d_max 2^-i, at which a covering dimension is checked
LARGEST = 2**53  # of any other
QUOTIENT_TOLERANCE = 1e-12  # relative tolerance: a quotient such as 0.7 / 0.1 misses an integer
Covering = Callable[[float], float]


# --- covering and packing -------------------------------------------------------------------------


def diameter(sides: Sequence[float], metric: str = "linf") -> float:
    """Return d_max of the box with these sides. [SBY19 sec. 2.2]

    For "discrete", where the sides count points, it is 1, or 0 for a single point.

    Examples
    --------
    >>> [diameter((3, 4), metric) for metric in ("linf", "l1", "l2", "discrete")]
    [4.0, 7.0, 5.0, 1.0]
    """
    if metric not in METRICS:
        raise ConfigurationError(f"metric={metric!r}: choose one of {', '.join(METRICS)}")
    if len(sides) == 0:
        raise ConfigurationError("a box needs at least one side")
    for side in sides:
        _check_whole(side=side) if metric == "discrete" else _check_positive(side=side)
    lengths = {"linf": max(sides), "l1": sum(sides), "l2": math.hypot(*sides)}
    return float(lengths.get(metric, math.prod(sides) > 1))


def covering_number(radius: float, sides: Sequence[float], metric: str = "linf") -> int:
    """Return N_r, the number of cells of diameter at most r that cover the box. [SBY19 Def. 2.1]

    It is exact for "linf" (cubes of side r) and "discrete", and an upper bound for "l1" and "l2":
    cubes of side r / D and r / sqrt(D), which have diameter r.

    Examples
    --------
    >>> covering_number(0.25, (1, 1)), covering_number(0.5, (1, 1), "l2")
    (16, 9)
    """
    _check_positive(radius=radius)
    if radius * (1 + QUOTIENT_TOLERANCE) >= diameter(sides, metric):
        return 1
    cells = _cells(radius, sides, metric)
    return math.prod(math.ceil(n * (1 - QUOTIENT_TOLERANCE)) for n in cells)


def packing_number(radius: float, sides: Sequence[float], metric: str = "linf") -> int:
    """Return the largest number of points at pairwise distance r or more. [SBY19 Def. 2.2]

    It is exact where `covering_number` is, and otherwise an upper bound: a cell of diameter below r
    contains at most one of the points. Under "linf" a grid attains it.

    Examples
    --------
    >>> packing_number(0.25, (1, 1)), packing_number(1.0, (1, 1)), packing_number(1.1, (1, 1))
    (25, 4, 1)
    """
    _check_positive(radius=radius)
    if radius * (1 - QUOTIENT_TOLERANCE) > diameter(sides, metric):
        return 1
    if metric == "discrete":
        return int(math.prod(sides))
    cells = _cells(radius, sides, metric)
    return math.prod(math.floor(n * (1 + QUOTIENT_TOLERANCE)) + 1 for n in cells)


def covering_dimension(
    covering: Covering, c: float, d_max: float = 1.0, *, limit: float = 0.0
) -> float:
    """Return d_c = inf {d >= limit : N_r <= c r^-d}, or infinity if there is no such d.

    The condition is checked at the radii d_max 2^-i, i < 32. `limit` is the dimension as r
    goes to 0, which no finite list of radii shows; for a box of D sides it is D. Without it, a
    large c makes the result too small. [SBY19 Def. 2.3]

    Examples
    --------
    >>> square = lambda r: covering_number(r, (1, 1))
    >>> covering_dimension(square, c=1.0), covering_dimension(square, c=4.0, limit=2)
    (2.0, 2.0)
    """
    _check_positive(c=c, d_max=d_max)
    _check_positive(or_zero=True, limit=limit)
    low, high = float(limit), math.inf
    for i in range(N_RADII):
        radius = d_max * 2.0**-i
        # The condition is excess <= d log(1/r).
        excess = math.log(_covering_at(covering, radius) / c)
        if abs(radius - 1) < QUOTIENT_TOLERANCE:
            high = high if excess <= QUOTIENT_TOLERANCE else -math.inf
        elif radius < 1:
            low = max(low, excess / -math.log(radius))
        else:
            high = min(high, -excess / math.log(radius))
    return low if low <= high + 1e-9 else math.inf


def doubling_dimension(distances: ArrayLike) -> float:
    """Return log2 of the most balls of radius r / 2 that one ball of radius r needs.

    The space is finite and given by its distance matrix. The radii are d_max 2^-i. Each ball is
    covered greedily, so the result is an upper bound. By halving i times, 2^(d i) balls of radius
    d_max 2^-i cover the space: the covering dimension is no larger. [SBY19 sec. 2.2]

    Examples
    --------
    >>> import numpy as np
    >>> line = np.arange(65.0)
    >>> 2 ** doubling_dimension(np.abs(line[:, None] - line[None, :]))  # 3 points within 1
    3.0
    """
    found = np.asarray(distances, float)
    is_square = found.ndim == 2 and found.shape[0] == found.shape[1]
    if not (is_square and np.isfinite(found).all() and (found == found.T).all()) or (
        found.diagonal().any() or (found < 0).any()
    ):
        raise ConfigurationError(
            "give the distances as a square matrix of finite numbers, none negative, symmetric and "
            "with 0 on the diagonal"
        )
    radius, most = float(found.max(initial=0.0)), 1
    while radius > 0 and (found[found > 0] <= radius).any():
        near = found <= radius / 2
        for ball in found <= radius:
            left, n_balls = ball.copy(), 0
            while left.any():
                left &= ~near[int((near & left).sum(axis=1).argmax())]
                n_balls += 1
            most = max(most, n_balls)
        radius /= 2
    return math.log2(most)


# --- learning rates, bonuses, and the Lipschitz constant of Q* ------------------------------------


def learning_rate(t: int, horizon: int) -> float:
    """Return alpha_t = (H + 1) / (H + t), the learning rate of the t-th visit. [SBY19 eq. 3]

    It is 1 at the first visit, which therefore replaces the initial Q.

    Examples
    --------
    >>> learning_rate(1, horizon=5), learning_rate(7, horizon=5)
    (1.0, 0.5)
    """
    _check_whole(t=t, horizon=horizon)
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
    _check_whole(horizon=horizon)
    _check_whole(low=0, t=t)
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
    _check_whole(horizon=horizon, episodes=episodes)
    _check_delta(delta)
    return math.log(4 * horizon * episodes / delta)


def bonus(
    t: int, horizon: int, episodes: int, delta: float = 0.05, lipschitz: float = 1.0,
    d_max: float = 1.0,
) -> float:  # fmt: skip
    """Return b(t) = 2 sqrt(H^3 iota / t) + 4 L d_max / sqrt(t). [SBY19 eq. 4]

    Lemmas E.5 and E.6 prove these constants.

    Examples
    --------
    >>> round(bonus(1, 5, 2000), 2), round(bonus(100, 5, 2000), 3)
    (86.44, 8.644)
    """
    _check_whole(t=t, horizon=horizon)
    noise = 2 * math.sqrt(horizon**3 * iota(horizon, episodes, delta))
    return (noise + 4 * _bias_of(lipschitz, d_max)) / math.sqrt(t)


def lipschitz_of_q(
    horizon: int, lipschitz_kernel: float, lipschitz_reward: float, kind: str = "total_variation"
) -> float:
    """Return L of Q* at every step, from the Lipschitz constants of the kernel and the reward.

    `kind` is the distance of distributions in which the kernel is Lipschitz. "total_variation": L =
    2 H L_kernel + L_reward. "wasserstein": L = L_reward sum_{i=0}^{H-1} L_kernel^i, the constant of
    the first step, which is the largest. The second also holds for deterministic systems, and needs
    D((x,a),(x',a)) <= d_S(x,x'). [SBY19 Props 2.4, 2.5]

    Examples
    --------
    >>> lipschitz_of_q(5, 0.5, 1.0), lipschitz_of_q(5, 0.5, 1.0, "wasserstein")
    (6.0, 1.9375)
    >>> lipschitz_of_q(5, 1.0, 1.0, "wasserstein")
    5.0
    """
    _check_whole(horizon=horizon)
    _check_positive(
        or_zero=True, lipschitz_kernel=lipschitz_kernel, lipschitz_reward=lipschitz_reward
    )
    if kind == "total_variation":
        return float(2 * horizon * lipschitz_kernel + lipschitz_reward)
    if kind == "wasserstein":
        return float(lipschitz_reward * _geometric_sum(lipschitz_kernel, horizon))
    raise ConfigurationError(
        f'kind={kind!r}: the kernel is Lipschitz in "total_variation" or in "wasserstein"'
    )


# --- regret ---------------------------------------------------------------------------------------


def regret_exponent_bound(dimension: float) -> float:
    """Return (d+1)/(d+2), the power of K in the regret. [SBY19 Thm 4.1]

    Examples
    --------
    >>> regret_exponent_bound(0), regret_exponent_bound(2)
    (0.5, 0.75)
    """
    _check_positive(or_zero=True, dimension=dimension)
    return (dimension + 1) / (dimension + 2)


def regret_bound(
    horizon: int, episodes: int, dimension: float, c: float = 1.0, delta: float = 0.05,
    lipschitz: float = 1.0, d_max: float = 1.0, constant: str = "derived",
) -> float:  # fmt: skip
    """Return the bound of Theorem 4.1 on the regret R(K). For H > 1 it is claimed, not proved.

        3 H^2 + 6 sqrt(2 H^3 K iota) + gamma H K^((d+1)/(d+2)) (sqrt(H^3 iota) + L d_max)

    The three terms come from the first visits, where Q starts at H, from the random transitions,
    and from the bonuses of all balls. gamma = constant c^(1/(d+2)) d_max^(-d/(d+2)). The "printed"
    constant is 192. The one "derived" from the sum in Theorem E.12 is 96 kappa, where kappa =
    2^(1/(d+2)) (1 + 1 / (2 (2^(d+1) - 1))).

    Examples
    --------
    >>> round(regret_bound(5, 2000, dimension=2) / 1e6, 3)
    7.738
    >>> round(regret_bound(5, 2000, 2, constant="printed") / 1e6, 3)
    12.137
    """
    # kappa is the largest ratio of I(K) to its power law: 1.27 at d = 2, 1.47 at d = 1, but 2.12 at
    # d = 0, where 192 needs a closer count than that of Lemma E.10 (8/7 for its 2).
    _check_constant(constant)
    _check_whole(horizon=horizon, episodes=episodes)
    exponent = regret_exponent_bound(dimension)
    kappa = 2.0
    if constant == "derived":
        kappa = 2 ** (1 - exponent) * (1 + 0.5 / (2 ** (dimension + 1) - 1))
    size = kappa * _scale_of(dimension, c, d_max) ** (1 - exponent) * float(episodes) ** exponent
    return _regret_of_bias(horizon, episodes, delta, _bias_of(lipschitz, d_max), size)


def metric_regret_bound(
    horizon: int, episodes: int, covering: Covering, delta: float = 0.05, lipschitz: float = 1.0,
    d_max: float = 1.0,
) -> float:  # fmt: skip
    """Return the regret bound for given covering numbers r -> N_r. [SBY19 Thm E.12]

    It uses I(K) itself, and is at most `regret_bound` if N_r <= c r^-d. The infimum is a limit from
    just above a radius: I(K) = min over j of K 2^-(j+1) + sum_{i<=j} N_i 2^i.

    Examples
    --------
    >>> from zooming.theory import covering_number
    >>> round(metric_regret_bound(5, 2000, lambda r: covering_number(r, (1, 1))) / 1e6, 3)
    6.561
    """
    _check_whole(episodes=episodes)
    bias = _bias_of(lipschitz, d_max)
    # K / 2 stands for r0 > d_max, which the paper leaves out (no 1 / sqrt(n) exceeds 1). A small K
    # needs it to stay below Theorem 4.1.
    size = _least_sum(episodes, covering, d_max, at_most=episodes / 2)
    return _regret_of_bias(horizon, episodes, delta, bias, size)


def nested_regret_bound(
    horizon: int, episodes: int, regions: Covering, c1: float = 0.5, c2: float = 1.0,
    delta: float = 0.05, lipschitz: float = 1.0, d_max: float = 1.0,
    n_regions: int | None = None,
) -> float:  # fmt: skip
    """Return the regret bound of a nested scheme with c1 / diam <= sqrt(n) <= c2 / diam.

    `regions` is the function r -> the most disjoint regions of diameter r or more: for boxes of D
    sides, at most A^(D-1) r^-D with aspect ratios up to A. A play in a region of diameter below r
    adds at most r / c1 to the sum of 1 / sqrt(n). The plays of nested regions with diameters from r
    to 2 r add at most 2 c2 / r for each of the smallest. So in place of 2 I(K) there is

        inf over r0 of K r0 / c1 + 2 sum of regions(r) c2 / r over the radii r >= r0.

    If each step has made at most N = `n_regions` regions, inner ones included, the sum is at most
    2 sqrt(N K), too. The samples of a region are at most c2 / sqrt(n) away, so the bonus needs the
    Lipschitz term L max(d_max, c2 / 2). `zooming.audit` measures c1 and c2. [SBY19 Thm 6.1]

    Examples
    --------
    >>> boxes = lambda r: 2 / r**2  # two sides, one at most twice as long as the other
    >>> round(nested_regret_bound(5, 2000, boxes, 0.35, 1.4) / 1e6, 3)
    18.633
    >>> round(nested_regret_bound(5, 2000, boxes, 0.35, 1.4, n_regions=99) / 1e6, 3)
    9.033
    """
    n_made = episodes if n_regions is None else n_regions
    _check_whole(horizon=horizon, episodes=episodes, n_regions=n_made)
    _check_positive(c1=c1, c2=c2, d_max=d_max)
    if c1 > min(c2, d_max):
        raise ConfigurationError(f"c1={c1!r}: it is at most c2={c2!r} and d_max={d_max!r}")
    bias = max(_bias_of(lipschitz, d_max), lipschitz * c2 / 2)
    size = c2 / d_max * _least_sum(episodes * d_max**2 / (c1 * c2), regions, d_max)
    size = min(size, math.sqrt(float(n_made) * float(episodes)), episodes / 2)
    return _regret_of_bias(horizon, episodes, delta, bias, size)


def discrete_regret_bound(
    horizon: int, episodes: int, n_states: int, n_actions: int, delta: float = 0.05
) -> float:
    """Return the bound on R(K) of an agent that starts with one ball per state-action pair.

        3 H^2 min(SA, K) + 6 sqrt(2 H^3 K iota) + 48 sqrt(H^5 S A K iota)           [SBY19 sec. 4.1]

    Every pair has its own first visit, hence SA. With diameter 0, L has no effect, so beta_t <= 8
    sqrt(H^3 iota / t). N plays of a pair sum to 2 sqrt(N), and 3 x 8 x 2 = 48. Theorem 4.1 with d =
    0, c = SA has 204, because it counts a ball at every depth.

    Examples
    --------
    >>> round(discrete_regret_bound(5, 2000, n_states=10, n_actions=4) / 1e6, 3)
    2.817
    """
    _check_whole(n_states=n_states, n_actions=n_actions)
    n_atoms, log_term = n_states * n_actions, iota(horizon, episodes, delta)
    transitions = 6 * math.sqrt(2 * horizon**3 * episodes * log_term)
    bonuses = 48 * math.sqrt(horizon**5 * n_atoms * episodes * log_term)
    return 3 * horizon**2 * min(n_atoms, episodes) + transitions + bonuses


def expected_regret_delta(episodes: int, dimension: float) -> float:
    """Return delta = K^(-1/(d+2)), the probability for the expected regret. [SBY19 sec. 4.1]

    Runs in which the bound fails then cost at most H K^((d+1)/(d+2)) on average, the rate of the
    bound.

    Examples
    --------
    >>> expected_regret_delta(10_000, dimension=2), expected_regret_delta(10_000, dimension=0)
    (0.1, 0.01)
    """
    _check_whole(low=2, episodes=episodes)
    return math.pow(episodes, regret_exponent_bound(dimension) - 1)


def expected_regret_bound(
    horizon: int, episodes: int, dimension: float, c: float = 1.0, lipschitz: float = 1.0,
    d_max: float = 1.0,
) -> float:  # fmt: skip
    """Return a bound on the expected regret E[R(K)].

    It is `regret_bound` with delta = `expected_regret_delta`, plus delta H K: for rewards in [0, 1]
    no run has more regret than H K. Give the agent the same delta:
    `bonuses.Theory(episodes, delta)`. [SBY19 sec. 4.1]

    Examples
    --------
    >>> round(expected_regret_bound(5, 2000, dimension=2) / 1e6, 3)
    7.429
    """
    delta = expected_regret_delta(episodes, dimension)
    bound = regret_bound(horizon, episodes, dimension, c, delta, lipschitz, d_max)
    return bound + delta * horizon * episodes


def lower_bound(
    horizon: int, episodes: int, dimension: float, c: float = 1.0, constant: float = 1.0
) -> float:
    """Return constant H^(3/2) c^(1/(d+2)) K^((d+1)/(d+2)). [SBY19 Thms 4.3, 4.4]

    No algorithm has less regret, up to logarithms. The paper gives no constant, so compare growth
    rates only. With d = 0 and c = SA, it is the tabular Omega(sqrt(H^3 S A K)). For d > 0 the
    paper's construction, H bandits in sequence, shows the factor H, while its section 4.1 claims
    H^(3/2).

    Examples
    --------
    >>> lower_bound(4, 10000, dimension=2), lower_bound(4, 10000, dimension=0, c=9)
    (8000.0, 2400.0)
    """
    _check_whole(horizon=horizon, episodes=episodes)
    _check_positive(constant=constant)
    exponent = regret_exponent_bound(dimension)
    scale = _scale_of(dimension, c, 1.0) ** (1 - exponent)
    return float(constant * horizon**1.5 * scale * episodes**exponent)


def metric_lower_bound(
    horizon: int, episodes: int, covering: Covering, constant: float = 1.0
) -> float:
    """Return the lower bound for given covering numbers r -> N_r. [SBY19 Thm 4.4]

        constant H inf over r0 of K r0 / log(K) + sum of N_r / r over the radii r >= r0

    No algorithm has less expected regret on all problems of a space with d_max = 1. The paper does
    not give the constant. It prints this for H = 1, times log(K). H bandits in sequence have H
    times the regret.

    Examples
    --------
    >>> from zooming.theory import covering_number
    >>> cube = lambda r: covering_number(r, (1, 1))
    >>> round(metric_lower_bound(1, 10_000, cube)), round(metric_lower_bound(5, 10_000, cube))
    (209, 1044)
    """
    _check_whole(horizon=horizon)
    _check_whole(low=2, episodes=episodes)  # log(K) = 0 for K = 1
    _check_positive(constant=constant)
    return constant * horizon * _least_sum(episodes / math.log(episodes), covering, 1.0)


# --- partitions and sample sizes ------------------------------------------------------------------


def visits_per_depth(depth: int) -> tuple[int, int]:
    """Return the visits n(B) of a ball of depth l at its creation and at its split.

    They are (4^(l-1), 4^l). [SBY19 Lemma 5.4] The root has (0, 1). In between, a ball is played 3/4
    4^l times, and the root once.

    Examples
    --------
    >>> visits_per_depth(0), visits_per_depth(3)
    ((0, 1), (16, 64))
    """
    _check_whole(low=0, depth=depth)
    return (4**depth // 4, 4**depth)


def partition_size_bound(
    episodes: int, dimension: float, c: float = 1.0, d_max: float = 1.0, *,
    n_children: int | None = None,
) -> int:  # fmt: skip
    """Return the largest number of active balls that K episodes can make in one step's partition.

    This is O(K^(d/(d+2))). [SBY19 Thm 6.1, condition 3] Splitting a ball of depth l takes 3/4 4^l
    plays, and there are at most C 2^(ld) such balls. So the worst case splits the coarsest balls
    first. Cubes (c = 1) attain it. `n_children` is the most children of one ball, by default ceil(C
    2^d).

    Examples
    --------
    >>> [partition_size_bound(episodes, 2) for episodes in (13, 24, 25, 2000)]
    [16, 16, 19, 175]
    """
    # The paper overlooks that the covering dimension alone does not bound the children of one ball.
    # Cubes have 2^d. For other balls, the default assumes that every ball, rescaled, has the same
    # c and d as the space.
    _check_whole(episodes=episodes)
    scale = _scale_of(dimension, c, d_max)
    if n_children is None:
        n_children = math.ceil(scale * 2**dimension * (1 - QUOTIENT_TOLERANCE))
    _check_whole(n_children=n_children)
    n_splits, n_left, depth, n_here = 0, episodes, 0, 1
    while n_here:
        first, last = visits_per_depth(depth)
        n_balls = 1
        if depth:
            n_balls = math.floor(scale * 2 ** (depth * dimension) * (1 + QUOTIENT_TOLERANCE))
        n_here = min(n_balls, n_left // (last - first))
        n_splits, n_left, depth = n_splits + n_here, n_left - n_here * (last - first), depth + 1
    n_active = 1 + (n_children - 1) * n_splits
    # Dimension 0 is a set of at most c points.
    return n_active if dimension > 0 else min(n_active, math.floor(c))


def pac_episodes(
    horizon: int, epsilon: float, delta: float, dimension: float, c: float = 1.0,
    lipschitz: float = 1.0, d_max: float = 1.0, random_starts: bool = False,
) -> int:  # fmt: skip
    """Return the K after which a random one of the K policies is epsilon-optimal. [SBY19 Thm 4.2]

    It is the least K for which this holds with probability 1 - delta. Markov's inequality gives
    P(gap > epsilon) <= E[R(K)] / (K epsilon). Half of delta covers the runs where the bound fails,
    which the paper neglects. The other half requires regret_bound(K) / K <= delta epsilon / 2. With
    `random_starts`, a quarter of delta first covers `start_error`.

    Examples
    --------
    >>> f"{pac_episodes(1, epsilon=0.5, delta=0.5, dimension=0):.3e}"
    '9.124e+07'
    """

    def bound(k: int, failure: float) -> float:
        return regret_bound(horizon, k, dimension, c, failure, lipschitz, d_max)

    return _least_episodes(horizon, epsilon, delta, bound, random_starts)


def discrete_pac_episodes(
    horizon: int, epsilon: float, delta: float, n_states: int, n_actions: int,
    random_starts: bool = False,
) -> int:  # fmt: skip
    """Return `pac_episodes` for `discrete_regret_bound`. [SBY19 Thm 4.2, sec. 4.1]

    Examples
    --------
    >>> discrete_pac_episodes(1, epsilon=0.5, delta=0.5, n_states=1, n_actions=2)
    7186403
    """

    def bound(k: int, failure: float) -> float:
        return discrete_regret_bound(horizon, k, n_states, n_actions, failure)

    return _least_episodes(horizon, epsilon, delta, bound, random_starts)


def start_error(horizon: int, episodes: int, delta: float) -> float:
    """Return H sqrt(K log(1/delta) / 2), the error of K random starts.

    With probability 1 - delta, the gaps over all starts sum to at most this much more than the gaps
    from the K starts that were drawn (Azuma and Hoeffding: given the past, the gap from a new start
    lies in [0, H]). This is not in the paper, which lets an adversary choose the starts.

    Examples
    --------
    >>> round(start_error(5, 2000, 0.05), 1)
    273.7
    """
    _check_whole(horizon=horizon, episodes=episodes)
    _check_delta(delta)
    return horizon * math.sqrt(episodes * math.log(1 / delta) / 2)


# --- helpers --------------------------------------------------------------------------------------


def _check_positive(or_zero: bool = False, **numbers: float) -> None:
    """Raise ConfigurationError if a number is not finite and positive (with `or_zero`: >= 0)."""
    for name, value in numbers.items():
        if name == "dimension" and value > MOST_DIMENSIONS:
            raise ConfigurationError(f"dimension must be at most {MOST_DIMENSIONS}, got a larger")
        if not (0 < value <= sys.float_info.max or (or_zero and value == 0)):
            sign = ">=" if or_zero else ">"
            raise ConfigurationError(f"{name}={value} must be a finite number {sign} 0")


def _check_delta(delta: float) -> None:
    """Raise ConfigurationError if a failure probability is not in (0, 1)."""
    if not 0 < delta < 1:
        raise ConfigurationError(f"delta={delta}: the failure probability must lie between 0 and 1")


def _check_whole(low: int = 1, **numbers: float) -> None:
    """Raise ConfigurationError if a number is not an integer >= `low`."""
    for name, value in numbers.items():
        if not (value >= low and value % 1 == 0):
            raise ConfigurationError(f"{name}={value} must be a whole number >= {low}")
        most = LIMITS.get(name, LARGEST)
        if value > most:
            limit = f"{most:,}" if most <= 10**9 else f"2^{most.bit_length() - 1}"
            raise ConfigurationError(f"{name} must be at most {limit}, got a larger number")


def _scale_of(dimension: float, c: float, d_max: float) -> float:
    """Return C = c d_max^-d, the largest covering number that N_r <= c r^-d allows at r = d_max."""
    _check_positive(or_zero=True, dimension=dimension)
    _check_positive(c=c, d_max=d_max)
    power = d_max**dimension if dimension * abs(math.log2(d_max)) < 1000 else 0.0
    if not power or c / power < 1 - 1e-9:
        raise ConfigurationError(
            f"c={c} and d_max={d_max:g}: N_r <= c r^-d must allow one ball at r = d_max, where "
            f"d_max^d = {power:g}; give a larger c, or rescale the metric"
        )
    return max(1.0, c / power)


def _cells(radius: float, sides: Sequence[float], metric: str) -> list[float]:
    """Return the number of cubes of diameter r along each side."""
    if metric == "discrete":
        return list(sides)
    stretch = {"linf": 1.0, "l1": float(len(sides)), "l2": math.sqrt(len(sides))}[metric]
    return [side * stretch / radius for side in sides]


def _covering_at(covering: Covering, radius: float) -> float:
    """Return N_r. Raise ConfigurationError if it is not finite and at least 1."""
    n_cells = covering(radius)
    if not (math.isfinite(n_cells) and n_cells >= 1):
        rule = "must be finite and at least 1"
        raise ConfigurationError(f"covering number N_r = {n_cells} at r = {radius:g}: it {rule}")
    return n_cells


def _bias_of(lipschitz: float, d_max: float) -> float:
    """Return L d_max, after checking both numbers."""
    _check_positive(or_zero=True, lipschitz=lipschitz)
    _check_positive(d_max=d_max)
    return lipschitz * d_max


def _geometric_sum(ratio: float, n: int) -> float:
    """Return sum_{i=0}^{n-1} ratio^i. Raise ConfigurationError if it overflows."""
    try:
        if n <= MOST_TERMS:
            return sum(float(ratio) ** i for i in range(n))
        return float(n) if ratio == 1 else (1 - math.pow(ratio, n)) / (1 - ratio)
    except OverflowError as error:
        raise ConfigurationError(
            f"lipschitz_kernel={ratio:g} over {n:.10g} steps is beyond floating point; give less"
        ) from error


def _least_sum(weight: float, covering: Covering, d_max: float, at_most: float = math.inf) -> float:
    """Return the infimum over r0 of weight r0 / d_max + sum over r >= r0 of N_r d_max / r."""
    best, total, scale = at_most, 0.0, 1.0
    while total < best:
        total += _covering_at(covering, d_max / scale) * scale
        scale *= 2
        best = min(best, weight / scale + total)
    return best


def _regret_of_bias(horizon: int, episodes: int, delta: float, bias: float, size: float) -> float:
    """Return the bound of Theorem E.12, with `size` for I(K) and `bias` for L d_max."""
    log_term = iota(horizon, episodes, delta)
    transitions = 6 * math.sqrt(2 * horizon**3 * float(episodes) * log_term)
    bonuses = 96 * horizon * (math.sqrt(horizon**3 * log_term) + bias) * size
    return 3 * horizon**2 + transitions + bonuses


def _check_constant(constant: str) -> None:
    """Raise ConfigurationError if the constant of an upper bound is unknown."""
    if constant not in CONSTANTS:
        choices = ", ".join(map(repr, CONSTANTS))
        raise ConfigurationError(f"constant={constant!r}: choose one of {choices}")


def _least_episodes(
    horizon: int, epsilon: float, delta: float, bound: Callable[[int, float], float],
    random_starts: bool,
) -> int:  # fmt: skip
    """Return the least K with bound(K, delta epsilon / (2H)) <= K delta epsilon / 2."""
    _check_whole(horizon=horizon)
    _check_positive(epsilon=epsilon)
    _check_delta(delta)
    if epsilon > horizon:
        raise ConfigurationError(f"epsilon={epsilon}: the gap must be at most H = {horizon}")
    share = START_SHARE * delta if random_starts else 0.0
    budget = (delta - share) * epsilon / 2

    def enough(episodes: int) -> bool:
        beyond = start_error(horizon, episodes, share) if random_starts else 0.0
        return bound(episodes, budget / horizon) + beyond <= budget * episodes

    # `enough` changes once: the bound per episode falls with K, except where it is far above H.
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
