"""Measure which cells are far from all samples, and plan episodes that reach them.

The distance of a cell is the L1 distance to the nearest cell with samples, in the unit cube.
Another category is at distance 1. N samples can cover the space with a number of balls
proportional to sqrt(N). The radius of these balls, the covering radius, is the largest distance at
which a sample counts as evidence.
"""

from __future__ import annotations

import numpy as np

from zooming.kernels.loop.jit import jit_inline, jit_kernel
from zooming.kernels.plans.layout import AROUND, CATEGORIES, COUNT, EVIDENCE, MASS, NEAR, PRIOR
from zooming.kernels.plans.smoothing import mark_visited, set_decay, smooth


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
    """Write EVIDENCE and AROUND: MASS and NEAR of a kernel whose bandwidths are at most 2^widest.

    A wide bandwidth is chosen if distant samples predict the target at other samples well. That is
    no evidence about cells far from all samples, so their standard error must stay large.
    """
    narrow = np.minimum(widths, widest)
    if not np.any(narrow < widths):
        work[EVIDENCE], work[AROUND] = work[MASS], work[NEAR]
        return
    set_decay(grid, narrow, decay)
    work[EVIDENCE] = work[COUNT]
    mark_visited(work, AROUND)
    smooth(work[EVIDENCE], grid, decay, buffer)
    smooth(work[AROUND], grid, decay, buffer)


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
    """Limit the distance of each category to 1 plus the smallest distance of any category."""
    for start in range(0, distances.shape[0], n * inner):
        for k in range(start, start + inner):
            nearest = np.inf
            for c in range(k, k + n * inner, inner):
                nearest = min(nearest, distances[c])
            for c in range(k, k + n * inner, inner):
                distances[c] = min(distances[c], nearest + 1.0)


@jit_kernel
def find_way(models, to, samples, step, distances, grid, widths, plan):
    """Write `plan.way` of a step: how far from all samples an episode can get from each cell.

        way_h(cell) = max(distance of the cell, mean of max_a way_{h+1}(x', a))

    At the last step, which the caller fills, it is the distance of the cell. The mean is over the
    next states x' of the samples near the cell. Samples and share are those of the fit `to`. The
    kernel has the bandwidths `widths`, at most the covering radius: if all values seen are equal,
    their bandwidths are infinite, and every action would seem to lead equally far.
    """
    n_cells, n_states = distances.shape[0], plan.values.shape[1]
    n_actions = n_cells // n_states
    farthest = np.zeros(n_states + 1)  # the last entry is that of an episode that has ended
    for state in range(n_states):
        for c in range(state * n_actions, (state + 1) * n_actions):
            farthest[state] = max(farthest[state], plan.way[step + 1, c])
    work, share = models.work[to], models.found[to, 2]
    totals = np.zeros(n_cells)
    for h in range(models.members.shape[1]):
        if models.members[to, h]:
            for i in range(samples.first[h], samples.first[h + 1]):
                totals[samples.cells[i]] += samples.weights[i] * farthest[samples.nexts[i]]
    sums = totals.copy()
    set_decay(grid, np.minimum(widths, np.log2(models.radius)), models.decay)
    smooth(sums, grid, models.decay, models.buffer)
    for c in range(n_cells):
        mean = sums[c] / (work[EVIDENCE, c] + PRIOR)
        mean += (totals[c] - work[COUNT, c] * mean) / (work[COUNT, c] + share)
        plan.way[step, c] = max(distances[c], mean)
