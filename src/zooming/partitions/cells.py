"""The samples of a planner, its grid of cells, and its plans.

The kernels are in `kernels.grids` (bins and cells), `kernels.smoothing` (regression),
`kernels.planning` (backward induction), `kernels.plan_actions`, and `kernels.plan_episodes`. This
module owns their arrays.

Plans are made in a thread where no signal handler runs, see `kernels.jit.call_in_thread`. They work
on copies, and one assignment puts the result in place.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.errors import SpaceError
from zooming.kernels import plan_layout as layout
from zooming.kernels.grids import center_states, lay_grid, make_grid, sort_by_step
from zooming.kernels.jit import call_in_thread
from zooming.kernels.layout import ATOMS
from zooming.kernels.plan_layout import WEIGHT, Cells, Grid, Plan, Samples, pack_cells
from zooming.kernels.planning import make_plan
from zooming.partitions.borders import corners
from zooming.partitions.condensing import condense
from zooming.partitions.faults import lengths
from zooming.partitions.stored_cells import Basis, restored_cells, stored_basis
from zooming.partitions.view import Partition
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL
from zooming.validation import Floats

_ROOM = 1024  # least number of rows of samples to reserve
MOST_FIRST = 10_000_000  # cells of all steps before any sample: 320 MB
THIRDS = 8  # axes that can have three bins each, which makes 6,561 cells for each category
_CACHES = ("_handle", "_policy", "_counted")
OLD = 0.5  # a plan from less than this share of the samples is no longer recommended
WORSE = 2.0  # standard errors by which a plan must earn less not to be recommended


class Policy(NamedTuple):
    """A plan for the policy, with what it takes to read it."""

    key: tuple[int, int]  # number of samples that it was made from, and of plans for learning
    plan: Plan
    cells: Cells  # has the grid, and keeps the arrays of the handle alive
    handle: Any  # for kernels

    @property
    def grid(self) -> Grid:
        """The grid of the plan, which may be older than that of learning."""
        found: Grid = self.cells.grid
        return found


class CellTable:
    """Samples, grid and plan of one planner.

    Parameters
    ----------
    axes : Axes
        The axes of the problem.
    core : array [1]
        The core record, see `kernels.plan_layout`.
    max_samples : int
        Rows of samples to keep.
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
        n_first = int(core["horizon"][0]) * self.n_categories
        if n_first > MOST_FIRST:
            raise SpaceError(
                f"horizon {int(core['horizon'][0]):,} with {self.n_categories:,} combinations of "
                f"categories makes {n_first:,} cells, and a planner begins with at most "
                f"{MOST_FIRST:,}; give a shorter horizon, or ordered=[name] for values in an order"
            )
        self.samples = _allocate(0, len(axes) + axes.n_state)
        self.widths = np.full((2, 3, len(axes)), layout.FIRST_WIDTH)
        self.apart = np.zeros((2, int(core["horizon"][0])), np.int64)  # forms of the next plan
        self.played_apart = self.apart  # forms of the plan that is played
        self.kept: Basis | None = None  # of the recommended plan; None: use all that is known
        self.earned: Floats = np.zeros(3)  # by recommended plans: episodes, mean return, variance
        self._forget()
        self.grid = call_in_thread(self._first_grid)
        self.plan = self._new_plan(self.grid)

    def _forget(self) -> None:
        self._handle: Any = None  # of `cells`; has addresses, so every change of an array resets it
        self._policy: Policy | None = None
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
        """Whether a new plan for learning is due, see `plan_layout.GROWTH`, or there is no room."""
        return bool(self.core["n_episodes"][0] >= self.core["due"][0]) or self._is_crowded

    @property
    def is_overdue(self) -> bool:
        """Whether a new plan is due even though others play, see `plan_layout.LATER`."""
        late = layout.LATER * self.core["due"][0]
        return bool(self.core["n_episodes"][0] >= late) or self._is_crowded

    @property
    def _is_crowded(self) -> bool:
        """Whether there are so many rows of samples that they must be condensed."""
        return bool(self.core["n_samples"][0] > self.core["most_samples"][0])

    def refit(self) -> None:
        """Make a new grid and a new plan for learning.

        If there are more than `max_samples` samples, condense them first.
        """
        # Copied here: after an interrupt, the thread goes on, and the arrays may change.
        core, widths, apart = self.core.copy(), self.widths.copy(), self.apart.copy()
        samples, (kept, earned) = self.samples, self._judge()
        found = call_in_thread(lambda: self._refitted(core, widths, apart, samples))
        if kept is not None and found["samples"] is not samples:  # condensed: not in order any more
            kept = kept._replace(n_samples=int(found["core"]["n_samples"][0]))
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
        bins, edges = self._lay_grid(core, samples, n)
        grid = Grid(*make_grid(self.kinds, self.units, bins, edges, self.axes.n_state))
        center_states(grid, samples, n, self.axes.n_state)
        plan = self._new_plan(grid)
        make_plan(core, samples, n, grid, widths, apart, plan, True)
        return {
            "core": core, "widths": widths, "apart": apart, "samples": samples, "grid": grid,
            "plan": plan, **dict.fromkeys(_CACHES),
        }  # fmt: skip

    def _judge(self) -> tuple[Basis | None, Floats]:
        """Return the new `kept` and `earned`, now that episodes of a plan have been played.

        The plan that was played is recommended from now on, unless it earned clearly less than
        those recommended before it. What a model promises is no evidence here: a plan that is bad
        is one whose model is wrong. If nobody played the plan, as in learning from a log, there is
        nothing to compare, and what is recommended uses all that is known.
        """
        core = self.core[0]
        plays, mean, squares = (float(core[name]) for name in ("plays", "earned", "squares"))
        if not plays:
            return None, self.earned
        kept, n = self.kept, int(core["n_planned"])
        if kept is not None and kept.n_samples < OLD * n:
            kept = None  # what it earned is long ago
        before, usual, variance = self.earned.tolist() if kept else (0.0, 0.0, 0.0)
        before = min(before, layout.USUAL * float(core["n_episodes"]))
        total, away = before + plays, mean - usual
        spread = (before * variance + squares + before * plays / total * away**2) / total
        error = math.sqrt(spread * (1.0 / plays + 1.0 / before)) if before else math.inf
        if kept is not None and away < -WORSE * error:
            return kept, self.earned
        played = Basis(self.grid, self.widths, self.played_apart, n)
        return played, np.array([total, usual + away * plays / total, spread])

    def policy(self) -> Policy:
        """Return the recommended plan.

        It is made without the bonus for exploring, from what the plan `kept` was made of. If none
        is kept, it is made from all samples, with the step forms of the current plan. Reading it
        does not affect learning.
        """
        basis = self.kept or Basis(self.grid, self.widths, self.played_apart, self.n_samples)
        key, found = (basis.n_samples, self.n_plans), self._policy
        if found is None or found.key != key:
            cells = self.cells._replace(grid=basis.grid)
            plan = call_in_thread(lambda: self._plan_policy(basis, cells))
            cells = cells._replace(plan=plan)
            found = self._policy = Policy(key, plan, cells, pack_cells(cells))
        return found

    def _plan_policy(self, basis: Basis, cells: Cells) -> Plan:
        """Return the plan for the policy that is made of `basis`."""
        grid, widths, apart, n = basis
        plan = self._new_plan(grid)
        make_plan(cells.core, cells.samples, n, grid, widths, apart, plan, False)
        return plan

    def counts(self) -> Floats:
        """Return how many samples are in each cell of the recommended plan: [horizon, n_cells]."""
        key, found = (self.n_samples, self.n_plans), self._counted
        if found is None or found[0] != key:
            grid, samples = self.policy().grid, self.samples
            found = key, call_in_thread(lambda: self._counts(key[0], samples, grid))
            self._counted = found
        return found[1]

    @property
    def n_plans(self) -> int:
        """Number of plans for learning so far."""
        return int(self.core["n_plans"][0])

    def _counts(self, n: int, samples: Samples, grid: Grid) -> Floats:
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

        If more than THIRDS axes vary, three bins on each would be too many cells. Then some axes
        are halved instead, the states first, and if they are still too many, some have one bin.
        """
        most = layout.wanted_cells(
            int(core["n_episodes"][0]), float(samples.numbers[:n, WEIGHT].sum()),
            self.n_categories, min(self.n_others, THIRDS),
        )  # fmt: skip
        is_category, n_state = self.kinds == layout.CATEGORIES, self.axes.n_state
        varies = ~is_category & (self.units > 1)
        if n and self.n_others > THIRDS:
            seen = samples.places[:n, :n_state]
            varies[:n_state] &= (seen != seen[:1]).any(axis=0)
        if varies.sum() <= THIRDS:
            bins, edges = lay_grid(samples, n, self.kinds, self.units, n_state, most)
            return bins, edges
        bins = np.where(is_category, self.units, np.where(varies, np.minimum(3, self.units), 1))
        for fewer in (2, 1):
            for j in np.flatnonzero(varies):
                if math.prod(bins.tolist()) > most:
                    bins[j] = fewer
        return bins, _even_edges(bins, self.units)

    def start_value(self, grid: Grid, plan: Plan, n: int) -> tuple[float, float]:
        """Return (mean value of the start states, bonus of an episode) of a plan from n samples.

        The bonus is the square root of the sum, over the steps, of the squared mean bonus of a
        step: errors of different steps are nearly independent. Without samples of step 0, the
        value is infinite.
        """
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
        return Grid(*make_grid(self.kinds, self.units, bins, edges, self.axes.n_state))

    def _new_plan(self, grid: Grid) -> Plan:
        horizon, n_state = int(self.core["horizon"][0]), self.axes.n_state
        n_states = math.prod(grid.bins[:n_state].tolist())
        n_cells = n_states * math.prod(grid.bins[n_state:].tolist())
        return Plan(
            q=np.zeros((horizon, n_cells)),
            bonus=np.zeros((horizon, n_cells)),
            way=np.zeros((horizon, n_cells)),
            visits=np.zeros((horizon, n_cells)),
            played=np.zeros(n_cells),
            best=np.zeros((horizon, n_states), np.int32),
            values=np.zeros((horizon + 1, n_states)),
        )

    def prepare(self, n_episodes: int) -> None:
        """Make a plan if one is due. Reserve room for samples until the next plan.

        The room is for at most `n_episodes` episodes.
        """
        if self.is_due:
            self.refit()
        n_coming = min(n_episodes, int((self.core["due"] - self.core["n_episodes"])[0]))
        self.reserve(max(1, n_coming) * int(self.core["horizon"][0]))

    @property
    def cells(self) -> Cells:
        """All arrays that kernels read, with the plan for learning."""
        return Cells(self.core, self.samples, self.grid, self.plan, self.axes.table)

    @property
    def handle(self) -> Any:
        """The handle of `cells`, for kernels."""
        if self._handle is None:
            self._handle = pack_cells(self.cells)
        return self._handle

    # --- what was learned -------------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Number of cells, summed over all steps."""
        return int(self.plan.q.size)

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
            names=tuple(axes.names),
            step=step,
            kinds=tuple(axes.kinds),
            weights=tuple(axes.weights),
            noun="cell",
            paths=tuple(axes.paths),
        )

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save: all that learning changes."""
        n = self.n_samples
        kept = {} if self.kept is None else stored_basis(self.kept)
        return {
            "core": self.core,
            "steps": self.samples.steps[:n],
            "places": self.samples.places[:n],
            "numbers": self.samples.numbers[:n],
            "widths": self.widths,
            "apart": self.apart,
            "played_apart": self.played_apart,
            "bins": self.grid.bins,
            "edges": self.grid.edges,
            "centers": self.grid.centers,
            "q": self.plan.q,
            "bonus": self.plan.bonus,
            "way": self.plan.way,
            "played": self.plan.played,
            "earned": self.earned,
            **kept,
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restore the arrays that `state` returned. Raise ValueError if they are invalid."""
        vars(self).update(call_in_thread(lambda: restored_cells(self, arrays)))


def _places(axes: Axes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the kind of each axis, and the number of integers that store its coordinates.

    `kernels.plan_layout` describes both.
    """
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
