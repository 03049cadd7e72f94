"""Stable-Baselines3 as a client: its check_env, its evaluate_policy, and one of its learners."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import zooming
import zooming.envs.oil
import zooming.validation
from helpers import AGENTS, KINDS

SETTINGS = [
    ("zooming/Oil-v0", {}),
    ("zooming/Oil-v0", {"survey": "quadratic", "noise": 0.1, "dims": 2, "start": "uniform"}),
    ("zooming/Ambulance-v0", {}),
    (
        "zooming/Ambulance-v0",
        {"arrivals": "shifting", "n_ambulances": 3, "start": "uniform", "horizon": 7},
    ),
    ("zooming/Ambulance-v0", {"arrivals": [0.1, 0.5, 0.9], "travel_weight": 1.0}),
]
EVERY_SETTING = pytest.mark.parametrize(("env_id", "options"), SETTINGS, ids=str)


def for_sb3(env):
    """The actions as Stable-Baselines3's learners like them: float32 in [-1, 1]."""
    box = gym.spaces.Box(-1.0, 1.0, env.action_space.shape, np.float32)
    return gym.wrappers.TransformAction(
        env, lambda action: (action.astype(np.float64) + 1) / 2, box
    )


def warnings_of(env):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, warn=True)
    return [str(warning.message) for warning in caught]


@EVERY_SETTING
def test_in_the_units_that_sb3_likes_they_pass_without_a_warning(env_id, options):
    assert warnings_of(for_sb3(gym.make(env_id, **options))) == []


def test_make_vec_env_makes_them_and_a_learner_trains_on_them():
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):  # it asks for pictures first
        envs = make_vec_env(
            "zooming/Oil-v0", n_envs=2, seed=0, env_kwargs={"dims": 2}, wrapper_class=for_sb3
        )
    model = PPO("MlpPolicy", envs, n_steps=20, batch_size=20, n_epochs=1, seed=0, device="cpu")
    model.learn(40)
    mean, _ = evaluate_policy(model, envs, 4)
    assert 0 <= mean <= 5
    envs.close()


# --- our agents under their evaluation ------------------------------------------------------------


def taught(kind, env_id, options):
    agent = AGENTS[kind](gym.make(env_id, **options), seed=1)
    agent.learn(60)
    return agent


def our_returns(agent, env_id, options, n, seed):
    """Returns of n episodes that are played one after another."""
    env = gym.make(env_id, **options)
    return zooming.evaluate(lambda step, x: agent.predict(x, [step])[0], env, n, seed=seed).returns


@EVERY_SETTING
@pytest.mark.parametrize("kind", KINDS)
def test_several_environments_give_the_returns_of_our_own_evaluation(kind, env_id, options):
    agent, n_episodes = taught(kind, env_id, options), 11
    env = DummyVecEnv([lambda: Monitor(gym.make(env_id, **options)) for _ in range(3)])
    env.seed(20)  # seeds 20, 21, 22
    returns, lengths = evaluate_policy(agent, env, n_episodes, return_episode_rewards=True)
    assert lengths == [agent.horizon] * n_episodes
    shares = [(n_episodes + i) // 3 for i in range(3)]  # so they are divided
    expected = [
        our_returns(agent, env_id, options, n, 20 + i).tolist() for i, n in enumerate(shares)
    ]
    in_turn = [
        round(expected[i][k], 6) for k in range(max(shares)) for i in range(3) if k < shares[i]
    ]
    assert returns == in_turn


def test_episodes_of_different_lengths_keep_their_own_steps():
    class Exit(gym.Env):
        """Ends with chance 1/3 after each step; the reward is the step, so that a wrong one
        would be seen."""

        observation_space = action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.np_random.random(1), {}

        def step(self, action):
            after, is_over = self.np_random.random(1), bool(self.np_random.random() < 1 / 3)
            return after, float(action[0]), is_over, False, {}

    class ByStep(zooming.Random):
        """Plays the step: step / horizon."""

        def greedy_actions(self, steps, states, deterministic, allowed):
            return steps[:, None] / self.horizon

    def limited():
        return Monitor(gym.wrappers.TimeLimit(Exit(), 6))

    agent = ByStep(limited(), horizon=6, seed=0)
    env = DummyVecEnv([limited] * 3)
    env.seed(0)
    returns, lengths = evaluate_policy(agent, env, 30, return_episode_rewards=True)
    assert len(set(lengths)) > 3
    assert returns == pytest.approx([n * (n - 1) / 2 / 6 for n in lengths], abs=1e-6)


def make_in_a_process():
    import zooming  # noqa: F401  # registers the environments in the new process

    return Monitor(gym.make("zooming/Ambulance-v0", start="uniform"))


@pytest.mark.process
@pytest.mark.slow
def test_environments_in_processes_of_their_own_give_the_same_returns():
    agent = taught("AdaptiveQ", "zooming/Ambulance-v0", {"start": "uniform"})
    env = SubprocVecEnv([make_in_a_process] * 2)
    try:
        env.seed(5)
        returns, _ = evaluate_policy(agent, env, 8, return_episode_rewards=True)
    finally:
        env.close()
    ours = [
        our_returns(agent, "zooming/Ambulance-v0", {"start": "uniform"}, 4, 5 + i) for i in range(2)
    ]
    assert returns == [round(total, 6) for pair in zip(*ours, strict=True) for total in pair]


@pytest.mark.parametrize(
    "mode", [gym.vector.AutoresetMode.SAME_STEP, gym.vector.AutoresetMode.NEXT_STEP]
)
def test_a_vector_environment_that_resets_too_late_is_told_the_mode_that_works(mode):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("zooming/Oil-v0")] * 2, autoreset_mode=mode)

    def play():
        observations, _ = envs.reset(seed=0)
        steps, starts = None, np.ones(2, bool)
        for _ in range(12):
            actions, steps = agent.predict(observations, steps, starts)
            observations, _, terminated, truncated, _ = envs.step(actions)
            starts = (terminated | truncated) & (mode == gym.vector.AutoresetMode.SAME_STEP)

    if mode == gym.vector.AutoresetMode.SAME_STEP:
        play()
    else:  # the last observation of an episode comes with a step that is none
        message = r"step 5 is outside the episode.*AutoresetMode.SAME_STEP"
        with pytest.raises(zooming.TransitionError, match=message):
            play()
    envs.close()
