"""Describe a portfolio in words: who plays and why, and how the returns develop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zooming.agents import cards
from zooming.agents.blocks import PLAYER
from zooming.agents.ceilings import ceiling
from zooming.agents.doubts import doubt_short_horizon
from zooming.agents.status import in_words, plus_minus
from zooming.agents.trend import STUCK
from zooming.validation import count_noun

if TYPE_CHECKING:
    from zooming.agents.agent import Agent
    from zooming.agents.portfolio import Portfolio


def portfolio_facts(portfolio: Portfolio) -> dict[str, Any]:
    """Return the entries of `Portfolio.status`."""
    names, choice = portfolio._names(), portfolio.choice
    player, trend = int(portfolio.counts[PLAYER]), portfolio.trend
    latest = None if portfolio.is_guided else trend.latest()  # it knows only own episodes
    gain = latest and trend.expected_gain(1000, ceiling(portfolio, latest[0]))
    guide = portfolio.guide
    expected = None if portfolio.is_guided else portfolio._should_earn()
    found = {
        "episodes": portfolio.n_episodes,
        "horizon": _horizon(portfolio),
        "plays": names[player],
        "why": portfolio._why(player, names),
        "recommended": names[portfolio._best()],
        "recommended should earn": None if expected is None else plus_minus(*expected),
        "agents": {name: choice.words(k) for k, name in enumerate(names)},
        "return": None if latest is None else plus_minus(*latest),
        "next 1,000 episodes": gain.words() if gain else None,
        **({} if guide is None else {"rule": guide.status()}),
        "warnings": portfolio._warnings(),
    }
    if portfolio.is_guided:
        rule = found["rule"]
        found |= {"plays": rule["plays"], "why": rule["why"]}
        found["recommended"] = rule["predict plays"]
    return found


def _horizon(portfolio: Portfolio) -> str:
    """Return the number of steps, and whether the environment would have gone on after them."""
    went_on = "; the environment went on when they were over: what comes later does not count"
    return count_noun(portfolio.horizon, "step") + (went_on if portfolio.was_cut else "")


def unique_names(agents: Sequence[Agent]) -> list[str]:
    """Return the class of each agent, with a number if several have the same."""
    kinds = [type(agent).__name__ for agent in agents]
    return [
        kind if kinds.count(kind) == 1 else f"{kind} {kinds[: k + 1].count(kind)}"
        for k, kind in enumerate(kinds)
    ]


def portfolio_warnings(portfolio: Portfolio) -> list[str]:
    """Return sentences on what seems wrong, those of the agents included."""
    found = [] if portfolio.trend.has_improved() else [STUCK]
    found += doubt_short_horizon(portfolio)  # a portfolio counts for its parts
    for agent in portfolio._parts:
        found += agent._warnings()
    return found


def card_facts(portfolio: Portfolio) -> dict[str, Any]:
    """Return {label: value}, the lines that a notebook shows for a portfolio."""
    found = portfolio.status()
    shown = (
        "plays", "why", "recommended", "recommended should earn", "return", "next 1,000 episodes",
    )  # fmt: skip
    return {
        "agents": ", ".join(portfolio._names()),
        **{name: in_words(found[name]) for name in shown},
        **({"warnings": "; ".join(found["warnings"])} if found["warnings"] else {}),
        "bytes": f"{portfolio.nbytes:,}",
        "seed": portfolio.seed,
        **cards.shown_fact(portfolio.horizon),
    }
