"""The interface of a bonus, and its simplest form: c / sqrt(t)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from zooming.validation import check_float


class Bonus(Protocol):
    """Interface of a bonus b(t) = scale / sqrt(t).

    Any object with the method `scale` is a bonus.
    """

    def scale(self, horizon: int, reward_span: float) -> float:
        """Return the numerator of b(t).

        Parameters
        ----------
        horizon : int
            Number of steps H of an episode.
        reward_span : float
            The highest minus the lowest reward of one step.
        """


@dataclass(frozen=True)
class Scaled:
    """The bonus b(t) = c / sqrt(t). [SBY19 sec. 7]

    Parameters
    ----------
    c : float
        b(1) in units of the reward, at least 0.

    Examples
    --------
    >>> Scaled(0.5).scale(horizon=5, reward_span=1.0)
    0.5
    """

    c: float

    def __post_init__(self) -> None:
        check_float(self.c, "bonus c", 0.0, math.inf)

    def scale(self, horizon: int, reward_span: float) -> float:
        return self.c
