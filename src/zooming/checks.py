"""Checks at the edge that several modules share."""

from __future__ import annotations

import math
import numbers
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError
from zooming.kernels.layout import ROUNDING

LARGEST = 2**53  # whole numbers up to here are exact as floats


def shown(value: Any) -> str:
    """Return repr(value) for an error message, cut short; Python prints no whole number of over 4300 digits."""
    try:
        text = repr(value)
    except ValueError:
        text = f"a {type(value).__name__} that is too long to print"
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_float(value: Any) -> float:
    """Return float(value); infinity for a number beyond floating point, which the caller then refuses like any infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_floats(values: Any) -> NDArray[np.float64]:
    """Return the values as a float64 array of its own; TypeError or ValueError if they are not numbers that a float holds."""
    try:
        return np.array(values, np.float64, order="C")
    except OverflowError as error:
        raise ValueError("a number is beyond floating point") from error


def whole(value: Any, what: str, least: int, most: int | None = LARGEST) -> int:
    """The value as an int, if it is a whole number from `least` to `most` (None: any)."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise SpaceError(f"{what}={shown(value)}: give a whole number >= {least}")
    if most is not None and value > most:
        raise SpaceError(f"{what}={shown(value)}: give a whole number from {least} to {most:,}")
    return int(value)


def real(value: Any, what: str, low: float, high: float) -> float:
    """The value as a float, if it is a number from `low` to `high`."""
    number = as_float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not (math.isfinite(number) and low <= number <= high):
        bound = f"at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
        raise SpaceError(f"{what}={shown(value)}: give a finite number, {bound}")
    return number


def clipped(point: NDArray[np.float64], low: NDArray[Any], high: NDArray[Any]) -> tuple[NDArray[np.float64], int | None]:
    """The point, with rounding outside the bounds clipped, and the first coordinate that is further out (None: none is).

    A loop over floats: for the one to three coordinates of a step it is five times as fast as NumPy.
    """
    for i, (value, least, most) in enumerate(zip(point.tolist(), low.tolist(), high.tolist(), strict=True)):
        if not least <= value <= most:
            slack = ROUNDING * (most - least)
            if not least - slack <= value <= most + slack:
                return point, i
            point = point.copy()
            point[i] = min(most, max(least, value))
    return point, None


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
