"""Read a partition: where it is fine, how often balls were visited, and how far Q is from Q*."""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import zooming
from zooming import plots

STEP = 2
OUT = Path("out/reading_a_partition.png")


def main(episodes: int = 20_000) -> None:
    env = gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25)
    agent = zooming.AdaptiveQ(env, seed=0)
    agent.learn(episodes)
    balls = agent.partition(STEP)  # arrays, one entry per active ball
    share = (balls.high - balls.low).prod(axis=1)  # of the space, whose volume is 1
    print(balls)
    print("depth  radius  balls  share of the space  visits a ball")
    for depth in np.unique(balls.depth):
        here = balls.depth == depth
        visits = f"{balls.n_visits[here].min():,} to {balls.n_visits[here].max():,}"
        print(
            f"{depth:5d}  {0.5**depth:6.3f}  {here.sum():5d}  {share[here].sum():18.1%}  "
            f"{visits:>13}"
        )
    best = np.argmax(balls.q_value)
    print(
        f"the best ball: state and action from {balls.low[best]} to {balls.high[best]}, Q = "
        f"{balls.q_value[best]:.3f}"
    )

    optimal = zooming.solve(env)
    center = (balls.low + balls.high) / 2
    error = balls.q_value - optimal.q_values(STEP, center[:, :1], center[:, 1:])
    deep = balls.depth >= 4
    print(
        f"Q minus Q*: {error[deep].mean():+.3f} on balls of depth 4 and more, "
        f"{error[~deep].mean():+.3f} on the others"
    )

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    balls.plot(axes[0], limits=(2.0, 2.75))
    balls.plot(axes[1], optimal=optimal, limits=(2.0, 2.75))
    with plots.drawing(axes[2]) as ax:  # the library's style for your own plot
        ax.semilogx(balls.n_visits, error, "o", markersize=3.5, alpha=0.6, color=plots.COLORS[0])
        ax.set(
            xlabel="visits of a ball",
            ylabel="Q - Q* at its center",
            title="close to the truth where it was visited",
        )
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=95)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
