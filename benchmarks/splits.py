"""Split rules compared: is there an instance-specific gain by rules that see the data?

    python benchmarks/splits.py

Theorem 6.1 of the paper allows any nested scheme and asks which of them gain on an instance. For
each of the paper's problems (the well at 0.7071, on no border or center of a ball) this prints the
lost return of an episode, the mean over all episodes and seeds, with that of the worst seed in
parentheses. A star marks a rule that loses less than "all" by two standard errors of the paired
difference, a minus one that loses more.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Sequence

import numpy as np

import zooming
from problem_sets import PAPER

RULES = ("all", "longest", "variance", "median")


@functools.cache
def optimum(name: str) -> float:
    """Return the optimal return of a problem."""
    return zooming.solve(PAPER[name].make(), resolution=PAPER[name].resolution).return_


def losses(
    name: str, split: str, action: str, episodes: int, seeds: int
) -> tuple[np.ndarray, float]:
    """Return the mean loss of an episode for each seed, and the mean number of balls."""
    problem, best = PAPER[name], optimum(name)
    lost, n_balls = [], []
    for seed in range(seeds):
        agent = zooming.AdaptiveQ(problem.make(), split=split, action=action, seed=seed)
        lost.append(best - agent.learn(episodes).returns.mean())
        n_balls.append(agent.n_balls)
    return np.array(lost), float(np.mean(n_balls))


def verdict(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return "*" if the first loses less by two standard errors, "-" if more, else "".

    >>> verdict(np.array([1.0, 1.1]), np.array([2.0, 2.2])), verdict(np.ones(3), np.ones(3))
    ('*', '')
    """
    apart = ours - theirs
    error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
    if abs(apart.mean()) <= 2 * error:
        return ""
    return "*" if apart.mean() < 0 else "-"


def table(action: str, episodes: int, seeds: int, problems: Sequence[str]) -> list[str]:
    """Return the lines of the table for one way to act."""
    lines = ["| " + " | ".join(["problem", *RULES]) + " |", "|---" * (len(RULES) + 1) + "|"]
    count = {split: {"*": 0, "-": 0, "": 0} for split in RULES}
    balls = dict.fromkeys(RULES, 0.0)
    for name in problems:
        cells, base = [], None
        for split in RULES:
            lost, n_balls = losses(name, split, action, episodes, seeds)
            base = lost if base is None else base
            mark = verdict(lost, base)
            count[split][mark] += 1
            balls[split] += n_balls / len(problems)
            cells.append(f"{lost.mean():.3f} ({lost.max():.2f}) {mark}".strip())
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    better = (f"{count[split]['*']} / {count[split]['-']}" for split in RULES[1:])
    lines.append("| better / worse than all | | " + " | ".join(better) + " |")
    lines.append("| balls, mean | " + " | ".join(f"{balls[split]:.0f}" for split in RULES) + " |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each way to act."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--problems", nargs="*", default=list(PAPER), choices=list(PAPER))
    given = parser.parse_args(arguments)
    for action in ("center", "uniform"):
        print(f'\naction="{action}", {given.episodes:,} episodes, {given.seeds} seeds:\n')
        lines = table(action, given.episodes, given.seeds, given.problems)
        print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
