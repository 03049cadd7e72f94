"""Checks of arguments."""

from __future__ import annotations

import math

from zooming.errors import ConfigurationError


def check_positive(or_zero: bool = False, **numbers: float) -> None:
    """Raise ConfigurationError if a number is not finite and positive (or 0, if `or_zero`)."""
    for name, value in numbers.items():
        if not (0 < value < math.inf or (or_zero and value == 0)):
            raise ConfigurationError(
                f"{name} = {value} must be a finite number {'>=' if or_zero else '>'} 0"
            )


def check_whole(low: int = 1, **numbers: float) -> None:
    """Raise ConfigurationError if a number is not an integer >= `low`."""
    for name, value in numbers.items():
        if not (value >= low and value % 1 == 0):
            raise ConfigurationError(f"{name} = {value} must be a whole number >= {low}")
