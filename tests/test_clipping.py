"""Rewards outside `reward_range`: clipped and counted with `rewards="clip"`, and the range that
a pilot run proposes."""

import json
import warnings

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import AGENTS, KINDS, Drift, box, knowledge, same_history
from zooming.agents.files import container as files
from zooming.bonuses import Doubling, Theory

CLIPPING = {
    **{kind: AGENTS[kind] for kind in KINDS},
    "lazy": lambda env, **options: zooming.MetricQ(
        env, zooming.metrics.LInf(points_per_axis=9), lazy=True, **options
    ),
    "doubling": lambda env, **options: zooming.AdaptiveQ(env, bonus=Doubling(Theory()), **options),
}
pytestmark = [
    pytest.mark.kernels,
    pytest.mark.filterwarnings("ignore:.*was clipped, and others will be, too"),
]
EVERY_AGENT = pytest.mark.parametrize("kind", CLIPPING)
RANGE = (0.2, 0.75)  # both ends are passed by the rewards of Ambulance


def ambulance(**options):
    return gym.make("zooming/Ambulance-v0", arrivals="uniform", **options)


def clipping(kind, env=None, **options):
    return CLIPPING[kind](env or ambulance(), reward_range=RANGE, rewards="clip", seed=1, **options)


class Clipped(gym.RewardWrapper):
    """The oracle: an environment that pays clipped rewards, and counts."""

    n_clipped = 0

    def reward(self, reward):
        self.n_clipped += not RANGE[0] <= reward <= RANGE[1]
        return min(max(reward, RANGE[0]), RANGE[1])


@EVERY_AGENT
def test_both_drivers_learn_what_an_environment_of_clipped_rewards_teaches(kind):
    fused, python = clipping(kind), clipping(kind)
    histories = fused.learn(40, driver="fused"), python.learn(40, driver="python")
    oracle_env = Clipped(ambulance())
    oracle = CLIPPING[kind](oracle_env, reward_range=RANGE, seed=1, horizon=5)
    oracle.learn(40)
    assert 20 < fused.n_clipped < 180
    counts = [one.n_clipped for one in (fused, python, oracle_env, *histories)]
    assert len({*counts}) == 1
    assert same_history(*histories)
    assert knowledge(fused)[1:] == knowledge(python)[1:]
    assert fused.saved_state()[1].keys() == oracle.saved_state()[1].keys()
    for name, array in oracle.saved_state()[1].items():
        assert fused.saved_state()[1][name].tobytes() == array.tobytes(), name


@EVERY_AGENT
def test_returns_are_what_the_environment_paid(kind):
    honest = CLIPPING[kind](ambulance(), reward_range=(0.0, 1.0), seed=1).learn(1).returns
    # The first episode is played before anything is learned.
    assert clipping(kind).learn(1).returns == honest


@EVERY_AGENT
def test_by_hand_a_clipped_reward_is_learned_as_the_nearer_end_and_counted(kind):
    far, near, x = clipping(kind), clipping(kind), np.array([0.5])
    for k, (reward, end) in enumerate(
        [(-3.0, 0.2), (0.76, 0.75), (np.float32(2), 0.75), (10**300, 0.75), (0.3, 0.3)]
    ):
        far.update(k, x, x, reward, x)
        near.update(k, x, x, end, x)
        assert far.n_clipped == min(k + 1, 4)
    assert near.n_clipped == 0
    assert [array.tobytes() for array in far.saved_state()[1].values()] == [
        array.tobytes() for array in near.saved_state()[1].values()
    ]


def break_down(state, action, step, params, rng, next_state):
    """At step 1, the next state and the reward are those of params."""
    next_state[0] = params[0] if step == 1 else state[0]
    return params[1] if step == 1 else 5.0


@pytest.mark.parametrize("driver", ["fused", "python"])
@pytest.mark.parametrize(("state", "reward", "match"), [
    (2.0, 5.0, "next state"),
    (0.5, np.nan, "reward nan is outside .*; check the environment"),
    (0.5, np.inf, "reward inf is outside .*; check the environment"),
])  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_ends_the_run_and_is_not_counted(kind, state, reward, match, driver):
    env = zooming.compiled_env(
        break_down, box((0, 1)), box((0, 1)), 3, start=0.5, params=[0.5, 0.5]
    )
    env.params[:2] = state, reward
    agent = clipping(kind, env)
    with pytest.raises(zooming.TransitionError, match=f"break_down, step 1: {match}"):
        agent.learn(5, driver=driver)
    assert agent.n_clipped == 1


@pytest.mark.parametrize("driver", ["fused", "python"])
def test_the_first_clipped_reward_is_warned_about_and_no_other(driver, tmp_path):
    agent = clipping("AdaptiveQ")
    message = (
        r"Ambulance-v0: a reward outside the reward range \[0.2, 0.75\] was "
        r"clipped.*reward_range\(env, horizon=5\)"
    )
    with pytest.warns(UserWarning, match=message) as told:
        agent.learn(20, driver=driver)
    assert [one.filename for one in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.learn(20, driver=driver)
        agent.save(tmp_path / "agent")
        zooming.load(tmp_path / "agent").learn(5, driver=driver)


@EVERY_AGENT
def test_a_file_keeps_the_option_and_the_count(kind, tmp_path):
    agent = clipping(kind)
    agent.learn(15)
    agent.save(tmp_path / "agent")
    loaded = zooming.load(tmp_path / "agent", env=ambulance())
    assert (loaded.rewards, loaded.n_clipped) == ("clip", agent.n_clipped)
    assert same_history(loaded.learn(15), agent.learn(15))
    assert loaded.n_clipped == agent.n_clipped > 0


@pytest.mark.parametrize(("kind", "n_clipped", "rewards"), [
    (zooming.AdaptiveQ, -1, "clip"), (zooming.AdaptiveQ, 3, "refuse"), (zooming.Auto, 3, "refuse"),
])  # fmt: skip
def test_a_file_whose_count_cannot_be_is_refused(kind, n_clipped, rewards, tmp_path):
    options = {} if kind is zooming.Auto else {"rewards": rewards}
    agent = kind(ambulance(), seed=0, **options)
    agent.learn(2)
    agent.save(tmp_path / "agent")
    header, arrays = files.read_container(tmp_path / "agent")
    changed = json.loads(json.dumps(header))
    (changed["values"]["agents"][0] if kind is zooming.Auto else changed)["n_clipped"] = n_clipped
    files.write_container(tmp_path / "agent", changed, arrays)
    message = "3 rewards were clipped by an agent with rewards='refuse'|n_clipped=-1: give a whole"
    with pytest.raises(zooming.CheckpointError, match=message):
        zooming.load(tmp_path / "agent")


@EVERY_AGENT
def test_the_count_is_shown_by_agent_and_history(kind):
    agent = clipping(kind)
    assert "clipped" not in repr(agent) + agent._repr_html_()
    first = agent.learn(10)
    both = first + agent.learn(10)
    assert 0 < first.n_clipped < both.n_clipped == agent.n_clipped
    shown = f"{agent.n_clipped} rewards clipped"
    assert shown in repr(agent)
    assert shown in repr(both)
    assert "rewards clipped" in agent._repr_html_()


def test_an_agent_of_your_own_that_checks_its_transitions_clips_and_counts():
    class Mean(zooming.Random):
        seen = 0.0

        def update(self, *transition, next_info=None):
            self.seen += self.checked_transition(*transition[:5])[2]

    agent = Mean(ambulance(), reward_range=(0.0, 0.25), rewards="clip", seed=0)
    agent.learn(4, driver="python")
    assert 15 < agent.n_clipped <= 20
    assert agent.seen <= 20 * 0.25


def test_a_study_takes_it_as_a_setting_and_reports_the_count(tmp_path, capsys):
    from zooming.lab.report import make_page
    from zooming.lab.study.problems import Problem
    from zooming.lab.study.run_command import show

    problem = Problem(
        "four", "zooming/Ambulance-v0", {"n_ambulances": 4, "horizon": 2}
    )  # too many to be solved
    study = zooming.Study(
        [problem], ["adaptive-q:rewards=clip:reward_range=(0.9,0.95)", "random"], 20, 2
    )
    clipped, random = study.run(tmp_path / "study", workers=1)
    assert clipped.n_clipped > 0 == random.n_clipped
    show([clipped, random], 2)
    text = f"{clipped.n_clipped:,.1f} rewards a run were clipped"
    assert text in capsys.readouterr().out
    assert make_page(tmp_path / "study").count("were clipped") == 1
    assert text in make_page(tmp_path / "study")


# --- the range of a pilot run ---------------------------------------------------------------------


def corner_pay(state, action, step, params, rng, next_state):
    """Pays for the product of what all coordinates are above the middle, so that only corners
    pay most."""
    next_state[0] = rng.random()
    reward = 1.0
    for i in range(action.shape[0]):
        reward *= 2.0 * action[i] - 1.0
    return 10.0 * reward


def test_the_proposed_range_covers_the_corners_with_the_stated_margin():
    env = zooming.compiled_env(corner_pay, box((0, 1)), box(*[(0, 1)] * 3), 4, start="uniform")
    assert zooming.reward_range(env, 20) == (-12.0, 12.0)  # a tenth of 20 on each side
    random = zooming.Random(env, reward_range=(-10, 10), seed=0)
    assert np.abs(random.learn(20).returns).max() < 12  # random actions would not have shown it


def test_the_environment_goes_on_as_if_there_had_been_no_pilot_run():
    for make in (ambulance, lambda: Drift(n_steps=3), lambda: gym.make("Pendulum-v1")):
        env, twin = make(), make()
        for one in (env, twin):
            one.reset(seed=5)
            one.action_space.seed(7)
        assert zooming.reward_range(env, 4, horizon=3, seed=1) == zooming.reward_range(
            make(), 4, horizon=3, seed=1
        )
        assert (env.reset()[0] == twin.reset()[0]).all()
        assert (env.action_space.sample() == twin.action_space.sample()).all()


def test_an_environment_that_was_never_seeded_stays_so():
    env = ambulance()
    zooming.reward_range(env, 1)
    assert env.unwrapped._np_random is None


@pytest.mark.parametrize(
    ("pay", "proposed"),
    [(0.0, (-0.1, 0.1)), (5.0, (4.5, 5.5)), (-2.0, (-2.2, -1.8))],
    ids=["nothing", "five", "minus two"],
)
def test_a_reward_that_is_always_the_same_is_widened_by_its_size(pay, proposed):
    env = Drift(flaw=lambda step, state, reward: (state, pay))
    assert zooming.reward_range(env, 2, horizon=3) == pytest.approx(proposed)


class Many(gym.Env):
    """Remembers the actions that it was played."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Dict({
        "box": gym.spaces.Box(np.array([-1, 0], np.float32), np.array([1, np.inf], np.float32)),
        "pair": gym.spaces.Tuple([gym.spaces.Discrete(3, start=2), gym.spaces.MultiBinary(2)]),
        "several": gym.spaces.MultiDiscrete([2, 4]),
    })  # fmt: skip

    def __init__(self, info=None):
        self.played, self.info = [], info or {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2), self.info

    def step(self, action):
        assert self.action_space.contains(action), action
        self.played.append(action)
        reward = float(np.sum(action["several"]) if isinstance(action, dict) else action)
        return np.zeros(2), reward, False, False, self.info


def test_every_kind_of_action_space_has_its_corners_played():
    env = Many()
    zooming.reward_range(env, 40, horizon=3)
    assert len(env.played) == 120
    throughout = env.played[3 * 3 : 3 * 4], env.played[3 * 7 : 3 * 8]  # of the episodes 3 and 7
    for actions, side in zip(throughout, ("low", "high"), strict=True):
        for action in actions:
            assert action["box"][0] == {"low": -1, "high": 1}[side]
            assert action["pair"][0] == {"low": 2, "high": 4}[side]
            assert action["pair"][1].tolist() == {"low": [0, 0], "high": [1, 1]}[side]
            assert action["several"].tolist() == {"low": [0, 0], "high": [1, 3]}[side]
    corners = {
        (int(action["pair"][0]), *action["several"].tolist()) for action in env.played[3 * 2 :: 12]
    }
    assert corners <= {(a, b, c) for a in (2, 4) for b in (0, 1) for c in (0, 3)}
    assert len(corners) > 2
    free = {round(float(action["box"][1]), 6) for action in env.played}
    assert len(free) > 40  # where the space has no end, there is no corner
    assert zooming.reward_range(Many(), 40, horizon=3) == (-0.4, 4.4)


def test_only_feasible_actions_are_played():
    env = Many({"action_mask": np.array([0, 1, 0, 1, 0], np.int8)})
    env.action_space = gym.spaces.Discrete(5)
    assert zooming.reward_range(env, 8, horizon=3) == (0.8, 3.2)
    assert {int(action) for action in env.played} == {1, 3}


def test_what_cannot_be_tried_says_why():
    with pytest.raises(zooming.ConfigurationError, match="does not say how long an episode is"):
        zooming.reward_range(Drift(), 1)
    with pytest.raises(zooming.ConfigurationError, match="'zooming/Oil-v0' is not an environment"):
        zooming.reward_range("zooming/Oil-v0")
    with pytest.raises(zooming.ConfigurationError, match="episodes"):
        zooming.reward_range(ambulance(), 0)
    env = Drift(flaw=lambda step, state, reward: (state, np.nan if step == 1 else reward))
    message = "Drift, step 1: reward nan is not finite; check the environment"
    with pytest.raises(zooming.TransitionError, match=message):
        zooming.reward_range(env, 1, horizon=3)
