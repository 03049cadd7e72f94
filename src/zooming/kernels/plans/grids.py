"""Grids of a planner: place the bins by the data, and find the cells of samples."""

from __future__ import annotations

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.layout import (
    CATEGORIES,
    END,
    ENDED,
    EVEN,
    MEAN_REWARD,
    SMOOTH,
    SPREAD,
    WEIGHT,
    WIDTH_POWER,
    Sorted,
    cells_at,
)


@jit_inline
def place_of(x, n_units):
    """Return the place of a coordinate of the unit interval on an axis of `n_units` places."""
    return min(n_units - 1, max(0, np.int64(x * n_units)))


@jit_inline
def largest(numbers):
    """Return the largest of an array of non-negative integers."""
    found = np.int64(0)
    for number in numbers:
        found = max(found, number)
    return found


@jit_kernel
def count_places(places, numbers, n_samples, axis, n_axes, n_state, counts):
    """Add the weight of the samples at each place of an axis to `counts`."""
    for k in range(n_samples):
        weight = numbers[k, WEIGHT]
        counts[places[k, axis]] += weight
        if axis < n_state and places[k, n_axes + axis] != ENDED:
            counts[places[k, n_axes + axis]] += weight


@jit_kernel
def cut_axis(counts, most, even, edges):
    """Cut an axis into at most `most` bins; write their edges, and return their number.

    Repeatedly cut the bin of the largest merit into thirds, or into halves if it has two places:

        merit = ((1 - even) * share of the samples + even * width) * width^WIDTH_POWER

    The width is a share of the axis. If `even` is 0, a bin with samples in fewer than two places is
    not cut.
    """
    n_units = counts.shape[0]
    below = np.zeros(n_units + 1)
    taken = np.zeros(n_units + 1, np.int64)
    for i in range(n_units):
        below[i + 1] = below[i] + counts[i]
        taken[i + 1] = taken[i] + (1 if counts[i] > 0 else 0)
    total = max(below[n_units], 1e-300)
    merit = np.zeros(most + 2)
    edges[0], edges[1], n = 0, n_units, 1
    merit[0] = 1.0 if n_units > 1 and (even > 0.0 or taken[n_units] > 1) else 0.0
    while True:
        worst = 0
        for i in range(n):
            worst = i if merit[i] > merit[worst] else worst
        low, width = edges[worst], edges[worst + 1] - edges[worst]
        n_parts = 3 if width >= 3 else 2
        if merit[worst] <= 0.0 or n + n_parts - 1 > most:
            return n
        for i in range(n - 1, worst, -1):
            edges[i + n_parts] = edges[i + 1]
            merit[i + n_parts - 1] = merit[i]
        edges[worst + n_parts] = low + width
        for i in range(1, n_parts):
            edges[worst + i] = low + (width * i + n_parts // 2) // n_parts
        for i in range(worst, worst + n_parts):
            first, last = edges[i], edges[i + 1]
            merit[i] = 0.0
            if last - first > 1 and (even > 0.0 or taken[last] - taken[first] > 1):
                share = (1.0 - even) * (below[last] - below[first]) / total
                width_share = (last - first) / n_units
                merit[i] = (share + even * width_share) * width_share**WIDTH_POWER
        n += n_parts - 1


@jit_kernel
def lay_grid(
    places, numbers, n_samples, kinds, units, varies, n_state, n_cells, bins, edges
):  # fmt: skip
    """Write bins and edges of a grid of about `n_cells` cells, placed by the samples.

    Each category is a bin. All other axes get about the same number of bins, at most the square
    root of `n_cells`. Some axes need fewer: they have few values, or states were seen in few
    places; those that do not vary have one. Such axes are cut first, so that the others can have
    more bins.
    """
    n_axes = kinds.shape[0]
    counts = np.zeros((n_axes, largest(units)))
    useful = np.zeros(n_axes)
    left, n_left = float(n_cells), 0
    limit = max(3.0, np.sqrt(left) + 1e-9)
    for j in range(n_axes):
        count_places(places, numbers, n_samples, j, n_axes, n_state, counts[j])
        useful[j] = units[j] if varies[j] else 1
        if kinds[j] == CATEGORIES:
            left /= units[j]
            useful[j] = 0.0
            continue
        n_left += 1
        if j < n_state:
            n_seen = 0
            for i in range(units[j]):
                n_seen += 1 if counts[j, i] > 0 else 0
            useful[j] = min(useful[j], 2.0 * n_seen + 1.0 if n_seen > 1 else 1.0)
    bins[:], edges[:] = 1, 0
    is_done = np.zeros(n_axes, np.bool_)
    for _ in range(n_axes):
        j = -1
        for i in range(n_axes):
            if not is_done[i] and (j < 0 or useful[i] < useful[j]):
                j = i  # the first one of equals: actions, cut last, get what is left
        is_done[j] = True
        if kinds[j] == CATEGORIES:
            bins[j] = units[j]
            for i in range(units[j] + 1):
                edges[j, i] = i
            continue
        most = max(3.0 if left >= 3.0 else 1.0, left ** (1.0 / n_left) + 1e-9)
        bins[j] = cut_axis(
            counts[j, : units[j]], np.int64(min(useful[j], most, limit)),
            EVEN if j >= n_state else 0.0, edges[j],
        )  # fmt: skip
        left /= bins[j]
        n_left -= 1


@jit_kernel
def fill_grid(kinds, units, bins, edges, n_state, trimmed, centers, bin_of):
    """Write the parts of the `Grid` with these edges: its edges, centers and `bin_of`.

    On discrete axes, the center of a bin is its middle value.

    A narrow first or last bin of an action axis has its center at the end of the axis. Extreme
    actions are often best: to order nothing differs from ordering little.
    """
    for j in range(kinds.shape[0]):
        for i in range(bins[j]):
            first, last = edges[j, i], edges[j, i + 1]
            trimmed[j, i + 1] = last
            centers[j, i] = 0.5 * (first + last) / units[j]
            if kinds[j] != SMOOTH:
                centers[j, i] = ((first + last - 1) // 2 + 0.5) / units[j]
            for place in range(first, last):
                bin_of[j, place] = i
        if j >= n_state and bins[j] > 1 and kinds[j] == SMOOTH:
            if edges[j, 1] <= END * units[j]:
                centers[j, 0] = 0.0
            if units[j] - edges[j, bins[j] - 1] <= END * units[j]:
                centers[j, bins[j] - 1] = 1.0


@jit_kernel
def center_states(handle, n_samples):
    """Move the center of each bin of a continuous state axis to the mean of the states in it."""
    core, samples, grid, _, _ = cells_at(handle)
    n_state, n_axes = core[0]["n_state"], grid.bins.shape[0]
    for j in range(n_state):
        if grid.kinds[j] != SMOOTH or grid.units[j] < 2:
            continue
        counts, totals = np.zeros(grid.bins[j]), np.zeros(grid.bins[j])
        for k in range(n_samples):
            for column in (j, n_axes + j):
                place = samples.places[k, column]
                if place != ENDED:
                    i = grid.bin_of[j, place]
                    counts[i] += samples.numbers[k, WEIGHT]
                    totals[i] += samples.numbers[k, WEIGHT] * (place + 0.5)
        for i in range(grid.bins[j]):
            if counts[i] > 0.0:
                grid.centers[j, i] = totals[i] / counts[i] / grid.units[j]


@jit_inline
def state_cell(grid, n_state, state):
    """Return the number of the state's cell, for a point of the unit cube."""
    cell = np.int64(0)
    for j in range(n_state):
        place = place_of(state[j], grid.units[j])
        cell = cell * grid.bins[j] + grid.bin_of[j, place]
    return cell


@jit_inline
def action_cell(grid, n_state, action):
    """Return the number of the action's cell, for a point of the unit cube."""
    cell = np.int64(0)
    for j in range(n_state, grid.bins.shape[0]):
        place = place_of(action[j - n_state], grid.units[j])
        cell = cell * grid.bins[j] + grid.bin_of[j, place]
    return cell


@jit_inline
def cell_of(grid, places):
    """Return the number of the cell of a sample's state and action."""
    cell = np.int64(0)
    for j in range(grid.bins.shape[0]):
        cell = cell * grid.bins[j] + grid.bin_of[j, places[j]]
    return cell


@jit_kernel
def sort_by_step(samples, n_samples, grid, n_state, horizon):
    """Return the first `n_samples` samples as `Sorted`."""
    n_axes = grid.bins.shape[0]
    first = np.zeros(horizon + 1, np.int64)
    for k in range(n_samples):
        first[samples.steps[k] + 1] += 1
    for h in range(horizon):
        first[h + 1] += first[h]
    free = first.copy()
    cells, nexts = np.zeros(n_samples, np.int64), np.zeros(n_samples, np.int64)
    neighbors = np.full((n_samples, n_state), np.int64(ENDED))
    shares = np.zeros((n_samples, n_state))
    weights, rewards, spreads = np.zeros(n_samples), np.zeros(n_samples), np.zeros(n_samples)
    for k in range(n_samples):
        i = free[samples.steps[k]]
        free[samples.steps[k]] += 1
        nexts[i] = ENDED
        if samples.places[k, n_axes] != ENDED:
            interpolation(grid, samples.places[k, n_axes:], nexts, neighbors, shares, i)
        cells[i] = cell_of(grid, samples.places[k])
        weights[i] = samples.numbers[k, WEIGHT]
        rewards[i] = samples.numbers[k, MEAN_REWARD]
        spreads[i] = samples.numbers[k, SPREAD]
    return Sorted(first, cells, nexts, neighbors, shares, weights, rewards, spreads)


@jit_inline
def interpolation(grid, places, nexts, neighbors, shares, i):
    """Write how to interpolate a value at a state: row i of the columns of `Sorted`."""
    n_state = shares.shape[1]
    cell, stride = np.int64(0), np.int64(1)
    for j in range(n_state - 1, -1, -1):
        cell += stride * grid.bin_of[j, places[j]]
        stride *= grid.bins[j]
    stride = np.int64(1)
    for j in range(n_state - 1, -1, -1):
        shift = shift_of(grid, j, places[j])
        side = 1 if shift > 0.0 else (-1 if shift < 0.0 else 0)
        neighbors[i, j] = cell + side * stride
        shares[i, j] = abs(shift)
        stride *= grid.bins[j]
    nexts[i] = cell


@jit_inline
def shift_of(grid, axis, place):
    """Return the offset of a place from its bin's center, as a share of the gap between bins."""
    i = np.int64(grid.bin_of[axis, place])
    away = (place + 0.5) / grid.units[axis] - grid.centers[axis, i]
    neighbor = i + 1 if away > 0.0 else i - 1
    if grid.kinds[axis] != SMOOTH or neighbor < 0 or neighbor >= grid.bins[axis]:
        return 0.0
    return away / abs(grid.centers[axis, neighbor] - grid.centers[axis, i])


@jit_kernel
def measure_distances(cells, grid, distances):
    """Write the distance of each cell to the nearest one of `cells`."""
    n_cells, inner = distances.shape[0], 1
    distances[:] = np.inf
    for cell in cells:
        distances[cell] = 0.0
    for j in range(grid.bins.shape[0] - 1, -1, -1):
        n, centers = grid.bins[j], grid.centers[j]
        if grid.kinds[j] == CATEGORIES:
            measure_categories(distances, n, inner)
        else:
            for start in range(0, n_cells, n * inner):
                for i in range(1, n):
                    c = start + i * inner
                    come_from(distances, c, c - inner, inner, centers[i] - centers[i - 1])
                for i in range(n - 2, -1, -1):
                    c = start + i * inner
                    come_from(distances, c, c + inner, inner, centers[i + 1] - centers[i])
        inner *= n


@jit_inline
def come_from(distances, to, neighbor, inner, step):
    """Limit the distances of `inner` cells to those of their neighbors plus a step."""
    for k in range(inner):
        distances[to + k] = min(distances[to + k], distances[neighbor + k] + step)


@jit_inline
def measure_categories(distances, n, inner):
    """Limit the distance of each category to 1 plus the smallest distance of any category."""
    for start in range(0, distances.shape[0], n * inner):
        for k in range(start, start + inner):
            nearest = np.inf
            for c in range(k, k + n * inner, inner):
                nearest = min(nearest, distances[c])
            for c in range(k, k + n * inner, inner):
                distances[c] = min(distances[c], nearest + 1.0)


@jit_kernel
def covering_radius(grid, n_balls):
    """Return the radius at which `n_balls` L1 balls, of volume (2 r)^d / d!, fill the unit cube."""
    n_axes, factorial = 0, 1.0
    for n_bins in grid.bins:
        if n_bins > 1:
            n_axes += 1
            factorial *= n_axes
    return 0.5 * (factorial / n_balls) ** (1.0 / max(1, n_axes))
