"""Upper bounds of the regret."""

from __future__ import annotations

import math

from zooming.errors import ConfigurationError
from zooming.theory.coverings import Covering, check_positive, check_whole, covering_at, scale_of
from zooming.theory.estimates import bias_of, iota

CONSTANTS = ("derived", "printed")  # of the regret bound: 96 kappa, or the 192 of Theorem 4.1


def regret_exponent_bound(dimension: float) -> float:
    """Return (d+1)/(d+2), the power of K in the regret. [SBY19 Thm 4.1]

    Examples
    --------
    >>> regret_exponent_bound(0), regret_exponent_bound(2)
    (0.5, 0.75)
    """
    check_positive(or_zero=True, dimension=dimension)
    return (dimension + 1) / (dimension + 2)


def regret_bound(
    horizon: int,
    episodes: int,
    dimension: float,
    c: float = 1.0,
    delta: float = 0.05,
    lipschitz: float = 1.0,
    d_max: float = 1.0,
    constant: str = "derived",
) -> float:
    """Return the bound of Theorem 4.1 on the regret R(K).

        3 H^2 + 6 sqrt(2 H^3 K iota) + gamma H K^((d+1)/(d+2)) (sqrt(H^3 iota) + L d_max)

    The three terms come from the first visits, where Q starts at H, from the random transitions,
    and from the bonuses of all balls. gamma = constant c^(1/(d+2)) d_max^(-d/(d+2)). The "printed"
    constant of the paper is 192. The constant "derived" here from the sum in Theorem E.12 is 96
    kappa, where kappa = 2^(1/(d+2)) (1 + 1 / (2 (2^(d+1) - 1))). For H > 1 both are claimed and not
    proved, see `zooming.theory`. `bound_name` says so in pictures.

    Parameters
    ----------
    constant : {"derived", "printed"}
        Constant of the bound: 96 kappa, or the 192 of the paper.

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
    check_whole(horizon=horizon, episodes=episodes)
    exponent = regret_exponent_bound(dimension)
    kappa = (
        2 ** (1 - exponent) * (1 + 0.5 / (2 ** (dimension + 1) - 1))
        if constant == "derived"
        else 2.0
    )
    size = kappa * scale_of(dimension, c, d_max) ** (1 - exponent) * float(episodes) ** exponent
    return regret_of_bias(horizon, episodes, delta, bias_of(lipschitz, d_max), size)


def bound_name(horizon: int, constant: str = "derived") -> str:
    """Return the name of `regret_bound` in pictures: its constant, and "claimed" if H > 1.

    For H > 1 a step of the proof is open.

    Parameters
    ----------
    constant : {"derived", "printed"}
        The `constant` of `regret_bound`.

    Examples
    --------
    >>> bound_name(5), bound_name(1, "printed")
    ('claimed bound (constant 96 kappa)', 'bound (constant 192)')
    """
    check_whole(horizon=horizon)
    _check_constant(constant)
    return (
        f"{'claimed ' if horizon > 1 else ''}bound (constant "
        f"{'96 kappa' if constant == 'derived' else '192'})"
    )


def metric_regret_bound(
    horizon: int,
    episodes: int,
    covering: Covering,
    delta: float = 0.05,
    lipschitz: float = 1.0,
    d_max: float = 1.0,
) -> float:
    """Return the regret bound for given covering numbers r -> N_r. [SBY19 Thm E.12]

    It uses I(K) itself, and is at most `regret_bound` if N_r <= c r^-d. Between two radii the sum
    is constant and K r0 / d_max grows. So the infimum is a limit from just above a radius: I(K) =
    min over j of K 2^-(j+1) + sum_{i<=j} N_i 2^i. The search ends where the sum alone exceeds the
    best value.

    Examples
    --------
    >>> from zooming.theory import covering_number
    >>> round(metric_regret_bound(5, 2000, lambda r: covering_number(r, (1, 1))) / 1e6, 3)
    6.561
    """
    check_whole(episodes=episodes)
    bias = bias_of(lipschitz, d_max)
    # K / 2 stands for r0 > d_max, which the paper leaves out (no 1 / sqrt(n) exceeds 1). A small K
    # needs it to stay below Theorem 4.1.
    size = least_sum(episodes, covering, d_max, at_most=episodes / 2)
    return regret_of_bias(horizon, episodes, delta, bias, size)


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
    check_whole(n_states=n_states, n_actions=n_actions)
    n_atoms, log_term = n_states * n_actions, iota(horizon, episodes, delta)
    transitions = 6 * math.sqrt(2 * horizon**3 * episodes * log_term)
    return (
        3 * horizon**2 * min(n_atoms, episodes)
        + transitions
        + 48 * math.sqrt(horizon**5 * n_atoms * episodes * log_term)
    )


def least_sum(weight: float, covering: Covering, d_max: float, at_most: float = math.inf) -> float:
    """Return the infimum over r0 of the sum that bounds the regret, at most `at_most`.

    The sum is weight r0 / d_max + sum of N_r d_max / r over the radii r >= r0.
    """
    best, total, scale = at_most, 0.0, 1.0
    while total < best:
        total += covering_at(covering, d_max / scale) * scale
        scale *= 2
        best = min(best, weight / scale + total)
    return best


def regret_of_bias(horizon: int, episodes: int, delta: float, bias: float, size: float) -> float:
    """Return the bound of Theorem E.12, with `size` for I(K) and `bias` for L d_max."""
    log_term = iota(horizon, episodes, delta)
    # The paper moves the factor (1 + 1/H)^(h-1) <= 3 out of a signed sum. Azuma with the factor
    # inside gives the same 6.
    transitions = 6 * math.sqrt(2 * horizon**3 * float(episodes) * log_term)
    return (
        3 * horizon**2
        + transitions
        + 96 * horizon * (math.sqrt(horizon**3 * log_term) + bias) * size
    )


def _check_constant(constant: str) -> None:
    """Raise ConfigurationError if `constant` is unknown."""
    if constant not in CONSTANTS:
        raise ConfigurationError(
            f"constant={constant!r}: choose one of {', '.join(map(repr, CONSTANTS))}"
        )


def expected_regret_delta(episodes: int, dimension: float) -> float:
    """Return delta = K^(-1/(d+2)), the failure probability for the expected regret.

    Runs in which the bound fails then cost at most delta H K = H K^((d+1)/(d+2)) on average. This
    is the rate of the bound. [SBY19 sec. 4.1]

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
    constant : float
        Factor of the bound, positive.

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
    constant : float
        Factor of the bound, positive.

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
