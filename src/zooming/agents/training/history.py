"""The history of a run: return, number of balls and length of each episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.status import plain
from zooming.errors import ConfigurationError
from zooming.methods import UpperMethod
from zooming.validation import Ints, import_frames

BYTES_PER_EPISODE = 24  # of a log
MOST_EPISODES = 10**8  # of one call of learn(): 2.4 GB


class RunArrays:
    """Arrays that drivers and compiled code fill during one call of learn().

    Entries of `returns`, `n_balls` and `n_steps` before index done[0] belong to finished episodes.
    `trouble` is (step, coordinate, value) of the input that a kernel refused.
    """

    def __init__(self, episodes: int) -> None:
        if episodes > MOST_EPISODES:
            raise ConfigurationError(
                f"episodes={episodes:,}: one call of learn plays at most {MOST_EPISODES:,} "
                f"episodes, because its history takes {BYTES_PER_EPISODE} bytes per episode "
                f"({BYTES_PER_EPISODE * episodes / 1e9:,.1f} GB here). Call learn several "
                "times: learn(a) then learn(b) equals learn(a + b)"
            )
        self.returns = np.zeros(episodes)
        self.n_balls, self.n_steps = np.zeros(episodes, np.int64), np.zeros(episodes, np.int64)
        self.done, self.trouble = np.zeros(1, np.int64), np.zeros(3)
        self.rule_episodes: list[int] = []  # from 1, see `Agent.warm_start`
        self.let_go: int | None = None  # the episode, from 1, after which the rule was let go
        self.is_full = False  # the last kernel call returned because it needs more rows

    def add(self, total: float, n_balls: int, n_steps: int) -> None:
        """Write the next finished episode."""
        k = int(self.done[0])
        self.returns[k], self.n_balls[k], self.n_steps[k] = total, n_balls, n_steps
        self.done[0] = k + 1


def _no_integers() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class History:
    """The result of `learn`: one entry per episode.

    Parameters
    ----------
    returns : array of float
        Return of each episode.
    n_balls : array of int
        Active balls after each episode, summed over all steps; cells for a `Planner`. For a
        portfolio, such as `Auto`, the balls or cells of the agent that played the episode.
    agent : Agent, optional
        The agent that learned. It is not a copy and changes when it learns more.
    checkpoints : array of int, optional
        Episodes, from 1, after which the policy was evaluated exactly.
    policy_values : array of float, optional
        Exact value of the policy after each of the `checkpoints`.
    n_steps : array of int, optional
        Length of each episode. Empty if unknown.
    n_clipped : int, default 0
        Number of rewards that were clipped.
    rule_episodes : array of int, optional
        Episodes, from 1, that the rule of `Agent.warm_start` played.
    let_go : int, optional
        The episode, from 1, after which the rule was let go.

    Examples
    --------
    >>> first = History(np.array([1.0, 2.0]), np.array([8, 11]))
    >>> both = first + History(np.array([4.0]), np.array([14]))
    >>> both.returns.tolist(), both.n_balls.tolist()
    ([1.0, 2.0, 4.0], [8, 11, 14])
    """

    returns: NDArray[np.float64]
    n_balls: Ints
    agent: Any = field(default=None, repr=False, compare=False)
    checkpoints: Ints = field(default_factory=_no_integers)
    policy_values: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    n_steps: Ints = field(default_factory=_no_integers)
    n_clipped: int = 0
    rule_episodes: Ints = field(default_factory=_no_integers)
    let_go: int | None = None

    def __len__(self) -> int:
        return len(self.returns)

    def __add__(self, later: History) -> History:
        has_steps = len(self.n_steps) == len(self) and len(later.n_steps) == len(later)
        return History(
            np.concatenate([self.returns, later.returns]),
            np.concatenate([self.n_balls, later.n_balls]),
            later.agent,
            np.concatenate([self.checkpoints, len(self) + later.checkpoints]),
            np.concatenate([self.policy_values, later.policy_values]),
            np.concatenate([self.n_steps, later.n_steps]) if has_steps else _no_integers(),
            self.n_clipped + later.n_clipped,
            np.concatenate([self.rule_episodes, len(self) + later.rule_episodes]),
            self.let_go if later.let_go is None else len(self) + later.let_go,
        )

    def __repr__(self) -> str:
        if not len(self):
            return "History(no episodes)"
        tail = self.returns[-200:]
        clipped = f", {self.n_clipped:,} rewards clipped" if self.n_clipped else ""
        mean = f"mean return of the last {len(tail)}: {plain(float(tail.mean()), 5)}"
        rule = f", {words}" if (words := self._rule_words()) else ""
        count = f"{self.n_balls[-1]:,} {self._counted}"
        return f"History({len(self)} episodes, {mean}, {count}{clipped}{rule})"

    @property
    def _counted(self) -> str:
        """What `n_balls` counts, in words."""
        return str(getattr(self.agent, "counted", "balls"))

    def _rule_words(self) -> str:
        """Return text on what a rule played and when it was let go. It is empty without a rule."""
        found = []
        if len(self.rule_episodes):
            found.append(f"the rule played {len(self.rule_episodes):,}")
        if self.let_go is not None:
            found.append(f"the rule was let go after {self.let_go:,}")
        return ", ".join(found)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a data frame with the columns episode (from 1), return, n_balls and n_steps.

        Parameters
        ----------
        library : {"polars", "pandas"}, optional
            By default polars, or pandas if polars is not installed.

        Returns
        -------
        DataFrame
            One row per episode. `n_steps` is null if the lengths are unknown.

        Raises
        ------
        LibraryError
            If the library is not installed. It is also an ImportError.

        Examples
        --------
        >>> history = History(np.array([1.0, 2.0]), np.array([8, 11]), n_steps=np.array([5, 5]))
        >>> history.to_frame().rows()
        [(1, 1.0, 8, 5), (2, 2.0, 11, 5)]
        """
        known = len(self.n_steps) == len(self)
        columns = {
            "episode": np.arange(1, len(self) + 1),
            "return": self.returns,
            "n_balls": self.n_balls,
            "n_steps": self.n_steps if known else [None] * len(self),
        }
        return import_frames(library, "to_frame").DataFrame(columns)

    regret = UpperMethod()
    plot = UpperMethod()
