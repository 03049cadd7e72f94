"""Auto: a planner and a tree with nothing to set, and what an agent says of itself."""

import warnings

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, Chance, Drift, box, knowledge, same_history
from zooming.agents.auto.constants import CONSTANTS, PILOT
from zooming.agents.auto.portfolio import LEFT, REASON, RECALLS
from zooming.agents.auto.returns import Choice, Trend, fall
from zooming.agents.base.status import Status
from zooming.agents.training.replay import Transitions, kept_transitions, update_each
from zooming.kernels import IS_JIT_DISABLED
from zooming.kernels.plans.layout import CONSTANTS as PLANNER
from zooming.kernels.plans.layout import OLD

pytestmark = pytest.mark.kernels
compiled = pytest.mark.skipif(IS_JIT_DISABLED, reason="without compilation, one plan takes seconds")


def oil(**options):
    return gym.make("zooming/Oil-v0", **{"sharpness": 10.0, "center": 0.7071, **options})


@compiled
def test_auto_keeps_the_promises_of_every_agent():
    checked = zooming.check_agent(zooming.Auto)
    assert "the fused driver and the Python one" in " ".join(checked.kept)


@compiled
def test_auto_learns_a_narrow_peak_and_both_drivers_agree():
    agent, python = zooming.Auto(oil(), seed=1), zooming.Auto(oil(), seed=1)
    history = agent.learn(200)
    assert history.returns[-50:].mean() > 4.5  # the optimum is 4.793, a random policy has 0.45
    assert same_history(history, python.learn(200, driver="python"))
    assert knowledge(agent) == knowledge(python)


@compiled
def test_the_tree_begins_after_the_pilot_and_knows_the_scale_of_rewards():
    agent = zooming.Auto(oil(noise=0.05), seed=0)
    agent.learn(PILOT)
    assert agent.tree is None
    assert agent.agents == [agent.planner]
    agent.learn(101)
    core = agent.planner.table.core
    assert agent.agents == [agent.planner, agent.tree]
    assert agent.tree.n_episodes == PILOT + 101  # it has learned from the pilot, too
    assert agent.tree.scale <= float(core["most"][0] - core["least"][0])
    assert agent.tree.scale > 0.5
    assert agent.tree.reward_range == (0.0, 1.0)  # what the environment states


@compiled
def test_a_tree_that_loses_too_much_is_no_longer_tried():
    tried, left = (zooming.Auto(oil(noise=0.05), stationary=True, seed=0) for _ in range(2))
    for agent in (tried, left):
        agent.learn(100)
    n = left.choice.plays[1]
    left.choice.credit(1, [-1e6] * 3)
    for agent in (tried, left):
        agent.learn(400)
    assert tried.choice.plays[1] >= n + 3
    assert left.choice.plays[1] == n + 3  # those that were credited


def record(n, reward=lambda action: 1.0 - abs(action - 0.7)):
    """Return n episodes of two steps with random actions."""
    rng = np.random.default_rng(5)
    actions, after = rng.random((2 * n, 1)), rng.random((2 * n, 1))
    steps = np.tile([0, 1], n)
    states = np.where(steps[:, None] == 0, 0.5, np.roll(after, 1, axis=0))
    rewards = np.array([reward(float(action)) for action in actions[:, 0]])
    return Transitions(steps, states, actions, rewards, after, np.zeros(2 * n, bool))


@compiled
def test_the_tree_learns_from_a_log_that_is_longer_than_the_pilot():
    given, agents = record(40), [zooming.Auto(oil(horizon=2), seed=0) for _ in range(2)]
    agents[0].learn_transitions(given)
    update_each(agents[1], given)
    for agent in agents:
        assert agent.n_episodes == agent.planner.n_episodes == 40
        assert agent.tree.n_episodes == 40
    assert knowledge(agents[0]) == knowledge(agents[1])


@compiled
def test_a_span_of_one_serves_until_rewards_differ_and_any_later_one_is_taken():
    env = Boxes(box((0.0, 1.0)), box((0.0, 1.0)))
    agent = zooming.Auto(env, horizon=2, seed=0)
    agent.learn_transitions(record(20, lambda action: 3.0))
    assert agent.tree.scale == 1.0
    agent.learn_transitions(record(5, lambda action: 3.0 + 1e-12 * round(action)))
    agent._before_choice()
    assert agent.tree.scale == pytest.approx(1e-12, rel=0.01)
    agent.learn_transitions(record(5, lambda action: 7e12 * action))
    agent._before_choice()
    assert agent.tree.scale > 1e12
    assert agent.tree.n_episodes == 30


def walk(state, action, step, params, rng, next_state):
    """Move in the unit square; only a disc far from the start pays."""
    away = 0.0
    for i in range(2):
        next_state[i] = min(1.0, max(0.0, state[i] + 0.1 * (2.0 * action[i] - 1.0)))
        away += (next_state[i] - 0.8) ** 2
    return params[0] if away < 0.3**2 else 0.0


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_disc_in_an_empty_square_is_found_whatever_it_pays(seed):
    square, scale = box((0.0, 1.0), (0.0, 1.0)), (1e-3, 1.0, 1e3)[seed % 3]
    env = zooming.compiled_env(walk, square, square, 15, start=[0.1, 0.1], params=[scale])
    returns = zooming.Auto(env, seed=seed).learn(1000).returns
    assert (returns[-100:] > 0.0).mean() > 0.8


@compiled
def test_a_reward_outside_the_stated_range_is_refused_from_the_first_episode_on():
    agent = zooming.Auto(oil(horizon=2), seed=0)
    with pytest.raises(zooming.TransitionError, match=r"give Auto.*proposes, or rescale"):
        agent.update(0, [0.5], [0.5], 5.0, [0.5])


class Wide(Drift):
    """Rewards of any size, and no word about their range."""

    def step(self, action):
        state, reward, *rest = super().step(action)
        return state, 1e4 * (reward + float(action[0])), *rest


@compiled
def test_without_a_reward_range_any_reward_is_taken_and_its_scale_learned():
    agent = zooming.Auto(Wide(), horizon=3, seed=0)
    agent.learn(60)
    assert agent.tree.scale > 1e4
    assert agent.value(0, np.array([0.5, 0.5])) > 2e4
    given = zooming.Auto(Wide(), horizon=3, reward_range=(0.0, 5.0), seed=0)
    with pytest.raises(zooming.TransitionError, match=r"outside the reward range \[0\.0, 5\.0\]"):
        given.learn(5)


@compiled
@pytest.mark.parametrize("episodes", [4, 40])
def test_a_saved_auto_goes_on_with_and_without_its_environment(tmp_path, episodes):
    agent = zooming.Auto(oil(), seed=3, max_samples=5000)
    agent.learn(episodes)
    agent.save(tmp_path / "auto.zoom")
    loaded = zooming.load(tmp_path / "auto.zoom")
    assert loaded.max_samples == 5000
    assert (loaded.tree is None) == (agent.tree is None) == (episodes < PILOT)
    assert same_history(agent.learn(30), loaded.learn(30))
    assert knowledge(agent) == knowledge(loaded)

    owned = zooming.Auto(Drift(), horizon=3, reward_range=(0.0, 1.0), seed=0)
    owned.learn(episodes)
    owned.save(tmp_path / "own.zoom")
    alone = zooming.load(tmp_path / "own.zoom")
    observation = np.array([0.3, 0.6])
    assert alone.env is None
    for _ in range(12):  # over the end of the pilot
        for one in (owned, alone):
            action = one.act(0, observation)
            one.update(0, observation, action, 0.5, observation, True)
    assert knowledge(owned) == knowledge(alone)


@compiled
def test_a_file_of_an_auto_with_three_trees_is_refused_by_name(tmp_path):
    agent = zooming.Auto(oil(), seed=0)
    agent.learn(PILOT + 1)
    agent.saved_state = lambda: ({"first_cuts": [None] * 3, "tree_range": [0.0, 1.0]}, {})
    agent.save(tmp_path / "old.zoom")
    with pytest.raises(zooming.CheckpointError, match=r"earlier version.*learn again"):
        zooming.load(tmp_path / "old.zoom")


@compiled
def test_the_tree_learns_from_the_pilot():
    agent = zooming.Auto(oil(), seed=0)
    agent.learn(PILOT)
    agent._before_choice()
    kept, tree = kept_transitions(agent.planner), agent.tree
    twin = zooming.TreeQ(oil(), seed=tree.seed)
    twin.rescale(float(np.ptp(kept.rewards)))
    update_each(twin, kept)
    assert tree.n_episodes == twin.n_episodes == PILOT
    assert [twin.visits(h, 0.5, 0.5) for h in range(5)] == [
        tree.visits(h, 0.5, 0.5) for h in range(5)
    ]
    values = [[one.value(h, 0.5) for h in range(5)] for one in (twin, tree)]
    assert values[0] == pytest.approx(values[1], abs=0.02)  # places are rounded


@compiled
def test_the_tree_leads_only_where_nothing_is_random():
    agent = zooming.Auto(oil(), seed=0)
    agent.learn(100)
    agent.choice.credit(1, [9.0] * 500)
    assert agent._leader() == 1
    assert agent.recommended is agent.tree
    agent.planner.table.core["is_exact"] = 0
    assert agent._leader() == 0
    assert agent.recommended is agent.planner


def coin():
    return Chance(gym.spaces.Discrete(2), box((0.0, 1.0)), lambda action: float(action[0]))


@compiled
@pytest.mark.parametrize(
    ("make", "wanted"),
    [(oil, True), (lambda: oil(noise=0.2), False), (coin, False),
     (lambda: gym.make("zooming/Ambulance-v0", travel_weight=1.0), False)],
)  # fmt: skip
def test_a_problem_has_no_noise_if_repeated_transitions_agree(make, wanted):
    agent = zooming.Auto(make(), horizon=5, seed=0)
    agent.learn(100)
    assert agent.planner.table.core["is_exact"][0] == wanted


@compiled
def test_the_tree_learns_from_a_pilot_with_many_integers():
    many = gym.spaces.Box(0, 100_000, (1,), np.int64)
    agent = zooming.Auto(Chance(many, many, lambda action: float(action[0])), horizon=2, seed=0)
    agent.learn(PILOT + 1)
    assert agent.tree.n_episodes == PILOT + 1
    kept = kept_transitions(agent.planner)
    for points in (kept.states, kept.actions, kept.next_states):
        assert (points == np.rint(points)).all()
        assert 0 <= points.min() <= points.max() <= 100_000


@pytest.mark.parametrize("agent", ["auto", "planner", "auto:max_samples=5000"])
def test_there_is_nothing_to_tune(tmp_path, agent):
    message = f"{agent.partition(':')[0]} has nothing to tune.*--agents {agent}$"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.tune(["oil-laplace-1"], [agent], tmp_path, option="max_samples", values=(1, 2))


def test_every_constant_is_printed_with_its_reason():
    found = zooming.Auto(oil(), seed=0).status(constants=True)["constants"]
    assert len(found) == len(CONSTANTS) + len(PLANNER)
    assert found["PILOT"].startswith("5: episodes of the planner")
    assert all(len(words.partition(": ")[2]) > 10 for words in found.values())
    assert "constants" not in zooming.Auto(oil(), seed=0).status()


def test_auto_has_no_bonus():
    with pytest.raises(
        zooming.ConfigurationError, match="Auto has no option 'bonus': this agent has no bonus"
    ):
        zooming.Auto(oil(), bonus=0.1)


# --- what it says ---------------------------------------------------------------------------------


@compiled
def test_the_status_says_who_plays_and_why():
    agent = zooming.Auto(oil(), seed=1)
    assert agent.status()["plays"] == "planner"
    assert agent.status()["why"] == "it is the only agent so far"
    assert agent.status()["return"] is None
    agent.learn(150)
    found = agent.status()
    names = ["planner", "tree"]
    assert list(found["agents"]) == names
    assert found["plays"] in names
    assert found["recommended"] in names
    assert found["planner"]["samples"] == 150 * 5
    assert found["warnings"] == []
    text = str(found)
    assert "plays: " in text
    assert "  planner: played " in text
    assert "warnings: none" in text
    assert "    state[0]: reward " in text
    card = agent._repr_html_()
    assert "recommended should earn" in card
    assert found["why"] in card
    noisy = zooming.Auto(oil(noise=0.2), seed=0)
    noisy.learn(60)
    assert "only where repeated transitions show no noise" in noisy.status()["why"]


class Still(Drift):
    """One coordinate never changes, and rewards are a small part of the range."""

    def reset(self, **options):
        state, info = super().reset(**options)
        state[1] = self.state[1] = 0.25
        return state, info

    def step(self, action):
        state, reward, *rest = super().step(action)
        state[1] = 0.25
        return state, 50.0 + 0.1 * reward, *rest


@compiled
def test_the_status_warns_where_the_data_contradict_the_description():
    agent = zooming.Auto(Still(), horizon=3, reward_range=(0.0, 1000.0), seed=0)
    agent.learn(130)
    warnings = "\n".join(agent.status()["warnings"])
    assert "rewards seen lie in [50" in warnings
    assert "state[1] never changed" in warnings
    assert "state[0] never changed" not in warnings
    assert "nothing was learned" in warnings
    assert agent.planner.status()["warnings"]
    fine = zooming.Planner(oil(), seed=0)
    fine.learn(30)
    assert fine.status()["warnings"] == []
    long = zooming.Planner(Drift(n_steps=2), horizon=3, seed=0)
    long.learn(30)
    assert "no episode was longer than 2 of 3 steps" in long.status()["warnings"][0]


@compiled
@pytest.mark.parametrize(
    ("scale", "n_absurd", "is_warned"),
    [(1e18, 1, True), (-1e18, 1, True), (1e18, 2, True), (1e5, 1, False), (1e18, 30, False)],
)
def test_the_status_names_rewards_that_are_absurdly_larger_than_all_others(
    scale, n_absurd, is_warned
):
    n_steps = iter(range(10_000))

    def flaw(step, state, reward):
        return state, scale if 40 <= next(n_steps) < 40 + n_absurd else 0.5 + reward / 2

    agent = zooming.Auto(Drift(flaw=flaw), horizon=3, seed=0)
    agent.learn(100)
    found = [one for one in agent.status()["warnings"] if "times as large" in one]
    assert len(found) == is_warned
    if is_warned:
        assert f"a reward of {scale:g} at step 1 is 1e+18 times" in found[0]


@compiled
def test_a_history_says_what_is_counted():
    agent = zooming.Auto(gym.make("zooming/Oil-v0"), seed=0)
    history = agent.learn(30)
    assert f"{agent.player.n_balls:,} balls or cells of its player" in repr(history)
    planner = zooming.Planner(gym.make("zooming/Oil-v0"), seed=0)
    assert repr(planner.learn(3)).endswith(f" {planner.n_balls:,} cells)")


def short_horizon(agent):
    return [one for one in agent.status()["warnings"] if "went on when horizon=" in one]


@compiled
def test_the_status_warns_of_a_horizon_that_cuts_episodes_off(tmp_path):
    agent = zooming.Auto(gym.make("zooming/Oil-v0"), horizon=2, seed=0)
    agent.learn(19)
    assert short_horizon(agent) == []  # too early
    agent.learn(11)
    (found,) = short_horizon(agent)
    assert "episodes went on when horizon=2 ended them" in found
    assert "zooming/Oil-v0 states up to 5 steps" in found
    agent.save(tmp_path / "agent.zoom")
    assert short_horizon(zooming.load(tmp_path / "agent.zoom")) == [found]
    assert agent.status()["horizon"].startswith("2 steps; the environment went on")
    slow = zooming.Planner(gym.make("zooming/Oil-v0"), horizon=2, seed=0)
    slow.learn(30, driver="python")
    assert short_horizon(slow) == [found]


@compiled
@pytest.mark.parametrize("driver", ["fused", "python"])
def test_a_file_saved_within_a_run_knows_that_episodes_were_cut(tmp_path, driver):
    agent = zooming.Planner(gym.make("zooming/Oil-v0"), horizon=2, seed=0)
    paths = [tmp_path / name for name in ("within.zoom", "through.zoom", "continued.zoom")]

    def save_at_20(learner, history):
        if learner.n_episodes == 20:
            learner.save(paths[0])

    agent.learn(40, driver=driver, callback=save_at_20)
    agent.save(paths[1])
    loaded = zooming.load(paths[0])
    assert loaded.run.was_cut
    loaded.learn(20, driver=driver)
    loaded.save(paths[2])
    assert paths[1].read_bytes() == paths[2].read_bytes()


class Joined(gym.Wrapper):
    """Plays an action for two steps of the environment."""

    def step(self, action):
        for _ in range(2):
            answer = self.env.step(action)
            if answer[2] or answer[3]:
                break
        return answer


@compiled
@pytest.mark.parametrize(
    ("env", "was_cut"),
    [
        (Drift(n_steps=100), True),  # it states no number, so the horizon is the agent's
        (gym.wrappers.TimeLimit(Drift(n_steps=3), 100), False),  # it ends before its stated number
        (Joined(gym.wrappers.TimeLimit(Drift(n_steps=100), 6)), False),  # 3 steps are 6 of its own
    ],
    ids=["states nothing", "ends by itself", "joins steps"],
)
def test_a_horizon_that_fits_is_not_doubted(env, was_cut):
    agent = zooming.Planner(env, horizon=3, seed=0)
    agent.learn(30)
    assert agent.run.was_cut is was_cut
    assert short_horizon(agent) == []


def test_a_status_prints_lists_and_numbers():
    shown = Status({"a": [], "b": ["x", "y"], "c": 12345, "d": 0.123456, "e": None, "f": True})
    assert str(shown).splitlines() == [
        "a: none", "b:", "  x", "  y", "c: 12,345", "d: 0.1235", "e: not known yet", "f: yes",
    ]  # fmt: skip


# --- the trend of returns -------------------------------------------------------------------------


def test_windows_have_number_mean_and_variance_of_their_returns():
    returns = np.random.default_rng(0).random(100).tolist()
    trend = Trend()
    trend.add(returns[:37])
    trend.add(returns[37:])
    for i in range(7):
        part = returns[2**i - 1 : 2 ** (i + 1) - 1]
        n, mean, variance = trend.windows[i]
        assert n == len(part)
        assert mean == pytest.approx(np.mean(part))
        assert variance == pytest.approx(np.var(part))
    assert trend.n_episodes == 100
    assert trend.late()[0] == pytest.approx(np.mean(returns[63:]))


def test_returns_have_improved_if_late_ones_exceed_those_of_episodes_8_to_31():
    rising, falling, few = Trend(), Trend(), Trend()
    rising.add([4.0 - 30.0 / k for k in range(1, 1024)])
    falling.add([-float(k) for k in range(100)])
    few.add([-float(k) for k in range(30)])
    assert rising.has_improved()
    assert not falling.has_improved()
    assert few.has_improved()  # too few to tell


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [(lambda w: w[1:], "wrong shape"), (lambda w: w - 1, "are invalid"),
     (lambda w: w * 3, "are invalid"), (lambda w: w * np.nan, "are invalid")],
)  # fmt: skip
def test_spoiled_windows_are_refused(spoil, sentence):
    trend = Trend()
    trend.add([1.0] * 20)
    with pytest.raises(ValueError, match=sentence):
        Trend().restore(spoil(trend.windows))


@compiled
def test_an_interrupt_while_the_tree_is_made_changes_nothing(monkeypatch):
    undisturbed, stopped = (zooming.Auto(oil(), seed=0) for _ in range(2))
    undisturbed.learn(60)
    make_tree, stops = zooming.Auto._make_tree, []

    def stop_at_tree(self):
        found = make_tree(self)
        if self is stopped and not stops:
            stops.append("tree")
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(zooming.Auto, "_make_tree", stop_at_tree)
    with pytest.raises(KeyboardInterrupt):
        stopped.learn(60)
    stopped.learn(60 - stopped.n_episodes)
    assert stops == ["tree"]
    assert knowledge(stopped) == knowledge(undisturbed)


class Small(zooming.Auto):
    """An agent whose constructor sets an option itself."""

    def __init__(self, env, seed=None):
        super().__init__(env, max_samples=2000, seed=seed)


@compiled
def test_a_class_that_sets_options_itself_is_saved_and_loaded(tmp_path):
    agent = Small(oil(), seed=0)
    agent.learn(20)
    agent.save(tmp_path / "small.zoom")
    again = Small.load(tmp_path / "small.zoom", env=oil())
    assert again.max_samples == 2000
    assert same_history(agent.learn(10), again.learn(10))


def test_a_portfolio_that_makes_its_agents_itself_refuses_to_be_saved(tmp_path):
    class Pair(zooming.Portfolio):
        def __init__(self, env):
            super().__init__([zooming.Random(env, seed=0), zooming.Random(env, seed=1)], seed=0)

    with pytest.raises(zooming.ConfigurationError, match="its constructor takes no `agents`"):
        Pair(oil()).save(tmp_path / "pair.zoom")


# --- a law that changes ---------------------------------------------------------------------------


class Moving(gym.Env):
    """A peak that pays 1; after `last` episodes it is elsewhere."""

    observation_space, action_space = box((0.0, 1.0)), box((0.0, 1.0))

    def __init__(self, last):
        self.last, self.n_begun = last, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_begun += 1
        return np.array([0.5]), {}

    def step(self, action):
        peak = 0.7 if self.n_begun <= self.last else 0.2
        reward = float(np.exp(-10.0 * abs(action[0] - peak))) + 0.05 * self.np_random.normal()
        return np.array([0.5]), reward, False, False, {}


@compiled
def test_a_new_start_follows_a_law_that_has_changed(tmp_path):
    agents = [
        zooming.Auto(Moving(600), horizon=2, seed=0, **kind) for kind in ({}, {"stationary": True})
    ]
    with pytest.warns(UserWarning, match=r"the agent starts anew.*give stationary=True"):
        returns = agents[0].learn(1000).returns
    assert 600 < agents[0].changes[0] < 700
    assert len(agents[0].changes) == 1
    assert returns[850:].mean() > 1.6
    assert agents[0].n_episodes == 1000
    assert agents[0].planner.n_episodes == 1000 - agents[0].changes[0]
    assert agents[0].status()["started anew after episodes"] == agents[0].changes
    agents[1].learn(1000)
    assert agents[1].changes == []
    agents[0].save(tmp_path / "auto.zoom")
    loaded = zooming.load(tmp_path / "auto.zoom", env=agents[0].env)
    assert loaded.changes == agents[0].changes
    assert knowledge(loaded) == knowledge(agents[0])
    assert (loaded._returns == agents[0]._returns).all()
    assert len(loaded._recalls) >= 16


@compiled
def test_a_new_start_is_the_same_in_both_drivers_and_side_by_side():
    def fall(agent, by):
        agent.learn(400)  # 16 episodes of these are those of the control
        agent._recalls += by
        agent._returns[-60:] -= 3.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return agent.learn(80)

    for by, n_changes in ((0.0, 0), (3.0, 1)):
        agents = [zooming.Auto(oil(noise=0.1), seed=0) for _ in range(2)]
        del agents[1].play  # of the compiled driver
        histories = [fall(agent, by) for agent in agents]
        assert same_history(*histories)
        assert [len(agent.changes) for agent in agents] == [n_changes] * 2
        assert knowledge(agents[0]) == knowledge(agents[1])


@compiled
def test_a_control_is_played_again_if_returns_fall_and_dismisses_the_doubt(tmp_path):
    agent = zooming.Auto(oil(noise=0.1), seed=0)
    agent.learn(400)
    assert sum(agent.choice.plays) == 400 - 2 * 16  # old plans say nothing about an agent
    agent._returns = np.append(np.full(40, 4.7), np.full(16, 4.0))
    agent.counts[LEFT] = 0
    agent._choose()
    assert agent._n_before == len(agent._recalls) == 16
    assert agent.counts[REASON] == RECALLS
    assert "an old plan shows whether the law" in agent.status()["why"]
    control = agent.planner.table.control
    agent.learn(5)
    agent.save(tmp_path / "auto.zoom")
    loaded = zooming.load(tmp_path / "auto.zoom", env=oil(noise=0.1))
    assert same_history(agent.learn(30), loaded.learn(30))
    assert knowledge(agent) == knowledge(loaded)
    assert (agent.planner.table.control.plan.q == control.plan.q).all()
    assert agent._n_before == 0
    assert len(agent._recalls) == 16
    assert agent.changes == []


@compiled
def test_a_control_is_played_without_a_bonus_and_its_returns_are_no_plans():
    agent = zooming.Planner(oil(noise=0.1), seed=3)
    agent.learn(60)
    agent.table.take_control()
    wanted = [agent.predict(np.array([place]))[0] for place in (0.5, 0.3, 0.8)]
    agent.table.recall(True)
    before = agent.table.core.copy()
    agent.learn(3)  # no plan is due
    after = agent.table.core
    assert after["random"] == before["random"]  # it draws nothing
    assert after["plays"] - before["plays"] == 1  # the episode before the first
    assert after["own"] == OLD
    assert after["due"] - before["due"] == 3  # the next plan waits for episodes of this one
    agent.learn(17)
    agent.table.recall(False)
    agent.learn(400)
    assert agent.table.control.plan is not agent.table.policy().plan
    agent.table.recall(True)
    assert [agent.act(0, np.array([place])) for place in (0.5, 0.3, 0.8)] == wanted
    agent.table.recall(False)
    agent.learn(1)
    assert agent.table.core["own"] >= 0


def test_ranks_fall_by_the_deviations_of_mann_and_whitney():
    rng = np.random.default_rng(0)
    for _ in range(20):
        before, after = rng.integers(0, 6, 30), rng.integers(0, 6, 12)
        pairs = np.sign(before[:, None] - after[None, :]).sum() / 2
        shuffled = [rng.permutation(np.append(before, after)) for _ in range(2000)]
        drawn = [np.sign(x[:30, None] - x[None, 30:]).sum() / 2 for x in shuffled]
        assert fall(before, after) == pytest.approx(pairs / np.std(drawn), rel=0.1, abs=0.02)
    assert fall(np.ones(5), np.ones(5)) == 0.0


# --- a rule of the user's ------------------------------------------------------------------------


def order_up_to(step, observation, level):
    return np.array([max(0.0, level - observation[0])])


@compiled
def test_a_rule_of_the_right_form_is_searched_played_and_recommended(tmp_path):
    env = gym.make("zooming/Regulator-v0")
    agent = zooming.Auto(env, rule=env.unwrapped.rule, seed=0)
    agent.learn(150)
    assert [type(one).__name__ for one in agent.agents] == ["Planner", "RuleLearner", "TreeQ"]
    assert sum(agent.choice.plays) == 150 - len(agent._recalls)  # episodes of an old plan
    assert agent.rule.search.n_told == agent.choice.plays[1] > 40
    assert {one.n_episodes for one in agent.agents} == {150}
    numbers = agent.status()["rule"]
    assert list(numbers) == list(env.unwrapped.rule.names)
    found = env.unwrapped.rule.with_numbers(list(numbers.values()))
    value = zooming.evaluate(found, gym.make("zooming/Regulator-v0"), 500, seed=1).mean
    best = zooming.evaluate(env.unwrapped.rule, gym.make("zooming/Regulator-v0"), 500, seed=1).mean
    assert value == pytest.approx(best, rel=0.05)
    agent.choice.credit(1, [1e6] * 200)
    assert agent.recommended is agent.rule
    assert agent._leader() == 1
    observation = env.reset(seed=0)[0]
    assert agent.predict(observation)[0] == pytest.approx(found.act(0, observation), rel=1e-6)
    assert agent.value(0, observation) == agent.planner.value(0, observation)
    with pytest.raises(zooming.ConfigurationError, match=r"cannot be saved.*agent\.planner"):
        agent.save(tmp_path / "auto.zoom")


@compiled
def test_a_rule_may_be_a_function_and_the_ranges_of_its_numbers():
    env = gym.make("zooming/Newsvendor-v0")
    agent = zooming.Auto(env, rule=(order_up_to, {"level": (0.0, 20.0)}), seed=0)
    agent.learn(60)
    assert 0.0 <= agent.rule.numbers["level"] <= 20.0
    again = zooming.Auto(env, **agent.get_params())
    assert again.rule is not None


@compiled
def test_a_rule_plays_at_most_half_of_the_episodes_until_it_is_clearly_better():
    env = gym.make("zooming/Newsvendor-v0")
    agent = zooming.Auto(env, rule=env.unwrapped.rule, seed=0)
    agent.learn(40)
    assert agent.rule.search.n_generations > 0
    assert agent.choice.plays[2] == 0  # the rule explores in place of the tree, which cannot lead
    agent.choice = Choice(3)
    for value in (1.0, 3.0) * 10:
        agent.choice.credit(0, [value])
        agent.choice.credit(1, [value + 0.5])
    assert agent._leader() == 1  # half of the episodes each
    agent.choice.credit(1, [1.5, 3.5])
    assert agent._leader() == 0  # more than half
    assert agent.recommended is agent.planner
    agent.choice.credit(1, [5.0, 7.0] * 20)
    assert agent._leader() == 1
    assert agent.recommended is agent.rule


@compiled
def test_a_rule_is_not_judged_before_its_search_has_moved():
    env = gym.make("zooming/Newsvendor-v0")
    agent = zooming.Auto(env, rule=env.unwrapped.rule, seed=0)
    agent.choice.credit(0, [5.0, 6.0, 5.0, 6.0])
    agent.choice.credit(1, [0.0, 0.1, 0.0])
    assert agent._leader() == 1
    agent.rule.search.n_generations = 1
    assert agent._leader() == 0


def test_the_search_learns_no_return_of_an_episode_that_was_cut_off_or_that_others_played():
    env = gym.make("zooming/Newsvendor-v0")
    rule = zooming.Auto(env, rule=env.unwrapped.rule, seed=0).rule
    state = env.reset(seed=0)[0]

    def play(n_steps, acts):
        for step in range(n_steps):
            action = rule.act(step, state) if acts else np.array([5.0])
            rule.update(step, state, action, 1.0, state)

    play(3, acts=True)  # the environment cuts it off
    play(rule.horizon, acts=False)
    assert rule.search.n_told == 0
    play(rule.horizon, acts=True)
    play(rule.horizon, acts=False)
    assert rule.search.n_told == 1
    assert rule.search.tried[0, -1] == rule.horizon
    assert rule.n_episodes == 4


@pytest.mark.parametrize(
    "rule",
    [order_up_to, (order_up_to, {}), (order_up_to, {"level": (2, 1)}), (3, {"level": (0, 1)}),
     (order_up_to, {"level": (0, np.inf)}), (order_up_to, {"levle": (0, 1)}),
     (order_up_to, {"level": (0, 1), "lot": (0, 1)})],
)  # fmt: skip
def test_a_rule_of_another_form_is_refused_in_words(rule):
    message = r"give \(function, \{name: \(low, high|called as function\(step, observation, lev.*: "
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.Auto(gym.make("zooming/Newsvendor-v0"), rule=rule, seed=0)


# --- many axes ------------------------------------------------------------------------------------


def many_axes(n_state, n_action=2):
    state, action = box(*[(0, 1)] * n_state), box(*[(0, 1)] * n_action)
    return Chance(state, action, lambda action: 1.0 - float(np.abs(action - 0.3).mean()))


@compiled
@pytest.mark.parametrize("kind", [zooming.Auto, zooming.Planner])
def test_many_axes_are_said_at_construction_and_cost_no_more_than_seven(kind):
    kind(many_axes(5), horizon=2, seed=0)  # no warning
    for n_state in (6, 11, 40) if kind is zooming.Planner else (11,):
        message = rf"Chance: {n_state + 2} axes are many .* about 2,187 cells: .* 0\.5 ms\. Give"
        with pytest.warns(UserWarning, match=message):
            agent = kind(many_axes(n_state), horizon=2, seed=0)
        agent.learn(PILOT + 10)
        table = agent.planner.table if kind is zooming.Auto else agent.table
        assert 1000 <= table.plan.q.shape[1] <= 2401
        assert (table.grid.bins[-2:] == 3).all()
        assert (
            list(
                agent.status()["planner"]["bins"].values()
                if kind is zooming.Auto
                else table.grid.bins
            )[-1]
            == 3
        )
        assert agent.nbytes < 5e6
    if kind is zooming.Auto:
        assert agent._leader() == 1  # the tree
    with pytest.raises(zooming.SpaceError, match=r"8 action axes are too many.*split=.longest"):
        kind(many_axes(1, 8), horizon=2, seed=0)


@compiled
def test_a_grid_of_many_axes_keeps_fine_bins_if_few_of_them_vary(tmp_path):
    env = many_axes(9)
    env.reset = lambda *, seed=None, options=None: (np.full(9, 0.5), {})
    env.step = lambda action: (np.full(9, 0.5), env.pay(action), False, False, {})
    with pytest.warns(UserWarning, match="11 axes are many"):
        agent = zooming.Auto(env, horizon=2, seed=0)
    agent.learn(60)
    assert (agent.planner.table.grid.bins[:9] == 1).all()
    assert (agent.planner.table.grid.bins[9:] > 20).all()
    assert agent.planner.predict(np.full(9, 0.5))[0] == pytest.approx([0.3, 0.3], abs=0.06)
    agent.save(tmp_path / "many.zoom")
    assert knowledge(zooming.load(tmp_path / "many.zoom", env=env)) == knowledge(agent)
