"""The agent with nothing to set, next to its parts: on one problem the planner is better, on the
other a tree, and the portfolio of both follows the better one."""

from functools import partial
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt

import zooming
from zooming import plots

OUT = Path("out/auto.png")
AGENTS = {"Planner": zooming.Planner, "TreeQ": zooming.TreeQ, "Auto": zooming.Auto}
PROBLEMS = {
    "a narrow peak, nothing random": ("zooming/Oil-v0", {"sharpness": 10.0, "center": 0.7071}),
    "an ambulance, calls at random": ("zooming/Ambulance-v0", {"arrivals": "shifting"}),
}


def main(episodes: int = 500, n_seeds: int = 10) -> None:
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for panel, (title, (name, options)) in zip(panels, PROBLEMS.items(), strict=True):
        make = partial(gym.make, name, **options)
        histories = {
            label: zooming.learn_many(kind, make(), range(n_seeds), episodes)
            for label, kind in AGENTS.items()
        }
        plots.learning_curves(histories, panel, optimum=zooming.solve(make(), 100))
        panel.set_title(title)
        agent = histories["Auto"][0].agent
        print(f"{title}\n{agent.status()}\n")
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=110)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
