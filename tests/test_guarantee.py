"""Regret balancing: the lemmas of docs/guarantee.md, on simulated agents with a bound that is
reached."""

import math

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, box
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


def guarded(env):
    """Return an agent with a guarantee whose bound is reached after a few episodes."""
    agent = zooming.Auto(env, guarantee=0.1, reward_range=(0, 1), seed=3)
    agent.guarantee.balance.bound = lambda n: 0.2 * n
    agent.guarantee.balance.deviation = lambda n: 0.0
    return agent


def test_the_safe_agent_learns_from_its_own_episodes_only():
    agent = guarded(gym.make("zooming/Oil-v0", horizon=2))
    agent.learn(200)
    n_free, n_safe = agent.guarantee.balance.n_played
    assert 2 < n_safe == agent.guarantee.agent.n_episodes
    assert n_free + n_safe == 200 == agent.planner.n_episodes
    assert "at most" in agent.status()["guarantee"]


def test_both_drivers_and_a_resumed_run_agree(tmp_path):
    fused = guarded(gym.make("zooming/Oil-v0", horizon=2))
    returns = fused.learn(120).returns
    stepped = guarded(gym.wrappers.TransformReward(gym.make("zooming/Oil-v0", horizon=2), float))
    assert stepped.learn(120).returns.tobytes() == returns.tobytes()
    first = guarded(gym.make("zooming/Oil-v0", horizon=2))
    first.learn(50)
    first.save(tmp_path / "half.zoom")
    again = zooming.load(tmp_path / "half.zoom")
    again.guarantee.balance.bound = first.guarantee.balance.bound
    again.guarantee.balance.deviation = first.guarantee.balance.deviation
    assert again.learn(70).returns.tobytes() == returns[50:].tobytes()


def test_the_safe_agent_plays_once_where_its_bound_is_that_of_the_paper():
    agent = zooming.Portfolio(
        [zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0"), seed=0)], guarantee=0.05, seed=0
    )
    agent.learn(100)
    assert agent.guarantee.balance.n_played.tolist() == [99, 1]


def test_a_guarantee_that_cannot_be_given_is_refused():
    env = Boxes(box((0.0, 1.0)), gym.spaces.Discrete(3))
    for options, message in (
        ({"guarantee": 0.05}, r"needs the range of the rewards.*reward_range=\(low, high\)"),
        ({"guarantee": 0.05, "reward_range": (0, 1)}, "action has categories; give ordered=True"),
        ({"guarantee": 1.5, "reward_range": (0, 1)}, "guarantee"),
        ({"guarantee": 0.0, "reward_range": (0, 1)}, "may fail, between 0 and 1"),
        ({"guarantee": 0.05, "lipschitz": -1.0, "reward_range": (0, 1)}, "lipschitz"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            zooming.Auto(env, horizon=3, seed=0, **options)


def test_an_episode_that_ends_early_is_within_the_range_of_returns():
    agent = zooming.Portfolio(
        [zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), reward_range=(-2.0, -1.0), seed=0)],
        guarantee=np.float32(0.05),
        seed=0,
    )
    balance = agent.guarantee.balance
    assert (balance.best, balance.width, agent.guarantee.agent.reward_range) == (0, 10, (-2, 0))
    with pytest.raises(zooming.ConfigurationError, match="matters only to a guarantee"):
        zooming.Portfolio(agent.agents, lipschitz=2.0)
