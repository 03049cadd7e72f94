"""One axis of a state or an action, and its options: order, bounds, squashing, weight."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.errors import SpaceError
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, LARGEST_WHOLE, ORDERED
from zooming.validation import as_float, check_float, short_repr

LONGEST_NAME = 60  # characters
COLUMNS = ("episode", "step", "reward", "terminated", "propensity")  # of logs, besides the axes


@dataclass
class Axis:
    """One axis, with its ends in the environment's units and its weight in the metric."""

    path: str  # place in the spaces, such as state[0]
    kind: str
    low: float
    high: float
    single: bool = False  # float32
    weight: float = 1.0
    clips: bool = False  # whether values beyond the ends count as the ends
    squash: float | None = None  # scale, if the axis is unbounded and squashed
    name: str = ""  # the path, unless a user gives the axis a name

    def __post_init__(self) -> None:
        self.name = self.name or self.path


def find_axes(axes: list[Axis], name: Any, option: str) -> list[Axis]:
    """Return the axes that a name or a path stands for: one axis, or all axes of a space.

    `option` is the name of the argument in error messages.
    """
    found = [
        axis for axis in axes if name in (axis.name, axis.path) or axis.path.startswith(f"{name}[")
    ]
    if not found:
        close = difflib.get_close_matches(str(name), [axis.name for axis in axes], 1, 0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise SpaceError(
            f"{option}: no axis is named {name!r}; {hint}the axes are {_join_names(axes)}"
        )
    return found


def set_names(axes: list[Axis], names: Mapping[str, str] | Iterable[str] | None) -> None:
    """Name axes. Raise SpaceError unless all names are different and none is another's path."""
    if names is None:
        return
    if isinstance(names, Mapping):
        given = [(find_axes(axes, path, "names"), path, name) for path, name in names.items()]
        for found, path, _ in given:
            if len(found) > 1:
                raise SpaceError(f"names: {path!r} is several axes; name {_join_names(found)}")
        pairs = [(found[0], name) for found, _, name in given]
    else:
        is_listed = isinstance(names, Iterable) and not isinstance(names, str)
        listed = list(names) if is_listed else []
        if len(listed) != len(axes):
            raise SpaceError(
                f"names={short_repr(names)}: give {{axis: name}}, or one name for each of "
                f"{_join_names(axes)}. (names={{}} ignores those of env.metadata.)"
            )
        pairs = list(zip(axes, listed, strict=True))
    for axis, name in pairs:
        if not (isinstance(name, str) and name.strip() and name.isprintable()):
            raise SpaceError(f"names: {axis.path} cannot be named {short_repr(name)}; give a text")
        if len(name) > LONGEST_NAME:
            raise SpaceError(
                f"names: {short_repr(name)} has {len(name)} characters; at most {LONGEST_NAME} "
                "are shown"
            )
        means_others = name != axis.path and re.match(r"(state|action)(\[|$)", name)
        if means_others or name.casefold() in COLUMNS:
            others = "other axes" if means_others else "another column of a log"
            raise SpaceError(
                f"names: {axis.path} cannot be named {name!r}, which means {others}; "
                f"take another word"
            )
        axis.name = name
    seen: dict[str, Axis] = {}
    for axis in axes:
        other = seen.setdefault(axis.name.casefold(), axis)
        if other is not axis:
            raise SpaceError(
                f"names: {other.path} is named {other.name!r} and {axis.path} {axis.name!r}; give "
                "each axis a name of its own (upper and lower case count as equal)"
            )


def set_order(axes: list[Axis], ordered: bool | Iterable[str]) -> None:
    """Make the named discrete axes ordered. True means all of them."""
    if isinstance(ordered, bool):
        chosen = [axis for axis in axes if ordered and axis.kind == CATEGORICAL]
    else:
        chosen = [axis for name in ordered for axis in find_axes(axes, name, "ordered")]
    for axis in chosen:
        if axis.kind == INTERVAL:
            raise SpaceError(
                f"ordered: {axis.name} is an interval; only discrete axes can be made ordered"
            )
        axis.kind = ORDERED


def set_bounds(axes: list[Axis], bounds: Mapping[str, Any] | None) -> None:
    """Set the ends of axes. They must lie within the space, and values beyond them are clipped."""
    if bounds is not None and not isinstance(bounds, Mapping):
        raise SpaceError(
            f'bounds={bounds!r}: give {{axis: (low, high)}}, for example {{"state[1]": (-3.0, '
            f"3.0)}}"
        )
    for name, pair in (bounds or {}).items():
        try:
            low, high = (as_float(end) for end in pair)
        except (TypeError, ValueError) as error:
            raise SpaceError(
                f"bounds of {name}: {short_repr(pair)} is not a pair (low, high)"
            ) from error
        for axis in find_axes(axes, name, "bounds"):
            if axis.kind == CATEGORICAL:
                raise SpaceError(
                    f"bounds of {axis.name}: categories have no bounds; make it "
                    f"ordered=[{axis.name!r}]"
                )
            if not (
                math.isfinite(low) and math.isfinite(high) and axis.low <= low <= high <= axis.high
            ):
                raise SpaceError(
                    f"bounds of {axis.name}: ({low}, {high}) must be finite and lie within "
                    f"[{axis.low}, {axis.high}]"
                )
            if axis.kind == ORDERED and not (low.is_integer() and high.is_integer()):
                raise SpaceError(f"bounds of {axis.name}: ({low}, {high}) must be whole numbers")
            axis.low, axis.high, axis.clips = low, high, True


def set_squash(axes: list[Axis], squash: bool | float | Mapping[str, float]) -> None:
    """Set the scale by which unbounded axes are squashed."""
    unbounded = [
        axis for axis in axes if not (math.isfinite(axis.low) and math.isfinite(axis.high))
    ]
    if isinstance(squash, Mapping):
        scales = [
            (axis, scale)
            for name, scale in squash.items()
            for axis in find_axes(axes, name, "squash")
        ]
    else:
        squash = (
            squash if isinstance(squash, bool) else check_float(squash, "squash", 0.0, math.inf)
        )
        scales = [
            (axis, 1.0 if squash is True else squash) for axis in unbounded if squash is not False
        ]
    for axis, scale in scales:
        if axis not in unbounded or axis.kind != INTERVAL:
            raise SpaceError(
                f"squash: {axis.name} runs from {axis.low} to {axis.high}; only an unbounded "
                "axis can be squashed"
            )
        if (
            isinstance(scale, bool)
            or not isinstance(scale, (int, float, np.number))
            or not 0 < as_float(scale) < math.inf
        ):
            raise SpaceError(
                f"squash of {axis.name}: {short_repr(scale)} is not a scale; give a positive "
                "number, "
                "about the size of usual values"
            )
        axis.squash = as_float(scale)


def set_weights(axes: list[Axis], weights: Mapping[str, float] | Iterable[float] | None) -> None:
    """Set the weights of axes in the metric."""
    if weights is None:
        return
    if isinstance(weights, Mapping):
        given = [
            (axis, weight)
            for name, weight in weights.items()
            for axis in find_axes(axes, name, "weights")
        ]
    else:
        listed = (
            list(weights)
            if isinstance(weights, Iterable) and not isinstance(weights, str)
            else None
        )
        if listed is None or len(listed) != len(axes):
            raise SpaceError(
                f"weights={short_repr(weights)}: give {{axis: weight}}, or one number for each of "
                f"{_join_names(axes)}"
            )
        given = list(zip(axes, listed, strict=True))
    for axis, weight in given:
        is_number = isinstance(weight, (int, float, np.number)) and not isinstance(weight, bool)
        if not (is_number and 0 <= as_float(weight) < math.inf):
            raise SpaceError(
                f"weight of {axis.name}: {short_repr(weight)} is not a finite number >= 0 (0: "
                "the axis "
                "does not matter)"
            )
        axis.weight = float(weight)
    if not any(axis.weight > 0 for axis in axes):
        raise SpaceError(
            "weights: every axis has weight 0; give at least one axis a positive weight"
        )


def check_axes(axis: Axis) -> None:
    """Raise SpaceError with advice if an axis cannot be mapped to the unit interval."""
    low, high = axis.low, axis.high
    if axis.squash:
        return
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SpaceError(
            f"unbounded: axis {axis.name} runs from {low} to {high}. Give the agent its usual "
            "range, "
            f"bounds={{{axis.name!r}: (low, high)}} (values beyond count as the ends), or "
            "squash=True"
        )
    if axis.kind != INTERVAL:
        if max(-low, high) >= LARGEST_WHOLE:
            raise SpaceError(
                f"axis {axis.name} runs from {low:g} to {high:g}: whole numbers of this size "
                "are not exact as floats. Give the agent its usual range, "
                f"bounds={{{axis.name!r}: (low, high)}}, or numbers below 2^52 (a wrapper)"
            )
        return
    if not low < high:
        raise SpaceError(
            f"axis {axis.name} runs from {low} to {high}: it has no width. Drop it from the space "
            "(a wrapper)."
        )
    width = high - low
    if not (math.isfinite(width) and math.isfinite(1.0 / width)):
        raise SpaceError(
            f"axis {axis.name} runs from {low} to {high}: its width is beyond floating point. "
            "Rescale the axis."
        )


def _join_names(axes: list[Axis]) -> str:
    return ", ".join(axis.name for axis in axes)


def names_of(names: Any) -> list[str]:
    """Return the axis names in `ordered`, one name or several, as a list."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable):
        raise SpaceError(f"ordered={names!r}: give True or the names of axes")
    return list(names)
