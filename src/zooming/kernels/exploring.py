"""Measure which cells are far from all samples, and plan the way to them.

The distance of a cell is the L1 distance to the nearest cell with samples, in the unit cube.
Another category is at distance 1. N samples can cover the space with a number of balls
proportional to sqrt(N). The radius of these balls, the covering radius, is the largest distance at
which a sample counts as evidence.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.jit import jit_inline, jit_kernel
from zooming.kernels.plan_layout import CATEGORIES, COUNT, ENDED, MASS, NEAR, PRIOR, WEIGHT
from zooming.kernels.smoothing import set_decay, smooth


@jit_kernel
def covering_radius(grid, n_balls):
    """Return the radius at which the volumes of `n_balls` L1 balls add up to that of the unit cube.

    A ball of radius r in d dimensions has the volume (2 r)^d / d!. Axes with one bin are ignored.
    """
    n_axes, factorial = 0, 1.0
    for n_bins in grid.bins:
        if n_bins > 1:
            n_axes += 1
            factorial *= n_axes
    return 0.5 * (factorial / n_balls) ** (1.0 / max(1, n_axes))


@jit_kernel
def narrow_kernel(work, grid, widths, widest, decay, buffer):
    """Cap all bandwidths at 2^widest, and recompute MASS and NEAR if that changes one.

    A wide bandwidth is chosen if distant samples predict the target at other samples well. That is
    no evidence about cells far from all samples, so their standard error must stay large.
    """
    narrow = np.minimum(widths, widest)
    if not np.any(narrow < widths):
        return
    set_decay(grid, narrow, decay)
    for c in range(work.shape[1]):
        work[MASS, c] = work[COUNT, c]
        work[NEAR, c] = 1.0 if work[COUNT, c] > 0 else 0.0
    smooth(work[MASS], grid, decay, buffer)
    smooth(work[NEAR], grid, decay, buffer)


@jit_kernel
def measure_distances(cells, grid, distances):
    """Write the distance of each cell to the nearest one of `cells`.

    One pass forward and one backward along each axis give the exact L1 distance.
    """
    n_cells, inner = distances.shape[0], 1
    for c in range(n_cells):
        distances[c] = np.inf
    for cell in cells:
        distances[cell] = 0.0
    for j in range(grid.bins.shape[0] - 1, -1, -1):
        n = grid.bins[j]
        if grid.kinds[j] == CATEGORIES:
            measure_categories(distances, n, inner)
        else:
            for c in range(n_cells):
                i = (c // inner) % n
                if i > 0:
                    step = grid.centers[j, i] - grid.centers[j, i - 1]
                    distances[c] = min(distances[c], distances[c - inner] + step)
            for c in range(n_cells - 1, -1, -1):
                i = (c // inner) % n
                if i < n - 1:
                    step = grid.centers[j, i + 1] - grid.centers[j, i]
                    distances[c] = min(distances[c], distances[c + inner] + step)
        inner *= n


@jit_inline
def measure_categories(distances, n, inner):
    """Limit the distance of each category to 1 + that of the nearest category."""
    for start in range(0, distances.shape[0], n * inner):
        for k in range(start, start + inner):
            nearest = np.inf
            for c in range(k, k + n * inner, inner):
                nearest = min(nearest, distances[c])
            for c in range(k, k + n * inner, inner):
                distances[c] = min(distances[c], nearest + 1.0)


@jit_kernel
def find_way(
    cells, nexts, numbers, first, step, own, apart, distances, share, grid, widths, decay, sums,
    buffer, plan,
):  # fmt: skip
    """Write `plan.way` of a step: the largest distance from samples expected from a cell on.

        way_h(cell) = max(distance of the cell, mean of max_a way_{h+1}(x', a))

    At the last step, which the caller fills, it is the distance of the cell.
    The mean is over the next states x' of the samples near the cell, smoothed as in `smoothing`
    with `widths` and `share`. The samples are the step's own if `own`, else those of the step and
    of all that are not apart.
    """
    n_cells, n_states = distances.shape[0], plan.values.shape[1]
    n_actions = n_cells // n_states
    farthest = np.zeros(n_states)
    for c in range(n_cells):
        farthest[c // n_actions] = max(farthest[c // n_actions], plan.way[step + 1, c])
        sums[0, c] = sums[1, c] = 0.0
    for h in range(first.shape[0] - 1):
        if h == step or not (own or apart[h]):
            for i in range(first[h], first[h + 1]):
                sums[1, cells[i]] += numbers[i, WEIGHT]
                if nexts[i] != ENDED:
                    sums[0, cells[i]] += numbers[i, WEIGHT] * farthest[nexts[i]]
    sums[2], sums[3] = sums[0], sums[1]
    set_decay(grid, widths, decay)
    smooth(sums[2], grid, decay, buffer)
    smooth(sums[3], grid, decay, buffer)
    for c in range(n_cells):
        mean = sums[2, c] / (sums[3, c] + PRIOR)
        mean += (sums[0, c] - sums[1, c] * mean) / (sums[1, c] + share)
        plan.way[step, c] = max(distances[c], mean)
