"""Trials of new trees in `Auto`: when they begin, and where their first cuts are."""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.agents.split_options import n_first_balls
from zooming.spaces.axes import Axes
from zooming.validation import check_float

TRIAL, FIRST_TRIAL = 200, 2000  # episodes of a new tree, and when it plays first
AFTER_TRIAL = 10  # plays that count afterwards: the tree goes on learning, and is forced to play
FIRST_CUTS = 0.35, 0.65  # range of its first cut: it has other borders than the tree that leads
MOST_FIRST = 4096  # balls that such a tree may begin with; otherwise it has the same borders


def time_after(time: int, n_episodes: int) -> int:
    """Return the number of episodes at which the next trial is due, after the one at `time`.

    Times double. No two trials come in a row.
    """
    while time < 1.5 * n_episodes:
        time *= 2
    return time


def draw_cut(axes: Axes, seed: int) -> float | None:
    """Return a random first cut of a new tree; None if it would begin with too many balls."""
    if not _can_cut(axes):
        return None
    return float(np.random.default_rng(seed).uniform(*FIRST_CUTS))


def check_cut(axes: Axes, first_cut: Any) -> float | None:
    """Return the stored first cut of a tree. Raise ValueError if no trial could have made it.

    Many first balls would take memory before the rows of a file are checked.
    """
    if first_cut is None:
        return None
    if not _can_cut(axes):
        raise ValueError(f"a tree with first_cut={first_cut!r} would have too many balls")
    return check_float(first_cut, "first_cut", *FIRST_CUTS)


def _can_cut(axes: Axes) -> bool:
    return n_first_balls(axes, FIRST_CUTS[0]) <= MOST_FIRST
