"""Read the studies of a leaderboard and measure every cell in units of the possible gain.

The possible gain of a problem is V* - V_random: its solved optimum minus the mean return of random
actions. All measures of an agent are in this unit, so that they compare across problems:

- regret: K V* minus the sum of the returns of all K episodes;
- loss: regret per episode, in percent;
- percent: the value of the final policy, 0 for random actions and 100 for the optimum. The policy
  plays `VALUE_EPISODES` episodes without learning. They are the same for all agents;
- reached: the number of episodes until returns are at 95 percent, see `episodes_to`.

Errors of V* and of sampling may bring a percentage above 100 and a regret below 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.analysis.intervals import Interval, mean_interval
from zooming.errors import ConfigurationError
from zooming.lab.leaderboard.plan import Board, Cell, group_of
from zooming.lab.listing import say_about
from zooming.lab.report.collect import learning_curve
from zooming.lab.study.chunks import FINAL_VALUE
from zooming.lab.study.runs import find_optima
from zooming.lab.study.store import MANIFEST, Store
from zooming.lab.study.stored import read_manifest
from zooming.plots.curve_data import Runs
from zooming.validation import Floats

NEEDED = ("numpy", "numba", "gymnasium", "zooming", "python")  # by every study
REACHED = 0.95  # share of the possible gain
N_BINS = 25  # of a learning curve
WINDOW = 50  # episodes whose mean return must be enough


@dataclass(frozen=True)
class Scale:
    """The scale of a problem: its optimum with error, and the value of random actions.

    `about` describes the problem.
    """

    problem: str
    group: str
    about: str
    optimum: float
    error: float
    random: float

    @property
    def gain(self) -> float:
        """The possible gain V* - V_random."""
        return self.optimum - self.random


@dataclass(frozen=True)
class Result:
    """The measures of one cell. Arrays have one entry per seed."""

    problem: str
    agent: str
    settings: dict[str, Any]
    episodes: int
    regret: Floats
    percent: Floats
    reached: int | None
    cpu_seconds: float | None
    nbytes: float
    curve: dict[str, list[Any]]
    library: str = ""  # with its version, if the agent is that of another library

    @property
    def n_seeds(self) -> int:
        """Number of runs."""
        return len(self.regret)

    @property
    def loss(self) -> Floats:
        """Regret per episode, in percent of the possible gain."""
        return 100 * self.regret / self.episodes


def read_scales(board: Board) -> dict[str, Scale]:
    """Return the scale of each problem from the finished studies of random actions.

    Raise ConfigurationError if random actions are as good as the optimum.
    """
    found = {}
    for name, (study, folder) in board.references().items():
        store, configuration = Store(folder, study.configuration), study.configuration
        optimum = find_optima(store)[name]
        assert optimum is not None  # the board has only problems that can be solved
        totals = store.runs(configuration.problems[0], configuration.agents[0])["total_return"]
        random = float(totals.mean()) / configuration.episodes
        about = say_about(configuration.problems[0].make())
        scale = Scale(name, group_of(name), about, optimum.return_, optimum.error, random)
        if not scale.gain > 0:
            raise ConfigurationError(
                f"{name}: random actions earn {random:g}, and the optimum is {optimum.return_:g}, "
                "so there is nothing to learn; leave the problem out"
            )
        found[name] = scale
    return found


def read_result(cell: Cell, scale: Scale) -> Result:
    """Return the measures of a cell from its finished study."""
    store = Store(cell.folder, cell.study.configuration)
    runs = store.runs(cell.problem, cell.choice)
    timings = store.seconds()
    seconds = [timings.get(chunk.name, math.nan) for chunk in cell.study.configuration.chunks()]
    curves = Runs(runs["curve_episode"], runs["curve_total"], runs["curve_n_balls"], runs["nbytes"])
    points = learning_curve(
        curves, lambda returns: 100 * (returns - scale.random) / scale.gain, N_BINS
    )
    return Result(
        cell.problem.name,
        cell.name,
        cell.choice.settings,
        cell.episodes,
        (cell.episodes * scale.optimum - runs["total_return"]) / scale.gain,
        100 * (runs[FINAL_VALUE] - scale.random) / scale.gain,
        episodes_to(
            scale.random + REACHED * scale.gain, runs["curve_episode"], runs["curve_total"]
        ),
        None if math.isnan(sum(seconds)) else sum(seconds) / len(runs["seed"]),
        float(runs["nbytes"].mean()),
        points,
        _library(cell),
    )


def _library(cell: Cell) -> str:
    """Return names and versions of the libraries that only this study needs."""
    versions = read_manifest(cell.folder / MANIFEST)["computed_with"][-1]["versions"]
    return ", ".join(f"{name} {number}" for name, number in versions.items() if name not in NEEDED)


def episodes_to(
    enough: float, episode: NDArray[np.int64], total_return: Floats, window: int = WINDOW
) -> int | None:
    """Return the number of episodes until the mean return reaches `enough`, or None.

    It is the smallest k such that, averaged over the seeds, the next `window` episodes and all
    episodes after k return at least `enough`. Between two checkpoints the sum of returns is
    interpolated.

    >>> totals = np.array([[0.0, 0.0, 10.0, 20.0]])
    >>> episodes_to(1.0, np.array([1, 5, 15, 25]), totals, window=10)
    5
    """
    known, mean = np.concatenate([[0], episode]), np.concatenate([[0.0], total_return.mean(axis=0)])
    last = int(episode[-1])
    window = min(window, last)
    for k in known[known <= last - window].tolist():
        sums = np.interp([k, k + window, last], known, mean)
        if sums[1] - sums[0] >= enough * window and sums[2] - sums[0] >= enough * (last - k):
            return int(k)
    return None


def mean_or_interval(samples: Floats) -> Interval:
    """Return the mean with its 95 % interval. With one sample, both ends equal the mean."""
    if len(samples) > 1:
        return mean_interval(samples)
    return Interval(float(samples[0]), float(samples[0]), float(samples[0]))


def paired(ours: Floats, theirs: Floats) -> Interval | None:
    """Return the mean of ours - theirs over common seeds, or None with fewer than two seeds."""
    n = min(len(ours), len(theirs))
    return mean_interval(ours[:n] - theirs[:n]) if n > 1 else None
