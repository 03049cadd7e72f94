"""Pictures of environments: what they show, when they cost nothing, and the clients of Gymnasium
that ask for them."""

import copy
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.utils.env_checker import check_env

import zooming


def count(state, action, step, params, chance, next_state):
    next_state[0] = min(state[0] + action[0], params[0])
    return 0.1 * action[0] - 0.15


def wander(state, action, step, params, rng, next_state):
    for i in range(6):
        next_state[i] = rng.random()
    return action[0]


def counting(**options):
    spaces = gym.spaces.Discrete(5), gym.spaces.Discrete(2, start=1)
    return zooming.compiled_env(
        count, *spaces, 3, start=0, params=[4.0], outcomes=([0.0], [1.0]), **options
    )


def wandering(**options):
    return zooming.compiled_env(
        wander, *[gym.spaces.Box(-1.0, 1.0, (6,), np.float64)] * 2, 4, start="uniform", **options
    )


def build_agent(name, **options):
    return lambda render_mode: gym.make(name, render_mode=render_mode, **options)


SHOWN = {
    "oil": build_agent("zooming/Oil-v0", survey="quadratic"),
    "oil of two dimensions": build_agent("zooming/Oil-v0", dims=2, noise=0.1),
    "oil of three dimensions": build_agent("zooming/Oil-v0", dims=3),
    "ambulance": build_agent("zooming/Ambulance-v0"),
    "ambulances": build_agent("zooming/Ambulance-v0", n_ambulances=3, arrivals="shifting"),
    "observed calls": build_agent("zooming/Ambulance-v0", n_ambulances=2, arrivals=[0.25, 0.5]),
    "your own, of whole numbers": lambda render_mode: counting(render_mode=render_mode),
    "your own, of six axes": lambda render_mode: wandering(render_mode=render_mode),
}


def middle(env):
    box = env.unwrapped.action_box
    return 1 if env.unwrapped.has_whole_actions else 0.75 * box.high + 0.25 * box.low


# --- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHOWN)
def test_every_environment_has_a_frame_that_changes_with_the_episode(name):
    env = SHOWN[name]("rgb_array")
    env.reset(seed=0)
    frames = [env.render()]
    env.step(middle(env))
    frames.append(env.render())
    for frame in frames:
        assert (frame.shape, frame.dtype) == ((400, 640, 3), np.uint8)
        assert 3 < len(np.unique(frame @ [65536, 256, 1])) < 5000
    assert (frames[0] != frames[1]).any(axis=2).mean() > 0.005


# --- what it must not disturb ---------------------------------------------------------------------


def test_without_a_render_mode_nothing_is_kept_and_render_says_what_to_do():
    env = gym.make("zooming/Oil-v0").unwrapped
    env.reset(seed=0)
    env.step(np.array([0.5]))
    assert env._played == []
    message = 'made without a render mode. Make it with render_mode="rgb_array"'
    with pytest.warns(UserWarning, match=message):
        assert env.render() is None


def test_what_cannot_be_rendered_says_why():
    said = "render_mode='ansi': choose 'rgb_array' or None"
    with pytest.raises(zooming.ConfigurationError, match=said):
        counting(render_mode="ansi")
    env = counting(render_mode="rgb_array")
    message = r"count: no episode is under way; call reset\(\) before render\(\)"
    with pytest.raises(gym.error.ResetNeeded, match=message):
        env.render()
    zooming.AdaptiveQ(env, reward_range=(-1, 1), seed=0).learn(1)  # which leaves no episode behind
    with pytest.raises(gym.error.ResetNeeded, match="no episode is under way"):
        env.render()


@pytest.mark.parametrize("name", ["ambulance", "your own, of whole numbers"])
def test_training_gives_the_same_history_when_it_can_be_shown(name):
    options = {"reward_range": (-1.0, 1.0), "seed": 3}
    expected = zooming.AdaptiveQ(SHOWN[name](None), **options).learn(40).returns
    for driver in ("fused", "python"):
        env = SHOWN[name]("rgb_array")
        assert (
            zooming.AdaptiveQ(env, **options).learn(40, driver=driver).returns == expected
        ).all()
        env.reset(seed=0)
        assert env.render() is not None


def test_a_copy_and_a_pickle_show_the_same():
    env = gym.make("zooming/Ambulance-v0", render_mode="rgb_array")
    env.reset(seed=0)
    env.step(np.array([0.7]))
    frame = env.render()
    twin = copy.deepcopy(env)
    again = pickle.loads(pickle.dumps(env.unwrapped))
    for other in (twin, again):
        assert (other.render() == frame).all()
    twin.step(np.array([0.2]))
    assert (env.render() == frame).all()
    assert (twin.render() != frame).any()


def test_a_saved_agent_comes_back_with_its_environment_and_goes_on_exactly(tmp_path):
    agent = zooming.AdaptiveQ(
        gym.make("zooming/Oil-v0", render_mode="rgb_array", sharpness=10.0), seed=0
    )
    agent.learn(3)
    agent.save(tmp_path / "agent")
    loaded = zooming.load(tmp_path / "agent")
    assert (loaded.env.render_mode, loaded.env.unwrapped.sharpness) == ("rgb_array", 10.0)
    assert loaded.env.spec == agent.env.spec
    assert (loaded.learn(3).returns == agent.learn(3).returns).all()


# --- clients of Gymnasium -------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["zooming/Oil-v0", "zooming/Ambulance-v0"])
def test_environments_pass_gymnasiums_check_of_rendering_without_a_warning(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(env_id).unwrapped)  # which makes and renders it in every mode


@pytest.mark.slow
@pytest.mark.process  # of ffmpeg
def test_a_video_is_recorded(tmp_path):
    folder = tmp_path / "videos"
    env = gym.make("zooming/Oil-v0", render_mode="rgb_array", horizon=2)
    env = wrappers.RecordVideo(env, str(folder), episode_trigger=bool)
    history = zooming.AdaptiveQ(env, seed=0).learn(3)  # the wrapper sends it step by step
    env.close()
    plain = zooming.AdaptiveQ(gym.make("zooming/Oil-v0", horizon=2), seed=0)
    assert (history.returns == plain.learn(3).returns).all()
    videos = sorted(path.name for path in folder.iterdir())
    assert videos == [f"rl-video-episode-{k}.mp4" for k in (1, 2)]  # episode 0 was not wanted
    assert all((folder / video).stat().st_size > 1000 for video in videos)
