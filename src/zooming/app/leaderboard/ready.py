"""Results of the finished part of a leaderboard, for the tables and the page."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from zooming.analysis.intervals import Interval
from zooming.app.leaderboard import compare
from zooming.app.leaderboard.measures import Result, Scale, paired
from zooming.app.leaderboard.plan import GROUPS, OTHER
from zooming.validation import count_noun


@dataclass(frozen=True, eq=False)
class Finished:
    """The results of a leaderboard, for each number of episodes whose runs are all finished.

    `refused` maps (problem, agent) to the reason why there is no result. `absent` maps an agent to
    the reason why it has no result at all.
    """

    reference: str
    scales: dict[str, Scale]
    episodes: tuple[int, ...]
    results: Sequence[Result]
    refused: dict[tuple[str, str], str]
    absent: dict[str, str]

    @property
    def title(self) -> str:
        """Title of the page and of the table."""
        agents = dict.fromkeys(one.agent for one in self.results)
        return (
            f"Leaderboard: {count_noun(len(agents), 'agent')} on "
            f"{count_noun(len(self.scales), 'problem')}"
        )

    @property
    def size(self) -> str:
        """Numbers of episodes and of seeds, as text."""
        counts = ", ".join(f"{episodes:,}" for episodes in self.episodes)
        most = max(one.n_seeds for one in self.results)
        return f"{counts} episodes, up to {count_noun(most, 'seed')}"

    @property
    def groups(self) -> list[str]:
        """Names of the groups that have problems."""
        return [group for group in (*GROUPS, OTHER) if self.problems_of(group)]

    def problems_of(self, group: str) -> list[str]:
        """Return the problems of a group."""
        return [name for name, scale in self.scales.items() if scale.group == group]

    def at(self, episodes: int) -> list[Result]:
        """Return the results with this number of episodes."""
        return [one for one in self.results if one.episodes == episodes]

    def of(self, problem: str, episodes: int) -> list[Result]:
        """Return the results on one problem with this number of episodes."""
        return [one for one in self.at(episodes) if one.problem == problem]

    def find(self, problem: str, agent: str, episodes: int) -> Result | None:
        """Return the result of one cell, or None if the cell is empty."""
        return next((one for one in self.of(problem, episodes) if one.agent == agent), None)

    def against(self, result: Result, part: str = "regret") -> Interval | None:
        """Return a measure of a result minus the reference's, paired by seed.

        Return None for the reference itself, if the reference has no result, and with one seed.
        """
        reference = self.find(result.problem, self.reference, result.episodes)
        if reference is None or reference is result:
            return None
        return paired(getattr(result, part), getattr(reference, part))

    @functools.cache  # noqa: B019  # one object lives as long as the command
    def standings(self, group: str, episodes: int) -> list[compare.Standing]:
        """Return the standings of a group at one number of episodes."""
        names = self.problems_of(group)
        here = [one for one in self.at(episodes) if one.problem in names]
        return compare.standings(here, names, self.reference)

    @functools.cache  # noqa: B019
    def losses(self, episodes: int) -> list[compare.Loss]:
        """Return the problems that the reference loses at one number of episodes."""
        return compare.losses(self.at(episodes), self.scales, self.reference)
