"""Return against memory: `AdaptiveQ` and `TreeQ` with a budget, nets with four times as many balls.

    python benchmarks/budget.py --out docs/figures/budget.png

It prints the tables of docs/budget.md and draws its figure. A return is the mean over seeds of the
mean of the last tenth of the episodes, in percent of that of the unlimited `AdaptiveQ`. `TreeQ` has
one partition for all steps.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import zooming

BALLS = (40, 60, 100, 200)
TARGETS = {40: 90.0, 60: 95.0, 100: 98.0}  # percent
SPACINGS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 25, 30)  # cells along an axis
PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"oil {sharpness} at {center}": ("Oil", {"sharpness": float(sharpness), "center": center})
        for sharpness in (1, 10, 50)
        for center in (0.75, 0.7071)
    },
    **{
        f"ambulance {arrivals}": ("Ambulance", {"arrivals": arrivals, "travel_weight": 0.25})
        for arrivals in ("beta", "uniform", "shifting")
    },
    "newsvendor": ("Newsvendor", {}),
    "pricing": ("Pricing", {}),
    "admission": ("Admission", {}),
    "river swim": ("RiverSwim", {}),
}
FIGURE = ("oil 10 at 0.7071", "ambulance beta")


def returns(make: Any, problem: str, episodes: int, seeds: int) -> tuple[np.ndarray, int]:
    """Return the mean of the last tenth of the episodes for each seed, and the bytes used."""
    kind, options = PROBLEMS[problem]
    found, nbytes = [], 0
    for seed in range(seeds):
        agent = make(gym.make(f"zooming/{kind}-v0", **options), seed)
        found.append(agent.learn(episodes).returns[-max(1, episodes // 10) :].mean())
        nbytes = max(nbytes, agent.nbytes)
    return np.array(found), nbytes


def budget(most: int | None) -> Any:
    """Return a function that makes `AdaptiveQ` with so many balls."""
    return lambda env, seed: zooming.AdaptiveQ(env, max_balls=most, seed=seed)


def tree(most: int) -> Any:
    """Return a function that makes `TreeQ` with so many balls."""
    return lambda env, seed: zooming.TreeQ(env, max_balls=most, seed=seed)


def net(cells: int, points: str = "centers") -> Any:
    """Return a function that makes `NetQ` with so many cells along an axis."""
    return lambda env, seed: zooming.NetQ(env, spacing=1 / cells, points=points, seed=seed)


def cells_of(n_balls: int, problem: str) -> int:
    """Return the cells along an axis of the finest net with at most `n_balls` balls.

    >>> cells_of(400, "oil 1 at 0.75")  # 5 steps and 2 axes
    8
    """
    kind, options = PROBLEMS[problem]
    agent = zooming.AdaptiveQ(gym.make(f"zooming/{kind}-v0", **options), seed=0)
    return max(1, int((n_balls / agent.horizon) ** (1 / len(agent.axes)) + 1e-9))


def limit(horizon: int, center: float, sharpness: float, n_balls: int, n: int = 512) -> float:
    """Return the most that a policy of oil (laplace, start 1/2) with so many balls can earn.

    A step with one ball plays 1/2. A step with two plays any action: an interval [0, b] or [b, 1]
    has any center. The well is reached along a fixed path, so cuts of states add nothing. The
    actions are searched on a grid of n + 1 places and the center.

    >>> limit(5, 0.75, 10.0, 5), limit(5, 0.75, 10.0, 10)
    (0.410424..., 4.75)
    """
    places = np.unique([*np.linspace(0.0, 1.0, n + 1), center])
    pays = np.exp(-sharpness * np.abs(places - center))
    reward = np.clip(pays[None] - np.abs(places[:, None] - places[None]), 0.0, 1.0)
    half = int(np.flatnonzero(places == 0.5)[0])
    spare = min(horizon, n_balls - horizon)
    value = np.zeros((spare + 1, len(places)))  # by steps that may still choose, and state
    for _ in range(horizon):
        fixed = reward[:, half] + value[:, half, None]
        chosen = np.stack([(reward + value[max(0, k - 1)]).max(axis=1) for k in range(spare + 1)])
        value = np.where(np.arange(spare + 1)[:, None] > 0, np.maximum(fixed, chosen), fixed)
    return float(value[spare, half])


def table(episodes: int, seeds: int, balls: Sequence[int], problems: Sequence[str]) -> list[str]:
    """Return the lines of the table of one number of episodes, and what misses the targets."""
    lines = [
        "| " + " | ".join(["problem", "unlimited", *(f"M = {m}" for m in balls)]) + " |",
        "|---" * (len(balls) + 2) + "|",
    ]
    missed: list[str] = []
    n_met = 0  # cells in which one of the two agents meets the target
    for problem in problems:
        free, _ = returns(budget(None), problem, episodes, seeds)
        cells = []
        before = None
        for most in balls:
            ours, _ = returns(budget(most), problem, episodes, seeds)
            theirs, _ = returns(net(cells_of(4 * most, problem)), problem, episodes, seeds)
            joint, _ = returns(tree(most), problem, episodes, seeds)
            share, shared, other = (
                100 * found.mean() / free.mean() for found in (ours, joint, theirs)
            )
            cells.append(f"{share:.1f}, {shared:.0f} ({other:.0f})")
            n_met += most in TARGETS and max(share, shared) >= TARGETS[most]
            if share < TARGETS.get(most, 0.0):
                missed.append(f"{problem}, M = {most}: {share:.1f} < {TARGETS[most]:g}")
            if is_worse(ours, theirs) and other > share + 1:
                missed.append(f"{problem}, M = {most}: worse than the net with {4 * most}")
            if (
                before is not None
                and is_worse(ours, before)
                and before.mean() > 1.003 * ours.mean()
            ):
                missed.append(f"{problem}, M = {most}: worse than with fewer balls")
            before = ours
        lines.append(f"| {problem} | {free.mean():.4g} | " + " | ".join(cells) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    n_cells = len(problems) * sum(most in TARGETS for most in balls)
    return [
        *lines, "", f"AdaptiveQ or TreeQ meets {n_met} of {n_cells} targets.",
        f"Missed by AdaptiveQ ({n_cells} cells have a target): " + ("; ".join(missed) or "none"),
    ]  # fmt: skip


def is_worse(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Return whether the mean is lower by more than two standard errors."""
    error = math.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / len(ours))
    return bool(theirs.mean() - ours.mean() > 2 * error)


def draw(path: Path, episodes: int, seeds: int) -> None:
    """Draw the loss of the last tenth of the episodes against bytes."""
    import matplotlib.pyplot as plt

    from zooming import plots

    figure, axes = plt.subplots(1, len(FIGURE), figsize=(9, 3.6), layout="constrained")
    for ax, problem in zip(axes, FIGURE, strict=True):
        kind, options = PROBLEMS[problem]
        best = zooming.solve(gym.make(f"zooming/{kind}-v0", **options)).return_
        with plots.drawing(ax):
            for label, makers in {
                "AdaptiveQ(max_balls=M)": [budget(most) for most in (10, 15, 20, 30, *BALLS, 400)],
                "NetQ, centers": [net(n) for n in SPACINGS],
                "NetQ as published": [net(n, "multiples") for n in SPACINGS],
            }.items():
                found = [returns(make, problem, episodes, seeds) for make in makers]
                order = sorted((nbytes, best - mean.mean()) for mean, nbytes in found)
                ax.plot(*zip(*order, strict=True), marker="o", markersize=3, label=label)
            free, nbytes = returns(budget(None), problem, episodes, seeds)
            ax.plot(nbytes, best - free.mean(), "k*", label="AdaptiveQ, unlimited")
            ax.set(xscale="log", yscale="log", xlabel="bytes of the table", title=problem)
    axes[0].set_ylabel("lost a late episode")
    axes[-1].legend(fontsize=8, loc="upper right")  # nothing is there
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and draw the figure if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, nargs="*", default=[2000, 20_000])
    parser.add_argument("--balls", type=int, nargs="*", default=list(BALLS))
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--out", type=Path, help="file of the figure")
    given = parser.parse_args(arguments)
    for episodes in given.episodes:
        print(f"\n{episodes:,} episodes, {given.seeds} seeds:\n")
        print("\n".join(table(episodes, given.seeds, given.balls, given.problems)))
    if given.out:
        draw(given.out, max(given.episodes), given.seeds)


if __name__ == "__main__":
    main()
