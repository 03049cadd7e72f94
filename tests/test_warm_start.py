"""A rule as a start: who plays, what it may cost, when it is let go, and what a file keeps."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import knowledge
from zooming.agents import confidence
from zooming.agents.ledger import (
    CAREFUL,
    LEARNER,
    LET_GO,
    NOISY,
    PLAYED,
    PLAYER,
    RULE,
    VARIED,
    WARMED,
    Ledger,
)  # fmt: skip
from zooming.agents.stored_ledger import ledger_state, restore_ledger
from zooming.agents.trend import Trend

QUEUE = "zooming/Queue-v0"


def env():
    return gym.make("zooming/Oil-v0", noise=0.05)


def trust_careful(ledger):
    """Give the careful policy returns far above those of the rule."""
    for numbers in (ledger.of_careful, ledger.trial):
        numbers[:3] = 20.0, 1e9, 1.0


def low(step, state):
    return [0.1]


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
    history += agent.learn(400)
    assert not agent.guide.is_open
    assert 100 < history.let_go < 500
    assert f"the rule was let go after {history.let_go}" in repr(history)
    assert "after episode" in agent.guide.status()["let go"]
    assert (history.rule_episodes <= history.let_go).all()
    again = zooming.AdaptiveQ(env(), seed=0)
    assert again.warm_start(half, episodes=100).let_go is None


def test_a_rule_that_is_the_optimum_is_kept_and_the_loss_stays_within_the_budget():
    agent, history = started(zooming.Random, "zooming/Newsvendor-v0")
    history += agent.learn(600)
    ledger = agent.guide.ledger
    assert ledger.is_open
    returns = history.returns[40:]
    by_rule = np.isin(np.arange(41, 641), history.rule_episodes)
    assert 3 < (~by_rule).sum() < 200
    spent = np.cumsum(np.where(by_rule, 0.0, ledger.of_rule[confidence.MEAN] - returns))
    worst = (ledger.of_rule[confidence.MEAN] - returns).max()
    assert (spent <= ledger.allowed_loss * np.arange(1, 601) + 2 * worst).all()


@pytest.mark.parametrize("kind", [zooming.AdaptiveQ, zooming.Auto])
def test_drivers_and_pieces_and_files_and_loops_give_the_same_history(kind, tmp_path):
    agent, history = started(kind, loss=20.0)
    history += agent.learn(60)
    ledger = agent.guide.ledger
    assert 1 < ledger.windows[0, confidence.N] < 55
    assert (ledger.of_careful[confidence.N] > 5) == (kind is zooming.Auto)
    for driver, parts in (("auto", (13, 47)), ("python", (60,))):
        other, found = started(kind, loss=20.0)
        for n in parts:
            found += other.learn(n, driver=driver)
        assert (found.returns == history.returns).all()
        assert (found.rule_episodes == history.rule_episodes).all()
        assert other.guide.state() == agent.guide.state()
    other, found = started(kind, loss=20.0)
    found += other.learn(20)
    other.save(tmp_path / "a.zoom")
    loaded = zooming.load(tmp_path / "a.zoom")
    with pytest.raises(zooming.ConfigurationError, match=r"give it again: agent.guide.set_rule"):
        loaded.learn(40)
    loaded = zooming.load(tmp_path / "a.zoom")
    loaded.guide.set_rule(gym.make(QUEUE).unwrapped.rule)
    assert ((found + loaded.learn(40)).returns == history.returns).all()


def test_a_loop_of_your_own_plays_the_same_episodes():
    agent, _ = started(loss=20.0)
    wanted = agent.learn(30)
    other, _ = started(loss=20.0)
    made = gym.make(QUEUE)
    made.unwrapped.np_random = other.env_rng
    returns = []
    for _ in range(30):
        observation, _ = made.reset()
        total, is_over, step = 0.0, False, 0
        while not is_over:
            action = other.guide.act(step, observation)
            after, reward, terminated, truncated, _ = made.step(action)
            other.guide.update(step, observation, action, reward, after, terminated)
            total, observation, step = total + reward, after, step + 1
            is_over = terminated or truncated
        returns.append(total)
    assert returns == wanted.returns.tolist()


def test_predict_plays_the_rule_until_it_is_let_go_and_the_careful_policy_once_it_earns_as_much():
    agent = zooming.Planner(env(), seed=1)
    agent.warm_start(half, 80, noise=0.2)
    ledger = agent.guide.ledger
    states, steps = np.linspace(0.0, 1.0, 40)[:, None], np.full(40, 3)
    of_agent = agent._greedy(steps, states, True, [None] * 40)
    assert (agent.predict(states, state=steps)[0] == 0.5).all()
    assert agent.guide.status()["predict plays"] == "the rule"
    trust_careful(ledger)
    careful = agent.predict(states, state=steps)[0]
    assert (careful == [agent.predict(one, state=3)[0] for one in states]).all()
    assert 2 < (careful != 0.5).sum() < 40
    plan = agent.table.settled_policy()  # its bonus is minus half a standard error
    n_actions = plan.q.shape[1] // plan.values.shape[1]
    for state, played in zip(states, careful, strict=True):
        cell, here = (agent._cell(3, state, one)[1] for one in (played, [0.5]))
        first = here // n_actions * n_actions
        cells = [c for c in range(first, first + n_actions) if c != here and plan.visits[3, c] > 0]
        low = {c: plan.q[3, c] + 2 * plan.bonus[3, c] for c in cells}
        best = max(low, key=low.get, default=here)
        is_clear = best != here and low[best] > plan.q[3, here] - 2 * plan.bonus[3, here]
        assert cell == (best if is_clear else here)
        assert is_clear or played == 0.5
    ledger.counts[LET_GO] = 40
    assert (agent.predict(states, state=steps)[0] == of_agent).all()


def test_a_new_plan_halves_the_weight_of_the_trial():
    ledger = Ledger(60)
    ledger.of_rule[:3] = 100.0, 10.0, 100.0
    for mean, is_tried in ((9.95, True), (9.0, False), (2.0, False)):
        ledger.trial[:3] = 40.0, mean, 40.0
        assert ledger.tries_careful() == is_tried
    n_plans = 0
    while not ledger.tries_careful():  # worse by 8 deviations of a return
        n_plans += 1
        ledger.note_plan(n_plans)
    assert 10 < n_plans < 20
    assert not Ledger(60, has_careful=False).tries_careful()


def test_predict_trusts_the_careful_policy_by_a_test_at_the_stated_level():
    ledger = Ledger(60, confidence=0.95)
    ledger.of_rule[:3] = 101.0, 10.0, 101.0 * 100.0 / 101.0  # an error of 0.1
    level = 10.0 + 1.6449 * np.sqrt(0.1**2 * 100 / 101 + 0.01)
    for n, mean, late, is_trusted in (
        (101.0, level + 0.01, 10.0, True),
        (101.0, level - 0.01, 12.0, False),  # not clear
        (101.0, level + 0.01, 9.9, False),  # worse lately
        (19.0, 30.0, 30.0, False),  # too few
    ):
        ledger.of_careful[:3] = n, mean, n - 1.0 + (n > 100)  # variance 1.01, or about 1
        ledger.trial[:2] = n, late
        assert ledger.trusts_careful == is_trusted


@pytest.mark.slow
def test_predict_seldom_trusts_a_careful_policy_that_is_as_good_as_the_rule():
    n_trusted = sum(simulate(-2.0, seed).trusts_careful for seed in range(50))
    assert n_trusted <= 7  # 5 % are expected, and 0.3 % of such samples have more than 7
    assert all(simulate(-2.0, seed, careful=0.5).trusts_careful for seed in range(5))


@pytest.mark.parametrize("bound", ["normal", "range"])
def test_a_better_careful_policy_is_trusted(bound):
    assert simulate(-2.0, 0, bound, episodes=1000, careful=5.0).trusts_careful
    assert not simulate(-2.0, 0, bound, careful=-1.0).trusts_careful


def test_the_careful_policy_takes_the_best_of_the_feasible_actions():
    agent = zooming.Planner(env(), seed=1)
    agent.warm_start(low, 200, noise=0.5)
    trust_careful(agent.guide.ledger)
    plan, grid = agent.table.settled_policy(), agent.table.grid
    edges = grid.edges[1, : grid.bins[1] + 1] / grid.units[1]
    n_actions, n_masked = len(edges) - 1, 0
    for state in np.linspace(0.0, 1.0, 40):
        here = agent._cell(3, [state], low(3, state))[1]
        cells = slice(first := here // n_actions * n_actions, first + n_actions)
        doubt = -2 * plan.bonus[3, cells]  # the bonus of a policy is minus half a standard error
        at_least = np.where(plan.visits[3, cells] > 0, plan.q[3, cells] - doubt, -np.inf)
        needed = plan.q[3, here] + doubt[here - first]
        clear = [c for c in np.argsort(-at_least) if at_least[c] > needed and c != here - first]
        if len(clear) < 2 or clear[1] > clear[0]:
            continue
        best, second = clear[:2]
        info = {"action_high": [edges[best] - 1e-3]}  # the best action's cell is not feasible
        assert agent._cell(3, [state], agent.predict([state], state=3)[0])[1] - first == best
        played = agent.predict([state], state=3, info=info)[0]
        assert agent._cell(3, [state], played)[1] - first == second
        assert played[0] <= edges[best] - 1e-3
        n_masked += 1
    assert n_masked > 5


def test_export_refuses_a_rule_that_is_kept_and_explain_tells_it(tmp_path):
    agent = zooming.AdaptiveQ(env(), seed=0)
    agent.warm_start(half, episodes=40)
    with pytest.raises(zooming.ConfigurationError, match=r"plays the rule, and .*guide = None"):
        agent.export(tmp_path / "policy.py")
    assert not list(tmp_path.iterdir())
    rules = agent.explain(0, episodes=0)
    assert [rule.action for rule in rules] == [(0.5,)]
    policy = {}
    exec(agent.explain(episodes=0).export(tmp_path / "policy.py").read_text(), policy)
    assert policy["act"](0, [0.3]) == (0.5,)
    agent.guide.rule = None  # as after loading
    with pytest.warns(UserWarning, match="agent's own policy"):
        rules = agent.explain(0, episodes=0)
    assert agent.greedy(0, np.array([0.3])) in np.array([rule.action for rule in rules])
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
    assert (knowledge(agent), agent.guide, agent.env_rng) == (before, None, None)
    with pytest.raises(RuntimeError, match="the shop is closed"):
        agent.warm_start(Failing(5 * 10 + 3), 40, noise=0.0)
    assert agent.n_episodes == 10
    again = kind(env(), seed=0)
    again.warm_start(half, 40, noise=0.0)
    agent.guide.set_rule(half)
    agent.learn(30)
    assert agent.n_episodes == again.n_episodes


def test_a_rule_beyond_the_bounds_is_refused_and_not_clipped():
    agent = zooming.AdaptiveQ(env(), seed=0, bounds={"action": (0.0, 0.4)})
    with pytest.raises(zooming.ConfigurationError, match=r"action\[0\] = 0.5, .* widen bounds="):
        agent.warm_start(half, 40)
    assert agent.n_episodes == 0


def test_the_history_names_the_episodes_of_the_careful_policy():
    agent, history = started(zooming.Auto)
    history += agent.learn(40)
    careful = history.careful_episodes
    ledger = agent.guide.ledger
    assert ledger.of_varied[confidence.N] > 0
    assert len(careful) == ledger.of_careful[confidence.N] + ledger.of_varied[confidence.N]
    assert careful.min() > 40
    assert not set(careful) & set(history.rule_episodes)
    assert f"the careful policy played {len(careful)}" in repr(history)
    assert agent.status()["rule"] == agent.guide.status()


def test_variations_are_near_the_careful_policy_and_end_when_they_cost_too_much():
    agent = zooming.Planner(env(), seed=1)
    agent.warm_start(half, 40)
    guide, ledger = agent.guide, agent.guide.ledger
    ledger.counts[PLAYER] = VARIED
    for state in (0.1, 0.6):
        careful = guide._flat_action(2, [state], None, True)
        actions = []
        for n in range(30):
            ledger.counts[PLAYED] = 60 + n  # in the seed of the noise
            actions.append(guide.own_action(2, [state])[0])
        assert 0.05 < np.abs(np.array(actions) - careful).max() <= 0.1 + 1e-12
        assert len(set(actions)) == 30
    ledger.of_varied[:2] = (
        10.0,
        ledger.of_rule[confidence.MEAN] - 0.1,
    )  # 1.0 is lost
    for loss, is_afforded in ((0.041, True), (0.039, False)):
        ledger.loss, ledger.counts[PLAYED], ledger.counts[WARMED] = loss, 90, 40
        assert ledger._affords_variation() == is_afforded
    assert not zooming.Planner(env()).warm_start(half, 40, noise=0.0).agent.guide.ledger.varies


def test_a_rule_without_returns_gives_no_room_to_explore():
    ledger = Ledger(40)
    for _ in range(200):
        ledger.choose()
        assert ledger.player != LEARNER
        ledger.credit([0.0])


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        (3, {}, r"rule=3: give an agent, or a function rule\(step, observation\)"),
        (zooming.Median, {}, "Median is a class; give an instance"),
        (half, {"episodes": 39}, "episodes=39"),
        (half, {"confidence": 1.0}, "give a probability below 1"),
        (half, {"loss": -1.0}, "loss"),
        (half, {"margin": float("nan")}, "margin"),
        (half, {"noise": 1.5}, "noise"),
        (half, {"spread": -0.1}, "spread"),
        (half, {"bound": "student"}, "bound='student'"),
        (half, {"bonus": 1.0}, "bonus"),
        (lambda step, state: [1.5], {}, r"the rule gave \[1.5\]: .* is outside"),
        (lambda step, state: "left", {}, "the rule gave 'left': "),
        (None, {}, "rule=None: give another agent, or a function"),
        (lambda state: [0.5], {}, r"takes \(state\); give a function rule\(step, observation\)"),
    ],
)
def test_a_wrong_argument_changes_nothing(rule, options, message):
    agent = zooming.AdaptiveQ(env(), seed=0)
    before = knowledge(agent)
    with pytest.raises((zooming.ConfigurationError, TypeError), match=message):
        agent.warm_start(rule, **{"episodes": 40, **options})
    assert (knowledge(agent), agent.guide, agent.env_rng) == (before, None, None)


def test_a_second_rule_is_refused_and_the_range_must_be_known():
    agent, _ = started()
    with pytest.raises(zooming.ConfigurationError, match="a rule guides this agent already"):
        agent.warm_start(half)
    agent = zooming.Planner(gym.make(QUEUE), seed=0, reward_range=None, rewards="clip")
    with pytest.raises(zooming.ConfigurationError, match="needs the range of the rewards"):
        agent.warm_start(half, bound="range")


def simulate(gap, seed, bound="normal", episodes=400, careful=0.0):
    """Return a ledger after episodes with normal returns. The mean of the exploring agent is that
    of the rule plus `gap`, and that of the careful policy is the rule's plus `careful`. A
    variation loses 0.1."""
    generator = np.random.default_rng(seed)
    ledger = Ledger(60, bound=bound, ends=(0.0, 20.0), loss=0.5)
    while ledger.is_open and ledger.counts[PLAYED] < episodes:
        ledger.note_plan(int(np.log(1 + ledger.counts[PLAYED]) / np.log(1.1)))
        ledger.choose()
        mean = (
            10.0
            + {RULE: 0.0, NOISY: -0.3, LEARNER: gap, CAREFUL: careful, VARIED: careful - 0.1}[
                ledger.player
            ]
        )
        ledger.credit([min(20.0, max(0.0, generator.normal(mean)))])
    return ledger


def test_a_careful_policy_plays_while_it_earns_as_much():
    played = [
        np.mean([simulate(-2.0, seed, careful=gap).of_careful[confidence.N] for seed in range(5)])
        for gap in (-3.0, -0.3, 0.5)
    ]
    assert played[0] < 25 < played[1] < played[2]


@pytest.mark.slow
def test_the_rule_is_let_go_for_a_better_agent_and_seldom_for_an_equal_one():
    assert sum(not simulate(0.0, seed).is_open for seed in range(40)) <= 2
    assert sum(not simulate(-0.2, seed).is_open for seed in range(20)) <= 1
    assert sum(not simulate(1.5, seed).is_open for seed in range(10)) == 10
    assert not simulate(4.0, 0, "range").is_open
    assert simulate(0.0, 0, "range").is_open


def test_the_confidence_sequence_of_normal_samples_holds_at_all_times():
    n, runs = np.arange(1, 1001), 1000
    samples = np.random.default_rng(0).normal(size=(runs, len(n)))
    mean = samples.cumsum(axis=1) / n
    deviation = np.sqrt(np.maximum((samples**2).cumsum(axis=1) / n - mean**2, 0.0))
    width = np.array([confidence.half_width(float(k), 1.0, 0.05) for k in n])
    far = np.abs(mean[:, 10:]) > width[10:] * deviation[:, 10:]
    assert 0.005 < far.any(axis=1).mean() < 0.05
    # an interval for one sample size is not enough
    assert (np.abs(mean[:, 10:]) > 1.96 * deviation[:, 10:] / np.sqrt(n[10:])).any(
        axis=1
    ).mean() > 0.2


def test_the_confidence_sequence_of_bounded_samples_holds_for_rare_events():
    generator, missed = np.random.default_rng(0), 0
    for _ in range(30):
        numbers = np.zeros(confidence.N_NUMBERS)
        is_missed = False
        for sample in (generator.random(200) < 0.05).astype(float).tolist():
            confidence.add_sample(numbers, sample, 0.05, (0.0, 1.0))
            low, high = confidence.interval(numbers, 0.05, (0.0, 1.0), "range")
            is_missed |= not low <= 0.05 <= high
        missed += is_missed
    assert missed <= 3
    assert high < 0.5


def test_noise_stops_while_it_costs_too_much_unless_it_was_asked_for():
    for limits_noise, n_expected in ((True, 1), (False, 50)):
        ledger = Ledger(100, limits_noise=limits_noise)
        n_noisy = 0
        for _ in range(100):
            ledger.choose()
            is_noisy = ledger.player == NOISY
            n_noisy += is_noisy
            ledger.credit([-50.0 if is_noisy else 10.0])  # 60 lost: 200 episodes of 3 %
        assert n_noisy == n_expected


def test_only_episodes_played_by_hand_count_and_saving_changes_nothing(tmp_path):
    agent, _ = started(zooming.Planner)
    guide = agent.guide
    observation, _ = gym.make(QUEUE).reset(seed=0)
    before = guide.ledger.of_rule.tolist(), guide.ledger.counts[PLAYED]
    for _ in range(5):
        action = guide.act(0, observation)
    guide.update(0, observation, action, 0.5, observation)
    agent.save(tmp_path / "a.zoom")
    assert (guide.ledger.of_rule.tolist(), guide.ledger.counts[PLAYED]) == before
    agent.learn(1)
    assert guide.ledger.counts[PLAYED] == before[1] + 1
    agent.save(tmp_path / "b.zoom")
    assert zooming.load(tmp_path / "b.zoom").guide.ledger.counts[PLAYED] == before[1] + 1


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [("of_rule", 0, -5.0), ("of_rule", 2, -1.0), ("counts", PLAYED, 2**63 - 1),
     ("counts", LET_GO, 10**6)],
)  # fmt: skip
def test_statistics_that_cannot_be_are_refused(name, index, value):
    kept = ledger_state(Ledger(60))
    kept[name][index] = value
    with pytest.raises(ValueError, match="of the guide are invalid"):
        restore_ledger(Ledger(60), kept)


def test_the_careful_policy_stops_while_its_losses_exceed_what_is_allowed():
    ledger = Ledger(60, loss=0.1)
    ledger.of_rule[:3] = 100.0, 10.0, 400.0
    ledger.of_careful[:3], ledger.trial[:3] = (10.0, 9.5, 10.0), (10.0, 9.5, 10.0)  # 5 are lost
    for n_since, is_tried in ((40, False), (60, True)):
        ledger.counts[PLAYED] = n_since
        assert ledger.tries_careful() == is_tried


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
    assert agent.guide.ledger.of_careful[confidence.N] > 0
    assert len(credited) > 1
    assert max(credited) <= 3.0


def test_an_episode_has_one_careful_policy():
    agent, _ = started(zooming.Planner, loss=20.0)
    made, n_careful = gym.make(QUEUE), 0
    for _ in range(40):
        observation, _ = made.reset()
        is_over, step, plans = False, 0, set()
        while not is_over:
            action = agent.guide.act(step, observation)
            plans.add(agent.table.n_plans)
            after, reward, terminated, truncated, _ = made.step(action)
            agent.guide.update(step, observation, action, reward, after, terminated)
            observation, step, is_over = after, step + 1, terminated or truncated
        if agent.guide.plays_careful:
            n_careful += 1
            assert len(plans) == 1
    assert n_careful > 5


def test_a_range_that_auto_made_up_is_no_bound_on_returns():
    agent = zooming.Auto(Cut(), seed=0, horizon=3)
    agent.learn(20)
    with pytest.raises(zooming.ConfigurationError, match="needs the range of the rewards"):
        agent.warm_start(lambda step, state: [0.5], 40, bound="range")


class Buffers(gym.Env):
    """An environment that alternates two arrays for its observations."""

    observation_space = action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)

    def __init__(self, reuses):
        self.arrays, self.reuses, self.step_ = [np.zeros(1), np.zeros(1)], reuses, 0

    def _observe(self):
        found = self.arrays[self.step_ % 2]
        found[:] = self.np_random.random()
        return found if self.reuses else found.copy()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_ = 0
        return self._observe(), {}

    def step(self, action):
        self.step_ += 1
        return self._observe(), float(action[0]), False, False, {}


def test_an_environment_may_reuse_its_arrays():
    found = []
    for reuses in (False, True):
        agent = zooming.AdaptiveQ(Buffers(reuses), seed=0, horizon=5)
        agent.warm_start(half, 40)
        found.append(knowledge(agent))
    assert found[0] == found[1]


def test_nothing_is_risked_without_an_allowed_loss():
    agent, history = started(zooming.Planner, loss=0.0)
    history += agent.learn(60)
    assert len(history.rule_episodes) == 100


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


def test_a_portfolio_of_portfolios_learns_and_has_a_careful_policy():
    made = gym.make(QUEUE)
    inner = zooming.Portfolio([zooming.Planner(made, seed=0), zooming.AdaptiveQ(made, seed=1)])
    agent = zooming.Portfolio([inner, zooming.AdaptiveQ(made, seed=2)], seed=0)
    agent.learn(10)
    agent.warm_start(made.unwrapped.rule, 40)
    assert len(agent.learn(20).careful_episodes) > 0


def test_an_episode_by_hand_counts_when_it_is_truncated():
    agent = zooming.AdaptiveQ(Cut(), seed=0, horizon=5)
    agent.warm_start(half, 40)
    guide, state = agent.guide, np.array([0.5])
    for n_played, truncated in ((41, True), (41, False), (43, True)):
        action = guide.act(0, state)
        guide.update(0, state, action, float(action[0]), state, False, truncated)
        assert guide.ledger.counts[PLAYED] == n_played
