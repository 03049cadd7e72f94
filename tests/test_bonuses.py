"""Bonuses: the formulas, at numbers worked out by hand."""

import math
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete

import zooming
from helpers import Boxes, knowledge, same_history
from oracles import Tables, UcbB, UcbH, agreeing, unit_env
from reference import ReferenceQ
from references import ReferenceWidthQ
from zooming import bonuses, kernels, metrics
from zooming.agents.base import seeds
from zooming.bonuses import Bernstein, Doubling, Exact, Scaled, Theory

pytestmark = pytest.mark.plain


@pytest.mark.parametrize(
    ("options", "first"), [({"bonus": 0.5}, 0.5), ({}, 2.0), ({"bonus": bonuses.Scaled(3.0)}, 3.0)]
)
def test_a_number_is_meant_literally_and_the_default_scales_with_the_rewards(options, first):
    agent = zooming.AdaptiveQ(
        gym.make("zooming/Oil-v0"), reward_range=(-10.0, 10.0), seed=0, **options
    )
    agent.update(4, [0.5], [0.5], 0.0, [0.5])
    assert agent.q_value(4, [0.5], [0.5]) == first
    for number in (0.5, np.float32(0.5), np.float64(0.5)):
        assert bonuses.as_bonus(number) == bonuses.Scaled(0.5)


def test_a_bonus_of_your_own_works_but_is_not_saved(tmp_path):
    class Half:
        def scale(self, horizon, reward_span):
            return horizon / 2

    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), bonus=Half(), seed=0)
    agent.update(4, [0.5], [0.5], 0.0, [0.5])
    assert agent.q_value(4, [0.5], [0.5]) == 2.5
    with pytest.raises(zooming.ConfigurationError, match="cannot be saved"):
        agent.save(tmp_path / "agent.zoom")


# --- against the reference ------------------------------------------------------------------------


def iota_of(bonus, horizon, episode):
    if bonus.episodes is None:
        return math.log(8 * horizon * episode**2 / bonus.delta)
    return math.log(4 * horizon * bonus.episodes / bonus.delta)


def reference_of(bonus, n_state, n_action, horizon):
    """The same bonus worked out from the definition, at every visit from all visits of a ball."""

    def theory(t):
        iota = iota_of(bonus, horizon, agent.episode)
        noise = 2 * bonus.reward_noise * math.sqrt(horizon * iota / t)
        return 2 * math.sqrt(horizon**3 * iota / t) + noise + 4 * bonus.lipschitz / math.sqrt(t)

    def exact(agent, step, weights, visits):
        noise = 1.0 if bonus.random_rewards else 2 * bonus.reward_noise
        iota = iota_of(bonus, horizon, agent.episode)
        width = (horizon - 1 - step + noise) * math.sqrt(sum(w**2 for w in weights) * iota / 2)
        return width + bonus.lipschitz * np.dot(weights, [visit.diameter for visit in visits])

    def beside(t):
        return theory(t) - 2 * math.sqrt(horizon**3 * iota_of(bonus, horizon, agent.episode) / t)

    def bernstein(agent, step, weights, visits):
        t, n_balls = len(visits), agent.n_balls / horizon
        iota = iota_of(bonus, horizon, agent.episode)
        variance = np.var([visit.next_value for visit in visits])
        first = math.sqrt(horizon / t * (variance + horizon) * iota)
        first += math.sqrt(horizon**7 * n_balls) * iota / t
        return min(bonus.c1 * first, bonus.c2 * math.sqrt(horizon**3 * iota / t)) / 2

    if isinstance(bonus, Theory):
        agent = ReferenceQ(n_state, n_action, horizon, theory)
    elif isinstance(bonus, Exact):
        agent = ReferenceWidthQ(n_state, n_action, horizon, lambda t: 0.0, width=exact)
    else:
        agent = ReferenceWidthQ(n_state, n_action, horizon, beside, width=bernstein)
    return agent


EVERY = {
    "theory": Theory(episodes=40, lipschitz=0.5),
    "theory, noise": Theory(episodes=40, reward_noise=0.3),
    "theory, anytime": Theory(delta=0.1),
    "exact": Exact(episodes=40),
    "exact, noise": Exact(episodes=40, reward_noise=0.2),
    "exact, random rewards, anytime": Exact(random_rewards=True),
    "bernstein": Bernstein(episodes=40, lipschitz=0.3),
    "bernstein, small": Bernstein(episodes=40, c1=0.003, c2=0.06, lipschitz=0.0),
    "bernstein, noise, anytime": Bernstein(c1=0.01, c2=0.2, reward_noise=0.1),
}


@pytest.mark.parametrize("bonus", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize(("n_state", "n_action", "horizon"), [(1, 1, 3), (2, 1, 2)])
def test_every_bonus_agrees_with_the_reference(bonus, n_state, n_action, horizon):
    agent = zooming.AdaptiveQ(unit_env(n_state, n_action, horizon), bonus=bonus, seed=0)
    reference, rng = reference_of(bonus, n_state, n_action, horizon), np.random.default_rng(0)
    centers = rng.random((3, n_state + n_action))
    for _ in range(60):
        for step in range(horizon):
            here, there = centers[rng.integers(3)], centers[rng.integers(3)]
            points, reward = (here[:n_state], here[n_state:]), float(rng.random())
            rest = reward, there[:n_state], bool(rng.random() < 0.1)
            agent.update(step, *points, *rest)
            reference.update(step, *map(list, points), reward, list(rest[1]), rest[2])
    agreeing(agent, reference)


@pytest.mark.parametrize(("c1", "c2"), [(4.0, 4.0), (0.002, 0.05), (0.0005, 0.1)])
def test_bernstein_on_the_discrete_metric_is_ucb_b_of_jin_et_al_trajectory_for_trajectory(c1, c2):
    env, episodes = Tables(4, 3, 3, seed=5), 20 if kernels.IS_JIT_DISABLED else 300
    bonus = Bernstein(episodes=episodes, lipschitz=0.0, c1=c1, c2=c2)
    agent = zooming.AdaptiveQ(env, horizon=3, bonus=bonus, cap="horizon", ties="first", seed=0)
    oracle = UcbB(4, 3, 3, c1, c2, iota=math.log(4 * 3 * episodes / 0.05))
    oracle.compare(agent, env, episodes, 1)


def test_theory_on_the_discrete_metric_is_ucb_h_of_jin_et_al_with_its_bonus_and_by_learn():
    # b_t = c sqrt(H^3 iota / t) with c = 2, and no L, since an atom has diameter 0.
    env, episodes = Tables(5, 3, 4, seed=7), 20 if kernels.IS_JIT_DISABLED else 300
    oracle = UcbH(5, 3, 4, c=2 * math.sqrt(64 * math.log(4 * 4 * episodes / 0.05)))
    expected = oracle.learn(env, episodes, seeds.derive_seed(0, "environment", np.uint32))
    bonus = Theory(episodes=episodes, lipschitz=0.0)
    agent = zooming.AdaptiveQ(env, horizon=4, bonus=bonus, cap="horizon", ties="first", seed=0)
    returns = agent.learn(episodes).returns
    assert returns.tolist() == [
        sum(reward for *_, reward in expected[4 * k : 4 * k + 4]) for k in range(episodes)
    ]
    for at in np.ndindex(4, 5, 3):
        assert agent.visits(*at) == oracle.n[at]
        assert agent.q_value(*at) == pytest.approx(oracle.q[at], rel=1e-12)


# --- unknown K ------------------------------------------------------------------------------------


def test_anytime_counts_the_episodes_whoever_drives_the_loop():
    agent = zooming.AdaptiveQ(Boxes(Discrete(2), Discrete(2)), bonus=Theory(), horizon=2, seed=0)
    for k in range(1, 6):
        for step in range(2):
            agent.update(step, 0, agent.act(step, 0), 0.0, 1)
            scale = Theory(lipschitz=0.0).scale(2, 1.0, k)  # atoms pay for no distance
            assert agent.table.core["bonus"][0] == scale
    assert Theory().iota(2, 7) == pytest.approx(math.log(8 * 2 * 49 / 0.05))


@pytest.mark.parametrize("horizon", [1, 5])
def test_lemma_anytime_failures_sum_to_no_more_than_those_of_a_known_k(horizon):
    allowed = sum(horizon * math.exp(-Theory().iota(horizon, k)) for k in range(1, 20_000))
    known = horizon * 2000 * math.exp(-Theory(episodes=2000).iota(horizon))
    assert allowed <= known == pytest.approx(0.05 / 4)


def test_lemma_the_factor_two_of_theory_covers_the_early_visits_of_an_unknown_k():
    # The width that is needed at episode k, H sqrt(S_t iota_k / 2), with S_t <= 2H/t, against
    # bonuses that all had iota_1.
    for horizon, delta in [(1, 0.1), (5, 0.05), (10, 0.01)]:
        last = int((8 * horizon / delta) ** 1.5)
        bonus = Theory(delta=delta, lipschitz=0.0)
        for t in (1, 10, 1000):
            needed = horizon * math.sqrt(2 * horizon / t * bonus.iota(horizon, last) / 2)
            given = bonus.scale(horizon, 1.0) / math.sqrt(t)
            assert given >= needed * (1 - 1e-12)
            assert given < horizon * math.sqrt(horizon / t * bonus.iota(horizon, 2 * last))


UNKNOWN = {
    "theory": Theory(),
    "exact": Exact(),
    "bernstein": Bernstein(c1=0.01, c2=0.1),
    "doubling theory": Doubling(Theory()),
    "doubling bernstein": Doubling(Bernstein()),
}


@pytest.mark.parametrize("bonus", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize(
    "kind", [zooming.AdaptiveQ, zooming.NetQ, partial(zooming.MetricQ, metric=metrics.LInf(9))]
)
def test_drivers_parts_and_files_agree_whether_k_is_known_or_not(bonus, kind, tmp_path):
    def agent():
        return kind(gym.make("zooming/Ambulance-v0", horizon=3), bonus=bonus, seed=0)

    whole, python, parts, saved = agent(), agent(), agent(), agent()
    history = whole.learn(37)
    assert same_history(history, python.learn(37, driver="python"))
    pieces = [parts.learn(n) for n in (0, 1, 2, 5, 7, 1, 15, 6)]
    assert same_history(history, sum(pieces[1:], pieces[0]))
    for n in (7, 9, 21):  # 7 ends a phase of the doubling trick
        saved.learn(n, driver="python" if n == 9 else "auto")
        saved.save(tmp_path / "agent.zoom")
        saved = zooming.load(tmp_path / "agent.zoom")
    assert saved.bonus == bonus
    assert knowledge(whole) == knowledge(python) == knowledge(parts) == knowledge(saved)


def test_the_doubling_trick_is_a_new_agent_per_phase():
    env = gym.make("zooming/Ambulance-v0", horizon=3)
    agent = zooming.AdaptiveQ(env, bonus=Doubling(Theory(delta=0.1)), seed=0)
    agent.learn(7)
    assert agent.n_balls > 3 + 3
    phase = zooming.AdaptiveQ(env, bonus=Theory(episodes=8, delta=0.1 / 20), seed=0)
    phase.table.core["random"] = agent.table.core["random"]
    phase.run.env_generator = agent.run.env_generator
    assert same_history(agent.learn(8), phase.learn(8))
    n = phase.table.rows_in_use
    assert agent.table.rows[:n].tobytes() == phase.table.rows[:n].tobytes()
    core = agent.table.core
    assert (agent.n_episodes, core["phase"][0], core["episode"][0]) == (15, 3, 15)
    total = sum(Doubling(Theory(delta=0.1)).phase(2**j).delta for j in range(52))
    assert 0.098 < total < 0.1


def test_the_doubling_trick_restarts_between_episodes_in_a_loop_of_your_own_and_once_only():
    env, options = Boxes(Discrete(2), Discrete(2)), {"bonus": Doubling(Exact()), "horizon": 2}
    agent = zooming.AdaptiveQ(env, seed=0, **options)
    for k in range(1, 9):
        for step in range(2):
            action = agent.act(step, 0)
            assert agent.act(step, 0) in (0, 1)
            agent.update(step, 0, action, 0.0, 1)
        visits = sum(agent.visits(0, 0, action) for action in range(2))
        assert visits == k + 1 - 2 ** (k.bit_length() - 1)  # since the phase began
    agent = zooming.AdaptiveQ(env, seed=0, **options)
    agent.update(0, 0, 0, 0.0, 1)
    before = knowledge(agent)
    for text, bad in {
        r"step 0: state = 5\.0 is not": lambda: agent.act(0, 5),
        "reward 7.0 is outside": lambda: agent.update(0, 0, 0, 7.0, 1),
        r"next state = 5\.0 is not": lambda: agent.update(0, 0, 0, 0.0, 5),
    }.items():
        with pytest.raises(zooming.TransitionError, match=text):
            bad()
    assert knowledge(agent) == before  # what is refused forgets nothing


@pytest.mark.parametrize(("make", "text"), [
    (lambda: Doubling(0.5), r"Doubling: 0.5 does not depend on K"),
    (lambda: Doubling(Scaled(0.5)), "does not depend on K"),
    (lambda: Doubling(Theory(episodes=9)),
     r"episodes=9 is not an option here: .*; write Doubling\(Theory\(\)\)"),
    (lambda: Bernstein(c1=-1.0), "Bernstein: c1=-1.0"),
    (lambda: Theory(reward_noise=math.inf), "Theory: reward_noise=inf"),
    (lambda: Exact(random_rewards=True, reward_noise=0.1),
     "either covers random rewards, so give one"),
])  # fmt: skip
def test_a_bonus_says_what_is_wrong_with_its_options(make, text):
    with pytest.raises(zooming.ConfigurationError, match=text):
        make()


@pytest.mark.parametrize("damage", [("phase", 1), ("episode", -1), ("episode", 9), ("iota", 1.0)])
def test_a_file_with_another_phase_or_iota_is_refused(damage, tmp_path):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), bonus=Doubling(Theory()), seed=0)
    agent.learn(5)
    agent.table.core[damage[0]] = damage[1]
    agent.save(tmp_path / "agent.zoom")
    with pytest.raises(zooming.CheckpointError, match=damage[0]):
        zooming.load(tmp_path / "agent.zoom")
