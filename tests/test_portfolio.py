"""A portfolio: all agents learn from every episode, in the order in which it was played."""

import contextlib
import copy
import itertools
import math
import pickle
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Drift, knowledge, same_history, stock_env
from zooming.agents.auto import portfolio as blocks
from zooming.agents.auto.returns import Choice
from zooming.agents.training.replay import Recorder
from zooming.kernels import IS_JIT_DISABLED
from zooming.kernels.loop.crossing import draw_start, play_step

pytestmark = pytest.mark.kernels
OIL = {"noise": 0.1, "start": "uniform"}


def boxes(env, seed=0, **options):
    """Two agents of boxes and a heuristic."""
    return zooming.Portfolio(
        [
            zooming.AdaptiveQ(env, seed=seed, **options),
            zooming.NetQ(env, spacing=0.3, seed=seed + 1, **options),
            zooming.Random(env, seed=seed + 2, **options),
        ],
        seed=seed,
    )


def planned(env, seed=0, **options):
    """A planner and an agent of balls."""
    return zooming.Portfolio(
        [
            zooming.Planner(env, seed=seed, **options),
            zooming.MetricQ(env, zooming.metrics.LInf(5), seed=seed + 1, **options),
        ],
        seed=seed,
    )


def oil():
    return gym.make("zooming/Oil-v0", **OIL)


# --- promises -------------------------------------------------------------------------------------


def test_a_portfolio_keeps_the_promises_of_every_agent():
    def pair(env, seed):
        return zooming.Portfolio(
            [zooming.AdaptiveQ(env, seed=seed), zooming.Random(env, seed=seed + 1)], seed=seed
        )

    checked = zooming.check_agent(pair)
    assert "the fused driver and the Python one" in " ".join(checked.kept)
    assert not any("cannot be saved" in reason for reason in checked.skipped)


@pytest.mark.skipif(IS_JIT_DISABLED, reason="without compilation, one plan takes seconds")
@pytest.mark.parametrize("make_env", [oil, stock_env])
def test_both_drivers_agree_to_the_last_bit_over_many_blocks(make_env):
    fused, python = planned(make_env()), planned(make_env())
    history = fused.learn(90, driver="fused") + fused.learn(60, driver="fused")
    assert same_history(history, python.learn(150, driver="python"))
    assert knowledge(fused) == knowledge(python)
    assert min(fused.choice.plays) > 0


def test_episodes_that_the_environment_ends_early_are_credited_once():
    agent = boxes(Drift(n_steps=2), horizon=5)
    history = agent.learn(40)
    assert sum(agent.choice.plays) == agent.n_episodes == 40
    number, mean, _ = agent.trend.windows.T
    assert (number * mean).sum() == pytest.approx(history.returns.sum())


def test_a_copy_and_a_pickle_go_on_alike():
    agent = boxes(oil())
    agent.learn(30)
    twins = [copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
    expected = agent.learn(30)
    for twin in twins:
        assert same_history(twin.learn(30), expected)
        assert knowledge(twin) == knowledge(agent)


# --- all learn, in order --------------------------------------------------------------------------


class Only(Choice):
    """Lets one agent play."""

    def next(self, leader, free=None):
        return 1, 7


def test_the_others_learn_from_what_the_player_played_step_by_step():
    env = oil()
    learner = zooming.AdaptiveQ(env, seed=0)
    agent = zooming.Portfolio([learner, zooming.Random(env, seed=1)], seed=3)
    agent.choice = Only(2)
    history = agent.learn(50)

    expected = zooming.AdaptiveQ(oil(), seed=0)

    class Watched(zooming.Random):
        def update(self, *transition, **options):
            super().update(*transition, **options)
            expected.update(*transition)

    # The environment's stream is that of the portfolio's seed, the actions' that of the player's.
    alone = Watched(oil(), seed=1)
    alone.seed = 3
    assert same_history_of_returns(history, alone.learn(50, driver="python"))
    assert knowledge(learner) == knowledge(expected)


def same_history_of_returns(one, other):
    return one.returns.tobytes() == other.returns.tobytes()


@pytest.mark.plain
def test_a_recorder_writes_down_what_a_step_by_step_loop_sees():
    env = oil().unwrapped
    crossing = env.crossing(np.random.default_rng(5))
    recorder = Recorder(env, crossing, 6, (0.0, 1.0))
    state, after, rows = np.empty(1), np.empty(1), []
    for step in range(5):
        if step in (0, 3):
            draw_start()(recorder.recording.handle, recorder.params, state)
        action = np.array([0.1 * step])
        reward = play_step()(recorder.recording.handle, state, action, step, recorder.params, after)
        rows.append((step, state[0], action[0], reward, after[0], step + 1 == env.horizon))
        state[:] = after
    twin = env.crossing(np.random.default_rng(5))
    state = np.empty(1)
    draw_start()(twin.handle, env.params, state)
    assert rows[0][1] == state[0]  # the same draws as without recording
    assert play_step()(twin.handle, state, np.zeros(1), 0, env.params, after) == rows[0][3]
    found = recorder.transitions()
    for k, row in enumerate(rows):
        assert tuple(float(np.ravel(part)[k]) for part in found) == row
    assert recorder.transitions(3).steps.tolist() == [3, 4]
    assert recorder.rewards(3).tolist() == [row[3] for row in rows[3:]]
    recorder.drop_last()
    assert recorder.n_rows == 4
    recorder.clear()
    assert len(recorder.transitions().steps) == 0


def test_an_interrupt_between_play_and_learning_loses_nothing(monkeypatch):
    agent, expected = boxes(oil()), boxes(oil())
    agent.learn(40)
    victim = agent.agents[1] if agent.player is not agent.agents[1] else agent.agents[0]
    learn, calls = victim.learn_transitions, []

    def interrupt(recorded, done):
        calls.append(len(recorded.steps))
        if len(calls) == 1:  # after a third of them
            learn(recorded.part(0, calls[0] // 3), done)
            raise KeyboardInterrupt("at a call")
        learn(recorded, done)

    monkeypatch.setattr(victim, "learn_transitions", interrupt)
    with pytest.raises(KeyboardInterrupt, match="at a call"):
        agent.learn(200)
    n_done = len(agent.interrupted_history)
    agent.learn(200 - n_done)
    expected.learn(240)
    assert calls[0] == calls[1] > 0  # the same transitions, once more
    assert knowledge(agent) == knowledge(expected)


# --- one episode at a time ------------------------------------------------------------------------


def act(agent, step, x):
    return agent.act(step, [x])


def update(agent, step, x, y, **options):
    agent.update(step, [x], [0.5], 0.5, [y], **options)


@pytest.mark.plain
def test_episodes_side_by_side_are_refused_by_name():
    agent = oil_pair()
    act(agent, 0, 0.1)
    act(agent, 0, 0.2)
    with pytest.raises(
        zooming.ConfigurationError,
        match=r"update came for step 0 and \[0.1\], but act was called at step 0 with \[0.2\]; act",
    ):
        update(agent, 0, 0.1, 0.3)
    update(agent, 0, 0.2, 0.4)
    with pytest.raises(
        zooming.ConfigurationError,
        match=r"act came for step 1 and \[0.3\], but the episode is at step 1 with \[0.4\]; act",
    ):
        act(agent, 1, 0.3)
    before = knowledge(agent)
    for refused in (lambda: update(agent, 2, 0.4, 0.5), lambda: update(agent, 1, 0.3, 0.5)):
        with pytest.raises(zooming.ConfigurationError, match="update play one episode at a"):
            refused()
    assert knowledge(agent) == before
    with pytest.raises(zooming.ConfigurationError, match="act came for step 3"):
        act(agent, 3, 0.4)
    act(agent, 1, 0.4)
    update(agent, 1, 0.4, 0.5)


@pytest.mark.plain
def test_an_episode_may_be_learned_after_it_was_played():
    late, early = oil_pair(), oil_pair()
    path = (0.1, 0.3, 0.3, 0.6, 0.2, 0.9)
    for _ in range(3):
        one, other = late.begin(), early.begin()
        for step in range(5):
            one.act([path[step]])
        for step in range(5):
            one.update(0.5, [path[step + 1]], action=[0.5])
            other.act([path[step]])
            other.update(0.5, [path[step + 1]], action=[0.5])
    assert knowledge(late) == knowledge(early)


@pytest.mark.plain
def test_a_state_that_was_rounded_to_float32_is_the_same_state():
    agent = oil_pair()
    act(agent, 0, 0.1)
    update(agent, 0, np.float32(0.1), 0.4)
    act(agent, 1, np.float32(0.4))
    update(agent, 1, 0.4, 0.7)
    with pytest.raises(zooming.ConfigurationError, match="the episode is at step 2 with"):
        act(agent, 2, 0.70001)


@pytest.mark.plain
def test_what_one_episode_can_contain_is_accepted():
    agent = oil_pair()
    n = agent.n_episodes
    for x in (0.1, 0.2, 0.1):  # an episode is abandoned by another one
        act(agent, 0, x)
    update(agent, 0, 0.1, 0.3)
    for x in (0.3, 0.6, 0.3):  # several tries at a step
        act(agent, 1, x)
    update(agent, 1, 0.3, 0.7)
    update(agent, 2, 0.7, 0.8)  # the action of someone else
    act(agent, 3, 0.8)
    update(agent, 3, 0.8, 0.9, terminated=True)
    for x in (0.2, 0.4):  # others play, several at once
        update(agent, 0, x, x)
    for x in (0.2, 0.4):
        update(agent, 1, x, x)
    assert agent.n_episodes == n + 3
    act(agent, 0, 0.5)
    update(agent, 0, 0.5, 0.6)
    total = agent.trend.n_episodes
    update(agent, 0, 0.1, 0.2)  # others begin an episode: the one before is over
    assert agent.trend.n_episodes == total + 1


def test_the_episodes_of_a_log_are_counted_if_an_interrupt_comes_between_two_agents(monkeypatch):
    agent, expected = boxes(oil()), boxes(oil())
    log = zooming.record(oil(), lambda step, state: [0.5], episodes=30, epsilon=0.5)
    learn = zooming.NetQ.learn_transitions

    def interrupt(*arguments):
        raise KeyboardInterrupt("between two agents")

    monkeypatch.setattr(zooming.NetQ, "learn_transitions", interrupt)
    with pytest.raises(KeyboardInterrupt, match="between two agents"):
        agent.learn_from(log)
    monkeypatch.setattr(zooming.NetQ, "learn_transitions", learn)
    assert agent.n_episodes == 30
    assert [one.n_episodes for one in agent.agents] == [30, 30, 30]
    expected.learn_from(log)
    assert knowledge(agent) == knowledge(expected)


# --- interrupts at any line -----------------------------------------------------------------------

TRACED = ("portfolio.py", "auto.py", "returns.py", "replay.py")


def is_interrupted_at(k, call, agent, files=TRACED):
    """Raise KeyboardInterrupt before the k-th line of a call, among the lines of these files.

    Return whether the call has so many lines.
    """
    lines = itertools.count(1)

    def trace(frame, event, argument):
        if Path(frame.f_code.co_filename).name not in files:
            return None
        if event == "line" and next(lines) == k:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(agent)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def oil_pair():
    env = oil()
    agents = [zooming.AdaptiveQ(env, seed=0), zooming.NetQ(env, spacing=0.3, seed=1)]
    agent = zooming.Portfolio(agents, seed=0)
    agent.choice = Only(2)
    agent.learn(8)
    return agent


def with_a_block_to_settle():
    """A portfolio that has played a block, of which nothing is learned or credited yet."""
    agent = oil_pair()

    def interrupt(played):
        raise KeyboardInterrupt("before settling")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks.Played, "end_block", interrupt)
        with pytest.raises(KeyboardInterrupt, match="before settling"):
            agent.learn(6, driver="fused")
    return agent


def with_an_open_episode():
    """A portfolio that is driven by hand, within an episode."""
    agent = oil_pair()
    action = agent.act(0, [0.5])
    agent.update(0, [0.5], action, 0.75, [0.25])
    return agent


@pytest.mark.parametrize(
    ("prepare", "call"),
    [
        (with_a_block_to_settle, zooming.Portfolio._settle),
        (with_an_open_episode, zooming.Portfolio._close_episode),
    ],
    ids=["settle", "close"],
)
def test_an_interrupt_at_any_line_loses_no_return_and_counts_none_twice(prepare, call):
    expected, n_lines = prepare(), 0
    n_credited = expected.trend.n_episodes
    call(expected)
    assert expected.trend.n_episodes > n_credited
    for k in itertools.count(1):
        agent = prepare()
        if not is_interrupted_at(k, call, agent):
            break
        n_lines += 1
        call(agent)
        assert knowledge(agent) == knowledge(expected), k
    assert n_lines > 10
    assert same_history(agent.learn(20), expected.learn(20))


def test_an_interrupt_between_blocks_leaves_a_run_of_so_many_episodes():
    n_lines, stopped_at = 0, set()
    for k in itertools.count(1, 13):  # every line of `settle` is tried above
        agent, expected = boxes(oil()), boxes(oil())
        agent.learn(8)
        # An agent that learns in Python may learn a transition twice: `replay` is not among these.
        if not is_interrupted_at(k, lambda one: one.learn(6), agent, TRACED[:-1]):
            break
        n_lines += 1
        agent._settle()
        stopped_at.add(agent.n_episodes)
        agent.learn(20 - agent.n_episodes)
        expected.learn(20)
        assert knowledge(agent) == knowledge(expected), k
    assert n_lines > 12
    assert {8, 14} < stopped_at


@pytest.mark.skipif(IS_JIT_DISABLED, reason="plays 150 episodes of a planner")
@pytest.mark.parametrize("is_over", [False, True], ids=["taken", "dropped"])
def test_an_interrupt_while_an_old_policy_is_taken_or_dropped_changes_no_run(is_over, tmp_path):
    agent, path = zooming.Auto(oil(), seed=0), tmp_path / "agent.zoom"
    agent.learn(200)
    n_taken = agent._n_taken
    while agent.counts[blocks.LEFT] or agent.trend.n_episodes < 2 * n_taken:
        agent.learn(1)
    while is_over and (agent.counts[blocks.LEFT] or agent._n_taken == n_taken):
        agent.learn(1)
    agent.save(path)
    expected = zooming.load(path).learn(20)
    for k in itertools.count(1):
        agent = zooming.load(path)
        assert agent.planner.table.handle is not None  # kept from now on
        if not is_interrupted_at(k, zooming.Auto._choose, agent, (*TRACED, "cells.py")):
            break
        assert same_history(agent.learn(20), expected), k
    assert k > 10


@pytest.mark.parametrize("many", [0, 40, 10**6])
def test_agents_that_do_not_play_learn_the_same_later(many, monkeypatch):
    monkeypatch.setattr(blocks, "MANY", many)  # recorded transitions until all agents must learn
    agent, expected = boxes(oil()), boxes(oil())
    agent.learn(60, driver="fused")
    for _ in range(60):
        expected.learn(1, driver="fused")  # all agents learn at the end of each call
    assert knowledge(agent) == knowledge(expected)


@pytest.mark.parametrize("driver", ["fused", "python"])
def test_a_refused_reward_is_named_and_nobody_learns_from_it(driver):
    def dynamics(state, action, step, params, rng, next_state):
        next_state[0] = rng.random()
        return 7.5 if next_state[0] > 0.97 else next_state[0]

    def make():
        box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
        env = zooming.compiled_env(dynamics, box, box, horizon=4, start=[0.5])
        wide = zooming.Random(env, reward_range=(0.0, 100.0), seed=0)
        narrow = zooming.AdaptiveQ(env, reward_range=(0.0, 1.0), seed=1)
        return zooming.Portfolio([wide, narrow], seed=2)

    agent, expected = make(), make()
    with pytest.raises(zooming.TransitionError, match=r"reward 7\.5 is outside .*\[0\.0, 1\.0\]"):
        agent.learn(100, driver=driver)
    assert agent.reward_range == (0.0, 1.0)
    with pytest.raises(zooming.TransitionError, match=r"reward 7\.5 is outside"):
        expected.learn(100, driver="python")
    for one, other in zip(agent.agents, expected.agents, strict=True):
        assert knowledge(one) == knowledge(other)
    assert agent.n_episodes == expected.n_episodes == agent.agents[1].n_episodes > 0


@pytest.mark.parametrize("driver", ["fused", "python"])
def test_a_reward_that_another_agent_refuses_is_refused_at_once(driver):
    def dynamics(state, action, step, params, rng, next_state):
        next_state[0] = rng.random()
        return 1e12 if next_state[0] > 0.98 else next_state[0]

    box = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    env = zooming.compiled_env(dynamics, box, box, horizon=4, start=[0.5])
    tree = zooming.TreeQ(env, reward_range=(0.0, 1e9), seed=1)
    agent = zooming.Portfolio([zooming.Planner(env, seed=0), tree], seed=1)
    with pytest.raises(zooming.TransitionError, match=r"reward 1000000000000\.0 is outside"):
        agent.learn(200, driver=driver)
    n_episodes = agent.n_episodes
    agent.saved_state()  # it can be saved
    with contextlib.suppress(zooming.TransitionError):
        agent.learn(1, driver=driver)
    assert agent.n_episodes > n_episodes


def test_clipped_rewards_are_counted_by_every_agent():
    env = stock_env()
    agent = boxes(env, rewards="clip", reward_range=(0.35, 0.45))
    with pytest.warns(UserWarning, match="was clipped"):
        history = agent.learn(30)
    assert agent.n_clipped == history.n_clipped > 0
    assert {one.n_clipped for one in agent.agents} == {agent.n_clipped}
    assert agent.reward_range == (0.35, 0.45)


# --- the choice -----------------------------------------------------------------------------------


def late(seen):
    """Return mean and squared standard error of the last half to three quarters of returns."""
    first = 2 ** int(math.log2(len(seen)))  # the number of the window's first return, from 1
    if len(seen) + 1 - first < first / 2:
        first //= 2
    return np.mean(seen[first - 1 :]), np.var(seen[first - 1 :]) / len(seen[first - 1 :])


def leads(played):
    """Return the lead of each agent from all of its returns."""
    mean, square = late(played[0])
    found = [(late(seen) if len(seen) > 1 else (-math.inf, 0.0)) for seen in played[1:]]
    return [0.0, *(other - mean - math.sqrt(noise + square) for other, noise in found)]


def oracle(returns, n_agents):
    """Return who plays each of 400 episodes, by a choice that keeps all returns."""
    played = [[] for _ in range(n_agents)]
    order = []
    while len(order) < 400:
        k = len(order)
        missing = [0.3 * math.sqrt(k + 1) - len(seen) for seen in played]
        if max(missing) > 0:
            chosen, block = missing.index(max(missing)), math.ceil(max(missing))
        else:
            found = leads(played) if len(played[0]) > 1 else [0.0]
            chosen, block = found.index(max(found)), max(1, int(0.05 * k))
        for _ in range(block):
            played[chosen].append(returns(chosen, len(order)))
            order.append(chosen)
    return order, played


@pytest.mark.parametrize("better", [0.0, 0.1, 0.6])
def test_the_choice_is_that_of_plain_python(better):
    noise = np.random.default_rng(int(10 * better)).random((3, 1000))

    def returns(agent, k):
        return float(noise[agent, k] + better * agent)

    choice, order = Choice(3), []
    while len(order) < 400:
        agent, block = choice.next(choice.leader())
        choice.credit(agent, [returns(agent, len(order) + i) for i in range(block)])
        order += [agent] * block
    expected, played = oracle(returns, 3)
    assert order == expected
    found = leads(played)
    assert choice.leader() == found.index(max(found))
    if better == 0.6:
        assert order.count(2) > 200  # what is clearly better plays most


def test_a_free_agent_plays_only_if_it_leads():
    choice = Choice(3)
    for _ in range(200):
        agent, block = choice.next(0, free=2)
        choice.credit(agent, [1.0] * block)
    assert choice.plays[1] > 5
    assert choice.plays[2] == 0
    assert choice.next(2, free=2)[0] == 2


def test_few_returns_that_are_alike_by_chance_do_not_end_a_hope():
    choice = Choice(2)
    assert choice.hope(2) == 0
    choice.credit(0, [1.0, 3.0] * 20)
    assert choice.hope(2) == 1  # nothing is known of it
    choice.credit(1, [1.7, 1.7, 1.7, 1.7])
    assert choice.hope(2) == 1
    choice.credit(1, [1.7] * 200)
    assert choice.hope(2) == 0


def test_in_doubt_the_first_agent_leads():
    choice = Choice(3)
    assert choice.leader() == 0
    choice.credit(0, [1.0, 2.0, 3.0, 2.0, 1.0])
    choice.credit(1, [1.5, 2.5, 3.5, 2.5, 1.5])
    assert choice.leader() == 0
    choice.credit(1, [4.0] * 20)
    assert choice.leader() == 1
    assert choice.next(1) == (2, 2)  # 0.3 sqrt(26) plays are missing
    assert choice.words(2) == "has not played"
    assert choice.words(0) == "played 5, mean return of the last half 1.50 ± 0.35"
    choice.credit(2, [1.0])
    assert choice.words(2) == "played 1, last return 1"
    choice.credit(2, [0.0] * 3)
    assert choice.next(1) == (1, 1)


def test_a_portfolio_plays_the_better_agent_and_recommends_it():
    env = gym.make("zooming/Oil-v0")
    agent = zooming.Portfolio([zooming.Random(env, seed=0), zooming.AdaptiveQ(env, seed=1)], seed=0)
    agent.learn(500)
    assert agent.choice.plays[1] > 400
    assert agent.recommended is agent.agents[1]
    observation = np.array([0.5])
    assert agent.predict(observation)[0] == agent.agents[1].predict(observation)[0]
    assert agent.value(0, observation) == agent.agents[1].value(0, observation)
    action = agent.predict(observation)[0]
    assert agent.q_value(0, observation, action) == agent.value(0, observation)
    assert agent.visits(0, observation, action) > 0
    assert len(agent.partition(0)) == len(agent.agents[1].partition(0))
    assert agent.nbytes > agent.agents[1].nbytes


# --- bad input ------------------------------------------------------------------------------------


def make_pair(**options):
    env = oil()
    return [zooming.AdaptiveQ(env, seed=0), zooming.AdaptiveQ(env, seed=1, **options)]


def test_agents_that_cannot_learn_together_are_refused_in_words():
    one, other = make_pair()
    cases = [
        ([], "give at least one agent"),
        ("Planner", "give a list of agents"),
        (one, "give a list of agents"),
        ([one, "NetQ"], "agent 1 of the portfolio is 'NetQ'"),
        ([one, zooming.NetQ], "agent 1 of the portfolio is <class"),
        ([one, other, one], "agent 2 of the portfolio is given twice"),
        ([one, zooming.AdaptiveQ(oil(), seed=0)], "have different environment objects"),
        (make_pair(horizon=3), "have horizon=5 and 3"),
        (make_pair(rewards="clip"), "have rewards='refuse' and 'clip'"),
        (make_pair(bounds={"state": (0.2, 0.8)}), "different axes"),
        (make_pair(reward_range=(2.0, 3.0)), "no reward lies in the reward ranges"),
    ]
    for agents, sentence in cases:
        with pytest.raises(zooming.ConfigurationError, match=sentence):
            zooming.Portfolio(agents, seed=0)
    with pytest.raises(zooming.ConfigurationError, match="seed="):
        zooming.Portfolio([one], seed=np.random.default_rng(0))
    with pytest.raises(zooming.ConfigurationError, match="has no option 'sed'"):
        zooming.Portfolio([one], sed=0)


def test_agents_may_weigh_axes_differently():
    agent = zooming.Portfolio(make_pair(weights={"state": 0.5}), seed=0)
    agent.learn(20)
    assert agent.n_episodes == 20


class Own(zooming.Agent):
    """An agent of a user: plays the middle."""

    def act(self, step, observation):
        return np.array([0.5])

    def update(self, *transition):
        self.last = transition

    def greedy(self, step, state):
        return np.array([0.5])


def test_an_agent_of_a_user_takes_part_in_the_python_driver():
    env = oil()
    agent = zooming.Portfolio([Own(env, seed=0), zooming.AdaptiveQ(env, seed=1)], seed=0)
    agent.learn(30)
    assert agent.agents[0].last[0] == 4
    with pytest.raises(zooming.ConfigurationError, match='driver="fused" needs'):
        agent.learn(1, driver="fused")
    with pytest.raises(zooming.ConfigurationError, match="Own cannot be saved"):
        agent.check_savable()


def test_the_first_agent_takes_the_check_of_the_portfolio_unless_its_update_is_a_users(monkeypatch):
    class Own(zooming.Planner):
        def update(self, step, *rest, **masks):
            updates.append(step)
            super().update(step, *rest, **masks)

    env, updates, checks = stock_env(), [], []
    for kind, n_checks in ((zooming.Planner, 2), (Own, 3)):  # the portfolio, its agents
        agent = zooming.Portfolio([kind(env, seed=0), zooming.Planner(env, seed=1)], seed=0)
        for one in (agent, *agent.agents):
            monkeypatch.setattr(
                one.problem, "check_transition", counted(one.problem.check_transition, checks)
            )
        checks.clear()
        agent.learn(1, driver="python")
        assert len(checks) == n_checks * agent.horizon
    assert updates == list(range(agent.horizon))


def counted(function, calls):
    """The same function, which notes its calls."""

    def called(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return called


@pytest.mark.parametrize(
    ("name", "spoil", "sentence"),
    [
        ("counts", lambda array: array - 1, "the counts of the portfolio"),
        ("counts", lambda array: np.array([9, 0, 0, 20, 0]), "the player is agent 9"),
        ("total", lambda array: array * np.nan, "not a finite number"),
        ("choice", lambda array: -array, "windows of the returns are invalid"),
        ("choice", lambda array: array - [0, 0, 1e9], "windows of the returns are invalid"),
        ("choice", lambda array: array - [0, 1e308, 0], "windows of the returns are invalid"),
        ("choice", lambda array: array[:1], "wrong shape"),
        ("windows", lambda array: array[:1], "wrong shape"),
    ],
)
def test_a_spoiled_state_is_refused(name, spoil, sentence):
    agent = boxes(oil())
    agent.learn(20)
    values, arrays = agent.saved_state()
    with pytest.raises(ValueError, match=sentence):
        boxes(oil()).restore_state(values, {**arrays, name: spoil(arrays[name])})


def test_a_file_with_an_unknown_agent_in_a_portfolio_is_refused(tmp_path):
    from zooming.agents.files.container import read_container, write_container

    agent = boxes(oil())
    agent.save(tmp_path / "whole.zoom")
    header, arrays = read_container(tmp_path / "whole.zoom")
    header["options"]["agents"][1]["agent"] = "Mine"
    header.pop("arrays", None)
    write_container(tmp_path / "other.zoom", header, arrays)
    with pytest.raises(zooming.CheckpointError, match="the class 'Mine' in a portfolio"):
        zooming.load(tmp_path / "other.zoom")
