"""Gymnasium's control tasks out of the box, with a finite horizon."""

import gymnasium as gym
import numpy as np
import pytest

import zooming

CART = {"state[1]": (-1.5, 1.5), "state[3]": (-1.5, 1.5)}
TASKS = {
    "CartPole-v1": ({"bounds": CART}, (0, 1)),
    "MountainCarContinuous-v0": ({}, (-0.1, 100)),
    "Pendulum-v1": ({}, (-16.5, 0)),
    "Acrobot-v1": ({}, (-1, 0)),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("split", ["all", "longest"])
def test_a_control_task_runs_out_of_the_box(name, split):
    options, reward_range = TASKS[name]
    env = gym.make(name, max_episode_steps=12)
    agent = zooming.AdaptiveQ(env, reward_range=reward_range, split=split, seed=0, **options)
    history = agent.learn(25)
    assert agent.horizon == 12
    assert np.isfinite(history.returns).all()
    assert history.n_balls[-1] > history.n_balls[0]
    assert agent.predict(env.observation_space.sample() * 0)[0] in env.action_space
    played = []
    for seed in (5, None):  # evaluate is this loop: the step travels in `state`
        (observation, _), steps, total, is_over = env.reset(seed=seed), None, 0.0, False
        while not is_over:
            action, steps = agent.predict(observation, steps)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, is_over = total + float(reward), terminated or truncated
        played.append(total)
    assert zooming.evaluate(agent, env, 2, seed=5).returns.tolist() == played


@pytest.mark.parametrize("name", ["CartPole-v1"])
def test_unbounded_velocities_are_refused_with_both_fixes_and_squashed_on_request(name):
    env = gym.make(name, max_episode_steps=12)
    message = r"axis state\[1\] runs from -inf to inf.*bounds=\{'state\[1\]': .*or squash=True"
    with pytest.raises(zooming.ConfigurationError, match=message):
        zooming.AdaptiveQ(env)
    assert zooming.AdaptiveQ(env, squash=True, seed=0).learn(5).returns.min() > 1


def test_early_termination_has_no_future_value():
    """A cart that falls at once: the estimate of a fatal action is its own reward, however much
    could have followed."""
    env = gym.make("CartPole-v1", max_episode_steps=30)
    agent = zooming.AdaptiveQ(env, bounds=CART, bonus=0.0, seed=0)
    falling = np.array([0, 0, 0.2, 1.0], np.float32)
    fallen = np.array([0, 0, 0.22, 1.0], np.float32)
    agent.update(3, falling, 0, 1.0, fallen, terminated=True)
    agent.update(3, falling, 1, 1.0, fallen, terminated=False)
    assert agent.q_value(3, falling, 0) == 1.0
    assert agent.q_value(3, falling, 1) == 1.0 + 26
    assert agent.predict(falling, [3])[0] == 1


def test_cart_pole_learns_to_balance_for_longer():
    env = gym.make("CartPole-v1", max_episode_steps=50)
    weights = {"state[0]": 0, "state[1]": 0.3}
    agent = zooming.AdaptiveQ(
        env, bounds=CART, weights=weights, split="longest", bonus=0.05, seed=0
    )
    returns = agent.learn(400).returns
    assert returns[-50:].mean() > 35  # a random policy falls after 22 steps
