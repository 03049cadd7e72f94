"""The active balls of one step as arrays, and the planes in which pictures cut them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.kernels import ATOMS, LOW, WIDTH
from zooming.kernels.plans.layout import Grid
from zooming.methods import UpperMethod
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import INTERVAL
from zooming.validation import Floats, Ints


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
    """Return the smallest numbers that `kernels.to_unit` maps to borders or above them."""
    low, width, n_values = axes[:, LOW], axes[:, WIDTH], axes[:, ATOMS]
    # On an axis of integers, `low` is a half-integer, so borders are exact half-integers.
    border = np.where(unit == 1.0, ends, low + np.rint(width * unit))
    for i in np.flatnonzero(n_values == 0):
        inner, where = np.unique(unit[:, i], return_inverse=True)
        found = _first_at(inner, low[i], width[i])
        border[:, i] = np.where(unit[:, i] == 1.0, ends[i], found[where])
    return border


def bin_borders(grid: Grid, axis: int) -> Floats:
    """Return the smallest float u of each bin, floor(u * units) >= edge, of a planner's axis."""
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


def about_axes(axes: Axes) -> dict[str, Any]:
    """Return the fields of a `Partition` that describe the axes."""
    return {
        "names": tuple(axes.names),
        "kinds": tuple(axes.kinds),
        "weights": tuple(axes.weights),
        "paths": tuple(axes.paths),
    }


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
    n_visits: Ints
    depth: Ints
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
        """Return the two axes to draw, a point of the plane, and a mask of the balls it meets.

        `axes` and `at` are those of `cut`.
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
        at : dict, optional
            Where to cut some of the other axes, `{"state[1]": 0.3}`. Default: at `center()`.
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
        """Return the center of the most visited ball, or the middle of the space."""
        low, high = self.window()
        centers = (np.clip(self.low, low, high) + np.clip(self.high, low, high)) / 2
        found = most_visited(centers, self.n_visits, self.depth)
        return self.view().values((low + high) / 2 if found is None else found)

    def view(self) -> View:
        """Return the `View` of the axes."""
        is_whole = tuple(kind != INTERVAL for kind in self.kinds) or (False,) * len(self.names)
        matters = tuple(weight > 0 for weight in self.weights) or (True,) * len(self.names)
        half = 0.5 * np.array(is_whole)  # a ball of integers ends 1/2 above its last value
        low, high = self.low.min(axis=0) + half, self.high.max(axis=0) - half
        return View(self.names, low, high, is_whole, matters, self.paths)

    def window(self) -> tuple[Floats, Floats]:
        """Return the corners of the region to draw, where unbounded axes get an end."""
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        for axis in np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high)):
            borders = np.concatenate([self.low[:, axis], self.high[:, axis]])
            borders = borders[np.isfinite(borders)] if np.isfinite(borders).any() else np.zeros(1)
            beyond = np.ptp(borders) / 2 or 1.0
            low[axis] = low[axis] if np.isfinite(low[axis]) else borders.min() - beyond
            high[axis] = high[axis] if np.isfinite(high[axis]) else borders.max() + beyond
        return low, high

    plot = UpperMethod()


@dataclass(frozen=True)
class View:
    """Names, ends and kinds of the axes of a space, for plots."""

    names: tuple[str, ...]
    low: Floats  # first value of each axis, in the environment's units
    high: Floats  # last value
    is_whole: tuple[bool, ...]  # true for axes of integers
    matters: tuple[bool, ...]  # true for axes with positive weight
    paths: tuple[str, ...] = ()  # places in the spaces, such as state[0]; () if these are the names

    def part(self, axes: slice) -> View:
        """Return the view of a slice of the axes."""
        return View(*(getattr(self, field.name)[axes] for field in fields(self)))

    def index(self, axis: Any, option: str) -> int:
        """Return the index of an axis given by name or index. Errors name the `option`."""
        is_number = isinstance(axis, (int, np.integer)) and not isinstance(axis, bool)
        if is_number and 0 <= axis < len(self.names):
            return int(axis)
        alike = [
            i
            for i, (name, path) in enumerate(zip(self.names, self.paths or self.names, strict=True))
            if axis in (name, path) or path.startswith(f"{axis}[")
        ]
        if isinstance(axis, str) and len(alike) == 1:  # "state" names the only axis of the states
            return alike[0]
        close = difflib.get_close_matches(str(axis), self.names, 1, 0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigurationError(
            f"{option}: no axis is named {axis!r}; {hint}the axes are {', '.join(self.names)}"
        )

    def first(self, kind: str, n: int = 1) -> list[int]:
        """Return the first `n` axes of a kind, "state" or "action", which matter and vary."""
        found = [i for i, path in enumerate(self.paths or self.names) if path.startswith(kind)]
        telling = [i for i in found if self.matters[i] and self.low[i] < self.high[i]]
        return telling[:n] or found[:1]

    def middle(self) -> Floats:
        """Return the middle of each axis, rounded to a value, or its only finite end, or 0."""
        low = np.where(np.isfinite(self.low), self.low, self.high)
        high = np.where(np.isfinite(self.high), self.high, self.low)
        return self.values(np.nan_to_num((low + high) / 2, nan=0.0, posinf=0.0, neginf=0.0))

    def values(self, point: Floats) -> Floats:
        """Return the point, with coordinates on axes of integers rounded to a value."""
        return np.where(self.is_whole, np.clip(np.ceil(point - 0.5), self.low, self.high), point)

    def cut(self, drawn: Sequence[int], at: Any, default: Floats) -> Cut:
        """Return the cut along the axes `drawn`, through `default` with `at`, {axis: value}."""
        point = np.array(default, np.float64)
        if not isinstance(at, Mapping | None):
            raise ConfigurationError(f"at={at!r}: give {{axis: value}} for {', '.join(self.names)}")
        for axis, value in (at or {}).items():
            i = self.index(axis, "at")
            if i in drawn:
                raise ConfigurationError(
                    f"at: {self.names[i]} is one of the axes that are drawn; leave it out of at=, "
                    "or give other axes="
                )
            point[i] = self._checked(i, value)
        return Cut(self, tuple(drawn), point)

    def _checked(self, i: int, value: Any) -> float:
        """Return `value` as a float. Raise ConfigurationError if axis `i` has no such value."""
        name, low, high = self.names[i], self.low[i], self.high[i]
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"at: {name} = {value!r} is not a number") from error
        if self.is_whole[i] and not (low <= number <= high and number.is_integer()):
            raise ConfigurationError(
                f"at: {name} = {value} is not a whole number from {low:g} to {high:g}"
            )
        if not low <= number <= high:
            raise ConfigurationError(f"at: {name} = {value} is outside [{low:g}, {high:g}]")
        return number


@dataclass(frozen=True)
class Cut:
    """A plane along the axes `drawn` through `point`. Its str() lists the other coordinates."""

    view: View
    drawn: tuple[int, ...]
    point: Floats

    def __str__(self) -> str:
        return ", ".join(
            f"{name} = {self.point[i]:.{15 if self.view.is_whole[i] else 3}g}"
            for i, name in enumerate(self.view.names)
            if i not in self.drawn
        )

    @property
    def caption(self) -> str:
        """Text for the end of a caption: ", cut at ...", or "" if every axis is drawn."""
        return f", cut at {self}" if str(self) else ""


def view_of(axes: Any) -> View:
    """Return the `View` of an agent's axes."""
    is_whole = tuple(kind != INTERVAL for kind in axes.kinds)
    matters = tuple(weight > 0 for weight in axes.weights)
    return View(tuple(axes.names), axes.low, axes.high, is_whole, matters, tuple(axes.paths))


def most_visited(centers: Floats, n_visits: Ints, depth: Ints) -> Floats | None:
    """Return the center of the most visited ball, the deepest of several, or None."""
    if not n_visits.any():
        return None
    return np.array(centers[np.lexsort((depth, n_visits))[-1]])
