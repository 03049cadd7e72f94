"""Save, load, continue equals never having stopped."""

import tracemalloc

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zooming
from helpers import AGENTS, KINDS, Boxes, Chance, Drift, box, knowledge, same_history
from zooming.agents.files import container as files

PROBLEMS = {
    "oil": lambda: gym.make("zooming/Oil-v0", sharpness=10.0),
    "oil_noisy": lambda: gym.make("zooming/Oil-v0", survey="quadratic", noise=0.1, start="uniform",
        horizon=3),
    "oil_2d": lambda: gym.make("zooming/Oil-v0", dims=2, center=np.array([0.2, 0.9]), horizon=2),
    "ambulance": lambda: gym.make("zooming/Ambulance-v0", arrivals="shifting"),
    "ambulance_array": lambda: gym.make("zooming/Ambulance-v0", arrivals=np.array([0.1, 0.15, 0.8]),
        travel_weight=0.5),
    "ambulance_per_step": lambda: gym.make("zooming/Ambulance-v0",
        arrivals=["beta", np.array([0.3, 1.0])], horizon=2),
    "ambulance_2": lambda: gym.make("zooming/Ambulance-v0", n_ambulances=2,
        start=np.array([0.2, 0.8])),
}  # fmt: skip
EVERY_AGENT = pytest.mark.parametrize("kind", KINDS)
EVERY_PROBLEM = pytest.mark.parametrize("problem", PROBLEMS)
N_EPISODES = st.integers(0, 40)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints") / "agent.zoom"


def assert_continues(agent, loaded, episodes, path):
    """Both learn on; returns, balls, every byte of what they know, and the next file must agree."""
    assert knowledge(loaded) == knowledge(agent)
    assert same_history(loaded.learn(episodes), agent.learn(episodes))
    assert knowledge(loaded) == knowledge(agent)
    contents = []
    for each in (agent, loaded):
        each.save(path)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]


# --- continuing -----------------------------------------------------------------------------------


@EVERY_AGENT
@EVERY_PROBLEM
@settings(deadline=None, max_examples=6)
@given(first=N_EPISODES, second=N_EPISODES, seed=st.integers(0, 2**40), give_env=st.booleans())
def test_save_load_continue_equals_never_stopped(
    path, problem, kind, first, second, seed, give_env
):
    agent = AGENTS[kind](PROBLEMS[problem](), seed=seed)
    never_stopped = AGENTS[kind](PROBLEMS[problem](), seed=seed)
    before = agent.learn(first)
    agent.save(path)
    loaded = zooming.load(path, env=PROBLEMS[problem]() if give_env else None)
    assert type(loaded) is type(agent)
    whole = never_stopped.learn(first + second)
    for each in (loaded, agent):  # saving changes nothing
        assert same_history(before + each.learn(second), whole)
    assert knowledge(loaded) == knowledge(never_stopped)


def test_the_environments_arguments_survive_and_saving_again_loses_nothing(path):
    for make in PROBLEMS.values():
        agent = zooming.AdaptiveQ(make(), seed=0)
        agent.learn(10)
        agent.save(path)
        first, loaded = path.read_bytes(), zooming.load(path)
        loaded.save(path)
        assert path.read_bytes() == first
        assert loaded.env.spec.id == agent.env.spec.id
        assert loaded.env.unwrapped.params.tolist() == agent.env.unwrapped.params.tolist()
        assert loaded.env.unwrapped.horizon == agent.env.unwrapped.horizon


OPTIONS = [
    {"bonus": zooming.bonuses.Theory(episodes=50, delta=0.1)},
    {"cap": "horizon"},
    {"ties": "first"},
    {"action": "uniform"},
    {"horizon": 2},
    {"reward_range": (-1.0, 2.0)},
    {"max_balls": 12},
    {"seed": None},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
def test_every_option_survives(path, options):
    agent = zooming.AdaptiveQ(PROBLEMS["oil"](), **options)
    agent.learn(25)
    agent.save(path)
    loaded = zooming.AdaptiveQ.load(path)
    assert loaded.saved_options() == agent.saved_options()
    assert repr(loaded) == repr(agent)
    assert_continues(agent, loaded, 25, path)


def test_a_time_limit_on_the_environment_survives(path):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0", max_episode_steps=2), seed=0)
    agent.learn(10)
    agent.save(path)
    assert_continues(agent, zooming.load(path), 10, path)


def test_saving_again_what_was_loaded_without_an_environment_loses_nothing(path):
    agent = zooming.AdaptiveQ(Drift(), horizon=3, seed=0)
    agent.learn(10)
    agent.save(path)
    first = path.read_bytes()
    zooming.load(path).save(path)
    assert path.read_bytes() == first
    assert_continues(agent, zooming.load(path, env=Drift()), 10, path)


# --- the class and the environment of a file ------------------------------------------------------


@EVERY_AGENT
def test_a_class_loads_its_own_agents_and_refuses_those_of_another_by_name(path, kind):
    agent = AGENTS[kind](PROBLEMS["oil"](), seed=0)
    agent.save(path)
    assert type(type(agent).load(path)) is type(zooming.Agent.load(path)) is type(agent)
    for other in {type(make(PROBLEMS["oil"](), seed=0)) for make in AGENTS.values()}:
        if other is not type(agent):
            match = rf"{type(agent).__name__}, not {other.__name__}"
            with pytest.raises(zooming.ZoomingError, match=match):
                other.load(path)


UNIT = box((0, 1), (0, 1))
OTHERS = [
    (box((0, 1), (0, 2)), UNIT, r"state\[1\] was \[0.0, 1.0\].* is \[0.0, 2.0\]"),
    (UNIT, box((0, 1), (0.5, 1)), r"action\[1\] was \[0.0, 1.0\].* is \[0.5, 1.0\]"),
    (UNIT, box((0, 1), (0, 1), (0, 1)), r"given environment has .*action\[2\]"),
    (box((0, 1), (0, np.inf)), UNIT, r"state\[1\] runs from 0.0 to inf"),
    (gym.spaces.Discrete(3), UNIT,
     r"learned on the axes .*given environment has \['state', 'action"),
    (UNIT, box((0, 1), (0, 1), dtype=np.float32), r"action.*float64.*float32"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "action", "named"), OTHERS, ids=[named for *_, named in OTHERS])
def test_another_environment_is_refused_and_the_axis_is_named(path, state, action, named):
    zooming.AdaptiveQ(Drift(), horizon=3, seed=0).save(path)
    with pytest.raises(zooming.CheckpointError, match=named) as caught:
        zooming.load(path, env=Boxes(state, action))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("options", [
    {"ordered": ["state"]}, {"weights": [1.0, 1.0, 2.0]}, {"bounds": {"action[1]": (0.0, 0.5)}},
])  # fmt: skip
def test_an_option_does_not_hide_that_the_axes_are_others(path, options):
    zooming.AdaptiveQ(Boxes(gym.spaces.Discrete(3), UNIT), horizon=3, seed=0, **options).save(path)
    with pytest.raises(zooming.CheckpointError, match=r"learned on the axes .*environment has"):
        zooming.load(path, env=Boxes(box((0, 1)), box((0, 1))))


@EVERY_AGENT
def test_an_agent_loaded_without_its_environment_does_all_but_learn(path, kind):
    agent = AGENTS[kind](Drift(), horizon=3, seed=0)
    agent.learn(10)
    agent.save(path)
    loaded = zooming.load(path)
    state, after = np.array([0.2, 0.7]), np.array([0.3, 0.6])
    for step in range(3):
        assert (
            loaded.predict(state, [step])[0].tobytes() == agent.predict(state, [step])[0].tobytes()
        )
        action = agent.act(step, state)
        assert loaded.act(step, state).tobytes() == action.tobytes()
        for each in (agent, loaded):
            each.update(step, state, action, 0.5, after)
    assert knowledge(loaded) == knowledge(agent)
    with pytest.raises(zooming.ZoomingError, match=r"Drift.*zooming\.load\(path, env=env\)"):
        loaded.learn(1)


def test_a_wrapped_environment_is_not_replaced_by_the_bare_one(path):
    half = gym.wrappers.TransformReward(gym.make("zooming/Oil-v0"), lambda reward: reward / 2)
    agent = zooming.AdaptiveQ(half, seed=0)
    agent.learn(10)
    agent.save(path)
    with pytest.raises(zooming.ZoomingError, match="env=env"):
        zooming.load(path).learn(1)
    again = gym.wrappers.TransformReward(gym.make("zooming/Oil-v0"), lambda reward: reward / 2)
    assert_continues(agent, zooming.load(path, env=again), 10, path)


def test_an_agent_of_ones_own_is_loaded_by_its_own_class(path):
    class Mine(zooming.AdaptiveQ):
        def __init__(self, env, *, scale=2.0, **options):
            super().__init__(env, **options)
            self.scale = scale

        def act(self, step, observation, *, info=None):
            return super().act(step, observation, info=info) / self.scale

    class Forgetful(zooming.AdaptiveQ):
        def __init__(self, env, *, scale=2.0, **options):
            super().__init__(env, **options)

    agent = Mine(PROBLEMS["oil"](), scale=3.0, seed=0)
    agent.learn(20)
    with pytest.raises(zooming.ConfigurationError, match="its argument scale as the attribute"):
        Forgetful(PROBLEMS["oil"](), seed=0).save(path)
    agent.save(path)
    with pytest.raises(zooming.CheckpointError, match=r"Mine.*not one of zooming's agents"):
        zooming.load(path)
    with pytest.raises(zooming.CheckpointError, match="not one of zooming's agents"):
        zooming.AdaptiveQ.load(path)
    loaded = Mine.load(path)
    assert loaded.scale == 3.0
    assert_continues(agent, loaded, 10, path)


def fixed(base, *given, **options):
    """Return a class that sets its own options, and takes a seed alone."""

    class Fixed(base):
        def __init__(self, env, seed=None):
            super().__init__(env, *given, seed=seed, **options)

    return Fixed


@pytest.mark.parametrize("kind", [
    fixed(zooming.AdaptiveQ, bonus=0.3, horizon=2, reward_range=(0, 2)),
    fixed(zooming.NetQ, spacing=0.25),
    fixed(zooming.TreeQ, shared=False, slope=0.5),
    fixed(zooming.MetricQ, zooming.metrics.LInf(5), bonus=0.2),
    fixed(zooming.RandomizedQ),
    fixed(zooming.Planner, max_samples=2000),
])  # fmt: skip
def test_a_class_that_sets_its_own_horizon_and_options_is_loaded(path, kind):
    for n_episodes in (0, 20):
        agent = kind(PROBLEMS["oil"](), seed=3)
        agent.learn(n_episodes)
        agent.save(path)
        assert_continues(agent, kind.load(path), 10, path)
    plain = kind(Drift(n_steps=2), seed=3) if agent.horizon == 2 else agent
    plain.save(path)
    loaded = kind.load(path, env=plain.env)
    assert (loaded.horizon, loaded.seed) == (plain.horizon, 3)


def test_a_class_without_a_seed_is_loaded_with_the_seed_that_it_had(path):
    class Seedless(zooming.AdaptiveQ):
        def __init__(self, env):
            super().__init__(env)

    agent = Seedless(PROBLEMS["oil"]())
    agent.save(path)
    assert_continues(agent, Seedless.load(path), 10, path)


def test_options_that_a_class_sets_itself_are_checked_before_memory_is_taken(path):
    kind = fixed(zooming.NetQ, spacing=0.25)
    kind(PROBLEMS["oil"](), seed=3).save(path)
    header, arrays = files.read_container(path)
    header["fixed_options"]["horizon"] = 10**12
    files.write_container(path, header, arrays)
    with pytest.raises(zooming.CheckpointError, match="rows are too few"):
        kind.load(path)


class Silent(zooming.Agent):
    def act(self, step, observation, *, info=None):
        return self.axes.action_ends[0]

    def update(self, *transition, **options):
        pass


def test_what_load_could_not_rebuild_is_not_saved(path):
    class OldGenerator(Drift):
        def reset(self, *, seed=None, options=None):
            if seed is not None or self._np_random is None:
                self.np_random = np.random.Generator(np.random.MT19937(0))
            return super().reset()

    class Flat:
        def scale(self, horizon, reward_span):
            return 0.1

    path.unlink(missing_ok=True)
    with pytest.raises(zooming.ConfigurationError, match="define saved_state and restore_"):
        Silent(PROBLEMS["oil"](), seed=0).save(path)
    with pytest.raises(zooming.ZoomingError, match="cannot be saved"):
        zooming.AdaptiveQ(PROBLEMS["oil"](), bonus=Flat(), seed=0).save(path)
    agent = zooming.Random(OldGenerator(), horizon=3, seed=0)
    agent.learn(1)
    with pytest.raises(zooming.ConfigurationError, match=r"MT19937 .* only Gymnasium's own"):
        agent.save(path)
    assert not path.exists()


# --- predicting -----------------------------------------------------------------------------------


def test_a_warning_that_came_when_an_agent_was_made_does_not_come_again(path):
    with pytest.warns(UserWarning, match="horizon=7, but an episode of .* ends after 5 steps"):
        zooming.AdaptiveQ(PROBLEMS["oil"](), horizon=7, seed=0).save(path)
    assert zooming.load(path).horizon == 7  # a warning would be an error


@pytest.mark.plain
def test_a_rule_that_guides_an_agent_survives_but_for_its_code(path):
    agent = zooming.AdaptiveQ(PROBLEMS["oil"](), seed=0)
    agent.save(path)
    assert zooming.load(path).guide is None
    agent.warm_start(lambda step, state: [0.5], 40)
    agent.save(path)
    assert zooming.load(path).guide.state() == agent.guide.state()


def test_loading_with_an_environment_of_shorter_episodes_warns_and_of_the_same_does_not(tmp_path):
    def limited(n):
        return gym.wrappers.TimeLimit(Drift(n_steps=9), n)

    zooming.AdaptiveQ(limited(5), seed=0).save(tmp_path / "five.zoom")
    zooming.load(tmp_path / "five.zoom", env=limited(5))
    zooming.load(tmp_path / "five.zoom")
    with pytest.warns(UserWarning, match="horizon=5, but an episode of Drift ends after 3 steps"):
        zooming.load(tmp_path / "five.zoom", env=limited(3))


def test_an_agent_loaded_with_another_environment_has_its_name(tmp_path):
    class Slide(Drift):
        pass

    zooming.AdaptiveQ(Drift(), horizon=3, seed=0).save(tmp_path / "drift.zoom")
    loaded = zooming.load(tmp_path / "drift.zoom", env=Slide())
    assert repr(loaded).startswith("AdaptiveQ(Slide, ")
    with pytest.raises(zooming.TransitionError, match=r"^Slide, step 1: state\[0\]"):
        loaded.act(1, [7.0, 0.0])
    assert repr(zooming.load(tmp_path / "drift.zoom")).startswith("AdaptiveQ(Drift, ")


SCALED_SPACES = {
    "boxes": (box((0, 1)), box((0, 1))),
    "numbers": (gym.spaces.Discrete(3), gym.spaces.Discrete(4)),
    "mixed": (gym.spaces.Tuple([gym.spaces.Discrete(2), box((-3, 3))]), box((0, 1), (0, 2))),
}
SCALES = [1e-320, 1e-200, 1e-160, 1e-150, 1e-101, 1e-99, 1e-12, 1.0, 1e30, 9.9e99]
TOO_LARGE = [1e101, 1e154, 1e160, 1e290, 1e300, 1e307]


def scaled(scale, spaces="boxes"):
    """Return an environment whose rewards are 0.5 to 1 times `scale`, or the negative of that."""
    state, action = SCALED_SPACES[spaces]

    def pay(action):
        share = 0.5 + 0.5 * abs(np.sin(float(np.sum(action)) + 1.0))
        return -scale * share if spaces == "numbers" else scale * share

    return Chance(state, action, pay)


@pytest.mark.kernels
@pytest.mark.parametrize("spaces", SCALED_SPACES)
@pytest.mark.parametrize("kind", ["Auto", "Planner", "TreeQ", "AdaptiveQ"])
def test_what_save_writes_load_reads_at_every_scale_of_rewards(kind, spaces, path):
    for scale in SCALES:
        options = {} if kind in ("Auto", "Planner") else {"reward_range": (-1e99, 1e99)}
        if scale > 1e-90 and options:
            options = {"reward_range": (-scale, scale)}
        agent = getattr(zooming, kind)(scaled(scale, spaces), horizon=3, seed=0, **options)
        agent.learn(12)
        agent.save(path)
        loaded = zooming.load(path, env=scaled(scale, spaces))
        assert knowledge(loaded) == knowledge(agent), scale
        assert np.isfinite(loaded.value(0, scaled(scale, spaces).reset(seed=0)[0])), scale


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["Auto", "Planner", "TreeQ", "AdaptiveQ"])
def test_a_reward_too_large_to_be_squared_is_refused_at_once(kind, path):
    for scale in TOO_LARGE:
        agent = getattr(zooming, kind)(scaled(scale), horizon=3, seed=0)
        message = r"Chance, step 0: reward .* is (too large: at most 1e\+100|outside).*; .*rescale"
        with pytest.raises(zooming.TransitionError, match=message):
            agent.learn(12)
        before = knowledge(agent)
        assert agent.n_episodes == 0
        agent.save(path)
        assert knowledge(zooming.load(path, env=scaled(scale))) == before
        row = {"episode": [0], "state_0": [0.5], "action_0": [0.5], "reward": [scale]}
        with pytest.raises(zooming.TransitionError, match=r"reward outside.*rescale the reward"):
            agent.learn_from(row)
        assert knowledge(agent) == before
    for limits in [(0, 1e160), (-1e100, 1e100), (0, 1e-120)]:
        with pytest.raises(zooming.ConfigurationError, match="are supported; rescale the reward"):
            getattr(zooming, kind)(scaled(1.0), horizon=3, reward_range=limits)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["Auto", "Planner"])
def test_a_file_that_asks_for_gigabytes_is_refused_before_it_gets_them(kind, path):
    agent = getattr(zooming, kind)(scaled(1.0), horizon=3, seed=0)
    agent.learn(8)
    agent.save(path)
    header, arrays = files.read_container(path)
    numbers = {"kind": "Discrete", "n": 60_000, "start": 0, "dtype": "int64"}
    for horizon, state in [(10**9, None), (10**15, None), (10**5, numbers)]:
        changed = {**header, "options": {**header["options"], "horizon": horizon}}
        if state:
            changed["spaces"] = {**header["spaces"], "state": state}
        files.write_container(path, changed, arrays)
        tracemalloc.start()
        with pytest.raises(zooming.CheckpointError, match=f"horizon {horizon:,} with"):
            zooming.load(path)
        assert tracemalloc.get_traced_memory()[1] < 50e6
        tracemalloc.stop()
    with pytest.raises(zooming.SpaceError, match="give a shorter horizon, or ordered="):
        getattr(zooming, kind)(scaled(1.0), horizon=10**9)


def test_a_horizon_that_is_too_long_for_a_table_is_refused_by_name():
    with pytest.raises(zooming.SpaceError, match=r"1,000,000,000 steps make .* shorter horizon"):
        zooming.AdaptiveQ(scaled(1.0), horizon=10**9)
