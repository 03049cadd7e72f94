"""The bonuses by name, and the bonus that a user's option means."""

from __future__ import annotations

import numbers
from typing import Any

from zooming.bonuses.bonus import Bonus, Scaled
from zooming.bonuses.confident import Bernstein, Exact, Theory
from zooming.bonuses.phases import Doubling
from zooming.errors import ConfigurationError
from zooming.validation import as_float

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Scaled, Theory, Exact, Bernstein, Doubling)
}


def as_bonus(bonus: float | Bonus) -> Bonus:
    """Return a bonus unchanged, and Scaled(c) for a number c."""
    if isinstance(bonus, numbers.Real) and not isinstance(bonus, bool):
        return Scaled(as_float(bonus))
    if isinstance(bonus, type) or not hasattr(bonus, "scale"):
        raise ConfigurationError(
            f"bonus={bonus!r}: give a number c >= 0 (meaning c / sqrt(t)), or one of "
            f"{', '.join(KINDS)}"
        )
    return bonus  # type: ignore[return-value]  # it has the method of a Bonus
