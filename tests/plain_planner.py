"""The planner in plain NumPy: the oracle of `zooming.kernels.plans`, readable without the library.

Dense matrices take the place of passes over a grid: K is the kernel between all pairs of cells, and
a state between cells is a row of weights over them. A sample is (step, place of state, action and
next state, weight, mean reward, spread of rewards). Names are those of the kernels.
"""

import itertools
import math

import numpy as np

SMOOTH, CATEGORIES, ENDED = 0, 2, -1
REWARDS, VALUES = 0, 1


class PlainPlan:
    """A plan. `c` has the constants, `widths` and `apart` are changed as by the kernel."""

    def __init__(self, c, shares, grid, n_state, horizon, samples, facts, widths, apart, learns):
        self.c, self.shares, self.grid = c, shares, grid
        self.n_state, self.horizon = n_state, horizon
        self.widths, self.apart, self.learns, self.facts = widths, apart, learns, facts
        bins = grid.bins.tolist()
        self.n_axes, self.n_cells = len(bins), math.prod(bins)
        self.n_states = math.prod(bins[:n_state])
        self.index = np.array(list(itertools.product(*map(range, bins))))  # bins of each cell
        self.centers = np.array([grid.centers[j, self.index[:, j]] for j in range(self.n_axes)]).T
        self.is_category = grid.kinds == CATEGORIES
        self.lost, self.way = np.zeros((2, horizon, self.n_cells))
        before = apart.copy()
        self.make(*samples)
        left = self.lost[self.steps, self.cells] == 0.0
        least = c.ENOUGH * (1 + self.n_axes)
        if self.unexplained < 0.0 and not left.all() and self.weights[left].sum() >= least:
            apart[:] = before
            self.make(*(part[left] for part in samples))

    def cell_of(self, places):
        bins = [self.grid.bin_of[j, axis] for j, axis in enumerate(places.T)]
        return np.ravel_multi_index(bins, self.grid.bins[: len(bins)].tolist())

    def coordinates(self, x):
        """Scale points of the unit cube to [-1, 1]; categories have no coordinate."""
        found = 2.0 * np.asarray(x, float) - 1.0
        found[:, self.is_category[: found.shape[1]]] = 0.0
        return found

    def weights_of_states(self, places):
        """Return the weight of each state cell in the value at each place, linear along axes."""
        found, grid = np.zeros((len(places), self.n_states)), self.grid
        here = self.cell_of(places)
        found[np.arange(len(places)), here] = 1.0
        for j in range(self.n_state):
            stride = math.prod(grid.bins[j + 1 : self.n_state].tolist())
            for i, place in enumerate(places[:, j]):
                k = int(grid.bin_of[j, place])
                away = (place + 0.5) / grid.units[j] - grid.centers[j, k]
                side = k + 1 if away > 0.0 else k - 1
                if grid.kinds[j] == SMOOTH and 0 <= side < grid.bins[j]:
                    share = abs(away / (grid.centers[j, side] - grid.centers[j, k]))
                    found[i, here[i]] -= share
                    found[i, here[i] + (side - k) * stride] += share
        return found

    def find_drifts(self):
        """Write the linear law of the next state, its strength, and where it leads."""
        after, n = self.places[:, self.n_axes :], self.n_axes
        goes_on = after[:, 0] != ENDED
        x = self.coordinates((self.places[:, :n] + 0.5) / self.grid.units)
        x = np.column_stack([np.ones(len(x)), x])
        y = self.coordinates((after + 0.5) / self.grid.units[: self.n_state])[goes_on]
        w = self.weights[goes_on]
        gram = (x[goes_on].T * w) @ x[goes_on] + self.c.RIDGE * np.eye(1 + n)
        right = (x[goes_on].T * w) @ y
        self.law = np.linalg.solve(gram, right)
        weight = w.sum() + 1e-9
        rest, total = w @ y**2 - (right * self.law).sum(axis=0), w @ y**2 - (w @ y) ** 2 / weight
        strength = np.maximum(0.0, total - rest) / n * weight / np.maximum(rest, 1e-300)
        self.strength = np.where((rest > 0.0) & (self.facts["is_exact"] == 0), strength, 0.0)
        self.has_drift = ~(self.is_category & (self.grid.bins > 1))[: self.n_state].any()
        self.has_drift &= (
            self.weights.sum() >= self.c.ENOUGH * (1 + n) and not self.facts["is_exact"]
        )
        cells = np.column_stack([np.ones(self.n_cells), self.coordinates(self.centers)])
        self.drift_of_cells, units = cells @ self.law, self.grid.units[: self.n_state]
        ends = [(0.5 * (p @ self.law + 1.0) * units).astype(int) for p in (x, cells)]
        ends = [self.weights_of_states(np.clip(p, 0, units - 1)) for p in ends]
        self.of_samples, self.of_cells = ends

    def make_features(self):
        """Write the quadratic of the coordinates, and hats of each strong drift."""
        x = self.coordinates(self.centers)
        pairs = itertools.combinations_with_replacement(x.T, 2)
        columns = [np.ones(len(x)), *x.T, *(one * other for one, other in pairs)]
        self.n_quadratic = len(columns)
        counts = np.bincount(self.cells, self.weights, self.n_cells)
        is_fine = self.grid.bins[: self.n_state] > 2
        for j in np.flatnonzero(is_fine & (self.strength > self.c.STRONG)):
            drift, seen = self.drift_of_cells[:, j], counts > 0
            less, last = np.sign(drift[:, None] - drift) * 0.5 + 0.5, self.c.N_HATS - 1
            low, high = drift[seen].min(), drift[seen].max()
            place = (drift - low) / max(1e-9, high - low) + less @ counts / max(1e-9, counts.sum())
            place = np.clip(0.5 * place * last, 0.0, last)
            columns += [np.maximum(0.0, 1.0 - abs(place - i)) for i in range(last + 1)]
        self.features = np.column_stack(columns)

    def find_slopes(self):
        """Write the slope of the rewards in time, from differences among samples of a cell."""
        c, p, x = self.c, self.n_quadratic, self.features[:, : self.n_quadratic]
        used, self.slopes = self.apart[REWARDS][self.steps] == 0, np.zeros(self.n_cells)
        cells, w, times = self.cells[used], self.weights[used], self.times[self.steps[used]]
        count, both = np.bincount(cells, w, self.n_cells), (times, self.rewards[used])
        sums = [np.bincount(cells, w * y, self.n_cells) / np.maximum(count, 1e-9) for y in both]
        time, y = (one - mean[cells] for one, mean in zip(both, sums, strict=True))
        moves = time[:, None] * x[cells]
        right, gram = moves.T @ (w * y), (moves.T * w) @ moves + c.RIDGE * np.eye(p)
        law = np.linalg.solve(gram, right)
        freedom = (count[count > 0] - 1).sum() - p
        rest = (w * y**2).sum() + self.spreads[used].sum() - right @ law
        is_weak = (right @ law) * freedom <= c.STRONG * p * max(0.0, rest)
        is_early = self.facts["n_plans"] < c.EARLY
        if is_early or self.horizon < 3 or freedom < c.LEAST_FREEDOM or is_weak:
            return
        seen = np.bincount(cells, w * time**2, self.n_cells) > 1e-9
        self.slopes = np.clip(x @ law, (x @ law)[seen].min(), (x @ law)[seen].max())

    def kernel(self, widths):
        found = np.ones((self.n_cells, self.n_cells))
        for j in np.flatnonzero(np.asarray(widths) < self.c.FLAT):
            gap = abs(self.centers[:, j, None] - self.centers[:, j])
            gap = self.index[:, j, None] != self.index[:, j] if self.is_category[j] else gap
            found *= np.exp(gap * -(2.0 ** -widths[j]))
        return found

    def fit(self, targets, members, widths, tunes):
        """Return the regression of the samples of some steps as a dictionary."""
        c, used = self.c, np.isin(self.steps, members)
        cells, w, y = self.cells[used], self.weights[used], targets[used]
        spread = self.spreads[used] * (targets is self.rewards or targets is self.carried)
        count = np.bincount(cells, w, self.n_cells)
        n, seen = count.sum(), count > 0
        p = max(p for p in (self.features.shape[1], self.n_quadratic, 0) if n >= c.ENOUGH * p)
        x, mean = self.features[:, :p], (w * y).sum() / max(n, 1e-9)
        trend = np.full(self.n_cells, mean)
        if p:
            gram = (x.T * count) @ x + c.RIDGE * np.eye(p)
            trend = mean + x @ np.linalg.solve(gram, x[cells].T @ (w * (y - mean)))
            means = np.bincount(cells, w * y, self.n_cells)[seen] / count[seen]
            trend = np.clip(trend, means.min(), means.max())
        square = (w @ (y - mean) ** 2 + spread.sum()) / max(n, 1e-9)
        rest = y - trend[cells]
        total = np.bincount(cells, w * rest, self.n_cells)
        factor = (n / max(n - max(1, p), 0.5 * n)) ** 2 if n > 0 else 1.0

        def errors(kernel, share):
            mass, number = (kernel @ count)[cells], count[cells]
            mean = (kernel @ total)[cells] / (mass + c.PRIOR)
            a, own = 1.0 / (mass + c.PRIOR - 1.0), 1.0 / (number - 1.0 + share)
            g = 1.0 + a + own * (1.0 - a * (number - 1.0))
            away = g * (rest - mean) - own * (total[cells] - number * mean)
            return away, (w * away**2 + g**2 * spread).sum() / max(1.0, n)

        def best(kernel):
            return min((errors(kernel, share)[1], i) for i, share in enumerate(self.shares))

        if tunes:
            self.tune(widths, best)
        kernel = self.kernel(widths)
        noise, i = best(kernel)
        share = self.shares[i]
        mass, sums = kernel @ count, kernel @ total
        mean = sums / (mass + c.PRIOR)
        others = np.maximum(0.0, mass - count) + c.PRIOR
        own = np.maximum(count, 1e-9)
        excess = (total / own - (sums - total) / others) ** 2
        excess -= noise * factor * (1.0 / own + 1.0 / (others + 1.0))
        near = kernel @ seen
        gaps = np.maximum(0.0, excess) * np.minimum(2.0, np.maximum(0.0, near - 1.0) + c.EMPTY)
        gap = gaps[seen].sum() / max(1, seen.sum())
        narrow = self.kernel(np.minimum(widths, self.widest))
        variance = noise * factor / (narrow @ count + c.PRIOR)
        variance += gap * (share / (count + share)) ** 2 / (narrow @ seen + c.EMPTY)
        away = np.full(len(self.steps), np.nan)
        away[used] = errors(kernel, share)[0] * math.sqrt(factor)
        mean += trend + (total - count * mean) / (count + share)
        found = {"variance": variance, "errors": away, "used": used, "share": share}
        return {**found, "mean": mean, "noise": noise * factor, "count": count, "total": square}

    def tune(self, widths, best):
        """Try to double, halve or ignore each bandwidth, then to begin anew."""
        c, least = self.c, best(self.kernel(widths))[0]
        for axis, k in [*itertools.product(range(self.n_axes), range(3)), (None, 0)]:
            tried = widths.copy()
            if axis is None:
                tried[:] = -c.FLAT
            elif self.grid.bins[axis] > 1:
                tried[axis] = (min(c.FLAT, tried[axis] + 1.0), tried[axis] - 1.0, c.FLAT)[k]
            if (tried != widths).any() and (error := best(self.kernel(tried))[0]) < least:
                widths[:], least = tried, error

    def make(self, steps, places, numbers):
        self.steps, self.places = steps, places
        self.weights, self.rewards, self.spreads = numbers.T
        self.cells = self.cell_of(places[:, : self.n_axes])
        n = self.facts["n_plans"]
        self.tunes = self.learns and (n < self.c.EARLY or n % self.c.SPARING == 0)
        self.compares = self.tunes and self.horizon > 1
        self.times = np.arange(self.horizon) / max(1, self.horizon - 1) - 0.5
        for find in (self.find_drifts, self.make_features, self.find_slopes, self.find_distances):
            find()
        self.carried = self.rewards - self.times[self.steps] * self.slopes[self.cells]
        after, ended = self.places[:, self.n_axes :], self.places[:, self.n_axes] == ENDED
        self.next_weights = self.weights_of_states(np.where(ended[:, None], 0, after))
        self.next_weights[ended] = 0.0
        self.q, self.bonus = np.zeros((2, *self.lost.shape))
        self.is_first = not self.lost.any()
        self.values = np.zeros((self.horizon + 1, self.n_states))
        n = max(1, int((self.grid.bins > 1).sum()))
        balls = self.c.BALLS * (1.0 + math.sqrt(self.weights.sum()))
        self.widest = math.log2(0.5 * (math.factorial(n) / balls) ** (1.0 / n))
        pool, self.unexplained = None, 0.0
        for h in range(self.horizon - 1, -1, -1):
            was, alike = self.apart[REWARDS, h], np.flatnonzero(self.apart[REWARDS] == 0)
            if pool is None:
                tunes = self.tunes and h == self.horizon - 1
                pool = self.fit(self.carried, alike, self.widths[REWARDS, 0], tunes)
            tunes = self.tunes and (was == 1 or h == (self.horizon - 1) // 2)
            rewards = self.model(self.rewards, h, REWARDS, tunes, pool if was == 0 else None)
            mean = rewards["mean"] + (was == 0) * self.times[h] * self.slopes
            rewards = {**rewards, "mean": np.minimum(mean, self.rewards.max())}
            self.back_up(h, rewards, self.next_values(h))
            unexplained = 2.0 * rewards["noise"] - rewards["total"]
            self.unexplained += self.weights[self.steps == h].sum() * unexplained
            pool = pool if self.apart[REWARDS, h] == was else None

    def model(self, targets, h, kind, tunes, pool=None):
        """Return the regression of a target at a step, and choose the form of the next plan."""
        was, widths = self.apart[kind, h], self.widths[kind]
        if pool is None and (was == 0 or self.compares):
            members = [k for k in range(self.horizon) if was or k == h or self.apart[kind, k] == 0]
            shared = self.carried if kind == REWARDS else targets
            pool = self.fit(shared, members, widths[0], tunes)
        own = self.fit(targets, [h], widths[1], tunes) if was or self.compares else None
        if self.compares:
            w, here = self.weights[self.steps == h], self.steps == h
            change = own["errors"][here] ** 2 - pool["errors"][here] ** 2
            error = math.sqrt((w * change**2).sum())
            self.apart[kind, h] = (w * change).sum() < -self.c.CLEAR * error
        return own if was else pool

    def next_values(self, h):
        if h == self.horizon - 1:
            self.way[h] = self.distances if self.learns and self.is_first else self.way[h]
            return {"mean": 0.0, "variance": 0.0}
        after = self.values[h + 1]
        if self.facts["exogenous"] is not None:
            after = self.facts["exogenous"](h, after)
        targets = self.next_weights @ after - self.has_drift * (self.of_samples @ after)
        was, tunes = self.apart[VALUES, h], self.tunes and h == (self.horizon - 1) // 2
        found = self.model(targets, h, VALUES, tunes)
        found["mean"] = found["mean"] + self.has_drift * (self.of_cells @ after)
        if self.learns and self.is_first:
            self.find_way(h, found, self.widths[VALUES, was])
        return found

    def find_way(self, h, found, widths):
        farthest = self.way[h + 1].reshape(self.n_states, -1).max(axis=1)
        used, count, share = (found[name] for name in ("used", "count", "share"))
        ways = self.next_weights @ farthest - self.has_drift * (self.of_samples @ farthest)
        total = np.bincount(self.cells[used], (self.weights * ways)[used], self.n_cells)
        kernel = self.kernel(np.minimum(widths, self.widest))
        mean = kernel @ total / (kernel @ count + self.c.PRIOR)
        mean += self.has_drift * (self.of_cells @ farthest) + (total - count * mean) / (
            count + share
        )
        self.way[h] = np.maximum(self.distances, mean)

    def find_distances(self):
        """Write the L1 distances to the nearest cell with samples; another category is at 1."""
        seen = np.unique(self.cells)
        away = abs(self.centers[:, None] - self.centers[seen])
        away = np.where(self.is_category, self.index[:, None] != self.index[seen], away)
        self.distances = away.sum(axis=2).min(axis=1, initial=np.inf)

    def back_up(self, h, rewards, values):
        q, variance = (rewards[name] + values[name] for name in ("mean", "variance"))
        bonus = (2 * self.learns - 1) * self.c.OPTIMISM * np.sqrt(variance)
        price, shape = self.c.PRICE * self.facts["spread"] or np.inf, (self.n_states, -1)
        top = np.where(self.lost[h] > 0.0, -np.inf, q).reshape(shape).max(axis=1)
        top = np.repeat(top, self.n_cells // self.n_states)
        self.lost[h] = np.where(top - q > price, top - q, 0.0) if self.is_first else self.lost[h]
        q = np.where(self.lost[h] > 0.0, top - self.lost[h], q)
        if self.learns:
            bonus[top - q > price], self.way[h, top - q > self.c.FAR_PRICE * price] = 0.0, 0.0
        self.q[h], self.bonus[h] = q, bonus
        rows, best = q.reshape(shape), (q + bonus).reshape(shape).argmax(axis=1)
        most = self.rewards.max() * (self.horizon - h if self.rewards.max() > 0.0 else 1)
        self.values[h] = np.minimum(rows[np.arange(self.n_states), best], most)
