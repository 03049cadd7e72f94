"""Rules say what a policy does, and lose what they say."""

import itertools
import re
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, Drift, box, knowledge
from zooming.app import cli
from zooming.export.regions import Regions, gather, merge, policy_regions, simplify, whole_states


def learned(kind):
    if kind == "whole":
        space = gym.spaces.Tuple([gym.spaces.Discrete(5, start=-1), box((0.0, 3.0))])
        agent = zooming.AdaptiveQ(
            Boxes(space, gym.spaces.Discrete(7)), horizon=2, ordered=True, seed=3
        )
        rng = np.random.default_rng(4)
        for k in range(1500):
            state = (int(rng.integers(-1, 4)), rng.uniform(0, 3, 1))
            action = agent.act(k % 2, state)
            reward = 1.0 - abs(action / 6 - (state[0] + 1 + state[1][0]) / 7)
            agent.update(k % 2, state, action, float(np.clip(reward, 0, 1)), state)
        return agent
    env = gym.make("zooming/Ambulance-v0", horizon=3)
    if kind == "net":
        agent = zooming.NetQ(env, spacing=0.15, seed=1)
    elif kind == "planner":
        agent = zooming.Planner(env, seed=1)
    elif kind == "balls":
        agent = zooming.MetricQ(env, zooming.metrics.LInf(33), seed=1)
    elif kind == "heuristic":
        return zooming.Median(env, seed=1)
    else:
        agent = zooming.AdaptiveQ(env, seed=0)
    agent.learn(60 if kind == "planner" else 1500)
    return agent


@pytest.fixture(scope="module")
def agents():
    kinds = ("boxes", "net", "whole", "planner", "balls", "heuristic")
    return {kind: learned(kind) for kind in kinds}


def rows(agent, states):
    """Return flat states as observations."""
    return agent.axes.states.shaped(states)


def predicted(agent, policy, step, states):
    found = policy.predict(rows(agent, states), state=np.full(len(states), step))[0]
    return agent.axes.actions.batch(found, "action")[0]


@pytest.mark.parametrize("kind", ["boxes", "net", "whole"])
def test_all_rules_together_are_the_policy(agents, kind):
    agent = agents[kind]
    found = agent.explain(n_rules=None)
    assert found.loss is None
    assert "the whole policy, exactly" in str(found)
    rng, n = np.random.default_rng(0), agent.axes.n_state
    for step in range(agent.horizon):
        own = [rule for rule in found if rule.step == step]
        assert len(own) == found.n_regions[step]
        low, high = agent.axes.low[:n], agent.axes.high[:n]
        states = rng.uniform(low, high, (400, n))
        for i, faces in enumerate(zip(*(rule.low for rule in own), strict=True)):
            inner = [x for face in faces if np.isfinite(face) for x in (face, face - 1e-9)]
            states[: len(inner), i] = inner[: len(states)]
        whole = whole_states(agent.axes)
        states[:, whole] = np.rint(states[:, whole])
        states = np.clip(states, low, high)
        assert (
            predicted(agent, found.policy, step, states) == predicted(agent, agent, step, states)
        ).all()
        inside = [
            (states >= np.array(rule.low)).all(1) & (states < np.array(rule.high)).all(1)
            for rule in own
        ]
        assert (np.sum(inside, axis=0) == 1).all()  # they cover everything, and do not overlap


@pytest.mark.parametrize("kind", ["boxes", "net"])
def test_each_visit_is_counted_once(agents, kind):
    agent = agents[kind]
    for step in range(agent.horizon):
        regions = policy_regions(step, agent)
        found = gather(agent, step, regions, regions.actions)
        assert found.total.sum() == pytest.approx(agent.n_episodes)
        assert (found.visits <= found.total + 1e-9).all()
    rules = agent.explain(1, n_rules=None)
    assert sum(rule.visits / rule.share for rule in rules if rule.share) == pytest.approx(
        agent.n_episodes, rel=0.02
    )
    point = regions.points[0]
    assert found.q_value[0] == pytest.approx(agent.value(step, point))


def brute_force(points, faces, actions, weights):
    """Return the least cost of two boxes with an action each, by trying all of them."""
    best = np.inf
    for axis, chosen in faces:
        left = points[:, axis] < chosen
        cost = sum(
            min((weights[side] * np.abs(actions[side] - a).sum(axis=1)).sum() for a in actions)
            for side in (left, ~left)
        )
        best = min(best, cost)
    return best


def test_the_first_cut_is_the_best_one():
    rng = np.random.default_rng(0)
    borders = np.arange(6.0)
    low = np.array(list(itertools.product(borders, borders[:4])))
    for trial in range(5):
        actions = rng.integers(0, 9, (len(low), 2)) / 8
        weights = rng.random(len(low))
        outer = np.where(low == 0, -np.inf, low), np.where(low == low.max(0), np.inf, low + 1)
        regions = Regions(*outer, low + 0.5, actions, low[0], low[-1] + 1, True)
        faces = [(0, x) for x in borders[1:]] + [(1, x) for x in borders[1:4]]
        first, last, chosen = simplify(regions, actions, weights, 2, 0.0)
        assert len(first) == 2
        left = ((regions.points >= first[0]) & (regions.points < last[0])).all(axis=1)
        cost = sum(
            (weights[side] * np.abs(actions[side] - a).sum(axis=1)).sum()
            for side, a in zip((left, ~left), np.unique(actions, axis=0)[chosen], strict=True)
        )
        assert cost == pytest.approx(brute_force(regions.points, faces, actions, weights)), trial
        assert len(simplify(regions, actions, weights, 5, 0.0)[0]) <= 5
        same = replace(regions, actions=actions[:1].repeat(24, 0))
        assert len(simplify(same, actions, weights, 5, 0.0)[0]) == 1


def test_boxes_with_one_action_are_one_box_however_they_lie():
    low = np.array([[0, 0], [2, 0], [1, 2], [0, 1], [1, 1]], float)  # no two make up a box
    high = np.array([[2, 1], [3, 2], [3, 3], [1, 3], [2, 2]], float)
    low[low == 0], high[high == 3] = -np.inf, np.inf
    assert [len(part) for part in merge(low, high, np.zeros(5, int))] == [1, 1, 1]
    assert len(merge(low, high, np.arange(5))[0]) == 5


def test_the_loss_is_what_the_rules_lose(agents):
    agent = agents["boxes"]
    before = knowledge(agent)
    found = agent.explain(n_rules=2, episodes=60, seed=5)
    known = [rule for rule in found if rule.sure != "unvisited"]
    assert all(sum(rule.step == step for rule in known) <= 2 for step in range(3))

    def returns(policy):
        return zooming.evaluate(policy, agent.env, 60, seed=5).returns

    lost = returns(agent) - returns(found.policy)
    assert lost.any()
    assert found.loss.mean == pytest.approx(lost.mean())
    assert found.loss.low < found.loss.mean < found.loss.high
    assert f"They lose {lost.mean():.3f} (" in str(found)
    assert knowledge(agent) == before
    again = learned("boxes")
    again.explain(1, episodes=2)
    assert again.learn(20).returns.tolist() == agent.learn(20).returns.tolist()


@pytest.mark.parametrize("kind", ["planner", "balls", "heuristic"])
def test_a_policy_without_regions_is_asked_on_a_grid_and_the_text_says_so(agents, kind):
    agent = agents[kind]
    found = agent.explain(1, n_rules=4, episodes=10)
    assert found.is_sampled
    assert sum(rule.sure != "unvisited" for rule in found) <= 4
    assert "evaluated on a grid of states" in str(found)
    assert found.loss is not None
    assert all((rule.sure == "unknown") == (kind != "planner") for rule in found)
    close = predicted(agent, found.policy, 1, np.array([[0.3], [0.7]]))
    assert np.abs(close - predicted(agent, agent, 1, np.array([[0.3], [0.7]]))).max() < 0.3


def test_words_tables_and_pages(agents):
    found = agents["boxes"].explain(1, n_rules=3, episodes=10)
    text = str(found)
    assert "step 1, 3 rules" in text
    assert f"below {found[0].high[0]:.4g}" in text
    assert found._repr_html_().count("<tr>") == 4
    several = agents["boxes"].explain(n_rules=2, episodes=0)
    assert "was not measured: episodes=0" in str(several)
    boxes = agents["whole"].explain(0, n_rules=4, episodes=0)
    assert "up to" in str(boxes)


class Shop(gym.Env):
    """A category is the state. Each category has a best action."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(3)
    best = (2, 0, 2, 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.kind = int(self.np_random.integers(4))
        return self.kind, {}

    def step(self, action):
        reward = float(action == self.best[self.kind])
        return self.reset()[0], reward, True, False, {}


def test_categories_are_named_by_value():
    agent = zooming.AdaptiveQ(Shop(), horizon=1, seed=0)
    agent.learn(400)
    text = str(agent.explain(0, episodes=0))
    assert [f"= {kind} " in text for kind in range(4)] == [True] * 4
    assert "up to" not in text
    few = str(agent.explain(0, n_rules=2, episodes=0))
    assert re.search(r"in \{\d, \d", few)
    ordered = zooming.AdaptiveQ(Shop(), horizon=1, ordered=True, seed=0)
    ordered.learn(400)
    assert "up to" in str(ordered.explain(0, episodes=0))


@pytest.mark.parametrize("kind", ["Auto", "AdaptiveQ"])
def test_after_one_episode_the_rule_of_all_states_is_a_guess_and_was_visited(kind):
    agent = getattr(zooming, kind)(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(1)
    assert [rule.sure for rule in agent.explain(episodes=0)] == ["guess"] * 5


class Part(gym.Env):
    """Two of four categories and a fifth of the stock occur. The best order is the stock."""

    observation_space = gym.spaces.Tuple([gym.spaces.Discrete(4), gym.spaces.Discrete(40)])
    action_space = gym.spaces.Discrete(8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = int(self.np_random.integers(8))
        return (int(self.np_random.choice([0, 2])), self.stock), {}

    def step(self, action):
        reward = 44_520.0 - 1_000.0 * abs(action - self.stock)
        return self.reset()[0], reward, True, False, {}


@pytest.mark.parametrize("kind", ["AdaptiveQ", "NetQ", "Planner"])
def test_rules_name_unvisited_states_and_the_actions_that_they_stand_for(kind):
    options = {} if kind == "Planner" else {"reward_range": (3e4, 5e4)}
    ordered = ["state[1]", "action"]
    agent = getattr(zooming, kind)(Part(), horizon=1, ordered=ordered, seed=0, **options)
    assert "has not learned yet: every action is a guess" in str(agent.explain(0))
    agent.learn(400)
    for n_rules in (1, 3, None):
        rules = agent.explain(0, n_rules=n_rules, episodes=0)
        states = np.array([(a, b) for a in range(4) for b in range(40)], float)
        inside = np.array([(states >= one.low) & (states < one.high) for one in rules]).all(2)
        assert (inside.sum(axis=0) == 1).all()
        played = predicted(agent, agent, 0, states)[:, 0]
        rows = [rules[i].action[0] for i in inside.argmax(axis=0)]
        assert predicted(agent, rules.policy, 0, states)[:, 0].tolist() == rows
        for rule, own in zip(rules, inside, strict=True):
            occurs = np.isin(states[own, 0], (0, 2)) & (states[own, 1] < 8)
            if not occurs.any():
                assert rule.sure in ("unvisited", "guess")
                continue
            assert rule.sure != "unvisited"
            assert np.isin(states[own, 0], (0, 2)).all()
            assert states[own, 1].max() < 20  # a cell or ball may reach beyond what occurs
            assert rule.least[0] <= played[own][occurs].min()
            assert played[own][occurs].max() <= rule.most[0]
    assert re.search(r"= 0 .*4[34],\d{3} .*= [13] .* 0 +unvisited", str(rules), re.S)
    one = agent.explain(0, n_rules=1, episodes=0)
    assert f"{one[0].action[0]:.0f} ({one[0].least[0]:.0f} to {one[0].most[0]:.0f})" in str(one)


def test_what_cannot_be_explained_is_refused(agents):
    agent = agents["boxes"]
    refusals = [
        (lambda: agent.explain(3), zooming.TransitionError, "step 3 is outside the episode"),
        (lambda: agent.explain(n_rules=0), zooming.ConfigurationError, "n_rules=0: give"),
        (lambda: agent.explain(episodes=1), zooming.ConfigurationError, "at least 2, or 0"),
        (lambda: zooming.explain("a"), zooming.ConfigurationError, "agent='a' is not an agent"),
    ]
    for ask, kind, message in refusals:
        with pytest.raises(kind, match=message):
            ask()


def test_the_command_prints_the_rules(agents, tmp_path, capsys):
    file = str(tmp_path / "boxes.zoom")
    agents["boxes"].save(file)
    ask = ["explain", file, "--rules", "3", "--episodes", "5"]
    cli.main([*ask, "--step", "1"])
    assert "step 1, 3 rules" in capsys.readouterr().out
    zooming.AdaptiveQ(Drift(), horizon=3, seed=0).save(tmp_path / "own.zoom")
    cli.main(["explain", str(tmp_path / "own.zoom"), "--rules", "1"])
    assert "environment Drift; to measure, name it: --env module:Id" in capsys.readouterr().out
    for wrong, message in (
        (["--rules", "0"], "--rules 0: give"),
        (["--set", "horizon=3"], "--set requires --env"),
    ):
        with pytest.raises(SystemExit, match=re.escape(message)) as stop:
            cli.main([*ask, *wrong])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err
