"""A contextual bandit, which is a problem with horizon 1: learn prices from sales alone.

The shop sees how well a customer knows it (the context) and names a price. The customer buys or
does not. The shop never learns how much a customer would pay. The 200 random outcomes are declared,
so that the best prices can be computed for comparison.
"""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import zooming
from zooming import bonuses, plots

OUT = Path("out/pricing.png")
OUTCOMES = (np.arange(200) + 0.5) / 200, np.full(200, 1 / 200)


def sell(state, action, step, params, outcome, next_state):
    worth = 0.2 + 0.6 * state[0]  # the price that half of these customers would pay
    next_state[0] = state[0]
    return action[0] if outcome[0] < 1.0 / (1.0 + np.exp((action[0] - worth) / 0.1)) else 0.0


def main(episodes: int = 100_000, n_seeds: int = 5) -> None:
    share = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    env = zooming.compiled_env(sell, share, share, horizon=1, start="uniform", outcomes=OUTCOMES)
    optimal = zooming.solve(env)
    print(f"the best prices earn {optimal.return_:.4f} a customer")
    choices = {
        "c = 0.1": bonuses.Scaled(0.1),
        "c = 1": bonuses.Scaled(1.0),
        "Exact": bonuses.Exact(episodes=episodes, random_rewards=True),
        "Theory": bonuses.Theory(episodes=episodes),
    }
    regrets, agents = {}, {}
    for name, bonus in choices.items():

        def make(env, seed, bonus=bonus):
            return zooming.AdaptiveQ(env, bonus=bonus, seed=seed)

        histories = zooming.learn_many(make, env, seeds=range(n_seeds), episodes=episodes)
        regrets[name] = [history.regret(optimal) for history in histories]
        agents[name] = histories[0].agent
        print(
            f"{name:8} learned prices earn "
            f"{zooming.evaluate(agents[name], env, exact=True).mean:.4f}"
        )

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.7), layout="constrained")
    agents["c = 1"].partition(0).plot(axes[0])
    axes[0].set(xlabel="customer", ylabel="price", title="balls of c = 1")
    plots.policy(agents["c = 1"], axes[1], optimal=optimal)
    axes[1].set(xlabel="customer", ylabel="price", title="learned and best prices")
    axes[1].get_legend().texts[0].set_text("learned")
    plots.regret(regrets, axes[2])
    axes[2].set(xlim=(10, None), ylim=(1, None))
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=105)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
