"""A rule as a start: who plays, what it may cost, when it is let go, and what a file keeps."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import knowledge
from zooming.agents.auto.returns import Trend
from zooming.agents.warm_start import MEAN, Ledger, N, half_width

QUEUE = "zooming/Queue-v0"


def env():
    return gym.make("zooming/Oil-v0", noise=0.05)


def half(step, state):
    return [0.5]


def started(kind=zooming.AdaptiveQ, name=QUEUE, episodes=40, **options):
    made = gym.make(name)
    agent = kind(made, seed=1)
    return agent, agent.warm_start(made.unwrapped.rule, episodes, **options)


def test_a_poor_rule_is_let_go_and_the_history_says_when():
    agent = zooming.AdaptiveQ(env(), seed=0)
    history = agent.warm_start(half, episodes=100)
    assert history.rule_episodes.tolist() == list(range(1, 101))
    history += agent.learn(600)
    assert not agent.guide.is_open
    assert 300 < history.let_go < 700
    assert f"the rule was let go after {history.let_go}" in repr(history)
    assert agent.guide.status()["let go"].startswith(f"after {history.let_go} episodes")
    assert agent.guide.words() == f"let go after {history.let_go} episodes"
    assert (history.rule_episodes <= history.let_go).all()
    again = zooming.AdaptiveQ(env(), seed=0)
    assert again.warm_start(half, episodes=100).let_go is None


def test_a_rule_that_is_the_optimum_is_kept_and_the_loss_stays_within_the_budget():
    agent, history = started(zooming.Random, "zooming/Newsvendor-v0")
    history += agent.learn(1000)
    ledger = agent.guide.ledger
    assert ledger.is_open
    returns = history.returns[40:]
    by_rule = np.isin(np.arange(41, 1041), history.rule_episodes)
    assert 3 < (~by_rule).sum() < 200
    spent = np.cumsum(np.where(by_rule, 0.0, ledger.of_rule[MEAN] - returns))
    worst = (ledger.of_rule[MEAN] - returns).max()
    assert (spent <= ledger.allowed_loss * np.arange(1, 1001) + 2 * worst).all()


@pytest.mark.parametrize("kind", [zooming.AdaptiveQ, zooming.Auto])
def test_drivers_and_pieces_and_files_and_loops_give_the_same_history(kind, tmp_path):
    agent, history = started(kind, loss=60.0)
    history += agent.learn(60)
    ledger = agent.guide.ledger
    assert 1 < ledger.windows[0, N] < 55
    for driver, parts in (("auto", (13, 47)), ("python", (60,))):
        other, found = started(kind, loss=60.0)
        for n in parts:
            found += other.learn(n, driver=driver)
        assert (found.returns == history.returns).all()
        assert (found.rule_episodes == history.rule_episodes).all()
        assert other.guide.state() == agent.guide.state()
    other, found = started(kind, loss=60.0)
    found += other.learn(20)
    other.save(tmp_path / "a.zoom")
    loaded = zooming.load(tmp_path / "a.zoom")
    with pytest.raises(zooming.ConfigurationError, match=r"give it again: agent.guide.set_rule"):
        loaded.learn(40)
    loaded = zooming.load(tmp_path / "a.zoom")
    loaded.guide.set_rule(gym.make(QUEUE).unwrapped.rule)
    assert ((found + loaded.learn(40)).returns == history.returns).all()


def test_episodes_of_your_own_are_guided_and_count_when_they_end(tmp_path):
    agent = zooming.AdaptiveQ(Cut(), seed=0, horizon=5)
    agent.warm_start(half, 40)
    for n_returns, truncated in ((41, True), (41, False), (42, True)):
        episode = agent.begin()
        episode.act([0.5])
        episode.update(0.5, [0.5], truncated=truncated)
        assert agent.guide.ledger.n_returns == n_returns
        if not truncated:
            episode.abandon()
    agent.save(tmp_path / "a.zoom")
    assert zooming.load(tmp_path / "a.zoom", env=agent.env).guide.state() == agent.guide.state()


def test_export_refuses_a_rule_that_is_kept_and_explain_tells_it(tmp_path):
    agent = zooming.AdaptiveQ(env(), seed=0)
    agent.warm_start(half, episodes=40)
    with pytest.raises(zooming.ConfigurationError, match=r"plays the rule, and .*guide = None"):
        agent.export(tmp_path / "policy.py")
    assert not list(tmp_path.iterdir())
    rules = agent.explain(0, episodes=0)
    assert {rule.action for rule in rules} == {(0.5,)}
    policy = {}
    exec(agent.explain(episodes=0).export(tmp_path / "policy.py").read_text(), policy)
    assert policy["act"](0, [0.3]) == (0.5,)
    agent.guide.rule = None  # as after loading
    with pytest.warns(UserWarning, match="agent's own policy"):
        rules = agent.explain(0, episodes=0)
    assert agent.greedy(0, np.array([0.3])) in np.array([rule.action for rule in rules])
    with pytest.raises(zooming.ConfigurationError, match="a rule guides this agent already"):
        agent.warm_start(half)
    agent.guide = None
    policy = {}
    exec(agent.export(tmp_path / "policy.py").read_text(), policy)
    assert policy["act"](0, [0.3]) == tuple(agent.predict([0.3])[0])


class Failing:
    """A rule that fails at one call."""

    def __init__(self, n_calls):
        self.n_calls = n_calls

    def __call__(self, step, state):
        self.n_calls -= 1
        if not self.n_calls:
            raise RuntimeError("the shop is closed")
        return [0.5]


@pytest.mark.parametrize("kind", [zooming.AdaptiveQ, zooming.Auto])
def test_the_agent_learns_nothing_from_an_episode_in_which_the_rule_fails(kind):
    agent = kind(env(), seed=0)
    before = knowledge(agent)
    with pytest.raises(RuntimeError, match="the shop is closed"):
        agent.warm_start(Failing(4), 40)
    assert (knowledge(agent), agent.guide, agent.run.env_rng) == (before, None, None)
    with pytest.raises(RuntimeError, match="the shop is closed"):
        agent.warm_start(Failing(5 * 10 + 3), 40)
    assert agent.n_episodes == 10
    again = kind(env(), seed=0)
    again.warm_start(half, 40)
    agent.guide.set_rule(half)
    agent.learn(30)
    assert agent.n_episodes == again.n_episodes


def test_a_rule_beyond_the_bounds_is_refused_and_not_clipped():
    agent = zooming.AdaptiveQ(env(), seed=0, bounds={"action": (0.0, 0.4)})
    with pytest.raises(zooming.ConfigurationError, match=r"action\[0\] = 0.5, .* widen bounds="):
        agent.warm_start(half, 40)
    assert agent.n_episodes == 0


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_without_an_allowed_loss_or_returns_nothing_is_risked(value):
    ledger = Ledger(40, loss=0.0 if value else None)
    for _ in range(200):
        assert ledger.plays_rule()
        ledger.credit(value, True)


@pytest.mark.parametrize(("least", "n_waits"), [(-np.inf, 2000), (0.0, 200), (-40.0, 1000)])
def test_the_first_exploring_episode_waits_for_a_reserve(least, n_waits):
    ledger = Ledger(40, least_return=least)  # 0.5 % of 10 per episode
    while ledger.plays_rule():
        ledger.credit(10.0, True)
    assert abs(ledger.n_since - n_waits) <= 1  # rounding
    cost = min(200.0, 10.0 - least)
    ledger.credit(10.0 - cost, False)
    assert cost / ledger.n_since <= 0.01 * 10.0
    assert ledger.plays_rule()


@pytest.mark.parametrize(("rule", "options", "message"), [
    (3, {}, r"rule=3: give an agent, or a function rule\(step, observation\)"),
    (zooming.Median, {}, "Median is a class; give an instance"),
    (half, {"episodes": 39}, "episodes=39"),
    (half, {"confidence": 1.0}, "give a probability below 1"),
    (half, {"loss": -1.0}, "loss"),
    (half, {"bonus": 1.0}, "bonus"),
    (lambda step, state: [1.5], {}, r"the rule gave \[1.5\]: .* is outside"),
    (lambda step, state: "left", {}, "the rule gave 'left': "),
    (None, {}, "rule=None: give another agent, or a function"),
    (lambda state: [0.5], {}, r"takes \(state\); give a function rule\(step, observation\)"),
])  # fmt: skip
def test_a_wrong_argument_changes_nothing(rule, options, message):
    agent = zooming.AdaptiveQ(env(), seed=0)
    before = knowledge(agent)
    with pytest.raises((zooming.ConfigurationError, TypeError), match=message):
        agent.warm_start(rule, **{"episodes": 40, **options})
    assert (knowledge(agent), agent.guide, agent.run.env_rng) == (before, None, None)


def simulate(gap, seed, episodes=400):
    """Return a ledger after episodes with normal returns. The agent's mean is 10 + `gap`, and the
    rule's is 10."""
    generator = np.random.default_rng(seed)
    ledger = Ledger(60, least_return=0.0, loss=0.5)
    while ledger.is_open and ledger.n_returns < episodes:
        by_rule = ledger.plays_rule()
        ledger.credit(generator.normal(10.0 if by_rule else 10.0 + gap), by_rule)
    return ledger


@pytest.mark.slow
def test_the_rule_is_let_go_for_a_better_agent_and_seldom_for_an_equal_one():
    assert sum(not simulate(0.0, seed).is_open for seed in range(40)) <= 2
    assert sum(not simulate(-0.2, seed).is_open for seed in range(20)) <= 1
    assert sum(not simulate(1.5, seed).is_open for seed in range(10)) == 10


def test_the_confidence_sequence_of_normal_samples_holds_at_all_times():
    n, runs = np.arange(1, 1001), 1000
    samples = np.random.default_rng(0).normal(size=(runs, len(n)))
    mean = samples.cumsum(axis=1) / n
    deviation = np.sqrt(np.maximum((samples**2).cumsum(axis=1) / n - mean**2, 0.0))
    width = np.array([half_width(float(k), 1.0, 0.05) for k in n])
    far = np.abs(mean[:, 10:]) > width[10:] * deviation[:, 10:]
    assert 0.005 < far.any(axis=1).mean() < 0.05
    # an interval for one sample size is not enough
    assert (np.abs(mean[:, 10:]) > 1.96 * deviation[:, 10:] / np.sqrt(n[10:])).any(
        axis=1
    ).mean() > 0.2


@pytest.mark.parametrize(
    ("name", "value"),
    [("of_rule", [-5.0, 0.0, 0.0]), ("of_rule", [5.0, 0.0, -1.0]), ("of_rule", [0.0, 0.0]),
     ("n_warm", 2**63 - 1), ("let_go", -1), ("let_go", True)],
)  # fmt: skip
def test_statistics_that_cannot_be_are_refused(name, value):
    kept = {**Ledger(60).state(), name: value}
    with pytest.raises(ValueError, match="of the guide are invalid"):
        Ledger(60).restore(kept)


def interrupt_at(monkeypatch, n):
    """Let the n-th episode of a run raise KeyboardInterrupt at its first update."""
    left = [n]

    def update(self, *args, **masks):
        left[0] -= args[0] == 0
        if not left[0]:
            raise KeyboardInterrupt
        return original(self, *args, **masks)

    original = zooming.Planner.update
    monkeypatch.setattr(zooming.Planner, "update", update)


@pytest.mark.parametrize("n_first", [0, 7])
def test_the_guide_counts_every_episode_after_an_interrupt_and_after_the_rule_is_let_go(
    n_first, monkeypatch
):
    agent = zooming.Planner(env(), seed=0)
    agent.learn(n_first)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 31)
        with pytest.raises(KeyboardInterrupt):
            agent.warm_start(half, 60)
    assert agent.guide.n_played == agent.n_episodes - n_first == 30
    assert agent.guide.ledger.n_returns == 30
    agent.guide.set_rule(half)
    agent.learn(40)
    agent.guide.ledger.let_go = 70
    agent.learn(20)
    assert agent.guide.n_played == agent.n_episodes - n_first == 90


class Cut(gym.Env):
    """Episodes that are truncated after three of five steps; the reward is the action."""

    observation_space = action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_steps = 0
        return np.array([0.5]), {}

    def step(self, action):
        self.n_steps += 1
        return np.array([0.5]), float(action[0]), False, self.n_steps == 3, {}


def test_returns_of_the_rule_are_not_credited_to_an_agent_of_a_portfolio(monkeypatch):
    agent = zooming.Auto(Cut(), seed=0, horizon=5, reward_range=(0, 1))
    agent.warm_start(lambda step, state: [0.95], 40, loss=0.2)
    credited, add = [], Trend.add
    monkeypatch.setattr(Trend, "add", lambda *args: (credited.extend(args[1]), add(*args)))
    agent.learn(60)
    assert len(credited) > 1
    assert max(credited) <= 3.0


def test_a_callback_may_end_the_warm_start():
    agent = zooming.AdaptiveQ(env(), seed=0)
    agent.warm_start(half, 40)
    history = agent.learn(
        30, checkpoints=[10], callback=lambda agent, history: setattr(agent, "guide", None)
    )
    assert history.rule_episodes.max() <= 10
    assert len(history) == 30


def test_a_guided_agent_is_pickled_without_its_rule_and_no_part_of_a_portfolio():
    agent = zooming.AdaptiveQ(env(), seed=0)
    agent.warm_start(half, 40)
    assert (copy.deepcopy(agent).predict([0.3])[0] == 0.5).all()  # a copy keeps it
    again = pickle.loads(pickle.dumps(agent))
    again.guide.set_rule(half)
    assert (again.learn(20).returns == agent.learn(20).returns).all()
    with pytest.raises(zooming.ConfigurationError, match="warm-start the portfolio instead"):
        zooming.Portfolio([agent, zooming.AdaptiveQ(agent.env, seed=1)])
    again.guide = None
    with pytest.raises(zooming.ConfigurationError, match="the agent itself"):
        again.warm_start(again)
