"""Your own Gymnasium environment: a battery that buys power when cheap and sells when expensive."""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import zooming
from zooming import plots

PRICES = np.array(
    [0.2, 0.1, 0.4, 0.8, 0.5, 0.3, 0.9, 0.6]
)  # per unit of power, every three hours from midnight
OUT = Path("out/own_gymnasium_env.png")


class Battery(gym.Env):
    """State: charge. Action: charge to reach in three hours, by at most half the capacity."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hour, self.charge = 0, 0.5
        return np.array([self.charge]), {}

    def step(self, action):
        flow = np.clip(action[0] - self.charge, -0.5, 0.5)
        price = PRICES[self.hour // 3] * self.np_random.uniform(0.8, 1.2)
        reward = -price * flow - 0.05 * abs(flow)  # the last term is wear of the battery
        self.hour, self.charge = self.hour + 3, float(np.clip(self.charge + flow, 0.0, 1.0))
        return np.array([self.charge]), float(reward), self.hour == 24, False, {}


def main(episodes: int = 20_000) -> None:
    env = Battery()
    agent = zooming.AdaptiveQ(env, horizon=len(PRICES), reward_range=(-0.7, 0.6), seed=0)
    history = agent.learn(episodes)
    print(
        f"earned a day: {history.returns[:500].mean():.3f} at first, "
        f"{history.returns[-500:].mean():.3f} at the end"
    )
    charge, charges = env.reset(seed=1)[0], [0.5]
    for block in range(len(PRICES)):
        charge = env.step(agent.predict(charge, state=[block])[0])[0]
        charges.append(float(charge[0]))
        print(
            f"{3 * block:2d}:00  power costs {PRICES[block]:.1f}  full after it: {charges[-1]:4.0%}"
        )

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    history.plot(left).set_ylabel("earned a day")
    with plots.drawing(right):  # the library's style for your own plot
        right.bar(np.arange(0, 24, 3) + 1.5, PRICES, 2.8, color="0.8", label="price of power")
        right.plot(
            range(0, 27, 3),
            charges,
            "o-",
            color=plots.COLORS[0],
            label="share of the battery that is full",
        )
        right.set(
            xlabel="hour",
            xticks=range(0, 27, 6),
            ylim=(0, 1.35),
            title="a day with the learned policy",
        )
        right.legend(loc="upper left")
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=110)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
