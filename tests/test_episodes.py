"""Many episodes at once: `agent.begin`, and what a sequence of updates decides."""

import copy

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import AGENTS, KINDS, Drift, knowledge
from zooming.agents.auto.portfolio import LEFT, PLAYER
from zooming.agents.base import episodes
from zooming.agents.base.episodes import Episode
from zooming.agents.files.checkpoints import to_bytes
from zooming.kernels.plans.layout import PLAYED
from zooming.lab.relatives.single_partition_q import SinglePartitionQ

pytestmark = pytest.mark.kernels


def oil(**options):
    return gym.make("zooming/Oil-v0", noise=0.05, **options)


def pair(env, seed=0):
    return zooming.Portfolio(
        [zooming.NetQ(env, spacing=0.3, seed=1), zooming.AdaptiveQ(env, seed=2)], seed=seed
    )


ALL = {**AGENTS, "Portfolio": pair}
if "Planner" in AGENTS:
    ALL |= {"Auto": zooming.Auto, "TreeQ": zooming.TreeQ}


def shuffled(agent, n_episodes, side_by_side, acts=None, seed=0):
    """Play episodes side by side in a random order. Return the calls that were made.

    With `acts`, repeat these calls without `act`.
    """
    rng, found, open_ones = np.random.default_rng(seed), [], {}
    if acts is not None:
        for number, call in acts:
            if call is None:
                _, open_ones[number] = episodes.begin(agent)
            elif isinstance(call, tuple):
                episodes.learn_in(agent, open_ones[number], *call, None)
            else:
                episodes.end(agent, open_ones[number], call)
        return acts
    states = {}
    while n_episodes or open_ones:
        if n_episodes and len(open_ones) < side_by_side:
            episode = agent.begin()
            open_ones[episode.number], states[episode.number] = episode, rng.random(1)
            found.append((episode.number, None))
            n_episodes -= 1
            continue
        number = int(rng.choice(list(open_ones)))
        episode, state = open_ones[number], states[number]
        step, action, after, reward = episode.step, episode.act(state), rng.random(1), rng.random()
        is_over = rng.random() < 0.1
        episode.update(reward, after, is_over)
        found.append((number, (step, state, action, reward, after, is_over)))
        states[number] = after
        if episode.is_over:
            found.append((number, episode.total))
            del open_ones[number]
    return found


@pytest.mark.parametrize("name", list(ALL))
def test_the_same_updates_in_the_same_order_give_the_same_bits(name):
    played, told = (ALL[name](oil(), seed=3) for _ in range(2))
    calls = shuffled(played, 30, 7)
    shuffled(told, 0, 0, calls)
    assert knowledge(played) == knowledge(told)
    one, other = played.begin(), told.begin()
    for step in range(5):
        assert np.array_equal(one.act([0.1 * step]), other.act([0.1 * step]))


@pytest.mark.parametrize("name", list(ALL))
def test_act_changes_nothing_and_repeats(name):
    agent = ALL[name](oil(), seed=3)
    shuffled(agent, 10, 3)
    episode, before = agent.begin(), knowledge(agent)
    actions = [episodes.act_in(agent, episode.play, 0, [0.4], None) for _ in range(3)]
    batch = agent.act_batch(np.arange(5), np.full((5, 1), 0.4))
    assert np.array_equal(agent.act_batch(np.arange(5), np.full((5, 1), 0.4)), batch) or (
        name == "Random"
    )
    assert all(np.array_equal(one, actions[0]) for one in actions)
    assert knowledge(agent) == before
    assert batch.shape == (5, 1)


@pytest.mark.parametrize("name", list(ALL))
def test_a_loaded_agent_begins_the_same_episodes(name, tmp_path):
    agent = ALL[name](oil(), seed=3)
    shuffled(agent, 12, 4)
    agent.save(tmp_path / "agent.zoom")
    loaded = zooming.load(tmp_path / "agent.zoom")
    assert shuffled(agent, 12, 4, seed=1) == shuffled(loaded, 12, 4, seed=1)
    assert knowledge(agent) == knowledge(loaded)


@pytest.mark.skipif("Planner" not in AGENTS, reason="without compilation, a plan takes seconds")
def test_a_plan_changes_between_episodes_and_not_within():
    agent = zooming.Planner(oil(), seed=0)
    shuffled(agent, 30, 1)
    old = agent.begin()
    before = [
        episodes.act_in(agent, old.play, step, [0.1 * step], None).tolist() for step in range(5)
    ]
    n_plans = agent.status()["plans"]
    shuffled(agent, 60, 5, seed=1)
    assert agent.status()["plans"] > n_plans
    now = agent.begin()
    after = [
        episodes.act_in(agent, now.play, step, [0.1 * step], None).tolist() for step in range(5)
    ]
    assert before != after
    assert before == [old.act([0.1 * step]).tolist() for step in range(5)]


@pytest.mark.skipif("Planner" not in AGENTS, reason="without compilation, a plan takes seconds")
def test_episodes_that_begin_together_are_not_all_played_by_the_agent_that_lacks_plays(tmp_path):
    agent = zooming.Auto(oil(), seed=0)
    play_round(agent, 16)
    opened = [agent.begin() for _ in range(16)]
    assert sum(one.play.drawn["player"] == 1 for one in opened) == 2  # 0.3 sqrt(17), rounded up
    agent.save(tmp_path / "agent")
    again = zooming.load(tmp_path / "agent", oil())
    assert again.choice.begun.tolist() == agent.choice.begun.tolist() == [30, 2]


@pytest.mark.skipif("Planner" not in AGENTS, reason="without compilation, a plan takes seconds")
def test_a_round_of_episodes_makes_one_plan_and_its_returns_count():
    agent = zooming.Planner(oil(), seed=0)
    play_round(agent, 16)
    before = agent.table.n_plans
    play_round(agent, 16)
    assert agent.table.n_plans == before + 1
    assert agent.table.core["plays"][0] == 16


def play_round(agent, n):
    """Play n episodes that begin and end together."""
    opened = [agent.begin() for _ in range(n)]
    for step in range(5):
        for k, episode in enumerate(opened):
            action = episode.act([(0.1 * k + 0.2 * step) % 1.0])
            episode.update(1.0 - abs(float(action[0]) - 0.4), action)


def test_returns_are_credited_to_the_agent_that_played():
    agent = pair(oil())
    shuffled(agent, 40, 1)
    counts = agent.choice.plays
    one, agent.counts[LEFT] = agent.begin(), 1
    agent.counts[PLAYER] = 1 - one.play.drawn["player"]
    other = agent.begin()
    assert other.play.drawn["player"] != one.play.drawn["player"]
    for episode in (one, other, one, other):
        episode.act([0.5])
        episode.update(0.5, [0.5])
    other.act([0.5])
    other.update(0.5, [0.5], terminated=True)
    counts[other.play.drawn["player"]] += 1
    assert agent.choice.plays == counts
    one.abandon()
    assert agent.choice.plays == counts


@pytest.mark.skipif("Planner" not in AGENTS, reason="without compilation, a plan takes seconds")
def test_the_numbers_of_a_rule_are_learned_from_its_own_returns_side_by_side():
    rule = (lambda step, state, level: [level]), {"level": (0.0, 1.0)}
    agent, by_rule = zooming.Auto(oil(), rule=rule, seed=0), []
    for _ in range(10):
        opened = [agent.begin() for _ in range(8)]
        by_rule += [one for one in opened if "place" in one.play.drawn["own"]]
        for step in range(5):
            for episode in opened:
                action = episode.act([0.1 * step])
                if episode in by_rule:
                    assert action == pytest.approx(episode.play.drawn["own"]["place"])
                episode.update(0.5 + 0.1 * float(action[0]), [0.5])
    assert agent.rule.search.n_told == len(by_rule) > 0


@pytest.mark.parametrize("name", KINDS)
def test_calls_that_do_not_fit_are_refused_by_name(name):
    agent = AGENTS[name](oil(), seed=0)
    episode = agent.begin()
    with pytest.raises(zooming.ConfigurationError, match=r"no action waits .*; call act first"):
        episode.update(0.5, [0.5])
    for _ in range(5):
        episode.act([0.5])
    with pytest.raises(zooming.ConfigurationError, match="all 5 steps were played; call update"):
        episode.act([0.5])
    before = knowledge(agent)
    with pytest.raises(zooming.TransitionError, match=r"next state\[0\] = 7"):
        episode.update(0.5, [7.0])
    with pytest.raises(zooming.ConfigurationError, match="terminated='no': give True or False"):
        episode.update(0.5, [0.5], "no")
    with pytest.raises(zooming.ConfigurationError, match="truncated=2: give True or False"):
        episode.update(0.5, [0.5], False, 2)
    assert knowledge(agent) == before
    for _ in range(5):
        episode.update(0.5, [0.5])
    assert (agent.n_episodes, episode.total, episode.is_over) == (1, 2.5, True)
    with pytest.raises(zooming.ConfigurationError, match=r"which is over; agent.begin\(\)"):
        episode.act([0.5])
    with pytest.raises(zooming.TransitionError, match=r"state\[0\] = nan"):
        agent.begin().act([np.nan])
    with pytest.raises(zooming.ConfigurationError, match="1 steps were given for 2 observations"):
        agent.act_batch([0], [[0.5], [0.5]])
    with pytest.raises(zooming.errors.SpaceError, match=r"^zooming/Oil-v0: observation has shape"):
        agent.act_batch(np.zeros(1000, int), np.zeros((1000, 2)))
    with pytest.raises(zooming.ConfigurationError, match=r"\[0\.5\] is not one whole step per"):
        agent.act_batch([0.5], [[0.5]])


def test_the_action_that_was_played_is_learned():
    agent = zooming.AdaptiveQ(oil(), seed=0)
    for _ in range(20):
        episode = agent.begin()
        episode.act([0.5])
        episode.update(0.5, [0.5], action=[0.9])
    assert agent.visits(0, [0.5], [0.9]) > agent.visits(0, [0.5], [0.1])


def test_arrays_that_are_filled_anew_are_copied():
    agent, state = zooming.AdaptiveQ(oil(), seed=0), np.array([0.1])
    for _ in range(30):
        episode = agent.begin()
        episode.act(state)
        state[:] = 0.9
        episode.update(0.5, state)
        state[:] = 0.1
    assert agent.visits(0, [0.1], [0.5]) > agent.visits(0, [0.9], [0.5])


def test_an_agent_that_plays_one_episode_at_a_time_says_so():
    agent = SinglePartitionQ(oil(), seed=0)
    episode = agent.begin()
    with pytest.raises(zooming.ConfigurationError, match="SinglePartitionQ plays one episode at"):
        agent.begin()
    episode.abandon()
    agent.begin()


def test_a_rule_guides_episodes_until_it_is_let_go():
    agent = zooming.AdaptiveQ(oil(), seed=0)
    agent.warm_start(lambda step, state: [0.25], episodes=40)
    episode = agent.begin()
    assert episode.play.drawn["rule"]
    n = agent.guide.ledger.n_returns
    for _ in range(5):
        assert episode.act([0.5]) == [0.25]
        episode.update(0.5, [0.5])
    assert agent.guide.ledger.n_returns == n + 1


def test_a_class_of_ones_own_plays_many_episodes():
    class Middle(zooming.Agent):
        def act(self, step, observation, *, info=None):
            return self.axes.shaped_action(self.greedy(step, observation))

        def update(self, *transition, **info):
            pass

        def greedy(self, step, state):
            return np.array([0.5])

    agent = Middle(oil(), seed=0)
    shuffled(agent, 6, 3)
    assert agent.n_episodes == 6


# --- vector environments --------------------------------------------------------------------------

AMBULANCE = "zooming/Ambulance-v0"


def envs(mode=gym.vector.AutoresetMode.NEXT_STEP, name=AMBULANCE, n=4, how="sync", **options):
    kept = {} if mode is None else {"vector_kwargs": {"autoreset_mode": mode}}
    return gym.make_vec(name, num_envs=n, vectorization_mode=how, **kept, **options)


@pytest.mark.parametrize("name", ["AdaptiveQ", "Portfolio", "Auto", "MetricQ", "Median"])
@pytest.mark.parametrize("mode", gym.vector.AutoresetMode)
def test_a_vector_environment_makes_the_updates_that_can_be_made_by_hand(name, mode, monkeypatch):
    if name not in ALL:
        pytest.skip("without compilation, a plan takes seconds")
    vector, hand = (ALL[name](gym.make(AMBULANCE), seed=3) for _ in range(2))
    calls, learn, begin, end = [], episodes.learn_in, episodes.begin, episodes.end
    numbers = {}

    def begins(agent):
        number, play = begin(agent)
        numbers[id(play)] = number, play
        calls.append((number, None))
        return number, play

    def learns(agent, play, *call):
        calls.append((numbers[id(play)][0], call[:-1]))
        learn(agent, play, *call)

    def ends(agent, play, total):
        calls.append((numbers[id(play)][0], total))
        end(agent, play, total)

    with monkeypatch.context() as patch:
        patch.setattr(episodes, "begin", begins)
        patch.setattr(episodes, "learn_in", learns)
        patch.setattr(episodes, "end", ends)
        history = vector.learn(30, env=envs(mode))
    assert len(history) == vector.n_episodes == 30
    assert history.n_steps.tolist() == [5] * 30
    shuffled(hand, 0, 0, calls)
    assert knowledge(vector) == knowledge(hand)
    if hasattr(vector, "table"):  # the other ones learn from who played, which no log tells
        log = log_of([(number, *call[:-1]) for number, call in calls if isinstance(call, tuple)])
        logged = ALL[name](gym.make(AMBULANCE), seed=3)
        assert logged.learn_from(log).n_learned == 150
        logged.run.n_begun = 30
        assert to_bytes(logged) == to_bytes(hand) == to_bytes(vector)


def log_of(calls):
    """Return updates as a log: episode by episode, with the order in which they were made."""
    rows = [[k, *call] for k, call in enumerate(calls)]
    order, episode, step, state, action, reward, after = zip(
        *sorted(rows, key=lambda row: row[1:3]), strict=True
    )
    points = {"state": state, "action": action, "next_state": after}
    columns = {f"{name}_0": np.array(one).ravel() for name, one in points.items()}
    return {**columns, "episode": episode, "step": step, "reward": reward, "desk_event": order}


def test_episodes_of_a_vector_environment_are_learned_when_they_end_last_steps_first(monkeypatch):
    agent, steps = zooming.AdaptiveQ(oil(), seed=0), []
    update = agent.update

    def note(step, *transition, **masks):
        steps.append(step)
        update(step, *transition, **masks)

    monkeypatch.setattr(agent, "update", note)
    agent.learn(30, env=gym.make_vec("zooming/Oil-v0", num_envs=3, vectorization_mode="sync"))
    opened = [1] * 12 + [2] * 6 + [3] * 2  # one more for every twelve that have ended
    rounds = [(n, step) for n in opened for step in (4, 3, 2, 1, 0)]
    assert steps == [step for n, step in rounds for _ in range(n)]


@pytest.mark.parametrize("name", ["AdaptiveQ", "NetQ"])
def test_an_action_under_way_looks_worse_to_others_by_the_bonus_of_a_visit(name):
    agent = ALL[name](gym.make("zooming/Oil-v0"), seed=0, bonus=1.0)
    for _ in range(200):  # until Q falls by no more than the bonus
        episode = agent.begin()
        for step in range(5):
            episode.act([0.5])
            episode.update(0.0, [0.5], step=step)
    opened, before = [agent.begin() for _ in range(12)], knowledge(agent)
    found = [float(one.act([0.5])[0]) for one in opened]
    assert knowledge(agent) == before  # Q is lowered during the call only
    balls = agent.partition(0)
    here = (balls.low[:, 0] <= 0.5) & (balls.high[:, 0] > 0.5)
    values, visits = balls.q_value[here], balls.n_visits[here]
    order = np.argsort(balls.low[here, 1])
    for place in order[np.searchsorted(balls.low[here, 1][order], found, "right") - 1]:
        assert values[place] == pytest.approx(values.max(), abs=1e-12)
        visits[place] += 1
        values[place] -= 6.0 / (5.0 + visits[place]) * 1.0 / visits[place] ** 0.5
    assert len(set(found)) > 2  # one by one, each would play the same ball
    opened.clear()
    assert agent.run.plays == {}
    assert agent.q_value(0, [0.5], agent.begin().act([0.5])) == balls.q_value[here].max()


def test_an_exact_bonus_of_a_play_under_way_is_that_of_its_next_visit():
    """It was counted as 1 / sqrt(t) of a reward, and the bonus spans all rewards to come."""
    agent = zooming.AdaptiveQ(oil(), bonus=zooming.bonuses.Exact(delta=0.1, lipschitz=0.1), seed=0)
    agent.learn(3000)
    before = knowledge(agent)
    opened = [agent.begin() for _ in range(60)]
    found = [float(one.act([0.5])[0]) for one in opened]
    assert knowledge(agent) == before
    core, table, balls = agent.table.core, agent.table, agent.partition(0)
    here = np.flatnonzero((balls.low[:, 0] <= 0.5) & (balls.high[:, 0] > 0.5))
    here = here[np.argsort(balls.low[here, 1])]
    values, visits = balls.q_value[here], balls.n_visits[here].astype(float)
    squares, widths, bounds = table.stats[table.boxes(0)[0][here], :3].T.copy()
    reach = core["bonus"][0] * (4 + core["reward_spread"][0])
    for action in found:
        place = np.searchsorted(balls.low[here, 1], action, "right") - 1
        assert values[place] == pytest.approx(values.max(), abs=1e-9)
        visits[place] += 1
        rate = 6.0 / (5.0 + visits[place])
        squares[place] = (1 - rate) ** 2 * squares[place] + rate**2
        across = balls.high[here[place], 1] - balls.low[here[place], 1]
        widths[place] = (1 - rate) * widths[place] + rate * across
        wide = reach * squares[place] ** 0.5 + 0.1 * widths[place]
        values[place] -= wide - (1 - rate) * bounds[place]
        bounds[place] = wide
    assert len(set(found)) > 10


@pytest.mark.skipif("Planner" not in AGENTS, reason="without compilation, a plan takes seconds")
@pytest.mark.parametrize("name", ["Planner", "Auto"])
def test_a_play_under_way_lowers_the_bonus_of_its_cell_as_if_it_were_counted(name):
    agent = ALL[name](oil(), seed=0)
    shuffled(agent, 20, 4)
    opened = [agent.begin() for _ in range(12)]
    before, alone = knowledge(agent), []
    for one in opened:
        alone.append(episodes.act_in(agent, one.play, 0, [0.5], None))
        one.play.waiting.clear()
    together = [one.act([0.5]) for one in opened]
    assert knowledge(agent) == before
    assert not np.array_equal(together, alone)
    twin = copy.deepcopy(agent)  # without open episodes
    plan = getattr(twin, "planner", twin).table.plan
    for k, one in enumerate(opened):
        play = episodes.Play(one.play.seed, one.play.drawn)
        assert np.array_equal(episodes.act_in(twin, play, 0, [0.5], None), together[k])
        cell = one.play.waiting[0][2]
        plan.played[cell] += 1.0 / (PLAYED + plan.visits[0, cell])


def test_the_steps_of_an_episode_are_learned_in_any_order():
    agent = zooming.AdaptiveQ(oil(), seed=0)
    episode = agent.begin()
    for step in range(5):
        episode.act([0.1 * step])
    for step in (4, 2, 0, 3):
        episode.update(0.1 * step, [0.1], step=step)
        assert not episode.is_over
    with pytest.raises(zooming.ConfigurationError, match="step=3: only steps 1 wait for it"):
        episode.update(0.5, [0.1], step=3)
    episode.update(0.1, [0.1])
    assert (episode.is_over, agent.n_episodes) == (True, 1)
    assert episode.total == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["AdaptiveQ", "Portfolio"])
@pytest.mark.process
def test_synchronous_and_asynchronous_environments_give_the_same_run(name):
    found = []
    for how in ("sync", "async"):
        env = envs(how=how)
        agent = ALL[name](gym.make(AMBULANCE), seed=3)
        found.append((agent.learn(20, env=env).returns.tolist(), knowledge(agent)))
        env.close()
    assert found[0] == found[1]


def test_episodes_that_end_early_or_are_cut_by_the_horizon_begin_anew():
    agent = zooming.AdaptiveQ(gym.make(AMBULANCE), horizon=3, seed=0)
    for mode in gym.vector.AutoresetMode:
        history = agent.learn(10, env=envs(mode))
        assert history.n_steps.tolist() == [3] * 10
    assert agent.n_episodes == 30
    assert agent.run.was_cut


class Ends(Drift):
    """Some episodes end early, and the info of each state allows half of the actions."""

    def step(self, action):
        assert (action >= self.low - 1e-12).all()
        state, reward, is_over, *_ = super().step(action)
        is_cut = state[0] > 0.6 and state[1] > 0.5
        return state, reward, bool(is_over or state[0] > 0.6) and not is_cut, is_cut, self.info()

    def reset(self, **options):
        return super().reset(**options)[0], self.info()

    def info(self):
        self.low = np.full(2, 0.5 * (self.state[1] > 0.5))
        return {"action_low": self.low}


@pytest.mark.parametrize("mode", gym.vector.AutoresetMode)
def test_masks_and_early_ends_of_each_environment_are_kept_apart(mode, monkeypatch):
    env = gym.vector.SyncVectorEnv([Ends] * 3, autoreset_mode=mode, copy=False)
    agent, cut, update = zooming.AdaptiveQ(Ends(), horizon=3, seed=0), [], Episode.update

    def note(episode, reward, state, ends, cuts, *, next_info, step):
        assert ends or (next_info["action_low"] == 0.5 * (state[1] > 0.5)).all()
        cut.append(bool(cuts))
        update(episode, reward, state, ends, cuts, next_info=next_info, step=step)

    monkeypatch.setattr(Episode, "update", note)
    history = agent.learn(99, env=env)
    assert any(cut)
    assert set(history.n_steps.tolist()) == {1, 2, 3}
    assert agent.n_episodes == 99


def test_a_callback_ends_a_vector_run_and_sees_every_episode():
    agent, seen = zooming.AdaptiveQ(gym.make(AMBULANCE), seed=0), []

    def count(agent, history):
        seen.append(len(history))
        return len(history) < 25

    history = agent.learn(60, env=envs(), callback=count)
    assert seen == list(range(1, 26))
    assert len(history) == agent.n_episodes == 27  # those that ended with the last are learned


def test_what_is_no_vector_environment_is_refused_by_name():
    agent = zooming.AdaptiveQ(gym.make(AMBULANCE), seed=0)
    for env, message in (
        (gym.make(AMBULANCE), r"takes a vector environment, gymnasium.make_vec"),
        (envs(name="zooming/Pricing-v0"), r"the observation space of the vector environment"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            agent.learn(3, env=env)
    with pytest.raises(zooming.ConfigurationError, match="plays no vector environment"):
        agent.learn(3, env=envs(), driver="fused")
    with pytest.raises(zooming.ConfigurationError, match="one episode at a time, and the vector"):
        SinglePartitionQ(gym.make(AMBULANCE), seed=0).learn(3, env=envs())
    assert agent.n_episodes == 0


def test_abandoned_episodes_do_not_count_in_the_choice_of_a_portfolio():
    env = gym.make("zooming/Oil-v0")
    agent = zooming.Portfolio([zooming.AdaptiveQ(env, seed=k) for k in range(2)], seed=0)
    for _ in range(50):
        agent.begin().abandon()
    assert agent.choice.begun.tolist() == agent.choice.plays == [0, 0]
