"""Covering and packing numbers of boxes, and their dimension."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

from zooming.errors import ConfigurationError

# Largest whole numbers by name: beyond them, floats overflow or an array or a loop does not end.
LIMITS = {"episodes": 2**1000, "t": 10**8, "depth": 500, "n_radii": 1000}
LARGEST = 2**53  # of any other
MOST_DIMENSIONS = 500


def check_positive(or_zero: bool = False, **numbers: float) -> None:
    """Raise ConfigurationError if a number is not finite and positive (with `or_zero`: >= 0)."""
    for name, value in numbers.items():
        if name == "dimension" and value > MOST_DIMENSIONS:
            raise ConfigurationError(
                f"dimension must be at most {MOST_DIMENSIONS}, got a larger number"
            )
        if not (0 < value <= sys.float_info.max or (or_zero and value == 0)):
            raise ConfigurationError(
                f"{name}={value} must be a finite number {'>=' if or_zero else '>'} 0"
            )


def check_whole(low: int = 1, **numbers: float) -> None:
    """Raise ConfigurationError if a number is not an integer >= `low`."""
    for name, value in numbers.items():
        if not (value >= low and value % 1 == 0):
            raise ConfigurationError(f"{name}={value} must be a whole number >= {low}")
        most = LIMITS.get(name, LARGEST)
        if value > most:
            limit = f"{most:,}" if most <= 10**9 else f"2^{most.bit_length() - 1}"
            raise ConfigurationError(f"{name} must be at most {limit}, got a larger number")


METRICS = ("linf", "l1", "l2", "discrete")
Covering = Callable[[float], float]
QUOTIENT_TOLERANCE = 1e-12  # relative tolerance: a quotient such as 0.7 / 0.1 misses an integer


def diameter(sides: Sequence[float], metric: str = "linf") -> float:
    """Return d_max of the box with these sides. [SBY19 sec. 2.2]

    For "discrete", where the sides count points, it is 1, or 0 for a single point.

    Examples
    --------
    >>> diameter((3, 4), "l2"), diameter((3, 4), "l1"), diameter((3, 4), "linf")
    (5.0, 7.0, 4.0)
    >>> diameter((3, 4), "discrete")
    1.0
    """
    if metric not in METRICS:
        raise ConfigurationError(f"metric={metric!r}: choose one of {', '.join(METRICS)}")
    if len(sides) == 0:
        raise ConfigurationError("a box needs at least one side")
    for side in sides:
        check_whole(side=side) if metric == "discrete" else check_positive(side=side)
    lengths = {
        "linf": max(sides),
        "l1": sum(sides),
        "l2": math.hypot(*sides),
        "discrete": math.prod(sides) > 1,
    }
    return float(lengths[metric])


def covering_number(radius: float, sides: Sequence[float], metric: str = "linf") -> int:
    """Return N_r, the number of cells of diameter at most r that cover the box. [SBY19 Def. 2.1]

    The paper's definition has "less than r". The number is exact for "linf" (cubes of side r) and
    "discrete", where the sides count the points of each axis. It is an upper bound for "l1" and
    "l2": cubes of side r / D and r / sqrt(D), which have diameter r.

    Examples
    --------
    >>> covering_number(0.25, (1, 1)), covering_number(0.4, (1, 2))
    (16, 15)
    >>> covering_number(0.5, (1, 1), "l2"), covering_number(0.5, (3, 4), "discrete")
    (9, 12)
    """
    check_positive(radius=radius)
    if radius * (1 + QUOTIENT_TOLERANCE) >= diameter(sides, metric):
        return 1
    return math.prod(
        math.ceil(cells * (1 - QUOTIENT_TOLERANCE)) for cells in _cells(radius, sides, metric)
    )


def packing_number(radius: float, sides: Sequence[float], metric: str = "linf") -> int:
    """Return the largest number of points at pairwise distance r or more. [SBY19 Def. 2.2]

    It is exact for the metrics for which `covering_number` is exact, and otherwise an upper bound.
    A cell of diameter below r contains at most one of the points, so their number is at most the
    number of cells. Under "linf" a grid attains it.

    Examples
    --------
    >>> packing_number(0.25, (1, 1)), packing_number(1.0, (1, 1)), packing_number(1.1, (1, 1))
    (25, 4, 1)
    """
    check_positive(radius=radius)
    if radius * (1 - QUOTIENT_TOLERANCE) > diameter(sides, metric):
        return 1
    if metric == "discrete":
        return int(math.prod(sides))
    return math.prod(
        math.floor(cells * (1 + QUOTIENT_TOLERANCE)) + 1 for cells in _cells(radius, sides, metric)
    )


def covering_dimension(
    covering: Covering, c: float, d_max: float = 1.0, *, limit: float = 0.0, n_radii: int = 32
) -> float:
    """Return d_c = inf {d >= limit : N_r <= c r^-d}, or infinity if there is no such d.

    The condition is checked at the radii d_max 2^-i, i < n_radii. `limit` is the dimension as r
    goes to 0, which no finite list of radii shows. For a box of D sides it is D. With it, the
    result is exact for a box. Without it, a large c makes the result too small. [SBY19 Def. 2.3]

    Parameters
    ----------
    limit : float
        Smallest dimension allowed: the dimension as r goes to 0.
    n_radii : int
        Number of radii at which the condition is checked.

    Examples
    --------
    >>> square = lambda r: covering_number(r, (1, 1))
    >>> covering_dimension(square, c=1.0), covering_dimension(square, c=4.0, limit=2)
    (2.0, 2.0)
    >>> covering_dimension(square, c=0.5)
    inf
    """
    check_positive(c=c, d_max=d_max)
    check_positive(or_zero=True, limit=limit)
    check_whole(n_radii=n_radii)
    low, high = float(limit), math.inf
    for i in range(n_radii):
        radius = d_max * 2.0**-i
        # The condition is excess <= d log(1/r).
        excess = math.log(covering_at(covering, radius) / c)
        if abs(radius - 1) < QUOTIENT_TOLERANCE:
            high = high if excess <= QUOTIENT_TOLERANCE else -math.inf
        elif radius < 1:
            low = max(low, excess / -math.log(radius))
        else:
            high = min(high, -excess / math.log(radius))
    return low if low <= high + 1e-9 else math.inf


def scale_of(dimension: float, c: float, d_max: float) -> float:
    """Return C = c d_max^-d, the largest covering number that N_r <= c r^-d allows at r = d_max."""
    check_positive(or_zero=True, dimension=dimension)
    check_positive(c=c, d_max=d_max)
    try:
        scale = c / math.pow(d_max, dimension)
    except (OverflowError, ZeroDivisionError) as error:
        raise ConfigurationError(
            f"d_max={d_max:g} to the power {dimension:g} is beyond floating point; rescale the "
            "metric"
        ) from error
    if scale < 1 - 1e-9:
        raise ConfigurationError(
            f"c={c} is below d_max^d = {d_max**dimension:g}: N_r <= c r^-d must allow one ball "
            "at r = d_max"
        )
    return max(1.0, scale)


def _cells(radius: float, sides: Sequence[float], metric: str) -> list[float]:
    """Return the number of cubes of diameter r along each side."""
    if metric == "discrete":
        return list(sides)
    stretch = {"linf": 1.0, "l1": float(len(sides)), "l2": math.sqrt(len(sides))}[metric]
    return [side * stretch / radius for side in sides]


def covering_at(covering: Covering, radius: float) -> float:
    """Return N_r. Raise ConfigurationError if it is not finite and at least 1."""
    n_cells = covering(radius)
    if not (math.isfinite(n_cells) and n_cells >= 1):
        raise ConfigurationError(
            f"covering number N_r = {n_cells} at r = {radius:g}: it must be finite and at least 1"
        )
    return n_cells
