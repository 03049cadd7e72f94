"""Compare the default settings with the paper's published form, at two numbers of episodes.

Which one ends closer to the optimum depends on the problem and the number of episodes. The defaults
explore less: a smaller bonus, tighter caps, no random draws inside a ball. That is better with few
episodes and informative rewards. A sale or no sale is not informative. Both agents use the same
seeds; the published form has the bonus c = 0.25.
"""

from functools import partial

import gymnasium as gym
import numpy as np
from pricing import OUTCOMES, sell
from rich.console import Console
from rich.table import Table

import zooming
from zooming.analysis.intervals import mean_interval

SHARE = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
PROBLEMS = {
    "ambulance": gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25),
    "pricing": zooming.compiled_env(
        sell, SHARE, SHARE, horizon=1, start="uniform", outcomes=OUTCOMES
    ),
}
AGENTS = (zooming.AdaptiveQ, partial(zooming.AdaptiveQ.as_published, bonus=0.25))


def main(episodes: tuple[int, ...] = (2_000, 20_000), n_seeds: int = 100) -> None:
    print("distance to the optimum over the last tenth of the episodes")
    table = Table("problem", "episodes", "defaults", "published", "nearer")
    for name, env in PROBLEMS.items():
        best = zooming.solve(env).return_
        for n in episodes:
            histories = [zooming.learn_many(make, env, range(n_seeds), n) for make in AGENTS]
            gaps = [
                np.array([best - one.returns[-n // 10 :].mean() for one in found])
                for found in histories
            ]
            shown = [
                f"{one.mean:.4f} ± {one.high - one.mean:.4f}" for one in map(mean_interval, gaps)
            ]
            more = mean_interval(gaps[0] - gaps[1])
            nearer = "published" if more.low > 0 else "defaults" if more.high < 0 else "neither"
            table.add_row(name, f"{n:,}", *shown, nearer)
    Console().print(table)


if __name__ == "__main__":
    main()
