"""Choose the plane in which a picture cuts a space with more axes than it can draw.

By default the plane goes through the most visited ball.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.spaces.flatten import INTERVAL
from zooming.validation import Floats


@dataclass(frozen=True)
class View:
    """Names, ends and kinds of the axes of a space, for plots.

    `low` and `high` are the first and the last value of each axis, in the environment's units.
    `is_whole` is true for axes of integers, `matters` for axes with positive weight.
    """

    names: tuple[str, ...]
    low: Floats
    high: Floats
    is_whole: tuple[bool, ...]
    matters: tuple[bool, ...]
    paths: tuple[str, ...] = ()  # places in the spaces, such as state[0]; () if these are the names

    def part(self, axes: slice) -> View:
        """Return the view of a slice of the axes."""
        return View(
            self.names[axes],
            self.low[axes],
            self.high[axes],
            self.is_whole[axes],
            self.matters[axes],
            self.paths[axes],
        )

    def index(self, axis: Any, option: str) -> int:
        """Return the index of an axis that is given by name or index.

        `option` is the name of the argument in error messages.
        """
        if (
            isinstance(axis, (int, np.integer))
            and not isinstance(axis, bool)
            and 0 <= axis < len(self.names)
        ):
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
        """Return the first `n` axes of a kind ("state" or "action") to draw.

        Axes that do not matter or have a single value are left out. If no axis remains, return the
        first axis of the kind.
        """
        found = [i for i, path in enumerate(self.paths or self.names) if path.startswith(kind)]
        telling = [i for i in found if self.matters[i] and self.low[i] < self.high[i]]
        return telling[:n] or found[:1]

    def middle(self) -> Floats:
        """Return the middle of each axis, or its only finite end, or 0.

        On an axis of integers, the middle is rounded to a value.
        """
        low, high = (
            np.where(np.isfinite(self.low), self.low, self.high),
            np.where(np.isfinite(self.high), self.high, self.low),
        )
        return self.values(np.nan_to_num((low + high) / 2, nan=0.0, posinf=0.0, neginf=0.0))

    def values(self, point: Floats) -> Floats:
        """Return the point, with coordinates on axes of integers rounded to a value."""
        return np.where(self.is_whole, np.clip(np.ceil(point - 0.5), self.low, self.high), point)

    def cut(self, drawn: Sequence[int], at: Any, default: Floats) -> Cut:
        """Return the cut along the axes `drawn`, through `default` or through the values in `at`.

        `at` is {axis: value} for some of the axes that are not drawn, or a point with all
        coordinates.
        """
        point = np.array(default, np.float64)
        if isinstance(at, Mapping):
            for axis, value in at.items():
                i = self.index(axis, "at")
                if i in drawn:
                    raise ConfigurationError(
                        f"at: {self.names[i]} is one of the axes that are drawn; leave it out "
                        "of at=, or give other axes="
                    )
                point[i] = self._checked(i, value)
        elif at is not None:
            given = np.asarray(at, np.float64).reshape(-1)
            if given.shape != point.shape:
                raise ConfigurationError(
                    f"at={at!r}: give {{axis: value}}, or one point of {len(point)} numbers, for "
                    f"{', '.join(self.names)}"
                )
            point = np.array([self._checked(i, value) for i, value in enumerate(given)])
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
    """Return the `View` of an agent's axes: their names, ends and kinds, for plots."""
    is_whole, matters = (
        (kind != INTERVAL for kind in axes.kinds),
        (weight > 0 for weight in axes.weights),
    )
    return View(
        tuple(axes.names), axes.low, axes.high, tuple(is_whole), tuple(matters), tuple(axes.paths)
    )


def most_visited(
    centers: Floats, n_visits: NDArray[np.int64], depth: NDArray[np.int64]
) -> Floats | None:
    """Return the center of the most visited ball, or None if no ball was visited.

    If several balls are visited equally often, choose the deepest.
    """
    if not n_visits.any():
        return None
    return np.array(centers[np.lexsort((depth, n_visits))[-1]])
