"""Restore the samples and cells of a planner from a file, and check them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.kernels import plan_layout as layout
from zooming.kernels.grids import make_grid
from zooming.kernels.plan_layout import CORE, MEAN_REWARD, SPREAD, WEIGHT, Grid, Samples

if TYPE_CHECKING:
    from zooming.partitions.cells import CellTable

KEPT = "kept_"  # prefix of the arrays of a `Basis`
MOST_WEIGHT = 2.0**53  # transitions in a file; beyond it, numbers of them are not exact


class Basis(NamedTuple):
    """What a plan is made of: a grid, bandwidths, step forms, and the first rows of the samples."""

    grid: Grid
    widths: Any
    apart: Any
    n_samples: int


def stored_basis(basis: Basis) -> dict[str, NDArray[Any]]:
    """Return the arrays to save of a basis."""
    grid, widths, apart, n = basis
    parts = {"bins": grid.bins, "edges": grid.edges, "centers": grid.centers}
    parts |= {"widths": widths, "apart": apart, "samples": np.array([n])}
    return {KEPT + name: part for name, part in parts.items()}


def restored_cells(table: CellTable, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the attributes of a table with the arrays that `CellTable.state` returned.

    Raise ValueError if they are invalid.

    `plan.visits` and `plan.best` are not saved: they are computed from the samples and from Q and
    the bonus.
    """
    core = arrays["core"].astype(CORE)
    n = int(core["n_samples"][0])
    given = Samples(arrays["steps"], arrays["places"], arrays["numbers"])
    for name, part, one in zip(("steps", "places", "numbers"), table.samples, given, strict=True):
        check_form(name, one, np.empty((n, *part.shape[1:]), part.dtype))
    check_samples(core, given, table.units, len(table.axes))
    check_returns(core)
    # Older files lack "played_apart", "earned" and the arrays of a plan that is kept.
    forms = arrays.get("played_apart", arrays["apart"])
    basis = restore_basis(table, arrays, "", forms, n)
    check_forms(table, arrays["apart"])
    kept = None
    if KEPT + "bins" in arrays:
        n_kept = arrays[KEPT + "samples"]
        check_form(KEPT + "samples", n_kept, np.zeros(1, np.int64))
        kept = restore_basis(table, arrays, KEPT, arrays[KEPT + "apart"], int(n_kept[0]))
        if not 0 < kept.n_samples <= n:
            raise ValueError(f"the plan kept was made of {kept.n_samples} of {n} samples")
    earned = arrays.get("earned", np.zeros(3))
    check_form("earned", earned, np.zeros(3))
    if min(earned[0], earned[2]) < 0.0:
        raise ValueError("what recommended plans earned is invalid")
    grid = basis.grid
    wanted = len(arrays["apart"][0]), math.prod(grid.bins.tolist())
    if arrays["q"].shape != wanted:  # before memory is asked for
        raise ValueError(f"q is {arrays['q'].dtype} {arrays['q'].shape}, not float64 {wanted}")
    plan = table._new_plan(grid)
    for name in ("q", "bonus", "way", "played"):
        check_form(name, arrays[name], getattr(plan, name))
        getattr(plan, name)[:] = arrays[name]
    values: dict[str, Any] = {"core": core, "widths": basis.widths, "grid": grid}
    values |= {"apart": arrays["apart"].copy(), "played_apart": basis.apart}
    values |= {"kept": kept, "earned": earned.copy()}
    samples = Samples(*(part.copy() for part in given))
    counts = table._counts(int(core["n_planned"][0]), samples, grid)
    is_apart = values["apart"][0] != layout.ALIKE
    plan.visits[:] = np.where(is_apart[:, None], counts, counts[~is_apart].sum(axis=0))
    total = (plan.q + plan.bonus).reshape(*plan.best.shape, -1)
    plan.best[:] = total.argmax(axis=2)
    caches = dict.fromkeys(("_handle", "_policy", "_counted"))
    return {**values, "samples": samples, "plan": plan, **caches}


def restore_basis(
    table: CellTable, arrays: dict[str, NDArray[Any]], prefix: str, apart: NDArray[Any], n: int
) -> Basis:
    """Return the grid, bandwidths and forms of a plan. Raise ValueError if they are invalid."""
    widths, bins, edges = (arrays[prefix + name] for name in ("widths", "bins", "edges"))
    check_form(prefix + "widths", widths, table.widths)
    check_forms(table, apart)
    check_bins(bins, edges, table.units, 3 * max(layout.MOST_CELLS, table.n_categories))
    grid = Grid(*make_grid(table.kinds, table.units, bins.copy(), edges.copy(), table.axes.n_state))
    restore_centers(grid, arrays[prefix + "centers"])
    return Basis(grid, widths.copy(), apart.copy(), n)


def check_forms(table: CellTable, apart: NDArray[Any]) -> None:
    """Raise ValueError if the form of a step is invalid."""
    check_form("apart", apart, table.apart)
    if not np.isin(apart, (layout.ALIKE, layout.ALONE, layout.CORRECTED)).all():
        raise ValueError("the form of a step is unknown")


def check_form(name: str, given: NDArray[Any], wanted: NDArray[Any]) -> None:
    if given.dtype != wanted.dtype or given.shape != wanted.shape:
        raise ValueError(
            f"{name} is {given.dtype} {given.shape}, not {wanted.dtype} {wanted.shape}"
        )
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise ValueError(f"{name} has an entry that is not finite")


def check_bins(
    bins: NDArray[Any], edges: NDArray[Any], units: NDArray[np.int64], most_cells: int
) -> None:
    """Raise ValueError if bins and edges are not a valid grid.

    `units` is the number of places of each axis, see `kernels.plan_layout`.
    """
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
    if not np.isfinite(samples.numbers).all() or (weights < 1).any() or not is_few:
        raise ValueError("a sample has no valid weight or reward")
    if n and not (core["least"][0] <= rewards.min() and rewards.max() <= core["most"][0]):
        raise ValueError("a reward is outside of the range of rewards seen")
    if (samples.numbers[:, SPREAD] < 0).any():
        raise ValueError("the spread of a sample is negative")


def check_returns(core: NDArray[Any]) -> None:
    """Raise ValueError if the returns of the planner's episodes are invalid."""
    counted = [core[name][0] for name in ("plays", "squares", "usual_plays", "usual_variance")]
    others = [core[name][0] for name in ("total", "earned", "usual")]
    if not np.isfinite(counted + others).all() or min(counted) < 0.0:
        raise ValueError("the returns of the planner's episodes are invalid")
