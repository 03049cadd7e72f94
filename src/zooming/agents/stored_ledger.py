"""Save and restore the statistics of a warm start as JSON values."""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.agents.confidence import SQUARES, N
from zooming.agents.ledger import (
    ENDLESS,
    LET_GO,
    PLAYED,
    PLAYER,
    TO_WARM,
    VARIED,
    WARMED,
    Ledger,
)

ARRAYS = ("of_rule", "of_noisy", "of_careful", "of_varied", "trial", "windows")


def ledger_state(ledger: Ledger) -> dict[str, Any]:
    """Return options, counts and statistics to save, as JSON values."""
    options = ("confidence", "loss", "margin", "bound")
    return {
        "options": {name: getattr(ledger, name) for name in options},
        "counts": ledger.counts.tolist(),
        **{name: getattr(ledger, name).tolist() for name in ARRAYS},
    }


def restore_ledger(ledger: Ledger, kept: dict[str, Any]) -> None:
    """Restore saved statistics. Raise ValueError if they are invalid."""
    counts = np.array(kept["counts"], np.int64)
    if counts.shape != (7,) or (counts < 0).any() or counts[PLAYER] > VARIED:
        raise ValueError("the episodes of the guide are invalid")
    if counts.max() > ENDLESS or counts[WARMED] > min(counts[TO_WARM], counts[PLAYED]):
        raise ValueError("the episodes of the guide are invalid")
    if counts[LET_GO] > counts[PLAYED]:
        raise ValueError("the episodes of the guide are invalid")
    numbers = {name: np.array(kept[name], np.float64) for name in ARRAYS}
    for name, array in numbers.items():
        if array.shape != getattr(ledger, name).shape or not np.isfinite(array).all():
            raise ValueError("the statistics of the guide are invalid")
        if (array[..., [N, SQUARES]] < 0).any():
            raise ValueError("the statistics of the guide are invalid")
    ledger.counts = counts
    vars(ledger).update(numbers)
