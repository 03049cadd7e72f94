"""The samples of a planner, its grid of cells, and its plans.

The kernels are in `kernels.plans`. This module owns their arrays.

Plans work on copies, and one assignment puts the result in place. Long ones are made in a thread
where no signal handler runs, see `call_in_thread` of `kernels.loop.jit`: so Ctrl-C comes at once.
Nothing that crosses into compiled code and back runs Python code: arrays and handles go in, numbers
come out. Named tuples, and arrays that are returned, would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain, combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError
from zooming.kernels.boxes.layout import ATOMS
from zooming.kernels.loop.jit import call_in_thread
from zooming.kernels.plans import layout
from zooming.kernels.plans.exogenous import is_plausible
from zooming.kernels.plans.grids import center_states, fill_grid, lay_grid, sort_by_step
from zooming.kernels.plans.layout import (
    CORE,
    MEAN_REWARD,
    SPREAD,
    WEIGHT,
    Cells,
    Grid,
    Plan,
    Samples,
    pack_cells,
)
from zooming.kernels.plans.planning import make_plan
from zooming.kernels.plans.play import add_values, count_return
from zooming.partitions.faults import lengths
from zooming.partitions.view import Partition, about_axes, corners
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL
from zooming.validation import LARGEST_REWARD, Floats

_FULLEST = 2 / 3  # share of `max_samples` that condensing leaves


def condense(
    samples: Samples, n_samples: int, units: NDArray[np.int64], max_samples: int
) -> Samples:
    """Join similar samples among the first `n_samples`, until a third of the memory is free.

    Samples of one step are similar if state, action and next state fall into the same small box.
    The sides of the boxes triple until enough rows are free. A row keeps the number of its samples,
    the mean and the spread of their rewards, and the points of the first sample.
    """
    side = 1
    steps, places, numbers = (part[:n_samples] for part in samples)
    fine = np.tile(units, 2)[: places.shape[1]]
    while len(steps) > _FULLEST * max_samples and side <= 3 * layout.UNITS:
        side *= 3
        sides = np.where((fine == layout.UNITS) | (side > layout.UNITS), side, 1).astype(np.int32)
        columns = (places[:, j] // sides[j] for j in range(places.shape[1]))
        boxes = number_rows(chain([steps], columns))
        _, first, group = np.unique(boxes, return_index=True, return_inverse=True)
        order = np.argsort(first)  # keep the samples in the order of time
        steps, places = steps[first[order]], places[first[order]]
        numbers = join(numbers, group.reshape(-1), len(first))[order]
    return Samples(steps, places, np.ascontiguousarray(numbers))


def number_rows(columns: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """Return a number for each row of integer columns. Equal rows have equal numbers.

    >>> number_rows([np.array([2, 3, 2]), np.array([-1, 5, -1])]).tolist()
    [0, 13, 0]
    """
    numbers: NDArray[np.int64] = np.zeros(1, np.int64)
    most = 1
    for column in columns:
        least = int(column.min())
        size = int(column.max()) - least + 1
        if most * size >= 2**63:
            numbers = np.unique(numbers, return_inverse=True)[1].reshape(-1)
            most = int(numbers.max()) + 1
        numbers, most = numbers * size + (column - least), most * size
    return numbers


def join(numbers: Floats, group: NDArray[np.int64], n_groups: int) -> Floats:
    """Return weight, mean and spread of each group. `group` has the group of each sample."""
    weight = np.bincount(group, numbers[:, WEIGHT], n_groups)
    mean = np.bincount(group, numbers[:, WEIGHT] * numbers[:, MEAN_REWARD], n_groups) / weight
    away = numbers[:, MEAN_REWARD] - mean[group]
    spread = np.bincount(group, numbers[:, SPREAD] + numbers[:, WEIGHT] * away**2, n_groups)
    return np.column_stack([weight, mean, spread])


def make_grid(
    kinds: NDArray[np.int64],
    units: NDArray[np.int64],
    bins: NDArray[np.int64],
    edges: NDArray[np.int64],
    n_state: int,
) -> Grid:
    """Return the grid with these edges."""
    n_axes, most = len(kinds), int(bins.max())
    own = np.zeros((n_axes, most + 1), np.int64), np.zeros((n_axes, most))
    grid = Grid(kinds, units, bins, *own, np.zeros((n_axes, int(units.max())), np.int16))
    fill_grid(kinds, units, bins, edges, n_state, *grid[3:])
    return grid


_STORED_PLAN = ("q", "bonus", "way", "played")
KEPT, CONTROL = "kept_", "control_"  # prefixes of the arrays of a `Policy`
MOST_WEIGHT = 2.0**53  # transitions in a file; beyond it, numbers of them are not exact


class Policy(NamedTuple):
    """A plan that is or was recommended, with its grid. Its bonus is a penalty."""

    grid: Grid
    plan: Plan

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the arrays to save, with a prefix to their names."""
        parts = {name: getattr(self.grid, name) for name in ("bins", "edges", "centers")}
        parts |= {"q": self.plan.q, "bonus": self.plan.bonus}
        return {prefix + name: part for name, part in parts.items()}


def cautious(grid: Grid, plan: Plan) -> Policy:
    """Return the policy of a plan for learning: its best actions if the bonus is a penalty."""
    best = (plan.q - plan.bonus).reshape(*plan.best.shape, -1).argmax(axis=2)
    return Policy(grid, plan._replace(bonus=-plan.bonus, best=best.astype(np.int32)))


def restored_cells(table: CellTable, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the attributes of a table with the arrays that `CellTable.state` returned.

    `plan.visits` and `plan.best` are computed, not saved. Raise ValueError if arrays are invalid.
    """
    core = arrays["core"].astype(CORE)
    n = int(core["n_samples"][0])
    given = Samples(arrays["steps"], arrays["places"], arrays["numbers"])
    for name, part, one in zip(("steps", "places", "numbers"), table.samples, given, strict=True):
        check_form(name, one, np.empty((n, *part.shape[1:]), part.dtype))
    check_samples(core, given, table.units, len(table.axes))
    forms = arrays["played_apart"]
    check_form("widths", arrays["widths"], table.widths)
    check_forms(table, forms)
    check_forms(table, arrays["apart"])
    grid, plan = restored_plan(table, arrays, "", _STORED_PLAN)
    values: dict[str, Any] = {"core": core, "widths": arrays["widths"].copy(), "grid": grid}
    values |= {"apart": arrays["apart"].copy(), "played_apart": forms.copy()}
    kept, control = (restored_policy(table, arrays, prefix) for prefix in (KEPT, CONTROL))
    earned = np.zeros((0, 4))
    if kept is not None:
        earned = arrays["earned"].copy()
        check_form("earned", earned, np.zeros((max(1, len(earned)), 4)))
    else:
        core["replays"] = 0
    check_returns(earned, core)
    values |= {"kept": kept, "earned": earned, "control": control}
    samples = Samples(*(part.copy() for part in given))
    counts = table.play_counts(int(core["n_planned"][0]), samples, grid)
    is_apart = values["apart"][0] != layout.ALIKE
    plan.visits[:] = np.where(is_apart[:, None], counts, counts[~is_apart].sum(axis=0))
    caches = dict.fromkeys(("_handle", "_policy", "_counted"))
    return {**values, "samples": samples, "plan": plan, **caches}


def check_returns(earned: Floats, core: NDArray[Any]) -> None:
    """Raise ValueError if the returns of episodes in a file are invalid."""
    counted = [core[name][0] for name in ("plays", "squares", "spread")]
    counted += earned[:, [PLAYS, SQUARES]].ravel().tolist()
    means = [
        abs(core["total"][0]),
        abs(core["earned"][0]),
        *np.abs(earned[:, [RETURN, GAIN]]).ravel(),
    ]
    is_small = max(means) < LARGEST_REWARD**1.5 and max(counted) < LARGEST_REWARD**2.5
    is_finite = bool(np.isfinite(counted + means).all())
    if not (is_finite and is_small) or min(counted) < 0.0 or (earned[:, PLAYS] < 1.0).any():
        raise ValueError("the returns of the planner's episodes are invalid")


def restored_plan(
    table: CellTable, arrays: dict[str, NDArray[Any]], prefix: str, names: tuple[str, ...]
) -> tuple[Grid, Plan]:
    """Return a grid, and a plan with the arrays `names`. Raise ValueError if they are invalid."""
    bins, edges = arrays[prefix + "bins"], arrays[prefix + "edges"]
    check_bins(bins, edges, table.units, 3 * max(layout.MOST_CELLS, table.n_categories))
    grid = make_grid(table.kinds, table.units, bins.copy(), edges.copy(), table.axes.n_state)
    restore_centers(grid, arrays[prefix + "centers"])
    q, wanted = arrays[prefix + "q"], (table.apart.shape[1], math.prod(bins.tolist()))
    if q.shape != wanted:  # before memory is asked for
        raise ValueError(f"{prefix}q is {q.dtype} {q.shape}, not float64 {wanted}")
    plan = table.new_plan(grid)
    for name in names:
        check_form(prefix + name, arrays[prefix + name], getattr(plan, name))
        getattr(plan, name)[:] = arrays[prefix + name]
    plan.best[:] = (plan.q + plan.bonus).reshape(*plan.best.shape, -1).argmax(axis=2)
    return grid, plan


def restored_policy(
    table: CellTable, arrays: dict[str, NDArray[Any]], prefix: str
) -> Policy | None:
    """Return a policy, None if there is none. Raise ValueError if it is invalid."""
    if prefix + "q" not in arrays:
        return None
    grid, plan = restored_plan(table, arrays, prefix, ("q", "bonus"))
    return cautious(grid, plan._replace(bonus=-plan.bonus))


def check_forms(table: CellTable, apart: NDArray[Any]) -> None:
    """Raise ValueError if the form of a step is invalid."""
    check_form("apart", apart, table.apart)
    if not np.isin(apart, (layout.ALIKE, layout.ALONE)).all():
        raise ValueError("the form of a step is unknown")


def check_form(name: str, given: NDArray[Any], wanted: NDArray[Any]) -> None:
    """Raise ValueError if an array has not the dtype and shape of `wanted`, or is not finite."""
    if given.dtype != wanted.dtype or given.shape != wanted.shape:
        raise ValueError(
            f"{name} is {given.dtype} {given.shape}, not {wanted.dtype} {wanted.shape}"
        )
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise ValueError(f"{name} has an entry that is not finite")


def check_bins(
    bins: NDArray[Any], edges: NDArray[Any], units: NDArray[np.int64], most_cells: int
) -> None:
    """Raise ValueError if bins and edges are not a valid grid of `units` places."""
    check_form("bins", bins, units)
    if (bins < 1).any() or (bins > units).any():
        raise ValueError("an axis has no bins, or more bins than places")
    check_form("edges", edges, np.zeros((len(bins), int(bins.max()) + 1), np.int64))
    for row, n_bins, n_units in zip(edges, bins, units, strict=True):
        used = row[: n_bins + 1]
        if used[0] != 0 or used[-1] != n_units or (np.diff(used) < 1).any():
            raise ValueError("the edges of the bins are not in order")
    n_cells = math.prod(bins.tolist())
    if n_cells > most_cells:
        raise ValueError(f"{n_cells:,} cells are too many")


def restore_centers(grid: Grid, centers: NDArray[Any]) -> None:
    """Restore the centers of the bins. Raise ValueError if one is outside of its bin."""
    check_form("centers", centers, grid.centers)
    is_used = np.arange(centers.shape[1]) < grid.bins[:, None]
    places = centers * grid.units[:, None]
    is_inside = (places >= grid.edges[:, :-1]) & (places <= grid.edges[:, 1:])
    if not (is_inside | ~is_used).all():
        raise ValueError("the center of a bin is outside of it")
    grid.centers[:] = np.where(is_used, centers, 0.0)


def check_samples(
    core: NDArray[Any], samples: Samples, units: NDArray[np.int64], n_axes: int
) -> None:
    """Raise ValueError if samples cannot have come from this problem."""
    n = len(samples.steps)
    if not 0 <= core["n_planned"][0] <= n:
        raise ValueError(f"the plan was made of {core['n_planned'][0]} of {n} samples")
    low = np.where(np.arange(samples.places.shape[1]) < n_axes, 0, layout.ENDED)
    high = np.tile(units, 2)[: samples.places.shape[1]]
    if (samples.places < low).any() or (samples.places >= high).any():
        raise ValueError("a sample lies outside of the axes")
    if (samples.steps < 0).any() or (samples.steps >= core["horizon"][0]).any():
        raise ValueError("a sample has a step outside of the episode")
    rewards, weights = samples.numbers[:, MEAN_REWARD], samples.numbers[:, WEIGHT]
    is_few = weights.sum() <= MOST_WEIGHT
    is_small = (np.abs(samples.numbers) < LARGEST_REWARD**2.5).all()  # and finite
    if not is_small or (weights < 1).any() or not is_few:
        raise ValueError("a sample has no valid weight or reward")
    low, high = rewards.min(initial=np.inf), rewards.max(initial=-np.inf)
    ends = [-LARGEST_REWARD, core["least"][0], low, high, core["most"][0], LARGEST_REWARD]
    if n and not (np.diff(ends) >= 0.0).all():
        raise ValueError("a reward is outside of the range of rewards seen")
    if (samples.numbers[:, SPREAD] < 0).any():
        raise ValueError("the spread of a sample is negative")


_ROOM = 1024  # least number of rows of samples to reserve
MOST_FIRST = 10_000_000  # cells of all steps before any sample: 320 MB
THIRDS = 7  # axes that can have three bins each, which makes 2,187 cells for each category
_MOST_TESTED = 5_000  # samples that tell which axes matter
SHORT = 200_000  # samples, and cells of all steps: such a plan takes 30 ms, and Ctrl-C can wait
_CACHES = ("_handle", "_policy", "_counted")


def spread_of_returns(samples: Samples, n: int, known: float) -> float:
    """Return twice the 95 % quantile of the returns minus the median; `known` if that is unknown.

    Catastrophes would spread a low quantile, even if nine of ten episodes are good.
    """
    starts = np.flatnonzero(samples.steps[:n] == 0)
    if len(starts) < 2 or (samples.numbers[:n, WEIGHT] > 1.0).any():
        return known
    returns = np.sort(np.add.reduceat(samples.numbers[:n, MEAN_REWARD], starts))
    return 2.0 * (quantile(returns, 0.95) - quantile(returns, 0.5))


def quantile(ordered: Floats, share: float) -> float:
    """Return `np.quantile` of sorted numbers; NumPy takes a tenth of the time of a small plan."""
    i, rest = divmod((len(ordered) - 1) * share, 1.0)
    low, high = float(ordered[int(i)]), float(ordered[min(int(i) + 1, len(ordered) - 1)])
    return low + (high - low) * rest if rest < 0.5 else high - (high - low) * (1.0 - rest)


# Columns of `CellTable.earned`: number of a plan's episodes, their mean return, the sum of squared
# deviations from it, and what the recommended plan earns more by the models.
PLAYS, RETURN, SQUARES, GAIN = range(4)
_MOST_PLANS = 20  # recent plans that are compared: those of about the last 85 % of the episodes


def pool_variance(recent: Floats) -> tuple[float, float]:
    """Return (number of episodes, variance of their returns within plans)."""
    total = float(recent[:, PLAYS].sum())
    return total, float(recent[:, SQUARES].sum()) / max(1.0, total - len(recent))


def expect(plan: Floats, recent: Floats) -> tuple[float, float]:
    """Return (expected mean return, standard error) of a plan: its own, shrunk to that of all.

    The error is that of the mean of its own returns. That of the shrunk mean is smaller, and too
    small: plans may differ more than their variance says.

    The variance between plans is DerSimonian and Laird's. It is 0 if the means of `recent` plans
    differ by no more than the variance within plans explains.
    """
    plays, means = recent.T[:SQUARES]
    total, within = pool_variance(recent)
    mean, share = float(plays @ means) / total, 0.0
    away = float(plays @ (means - mean) ** 2)
    # The divisor is at least 1 if there are several plans.
    divisor = max(1.0, total - float(plays @ plays) / total)
    between = (away - (len(recent) - 1) * within) / divisor
    if between > 0.0:  # rewards of 1e-160 have squares that are 0
        share = between / (between + within / plan[PLAYS])
    return float(mean + share * (plan[RETURN] - mean)), math.sqrt(within / plan[PLAYS])


def rank_plans(earned: Floats, played: Floats, gain: float) -> tuple[bool, Floats]:
    """Return whether one more plan is recommended, and `CellTable.earned` with its row `played`.

    By the model it earns `gain` more than the one that was first. It is, and is then the first row,
    if that is MARGIN standard errors of the mean return of all plans, and if no less is expected of
    it. What returns say beyond the models is shrunk to that of all plans.
    """
    rows = np.vstack([earned, [*played, -gain]])
    beyond = rows + np.outer(rows[:, GAIN], np.arange(4) == RETURN)
    total, within = pool_variance(rows)
    is_first = gain >= layout.MARGIN * math.sqrt(within / total) and (
        gain + expect(beyond[-1], beyond)[0] >= expect(beyond[0], beyond)[0]
    )
    if is_first:
        rows[:, GAIN] += gain
        rows = rows[[-1, *range(1, len(earned)), 0]]
    return is_first, np.vstack([rows[:1], rows[1:][-_MOST_PLANS:]])


class RecommendedPlan(NamedTuple):
    """The plan that is recommended, made without a bonus, with what it takes to read it."""

    key: tuple[int, int]  # samples that it was made from, 0 if it is kept; plans for learning
    plan: Plan
    grid: Grid  # of the plan, which may be older than that of learning
    cells: Cells  # keeps the arrays of the handle alive
    handle: Any  # for kernels


class CellTable:
    """Samples, grid and plan of one planner, with at most `max_samples` rows of samples.

    `core` is the core record of `kernels.plans.layout`.
    """

    def __init__(self, axes: Axes, core: NDArray[Any], max_samples: int) -> None:
        self.axes, self.core, self.max_samples = axes, core, max_samples
        core["most_samples"] = max_samples + max_samples // 10
        self.kinds, self.units = _places(axes)
        is_category = self.kinds == layout.CATEGORIES
        self.n_categories = math.prod(self.units[is_category].tolist())
        self.n_others = int((~is_category & (self.units > 1)).sum())
        if self.n_categories > layout.MOST_CELLS:
            raise SpaceError(
                f"the categories alone make {self.n_categories:,} cells, and a planner has at most "
                f"{layout.MOST_CELLS:,}; if an axis has values in an order, give ordered=[name]"
            )
        n_actions = int((~is_category & (self.units > 1))[axes.n_state :].sum())
        if n_actions > THIRDS:
            raise SpaceError(
                f"{n_actions} action axes are too many for a planner: three bins on each make "
                f"{3**n_actions:,} cells; give weights={{name: 0}} for axes that do not matter, or "
                'use TreeQ or AdaptiveQ with split="longest"'
            )
        n_first = int(core["horizon"][0]) * self.n_categories
        if n_first > MOST_FIRST:
            raise SpaceError(
                f"horizon {int(core['horizon'][0]):,} with {self.n_categories:,} combinations of "
                f"categories makes {n_first:,} cells, and a planner begins with at most "
                f"{MOST_FIRST:,}; give a shorter horizon, or ordered=[name] for values in an order"
            )
        self.samples = _allocate(0, len(axes) + axes.n_state)
        self.widths = np.full((2, 2, len(axes)), -layout.FLAT)
        self.apart = np.zeros((2, int(core["horizon"][0])), np.int64)  # forms of the next plan
        self.played_apart = self.apart  # forms of the plan that is played
        self.kept: Policy | None = None  # what is recommended; None: a plan from all samples
        self.control: Policy | None = None  # an old policy, see `Auto._watch_returns`
        # What the recommended plan earned, then other recent plans: rows of PLAYS, ...
        self.earned: Floats = np.zeros((0, 4))
        self._forget()
        self.grid = self._first_grid()
        self.plan = self.new_plan(self.grid)

    def _forget(self) -> None:
        self._handle: Any = None  # of `cells`; has addresses, so every change of an array resets it
        self._policy: RecommendedPlan | None = None
        self._counted: tuple[tuple[int, int], Floats] | None = None

    @property
    def most_cells(self) -> int:
        """Number of cells of a step that three bins on each axis make, up to the limits."""
        n_cells = self.n_categories * 3 ** min(self.n_others, THIRDS)
        return int(min(layout.MOST_CELLS, n_cells))

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without caches: a copy has arrays at other addresses."""
        return {name: one for name, one in vars(self).items() if name not in _CACHES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    # --- samples ----------------------------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Number of rows of samples in use."""
        return int(self.core["n_samples"][0])

    def reserve(self, n_rows: int) -> None:
        """Make room for `n_rows` more samples."""
        needed = self.n_samples + n_rows
        if needed > len(self.samples.steps):
            size = max(needed, len(self.samples.steps) * 3 // 2, _ROOM)
            grown = _allocate(size, self.samples.places.shape[1])
            for new, old in zip(grown, self.samples, strict=True):
                new[: self.n_samples] = old[: self.n_samples]
            vars(self).update(samples=grown, _handle=None)

    # --- plans ------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether the next episode needs `refit` first: replays are over, or a plan is due."""
        core = self.core[0]
        return self._wants_plan or bool(0 < core["replays"] <= core["n_episodes"])

    @property
    def _wants_plan(self) -> bool:
        """Whether a new plan for learning is due, see `layout.GROWTH`, or samples are too many."""
        core = self.core[0]
        is_crowded = core["n_samples"] > core["most_samples"]
        return bool(core["n_episodes"] >= core["due"] or is_crowded)

    def refit(self) -> None:
        """Make a new grid and a new plan for learning. Condense the samples if too many.

        The first episodes after that, the replays, play the recommended policy: only so its
        returns tell what it earns. If no more than these are over, the plan plays from now on.
        """
        # Copied here: after an interrupt, the thread goes on, and the arrays may change.
        core, widths, apart = self.core.copy(), self.widths.copy(), self.apart.copy()
        count_return(core)
        core["own"] = layout.NONE
        played = np.array([core[name][0] for name in ("plays", "earned", "squares")])
        earned, is_replay = self.earned, core["replays"][0] > 0
        if is_replay:
            earned = earned.copy()
            earned[0, :GAIN] = join(np.array([earned[0, :GAIN], played]), np.zeros(2, np.int64), 1)
            core["replays"] = core["plays"] = core["earned"] = core["squares"] = 0
            if not self._wants_plan:
                vars(self).update(core=core, earned=earned, _handle=None)
                return
        samples = self.samples
        found = self._call(lambda: self._refitted(core, widths, apart, samples), self.n_samples)
        kept = self.kept
        if not is_replay:
            kept, earned = self._judge(played, found)
        if kept is not None:
            n, due = (int(found["core"][name][0]) for name in ("n_episodes", "due"))
            n_replays = int(layout.REPLAYS * (due - n) + 0.5)
            found["core"]["replays"] = n + n_replays if n_replays else 0
        # One assignment, so that an interrupt leaves either the old plan or the new one.
        vars(self).update(found, played_apart=self.apart, kept=kept, earned=earned)

    def _refitted(
        self, core: NDArray[Any], widths: Floats, apart: NDArray[np.int64], samples: Samples
    ) -> dict[str, Any]:
        """Return the attributes after `refit`, given those before."""
        n = int(core["n_samples"][0])
        if n > self.max_samples:
            samples = condense(samples, n, self.units, self.max_samples)
            core["n_samples"] = n = len(samples.steps)
        core["spread"] = spread_of_returns(samples, n, float(core["spread"][0]))
        bins, edges = self._lay_grid(core, samples, n)
        grid = make_grid(self.kinds, self.units, bins, edges, self.axes.n_state)
        plan = self.new_plan(grid)
        handle = pack_cells(Cells(core, samples, grid, plan, self.axes.table))
        center_states(handle, n)
        make_plan(handle, n, widths, apart, True)
        return {
            "core": core, "widths": widths, "apart": apart, "samples": samples, "grid": grid,
            "plan": plan, **dict.fromkeys(_CACHES),
        }  # fmt: skip

    def _call(self, work: Callable[[], Any], n: int) -> Any:
        """Call work(), which makes a plan from n samples: in a thread, unless it is short."""
        n_cells = layout.wanted_cells(float(n), self.n_categories, min(self.n_others, THIRDS))
        is_short = n + int(self.core["horizon"][0]) * n_cells < SHORT
        return work() if is_short else call_in_thread(work)

    def _judge(self, played: Floats, found: dict[str, Any]) -> tuple[Policy | None, Floats]:
        """Return the new `kept` and `earned`, now that episodes of a plan have been played.

        The plan that was played is recommended from now on, unless less is expected of it than of
        the one recommended before it. If nobody played the plan, as in learning from a log, what is
        recommended uses all that is known, unless the control was played instead. `found` has the
        new plan.
        """
        if not played[PLAYS]:
            is_old = self.core["own"][0] == layout.OLD
            return (self.kept, self.earned) if is_old else (None, self.earned[:0])
        policy, kept = cautious(self.grid, self.plan), self.kept
        if kept is None:
            return policy, np.array([[*played, 0.0]])
        is_first, earned = rank_plans(self.earned, played, self._gain(policy, kept, found))
        return policy if is_first else kept, earned

    def _gain(self, new: Policy, old: Policy, found: dict[str, Any]) -> float:
        """Return what the policy `new` earns more in an episode than `old` by a newer plan.

        It is the difference of Q at their actions, summed over the steps, in the states of the
        episodes since the last plan.
        """
        cells = self.cells._replace(grid=found["grid"], plan=found["plan"])
        first, last = int(self.core["n_planned"][0]), self.n_samples
        handle, total = pack_cells(cells), [0.0, 0.0]
        for k, (grid, plan) in enumerate((new, old)):
            policy = pack_cells(cells._replace(grid=grid, plan=plan))
            total[k] = float(add_values(handle, policy, first, last))
        steps = self.samples.steps[first:last]
        return (total[0] - total[1]) / max(1, int((steps == 0).sum()))

    def policy(self) -> RecommendedPlan:
        """Return the recommended plan: the one that is kept, or one made from all samples.

        Its bonus is a penalty. Reading it does not affect learning.
        """
        key = (0 if self.kept else self.n_samples, self.n_plans)
        found = self._policy
        if found is None or found.key != key:
            cells = self._cells(self.grid, self.plan)
            if self.kept is None:
                cells = cells._replace(plan=self.new_plan(self.grid))
            else:
                cells = cells._replace(grid=self.kept.grid, plan=self.kept.plan)
            handle = pack_cells(cells)
            if self.kept is None:
                given = self.n_samples, self.widths, self.played_apart
                self._call(lambda: make_plan(handle, *given, False), self.n_samples)
            found = self._policy = RecommendedPlan(key, cells.plan, cells.grid, cells, handle)
        return found

    def take_control(self) -> None:
        """Keep the recommended plan as it is, to be played again later."""
        found = self.policy()
        self.control = Policy(found.grid, found.plan)

    def recall(self, is_on: bool) -> None:
        """Let the coming episodes play the control, or what else is to be played."""
        if is_on or self.core["explores"] == layout.RECALLED:
            self._handle = None  # first: an interrupt after it does no harm
            self.core["explores"] = layout.RECALLED if is_on else 0

    def counts(self) -> Floats:
        """Return how many samples are in each cell of the recommended plan: [horizon, n_cells]."""
        key, found = (self.n_samples, self.n_plans), self._counted
        if found is None or found[0] != key:
            grid, samples = self.policy().grid, self.samples
            found = key, call_in_thread(lambda: self.play_counts(key[0], samples, grid))
            self._counted = found
        return found[1]

    @property
    def n_plans(self) -> int:
        """Number of plans for learning so far."""
        return int(self.core["n_plans"][0])

    def play_counts(self, n: int, samples: Samples, grid: Grid) -> Floats:
        """Return how many of the first n samples are in each cell: [horizon, n_cells]."""
        horizon, n_cells = int(self.core["horizon"][0]), math.prod(grid.bins.tolist())
        rows = sort_by_step(samples, n, grid, self.axes.n_state, horizon)
        steps = np.repeat(np.arange(horizon), np.diff(rows.first))
        found: Floats = np.zeros(horizon * n_cells)
        np.add.at(found, steps * n_cells + rows.cells, rows.weights)
        return found.reshape(horizon, n_cells)

    def _lay_grid(
        self, core: NDArray[Any], samples: Samples, n: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (bins, edges) of a grid that is placed by the first n samples.

        State axes that do not matter have one bin. If more than THIRDS axes are left, so have the
        states that matter least; the last ones, while nothing tells how much they matter.
        """
        n_state, horizon = self.axes.n_state, int(core["horizon"][0])
        varies = (self.kinds != layout.CATEGORIES) & (self.units > 1)
        if n and self.n_others > 4:
            strength = np.where(varies[:n_state], self._strengths(core, samples, n), 0.0)
            n_left = max(0, THIRDS - int(varies[n_state:].sum()))
            strength[np.argsort(-strength, kind="stable")[n_left:]] = 0.0
            varies[:n_state] = strength > 0.0
        n_varying = min(int(varies.sum()), THIRDS)
        weight = float(samples.numbers[:n, WEIGHT].sum())
        most = layout.wanted_cells(weight, self.n_categories, n_varying)
        is_large = self.n_others > THIRDS
        most = min(most, max(self.most_cells, 0 if is_large else MOST_FIRST // horizon))
        bins = np.ones(len(self.units), np.int64)
        edges = np.zeros((len(bins), int(self.units.max()) + 3), np.int64)
        given = samples.places, samples.numbers, n, self.kinds, self.units, varies
        lay_grid(*given, n_state, most, bins, edges)
        return bins, edges

    def _strengths(self, core: NDArray[Any], samples: Samples, n: int) -> Floats:
        """Return how much of the values each state axis explains: 0 if it could be noise.

        A quadratic of state and action is fitted to r + V_{h+1}(x'), minus its mean at the step.
        The F statistic of all terms with an axis tells whether it explains more than noise, as for
        exogenous axes. With categories, too many axes, few samples or equal rewards, it is not
        fitted, and every axis that has varied has 1.
        """
        n_axes, n_state, every = len(self.units), self.axes.n_state, 1 + n // _MOST_TESTED
        steps, places, numbers = (part[:n:every] for part in samples)
        weights = numbers[:, WEIGHT]
        pairs = list(combinations_with_replacement(range(n_axes), 2))
        n_terms = 1 + n_axes + len(pairs)
        freedom = float(weights.sum()) - n_terms
        is_enough = freedom >= layout.ENOUGH**2 * n_terms and n_axes <= 2 * THIRDS
        if self.n_categories > 1 or not is_enough or core["most"][0] <= core["least"][0]:
            return np.where((places[:, :n_state] != places[:1, :n_state]).any(axis=0), 1.0, 0.0)
        x = 2.0 * (places[:, :n_axes] + 0.5) / self.units - 1.0
        terms = np.column_stack([np.ones(len(x)), x, *(x[:, i] * x[:, k] for i, k in pairs)])
        best = self.plan.best[..., None]
        values = np.take_along_axis(self.plan.q.reshape(*best.shape[:2], -1), best, 2)[..., 0]
        values = np.vstack([values[1:], np.zeros(values.shape[1])])
        nexts = np.zeros(len(x), np.int64)
        for j in range(n_state):
            nexts = nexts * int(self.grid.bins[j]) + self.grid.bin_of[j, places[:, n_axes + j]]
        goes_on = places[:, n_axes] != layout.ENDED
        y = numbers[:, MEAN_REWARD] + np.where(goes_on, values[steps, nexts], 0.0)
        totals = np.bincount(steps, weights * y) / np.maximum(1e-9, np.bincount(steps, weights))
        y -= totals[steps]
        # Not by BLAS, whose sums depend on the number of threads.
        weighted = terms * weights[:, None]
        gram = np.einsum("ki,kj->ij", weighted, terms) + layout.RIDGE * np.eye(n_terms)
        inverse = np.linalg.inv(gram)
        law = np.einsum("ij,j->i", inverse, np.einsum("kj,k->j", weighted, y))
        away = y - np.einsum("ki,i->k", terms, law)
        rest = float((weights * away**2).sum() + numbers[:, SPREAD].sum()) / freedom
        found: Floats = np.zeros(n_state)
        for j in range(n_state):
            own = [1 + j, *(1 + n_axes + i for i, pair in enumerate(pairs) if j in pair)]
            between = law[own] @ np.linalg.solve(inverse[np.ix_(own, own)], law[own]) / len(own)
            if not is_plausible(between, rest, len(own) + 1, freedom):
                found[j] = between
        return found

    def start_value(self, grid: Grid, plan: Plan) -> tuple[float, float]:
        """Return (mean value of the start states, bonus of an episode) of a plan.

        The squared bonuses of the steps add up, since their errors are nearly independent. Without
        samples of step 0, the value is infinite.
        """
        n = self.n_samples
        steps, places = self.samples.steps[:n], self.samples.places[:n]
        weights = self.samples.numbers[:n, WEIGHT]
        if not (steps == 0).any():
            return math.inf, 0.0
        cells = np.zeros(n, np.int64)
        for j in range(self.axes.n_state):
            cells = cells * int(grid.bins[j]) + grid.bin_of[j, places[:, j]]

        def mean(numbers: Floats, step: int) -> float:
            """Return the mean of `numbers` over the states of a step, at their best actions."""
            here = steps == step
            best = plan.best[step][cells[here]]
            found = numbers[step].reshape(plan.best.shape[1], -1)[cells[here], best]
            return float(np.average(found, weights=weights[here]))

        seen = [step for step in range(len(plan.q)) if (steps == step).any()]
        bonuses = [mean(plan.bonus, step) for step in seen]
        return mean(plan.q, 0), float(np.sqrt(np.sum(np.square(bonuses))))

    def _first_grid(self) -> Grid:
        """Return the grid before any sample: a bin per category, and one bin on each other axis."""
        bins = np.where(self.kinds == layout.CATEGORIES, self.units, 1)
        edges = _even_edges(bins, self.units)
        return make_grid(self.kinds, self.units, bins, edges, self.axes.n_state)

    def new_plan(self, grid: Grid) -> Plan:
        horizon, n_state = int(self.core["horizon"][0]), self.axes.n_state
        n_states = math.prod(grid.bins[:n_state].tolist())
        n_cells = n_states * math.prod(grid.bins[n_state:].tolist())
        by_cell = {name: np.zeros((horizon, n_cells)) for name in ("q", "bonus", "way", "visits")}
        return Plan(
            **by_cell,
            played=np.zeros(n_cells),
            best=np.zeros((horizon, n_states), np.int32),
            values=np.zeros((horizon + 1, n_states)),
        )

    def prepare(self, n_episodes: int) -> None:
        """Make a plan if one is due, and reserve room for samples until the next one."""
        if self.is_due:
            self.refit()
        n_coming = min(n_episodes, int((self.core["due"] - self.core["n_episodes"])[0]))
        self.reserve(max(1, n_coming) * int(self.core["horizon"][0]))

    @property
    def cells(self) -> Cells:
        """All arrays that kernels read, with what plays: the plan for learning, or a policy."""
        return self.cells_of(int(self.core["explores"][0]))

    def cells_of(self, explores: int) -> Cells:
        """Return `cells` for an episode with this value of `core["explores"]`."""
        if self.control is not None and explores == layout.RECALLED:
            return self._cells(*self.control)
        if self.kept is not None and self.core["replays"][0] > 0:
            return self._cells(*self.kept)
        return self._cells(self.grid, self.plan)

    def _cells(self, grid: Grid, plan: Plan) -> Cells:
        return Cells(self.core, self.samples, grid, plan, self.axes.table)

    @property
    def handle(self) -> Any:
        """The handle of `cells`, for kernels."""
        if self._handle is None:
            self._handle = pack_cells(self.cells)
        return self._handle

    # --- what was learned -------------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Number of cells of what plays, summed over all steps."""
        return int(self.cells.plan.q.size)

    @property
    def nbytes(self) -> int:
        """Bytes of the samples and of the plan for learning, without reserved memory."""
        row = sum(int(part[:1].nbytes) for part in _allocate(1, self.samples.places.shape[1]))
        arrays = (*self.grid, *self.plan, self.widths, self.apart, self.core)
        return self.n_samples * row + sum(int(array.nbytes) for array in arrays)

    def view(self, step: int) -> Partition:
        """Return the cells of a step in the environment's units."""
        axes, policy = self.axes, self.policy()
        grid, plan = policy.grid, policy.plan
        indices = np.indices(grid.bins.tolist()).reshape(len(axes), -1)
        columns = range(len(axes))
        first = np.column_stack([grid.edges[j, indices[j]] for j in columns])
        last = np.column_stack([grid.edges[j, indices[j] + 1] for j in columns])
        low, high = first / grid.units, last / grid.units
        n_thirds = np.rint(np.log(grid.units / (last - first)) / math.log(3.0)).astype(np.int64)
        return Partition(
            low=corners(axes, low),
            high=corners(axes, high),
            q_value=plan.q[step].copy(),
            n_visits=self.counts()[step].astype(np.int64),
            depth=n_thirds.max(axis=1),
            radius=lengths(axes.table, low, high).max(axis=1),
            step=step,
            noun="cell",
            **about_axes(axes),
        )

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save: all that learning changes."""
        n = self.n_samples
        kept = {} if self.kept is None else self.kept.state(KEPT)
        kept |= {} if self.control is None else self.control.state(CONTROL)
        return {
            **{name: getattr(self, name) for name in ("core", "widths", "apart")},
            "played_apart": self.played_apart,
            "earned": self.earned,
            **{name: part[:n] for name, part in self.samples._asdict().items()},
            **{name: getattr(self.grid, name) for name in ("bins", "edges", "centers")},
            **{name: getattr(self.plan, name) for name in _STORED_PLAN},
            **kept,
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restore the arrays that `state` returned. Raise ValueError if they are invalid."""
        vars(self).update(call_in_thread(lambda: restored_cells(self, arrays)))


def _places(axes: Axes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the kind of each axis and its number of places, see `kernels.plans.layout`."""
    kinds = np.full(len(axes), layout.SMOOTH, np.int64)
    units = np.full(len(axes), layout.UNITS, np.int64)
    for j in range(len(axes)):
        n_values = int(axes.table[j, ATOMS])
        if axes[j].weight == 0:
            units[j] = 1
        elif n_values and axes[j].kind == CATEGORICAL:
            kinds[j], units[j] = layout.CATEGORIES, n_values
        elif 0 < n_values <= layout.UNITS:
            kinds[j], units[j] = layout.ORDERED, n_values
    return kinds, units


def _even_edges(bins: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.int64]:
    edges = np.zeros((len(bins), int(bins.max()) + 1), np.int64)
    for row, n_bins, n_units in zip(edges, bins, units, strict=True):
        row[: n_bins + 1] = np.linspace(0, n_units, n_bins + 1)
    return edges


def _allocate(n_rows: int, n_places: int) -> Samples:
    return Samples(
        np.zeros(n_rows, np.int32), np.zeros((n_rows, n_places), np.int16), np.zeros((n_rows, 3))
    )
