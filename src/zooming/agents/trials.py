"""Trials of new trees in `Auto`: when they begin and end, and where their first cuts are.

The agent that leads may be stuck at a local optimum, and the others have learned from its episodes.
A new tree searches from scratch. It has a single partition for all steps (`shared`), because such
trees find narrow peaks most often. Where returns are noisy, trees lose much and find little. So a
trial begins only while a shared tree leads, or the planner on a problem without noise.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from zooming.agents import seeds
from zooming.agents.split_options import n_first_balls
from zooming.agents.tree_q import TreeQ
from zooming.spaces.axes import Axes
from zooming.validation import check_float, check_int

if TYPE_CHECKING:
    from zooming.agents.auto import Auto

TRIAL, FIRST_TRIAL = 200, 2000  # episodes of a new tree, and when it plays first
AFTER_TRIAL = 10  # plays that count afterwards: the tree goes on learning, and is forced to play
FIRST_CUTS = 0.35, 0.65  # range of its first cut: it has other borders than the tree that leads
MOST_FIRST = 4096  # balls that such a tree may begin with; otherwise it has the same borders


def begin_trial(auto: Auto, span: float, highest: float | None) -> tuple[int, int] | None:
    """If a trial is due and the leader may be stuck, put a new tree in place of a shared one.

    Return (number of the new tree in `auto.agents`, episodes that it plays), or None. `span` and
    `highest` are the arguments of `TreeQ.rescale`.
    """
    if auto.n_episodes < auto._next_trial:
        return None
    next_trial, leader = time_after(auto._next_trial, auto.n_episodes), auto.choice.leader()
    leading = auto._parts[leader]
    is_shared = isinstance(leading, TreeQ) and leading.shared
    auto._catch_up(auto.planner)  # it may make a plan, which tells whether there is noise
    may_be_stuck = is_shared or (leader == 0 and auto.planner.table.core["is_exact"][0])
    if not may_be_stuck:
        auto._next_trial = next_trial
        return None
    number = 2 if leader == 1 else 1
    seed = seeds.derive_seed(auto.seed, f"trial {auto.n_episodes}")
    assert auto._tree_range is not None  # there are trees
    tree = auto._make_tree(number, seed, draw_cut(auto.axes, seed), auto._tree_range)
    tree.rescale(span, highest)
    agents, choice = list(auto._parts), copy.deepcopy(auto.choice)
    agents[number] = tree
    choice.forget(number)
    # One call, so that an interrupt leaves either everything as it was or a trial that is due.
    vars(auto).update(_parts=agents, choice=choice, _on_trial=number, _next_trial=next_trial)
    return number, TRIAL


def end_trial(auto: Auto) -> tuple[int, int] | None:
    """End a trial that was played. Return (tree, episodes) if an interrupt came before it began."""
    if auto._on_trial and not auto.choice.numbers[auto._on_trial, 0]:
        return auto._on_trial, TRIAL
    if auto._on_trial:
        auto.choice.shorten(auto._on_trial, AFTER_TRIAL)
    auto._on_trial = 0
    return None


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


def check_trial(number: Any, has_trees: bool) -> int:
    """Return the stored number of the tree that plays a trial. Raise ValueError if it is wrong."""
    found: int = check_int(number, "on_trial", 0)
    if found > 2 or (found and not has_trees):
        raise ValueError(f"agent {found} plays a trial, but it is no shared tree")
    return found


def _can_cut(axes: Axes) -> bool:
    return n_first_balls(axes, FIRST_CUTS[0]) <= MOST_FIRST
