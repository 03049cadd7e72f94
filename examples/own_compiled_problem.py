"""Compile your own problem: order stock before an uncertain demand, and read the learned policy.

The dynamics are one function of floats. `zooming.compiled_env` compiles it into a Gymnasium
environment, in the units of the problem: tons in store, tons to order up to.
"""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import zooming

CAPACITY = 100.0  # tons
PRICE, COST, STORAGE = 10.0, 6.0, 0.5  # per ton sold, ordered, stored overnight
BEST = 759.0  # approximate optimum of a week: order up to 55, and to 27 on the last day
OUT = Path("out/own_compiled_problem.png")


def store(state, action, step, params, rng, next_state):
    price, cost, storage, busiest = params[0], params[1], params[2], params[3]
    level = max(state[0], action[0])  # order up to the action; stock cannot be returned
    demand = rng.beta(2.0, 4.0) * busiest
    sold = min(level, demand)
    next_state[0] = level - sold
    return price * sold - cost * (level - state[0]) - storage * next_state[0]


def main(episodes: int = 200_000) -> None:
    tons = gym.spaces.Box(0.0, CAPACITY, (1,), np.float64)
    env = zooming.compiled_env(
        store, tons, tons, horizon=7, start=[0.0], params=[PRICE, COST, STORAGE, CAPACITY]
    )
    agent = zooming.AdaptiveQ(
        env, reward_range=(-CAPACITY * (COST + STORAGE), CAPACITY * PRICE), seed=0
    )
    history = agent.learn(episodes)
    first, last = history.returns[:1000].mean(), history.returns[-1000:].mean()
    print(
        f"profit of a week: {first:.0f} in the first 1,000 episodes, {last:.0f} in the last; at "
        f"best about {BEST:.0f}"
    )
    print("in store   order up to, day by day (the first day begins with an empty store)")
    for tons_left in (0.0, 10.0, 20.0, 30.0):
        levels = [agent.predict([tons_left], state=[day])[0][0] for day in range(env.horizon)]
        shown = [
            f"{max(level, tons_left):5.0f}" if day or not tons_left else "    -"
            for day, level in enumerate(levels)
        ]
        print(f"{tons_left:8.0f}   " + " ".join(shown))

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    history.plot(left, optimum=BEST)
    left.set_ylabel("profit of a week")
    agent.partition(3).plot(right)
    right.set(xlabel="tons in store", ylabel="order up to")
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=110)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
