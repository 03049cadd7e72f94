"""Check the arguments of the functions of `zooming.theory`."""

from __future__ import annotations

import sys

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
