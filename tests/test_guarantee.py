"""Regret balancing: the lemmas of docs/guarantee.md, on simulated agents with a bound that is
reached."""

import math

import numpy as np
import pytest

from zooming.agents.balance import FREE, SAFE, RegretBalance, doubling_bound
from zooming.theory import regret_bound

H, BEST = 2, 1.6  # steps of an episode, and the mean return of the best policy
DELTA = 0.05


def bound(n):
    """Return a regret that the simulated safe agent reaches exactly."""
    return 3.0 * math.sqrt(n)


def simulate(free_loss, episodes, seed):
    """Play with a free agent that loses `free_loss(m)` a episode; return (balance, regrets).

    Returns are 0 or H, with the mean that the agent has. A regret is a sum of mean losses.
    """
    rng, balance = np.random.default_rng(seed), RegretBalance(DELTA, H, (0.0, 1.0), bound)
    regret = [0.0, 0.0]
    while balance.n_played.sum() < episodes:
        who = FREE if balance.n_allowed() else SAFE
        n = int(balance.n_played[who])
        loss = free_loss(n) if who == FREE else min(BEST, bound(n + 1) - bound(n))
        regret[who] += loss
        balance.credit(who, [float(H * (rng.random() < (BEST - loss) / H))])
        assert balance.upper_value() >= BEST, "Lemma 1"
        m, total = int(balance.n_played[FREE]), float(balance.totals[FREE])
        assert regret[FREE] <= m * BEST - total + balance.deviation(m), "Lemma 2"
        assert m * BEST - total <= balance.allowed_cost() + H, "Lemma 3"
        assert sum(regret) <= balance.regret_bound(), "the theorem"
    return balance, regret


@pytest.mark.parametrize(
    ("free_loss", "share"),
    [
        (lambda m: 0.0, (0.5, 1.0)),  # optimal
        (lambda m: BEST, (0.0, 0.2)),  # earns nothing
        (lambda m: 0.0 if m < 500 else BEST, (0.1, 0.6)),  # good at first
        (lambda m: BEST if m < 20 else 0.0, (0.3, 1.0)),  # bad at first
    ],
    ids=["optimal", "useless", "turns bad", "turns good"],
)
def test_lemmas_hold_for_good_and_bad_agents(free_loss, share):
    for seed in range(5):
        balance, _ = simulate(free_loss, 3000, seed)
        played = balance.n_played[FREE] / balance.n_played.sum()
        assert share[0] <= played <= share[1]


def test_a_useless_agent_costs_no_more_than_the_bound():
    balance, regret = simulate(lambda m: BEST, 20_000, 7)
    assert regret[FREE] <= balance.allowed_cost() + H + balance.deviation(
        int(balance.n_played[FREE])
    )
    assert sum(regret) < 0.1 * 20_000 * BEST  # always losing would cost the whole


def test_free_agents_may_play_several_episodes_if_none_can_break_the_rule():
    balance = RegretBalance(DELTA, H, (-1.0, 1.0), lambda n: 10.0 * n)
    balance.credit(SAFE, [1.5])
    allowed = balance.n_allowed()
    worst = RegretBalance(DELTA, H, (-1.0, 1.0), lambda n: 10.0 * n)
    worst.credit(SAFE, [1.5])
    for _ in range(allowed):
        assert worst.n_allowed() > 0
        worst.credit(FREE, [-2.0])
    assert worst.n_allowed() == 0


def test_the_bound_of_the_safe_agent_sums_the_phases_of_the_doubling_trick():
    found = doubling_bound(horizon=3, dimension=2, delta=0.02, lipschitz=1.5)
    phases = [
        regret_bound(3, 2**j, 2, delta=0.02 / ((j + 1) * (j + 2)), lipschitz=1.5) for j in range(3)
    ]
    assert [found(n) for n in (0, 1, 2, 3, 4, 7)] == pytest.approx(
        [0.0, phases[0], sum(phases[:2]), sum(phases[:2]), sum(phases), sum(phases)]
    )


def test_a_balance_is_restored_as_it_was():
    balance, _ = simulate(lambda m: 0.3, 50, 1)
    again = RegretBalance(DELTA, H, (0.0, 1.0), bound)
    again.restore(balance.state())
    assert again.n_allowed() == balance.n_allowed()
    assert again.regret_bound() == balance.regret_bound()
    with pytest.raises(ValueError, match="episodes of the guarantee"):
        again.restore({**balance.state(), "balance_played": np.array([1, -1])})
    with pytest.raises(ValueError, match="returns of the guarantee"):
        again.restore({**balance.state(), "balance_totals": np.array([1.0, math.nan])})
