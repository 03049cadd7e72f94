"""A first agent: train it, read its policy, save it, and compare it with a fixed grid."""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt

import zooming
from zooming import plots

OUT = Path("out/first_agent.png")


def main(episodes: int = 5_000, n_seeds: int = 20) -> None:
    # Where should an ambulance wait on a street from 0 to 1? Most calls come from its upper end,
    # and driving to the waiting place has a cost too.
    env = gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25)
    agent = zooming.AdaptiveQ(env, seed=0)
    print(agent.learn(episodes))
    print(agent)
    action, _ = agent.predict([0.5])
    print(
        f"waiting at 0.5, the first move is to {action[0]:.2f}; its value is "
        f"{agent.value(0, [0.5]):.2f}"
    )
    optimal = zooming.solve(env)
    print(
        f"the policy is worth {zooming.evaluate(agent, env, exact=True).mean:.3f} of at most "
        f"{optimal.return_:.3f}"
    )

    OUT.parent.mkdir(exist_ok=True)
    agent.save("out/first_agent.zoom")
    assert zooming.load("out/first_agent.zoom").n_episodes == episodes

    kinds = (zooming.AdaptiveQ, zooming.NetQ)
    histories = {
        kind.__name__: zooming.learn_many(kind, env, range(n_seeds), episodes) for kind in kinds
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    plots.learning_curves(histories, left, optimum=optimal)
    plots.policy(agent, right, steps=range(1, env.unwrapped.horizon), optimal=optimal)
    figure.savefig(OUT, dpi=110)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
