"""Laws that change: what `AdaptiveQ(memory=)` recovers, and what it costs where nothing changes.

    python benchmarks/drift.py
    python benchmarks/drift.py --episodes 20000

It prints a table of docs/budget.md. The law changes after so many episodes, and as many follow. A
cell has the return of the last tenth of the episodes before the change, and of the last tenth after
it, in percent of the optimum of each law.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import gymnasium as gym
import numpy as np

import zooming

MEMORIES = (None, 1000, 500, 200, 100, 50, 20)
CHANGES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # problem, before, after
    "the well moves": ("Oil", {"center": 0.4}, {"center": 0.8}),
    "the same, noisy": ("Oil", {"center": 0.6, "noise": 0.2}, {"center": 0.2, "noise": 0.2}),
    "other arrivals": ("Ambulance", {"arrivals": "beta"}, {"arrivals": "uniform"}),
    "less demand": ("Newsvendor", {"demand": 14.0}, {"demand": 6.0}),
    "buyers pay more": ("Pricing", {"worth": 60.0}, {"worth": 130.0}),
    "service costs less": ("Queue", {"energy": 1.0}, {"energy": 0.1}),
}


def row(problem: str, most: int | None, episodes: int, seeds: int) -> str:
    """Return a row of the table, for agents with so many balls at most."""
    kind, *options = CHANGES[problem]
    sharp = {"sharpness": 10.0} if kind == "Oil" else {}
    laws = [gym.make(f"zooming/{kind}-v0", **one, **sharp).unwrapped for one in options]
    best = np.array([zooming.solve(law).return_ for law in laws])
    ranges = np.array([law.reward_range for law in laws])
    wide = float(ranges[:, 0].min()), float(ranges[:, 1].max())
    env, params, cells = laws[0], [law.params.copy() for law in laws], []
    for memory in MEMORIES:
        given = {"max_balls": most, "memory": memory, "reward_range": wide}
        earned = np.zeros(2)
        for seed in range(seeds):
            agent = zooming.AdaptiveQ(env, seed=seed, **given)
            for i in range(2):
                env.params[:] = params[i]
                earned[i] += agent.learn(episodes).returns[-episodes // 10 :].mean() / seeds
        shares = 100 + 100 * (earned - best) / abs(best)
        cells.append(", ".join(f"{share:.0f}" for share in shares))
    return f"| {problem} | {most or 'none'} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=2000)
    given = parser.parse_args()
    names = " | ".join(f"{memory or 'no memory'}" for memory in MEMORIES)
    lines = [f"| | M | {names} |", "|---" * (len(MEMORIES) + 2) + "|"]
    for problem in CHANGES:
        for most in (None, 60):
            lines.append(row(problem, most, given.episodes, given.seeds))
            print(lines[-1], file=sys.stderr, flush=True)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
