"""Run a study from Python: three agents, two problems, twenty seeds. Run it again to resume it."""

from pathlib import Path

import matplotlib.pyplot as plt

import zooming
from zooming import plots

FOLDER = Path("out/study")
OUT = Path("out/study_from_python.png")


def main(episodes: int = 2_000, seeds: int = 20) -> None:
    agents = ["adaptive-q", "adaptive-q-published:bonus=0.25", "net-q"]
    study = zooming.Study(
        ["ambulance-beta-0.25", "oil-quadratic-10"], agents, episodes=episodes, seeds=seeds
    )
    print(study)
    for row in study.run(
        FOLDER
    ):  # finished runs are saved; polars and pandas read the tables in the folder
        print(
            f"{row.problem:20} {row.agent:32} return at the end {row.final_return.mean:.3f}, "
            f"regret {row.regret.mean:6.1f}"
        )

    runs = zooming.read_study(FOLDER, "ambulance-beta-0.25")
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    plots.learning_curves(runs, axes[0])
    plots.regret(runs, axes[1])
    plots.partition_sizes(runs, axes[2])
    figure.savefig(OUT, dpi=100)
    print(f"Figure: {OUT}")


if __name__ == "__main__":  # needed because the worker processes import this file
    main()
