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
  of each axis. The other metrics are "linf", "l1" and "l2".

An argument out of range raises a ConfigurationError.

N_r is the least number of cells of diameter at most r that cover the space, and C = c d_max^-d. A
ball of depth l has radius d_max 2^-l, and the proofs use only these radii. The library's balls are
cubes, whose diameter is their radius. So a step has at most N_r balls of radius r, and the unit
cube has N_r = r^-D, that is, c = 1 and d = D. The paper asks for diameters less than r. Under
l-infinity that number is `packing_number`, which also bounds the balls of any partition with
centers r apart.

The proof, for rewards in [0, 1]. The bonus gives beta_t <= 16 (sqrt(H^3 iota) + L d_max) / sqrt(t)
[Lemma E.7]. The plays of one ball of radius r >= r0 sum to at most 2 d_max / r, those of all
smaller balls to at most 2 K r0 / d_max [Lemma E.10]. With probability 1 - delta [Thm E.12],

    R(K) <= 3 H^2 + 6 sqrt(2 H^3 K iota) + 96 H (sqrt(H^3 iota) + L d_max) I(K),
    I(K) = inf over r0 of K r0 / d_max + sum of N_r d_max / r over the radii r >= r0.

How far to trust it. Lemma E.11 assumes that the weights of a sample in all later estimates sum to
at most 1 + 1/H. But all children of a ball inherit its samples. So the sum can exceed (number of
children) (1 + 1/H), and this step is open for H > 1. It is sound for H = 1 and for
`discrete_regret_bound`. The other bounds are claims of the paper. At H = 5, K = 2000 they are
more than 600 times as large as H K.
"""

from zooming.theory.coverings import (
    METRICS,
    covering_dimension,
    covering_number,
    diameter,
    packing_number,
)
from zooming.theory.estimates import (
    MOST_SIDES,
    bonus,
    iota,
    learning_rate,
    learning_rate_weights,
    lipschitz_of_q,
)
from zooming.theory.regret_bounds import (
    CONSTANTS,
    bound_name,
    discrete_regret_bound,
    expected_regret_bound,
    expected_regret_delta,
    lower_bound,
    metric_lower_bound,
    metric_regret_bound,
    regret_bound,
    regret_exponent_bound,
)
from zooming.theory.sample_complexity import (
    START_SHARE,
    discrete_pac_episodes,
    pac_episodes,
    partition_size_bound,
    start_error,
    visits_per_depth,
)

__all__ = [
    "CONSTANTS",
    "METRICS",
    "MOST_SIDES",
    "START_SHARE",
    "diameter",
    "covering_number",
    "packing_number",
    "covering_dimension",
    "learning_rate",
    "learning_rate_weights",
    "iota",
    "bonus",
    "visits_per_depth",
    "partition_size_bound",
    "regret_exponent_bound",
    "regret_bound",
    "bound_name",
    "metric_regret_bound",
    "expected_regret_delta",
    "expected_regret_bound",
    "discrete_regret_bound",
    "lower_bound",
    "metric_lower_bound",
    "pac_episodes",
    "discrete_pac_episodes",
    "start_error",
    "lipschitz_of_q",
]
