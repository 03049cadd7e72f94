"""Split rules: when a ball is split, and where.

There are two compiled rules, "all" and "longest", and rules of your own. Such a rule is an object
with two methods. A `Rule` sees the sides of a ball and halves some axes. A `TreeRule` sees the
`Ball` with its statistics and may choose the cuts, as a decision tree does.

The paper's theorem holds for every nested scheme in which the played balls satisfy c1^2 / diam^2 <=
n <= c2^2 / diam^2. `zooming.audit` reports the two constants and the aspect ratio of the balls, and
says if a rule violates the condition. [SBY19 Theorem on any nested scheme]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from zooming import kernels
from zooming.errors import ConfigurationError
from zooming.partitions.faults import lengths
from zooming.validation import Floats, as_float

RULES = {"all": kernels.ALL, "longest": kernels.LONGEST}
MOST_HALVED = 12  # axes that one split may cut; it makes up to 2^12 balls
KEPT = {  # bonus rule -> names of its statistics
    kernels.EXACT: ("squared_weights", "distance", "width"),
    kernels.BERNSTEIN: ("next_mean", "next_variance", "beta"),
}


@dataclass(frozen=True)
class Ball:
    """A ball as a `TreeRule` sees it: a box of the unit cube, with the agent's statistics.

    The statistics include the visits of its ancestors. So a new ball begins with
    its parent's statistics. The points that were played are not stored.

    Attributes
    ----------
    low, high : array [n_axes]
        Corners in the unit cube.
    names : tuple of str
        Names of the axes, the state's first.
    lengths : array [n_axes]
        Side lengths in the agent's metric.
    step, depth, n_visits : int
        The step of its partition, the number of splits above it, and n(B).
    q_value : float
        Q(B).
    kept : dict
        Statistics of the bonus, by name. `bonuses.Exact` keeps "squared_weights" (the sum of the
        squared weights of the samples), "distance" (the weighted diameter of the balls that they
        were played in) and "width" (Q is the weighted mean of r + V' plus this).
        `bonuses.Bernstein` keeps "next_mean" and "next_variance" (of V'), and "beta". Other bonuses
        keep nothing.
    """

    low: Floats
    high: Floats
    names: tuple[str, ...]
    lengths: Floats
    step: int
    depth: int
    n_visits: int
    q_value: float
    kept: dict[str, float]

    @property
    def diameter(self) -> float:
        """Length of the longest side, in the agent's metric."""
        return float(self.lengths.max())

    def __str__(self) -> str:
        return "the ball " + " x ".join(
            f"[{a:g}, {b:g}]" for a, b in zip(self.low, self.high, strict=True)
        )


class Rule(Protocol):
    """A split rule that sees the sides of a ball and halves axes.

    A ball is the box of the unit cube from `low` to `high`, with one coordinate per axis, state
    axes first.

    Examples
    --------
    >>> class OnlyActions:
    ...     def due_at(self, low, high):
    ...         return (1.0 / max(high[1:] - low[1:])) ** 2
    ...     def axes(self, low, high):
    ...         return ["action[0]"]
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), split=OnlyActions(), seed=0)
    >>> history = agent.learn(100)
    >>> balls = agent.partition(1)
    >>> sorted({*(balls.high - balls.low)[:, 0].tolist()})  # the state axis is never cut
    [1.0]
    """

    def due_at(self, low: Floats, high: Floats) -> float:
        """Return the number of visits at which the ball is split.

        Parameters
        ----------
        low, high : array [n_axes]
            Corners of the ball in the unit cube.

        Returns
        -------
        float
            The number of visits n(B), which includes the ancestors' visits; infinity for never.
        """
        ...

    def axes(self, low: Floats, high: Floats) -> Iterable[int | str]:
        """Return the axes to halve.

        Parameters
        ----------
        low, high : array [n_axes]
            Corners of the ball in the unit cube.

        Returns
        -------
        iterable of int or str
            Numbers or names of axes.
        """
        ...


class TreeRule(Protocol):
    """A split rule that sees the statistics of a ball and may choose the cuts.

    Examples
    --------
    >>> class Thirds:
    ...     def due_at(self, ball):
    ...         return 1 / ball.diameter**2
    ...     def cuts(self, ball):  # the lower third of the longest side
    ...         axis = int(ball.lengths.argmax())
    ...         return [(axis, ball.low[axis] + (ball.high[axis] - ball.low[axis]) / 3)]
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), split=Thirds(), seed=0)
    >>> history = agent.learn(1)
    >>> agent.partition(0).high[:, 0].round(3).tolist()
    [0.333, 1.0]
    """

    def due_at(self, ball: Ball) -> float:
        """Return the number of visits at which the agent calls `cuts`.

        Parameters
        ----------
        ball : Ball
            The ball.

        Returns
        -------
        float
            The number of visits n(B), which includes the ancestors' visits; infinity for never.
        """
        ...

    def cuts(self, ball: Ball) -> Iterable[int | str | tuple[int | str, float]]:
        """Return where to cut the ball.

        If there are several cuts, all are made: two cuts make four balls. If there is no cut, the
        ball is not split, and the agent calls `due_at` again. A number above `ball.n_visits` then
        says when it calls `cuts` next. A cut is not made if a ball would have more than 40 + 18
        n_action cuts along action axes above it.

        Parameters
        ----------
        ball : Ball
            The ball.

        Returns
        -------
        iterable of int, str or (int or str, float)
            Axes, by number or name, which are halved, or pairs (axis, cut in the unit cube). A
            cut closer than 2^-17 to an end of its side is moved to that distance. On an
            axis of integers it is moved to the nearest border between two values.
        """
        ...


def check_rule(split: Any) -> Any:
    """Return the argument `split` of an agent.

    Raise ConfigurationError if it is not a split rule.
    """
    if isinstance(split, str) and split in RULES:
        return split
    is_object = not isinstance(split, type) and callable(getattr(split, "due_at", None))
    if not is_object or not any(callable(getattr(split, name, None)) for name in ("axes", "cuts")):
        names = ", ".join(repr(name) for name in RULES)
        raise ConfigurationError(
            f"split={split!r}: choose {names}, or give an object with due_at(low, high) and "
            "axes(low, high), or with "
            f"due_at(ball) and cuts(ball)"
        )
    return split


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
