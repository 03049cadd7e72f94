"""A policy as a grid of state cells, between which actions are interpolated.

This is the policy of a `Planner`. `kernels.plans.play` has the definition. Points of states and
actions are in the unit cube.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.export.forms import PolicyForm, about, head_of, recommended, squash_of
from zooming.kernels.boxes.layout import ATOMS, LOW, SINGLE, WIDTH
from zooming.kernels.plans.layout import SLOPE, SMOOTH
from zooming.kernels.solve.policies import ACTION_HIGH, ACTION_LOW
from zooming.kernels.solve.policies import LOW as PLAN_LOW
from zooming.kernels.solve.policies import WIDTH as PLAN_WIDTH
from zooming.partitions.view import bin_borders
from zooming.validation import Floats, Ints, count_noun

NEAREST = 1e-6  # an action on a squashed axis is at most a million scales away
LARGEST = float(np.finfo(np.float64).max)
PART_TABLES = {
    "whole": ("n_values",),
    "unsquash": ("action_squash",),
    "clip": ("action_least", "action_most"),
    "single": ("is_single",),
}


@dataclass(frozen=True, kw_only=True)
class ActionGrid(PolicyForm):
    """The policy of a planner as cells of states, each with actions to mix.

    `docs/export.md` says how an action is computed from these tables.
    """

    low: Floats  # [n_state], with `width`: map a state to the unit interval
    width: Floats
    first: Ints  # [n_state + 1] first entry of each axis in `border` and `center`
    border: Floats  # [n_bins] low border of each bin
    center: Floats  # [n_bins]
    plan: Ints  # [horizon] row of `cells`; steps with the same policy share one
    cells: Ints  # [n_plans, n_cells] row of `pieces`; the last axis counts fastest
    pieces: Ints  # [n_pieces, 1 + 2 n_state] rows of `points`: own, and of the neighbors
    points: Floats  # [n_points, n_action] an axis that is not mixed is in the environment's units
    is_mixed: Ints  # [n_action], as all below
    n_values: Ints  # number of integers on a mixed axis of integers, else 0
    point_low: Floats  # ends between which a mixed coordinate stays
    point_high: Floats
    action_low: Floats  # with `action_width`: map a coordinate to the environment's units
    action_width: Floats
    action_least: Floats  # ends of the action
    action_most: Floats
    is_single: Ints  # whether an axis has type float32
    action_squash: Floats  # [n_squashed, 5] rows (axis, origin, scale, offset, gain)

    kind = "grid"

    @property
    def horizon(self) -> int:
        return len(self.plan)

    @property
    def depth(self) -> int:
        to_find_bins = sum(math.ceil(math.log2(n)) for n in np.diff(self.first).tolist())
        to_choose_sides, to_clip = len(self.state_names), 2 * len(self.action_names)
        return to_find_bins + to_choose_sides + to_clip

    @property
    def parts(self) -> list[str]:
        """Names of the operations that compute an action from the mixed points, in order."""
        is_squashed, is_single = bool(len(self.action_squash)), bool(self.is_single.any())
        needed = {
            "whole": bool(self.n_values.any()),
            "unsquash": is_squashed,
            "clip": is_squashed or is_single,  # rounding can move it out of its ends
            "single": is_single,
        }
        return [part for part, is_needed in needed.items() if is_needed]

    def own_tables(self) -> dict[str, NDArray[Any]]:
        names = [
            "low", "width", "first", "border", "center", "plan", "cells", "pieces", "points",
            "is_mixed", "point_low", "point_high", "action_low", "action_width",
        ]  # fmt: skip
        names += [name for part in self.parts for name in PART_TABLES[part]]
        return {name: getattr(self, name) for name in names}

    def facts(self) -> list[str]:
        bins = " x ".join(map(str, np.diff(self.first).tolist()))
        return [
            f"{count_noun(self.horizon, 'step')}, {bins} cells of states, "
            f"{count_noun(len(self.cells), 'different plan')}, "
            f"{count_noun(len(self.points), 'different action')}",
            "Actions are interpolated between neighboring cells.",
        ]


def action_grid(agent: Any) -> ActionGrid:
    """Return the policy of a planner, exactly as `agent.predict` plays it."""
    table = recommended(agent).table
    axes, grid = table.axes, table.policy().grid
    n_state = axes.n_state
    pieces = _pieces(table)
    horizon, n_cells = pieces.shape[:2]
    rows, numbers = np.unique(pieces.reshape(horizon * n_cells, -1), axis=0, return_inverse=True)
    used, rows = np.unique(rows, return_inverse=True)  # cells of actions that are played
    plans, plan = np.unique(numbers.reshape(horizon, n_cells), axis=0, return_inverse=True)
    bins = grid.bins[:n_state]
    return ActionGrid(
        **head_of(axes, f"Policy of {about(agent)}"),
        low=axes.table[:n_state, LOW],
        width=axes.table[:n_state, WIDTH],
        first=np.append(0, np.cumsum(bins)),
        border=np.concatenate([bin_borders(grid, j) for j in range(n_state)]),
        center=np.concatenate([grid.centers[j, : bins[j]] for j in range(n_state)]),
        plan=plan.ravel(),
        cells=plans,
        pieces=rows.reshape(-1, 1 + 2 * n_state),
        **_actions(table, used),
    )


def solved_grid(agent: Any) -> ActionGrid:
    """Return the policy of a `Resolver`, or of a plan, exactly as `agent.predict` plays it."""
    inner = recommended(agent)
    plan, axes = inner.plan, inner.axes
    n_state, n_action = plan.n_state, plan.n_action
    horizon, n_cells = plan.best.shape[:2]
    own = np.arange(horizon * n_cells).reshape(horizon, n_cells)
    pieces = np.repeat(own[:, :, None], 1 + 2 * n_state, axis=2)
    for j in range(n_state):
        stride = math.prod((plan.cells[j + 1 :] + 1).tolist())
        for side, way in enumerate((-1, 1)):
            k = 2 * j + side
            pieces[:, :, 1 + k] += way * stride * plan.mixes[:, :, k].astype(np.int64)
    points, numbers = np.unique(
        plan.best.reshape(horizon * n_cells, n_action), axis=0, return_inverse=True
    )
    is_mixed = pieces[:, :, 1:] != pieces[:, :, :1]
    pieces = numbers.ravel()[pieces]  # a neighbor of the same action is not mixed: the same action
    rows, chosen = np.unique(pieces.reshape(horizon * n_cells, -1), axis=0, return_inverse=True)
    plans, steps = np.unique(chosen.reshape(horizon, n_cells), axis=0, return_inverse=True)
    places = [np.arange(n + 1) for n in plan.cells.tolist()]
    cells = np.maximum(plan.cells, 1).tolist()
    low, high = plan.frame[ACTION_LOW, :n_action], plan.frame[ACTION_HIGH, :n_action]
    single = np.array([int(axes[n_state + k].single) for k in range(n_action)])
    return ActionGrid(
        **head_of(axes, f"Policy of {about(agent)}"),
        low=plan.frame[PLAN_LOW, :n_state],
        width=plan.frame[PLAN_WIDTH, :n_state],
        first=np.append(0, np.cumsum(plan.cells + 1)),
        border=np.concatenate([(p - 0.5) / n for p, n in zip(places, cells, strict=True)]),
        center=np.concatenate([p / n for p, n in zip(places, cells, strict=True)]),
        plan=steps.ravel(),
        cells=plans,
        pieces=rows,
        points=points,
        is_mixed=np.full(n_action, int(is_mixed.any())),
        n_values=np.zeros(n_action, np.int64),
        point_low=low,
        point_high=high,
        action_low=np.zeros(n_action),
        action_width=np.ones(n_action),
        action_least=low,
        action_most=high,
        is_single=single,
        action_squash=np.empty((0, 5)),
    )


def _pieces(table: Any) -> Ints:
    """Return [horizon, n_states, 1 + 2 n_state]: the action cells that a state cell mixes."""
    policy, n_state = table.policy(), table.axes.n_state
    grid, plan = policy.grid, policy.plan
    best = plan.best.astype(np.int64)
    chosen = _best_cells(table, plan)
    found = np.repeat(chosen[:, :, None], 1 + 2 * n_state, axis=2)
    places = np.array(np.unravel_index(np.arange(best.shape[1]), grid.bins[:n_state]))
    points = _points(grid, n_state, np.arange(math.prod(grid.bins[n_state:].tolist())))
    for j in range(n_state):
        stride = math.prod(grid.bins[j + 1 : n_state].tolist())
        for side, way in enumerate((-1, 1)):
            after = places[j] + way
            if grid.kinds[j] != SMOOTH:
                continue
            at = np.flatnonzero((after >= 0) & (after < grid.bins[j]))
            here, there = best[:, at], best[:, at + way * stride]
            gap = np.abs(grid.centers[j, after[at]] - grid.centers[j, places[j, at]])
            change = np.abs(points[there] - points[here]).max(axis=2)
            mixes = (change <= SLOPE * gap) & (chosen[:, at] == here)
            found[:, at, 1 + 2 * j + side] = np.where(mixes, there, chosen[:, at])
    return found


def _best_cells(table: Any, plan: Any) -> Ints:
    """Return the best action cell [horizon, n_states], the first one among almost equal ones."""
    horizon, n_states = plan.best.shape
    q = (plan.q + plan.bonus).reshape(horizon, n_states, -1)  # as `kernels.plans.play.choose`
    core = table.core[0]
    slack = 1e-12 * max(0.0, core["most"] - core["least"])
    chosen, most = np.zeros((horizon, n_states), np.int64), q[:, :, 0].copy()
    for b in range(1, q.shape[2]):
        is_better = q[:, :, b] > most + slack
        chosen[is_better], most[is_better] = b, q[:, :, b][is_better]
    return chosen


def _points(grid: Any, n_state: int, cells: Ints) -> Floats:
    """Return the centers [n, n_action] of action cells."""
    places = np.unravel_index(cells, grid.bins[n_state:])
    return np.stack([grid.centers[n_state + k, place] for k, place in enumerate(places)], axis=-1)


def _actions(table: Any, used: Ints) -> dict[str, Any]:
    """Return the attributes of `ActionGrid` that describe actions, for the cells `used`."""
    axes, grid, n_state = table.axes, table.policy().grid, table.axes.n_state
    own, rows = [axes[n_state + k] for k in range(axes.n_action)], axes.table[n_state:]
    points = _points(grid, n_state, used)
    is_mixed = grid.kinds[n_state:] == SMOOTH
    low, width, n_values = rows[:, LOW].copy(), rows[:, WIDTH].copy(), rows[:, ATOMS].astype(int)
    ends = [
        (grid.centers[n_state + k, 0], grid.centers[n_state + k, grid.bins[n_state + k] - 1])
        for k in range(axes.n_action)
    ]
    point_low, point_high = (np.array(end) for end in zip(*ends, strict=True))
    for k in np.flatnonzero(~is_mixed).tolist():  # values: the points are final
        points[:, k] = low[k] + 0.5 + np.floor(points[:, k] * n_values[k])
        low[k], width[k] = 0.0, 1.0
        point_low[k], point_high[k] = -LARGEST, LARGEST
    n_values = np.where(is_mixed, n_values, 0)
    least, most = np.full(axes.n_action, -LARGEST), np.full(axes.n_action, LARGEST)
    for k, axis in enumerate(own):
        if axis.squash:
            largest = float(np.finfo(np.float32).max) if axis.single else LARGEST
            least[k], most[k] = max(axis.low, -largest), min(axis.high, largest)
        elif rows[k, SINGLE]:
            least[k] = np.float32(axis.low)
            if least[k] < axis.low:  # rounded down, the low end would lie outside
                least[k] = np.nextafter(np.float32(axis.low), np.float32(np.inf))
    squash = [(k, *squash_of(axis)) for k, axis in enumerate(own) if axis.squash]
    return {
        "points": points,
        "is_mixed": is_mixed.astype(int),
        "n_values": n_values,
        "point_low": point_low,
        "point_high": point_high,
        "action_low": low,
        "action_width": width,
        "action_least": least,
        "action_most": most,
        "is_single": np.array([int(axis.single) for axis in own]),
        "action_squash": np.array(squash, np.float64).reshape(-1, 5),
    }
