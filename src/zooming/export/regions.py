"""Divide the states into boxes with one action each, and say what an agent knows about them."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import ConfigurationError
from zooming.export.forms import recommended
from zooming.kernels import ATOMS, LOW, NO_PARENT, WIDTH
from zooming.partitions.cells import CellTable
from zooming.partitions.view import Partition, bin_borders, in_units
from zooming.spaces.flatten import CATEGORICAL, INTERVAL
from zooming.validation import Floats, Ints

MOST_SAMPLES = 4096  # states at which a policy without boxes is asked
MOST_ALONG_AXIS = 128  # of these, along one axis
PARTS = (9, 5, 3)  # of a side of a planner's cell; odd, so that the center of the cell is asked
MOST_PARTS = 1500  # of all cells of a planner
MOST_PAIRS = 2_000_000  # of cells and balls that are compared at once
FLOOR = 0.01  # share of the weight that is spread evenly over all states
FEW_VISITS = 10
SEEN = 0.5  # visits; states with fewer count as unvisited
MOST_CANDIDATES = 256  # actions among which a box chooses, those of the largest weight


@dataclass(frozen=True)
class Regions:
    """Boxes that cover the states of a step, with the action of a policy in each.

    Attributes
    ----------
    low, high : array [n, n_state]
        Corners, in the environment's units. The outer faces are infinite.
    points : array [n, n_state]
        A state inside each box.
    actions : array [n, n_action]
        The action of the policy at each point, in the environment's units.
    first, last : array [n_state]
        Finite ends of the states, for volumes and pictures.
    is_exact : bool
        Whether the policy has one action in each box. Otherwise it is known at the points only.
    """

    low: Floats
    high: Floats
    points: Floats
    actions: Floats
    first: Floats
    last: Floats
    is_exact: bool

    @property
    def volumes(self) -> Floats:
        """Volume of each box within the finite ends."""
        return volumes(self.low, self.high, self.first, self.last)


@dataclass(frozen=True)
class Evidence:
    """Q and visits of one action in each box, and the visits of all actions. NaN is unknown.

    `seen` has the visits of all actions that are evidence of visits to this very box.
    """

    q_value: Floats
    visits: Floats
    total: Floats
    seen: Floats


def policy_regions(step: int, agent: Any) -> Regions:
    """Return boxes of states with one action each, or the cells of a grid if there are none."""
    axes, whole, is_exact = agent.axes, whole_states(agent.axes), has_boxes(agent)
    if is_exact:
        boxes = divide(*state_boxes(agent, step))
        low, high = boxes[:, 0], boxes[:, 1]
        first, last = (end[: axes.n_state] for end in agent.partition(step).window())
        points = (np.maximum(low, first) + np.minimum(high, last)) / 2
    else:
        low, high, points = _grid(axes, _borders(agent))
        start, end = axes.low[: axes.n_state] - 0.5 * whole, axes.high[: axes.n_state] + 0.5 * whole
        first = np.where(np.isfinite(start), start, points.min(axis=0))
        last = np.where(np.isfinite(end), end, points.max(axis=0))
    points[:, whole] = np.rint(points[:, whole])
    return Regions(low, high, points, policy_actions(agent, step, points), first, last, is_exact)


def has_boxes(agent: Any) -> bool:
    """Return whether the states divide into boxes in which the agent's policy has one action."""
    if agent.is_guided:  # the rule of a warm start may play anything
        return False
    return partition_of(agent, 0) is not None and not agent.interpolates


def partition_of(agent: Any, step: int) -> Partition | None:
    """Return the partition of a step, or None if the agent has no boxes."""
    try:
        found: Partition = agent.partition(step)
    except (AttributeError, NotImplementedError, ConfigurationError):
        return None
    return found


def whole_states(axes: Any) -> NDArray[np.bool_]:
    """Return a mask of the state axes that have integers only."""
    return np.array([kind != INTERVAL for kind in axes.kinds[: axes.n_state]])


def volumes(low: Floats, high: Floats, first: Floats, last: Floats) -> Floats:
    """Return the volume of each box, cut off at `first` and `last`."""
    widths = np.minimum(high, last) - np.maximum(low, first)
    return np.asarray(np.maximum(widths, 0.0).prod(axis=1))


def contain(low: Floats, high: Floats, points: Floats) -> NDArray[np.bool_]:
    """Return [n_points, n_boxes]: which box contains which point, high faces excluded."""
    inside = (low <= points[:, None]) & (points[:, None] < high)
    return np.asarray(inside.all(axis=2))


def everywhere(n_axes: int) -> tuple[Floats, Floats]:
    """Return (low, high) of the box that contains every state: all bounds are infinite."""
    return np.full(n_axes, -np.inf), np.full(n_axes, np.inf)


def open_ends(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Move the outer faces to infinity, because states beyond them are clipped to them."""
    opened_low = np.where(low == low.min(axis=0), -np.inf, low)
    return opened_low, np.where(high == high.max(axis=0), np.inf, high)


def visit_density(
    agent: Any, step: int, balls: Partition, regions: Regions
) -> tuple[Floats, Floats, Floats]:
    """Return the visits of each ball, these per unit of state volume, and those that are evidence.

    A visit is spread evenly over the ball that was visited, even if that ball was split later. So
    the visits of all balls of a step sum to the number of episodes. A few inherited visits are no
    evidence that a ball was visited.
    """
    n = regions.low.shape[1]
    size = volumes(balls.low, balls.high, *balls.window())
    visits, own = spread_visits(agent, step, balls, size)
    sizes = volumes(balls.low[:, :n], balls.high[:, :n], regions.first, regions.last)
    is_evidence = (own > 0) | (visits >= FEW_VISITS)
    return visits, visits / sizes, visits * is_evidence / sizes


def spread_visits(agent: Any, step: int, balls: Any, size: Floats) -> tuple[Floats, Floats]:
    """Return the visits of each active ball, counting each visit once, and those of its own.

    In the table, every child inherits all visits of its ancestors. Here a visit of an ancestor is
    divided among its active descendants, in proportion to their volume, `size`.
    """
    table: Any = getattr(recommended(agent), "learned", None)  # of an agent with a table of balls
    rows = getattr(table, "rows", None)
    if rows is None or "parent" not in (rows.dtype.names or ()):
        return np.asarray(balls.n_visits, np.float64), np.asarray(balls.n_visits, np.float64)
    # A last entry stands for NO_PARENT, which is -1: it has no visits and is its own parent.
    n_visits, parent = np.append(rows["n_visits"], 0.0), np.append(rows["parent"], NO_PARENT)
    own = n_visits - n_visits[parent]
    path = [table.boxes(step)[0]]  # rows of the active balls, of their parents, and so on
    while (path[-1] != NO_PARENT).any():
        path.append(parent[path[-1]])
    volume = np.zeros(len(own))
    for at in path:
        np.add.at(volume, at, size)
    return np.asarray(sum(own[at] * size / volume[at] for at in path)), own[path[0]]


def gather(agent: Any, step: int, regions: Regions, actions: Floats) -> Evidence:
    """Return what an agent knows about `actions`, one action per box of `regions`."""
    n, n_state = len(actions), regions.low.shape[1]
    q_value, visits, total, seen = np.full((4, n), np.nan)
    axes, balls = agent.axes, partition_of(agent, step)
    if balls is None:
        pairs = zip(regions.points, actions, strict=True)
        with suppress(AttributeError, NotImplementedError, ConfigurationError):
            q_value[:] = [
                agent.q_value(step, axes.states.shaped(x), axes.actions.shaped(a)) for x, a in pairs
            ]
        return Evidence(q_value, visits, total, seen)
    _, density, evident = visit_density(agent, step, balls, regions)
    low, high = open_ends(balls.low, balls.high)
    size = max(1, MOST_PAIRS // len(density))
    for begin in range(0, n, size):
        part = slice(begin, begin + size)
        is_near = contain(low[:, :n_state], high[:, :n_state], regions.points[part])
        is_own = is_near & contain(low[:, n_state:], high[:, n_state:], actions[part])
        total[part], visits[part], seen[part] = (
            is_near @ density,
            is_own @ density,
            is_near @ evident,
        )
        q_value[part] = balls.q_value[is_own.argmax(axis=1)]
    if not recommended(agent).interpolates:  # else the value is that of a mixed action
        values = [agent.value(step, axes.states.shaped(point)) for point in regions.points]
        q_value = np.minimum(q_value, values)
    return Evidence(q_value, *(one * regions.volumes for one in (visits, total, seen)))


def weigh(regions: Regions, evidence: Evidence) -> Floats:
    """Return the weight of each box: its visits, plus a small weight for its volume."""
    known = np.nan_to_num(evidence.total)
    share = regions.volumes / regions.volumes.sum()
    return np.asarray(known + (FLOOR * known.sum() or 1.0) * share)


def _borders(agent: Any) -> list[Floats]:
    """Return the borders of a grid along each state axis, in squashed units on squashed axes."""
    axes = agent.axes
    n_state, borders = axes.n_state, []
    table = getattr(recommended(agent), "table", None)
    if isinstance(table, CellTable) and not agent.is_guided:
        n_cells = int(np.prod(table.policy().grid.bins[:n_state]))
        n_parts = max([k for k in PARTS if n_cells * k**n_state <= MOST_PARTS] or [1])
        for i in range(n_state):
            cuts = np.append(borders_in_units(table, i), axes.ends[i])
            n = n_parts if axes.kinds[i] == INTERVAL else 1
            places = np.arange(n * (len(cuts) - 1) + 1) / n
            borders.append(np.interp(places, np.arange(len(cuts)), cuts))
        return borders
    n = min(MOST_ALONG_AXIS, max(2, int(MOST_SAMPLES ** (1 / n_state))))
    for i in range(n_state):
        start, end = axes.table[i, LOW], axes.ends[i]
        if axes.kinds[i] == INTERVAL:
            borders.append(np.linspace(start, end, n + 1))
        else:  # borders lie between integers
            borders.append(start + np.unique(np.rint(np.linspace(0, end - start, n + 1))))
    return borders


def _grid(axes: Any, borders: list[Floats]) -> tuple[Floats, Floats, Floats]:
    """Return the corners and centers of the cells between some borders."""
    low, high = _product([b[:-1] for b in borders]), _product([b[1:] for b in borders])
    points = axes.from_unit_cube((low + high) / 2, 0)
    return *open_ends(axes.from_unit_cube(low, 0), axes.from_unit_cube(high, 0)), points


def action_boxes(agent: Any, step: int) -> tuple[Floats, Floats, Floats]:
    """Return low, high and action of boxes with one action each, which cover all states.

    The corners are in the environment's units, but in squashed units on squashed axes. So a state
    on a border is in the same box as for `agent.predict`.
    """
    axes, n_state = agent.axes, agent.axes.n_state
    boxes = divide(*state_boxes(agent, step, squashed=True))
    corners = np.clip(boxes[:, 0], axes.table[:n_state, LOW], axes.ends[:n_state])
    whole = whole_states(axes)
    corners[:, whole] = np.ceil(corners[:, whole])
    played = axes.shaped_action(np.array([agent.greedy(step, corner) for corner in corners]))
    return boxes[:, 0], boxes[:, 1], np.asarray(axes.actions.batch(played, "action")[0])


def state_boxes(agent: Any, step: int, *, squashed: bool = False) -> tuple[Floats, Floats]:
    """Return the distinct state boxes of the balls of a step, in the environment's units.

    The outer faces are infinite. With `squashed`, squashed axes keep their squashed units.
    """
    axes, n = agent.axes, agent.axes.n_state
    inner = recommended(agent)
    if isinstance(getattr(inner, "table", None), CellTable):
        borders = [borders_in_units(inner.table, j)[1:] for j in range(n)]
        low = _product([np.append(-np.inf, border) for border in borders])
        high = _product([np.append(border, np.inf) for border in borders])
        if squashed:
            return low, high
        return axes.from_unit_cube(low, 0), axes.from_unit_cube(high, 0)
    if squashed and any(axes[i].squash for i in range(n)):
        low, high = (
            in_units(corner, axes.table, axes.ends)[:, :n]
            for corner in inner.learned.boxes(step)[1:]
        )
    else:
        found = agent.partition(step)
        low, high = found.low[:, :n], found.high[:, :n]
    sides = np.unique(np.hstack([low, high]), axis=0)
    return open_ends(sides[:, :n], sides[:, n:])


def borders_in_units(table: CellTable, axis: int) -> Floats:
    """Return the low border of each bin of a planner's axis, in squashed units if squashed."""
    axes, unit = table.axes, bin_borders(table.policy().grid, axis)
    low, width, n_values = axes.table[axis, [LOW, WIDTH, ATOMS]]
    if n_values:
        numbers = np.arange(n_values)
        return np.asarray(low + np.searchsorted((numbers + 0.5) / width, unit))
    return in_units(unit[:, None], axes.table[axis : axis + 1], axes.ends[axis : axis + 1])[:, 0]


def _product(columns: list[Floats]) -> Floats:
    """Return all combinations of the numbers in `columns`, one combination per row."""
    return np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1).reshape(-1, len(columns))


def divide(low: Floats, high: Floats) -> Floats:
    """Cut the states along all faces of the given boxes. Return boxes [n, 2, n_state]."""
    n_axes = low.shape[1]
    done: list[tuple[Floats, Floats]] = []
    waiting = [(*everywhere(n_axes), low, high)]
    while waiting:
        first, last, low, high = waiting.pop()
        faces = [np.unique(np.concatenate([low[:, i], high[:, i]])) for i in range(n_axes)]
        inner = [face[(face > first[i]) & (face < last[i])] for i, face in enumerate(faces)]
        sizes = [len(f) for f in inner]
        if not any(sizes):
            done.append((first, last))
            continue
        axis = int(np.argmax(sizes))
        cut = inner[axis][sizes[axis] // 2]
        for side in (0, 1):
            new_first, new_last = first.copy(), last.copy()
            (new_last if side == 0 else new_first)[axis] = cut
            meets = low[:, axis] < cut if side == 0 else high[:, axis] > cut
            waiting.append((new_first, new_last, low[meets], high[meets]))
    return np.array(done)


def policy_actions(agent: Any, step: int, states: Floats) -> Floats:
    """Return the action of the policy in each state, in the environment's units."""
    axes = agent.axes
    found = agent.predict(axes.states.shaped(states), state=np.full(len(states), step))[0]
    return np.asarray(axes.actions.batch(found, "action")[0])


def merge(low: Floats, high: Floats, actions: Ints) -> tuple[Floats, Floats, Ints]:
    """Join neighboring boxes with the same action, as long as their union is a box."""
    n_axes, before = low.shape[1], -1
    if (actions == actions[0]).all():
        start, end = everywhere(n_axes)
        return start[None], end[None], actions[:1]
    while len(actions) != before:
        before = len(actions)
        for axis in range(n_axes):
            others = [i for i in range(n_axes) if i != axis]
            keys = np.column_stack([actions, low[:, others], high[:, others], low[:, axis]])
            order = np.lexsort(keys.T[::-1])
            low, high, actions, keys = low[order], high[order], actions[order], keys[order]
            is_same = (keys[1:, :-1] == keys[:-1, :-1]).all(axis=1)
            goes_on = is_same & (high[:-1, axis] == low[1:, axis])
            first = np.flatnonzero(np.r_[True, ~goes_on])
            last = np.flatnonzero(np.r_[~goes_on, True])
            new_high = high[first].copy()
            new_high[:, axis] = high[last, axis]
            low, high, actions = low[first], new_high, actions[first]
    return low, high, actions


@dataclass
class _Box:
    """A box under construction: its cells, its action, and the cut that reduces its cost most."""

    low: Floats
    high: Floats
    cells: Ints
    action: int  # number of a candidate
    cost: float
    gain: float = 0.0
    axis: int = 0
    face: float = np.nan


def simplify(
    regions: Regions, distances: Floats, weights: Floats, n_boxes: int, enough: float
) -> tuple[Floats, Floats, Ints]:
    """Cover all states with at most `n_boxes` boxes. Return low, high and number of the action.

    The action of a box is one that is played in its cells, the boxes of `regions`. `distances`
    holds the scaled actions of the cells: the cost of playing one instead of another is the sum of
    the absolute differences of their rows, times the weight of the cell. Boxes are cut until the
    cost per unit of weight is at most `enough`.
    """
    number = np.unique(regions.actions, axis=0, return_inverse=True)[1].ravel()
    heaviest = np.argsort(-np.bincount(number, weights), kind="stable")[:MOST_CANDIDATES]
    one_cell = np.array([np.flatnonzero(number == k)[0] for k in heaviest])
    costs = np.abs(distances[:, None] - distances[one_cell]).sum(axis=2) * weights[:, None]
    whole = everywhere(regions.low.shape[1])
    boxes = [_box(regions, costs, *whole, np.arange(len(number)))]
    while len(boxes) < n_boxes:
        i = max(range(len(boxes)), key=lambda k: boxes[k].gain)
        cost = sum(box.cost for box in boxes)
        if not boxes[i].gain > 0 or cost <= enough * weights.sum():
            break
        boxes[i : i + 1] = _cut(regions, costs, boxes[i])
    low, high = np.array([box.low for box in boxes]), np.array([box.high for box in boxes])
    chosen = heaviest[[box.action for box in boxes]]
    low, high, chosen = merge(low, high, chosen)
    order = np.lexsort(low.T[::-1])
    return low[order], high[order], chosen[order]


def set_apart(
    axes: Any,
    regions: Regions,
    seen: Floats,
    low: Floats,
    high: Floats,
    actions: Ints,
    is_joined: bool,
) -> tuple[Floats, Floats, Ints, NDArray[np.bool_]]:
    """Cut boxes so that states which never occurred are apart.

    Return low, high, number of the action, and whether the box is unseen. Unseen boxes come last.
    If `is_joined`, those with different actions are joined.
    """
    is_unseen = np.zeros(len(low), bool)
    if np.isfinite(seen).all():
        n_state = axes.n_state
        are_categories = [kind == CATEGORICAL for kind in axes.kinds[:n_state]]
        order = sorted(enumerate(are_categories), key=lambda one: not one[1])  # categories first
        parts: list[tuple[Floats, Floats, int]] = []
        for first, last in _parts(regions, seen, *everywhere(n_state), order):
            own = contain(first[None], last[None], regions.points)[:, 0]
            if is_joined and seen[own].sum() < SEEN:
                parts.append((first, last, 0))
                continue
            parts += [
                (np.maximum(low[i], first), np.minimum(high[i], last), int(actions[i]))
                for i in np.flatnonzero(((low < last) & (high > first)).all(axis=1))
            ]
        columns = [np.array(column) for column in zip(*parts, strict=True)]
        low, high, actions = columns
        owner = contain(low, high, regions.points).argmax(axis=1)
        is_unseen = np.bincount(owner, seen, len(low)) < SEEN
        label = np.where(is_unseen, -1 - actions * (not is_joined), np.arange(len(low)))
        low, high, label = merge(low, high, label)
        is_unseen = label < 0
        actions = np.where(is_unseen, -1 - label, actions[label])
        number = np.unique(regions.actions, axis=0, return_inverse=True)[1].ravel()
        for i in np.flatnonzero(is_unseen & is_joined):  # the action of most states
            own = contain(low[i : i + 1], high[i : i + 1], regions.points)[:, 0]
            if own.any():
                actions[i] = np.bincount(number[own], regions.volumes[own]).argmax()
    by_state = np.lexsort([*low.T[::-1], is_unseen])
    return low[by_state], high[by_state], actions[by_state], is_unseen[by_state]


def _parts(
    regions: Regions, seen: Floats, low: Floats, high: Floats, axes: list[tuple[int, bool]]
) -> list[tuple[Floats, Floats]]:
    """Cut a box where states without visits begin: at its ends, and between categories.

    `axes` has the axes to cut along, (number, whether it has categories) each.
    """
    own = contain(low[None], high[None], regions.points)[:, 0]
    if not axes or seen[own].sum() < SEEN:
        return [(low, high)]
    (axis, is_category), *others = axes
    first, last = regions.low[own, axis, None], regions.high[own, axis, None]
    faces = np.unique(np.append(first, last))
    edges = np.r_[low[axis], faces[(faces > low[axis]) & (faces < high[axis])], high[axis]]
    visits = seen[own] @ ((first < edges[1:]) & (last > edges[:-1]))
    is_empty = visits < SEEN
    if not is_category:
        is_empty = (visits.cumsum() < SEEN) | (visits[::-1].cumsum()[::-1] < SEEN)
    found = []
    for ends in itertools.pairwise(
        [low[axis], *edges[1:-1][is_empty[1:] != is_empty[:-1]], high[axis]]
    ):
        sides = low.copy(), high.copy()
        sides[0][axis], sides[1][axis] = ends
        found += _parts(regions, seen, *sides, others)
    return found


def scale_actions(axes: Any, actions: Floats) -> Floats:
    """Scale actions so that their distance is the sum of absolute differences."""
    columns = []
    for j in range(axes.n_action):
        axis, column = axes[axes.n_state + j], actions[:, j]
        if axis.kind == CATEGORICAL:
            columns.append((column[:, None] == np.unique(column)) / 2)
        else:
            unit = np.unique(column) if axis.squash else np.array([axis.low, axis.high])
            columns.append(((column - unit[0]) / (np.ptp(unit) or 1.0))[:, None])
    return np.hstack(columns)


def _box(regions: Regions, costs: Floats, low: Floats, high: Floats, cells: Ints) -> _Box:
    """Return a box with its best action and its best cut."""
    sums = costs[cells].sum(axis=0)
    action = int(sums.argmin())
    box = _Box(low, high, cells, action, float(sums[action]))
    if box.cost == 0 or len(cells) < 2:
        return box
    for axis in range(regions.low.shape[1]):
        faces = np.unique(regions.low[cells, axis])
        faces = faces[(faces > low[axis]) & (faces < high[axis])]
        order = np.argsort(regions.points[cells, axis], kind="stable")
        n_left = np.searchsorted(regions.points[cells[order], axis], faces)
        is_cut = (n_left > 0) & (n_left < len(cells))
        if not is_cut.any():
            continue
        left = costs[cells[order]].cumsum(axis=0)[n_left[is_cut] - 1]
        after = left.min(axis=1) + (sums - left).min(axis=1)
        k = int(after.argmin())
        # A cut that gains nothing by itself may make a gain possible: it ranks last, above 0.
        gain = max(box.cost - float(after[k]), 1e-9 * box.cost)
        if gain > box.gain:
            box.gain, box.axis, box.face = gain, axis, float(faces[is_cut][k])
    return box


def _cut(regions: Regions, costs: Floats, box: _Box) -> list[_Box]:
    """Cut a box at its best cut and return the two parts."""
    is_right = regions.points[box.cells, box.axis] >= box.face
    middle_high, middle_low = box.high.copy(), box.low.copy()
    middle_high[box.axis] = middle_low[box.axis] = box.face
    return [
        _box(regions, costs, box.low, middle_high, box.cells[~is_right]),
        _box(regions, costs, middle_low, box.high, box.cells[is_right]),
    ]
