"""When a ball is split, and how: two rules in the kernel, and rules of your own. [SBY19 Theorem on any nested scheme]

The theorem allows every nested scheme whose played balls keep c1^2 / diam^2 <= n <= c2^2 / diam^2; `zooming.audit` reports the
two constants and the aspect ratio of the balls, and says when a rule does not keep them.

A rule of your own is an object with two methods. A `Rule` sees the sides of a ball and halves axes. A `TreeRule` sees the
`Ball` with its statistics and may choose where it is cut, as any decision tree does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.errors import SpaceError
from zooming.partitions.boxes import BallTable, lengths
from zooming.validation import as_float

Floats = NDArray[np.float64]
RULES = {"all": kernels.ALL, "longest": kernels.LONGEST}
MOST_HALVED = 12  # axes at once: beyond this the first split alone would fill a small device
KEPT = {  # by the rule of the bonus
    kernels.EXACT: ("squared_weights", "distance", "width"),
    kernels.BERNSTEIN: ("next_mean", "next_variance", "beta"),
}
_SHORTEST = 2.0**-16  # a side is not cut any further: borders must stay apart in floating point


@dataclass(frozen=True)
class Ball:
    """A ball as a `TreeRule` sees it: a box of the unit cube from `low` to `high`, and what the agent keeps about it.

    `n_visits`, `q_value` and `kept` count the visits of its ancestors as its own: a new ball has those of its parent. The
    points that were played are not kept. `kept` is what the bonus keeps, which is nothing but for two of them:

    - `bonuses.Exact`: "squared_weights" (the sum of the squared weights of the samples), "distance" (their weighted distance)
      and "width" (Q is the weighted mean of r + V' plus this);
    - `bonuses.Bernstein`: "next_mean" and "next_variance" (of V'), and "beta".

    `lengths` are the sides in the agent's metric, and `diameter` is the longest of them.
    """

    low: Floats
    high: Floats
    names: tuple[str, ...]  # of the axes, the state's first
    lengths: Floats
    step: int
    depth: int
    n_visits: int
    q_value: float
    kept: dict[str, float]

    @property
    def diameter(self) -> float:
        return float(self.lengths.max())

    def __str__(self) -> str:
        return "the ball " + " x ".join(f"[{a:g}, {b:g}]" for a, b in zip(self.low, self.high, strict=True))


class Rule(Protocol):
    """A split rule: a ball is a box of the unit cube, from `low` to `high`, one coordinate per axis, the state's first.

    >>> class OnlyActions:
    ...     def due_at(self, low, high):
    ...         return (1.0 / max(high[1:] - low[1:])) ** 2
    ...     def axes(self, low, high):
    ...         return ["action[0]"]
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), split=OnlyActions(), seed=0)
    >>> history = agent.learn(100)
    >>> balls = agent.partition(1)
    >>> sorted({*(balls.high - balls.low)[:, 0].tolist()})  # the state's side is whole
    [1.0]
    """

    def due_at(self, low: Floats, high: Floats) -> float:
        """The number of visits, its ancestors' included, at which the ball is split; infinity: never."""
        ...

    def axes(self, low: Floats, high: Floats) -> Iterable[int | str]:
        """Which axes are halved, by number or name."""
        ...


class TreeRule(Protocol):
    """A split rule that sees the statistics of a ball and may say where it is cut.

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
        """The number of visits, its ancestors' included, at which `cuts` is asked; infinity: never."""
        ...

    def cuts(self, ball: Ball) -> Iterable[int | str | tuple[int | str, float]]:
        """Where the ball is cut: axes, by number or name, which are halved, or pairs (axis, threshold in the unit cube).

        Several cuts are all made: two make four balls. A threshold closer than 2^-17 to an end of its side is moved to that
        distance; on whole values it is moved to the nearest border between two. Without a cut the ball stays as it is, and
        `due_at` is asked again: a number above `ball.n_visits` is when `cuts` is asked next. A ball that lies below 40 cuts
        along actions, and 18 more for each action axis, is not cut any more.
        """
        ...


def checked_rule(split: Any) -> Any:
    """The rule, if it is one."""
    if isinstance(split, str) and split in RULES:
        return split
    is_object = not isinstance(split, type) and callable(getattr(split, "due_at", None))
    if not is_object or not any(callable(getattr(split, name, None)) for name in ("axes", "cuts")):
        names = ", ".join(repr(name) for name in RULES)
        raise SpaceError(
            f"split={split!r}: choose {names}, or give an object with due_at(low, high) and axes(low, high), or with "
            f"due_at(ball) and cuts(ball)"
        )
    return split


def sees_statistics(rule: Any) -> bool:
    """Whether it is a `TreeRule`."""
    return not hasattr(rule, "axes")


def ball_at(table: BallTable, row: int, names: Iterable[str], axes: Floats) -> Ball:
    """What a rule may know about an active ball."""
    low, high = table.box(row)
    kept = KEPT.get(int(table.core["bonus_rule"][0]), ())
    root = row
    while table.rows["parent"][root] != kernels.NO_PARENT:
        root = int(table.rows["parent"][root])
    record = table.rows[row]
    for corner in (low, high):
        corner.setflags(write=False)  # it is also what the answer is checked by
    return Ball(
        low=low, high=high, names=tuple(names), lengths=lengths(axes, low[None], high[None])[0], step=root,
        depth=int(record["depth"]), n_visits=int(record["n_visits"]), q_value=float(record["value"]),
        kept={name: float(table.stats[row, i]) for i, name in enumerate(kept)},
    )  # fmt: skip


def due_at(rule: Any, ball: Ball) -> float:
    """The rule's number of visits, if it is a positive one."""
    n_visits = rule.due_at(ball) if sees_statistics(rule) else rule.due_at(ball.low.copy(), ball.high.copy())
    if isinstance(n_visits, bool) or not isinstance(n_visits, (int, float, np.number)) or not n_visits > 0:
        raise SpaceError(f"{type(rule).__name__}.due_at gave {n_visits!r} for {ball}; give a number above 0")
    return as_float(n_visits)


def cuts(rule: Any, ball: Ball, axes: Floats) -> tuple[int, Floats]:
    """The axes that the rule cuts, as bits, less those that are too short, and the threshold of each."""
    low, high, names = ball.low, ball.high, ball.names
    is_tree = sees_statistics(rule)
    said = f"{type(rule).__name__}.{'cuts' if is_tree else 'axes'}"
    bits, at = 0, np.full(len(names), np.nan)
    named = rule.cuts(ball) if is_tree else rule.axes(low.copy(), high.copy())
    if isinstance(named, str) or not isinstance(named, Iterable):
        kinds = "axes or pairs (axis, threshold)" if is_tree else "axes"
        raise SpaceError(f"{said} gave {named!r} for {ball}; give a list of {kinds}, [] for none")
    for given in named:
        is_pair = is_tree and isinstance(given, (tuple, list)) and len(given) == 2
        name, where = given if is_pair else (given, None)
        axis = names.index(name) if isinstance(name, str) and name in names else name
        if isinstance(axis, (bool, str)) or not isinstance(axis, (int, np.integer)) or not 0 <= axis < len(names):
            raise SpaceError(f"{said} gave {given!r} for {ball}; there are the axes {dict(enumerate(names))}")
        side, n_values = high[axis] - low[axis], axes[axis, kernels.ATOMS]
        if not (side > _SHORTEST and (n_values == 0 or round(side * n_values) > 1)):
            continue
        threshold = kernels.middle(axes, axis, low[axis], high[axis])
        if where is not None:
            threshold = _threshold(
                where, float(low[axis]), float(high[axis]), float(n_values), f"{said} gave {given!r} for {ball}"
            )
        if bits >> int(axis) & 1 and at[axis] != threshold:
            raise SpaceError(
                f"{said} gave two thresholds of the axis {names[axis]} for {ball}; give one, and cut the parts later"
            )
        bits, at[axis] = bits | 1 << int(axis), threshold
    if bits.bit_count() > MOST_HALVED:
        raise SpaceError(
            f"{said} {'cuts' if is_tree else 'halves'} {bits.bit_count()} axes of {ball} at once, which makes 2^axes balls; "
            f"name at most {MOST_HALVED}"
        )
    return bits, at


def _threshold(where: Any, low: float, high: float, n_values: float, said: str) -> float:
    """A threshold that leaves something on both sides."""
    is_number = isinstance(where, (int, float, np.number)) and not isinstance(where, bool)
    if not (is_number and low < where < high):
        raise SpaceError(f"{said}; a threshold must lie between {low:g} and {high:g}, the ends of that side")
    if n_values == 0:
        return min(max(float(where), low + _SHORTEST / 2), high - _SHORTEST / 2)
    value = min(max(round(float(where) * n_values), round(low * n_values) + 1), round(high * n_values) - 1)
    return value / n_values


def fits(table: BallTable, row: int, bits: int) -> bool:
    """Whether selection has room for the forks of a path below these cuts: each cut along an action axis is one."""
    n_state, n_forks = int(table.core["n_state"][0]), (bits >> int(table.core["n_state"][0])).bit_count()
    while table.rows["parent"][row] != kernels.NO_PARENT:
        row = int(table.rows["parent"][row])
        n_forks += int(table.rows["axis"][row] >= n_state)
    return bool(n_forks <= kernels.most_splits(table.core["n_action"][0]))
