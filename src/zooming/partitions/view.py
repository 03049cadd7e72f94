"""The active balls of a step as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import notebook
from zooming.errors import SpaceError
from zooming.partitions.cuts import Cut, View, most_visited
from zooming.spaces.flatten import INTERVAL

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Partition:
    """The active balls of one step, one entry per ball.

    `low` and `high` are [n_balls, n_axes] in the environment's units, state axes first; a ball holds its low face and not
    its high one, except at the end of the space. Along an axis of whole values (discrete, or a box of integers) a ball runs
    from half below its first value to half above its last. `radius` is measured in the unit cube: 2^-`depth` for cubes, a
    net's spacing, and else the weighted length of the longest side. `n_visits` counts the ancestors' visits too.
    """

    low: Floats
    high: Floats
    q_value: Floats
    n_visits: NDArray[np.int64]
    depth: NDArray[np.int64]
    radius: Floats
    names: tuple[str, ...]
    step: int
    kinds: tuple[str, ...] = ()  # of the axes, see `Axes.kinds`; empty: all are intervals
    weights: tuple[float, ...] = ()  # of the axes; empty: all are 1

    def __len__(self) -> int:
        return len(self.q_value)

    def __repr__(self) -> str:
        return (
            f"Partition(step={self.step}, n_balls={len(self)}, depth {self.depth.min()} to {self.depth.max()}, "
            f"q_value {self.q_value.min():.3f} to {self.q_value.max():.3f})"
        )

    def _repr_html_(self) -> str:
        facts = {
            "balls": f"{len(self):,}",
            "depth": f"{self.depth.min()} to {self.depth.max()}",
            "Q": f"{self.q_value.min():.4g} to {self.q_value.max():.4g}",
            "visits": f"{self.n_visits.min():,} to {self.n_visits.max():,} a ball",
            "axes": ", ".join(self.names),
        }
        return notebook.card(f"Partition of step {self.step}", facts, [self.thumbnail(size=200)])

    def thumbnail(self, size: int = 130) -> str:
        """A small picture as inline SVG, of the slice that `slice()` gives: the darker a ball, the less its Q."""
        (across, up), _, shown = self.slice()
        first, last = self.window()
        low, high = (np.clip(corner, first, last)[shown][:, [across, up]] for corner in (self.low, self.high))
        caption = f"step {self.step}: {self.names[up]} over {self.names[across]}{self.cut().caption}"
        return notebook.boxes(low, high, self.q_value[shown], caption, size=size)

    def slice(
        self, axes: Sequence[int | str] | None = None, at: Any = None
    ) -> tuple[tuple[int, int], Floats, NDArray[np.bool_]]:
        """The two axes, the point, and which balls the plane along these axes through this point cuts; see `cut`."""
        found = self.cut(axes, at)
        inside = (self.low <= found.point) & ((found.point < self.high) | (self.high == self.high.max(axis=0)))
        inside[:, list(found.drawn)] = True
        return (found.drawn[0], found.drawn[1]), found.point, inside.all(axis=1)

    def cut(self, axes: Sequence[int | str] | None = None, at: Any = None) -> Cut:
        """Where a picture of two `axes` (numbers or names) cuts the others; print it.

        By default the first state and the first action axis that matter, through the center of the ball with the most visits,
        or the middle of the space before any visit. `at={"state[1]": 0.3}` says otherwise for some axes, a point for all.
        """
        view = self.view()
        pair = [*view.first("state"), *view.first("action")] if axes is None else [view.index(axis, "axes") for axis in axes]
        if len(pair) != 2 or pair[0] == pair[1]:
            raise SpaceError(f"axes={axes}: give two different axes out of {dict(enumerate(self.names))}")
        return view.cut(pair, at, self.center())

    def center(self) -> Floats:
        """The center of the ball with the most visits, a value of the space; before any visit the middle of the space."""
        low, high = self.window()
        centers = (np.clip(self.low, low, high) + np.clip(self.high, low, high)) / 2
        found = most_visited(centers, self.n_visits, self.depth)
        return self.view().values((low + high) / 2 if found is None else found)

    def view(self) -> View:
        """The axes as pictures see them."""
        is_whole = tuple(kind != INTERVAL for kind in self.kinds) or (False,) * len(self.names)
        matters = tuple(weight > 0 for weight in self.weights) or (True,) * len(self.names)
        half = 0.5 * np.array(is_whole)  # a ball ends half a value beyond its last
        return View(self.names, self.low.min(axis=0) + half, self.high.max(axis=0) - half, is_whole, matters)

    def window(self) -> tuple[Floats, Floats]:
        """The corners of the space as drawn: an axis without an end goes on by half of its borders' spread."""
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        for axis in np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high)):
            borders = np.concatenate([self.low[:, axis], self.high[:, axis]])
            borders = borders[np.isfinite(borders)] if np.isfinite(borders).any() else np.zeros(1)
            beyond = np.ptp(borders) / 2 or 1.0
            low[axis] = low[axis] if np.isfinite(low[axis]) else borders.min() - beyond
            high[axis] = high[axis] if np.isfinite(high[axis]) else borders.max() + beyond
        return low, high

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draws the partition on a matplotlib Axes and returns it; see `zooming.plots.partition`."""
        import zooming  # pictures are floors above

        return zooming.plots.partition(self, ax=ax, **options)


def some_steps(horizon: int, most: int) -> list[int]:
    """The steps to show: all, or so many of them, spread evenly, with the first and the last.

    >>> some_steps(3, 5), some_steps(40, 5)
    ([0, 1, 2], [0, 10, 20, 29, 39])
    """
    return [round(step) for step in np.linspace(0, horizon - 1, min(horizon, most)).tolist()]
