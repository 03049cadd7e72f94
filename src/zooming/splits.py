"""When a ball is split, and how: two rules in the kernel, and rules of your own. [SBY19 Theorem on any nested scheme]

The theorem allows every nested scheme whose played balls keep c1^2 / diam^2 <= n <= c2^2 / diam^2; `zooming.audit` reports the
two constants and the aspect ratio of the balls, and says when a rule does not keep them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.checks import as_float
from zooming.errors import SpaceError

Floats = NDArray[np.float64]
RULES = {"all": kernels.ALL, "longest": kernels.LONGEST}
MOST_HALVED = 12  # axes at once: beyond this the first split alone would fill a small device
_SHORTEST = 2.0**-16  # a side is not halved any further: borders must stay apart in floating point


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


def checked_rule(split: Any) -> Any:
    """The rule, if it is one."""
    if isinstance(split, str) and split in RULES:
        return split
    is_rule = not isinstance(split, type) and all(callable(getattr(split, name, None)) for name in ("due_at", "axes"))
    if not is_rule:
        names = ", ".join(repr(name) for name in RULES)
        raise SpaceError(f"split={split!r}: choose {names}, or give an object with due_at(low, high) and axes(low, high)")
    return split


def due_at(rule: Rule, low: Floats, high: Floats) -> float:
    """The rule's number of visits, if it is a positive one."""
    n_visits = rule.due_at(low.copy(), high.copy())
    if isinstance(n_visits, bool) or not isinstance(n_visits, (int, float, np.number)) or not n_visits > 0:
        raise SpaceError(f"{type(rule).__name__}.due_at gave {n_visits!r} for {_box(low, high)}; give a number above 0")
    return as_float(n_visits)


def halved(rule: Rule, low: Floats, high: Floats, names: Sequence[str], axes: Floats) -> int:
    """The axes that the rule names, as bits, less those that are too short to be halved."""
    bits, named = 0, rule.axes(low.copy(), high.copy())
    if isinstance(named, str) or not isinstance(named, Iterable):
        raise SpaceError(f"{type(rule).__name__}.axes gave {named!r} for {_box(low, high)}; give a list of axes, [] for none")
    for given in named:
        axis = names.index(given) if given in names else given
        if isinstance(axis, (bool, str)) or not isinstance(axis, (int, np.integer)) or not 0 <= axis < len(names):
            raise SpaceError(
                f"{type(rule).__name__}.axes gave {given!r} for {_box(low, high)}; there are the axes {dict(enumerate(names))}"
            )
        side, n_values = high[axis] - low[axis], axes[axis, kernels.ATOMS]
        if side > _SHORTEST and (n_values == 0 or round(side * n_values) > 1):
            bits |= 1 << int(axis)
    if bits.bit_count() > MOST_HALVED:
        raise SpaceError(
            f"{type(rule).__name__}.axes halves {bits.bit_count()} axes of {_box(low, high)} at once, which makes "
            f"2^axes balls; name at most {MOST_HALVED}"
        )
    return bits


def _box(low: Floats, high: Floats) -> str:
    return "the ball " + " x ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
