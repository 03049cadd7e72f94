"""The active balls of one step, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.kernels import ATOMS, LOW, WIDTH
from zooming.kernels.plans.layout import Grid
from zooming.methods import UpperMethod
from zooming.partitions.cuts import Cut, View, most_visited
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import INTERVAL
from zooming.validation import Floats


def corners(axes: Axes, unit: Floats) -> Floats:
    """Convert corners of boxes from the unit cube to the environment's units.

    On a squashed axis, outer boxes are unbounded, although the inverse map would end at 1e6 scales.
    """
    found = axes.from_unit_cube(in_units(unit, axes.table, axes.ends), 0)
    for i in range(len(axes)):
        if axes[i].squash:
            found[unit[:, i] == 0.0, i] = axes[i].low
            found[unit[:, i] == 1.0, i] = axes[i].high
    return found


def in_units(unit: Floats, axes: Floats, ends: Floats) -> Floats:
    """Convert borders from the unit cube to the environment's units.

    The result is the smallest number that `kernels.to_unit` maps to the border or above it.
    """
    low, width, n_values = axes[:, LOW], axes[:, WIDTH], axes[:, ATOMS]
    # On an axis of integers, `low` is a half-integer, so borders are exact half-integers.
    border = np.where(unit == 1.0, ends, low + np.rint(width * unit))
    for i in np.flatnonzero(n_values == 0):
        inner, where = np.unique(unit[:, i], return_inverse=True)
        found = _first_at(inner, low[i], width[i])
        border[:, i] = np.where(unit[:, i] == 1.0, ends[i], found[where])
    return border


def bin_borders(grid: Grid, axis: int) -> Floats:
    """Return the smallest coordinate of the unit cube in each bin of an axis of a planner.

    It is the smallest float u with floor(u * units) >= edge, rounding included.
    """
    edges, units = grid.edges[axis, : grid.bins[axis]], int(grid.units[axis])
    found = edges / units
    while True:
        before, after = np.nextafter(found, 0.0), np.nextafter(found, 1.0)
        is_high = (found > 0.0) & (np.floor(before * units) >= edges)
        is_low = np.floor(found * units) < edges
        if not (is_high | is_low).any():
            return np.asarray(found)
        found = np.where(is_high, before, np.where(is_low, after, found))


def _first_at(unit: Floats, low: float, width: float) -> Floats:
    """Return the smallest float x with (x - low) / width >= unit, rounding included."""
    guess = low + width * unit
    slack = 8 * np.spacing(np.maximum(np.abs(guess), max(abs(low), abs(width))))
    # Below the border, and not below it. The first border is `low` itself, and is not searched: if
    # it is 0, more than a thousand floats lie on a bisection's way to it.
    before = np.where(unit == 0.0, low, guess - slack)
    found = np.where(unit == 0.0, low, guess + slack)
    while True:
        middle = before + (found - before) / 2
        is_between = (before < middle) & (middle < found)
        if not is_between.any():
            return found
        is_below = (middle - low) / width < unit
        before = np.where(is_between & is_below, middle, before)
        found = np.where(is_between & ~is_below, middle, found)


@dataclass(frozen=True)
class Partition:
    """The active balls of one step, one entry per ball. Returned by `agent.partition(step)`.

    A ball contains its low face but not its high face, except at the end of the space.

    Attributes
    ----------
    low, high : array [n_balls, n_axes]
        Corners in the environment's units, state axes first. On an axis of integers, a ball reaches
        from 1/2 below its first value to 1/2 above its last.
    q_value : array [n_balls]
        Q of each ball.
    n_visits : array [n_balls]
        Visits of each ball, those of its ancestors included.
    depth : array [n_balls]
        Number of splits above each ball.
    radius : array [n_balls]
        Radius in the unit cube: 2^-`depth` for cubes, the spacing for a net, and the weighted
        length of the longest side for other boxes.
    names : tuple of str
        Names of the axes.
    step : int
        The step, counted from 0.
    kinds : tuple of str
        Kind of each axis, see `Axes.kinds`. Empty if all are intervals.
    weights : tuple of float
        Weight of each axis in the metric. Empty if all are 1.
    noun : str
        Name of an entry: "ball", or "cell" for a planner.
    paths : tuple of str
        Places of the axes in the spaces, such as "state[0]". Empty if these are the names.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(1)
    >>> agent.partition(0).low.tolist()
    [[0.0, 0.0], [0.0, 0.5], [0.5, 0.0], [0.5, 0.5]]
    """

    low: Floats
    high: Floats
    q_value: Floats
    n_visits: NDArray[np.int64]
    depth: NDArray[np.int64]
    radius: Floats
    names: tuple[str, ...]
    step: int
    kinds: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    noun: str = "ball"
    paths: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.q_value)

    def __repr__(self) -> str:
        return (
            f"Partition(step={self.step}, n_{self.noun}s={len(self)}, depth {self.depth.min()} to "
            f"{self.depth.max()}, "
            f"q_value {self.q_value.min():.3f} to {self.q_value.max():.3f})"
        )

    def slice(
        self, axes: Sequence[int | str] | None = None, at: Any = None
    ) -> tuple[tuple[int, int], Floats, NDArray[np.bool_]]:
        """Return the plane to draw and a mask of the balls that it intersects; see `cut`.

        Parameters
        ----------
        axes : sequence of two int or str, optional
            The axes to draw, as for `cut`.
        at : dict or array, optional
            Where to cut the other axes, as for `cut`.

        Returns
        -------
        (int, int)
            The two axes.
        array [n_axes]
            A point of the plane.
        array of bool [n_balls]
            True for each ball that the plane meets.

        Raises
        ------
        ConfigurationError
            If `axes` or `at` does not fit the space.
        """
        found = self.cut(axes, at)
        inside = (self.low <= found.point) & (
            (found.point < self.high) | (self.high == self.high.max(axis=0))
        )
        inside[:, list(found.drawn)] = True
        return (found.drawn[0], found.drawn[1]), found.point, inside.all(axis=1)

    def cut(self, axes: Sequence[int | str] | None = None, at: Any = None) -> Cut:
        """Return the plane in which a picture of two axes cuts the space.

        Print it to see the values of the other axes.

        Parameters
        ----------
        axes : sequence of two int or str, optional
            The axes to draw, by number or name. Default: the first state axis and the first action
            axis with positive weight and more than one value.
        at : dict or array, optional
            Where to cut the other axes: `{"state[1]": 0.3}` for some of them, or a point. Default:
            the point `center()`.

        Returns
        -------
        Cut
            The plane.

        Raises
        ------
        ConfigurationError
            If `axes` or `at` does not fit the space.
        """
        view = self.view()
        pair = (
            [*view.first("state"), *view.first("action")]
            if axes is None
            else [view.index(axis, "axes") for axis in axes]
        )
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ConfigurationError(
                f"axes={axes}: give two different axes out of {dict(enumerate(self.names))}"
            )
        return view.cut(pair, at, self.center())

    def center(self) -> Floats:
        """Return the center of the most visited ball. On axes of integers it is rounded to a value.

        Before any visit, return the middle of the space.
        """
        low, high = self.window()
        centers = (np.clip(self.low, low, high) + np.clip(self.high, low, high)) / 2
        found = most_visited(centers, self.n_visits, self.depth)
        return self.view().values((low + high) / 2 if found is None else found)

    def view(self) -> View:
        """Return the `View` of the axes: their names, ends and kinds, for plots."""
        is_whole = tuple(kind != INTERVAL for kind in self.kinds) or (False,) * len(self.names)
        matters = tuple(weight > 0 for weight in self.weights) or (True,) * len(self.names)
        half = 0.5 * np.array(is_whole)  # a ball of integers ends 1/2 above its last value
        low, high = self.low.min(axis=0) + half, self.high.max(axis=0) - half
        return View(self.names, low, high, is_whole, matters, self.paths)

    def window(self) -> tuple[Floats, Floats]:
        """Return the corners of the region to draw.

        An axis without a finite end is extended by half of the range of its borders.
        """
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        for axis in np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high)):
            borders = np.concatenate([self.low[:, axis], self.high[:, axis]])
            borders = borders[np.isfinite(borders)] if np.isfinite(borders).any() else np.zeros(1)
            beyond = np.ptp(borders) / 2 or 1.0
            low[axis] = low[axis] if np.isfinite(low[axis]) else borders.min() - beyond
            high[axis] = high[axis] if np.isfinite(high[axis]) else borders.max() + beyond
        return low, high

    plot = UpperMethod()
