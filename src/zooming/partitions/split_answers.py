"""Call a user's split rule and check its answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from zooming import kernels
from zooming.errors import ConfigurationError
from zooming.partitions.faults import lengths
from zooming.partitions.splits import KEPT, MOST_HALVED, Ball
from zooming.validation import Floats, as_float

_SHORTEST = 2.0**-16  # shorter sides are not cut, so that borders differ in floating point


def sees_statistics(rule: Any) -> bool:
    """Return whether a rule is a `TreeRule`."""
    return not hasattr(rule, "axes")


def ball_at(table: Any, row: int, names: Iterable[str], axes: Floats) -> Ball:
    """Return the active ball in `row` as a `Ball`, for a `TreeRule`. Its corners are read-only."""
    low, high = table.box(row)
    kept = KEPT.get(int(table.core["bonus_rule"][0]), ())
    root = row
    while table.rows["parent"][root] != kernels.NO_PARENT:
        root = int(table.rows["parent"][root])
    record = table.rows[row]
    for corner in (low, high):
        corner.setflags(write=False)  # `cuts` checks the rule's answer against them
    return Ball(
        low=low, high=high, names=tuple(names), lengths=lengths(axes, low[None], high[None])[0],
        step=root,
        depth=int(record["depth"]), n_visits=int(record["n_visits"]),
        q_value=float(record["value"]),
        kept={name: float(table.stats[row, i]) for i, name in enumerate(kept)},
    )  # fmt: skip


def due_at(rule: Any, ball: Ball) -> float:
    """Return the number of visits at which a rule splits a ball.

    Raises
    ------
    ConfigurationError
        If the rule does not give a positive number.
    """
    n_visits = (
        rule.due_at(ball)
        if sees_statistics(rule)
        else rule.due_at(ball.low.copy(), ball.high.copy())
    )
    if (
        isinstance(n_visits, bool)
        or not isinstance(n_visits, (int, float, np.number))
        or not n_visits > 0
    ):
        raise ConfigurationError(
            f"{type(rule).__name__}.due_at gave {n_visits!r} for {ball}; give a number above 0"
        )
    return as_float(n_visits)


def cuts(rule: Any, ball: Ball, axes: Floats) -> tuple[int, Floats]:
    """Call a rule to find where to cut a ball, and check its answer.

    Parameters
    ----------
    rule : Rule or TreeRule
        The rule.
    ball : Ball
        The ball.
    axes : array
        The axes in the layout of the kernels, see `kernels.LOW`.

    Returns
    -------
    int
        The axes to cut, as bits. Sides that are too short are left out.
    array [n_axes]
        The cut of each of them, NaN elsewhere.

    Raises
    ------
    ConfigurationError
        If the answer names an axis that does not exist, a cut outside the ball, two
        cuts of one axis, or more than MOST_HALVED axes.
    """
    low, high, names = ball.low, ball.high, ball.names
    is_tree = sees_statistics(rule)
    said = f"{type(rule).__name__}.{'cuts' if is_tree else 'axes'}"
    bits, at = 0, np.full(len(names), np.nan)
    named = rule.cuts(ball) if is_tree else rule.axes(low.copy(), high.copy())
    if isinstance(named, str) or not isinstance(named, Iterable):
        kinds = "axes or pairs (axis, cut)" if is_tree else "axes"
        raise ConfigurationError(
            f"{said} gave {named!r} for {ball}; give a list of {kinds}, [] for none"
        )
    for given in named:
        is_pair = is_tree and isinstance(given, (tuple, list)) and len(given) == 2
        name, where = given if is_pair else (given, None)
        axis = names.index(name) if isinstance(name, str) and name in names else name
        if (
            isinstance(axis, (bool, str))
            or not isinstance(axis, (int, np.integer))
            or not 0 <= axis < len(names)
        ):
            raise ConfigurationError(
                f"{said} gave {given!r} for {ball}; the axes are {dict(enumerate(names))}"
            )
        side, n_values = high[axis] - low[axis], axes[axis, kernels.ATOMS]
        if not (side > _SHORTEST and (n_values == 0 or round(side * n_values) > 1)):
            continue
        cut = kernels.middle(axes, axis, low[axis], high[axis])
        if where is not None:
            cut = _check_cut(
                where,
                float(low[axis]),
                float(high[axis]),
                float(n_values),
                f"{said} gave {given!r} for {ball}",
            )
        if bits >> int(axis) & 1 and at[axis] != cut:
            raise ConfigurationError(
                f"{said} gave two cuts of the axis {names[axis]} for {ball}; give one, and "
                "cut the parts later"
            )
        bits, at[axis] = bits | 1 << int(axis), cut
    if bits.bit_count() > MOST_HALVED:
        raise ConfigurationError(
            f"{said} {'cuts' if is_tree else 'halves'} {bits.bit_count()} axes of {ball} at once, "
            "which makes 2^axes balls; "
            f"name at most {MOST_HALVED}"
        )
    return bits, at


def _check_cut(where: Any, low: float, high: float, n_values: float, said: str) -> float:
    """Return the cut, moved inward if one of the two parts would be too small.

    Raise ConfigurationError if it is outside the side. `said` is the beginning of the message.
    """
    is_number = isinstance(where, (int, float, np.number)) and not isinstance(where, bool)
    if not (is_number and low < where < high):
        raise ConfigurationError(
            f"{said}; a cut must lie between {low:g} and {high:g}, the ends of that side"
        )
    if n_values == 0:
        return min(max(float(where), low + _SHORTEST / 2), high - _SHORTEST / 2)
    value = min(
        max(round(float(where) * n_values), round(low * n_values) + 1), round(high * n_values) - 1
    )
    return value / n_values
