"""The ball table of optimistic trees, with the rules of `kernels.boxes.trees`."""

from __future__ import annotations

from typing import Any

from zooming.kernels.boxes import budget
from zooming.kernels.boxes import trees as tree_episodes
from zooming.kernels.boxes.trees import (
    FIRST_INDEX,
    FUTURE,
    NOISE,
    REWARD,
    WEIGHT,
    share_of_first,
    write_rows,
)
from zooming.partitions.boxes import BoxTable


class TreeTable(BoxTable):
    """The boxes of optimistic trees.

    `stats` has the statistics of `kernels.boxes.trees` for each ball.
    """

    _episodes = tree_episodes.KERNELS
    _within_budget = budget.TREES
    _queries = tree_episodes.QUERIES

    def set_due(self) -> None:
        """Initialize a new table: write the index (optimistic value) and `due_at` of each ball.

        Without samples, a ball is assumed to earn the best reward now and in each remaining step.
        """
        high = float(self.core["reward_high"][0])
        self.stats[:, REWARD] = high
        # If no reward is positive, the best case is that the episode ends after the next one.
        self.stats[:, FUTURE] = max(high, 0.0)
        write_rows(self.rows, self.core, self.stats, self.axes.table, 0, self.rows_in_use, True)
        self._set_sides()

    def rescale(self, span: float, unknown: float | None) -> None:
        """Set the unit of rewards, and the reward assumed for balls without samples.

        With `unknown=None`, balls without samples keep the reward that they have.
        """
        stats, core = self.stats, self.core
        for _ in range(2):  # a variance; the square of the ratio may be too large for a float
            stats[:, NOISE] *= float(core["reward_span"][0]) / span
        core["reward_span"] = span
        if unknown is not None:
            fresh = stats[:, WEIGHT] == 0.0
            stats[fresh, REWARD], stats[fresh, FUTURE] = unknown, max(unknown, 0.0)
        write_rows(self.rows, core, stats, self.axes.table, 0, self.rows_in_use, False)

    def q_values(self, step: int, rows: Any) -> Any:
        """Return the index (optimistic value) of a ball, or of an array of balls, at a step."""
        share = float(share_of_first(self.core, step))
        last, first = self.rows["value"][rows], self.stats[rows, FIRST_INDEX]
        return (1.0 - share) * last + share * first  # `kernels.boxes.trees.index_of`
