"""Draw how a partition grows: one agent after 10, 100, 1,000 and 10,000 episodes."""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt

import zooming

MOMENTS = (10, 100, 1_000, 10_000)
OUT = Path("out/growing.png")


def main(step: int = 2) -> None:
    env = gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25)
    optimal = zooming.solve(env)
    agent = zooming.AdaptiveQ(env, seed=0)
    figure, axes = plt.subplots(
        2, len(MOMENTS), figsize=(12, 6), sharex=True, sharey=True, layout="constrained"
    )
    for moment, above, below in zip(MOMENTS, axes[0], axes[1], strict=True):
        agent.learn(moment - agent.n_episodes)
        balls, is_last = agent.partition(step), moment == MOMENTS[-1]
        balls.plot(above, limits=(2.0, 2.9), colorbar=is_last)
        balls.plot(below, optimal=optimal, limits=(2.0, 2.9), colorbar=is_last)
        above.title.set_text(f"{moment:,} episodes: {len(balls)} balls")
        below.title.set_text("over Q*")
        for ax in (above, below):
            ax.label_outer()
        print(f"{moment:6,} episodes: {balls}")
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=80)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
