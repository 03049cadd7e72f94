"""Measure how good an agent is: optimum, exact policy value, regret, its growth, and an audit."""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt

import zooming
from zooming import plots, theory

OUT = Path("out/how_good.png")


def main(episodes: int = 20_000) -> None:
    env = gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25)
    optimal = zooming.solve(env)
    print(
        f"optimum: {optimal.return_:.4f}, within about {optimal.return_error:.1e}, found in "
        f"{optimal.seconds:.1f} s"
    )

    histories = zooming.learn_many(zooming.AdaptiveQ, env, seeds=range(10), episodes=episodes)
    agent = histories[0].agent
    print("policy: ", zooming.evaluate(agent, env, exact=True))

    regrets = [history.regret(optimal) for history in histories]
    exponent = zooming.regret_exponent(regrets)
    print(
        f"regret grows like K^e, e = {exponent}; the bound says "
        f"{theory.regret_exponent_bound(2):.2f}"
    )
    print(zooming.audit(agent, optimal))

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    limits = 2.0, 2.75  # the same color scale for both
    agent.partition(2).plot(axes[0], limits=limits)
    agent.partition(2).plot(axes[1], optimal=optimal, limits=limits)
    plots.regret({"AdaptiveQ": regrets}, axes[2])
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=105)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
