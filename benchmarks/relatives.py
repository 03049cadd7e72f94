"""Compare the speed of the relatives with the same algorithms in plain Python.

Run `python benchmarks/relatives.py`. It prints a table of microseconds a step. Absolute times
depend on the machine and its load; compare the ratios. `SinglePartitionQ`, `RandomizedQ` and
`AdaptiveMB` have the oracles of tests/references.py as their plain versions. `PlainNetMB` is
written for speed, because the oracle of models goes through all samples whenever it plans.
"""

from __future__ import annotations

import math
import operator
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

import zooming
from speed import ROUNDS, _plain_ambulance

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from references import Bits, ReferenceMB, ReferenceRandomizedQ, ReferenceSingleQ

HORIZON, BONUS, SPACING = 5, 0.1, 0.1
PLAIN_SECONDS = 2.0  # time limit of a plain version in one round


class PlainNetMB:
    """NetMB on one axis of states and one of actions, with counts and full planning.

    >>> agent = PlainNetMB(2, 2, 0.1)
    >>> agent.update(1, [0.2], [0.7], 1.0, [0.5])
    >>> agent.q_values[1][0]  # the balls of the first cell of states
    [1.0, 1.0]
    """

    def __init__(self, n_cells: int, horizon: int, scale: float) -> None:
        self.n_cells, self.horizon, self.scale = n_cells, horizon, scale
        self.visits, self.rewards, self.q_values = (
            [[[start] * n_cells for _ in range(n_cells)] for start in starts]
            for starts in (
                [0] * horizon,
                [0.0] * horizon,
                [float(horizon - step) for step in range(horizon)],
            )
        )
        self.counts = [
            [[[0] * n_cells for _ in range(n_cells)] for _ in range(n_cells)]
            for _ in range(horizon)
        ]

    def cell(self, x: float) -> int:
        """Return the cell of a coordinate."""
        return min(self.n_cells - 1, int(x * self.n_cells))

    def act(self, step: int, state: list[float]) -> list[float]:
        """Return the center of the first of the best balls."""
        q_values = self.q_values[step][self.cell(state[0])]
        return [(q_values.index(max(q_values)) + 0.5) / self.n_cells]

    def update(
        self, step: int, state: list[float], action: list[float], reward: float, after: list[float]
    ) -> None:
        """Count one transition; plan after the last step."""
        x, a = self.cell(state[0]), self.cell(action[0])
        self.visits[step][x][a] += 1
        self.rewards[step][x][a] += reward
        self.counts[step][x][a][self.cell(after[0])] += 1
        if step + 1 == self.horizon:
            self.plan()

    def plan(self) -> None:
        """Compute Q and V from the last step to the first."""
        values = [0.0] * self.n_cells
        for step in reversed(range(self.horizon)):
            for x in range(self.n_cells):
                for a, n in enumerate(self.visits[step][x]):
                    if n:
                        later = sum(map(operator.mul, values, self.counts[step][x][a]))
                        found = (self.rewards[step][x][a] + later) / n + self.scale / math.sqrt(n)
                        self.q_values[step][x][a] = min(float(self.horizon - step), found)
            values = [min(float(self.horizon - step), max(row)) for row in self.q_values[step]]


@dataclass(frozen=True)
class Relative:
    """A relative, its plain version, and the number of episodes to play."""

    name: str
    episodes: int
    make: Callable[[gym.Env[Any, Any]], Any]
    make_plain: Callable[[], Any]


RELATIVES = (
    Relative(
        "SinglePartitionQ",
        2_000,
        lambda env: zooming.SinglePartitionQ(env, bonus=BONUS, evaluations=20, seed=0),
        lambda: ReferenceSingleQ(
            1, 1, HORIZON, lambda t: BONUS / math.sqrt(t), bits=Bits(0), evaluations=20
        ),
    ),
    Relative(
        "RandomizedQ",
        2_000,
        lambda env: zooming.RandomizedQ(env, copies=10, seed=0),
        lambda: ReferenceRandomizedQ(1, 1, HORIZON, None, seed_of_rates=0, copies=10),
    ),
    Relative(
        "NetMB",
        500,
        lambda env: zooming.NetMB(env, spacing=SPACING, bonus=BONUS, seed=0),
        lambda: PlainNetMB(round(1 / SPACING), HORIZON, BONUS),
    ),
    Relative(
        "AdaptiveMB",
        200,
        lambda env: zooming.AdaptiveMB(env, bonus=BONUS, seed=0),
        lambda: ReferenceMB(1, 1, HORIZON, BONUS, power=3),
    ),
)


def compare(relative: Relative) -> tuple[float, float, tuple[float, float]]:
    """Return the least times per step, plain and compiled, and the range of ratios of a round.

    Times are nanoseconds of processor time.
    """
    rounds = [(time_plain(relative), time_compiled(relative)) for _ in range(ROUNDS)]
    ratios = [slow / fast for slow, fast in rounds]
    return (
        min(slow for slow, _ in rounds),
        min(fast for _, fast in rounds),
        (min(ratios), max(ratios)),
    )


def time_compiled(relative: Relative) -> float:
    """Return the least nanoseconds per step of three runs, the environment included."""
    best = math.inf
    for _ in range(3):
        env = gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25)
        agent = relative.make(env)
        began = time.process_time()
        agent.learn(relative.episodes)
        best = min(best, time.process_time() - began)
    return best / relative.episodes / HORIZON * 1e9


def time_plain(relative: Relative) -> float:
    """Return nanoseconds per step of the plain version, over all episodes or the time limit."""
    agent, play = relative.make_plain(), _plain_ambulance(1)
    began, done = time.process_time(), 0
    while done < relative.episodes and time.process_time() - began < PLAIN_SECONDS:
        state = [0.5]
        for step in range(HORIZON):
            action = agent.act(step, state)
            after, reward = play(step, state, action)
            agent.update(step, state, action, reward, after)
            state = after
        if isinstance(agent, ReferenceSingleQ):
            agent.end_episode()
        done += 1
    return (time.process_time() - began) / done / HORIZON * 1e9


def main() -> None:
    """Measure all relatives and print the table."""
    print("| agent | episodes | plain Python | compiled | ratio |")
    print("|---|---|---|---|---|")
    for relative in RELATIVES:
        relative.make(gym.make("zooming/Ambulance-v0")).learn(1)  # compile
        plain, compiled, (low, high) = compare(relative)
        print(
            f"| `{relative.name}` | {relative.episodes:,} | {plain:,.0f} | {compiled:,.0f} | "
            f"{low:.0f} to {high:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
