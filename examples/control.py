"""Gymnasium's control tasks: python examples/control.py [task ...]. Results: docs/control.md."""

import sys
import time

import gymnasium as gym

import zooming

# Each action is repeated for several steps. So the horizon and the number of partitions stay small.
# task: (repeats, horizon, episodes, reward for learning, options). That reward is within [0, 1] or
# [-1, 0] per step. The policy is evaluated with the reward of the task.
COST = {"reward_range": (-1.0, 0.0), "split": "longest", "bonus": 0.05}
CART = {
    "state[0]": (-2.4, 2.4),
    "state[1]": (-1.5, 1.5),
    "state[2]": (-0.21, 0.21),
    "state[3]": (-1.5, 1.5),
}
TASKS = {
    "MountainCarContinuous-v0": (
        20, 15, 1_000, lambda seen, reward: 0.0 if reward > 50 else (reward - 1) / 1.1, COST,
    ),
    "CartPole-v1": (
        2, 100, 2_000, lambda seen, reward: max(0.0, 1 - (seen[2] / 0.21) ** 2),
        {"bounds": CART, "weights": [0.2, 0.3, 1, 1, 1], "split": "longest", "bonus": 0.05},
    ),
    "Pendulum-v1": (5, 40, 3_000, lambda seen, reward: max(reward / 16.5, -1.0), COST),
    "Acrobot-v1": (
        # height of the tip
        4, 50, 600, lambda seen,
        reward: -(2 + seen[0] + seen[0] * seen[2] - seen[1] * seen[3]) / 4.01,
        {**COST, "weights": {"state[0]": 0, "state[1]": 0, "state[2]": 0, "state[3]": 0}},
    ),
}  # fmt: skip


class Held(gym.Wrapper):
    """Repeat each action `n` times; give the mean of `reward`, or the sum of the task's rewards."""

    def __init__(self, env, n, reward=None):
        super().__init__(env)
        self.n, self.reward = n, reward

    def step(self, action):
        total = 0.0
        for _ in range(self.n):
            seen, reward, terminated, truncated, info = self.env.step(action)
            total += reward if self.reward is None else self.reward(seen, reward) / self.n
            if terminated or truncated:
                break
        return seen, total, terminated, truncated, info


for name in sys.argv[1:] or ["MountainCarContinuous-v0"]:
    n_held, horizon, episodes, learned_reward, options = TASKS[name]
    env = gym.make(name, max_episode_steps=n_held * horizon)
    agent = zooming.AdaptiveQ(Held(env, n_held, learned_reward), horizon=horizon, seed=0, **options)
    began = time.perf_counter()
    agent.learn(episodes)
    seconds = time.perf_counter() - began
    value = zooming.evaluate(agent, Held(env, n_held), 100)
    print(
        f"{name}: return {value.mean:.1f} ({value.low:.1f} to {value.high:.1f}), "
        f"{agent.n_balls:,} balls, {seconds:.0f} s"
    )
