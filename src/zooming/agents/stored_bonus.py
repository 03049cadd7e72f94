"""Convert bonuses to JSON and back, by the names of `bonuses.KINDS`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from zooming.bonuses import KINDS, Bonus
from zooming.errors import ConfigurationError


def bonus_to_json(bonus: Bonus) -> dict[str, Any]:
    """Return the kind and the options of a bonus.

    Raise ConfigurationError for a class of the user's own.
    """
    kind = type(bonus).__name__
    if KINDS.get(kind) is not type(bonus):
        raise ConfigurationError(
            f"a bonus of your own ({kind}) cannot be saved: a file that named its class would "
            "have to run its code"
        )
    own = fields(bonus)  # type: ignore[arg-type]  # KINDS are dataclasses
    options = {field.name: getattr(bonus, field.name) for field in own}
    if "bonus" in options:  # of a Doubling
        options["bonus"] = bonus_to_json(options["bonus"])
    return {"kind": kind, **options}


def bonus_from_json(stored: dict[str, Any]) -> Bonus:
    """Return the bonus that `bonus_to_json` described."""
    options = dict(stored)
    if "bonus" in options:
        options["bonus"] = bonus_from_json(options["bonus"])
    bonus: Bonus = KINDS[options.pop("kind")](**options)
    return bonus
