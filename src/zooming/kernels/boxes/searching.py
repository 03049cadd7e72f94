"""Single-partition Q-learning: the search for a better policy, and its Boltzmann choice of balls.

Each training episode is followed by N evaluation episodes of the greedy policy, from which nothing
is learned. Policies are compared by the mean return of these N episodes.

    P(B) proportional to exp(Q(B) / (tau D))        D = H times the span of rewards
    mean >= best so far:  keep a copy, tau <- tau_0, u <- u^d
    otherwise:            tau <- min(u tau, 10)

The search goes back to the copy, with tau <- tau_0, if it has not improved for `patience` training
episodes in which a ball was split.

PUBLISHED_SEARCH is the form of the paper's experiments. D is the largest |Q| of the relevant balls,
tau does not grow before a ball was split, and V(x') = min(H, max Q) after the last step, too.

[Araujo, Figueiredo, Botto 2020: Single-partition adaptive Q-learning]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zooming.kernels.boxes import play
from zooming.kernels.boxes.layout import BALL, EITHER, FIRST_VALUE, PUBLISHED_SEARCH
from zooming.kernels.boxes.select import next_relevant, select, update_scaled
from zooming.kernels.boxes.update_rule import ceiling, draw_share, set_iota
from zooming.kernels.loop.crossing import boxes_at, itself, vector_at
from zooming.kernels.loop.episodes import compile_later
from zooming.kernels.loop.jit import IS_JIT_DISABLED, jit_inline, jit_inline_refcount, jit_kernel

STATE = np.dtype(
    [
        ("turn", "i8"),  # 0: the next episode trains; k > 0: it is evaluation number k
        ("n_evaluations", "i8"),  # N
        ("patience", "i8"),  # value of n_splits at which the search goes back to the copy
        ("is_acting", "i8"),  # 1: `act` was called at step 0, and `update` not yet
        ("is_open", "i8"),  # 1: the episode of this turn has begun
        ("is_evaluation", "i8"),  # 1: nothing is learned from the current episode
        ("n_balls", "i8"),  # active balls after the last training episode, or of the copy
        ("n_splits", "i8"),  # training episodes with a split since the last improvement
        ("n_trained", "i8"),  # training episodes so far
        ("n_evaluated", "i8"),  # evaluation episodes so far
        ("n_copies", "i8"),  # times that the table was copied
        ("kept_rows", "i8"),  # rows and balls of the copy
        ("kept_balls", "i8"),
        ("temperature", "f8"),  # tau
        ("first_temperature", "f8"),  # tau_0
        ("growth", "f8"),  # u
        ("damping", "f8"),  # d
        ("total", "f8"),  # return of this turn's evaluations so far
        ("best", "f8"),  # mean return of the copy
    ],
    align=True,
)
HOTTEST = 10.0  # temperature at which all balls are about equally likely
EVERYTHING = np.empty((0, FIRST_VALUE))  # `allowed` if all actions are feasible
COLD = 36.0  # exp(-36) is below the rounding error of 1: such balls are skipped


class Search(NamedTuple):
    """The arrays of a search: `Boxes.more` of a `SearchTable`."""

    state: Any  # STATE [1]
    kept: Any  # BALL [n_rows]: the copy of the best table so far


box_best, box_best_feasible = play.best, play.best_feasible


@jit_inline_refcount
def _open_search(words):
    return Search(vector_at(words, 0, STATE), vector_at(words, 1, BALL))


search_at = itself if IS_JIT_DISABLED else _open_search  # return the record of `Boxes.more`


@jit_kernel
def begin_step(t, is_first):
    """Return whether this is a training episode, in which balls are drawn by their values.

    The first step of an episode ends the turn of the previous episode, if it is still open.
    """
    search = search_at(t.more)
    if is_first:
        if search.state[0]["is_open"] == 1:
            search.state[0]["is_open"] = 0
            end_turn(t, search)
        search.state[0]["is_acting"] = 1
    return search.state[0]["turn"] == 0


@jit_kernel
def end_turn(t, search):
    """Finish an episode. After the last evaluation, copy the table or go back to the copy."""
    now = search.state
    if now[0]["turn"] == 0:
        now[0]["n_splits"] += np.int64(t.core[0]["n_balls"] != now[0]["n_balls"])
        now[0]["n_balls"] = t.core[0]["n_balls"]
        now[0]["n_trained"] += 1
    else:
        now[0]["n_evaluated"] += 1
    if now[0]["turn"] < now[0]["n_evaluations"]:
        now[0]["turn"] += 1
        return
    mean = now[0]["total"] / now[0]["n_evaluations"]
    now[0]["turn"] = 0
    now[0]["total"] = 0.0
    if mean >= now[0]["best"]:
        if now[0]["n_copies"] > 0:  # the first copy, before any training, is no improvement
            now[0]["growth"] = now[0]["growth"] ** now[0]["damping"]
        now[0]["best"] = mean
        keep_copy(t, search)
        now[0]["temperature"] = now[0]["first_temperature"]
        return
    if now[0]["n_splits"] > 0 or t.core[0]["learning"] != PUBLISHED_SEARCH:
        now[0]["temperature"] = min(HOTTEST, now[0]["temperature"] * now[0]["growth"])
    if now[0]["n_splits"] >= now[0]["patience"]:
        go_back(t, search)
        now[0]["temperature"] = now[0]["first_temperature"]


@jit_kernel
def keep_copy(t, search):
    """Store a copy of the table as the best one so far."""
    n_rows = t.core[0]["n_rows"]
    for row in range(n_rows):
        search.kept[row] = t.rows[row]
    search.state[0]["kept_rows"] = n_rows
    search.state[0]["kept_balls"] = t.core[0]["n_balls"]
    search.state[0]["n_copies"] += 1
    search.state[0]["n_splits"] = 0


@jit_kernel
def go_back(t, search):
    """Replace the table by the best one so far."""
    n_rows = search.state[0]["kept_rows"]
    for row in range(n_rows):
        t.rows[row] = search.kept[row]
    t.core[0]["n_rows"] = n_rows
    t.core[0]["n_balls"] = search.state[0]["kept_balls"]
    search.state[0]["n_balls"] = search.state[0]["kept_balls"]
    search.state[0]["n_splits"] = 0


@jit_kernel
def learn_or_evaluate(t, step, row, reward, next_value, action):
    """Apply the update rule, or add up the return of an evaluation. Return whether to split.

    PUBLISHED_SEARCH values the next state after the last step, too. An episode without a call of
    `act` at step 0 comes from outside, such as a log. It is always learned.
    """
    now = search_at(t.more).state
    if step == 0:
        now[0]["is_open"] = now[0]["is_acting"]
        now[0]["is_evaluation"] = np.int64(now[0]["is_acting"] == 1 and now[0]["turn"] > 0)
        now[0]["is_acting"] = 0
    if now[0]["is_evaluation"] == 0:
        if t.core[0]["learning"] == PUBLISHED_SEARCH and step + 1 == t.core[0]["horizon"]:
            after, _ = select(t.rows, t.core, 0, t.state, EITHER, t.stack)
            next_value = min(ceiling(t.core, 0), t.rows[after]["value"])
        return update_scaled(t, step, row, reward, next_value, action)
    if step == 0:
        t.core[0]["episode"] += 1
        set_iota(t.core)
    now[0]["total"] += reward
    return False


@jit_kernel
def draw_by_value(t, core, root, best, allowed):
    """Draw a relevant ball with a feasible action: P(B) proportional to exp(Q(B) / (tau D)).

    `best` is the largest Q of these balls. Each replaces the current choice with the probability
    weight / total weight so far.
    """
    unit = core[0]["reward_span"] * core[0]["horizon"]  # D
    if core[0]["learning"] == PUBLISHED_SEARCH:
        unit = largest_size(t, core, root, allowed)
    scale = search_at(t.more).state[0]["temperature"] * unit
    least = best - COLD * scale
    t.stack[0] = root
    top = 1
    total = 0.0
    found = np.int64(-1)
    while top > 0:
        row, top = next_relevant(t, core, top, least, True, allowed)
        if row >= 0:
            weight = np.exp((t.rows[row]["value"] - best) / scale)
            total += weight
            if draw_share(core) * total < weight:
                found = row
    return found


@jit_kernel
def largest_size(t, core, root, allowed):
    """Return the largest |Q| of the relevant balls with a feasible action, or 1 if all are 0."""
    t.stack[0] = root
    top = 1
    found = 0.0
    while top > 0:
        row, top = next_relevant(t, core, top, -np.inf, True, allowed)
        if row >= 0:
            found = max(found, abs(t.rows[row]["value"]))
    return found if found > 0.0 else 1.0


@jit_inline
def best(t, step, ties):
    """Return (row of the best ball, V) for the state that was read. `choose` draws among ties."""
    return box_best(t, step, EITHER)


@jit_kernel
def choose(t, step, row, ties):
    """Select a ball again: the best one, or a random one in a training episode."""
    draws = begin_step(t, step == 0)
    row, _ = select(t.rows, t.core, 0, t.state, EITHER if draws else ties, t.stack)
    return draw_by_value(t, t.core, 0, t.rows[row]["value"], EVERYTHING) if draws else row


@jit_kernel
def best_feasible(t, core, step, ties, allowed, draws):
    """Return the row of the best feasible ball. With `draws`, draw a feasible ball by its value."""
    row = box_best_feasible(t, core, step, ties, allowed, draws)
    return draw_by_value(t, core, 0, t.rows[row]["value"], allowed) if draws else row


@jit_kernel
def begin(handle, is_first):
    """Begin a step in which Python restricts the actions. Return whether the search explores."""
    return begin_step(boxes_at(handle), is_first)


KERNELS = compile_later(
    "searches", play.PARTS._replace(best=best, choose=choose, learn=learn_or_evaluate)
)
QUERIES = play.make_queries("searches", play.best_row, best_feasible)
