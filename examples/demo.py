"""Train AdaptiveQ and NetQ on the oil problem, print the results, and draw them."""

import time
from functools import partial
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
from rich.console import Console
from rich.table import Table

import zooming
from zooming import plots

EPISODES, SEEDS = 20_000, range(10)
OUT = Path("out/demo.png")


def main() -> None:
    env = gym.make("zooming/Oil-v0", survey="laplace", sharpness=10.0)
    oil = env.unwrapped
    optimum = oil.horizon - abs(0.5 - oil.center[0])  # move to the oil in one step and stay
    print(
        f"Oil discovery: {EPISODES:,} episodes of {oil.horizon} steps; the best possible return "
        f"is {optimum:.2f}. The first run compiles for a minute or two."
    )
    table = Table()
    for column in (
        "agent",
        "return at the end",
        "share of the optimum",
        "balls",
        "bytes",
        "steps per second",
    ):
        table.add_column(column, justify="left" if column == "agent" else "right")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    agents = {"AdaptiveQ": zooming.AdaptiveQ, "NetQ": partial(zooming.NetQ, episodes=EPISODES)}
    histories = {}
    for name, make_agent in agents.items():
        make_agent(env, seed=0).learn(1)  # compile first, so that the time below is learning only
        agent = make_agent(env, seed=0)
        began = time.perf_counter()
        history = agent.learn(EPISODES, progress_bar=True)
        seconds = time.perf_counter() - began
        final = history.returns[-200:].mean()
        speed = f"{EPISODES * agent.horizon / seconds:,.0f}"
        table.add_row(
            name,
            f"{final:.3f}",
            f"{final / optimum:.1%}",
            f"{agent.n_balls:,}",
            f"{agent.nbytes:,}",
            speed,
        )
        histories[name] = zooming.learn_many(make_agent, env, SEEDS, EPISODES)
        if name == "AdaptiveQ":
            agent.partition(1).plot(right)
            right.plot(oil.center, oil.center, "+", color="red", markersize=14, label="the oil")
            right.legend(loc="lower left")
    plots.learning_curves(histories, left, optimum=optimum)
    left.set_title("learning curves")
    right.set_title(f"AdaptiveQ's partition at {right.get_title()}")
    Console().print(table)
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=120)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
