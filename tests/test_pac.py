"""PAC mode: the draw, the snapshot, and a certificate that claims no more than there is."""

import math
import re
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete

import zooming
from helpers import Boxes, knowledge
from zooming import theory
from zooming.analysis import pac
from zooming.analysis.pac import episodes_needed, gap_bound
from zooming.bonuses import Bernstein, Doubling, Exact, Theory


class Coins(gym.Env):
    """One step, one state: the second of two coins is better."""

    observation_space, action_space = Discrete(1), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.int64(0), {}

    def step(self, action):
        return np.int64(0), float(self.np_random.random() < (0.2, 0.9)[action]), True, False, {}


def toss_two(state, action, step, params, rng, next_state):
    """The coins, for the compiler."""
    next_state[0] = 0.0
    return 1.0 if rng.random() < 0.2 + 0.7 * action[0] else 0.0


def oil(**options):
    return zooming.AdaptiveQ(gym.make("zooming/Oil-v0", noise=0.1), seed=0, **options)


def on_balls(env, **options):
    return zooming.MetricQ(env, zooming.metrics.LInf(points_per_axis=17), **options)


@pytest.mark.parametrize(
    "kind", [zooming.AdaptiveQ, zooming.NetQ, on_balls, partial(on_balls, lazy=True)]
)
def test_the_policy_is_the_agent_as_it_was_before_the_episode_that_was_drawn(kind):
    agent, same = (kind(gym.make("zooming/Ambulance-v0"), seed=3) for _ in range(2))
    certificate = agent.learn_pac(0.5, 0.1, episodes=300, evaluation_episodes=20)
    assert 1 <= certificate.chosen <= 300
    same.learn(certificate.chosen - 1)
    n = same.table.rows_in_use
    assert certificate.policy.n_episodes == certificate.chosen - 1
    assert certificate.policy.table.rows[:n].tobytes() == same.table.rows[:n].tobytes()
    same.learn(301 - certificate.chosen)
    assert knowledge(agent) == knowledge(same)  # the agent itself has learned as by learn(300)
    before = knowledge(agent)
    certificate.policy.learn(301 - certificate.chosen)  # of its own, goes on as the other did
    assert knowledge(certificate.policy) == before == knowledge(agent)


def test_balls_of_a_metric_are_drawn_and_measured_but_nothing_is_proved_of_them():
    bonus = Theory(episodes=400, delta=0.001, lipschitz=3.0)
    agent = on_balls(gym.make("zooming/Oil-v0", noise=0.1), bonus=bonus, seed=0)
    message = r"names no number of episodes for MetricQ: .*packing numbers.* Give a budget"
    with pytest.raises(zooming.ConfigurationError, match=message):
        agent.learn_pac(0.5, 0.1)
    assert agent.n_episodes == 0
    certificate = agent.learn_pac(0.5, 0.1, episodes=400, evaluation_episodes=50)
    assert certificate.status == "nothing"
    assert certificate.gap_bound == certificate.episodes_needed == math.inf
    assert len(certificate.reasons) == 1  # another bonus would not help
    said = "proved    nothing: no bound with constants is known for balls of a general metric"
    assert said in str(certificate)
    assert certificate.value_low == pytest.approx(
        certificate.evaluation.mean - 5 * math.sqrt(math.log(10) / 100)
    )
    with pytest.raises(zooming.ConfigurationError, match="no number of episodes for NetQ"):
        zooming.NetQ(gym.make("zooming/Oil-v0"), seed=0).learn_pac(0.5, 0.1)


def test_the_draw_is_uniform_and_made_from_the_seed():
    env = gym.make("zooming/Oil-v0", horizon=1)
    drawn = [
        zooming.AdaptiveQ(env, seed=seed).learn_pac(0.5, 0.1, episodes=4, evaluation_episodes=0)
        for seed in range(200)
    ]
    counts = np.bincount([certificate.chosen for certificate in drawn], minlength=5)[1:]
    assert counts.sum() == 200
    assert (counts > 30).all()  # 50 +- 6
    again = zooming.AdaptiveQ(env, seed=7).learn_pac(0.5, 0.1, episodes=4, evaluation_episodes=0)
    assert again.chosen == drawn[7].chosen


def test_without_a_proof_the_certificate_says_nothing_and_why():
    text = str(oil().learn_pac(0.5, 0.1, episodes=50, evaluation_episodes=10))
    assert (
        "proved    nothing: the bonus Scaled(c=0.1) has no bound with constants; "
        "use Theory(episodes=50, delta=0.005" in text
    )
    # What Hoeffding needs.
    assert "assuming  rewards in [0, 1]; independent episodes; H = 5 steps each\n" in text
    right = Theory(episodes=50, delta=0.005)
    certificate = oil(bonus=right).learn_pac(0.5, 0.1, episodes=50, evaluation_episodes=0)
    assert certificate.status == "nothing"
    assert certificate.reasons[0].startswith(
        "the bound on the gap after 50 episodes is no less than what an episode can earn"
    )
    assert certificate.gap_bound > 5
    assert certificate.episodes_needed == theory.pac_episodes(5, 0.5, 0.1, 2)
    assert "measured  nothing" in str(certificate)
    wide = zooming.AdaptiveQ(gym.make("zooming/Oil-v0", dims=4), bonus=right, seed=0)
    net = zooming.NetQ(gym.make("zooming/Oil-v0"), bonus=right, seed=0)
    agents = {
        "no bound with constants is known for NetQ": net,
        "max_balls=90": oil(bonus=right, max_balls=90),
        "cubes or atoms": oil(bonus=right, weights={"action": 0.5}),
        "at most 6 axes, and this problem has 8": wide,
        "for K = 60, not for the 50": oil(bonus=Theory(episodes=60)),
        "for K = None": oil(bonus=Theory()),
        "reward_noise": oil(bonus=Theory(episodes=50, delta=0.001, reward_noise=0.1)),
        "leaves nothing of delta": oil(bonus=Theory(episodes=50, delta=0.1)),
        r"the bonus Exact\(": oil(bonus=Exact(episodes=50)),
        r"the bonus Doubling\(": oil(bonus=Doubling(Theory())),
    }
    for text, agent in agents.items():
        certificate = agent.learn_pac(0.5, 0.1, episodes=50, evaluation_episodes=0)
        assert certificate.status == "nothing"
        found = certificate.reasons
        assert any(re.search(text, reason) for reason in found), (text, found)
    learned, by_hand = oil(bonus=right), oil(bonus=right)
    learned.learn(1)
    by_hand.update(0, [0.5], [0.5], 0.5, [0.5])
    for agent in (learned, by_hand):
        certificate = agent.learn_pac(0.5, 0.1, episodes=50, evaluation_episodes=0)
        assert "learned before" in certificate.reasons[0]


def test_what_the_paper_claims_with_an_open_step_is_not_called_proved(monkeypatch):
    monkeypatch.setattr(theory, "regret_bound", lambda *arguments: 0.01)
    certificate = oil(bonus=Theory(episodes=50, delta=0.01)).learn_pac(
        0.5, 0.1, episodes=50, evaluation_episodes=0
    )
    assert certificate.status == "claimed"
    assert certificate.gap_bound == pytest.approx(0.01 / 50 / 0.09)
    claim = "nothing; the paper claims that V* - V is at most 0.002222 with probability 0.9, but"
    assert claim in str(certificate)
    assert "together" not in str(certificate)
    assert "Q* is Lipschitz with L = 1 on the unit cube (not checked)" in str(certificate)
    measured = oil(bonus=Theory(episodes=50, delta=0.01)).learn_pac(
        0.5, 0.1, episodes=50, evaluation_episodes=10
    )
    assert "together  what is claimed and what is measured each hold" in str(measured)
    assert "both hold at once with probability 0.8" in str(measured)


def test_theorem_the_gap_bound_is_markovs():
    agent = zooming.AdaptiveQ(Coins(), horizon=1, bonus=Theory(episodes=1000, delta=0.05), seed=0)
    bound = theory.discrete_regret_bound(1, 1000, 1, 2, 0.05) / 1000
    assert gap_bound(agent, 1000, 0.4) == pytest.approx(bound / 0.35)
    scaled = zooming.AdaptiveQ(Coins(), horizon=1, bonus=agent.bonus, reward_range=(-5.0, 5.0))
    assert gap_bound(scaled, 1000, 0.4) == pytest.approx(10 * bound / 0.35)


def toss(state, action, step, params, outcome, next_state):
    next_state[0] = state[0]
    return 1.0 if outcome[0] < (0.8 if state[0] == action[0] else 0.2) else 0.0


def coins_at_two_tables(start):
    """One step: at one table the first of two coins is better, at the other the second."""
    spaces = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
    return zooming.compiled_env(
        toss, *spaces, horizon=1, start=start, outcomes=([0.1, 0.5, 0.9], [0.2, 0.6, 0.2])
    )


def test_theorem_random_starts_add_an_azuma_term_and_take_a_share_of_delta():
    bonus = Theory(episodes=1000, delta=0.05)
    bound = theory.discrete_regret_bound(1, 1000, 4, 1, 0.05)
    one, several = (
        zooming.AdaptiveQ(coins_at_two_tables(start), bonus=bonus) for start in (0, "uniform")
    )
    assert gap_bound(one, 1000, 0.4) == pytest.approx(bound / 1000 / 0.35)
    beyond = math.sqrt(1000 * math.log(1 / 0.1) / 2)
    assert gap_bound(several, 1000, 0.4) == pytest.approx((bound + beyond) / 1000 / 0.25)
    assert episodes_needed(several, 0.9, 0.9) > episodes_needed(one, 0.9, 0.9)
    unknown = zooming.AdaptiveQ(
        Boxes(gym.spaces.Discrete(2), gym.spaces.Discrete(2)), horizon=1, bonus=bonus
    )
    assert gap_bound(unknown, 1000, 0.4) == gap_bound(several, 1000, 0.4)


def test_atoms_pay_for_no_distance_whatever_lipschitz_says():
    """The bound on the regret of atoms knows no L, so that a bonus with one would be outside it."""
    for bonus in (Theory, Exact, Bernstein):
        env, two = coins_at_two_tables(0), (bonus(episodes=50, lipschitz=L) for L in (0.0, 1e4))
        plain, large = (zooming.AdaptiveQ(env, bonus=one, ties="first", seed=0) for one in two)
        assert plain.learn(50).returns.tolist() == large.learn(50).returns.tolist()
        assert plain.table.rows["value"].tolist() == large.table.rows["value"].tolist()


def test_lemma_gaps_from_all_starts_exceed_those_from_drawn_ones_only_with_probability_delta():
    rng, delta, k = np.random.default_rng(0), 0.2, 50
    bound = theory.start_error(1, k, delta)
    excess = (0.5 - rng.integers(0, 2, (4000, k))).sum(axis=1)  # the widest law on [0, 1]
    assert (excess > bound).mean() <= delta
    assert (excess > bound / 3).mean() > delta  # the bound is not vacuous


@pytest.mark.slow
def test_theorem_two_coins_are_proved_within_a_feasible_number_of_episodes():
    # Atoms and H = 1: the one case whose proof stands and whose number of episodes can be played.
    # Epsilon is still coarse.
    one, two = Coins.observation_space, Coins.action_space
    env = zooming.compiled_env(toss_two, one, two, 1, start=0)
    agent = zooming.AdaptiveQ(env, bonus=Theory(episodes=200_000, delta=0.01), seed=0)
    certificate = agent.learn_pac(0.9, 0.9, episodes=200_000, evaluation_episodes=2000)
    assert certificate.status == "proved"
    assert certificate.gap_bound < 0.9
    assert 0.9 - certificate.evaluation.mean < certificate.gap_bound
    shown = str(certificate)
    assert "proved    V* - V is at most 0.8185 with probability 0.1 (asked: 0.9)" in shown
    assert "together  what is proved and what is measured each hold" in shown
    assert "Lipschitz" not in shown


def test_the_number_of_episodes_comes_from_the_theory_or_is_refused_with_the_number():
    message = r"asks for 2.61e\+25 episodes; learn_pac plays at most 100,000,000.*Give a budget"
    with pytest.raises(zooming.ConfigurationError, match=message):
        oil().learn_pac(0.5, 0.1)
    agent = zooming.AdaptiveQ(Coins(), horizon=1, seed=0)
    assert agent.n_episodes == 0
    needed = theory.discrete_pac_episodes(1, 0.9, 0.9, 1, 2)
    assert episodes_needed(agent, 0.9, 0.9) == needed < pac.MOST_EPISODES_BY_DEFAULT


def test_the_theorys_own_number_is_played_if_none_is_given(monkeypatch):
    monkeypatch.setattr(theory, "discrete_pac_episodes", lambda *arguments: 40)
    monkeypatch.setattr(pac, "BLOCK", 7)
    agent = zooming.AdaptiveQ(Coins(), horizon=1, seed=0)
    assert agent.learn_pac(0.9, 0.9, evaluation_episodes=0).episodes == agent.n_episodes == 40


@pytest.mark.parametrize(("arguments", "text"), [
    ({"epsilon": 6.0},
     "epsilon=6.0: the gap must be above 0 and at most what an episode can earn, 5"),
    ({"epsilon": 0.0}, "epsilon=0.0"),
    ({"delta": 1.0}, "delta=1.0"),
    ({"evaluation_episodes": 1}, "evaluation_episodes=1"),
    ({"episodes": 0}, "episodes=0"),
])  # fmt: skip
def test_a_wrong_demand_is_refused_and_nothing_is_played(arguments, text):
    agent = oil()
    with pytest.raises(zooming.ConfigurationError, match=text):
        agent.learn_pac(**{"epsilon": 0.5, "delta": 0.1, "episodes": 10, **arguments})
    assert agent.n_episodes == 0
