"""Write a leaderboard as one HTML page with all data, styles and scripts inline."""

from __future__ import annotations

from typing import Any

from zooming.analysis.intervals import Interval
from zooming.export.pages import fill_page, plotly_script, read_text
from zooming.lab.leaderboard.compare import Standing
from zooming.lab.leaderboard.measures import Result, mean_or_interval
from zooming.lab.leaderboard.plan import RIVALS
from zooming.lab.leaderboard.tables import TITLES, Finished, say_known, say_loss, say_settings
from zooming.plots import COLORS

PAGE = "leaderboard.html"
# More than plots need: the dark colors of Paul Tol's muted palette, and black.
PALETTE = (*COLORS, "#332288", "#882255", "#117733", "#AA4499", "#999933", "#000000")
_OURS, _REPORT = "zooming.lab.leaderboard", "zooming.lab.report"


def render(finished: Finished) -> str:
    """Return the HTML of a leaderboard."""
    return fill_page(
        _OURS,
        collect(finished),
        PLOTLY=plotly_script(),
        STYLE=read_text(_REPORT, "page.css") + read_text(_OURS, "page.css"),
        SCRIPT=read_text(_REPORT, "common.js") + read_text(_OURS, "page.js"),
    )


def collect(finished: Finished) -> dict[str, Any]:
    """Return all data of the page."""
    agents = list(dict.fromkeys(one.agent for one in finished.results))
    return {
        "title": finished.title,
        "size": finished.size,
        "reference": finished.reference,
        "episodes": list(finished.episodes),
        "agents": [
            {
                "name": name,
                "color": PALETTE[i % len(PALETTE)],
                "is_rival": name.partition(" (")[0] in RIVALS,
            }
            for i, name in enumerate(agents)
        ],
        "groups": [
            {
                "title": TITLES[group],
                "n_problems": len(finished.problems_of(group)),
                "standings": {
                    str(episodes): [_standing(one) for one in finished.standings(group, episodes)]
                    for episodes in finished.episodes
                },
            }
            for group in finished.groups
        ],
        "losses": {
            str(episodes): [say_loss(one) for one in finished.losses(episodes)]
            for episodes in finished.episodes
        },
        "known": {
            str(episodes): say_known(finished.losses(episodes)) for episodes in finished.episodes
        },
        "problems": [_problem(finished, name) for name in finished.scales],
        "absent": [f"{agent}: {reason}" for agent, reason in finished.absent.items()],
    }


def _standing(one: Standing) -> dict[str, Any]:
    return {
        "agent": one.agent,
        "n_problems": one.n_problems,
        "loss": _as_list(one.loss),
        "percent": _as_list(one.percent),
        "rank_loss": _as_list(one.rank_loss),
        "rank_percent": _as_list(one.rank_percent),
        "record": None if one.record is None else str(one.record),
        "cpu_seconds": one.cpu_seconds,
        "nbytes": one.nbytes,
    }


def _problem(finished: Finished, name: str) -> dict[str, Any]:
    scale = finished.scales[name]
    return {
        "name": name,
        "about": _sentence(scale.about or TITLES[scale.group]),
        "optimum": scale.optimum,
        "error": 100 * scale.error / scale.gain,
        "random": scale.random,
        "cells": {
            str(episodes): [
                _cell(one, finished.against(one))
                for one in sorted(finished.of(name, episodes), key=lambda one: one.regret.mean())
            ]
            for episodes in finished.episodes
        },
        "empty": [
            f"{agent}: {reason}"
            for (problem, agent), reason in finished.refused.items()
            if problem == name and agent not in finished.absent
        ],
    }


def _cell(one: Result, against: Interval | None) -> dict[str, Any]:
    return {
        "agent": one.agent,
        "settings": say_settings(one),
        "regret": _as_list(mean_or_interval(one.regret)),
        "against": _as_list(against),
        "percent": _as_list(mean_or_interval(one.percent)),
        "reached": one.reached,
        "cpu_seconds": one.cpu_seconds,
        "nbytes": one.nbytes,
        "n_seeds": one.n_seeds,
        "curve": one.curve,
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _as_list(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.mean, interval.low, interval.high]
