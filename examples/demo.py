"""How much to order, and when: Auto learns it in a few hundred episodes, and the policy is drawn.

Beside it are the textbook's (s, S) rule, PPO if Stable-Baselines3 is installed, and the optimum.
"""

import importlib.util
from functools import partial
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import zooming
from zooming import plots
from zooming.lab.study.problems import AGENTS

EPISODES, STEP = 500, 3
OUT = Path("out/demo.png")


def main() -> None:
    env = gym.make("zooming/Inventory-v0", lead_time=1)
    optimal, textbook = zooming.solve(env), env.unwrapped.rule
    rule = zooming.evaluate(textbook, env).mean
    rules = [textbook.with_numbers([s, S]) for s in range(0, 16, 2) for S in range(14, 32, 2)]
    tuned = max(rules, key=lambda one: zooming.evaluate(one, env, 300).mean)
    agents = {"Auto": (zooming.Auto, 10)}
    if importlib.util.find_spec("stable_baselines3"):
        agents["PPO"] = (partial(AGENTS["sb3:PPO"], n_steps=256), 3)
    histories = {
        name: zooming.learn_many(make, env, range(n_seeds), EPISODES)
        for name, (make, n_seeds) in agents.items()
    }
    agent = histories["Auto"][0].agent
    learned = np.mean([zooming.evaluate(one.agent, env).mean for one in histories["Auto"]])
    print("An order costs 20, a unit in stock 1 a day, a unit owed 9 a day; ten days.")
    print(f"Mean cost of ten days: optimum {-optimal.return_:.1f}, (s, S) rule {-rule:.1f}", end="")
    print(f" (tuned by search: {-zooming.evaluate(tuned, env, seed=1).mean:.1f}),")
    print(f"Auto after {EPISODES} episodes {-learned:.1f} (mean over ten seeds)")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    plots.learning_curves(histories, left, optimum=optimal)
    left.axhline(rule, color="0.5", linewidth=1.0)
    left.text(
        1.0, rule, " (s, S)\n rule", color="0.4", va="center", transform=left.get_yaxis_transform()
    )
    left.set(title="learning curves", ylabel="return of ten days", ylim=(-520, -120))
    stock = np.linspace(-20.0, 40.0, 241)[:, None]
    orders, _ = agent.predict(stock, state=np.full(len(stock), STEP))
    placed = np.where(orders < 1.0, 0.0, orders)  # less than one unit is not ordered
    best = np.array([optimal.action(STEP, one) for one in stock])
    with plots.drawing(right):
        right.plot(stock, best, color="0.2", linestyle=":", label="optimal policy")
        right.plot(stock, placed, color=plots.COLORS[0], label=f"Auto after {EPISODES} episodes")
        right.set(title=f"the policy of day {STEP + 1}", xlabel="units in stock", ylabel="order")
        right.legend(frameon=False)
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=120)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
