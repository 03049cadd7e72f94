"""What users of other libraries write first: each error says what to use here, and types are
checked for users."""

import subprocess
import sys
import tomllib
from pathlib import Path

import gymnasium as gym
import pytest

import zooming
from helpers import Drift, oil

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("kind", [zooming.AdaptiveQ, zooming.NetQ, zooming.Random])
@pytest.mark.parametrize(("options", "message"), [
    ({"gamma": 0.99},
     "returns are not discounted: an episode has a fixed number of steps, horizon="),
    ({"policy": "MlpPolicy"}, "partition, not a network; leave it out"),
    ({"learning_rate": 3e-4}, r"a ball's is \(H \+ 1\) / \(H \+ t\)"),
    ({"exploration_fraction": 0.1}, "exploration is by optimism: set its size with bonus="),
    ({"batch_size": 64}, "nothing is batched, replayed or run on a device"),
    ({"verbose": 1}, r"learn\(..., progress_bar=True\)"),
])  # fmt: skip
def test_an_option_of_another_library_is_answered_with_what_to_use_here(kind, options, message):
    (name,) = options
    said = f"{kind.__name__} has no option '{name}': .*{message}"
    with pytest.raises(zooming.ConfigurationError, match=said):
        kind(oil(), **options)


def test_learn_counts_episodes_and_says_so():
    agent = zooming.AdaptiveQ(oil(), seed=0)
    text = r"learn has no option 'total_timesteps': runs are counted in episodes"
    with pytest.raises(zooming.ConfigurationError, match=text):
        agent.learn(total_timesteps=10_000)
    said = "learn has no option 'eposides'; did you mean 'episodes'"
    with pytest.raises(zooming.ConfigurationError, match=said):
        agent.learn(eposides=3)
    with pytest.raises(TypeError, match="predict has no option 'step': give state="):
        agent.predict([0.5], step=2)
    assert agent.n_episodes == 0


@pytest.mark.parametrize("kind", [zooming.AdaptiveQ, zooming.Auto, zooming.Random])
def test_a_call_without_the_step_or_in_another_order_says_how_to_call(kind):
    agent, seen, action = kind(oil(), seed=0), [0.3], [0.5]
    for call, message in (
        (lambda: agent.act(seen), r"act\(step, observation\), where|0 to 4; the step"),
        (lambda: agent.act(1), r"act\(step, observation\), where|step 1: .* None"),
        (lambda: agent.act(), r"act\(step, observation\), where|step None is not a whole number"),
        (lambda: agent.update(), "call agent.update.step|step None is not a whole number"),
        (lambda: agent.update(0, seen), "call agent.update.step, obs|reward None is not a number"),
        (lambda: agent.predict(), r"'observation': call predict\(observation, \.\.\.\)"),
        (lambda: agent.act(seen, 0), r"\[0\.3\] is not a whole number from 0 to 4; the step"),
        (lambda: agent.predict(0, seen), r"comes first: agent\.predict\(observation, state=step\)"),
        *(() if kind is zooming.Random else (
            (lambda: agent.value(seen), r"call agent\.value\(step, observation\)"),
            (lambda: agent.q_value(seen, action), r"agent\.q_value\(step, observation, action\)"),
            (lambda: agent.q_value(seen, action, 0), "is not a whole number from 0 to 4; the step"),
            (lambda: agent.visits(seen, action), r"agent\.visits\(step, observation, action\)"),
            (lambda: agent.partition(), r"'step': call agent\.partition\(step\)"),
        )),
    ):  # fmt: skip
        with pytest.raises(zooming.errors.ZoomingError, match=message):
            call()


def test_a_forgotten_argument_is_named_with_the_call():
    agent = zooming.AdaptiveQ(oil(), seed=0)
    for call, message in (
        (lambda: zooming.MetricQ(oil()), r"'metric': call MetricQ\(env, metric, \.\.\.\)"),
        (zooming.Auto, r"'env': call Auto\(env, \.\.\.\)"),
        (agent.learn, r"'episodes': call learn\(episodes, \.\.\.\)"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            call()


def test_an_environment_has_no_habits_of_agents():
    with pytest.raises(TypeError, match="unexpected keyword argument 'alpha'"):
        gym.make("zooming/Oil-v0", alpha=1)


def test_a_policys_name_in_the_place_of_the_environment_is_named():
    said = r"AdaptiveQ\('MlpPolicy', ...\): .* and give the environment first"
    with pytest.raises(zooming.ConfigurationError, match=said):
        zooming.AdaptiveQ("MlpPolicy", oil())
    message = r"'Pendulum-v1' is not an environment; .* gymnasium.make\(\"Pendulum-v1\"\)"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.AdaptiveQ("Pendulum-v1")


def test_a_vector_environment_is_refused_with_what_learns_many_seeds():
    envs = gym.make_vec("zooming/Oil-v0", num_envs=3, vectorization_mode="sync")
    message = r"SyncVectorEnv is a vector environment of 3; .*learn\(episodes, env=envs\)"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.AdaptiveQ(envs, horizon=5)
    agent = zooming.AdaptiveQ(oil(), seed=0)
    with pytest.raises(zooming.ConfigurationError, match="is a vector environment of 3"):
        zooming.evaluate(agent, envs)
    observations, _ = envs.reset(seed=0)
    assert agent.predict(observations)[0].shape == (3, 1)  # as the error says


class OldReset(Drift):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]  # two numbers, which would unpack as (observation, info)


class Unseeded(Drift):
    def reset(self):
        return super().reset()


class OldStep(Drift):
    def step(self, action):
        state, reward, terminated, _, info = super().step(action)
        return state, reward, terminated, info


class Broken(Drift):
    def reset(self, *, seed=None, options=None):
        raise TypeError("a fault of the environment's own")


@pytest.mark.parametrize(("make", "message"), [
    (OldReset, r"OldReset: reset gave an observation alone, not \(observation, info\); write def "
     r"reset\(self, \*, seed=None"),
    (Unseeded,
     r"Unseeded: reset takes no seed; write def reset\(self, \*, seed=None, options=None\)"),
    (OldStep, "OldStep: step gave 4 values, the old interface of Gym; give five: observation, "
     "reward, terminated"),
])  # fmt: skip
def test_gyms_old_interface_is_refused_with_the_new_one(make, message):
    agent = zooming.AdaptiveQ(make(), horizon=3, seed=0)
    with pytest.raises(zooming.ConfigurationError, match=message):
        agent.learn(2)
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.evaluate(agent, make(), 2)
    assert agent.n_episodes == 0


def test_an_environments_own_type_error_is_passed_on():
    with pytest.raises(TypeError, match="a fault of the environment's own"):
        zooming.AdaptiveQ(Broken(), horizon=3, seed=0).learn(1)


# --- types ----------------------------------------------------------------------------------------

PROGRAM = """
import gymnasium as gym
import zooming
agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), bonus=0.1, seed=0)
history: zooming.History = agent.learn(100)
print(history.to_frame(), zooming.evaluate(agent, episodes=10).mean + 1)
"""
WRONG = """
agent.learn("many")
zooming.NetQ(agent.env, spacing=0.1, sede=0)
"""


@pytest.mark.process
def test_users_programs_are_checked_against_the_packages_types(tmp_path):
    programs = {"right.py": PROGRAM, "wrong.py": PROGRAM + WRONG}
    for name, program in programs.items():
        (tmp_path / name).write_text(program)
    # Other packages' types are left out: they take a minute, and are not what is asked about.
    options = ["--strict", "--no-site-packages", "--ignore-missing-imports"]
    options += ["--follow-imports=silent", "--cache-dir=/dev/null"]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *programs],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    ).stdout
    assert 'Argument 1 to "learn" of "Agent" has incompatible type "str"; expected "int"' in found
    assert 'Unexpected keyword argument "sede" for "NetQ"' in found
    assert "Found 2 errors in 1 file (checked 2 source files)" in found
    assert "right.py" not in found


def test_the_wheel_says_that_the_package_is_typed():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    hook = {"custom": {"path": "tools/wheel_hook.py"}}
    assert wheel == {"packages": ["src/zooming"], "hooks": hook}  # the whole folder
    assert (ROOT / wheel["packages"][0] / "py.typed").read_bytes() == b""
    ignored = subprocess.run(
        ["git", "check-ignore", "src/zooming/py.typed"], cwd=ROOT, capture_output=True
    )
    assert ignored.returncode != 0  # hatch leaves out what git ignores
