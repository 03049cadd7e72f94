"""Two ambulances: draw a policy as maps and a partition with four axes as a slice."""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt

import zooming
from zooming import plots

OUT = Path("out/two_ambulances.png")


def main(episodes: int = 50_000) -> None:
    env = gym.make("zooming/Ambulance-v0", n_ambulances=2, arrivals="beta", travel_weight=0.25)
    agent = zooming.AdaptiveQ(env, seed=0)
    history = agent.learn(episodes)
    print(agent, history)
    balls = agent.partition(2)
    print(
        f"the most visited ball of step 2 is around {balls.center().round(3).tolist()}; the "
        f"slice: {balls.cut()}"
    )

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 5), width_ratios=(2, 3), layout="constrained"
    )
    balls.plot(left)  # the first state and action axis; the title says where the others are cut
    plots.policy(agent, right, steps=(1, 2, 4))  # one map per step and ambulance
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=80)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
