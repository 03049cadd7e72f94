"""Split a ball with a covering oracle that is not compiled. Each of its answers is checked."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.kernels import LENGTH_TOLERANCE
from zooming.metrics.oracles import Oracle, Packing
from zooming.metrics.space import Space

if TYPE_CHECKING:
    from zooming.partitions.balls import BallTable


def split_by_oracle(table: BallTable, row: int, oracle: Packing | Oracle) -> None:
    """Split a ball with an oracle that is not compiled. Each of its answers is checked."""
    step, radius = int(table.rows["step"][row]), float(table.rows["radius"][row]) / 2
    while table.core["n_balls"][0] < table.core["max_balls"][0]:
        uncovered = table.owner[step] == row
        if isinstance(oracle, Packing):
            if not uncovered.any():
                return
            _add_packing(
                table, row, _answer(oracle.give, uncovered, radius, table.space), uncovered, radius
            )
            continue
        answer = _answer(oracle, uncovered, radius, table.space)
        if answer is None:
            if uncovered.any():
                x, a = np.argwhere(uncovered)[0].tolist()
                raise ConfigurationError(
                    f"the oracle says that all is covered, but the pair (state {x}, action "
                    f"{a}) is not"
                )
            return
        x, a = _pair(answer, "expected a pair (state, action) of whole numbers, or None")
        if not (0 <= x < uncovered.shape[0] and 0 <= a < uncovered.shape[1] and uncovered[x, a]):
            raise ConfigurationError(
                f"the oracle gave the pair (state {x}, action {a}), which is covered already "
                "or not in the ball's domain; "
                f"it must give one where uncovered[state, action] is true, or None"
            )
        table.add(row, x, a)


def _add_packing(
    table: BallTable, row: int, answer: Any, uncovered: NDArray[np.bool_], radius: float
) -> None:
    """Add balls around the points of a packing of the uncovered pairs, up to `max_balls`."""
    hint = "expected a list of pairs (state, action) of whole numbers"
    if isinstance(answer, str) or not isinstance(answer, Iterable) or not (listed := list(answer)):
        raise ConfigurationError(
            f"the oracle gave {answer!r} for a packing of {int(uncovered.sum())} pairs; "
            f"{hint}, at least one"
        )
    step = int(table.rows["step"][row])
    centers: list[tuple[int, int]] = []
    for given in listed:
        x, a = _pair(given, hint)
        if not (0 <= x < uncovered.shape[0] and 0 <= a < uncovered.shape[1] and uncovered[x, a]):
            raise ConfigurationError(
                f"the oracle's packing has the pair (state {x}, action {a}), which is not in "
                "the set"
            )
        if table.owner[step, x, a] != row:  # a ball just added contains it
            away = table.space.distances_from(x, a)
            other = min(centers, key=lambda center: float(away[center]))
            if away[other] < radius * (1 - LENGTH_TOLERANCE):
                raise ConfigurationError(
                    f"the oracle's packing has the pairs (state {x}, action {a}) and (state "
                    f"{other[0]}, action "
                    f"{other[1]}) at the distance {away[other]:g}; they must be further than "
                    f"{radius:g} from each other"
                )
        elif table.core["n_balls"][0] < table.core["max_balls"][0]:
            centers.append((x, a))
            table.add(row, x, a)


def _answer(
    oracle: Callable[..., Any], uncovered: NDArray[np.bool_], radius: float, space: Space
) -> Any:
    """Call the oracle and return its answer. Raise ConfigurationError if it fails."""
    try:
        return oracle(uncovered.copy(), radius, space)
    except Exception as error:
        raise ConfigurationError(
            f"the oracle, called with (uncovered, radius, space), failed: {error!r}"
        ) from error


def _pair(given: Any, hint: str) -> tuple[int, int]:
    """Return the oracle's answer as two integers.

    Raise ConfigurationError if it is not a pair of integers.
    """
    try:
        x, a = (operator.index(part) for part in given)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the oracle gave {given!r}; {hint}") from error
    return x, a
