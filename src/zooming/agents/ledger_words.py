"""Describe a warm start in words: who plays and why, what was earned, and what the test lacks."""

from __future__ import annotations

import math

from zooming.agents.confidence import MEAN, SQUARES, N, interval
from zooming.agents.ledger import LET_GO, PLAYED, TO_WARM, WARMED, Ledger
from zooming.agents.status import plain, plus_minus
from zooming.validation import Floats

# By the number of the player: its name, and why it plays.
PLAYERS = (
    ("the rule", "for comparison, or because the careful policy seems worse or has lost too much"),
    ("the rule with noise", "the agent learns from noise in the warm start"),
    ("the agent", "exploring is within the allowed loss"),
    ("the careful policy", "it seems no worse than the rule, and exploring would cost too much"),
    ("a variation with noise", "small noise shows what is better nearby"),
)


def ledger_facts(ledger: Ledger) -> dict[str, str]:
    """Return {label: text}: who plays and why, what was earned, the budget and the test."""
    n_let_go = int(ledger.counts[LET_GO])
    name, why = PLAYERS[ledger.player]
    if n_let_go:
        name, why = "the agent", "the rule was let go"
    elif ledger.counts[WARMED] < ledger.counts[TO_WARM]:
        why = "the warm start is not over"
    return {
        "plays": name,
        "why": why,
        "episodes": _episodes(ledger),
        "rule": _earned(ledger.of_rule),
        "careful policy": _earned(ledger.of_careful),
        "agent": _earned(ledger.windows[0]) + (", until the rule was let go" if n_let_go else ""),
        "allowed loss": "not limited: the rule was let go" if n_let_go else _budget(ledger),
        "let go": f"after episode {n_let_go:,}, the warm start included, with confidence "
        f"{ledger.confidence:g}"
        if n_let_go
        else _missing(ledger),
    }


def _episodes(ledger: Ledger) -> str:
    parts = [
        (ledger.of_rule, "of the rule"),
        (ledger.of_noisy, "of the rule with noise"),
        (ledger.of_careful, "of the careful policy"),
        (ledger.of_varied, "variations of these with small noise"),
    ]
    n_own = int(ledger.counts[PLAYED]) - sum(int(numbers[N]) for numbers, _ in parts)
    counted = [f"{int(numbers[N]):,} {what}" for numbers, what in parts]
    return ", ".join([*counted, f"{n_own:,} of the agent"])


def _earned(numbers: Floats) -> str:
    if not numbers[N]:
        return "has not played"
    n = float(numbers[N])
    error = math.sqrt(numbers[SQUARES]) / n
    return f"mean return {plus_minus(float(numbers[MEAN]), error)} in {int(n):,} episodes"


def _budget(ledger: Ledger) -> str:
    """Return text on the allowed loss and on what is left of it."""
    room = ledger.room()
    left = f"{plain(room)} is left" if room >= 0 else f"{plain(-room)} more than that was lost"
    return f"{plain(ledger.allowed_loss)} of the return per episode since the warm start; {left}"


def _missing(ledger: Ledger) -> str:
    """Return text on what the test still lacks before the rule is let go."""
    low = interval(ledger.windows[0], ledger.alpha / 2, ledger.ends, ledger.bound)[0]
    needed = ledger.upper_of_rule() - ledger.margin
    if not math.isfinite(low + needed):
        return "not yet: too few episodes of the agent or of the rule"
    return (
        f"not yet: the lower bound of the agent's mean return is {plain(low)}, and must reach "
        f"{plain(needed)}, the upper bound of the rule's"
        + (" minus margin" if ledger.margin else "")
    )
