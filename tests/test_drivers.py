"""Two drivers, one truth; and what learn promises whoever drives."""

import os
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import OPTIONS, assert_drivers_agree, knowledge, stock_env
from zooming import kernels
from zooming.agents.base import seeds
from zooming.agents.training import drivers as stepping

pytestmark = pytest.mark.kernels


AGENTS = {
    "defaults": zooming.AdaptiveQ,
    "published": lambda env, seed: zooming.AdaptiveQ.as_published(env, bonus=0.5, seed=seed),
    "first": lambda env, seed: zooming.AdaptiveQ(
        env, ties="first", bonus=1.0, max_balls=200, seed=seed
    ),
    "net": lambda env, seed: zooming.NetQ.as_published(env, 0.1, spacing=0.3, seed=seed),
    "tree": zooming.TreeQ,
    "tree per step": lambda env, seed: zooming.TreeQ(env, shared=False, seed=seed),
    "net uniform": lambda env, seed: zooming.NetQ(env, spacing=0.25, action="uniform", seed=seed),
}


# The defaults on every problem, and every agent on a third of them: both come as addresses.
PAIRS = [
    (k, kind)
    for k in range(len(OPTIONS))
    for i, kind in enumerate(AGENTS)
    if kind == "defaults" or (k + i) % 3 == 0
]


@pytest.mark.plain
@pytest.mark.parametrize(("k", "kind"), PAIRS)
def test_fused_and_python_give_the_same_run_to_the_last_bit(k, kind):
    (env_id, options), n = OPTIONS[k], 10 if kernels.IS_JIT_DISABLED else 200
    assert_drivers_agree(lambda: AGENTS[kind](gym.make(env_id, **options), seed=5), n)


@pytest.mark.plain
@pytest.mark.parametrize("make_agent", AGENTS.values(), ids=AGENTS.keys())
def test_the_same_holds_for_your_own_dynamics_in_their_own_units(make_agent):
    assert_drivers_agree(lambda: make_agent(stock_env(), seed=1), 40)


def drive(state, action, step, params, rng, next_state):
    """Toward the action, with a push of chance; params are the ends of the states, and 1 if they
    are whole."""
    after = 0.5 * (state[0] + action[0]) + rng.random() - 0.5
    after = np.rint(after) if params[2] == 1.0 else after
    next_state[0] = min(params[1], max(params[0], after))
    return 1.0 / (1.0 + abs(state[0] - action[0]))


def mixed_env(states, actions, start):
    is_whole = isinstance(states, gym.spaces.Discrete)
    ends = (states.start, states.start + states.n - 1) if is_whole else (-2.0, 4.0)
    params = [*ends, is_whole]
    return zooming.compiled_env(drive, states, actions, 4, start=start, params=params)


REALS = gym.spaces.Box(-2.0, 4.0, (1,), np.float64)
SIDES = {
    "Discrete, Discrete": (gym.spaces.Discrete(7), gym.spaces.Discrete(5, start=2), "uniform"),
    "the same Discrete": (gym.spaces.Discrete(7, start=-2), gym.spaces.Discrete(7, start=-2),
        ([-2, 3], [0.25, 0.75])),
    "Box, Discrete": (REALS, gym.spaces.Discrete(3, start=-1), "uniform"),
    "Discrete, Box": (gym.spaces.Discrete(4, start=1), REALS, 2),
}  # fmt: skip
WHOLE_AGENTS = {
    **AGENTS,
    "ordered": lambda env, seed: zooming.AdaptiveQ(env, ordered=True, bonus=0.5, seed=seed),
    "uniform": lambda env, seed: zooming.AdaptiveQ(env, ordered=True, action="uniform", seed=seed),
    "Random": zooming.Random,
}


@pytest.mark.plain
@pytest.mark.parametrize("make_agent", WHOLE_AGENTS.values(), ids=WHOLE_AGENTS.keys())
@pytest.mark.parametrize("sides", SIDES.values(), ids=SIDES.keys())
def test_the_same_holds_for_discrete_spaces(sides, make_agent):
    env = mixed_env(*sides)
    n = 10 if kernels.IS_JIT_DISABLED else 150
    history = assert_drivers_agree(lambda: make_agent(env, seed=3), n)
    assert len({*history.returns.tolist()}) > 3
    assert env.action_space.contains(history.agent.predict(env.reset(seed=0)[0])[0])


@pytest.mark.plain
@pytest.mark.parametrize("horizon", [2, 7])
@pytest.mark.filterwarnings("ignore:horizon=7")
def test_the_same_holds_when_agent_and_environment_differ_in_horizon(horizon):
    env = gym.make("zooming/Ambulance-v0")
    assert_drivers_agree(lambda: zooming.AdaptiveQ(env, horizon=horizon, seed=1), 30)


class InTwoCalls:
    """Overrides `act`, so that the Python driver must call it and `update`."""

    n_calls = 0

    def act(self, step, observation, *, info=None):
        self.n_calls += 1
        return super().act(step, observation, info=info)


AdaptiveInTwoCalls = type("AdaptiveInTwoCalls", (InTwoCalls, zooming.AdaptiveQ), {})
MetricInTwoCalls = type("MetricInTwoCalls", (InTwoCalls, zooming.MetricQ), {})


@pytest.mark.plain
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("n_steps", [2, 5])
@pytest.mark.filterwarnings("ignore:horizon=5")
def test_one_kernel_a_step_equals_act_and_update(n_steps, lazy):
    """The env ends after two steps (cut off) or five (the horizon)."""
    n = 10 if kernels.IS_JIT_DISABLED else 150
    metric = zooming.metrics.LInf(5 if kernels.IS_JIT_DISABLED else 17)
    env = gym.make("zooming/Oil-v0", start="uniform", max_episode_steps=n_steps)
    for options, kinds in (
        ({"action": "uniform"}, (zooming.AdaptiveQ, AdaptiveInTwoCalls)),
        ({"metric": metric, "lazy": lazy}, (zooming.MetricQ, MetricInTwoCalls)),
    ):
        agents = [kind(env, horizon=5, seed=3, **options) for kind in kinds]
        once, twice = (agent.learn(n, driver="python") for agent in agents)
        assert [stepping.can_step_on(agent) for agent in agents] == [True, False]
        assert agents[1].n_calls == n * n_steps
        assert once.returns.tobytes() == twice.returns.tobytes()
        assert knowledge(agents[0]) == knowledge(agents[1])


@pytest.mark.plain
def test_a_step_goes_on_only_from_the_action_that_was_played():
    """If an action was not kept, the transition itself says which ball learns."""
    agents = [zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0) for _ in range(2)]
    table, action = agents[0].table, np.empty(1)
    code = table.next_step(table.handle, 0, 0.5, np.array([0.6]), kernels.GOES_ON, action)
    assert code == kernels.NOT_PLAYED
    for step in (0, 3):  # nothing was played at these steps
        action = agents[0].step_on(step, [0.2], [0.7], 0.5, [0.6], False, False)
        agents[1].update(step, [0.2], [0.7], 0.5, [0.6])
        assert action == agents[1].act(step + 1, [0.6])
    assert knowledge(agents[0]) == knowledge(agents[1])
    assert agents[0].visits(0, [0.2], [0.7]) == agents[0].visits(3, [0.2], [0.7]) == 1


@pytest.mark.process
def test_compiled_and_plain_runs_agree_to_the_last_bit():
    program = """if True:
        import hashlib, gymnasium as gym, zooming
        digest = hashlib.sha256()
        for env_id, options in [("zooming/Oil-v0", {"noise": 0.1}),
                                ("zooming/Ambulance-v0", {"n_ambulances": 2})]:
            env = gym.make(env_id, **options)
            for agent in (zooming.AdaptiveQ.as_published(env, bonus=0.5, seed=2),
                          zooming.NetQ(gym.make(env_id, **options), spacing=0.3, seed=2)):
                history = agent.learn(40)
                rows = agent.table.rows[: agent.table.rows_in_use]
                digest.update(history.returns.tobytes() + rows.tobytes())
        print(digest.hexdigest())
    """
    runs, options = [], {"capture_output": True, "text": True, "check": True}
    for mode in "01":
        variables = {**os.environ, "NUMBA_DISABLE_JIT": mode}
        run = subprocess.run([sys.executable, "-c", program], env=variables, **options)
        runs.append(run.stdout)
    assert runs[0] == runs[1] != ""


@pytest.mark.plain
def test_a_seed_repeats_another_one_differs_and_none_is_fresh():
    def returns(seed):
        agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0"), seed=seed)
        return agent.learn(20).returns.tolist()

    assert returns(0) == returns(0) != returns(1)
    assert returns(None) != returns(None)


class Corridor(gym.Env):
    """Walk right to the exit: ends early with `terminated`. Observations are float32 and not a
    unit cube."""

    observation_space = gym.spaces.Box(-2.0, 2.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5)
        return np.array([self.x, 1.0], np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.x = min(2.0, max(-2.0, self.x + 0.8 * float(action[0])))
        done = self.x > 1.5
        return np.array([self.x, 1.0], np.float32), float(done), done, False, {}


def test_any_gymnasium_environment_is_driven_from_python_and_learned():
    env = gym.wrappers.TimeLimit(Corridor(), 8)
    agent = zooming.AdaptiveQ(env, horizon=8, seed=0)
    history = agent.learn(800)
    assert history.returns[-100:].mean() > 0.9
    with pytest.raises(zooming.ConfigurationError, match='driver="python"'):
        agent.learn(1, driver="fused")


@pytest.mark.plain
def test_an_episode_that_is_cut_off_still_has_a_future_value():
    env = gym.wrappers.TimeLimit(Corridor(), 1)  # cuts off after one step of eight
    with pytest.warns(UserWarning, match="ends after 1 steps"):
        agent = zooming.AdaptiveQ(env, horizon=8, bonus=0.0, seed=0)
    agent.learn(1)
    # Reward 0, and seven steps left that may pay 1 each.
    assert agent.partition(0).q_value.max() == 7.0


@pytest.mark.plain
def test_learning_goes_on_the_same_whatever_the_environment_was_used_for_in_between():
    env, other = gym.make("zooming/Ambulance-v0"), gym.make("zooming/Ambulance-v0")
    touched, alone = zooming.AdaptiveQ(env, seed=3), zooming.AdaptiveQ(other, seed=3)
    touched.learn(10)
    zooming.Random(env, seed=9).learn(3)
    env.reset(seed=77)
    env.step(np.array([0.5]))
    assert touched.learn(10).returns.tolist() == alone.learn(20).returns[10:].tolist()


@pytest.mark.plain
def test_after_learning_the_environment_wants_a_reset():
    env = gym.make("zooming/Oil-v0")
    agent = zooming.AdaptiveQ(env, seed=0)
    for driver in ("fused", "python", "fused"):
        agent.learn(1, driver=driver)
        with pytest.raises(gym.error.ResetNeeded, match="reset"):
            env.unwrapped.step(np.array([0.5]))


@pytest.mark.plain
def test_a_foreign_attribute_named_horizon_is_not_taken_for_one():
    class Sky(Corridor):
        horizon = 3

    assert zooming.AdaptiveQ(gym.wrappers.TimeLimit(Sky(), 8)).horizon == 8
    with pytest.raises(zooming.ConfigurationError, match="how long an episode is"):
        zooming.AdaptiveQ(Sky())
    limited = gym.make("zooming/Oil-v0", max_episode_steps=2)  # shortens a compiled environment's
    assert zooming.AdaptiveQ(limited).horizon == 2


@pytest.mark.plain
def test_a_wrapper_that_changes_the_problem_is_not_skipped():
    env = gym.make("zooming/Oil-v0")
    shifted = gym.wrappers.TransformReward(env, lambda reward: 0.5 * reward)
    agent = zooming.AdaptiveQ(shifted, seed=0)
    assert agent.learn(5).returns.max() <= 2.5
    with pytest.raises(zooming.ConfigurationError, match="wrappers"):
        agent.learn(1, driver="fused")


def test_the_progress_bar_shows_episodes_and_balls(capsys):
    for driver in ("auto", "python"):
        zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(
            30, progress_bar=True, driver=driver
        )
        shown = capsys.readouterr().out
        assert "30/30" in shown
        assert "balls" in shown


@pytest.mark.plain
def test_histories_say_what_they_are():
    history = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(3)
    assert "3 episodes" in repr(history)
    assert repr(zooming.History(np.empty(0), np.empty(0, int))) == "History(no episodes)"
    assert len(history + history) == 6


# --- many seeds -----------------------------------------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize("n_workers", [None, 1, 3])
def test_many_seeds_at_once_equal_one_by_one(n_workers):
    env = gym.make("zooming/Ambulance-v0")
    # Long enough for runs that shared anything to get into each other's way.
    episodes = 30 if kernels.IS_JIT_DISABLED else 20_000
    many = zooming.learn_many(AGENTS["published"], env, range(4), episodes, n_workers=n_workers)
    for seed, history in enumerate(many):
        alone = AGENTS["published"](gym.make("zooming/Ambulance-v0"), seed=seed)
        assert alone.learn(episodes).returns.tobytes() == history.returns.tobytes()
        assert knowledge(alone) == knowledge(history.agent)


@pytest.mark.plain
def test_many_seeds_take_any_agent_and_any_environment():
    env = gym.wrappers.TimeLimit(Corridor(), 4)
    histories = zooming.learn_many(
        lambda env, s: zooming.Random(env, horizon=4, seed=s), env, [1, 2], 5
    )
    alone = zooming.Random(gym.wrappers.TimeLimit(Corridor(), 4), horizon=4, seed=2).learn(5)
    assert histories[1].returns.tolist() == alone.returns.tolist()
    again = zooming.learn_many(zooming.Random, env, [1, 2], 5, horizon=4)
    assert again[1].returns.tolist() == alone.returns.tolist()
    assert len(zooming.learn_many(zooming.Median, gym.make("zooming/Ambulance-v0"), [1], 5)) == 1


@pytest.mark.plain
def test_a_number_of_seeds_means_those_from_0():
    env = gym.make("zooming/Oil-v0")
    counted, listed = (zooming.learn_many(zooming.Random, env, n, 5) for n in (3, range(3)))
    assert [one.returns.tolist() for one in counted] == [one.returns.tolist() for one in listed]
    for wrong in (0, 2.5, None):
        with pytest.raises(zooming.ConfigurationError, match="seeds"):
            zooming.learn_many(zooming.Random, env, wrong, 5)


@pytest.mark.plain
@pytest.mark.parametrize(("make_agent", "name"), [
    (zooming.MetricQ, "MetricQ .*missing a required .*'metric'"),
    (zooming.Random(gym.make("zooming/Oil-v0"), seed=0), r"Random\(zooming/Oil-v0"),
    (lambda: None, "<lambda> .*too many positional"),
])  # fmt: skip
def test_what_makes_no_agents_is_told_what_to_give(make_agent, name):
    message = rf"{name}.*functools.partial\(zooming.MetricQ, metric=...\)"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.learn_many(make_agent, gym.make("zooming/Oil-v0"), [0], 5)


@pytest.mark.plain
@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937])
def test_a_copied_generator_draws_and_spawns_what_the_original_does(kind):
    generator = np.random.Generator(kind(np.random.SeedSequence(7, spawn_key=(3,))))
    generator.spawn(2)
    generator.integers(5, dtype=np.uint32)  # leaves half of 64 random bits for the next call
    twins = [seeds.copy_generator(generator) for _ in range(2)]
    drawn = [(one.integers(9, size=3, dtype=np.uint32), one.random(4)) for one in twins]
    spawned = [one.spawn(1)[0].random() for one in twins]
    assert spawned[0] == spawned[1] == generator.spawn(1)[0].random()
    for integers, numbers in drawn[1:]:
        assert (integers == drawn[0][0]).all()
        assert (numbers == drawn[0][1]).all()
    assert (generator.integers(9, size=3, dtype=np.uint32) == drawn[0][0]).all()
    assert (generator.random(4) == drawn[0][1]).all()
