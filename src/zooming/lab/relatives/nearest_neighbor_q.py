"""Nearest-neighbor Q-learning. [Shah and Xie 2018]"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.tables.net_q import NetQ
from zooming.kernels import LENGTH_TOLERANCE, WEIGHT
from zooming.kernels.boxes import neighbors
from zooming.kernels.loop.crossing import pack
from zooming.partitions.boxes import BoxTable
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL
from zooming.validation import Floats


class NeighborTable(BoxTable):
    """The boxes of a net whose samples count for all near states, see `kernels.boxes.neighbors`."""

    episode_kernels = neighbors.KERNELS

    @classmethod
    def of_cells(cls, axes: Axes, core: NDArray[Any], borders: list[Floats]) -> BoxTable:
        table = super().of_cells(axes, core, borders)
        table.prepare()
        return table

    def prepare(self) -> None:
        n_state, table = self.axes.n_state, self.axes.table
        _, low, high = self.boxes(0)
        found = [np.unique((low + high)[:, axis] / 2) for axis in range(n_state)]
        self.centers = np.full((n_state, max(map(len, found))), np.inf)
        self.reach = np.zeros(n_state)
        for axis, centers in enumerate(found):
            self.centers[axis, : len(centers)] = centers
            if self.axes[axis].kind != CATEGORICAL and table[axis, WEIGHT] > 0:
                share = min(1.0, float(self.core["spacing"][0]) / table[axis, WEIGHT])
                self.reach[axis] = share * (1 - LENGTH_TOLERANCE)
        self.played = np.zeros((int(self.core["horizon"][0]), len(self.axes)))
        super().prepare()

    def _handle_of_more(self, more: dict[str, Any]) -> Any:
        return pack(neighbors.Neighbors(self.played, self.centers, self.reach))


class NearestNeighborQ(NetQ):
    """Q-learning on a net whose Q averages all samples near a state of the net.

    A sample counts for every state of the net that is nearer than the spacing along each axis: two
    along an interval. It counts for its own cell of actions only. `docs/lab/relatives.md` has the
    definition, and says where it differs from the publication.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    **options
        Options of `NetQ` and `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Ambulance-v0", arrivals="uniform")
    >>> agent = zooming.NearestNeighborQ(env, spacing=0.25, seed=0)
    >>> agent.update(0, [0.5], [0.1], 1.0, [0.5])  # two of the four states are near
    >>> [agent.visits(0, [x], [0.1]) for x in (0.125, 0.375, 0.625, 0.875)]
    [0, 1, 1, 0]
    """

    heeds_others = False
    has_lemmas = False

    def _make_table(self, core: NDArray[Any], borders: list[Any]) -> Any:
        return NeighborTable.of_cells(self.axes, core, borders)
