"""Records of noise as a law: what was seen is what can happen, as often as it was seen.

A law has values and weights. It is the empirical law of the records: pooled over all steps, one
law per step, or one per season. Without a choice, a test decides. Let R be the ranks of all n
values and R_h their mean at step h. Under one law for all steps,

    K = (n - 1) sum_h n_h (R_h - R)^2 / sum (R_i - R)^2

is about chi-squared with H - 1 degrees of freedom (Kruskal and Wallis). The same is computed for
|R_i - R|, which shows a different spread. The law is one per step if one of the two, for some
column, has a probability below LEVEL.

Where a value is censored, the noise was at least that value. The law is then that of Kaplan and
Meier: P(noise > v) is the product over the values u <= v of 1 - (seen at u) / (known to be u, or
more than u). What remains beyond the largest value cannot be learned from the records; it is put at
that value.

A plan may use a smoothed law instead, see `smooth`: few records of a smooth law have gaps, and a
plan for them would play into the gaps.

A law of more than MOST_VALUES values is condensed: the values are halved again and again at the
median of the widest column, and the mean of each part stands for the part. Means are kept exactly.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.envs.starts import Weighted
from zooming.errors import ConfigurationError
from zooming.kernels.solve.laws import fit_smooth
from zooming.methods import UpperMethod
from zooming.validation import (
    Floats,
    as_floats,
    check_choice,
    check_int,
    check_list,
    count_noun,
    known_options,
    short_repr,
)

LAWS = ("auto", "pooled", "step")
LEVEL = 0.005  # probability below which steps are said to differ
MOST_TESTED = 20_000  # values for the test of steps
MOST_VALUES, MOST_PLANNED = 256, 32  # of a law, and of one for a plan; more are condensed
N_BINS, FEWEST = 64, 4  # of values that are no multiples of their smallest gap, to smooth them
EVEN, GAPS = 3.0, 2  # values added to those seen, and gaps to what is hidden beyond the largest
NONE = 1e-3  # expected number of values at a point below which a smooth law leaves it out
Mask = NDArray[np.bool_]


class Records:
    """Recorded noise, as the law of a compiled environment.

    Give it to `zooming.compiled_env(..., outcomes=records)`. `Records.read` reads files and frames.

    Parameters
    ----------
    values : array
        [n_episodes, n_steps], or [n_episodes, n_steps, n_columns]; or a series [n], which is cut
        into episodes. NaN is a missing value.
    names : sequence of str, optional
        Names of the columns.
    law : {"auto", "pooled", "step"}, default "auto"
        One law for all steps, or one per step. "auto" lets a test decide, see `records.choice`.
    by : sequence, optional
        Season of each step, such as "weekday" and "weekend": one law per season.
    dependent : bool, default False
        Whether noise depends on earlier noise of its episode. Then whole episodes are played again
        as they were recorded. A plan still treats steps as independent, and is valued on the whole
        episodes.
    censored : array of bool, optional
        Where true, the noise was at least the value: the demand on a day that was sold out. It has
        the shape of the values without columns. Only for one column.
    context : dict, optional
        {name: array}, states and actions that were recorded with the noise, each of the shape of
        the values without columns. No law uses them; `dependence` tests whether noise depends on
        them, and a plan warns if it seems to.

    Attributes
    ----------
    values : array
        The values, of shape (episodes, steps, columns). A series is one episode.
    names : tuple of str
        Names of the columns.
    hash : str
        Short hash of values and options. It is stored with what was planned.

    Examples
    --------
    >>> import zooming
    >>> demand = zooming.Records([[3.0, 9.0], [4.0, 8.0], [2.0, 9.0], [4.0, 7.0]], law="step")
    >>> demand
    Records(noise: 4 episodes of 2 steps, one law per step)
    >>> values, weights = demand.law(0, horizon=2)
    >>> values.ravel().tolist(), weights.tolist()
    ([2.0, 3.0, 4.0], [0.25, 0.25, 0.5])
    """

    @known_options
    def __init__(
        self,
        values: Any,
        *,
        names: Sequence[str] | None = None,
        law: str = "auto",
        by: Sequence[Any] | None = None,
        dependent: bool = False,
        censored: Any = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        found = _as_values(values)
        self.is_series = found.ndim == 1 or (found.ndim == 2 and len(found) == 1)
        if found.ndim == 1:
            found = found[None]
        self.values: Floats = found[:, :, None] if found.ndim == 2 else found
        n_columns = self.values.shape[2]
        self.names = _as_names(names, n_columns)
        self.kind = check_choice("law", law, LAWS)
        if isinstance(by, str) or not (by is None or isinstance(by, Iterable)):
            raise ConfigurationError(f"by={short_repr(by)}: give a list, one season for each step")
        self.by = None if by is None else tuple(by)
        self.dependent = bool(dependent)
        self.censored = _as_mask(censored, self.values)
        if context is not None and not isinstance(context, Mapping):
            raise ConfigurationError(
                f"context={short_repr(context)}: give a dict {{name: array}} of states and actions"
            )
        self.context = {
            str(name): _as_context(str(name), given, self.values.shape[:2])
            for name, given in (context or {}).items()
        }
        if self.by is not None and np.ndim(values) == 1:
            raise ConfigurationError(
                "by= names the season of each step of an episode, but a series has no episodes; "
                "give values [n_episodes, n_steps]"
            )
        n_steps = self.values.shape[1]
        if self.by is not None and len(self.by) != n_steps:
            raise ConfigurationError(
                f"by={short_repr(by)} has {len(self.by)} entries; give the season of each of the "
                f"{n_steps} steps"
            )
        self.rows: NDArray[np.int64] | None = None  # row of the source of each value, if read
        self.row_name = "row"  # "line" of a CSV file, whose header is line 1
        self.skipped = ""  # faults of the rows that were left out, in words
        self._known_laws: dict[tuple[int, str], list[Weighted]] = {}

    read = UpperMethod()

    # --- what was recorded ------------------------------------------------------------------------

    @property
    def n_noise(self) -> int:
        """Number of columns."""
        return int(self.values.shape[2])

    @property
    def hash(self) -> str:
        """Short hash of values and options."""
        digest = hashlib.sha256(np.ascontiguousarray(self.values).tobytes())
        options = (self.values.shape, self.names, self.kind, self.by, self.dependent)
        digest.update(repr(options).encode())
        digest.update(b"" if self.censored is None else self.censored.tobytes())
        return digest.hexdigest()[:16]

    def cut(self, horizon: int) -> tuple[Floats, Mask]:
        """Return all episodes of `horizon` steps: values [n, H, n_columns] and censored [n, H].

        A series is cut into consecutive episodes; a rest that is too short is left out.
        """
        check_int(horizon, "horizon", 1)
        n_episodes, n_steps = self.values.shape[:2]
        hidden = np.zeros((n_episodes, n_steps), bool) if self.censored is None else self.censored
        if self.is_series and n_steps != horizon:
            n = n_steps // horizon
            if not n:
                raise ConfigurationError(
                    f"the records have {count_noun(n_steps, 'row')}, fewer than the "
                    f"{horizon} steps of one episode; give more records or a shorter horizon"
                )
            rows = self.values[0, : n * horizon].reshape(n, horizon, self.n_noise)
            return rows, hidden[0, : n * horizon].reshape(n, horizon)
        if n_steps != horizon:
            raise ConfigurationError(
                f"the episodes of the records have {count_noun(n_steps, 'step')}, but the "
                f"environment has horizon={horizon}; give it horizon={n_steps}. If all steps have "
                "one law, the records can also be a series, which is cut into episodes of any "
                "length: Records.read without episode= and step="
            )
        return self.values, hidden

    def traces(self, horizon: int) -> Floats:
        """Return the complete episodes [n, H, n_columns]: those without a missing value."""
        found = self.cut(horizon)[0]
        return np.ascontiguousarray(found[~np.isnan(found).any(axis=(1, 2))])

    def take(self, episodes: Any, horizon: int) -> Records:
        """Return records of some episodes of `cut(horizon)`: their numbers, or a mask of them."""
        values, hidden = self.cut(horizon)
        return self._like(values[episodes], hidden[episodes])

    def scaled(self, factor: float) -> Records:
        """Return records whose values are multiplied by `factor`."""
        return self._like(self.values * factor, self.censored)

    def _like(self, values: Floats, censored: Mask | None) -> Records:
        """Return records with other values and the options of these."""
        found = Records(
            values, names=self.names, law=self.kind, by=self.by, dependent=self.dependent,
            censored=censored if self.censored is not None else None,
        )  # fmt: skip
        found.is_series = self.is_series and len(values) == 1
        return found

    def where(self, outcome: Floats, step: int = 0) -> str:
        """Return a phrase that names the first place of a value, at this step if it is there."""
        found = np.argwhere((self.values == outcome).all(axis=2))
        found = found[np.argsort(found[:, 1] != step, kind="stable")]
        named = ", ".join(f"{name} = {x:g}" for name, x in zip(self.names, outcome, strict=True))
        if not len(found):  # condensed, or scaled
            return f" (for {named}, of the records)"
        episode, step = found[0].tolist()
        place = f"row {step}" if self.is_series else f"episode {episode}, step {step}"
        if self.rows is not None:
            place = f"{self.row_name} {self.rows[episode, step]}"
        return f" (for {named}, of the records, {place})"

    # --- laws -------------------------------------------------------------------------------------

    def choice(self, horizon: int) -> tuple[str, float]:
        """Return how laws are pooled, "pooled", "step" or "season", and the test's probability.

        The probability is NaN if there was no test.
        """
        if self.by is not None:
            return "season", math.nan
        if self.kind != "auto" or horizon == 1:
            return ("pooled" if horizon == 1 else self.kind), math.nan
        values, hidden = self.cut(horizon)
        chance = (
            steps_differ(values) if not hidden.any() else hazards_differ(values[..., 0], hidden)
        )
        return ("step" if chance < LEVEL else "pooled"), chance

    def laws(self, horizon: int, form: str = "seen") -> list[Weighted]:
        """Return (values [n, n_columns], weights [n]) of each step.

        They are those that were "seen"; for a plan, they are "bold" where values are censored, or
        also "smooth", see `kaplan_meier` and `smooth`, and at most MOST_PLANNED.
        """
        key = horizon, form
        if key not in self._known_laws:
            values, hidden = self.cut(horizon)
            how = self.choice(horizon)[0]
            seasons = {"pooled": [0] * horizon, "step": range(horizon), "season": self.by or ()}
            season: Sequence[Any] = seasons[how]
            found = {
                one: self._law(values, hidden, np.array([s == one for s in season]), form)
                for one in dict.fromkeys(season)
            }
            self._known_laws[key] = [found[one] for one in season]
        return self._known_laws[key]

    def law(self, step: int, horizon: int) -> Weighted:
        """Return (values [n, n_columns], weights [n]) of one step."""
        return self.laws(horizon)[step]

    def _law(self, values: Floats, hidden: Mask, steps: Mask, form: str) -> Weighted:
        rows, is_hidden = values[:, steps].reshape(-1, self.n_noise), hidden[:, steps].ravel()
        is_there = ~np.isnan(rows).any(axis=1)
        rows, is_hidden = rows[is_there], is_hidden[is_there]
        if not len(rows):
            named = ", ".join(str(k) for k in np.flatnonzero(steps)[:5])
            raise ConfigurationError(
                f"the records have no value of {', '.join(self.names)} at step {named}; leave the "
                'step out, or give law="pooled", which uses the values of other steps'
            )
        if is_hidden.any():
            law = kaplan_meier(rows[:, 0], is_hidden, form)
        else:
            is_smooth = form == "smooth" and self.n_noise == 1
            law = smooth(rows[:, 0]) if is_smooth else empirical_law(rows)
        is_long = form != "seen" and len(law[1]) > MOST_PLANNED
        return condense(*law, MOST_PLANNED) if is_long else law

    def dependence(self, horizon: int) -> list[tuple[str, str, float]]:
        """Return (noise, context, probability) of each pair, the least probability first.

        Let y be the ranks of the noise, and x those of the context, both minus their mean at the
        step. Of n values at H steps, let R^2 be the share of the variance of y that x and x^2
        explain. If noise does not depend on the context, (n - H) R^2 is about chi-squared with 2
        degrees of freedom: the F test of a regression, for many values. The probability is that
        of such an R^2, times the number of pairs. Censored records are not tested, because what
        hides their values, the stock, is a state.
        """
        values, n_pairs = self.cut(horizon)[0], self.n_noise * len(self.context)
        if self.censored is not None:
            return []
        found = []
        for name, given in self.context.items():
            beside = given.ravel()[: values.shape[0] * horizon].reshape(values.shape[:2])
            for k, noise in enumerate(self.names):
                chance = _is_explained(values[:, :, k], beside)
                found.append((noise, name, min(1.0, n_pairs * chance)))
        return sorted(found, key=lambda one: one[2])

    def condensed_by(self, horizon: int) -> float:
        """Return how far a value is from the one that stands for it, on average: 0 if equal.

        It is the largest over steps and columns, as a share of the standard deviation.
        """
        values, worst = self.cut(horizon)[0], 0.0
        if self.censored is not None:
            return 0.0
        laws = self.laws(horizon)
        for points, weights in {id(law[0]): law for law in laws}.values():
            steps = [step for step, law in enumerate(laws) if law[0] is points]
            for k in range(self.n_noise):
                column = np.sort(values[:, steps, k].ravel())
                column = column[~np.isnan(column)]
                order = np.argsort(points[:, k])
                edges = np.cumsum(weights[order])
                places = (np.arange(len(column)) + 0.5) / len(column)
                stand = points[order, k][np.minimum(np.searchsorted(edges, places), len(edges) - 1)]
                worst = max(worst, float(np.abs(stand - column).mean() / (column.std() or 1.0)))
        return worst

    def __repr__(self) -> str:
        n, n_steps = self.values.shape[:2]
        kinds = {"auto": "law chosen by a test", "pooled": "one law", "step": "one law per step"}
        kind = "one law per season" if self.by is not None else kinds[self.kind]
        size = f"{count_noun(n, 'episode')} of {count_noun(n_steps, 'step')}"
        size = f"a series of {n_steps:,}" if self.is_series else size
        more = ", whole episodes" if self.dependent else ""
        more += ", censored" if self.censored is not None else ""
        return f"Records({', '.join(self.names)}: {size}, {kind}{more})"


def empirical_law(rows: Floats) -> Weighted:
    """Return the distinct rows [n, n_columns] and their shares, condensed if they are many."""
    if rows.shape[1] == 1:  # NumPy sorts numbers ten times as fast as rows
        found, counts = np.unique(rows[:, 0], return_counts=True)
        values = found[:, None]
    else:
        values, counts = np.unique(rows, axis=0, return_counts=True)
    weights = counts / counts.sum()
    if len(values) > MOST_VALUES:
        values, weights = condense(values, weights, MOST_VALUES)
    return np.ascontiguousarray(values), weights


def smooth(column: Floats) -> Weighted:
    """Return a law with the mean of a column whose weights are as smooth as the column allows.

    It is fitted to the counts on a line of points, see `kernels.solve.laws.fit_smooth`. The points
    go beyond both ends by the width / n, as far as the next of n uniform values may lie, but not
    below 0 if no value does. A column is not smoothed if 90 % of its values lie within FEWEST bins,
    because the others are very far away.
    """
    if len(np.unique(column)) < 3:
        return empirical_law(column[:, None])
    low, unit, counts = _on_a_line(column, column.min(), column.max())
    ends, n = np.quantile(column, [0.05, 0.95]), len(column)
    if len(counts) == N_BINS + 1 and ends[1] - ends[0] < FEWEST * unit:
        return empirical_law(column[:, None])
    above = below = int(np.rint((len(counts) - 1) / n))
    if low >= 0:
        below = min(below, int(low / unit + 1e-6))
    counts = np.pad(counts, (below, above))
    law = np.empty(len(counts))
    fit_smooth()(counts, np.full(len(counts), float(n)), law)
    keep = law > NONE / n
    values = np.asarray(low + unit * (np.flatnonzero(keep) - below), np.float64)
    return values[:, None], law[keep] / law[keep].sum()


def _on_a_line(column: Floats, least: float, top: float) -> tuple[float, float, Floats]:
    """Count the values of a column at equally spaced points from `least` to `top`.

    Return (low, unit, counts): the first point, the space between two, and the count at each. The
    unit is the smallest gap. If there are less than three values, or some are no multiples of
    it, there are N_BINS + 1 points, and each value is shared between its neighbors.
    """
    places, seen = np.unique(column, return_counts=True)
    unit = float(np.diff(places).min()) if len(places) > 2 else 0.0
    index = (places - places[:1]) / (unit or 1.0)
    if top - least > MOST_VALUES * unit or np.abs(index - np.rint(index)).max() > 1e-6:
        unit, low = float(top - least) / N_BINS, float(least)
    else:
        low = float(places[0] - unit * int((places[0] - least) / unit + 1e-6))
    index = (places - low) / unit
    n_points = max(int((top - low) / unit + 1e-6) + 1, 2)
    first = np.minimum((index + 1e-6).astype(int), n_points - 2)
    share = np.clip(index - first, 0.0, 1.0)
    counts: Floats = np.zeros(n_points)
    counts += np.bincount(first, seen * (1.0 - share), n_points)
    counts += np.bincount(first + 1, seen * share, n_points)
    return low, unit, counts


def kaplan_meier(values: Floats, hidden: Mask, form: str = "seen") -> Weighted:
    """Return the law of values of which the hidden ones are only lower bounds.

    What remains beyond the largest value is put there. In the forms "bold" and "smooth" it is put
    one or GAPS gaps above, with all that was hidden at the largest value: so a plan finds out what
    is there, if that may pay. In the form "smooth", the hazards P(noise = v) / P(noise >= v) are
    smooth, see `kernels.solve.laws.fit_smooth`: most values are hidden, and few are seen at each
    place. To what was seen, EVEN values are added, spread evenly from 0 to the largest bound.
    Without them, a plan believes the first few values that it sees, and may never see others.
    """
    top, known = values.max(), np.unique(values[~hidden])
    places: Floats = np.unique(values)
    seen: Floats
    least = min(0.0, known[0]) if len(known) else 0.0
    is_smooth = form == "smooth" and top > least
    if is_smooth:
        low, unit, line = _on_a_line(values[~hidden], least, top)
        places = np.asarray(low + unit * np.arange(len(line)), np.float64)
        seen = line + EVEN / len(line)
    else:
        seen = np.bincount(np.searchsorted(places, values), ~hidden, len(places)).astype(float)
    # A value censored at u says noise >= u, but not whether it is u: it is at risk below u only.
    bounds = np.sort(values[hidden])
    at_risk = seen[::-1].cumsum()[::-1] + len(bounds) - np.searchsorted(bounds, places, "right")
    if form != "seen":
        at_risk[-1] = seen[-1] + len(bounds) - np.searchsorted(bounds, places[-1])
    hazard = np.divide(seen, at_risk, out=np.zeros_like(seen), where=seen > 0)
    if is_smooth:
        fit_smooth()(seen, at_risk, hazard)
        hazard = np.minimum(hazard, 1.0)
    survival = np.cumprod(1.0 - hazard)
    weights = -np.diff(survival, prepend=1.0)
    if form != "seen" and survival[-1] > 0:
        further = max(places[-1], top) + (GAPS if is_smooth else 1) * _usual_gap(known, top)
        places, weights = np.append(places, further), np.append(weights, 0.0)
    weights[-1] += survival[-1]  # unknown
    keep = weights > 0
    places, weights = places[keep], weights[keep] / weights[keep].sum()
    if len(places) > MOST_VALUES:
        return condense(places[:, None], weights, MOST_VALUES)
    return places[:, None], weights


def _usual_gap(known: Floats, top: float) -> float:
    """Return the median gap between known values, at least 1 / 20 of their width.

    Of less than two values, it is a tenth of the largest value, or 1.
    """
    if len(known) < 2:
        return 0.1 * abs(top) or 1.0
    return float(max(np.median(np.diff(known)), (known[-1] - known[0]) / 20))


def condense(values: Floats, weights: Floats, n: int) -> Weighted:
    """Return at most n values and weights that stand for many: means of parts, halved at medians.

    >>> condense(np.array([[0.0], [1.0], [2.0], [9.0]]), np.full(4, 0.25), 2)
    (array([[0.5],
           [5.5]]), array([0.5, 0.5]))
    """
    scale = values.std(axis=0)
    scaled = values / np.where(scale > 0, scale, 1.0)
    parts = [np.argsort(values[:, 0], kind="stable")]
    while 2 * len(parts) <= n:
        halves = []
        for part in parts:
            if len(part) == 1:
                halves.append(part)
                continue
            if values.shape[1] > 1:
                axis = int(np.ptp(scaled[part], axis=0).argmax())
                part = part[np.argsort(scaled[part, axis], kind="stable")]
            share = weights[part].cumsum()
            middle = min(int(share.searchsorted(share[-1] / 2)) + 1, len(part) - 1)
            halves += [part[:middle], part[middle:]]
        if len(halves) == len(parts):
            break
        parts = halves
    total = np.array([weights[part].sum() for part in parts])
    sums = np.array([weights[part] @ values[part] for part in parts])
    return sums / total[:, None], total


def steps_differ(values: Floats) -> float:
    """Return the probability of such differences between steps under one law for all.

    The values are [n_episodes, n_steps, n_columns]; of very many, the last are tested. It is the
    smallest probability of all tests, times their number.
    """
    values = values[-max(2, MOST_TESTED // values.shape[1]) :]
    steps = np.broadcast_to(np.arange(values.shape[1]), values.shape[:2]).ravel()
    least = 1.0
    for k in range(values.shape[2]):
        column = values[:, :, k].ravel()
        there = ~np.isnan(column)
        ranks, groups = rank(column[there]), steps[there]
        for scores in (ranks, np.abs(ranks - ranks.mean()) if len(ranks) else ranks):
            least = min(least, _groups_differ(scores, groups))
    return float(min(1.0, 2 * values.shape[2] * least))


def hazards_differ(values: Floats, hidden: Mask) -> float:
    """Return the probability of such differences between steps [n, H], some values hidden.

    It is the log-rank test: at each value, the steps share those seen there in proportion to their
    values that are known to be as large. Sums of (seen - share)^2 / share are about chi-squared.
    """
    n_steps = values.shape[1]
    there = ~np.isnan(values)
    places = np.unique(values[there & ~hidden])
    seen, at_risk = np.zeros((n_steps, len(places))), np.zeros((n_steps, len(places)))
    for step in range(n_steps):
        column, is_hidden = values[there[:, step], step], hidden[there[:, step], step]
        known, every = np.sort(column[~is_hidden]), np.sort(column)
        seen[step] = np.searchsorted(known, places, "right") - np.searchsorted(known, places)
        at_risk[step] = len(every) - np.searchsorted(every, places, "right") + seen[step]
    total = np.maximum(at_risk.sum(axis=0), 1.0)
    expected = (at_risk * (seen.sum(axis=0) / total)).sum(axis=1)
    used = expected > 0
    if used.sum() < 2:
        return 1.0
    away = (seen.sum(axis=1) - expected)[used]
    return chi_squared_tail(float((away**2 / expected[used]).sum()), int(used.sum()) - 1)


def rank(values: Floats) -> Floats:
    """Return the ranks of values from 1 on; equal values share their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[index.ravel()], np.float64)


def _groups_differ(scores: Floats, groups: NDArray[np.int64]) -> float:
    """Return the probability of so different group means under one law."""
    n, centered = len(scores), scores - scores.mean() if len(scores) else scores
    total = float(centered @ centered)
    counts = np.bincount(groups)
    sums = np.bincount(groups, centered, len(counts))
    freedom = int((counts > 0).sum()) - 1
    if total == 0.0 or freedom < 1 or n <= freedom + 1:
        return 1.0
    between = float((sums[counts > 0] ** 2 / counts[counts > 0]).sum())
    return chi_squared_tail((n - 1) * between / total, freedom)


def _is_explained(values: Floats, beside: Floats) -> float:
    """Return the probability of so large a share explained under independence; see `dependence`."""
    there = ~(np.isnan(values) | np.isnan(beside))
    steps = np.broadcast_to(np.arange(values.shape[1]), values.shape)[there]
    counts = np.maximum(np.bincount(steps, minlength=values.shape[1]), 1)

    def centered(scores: Floats) -> Floats:
        means = np.bincount(steps, scores, values.shape[1]) / counts
        return np.asarray(scores - means[steps])

    y, x = centered(rank(values[there])), centered(rank(beside[there]))
    total, freedom = float(y @ y), len(y) - int((counts > 1).sum())
    if total == 0.0 or not x.any() or freedom < 8:
        return 1.0
    x /= np.abs(x).max()
    terms = np.column_stack([x, centered(x**2)])
    fitted = terms @ np.linalg.lstsq(terms, y, rcond=None)[0]
    return chi_squared_tail(freedom * float(fitted @ fitted) / total, 2)


def chi_squared_tail(x: float, freedom: int) -> float:
    """Return P(X > x) of a chi-squared law, by the cube root of Wilson and Hilferty.

    >>> round(chi_squared_tail(3.84, 1), 3), round(chi_squared_tail(18.31, 10), 3)
    (0.05, 0.05)
    """
    if freedom == 1:
        return math.erfc(math.sqrt(max(x, 0.0) / 2))
    if freedom == 2:
        return math.exp(-max(x, 0.0) / 2)
    spread = 2.0 / (9.0 * freedom)
    z = ((max(x, 0.0) / freedom) ** (1 / 3) - (1.0 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _as_values(values: Any) -> Floats:
    is_dict = hasattr(values, "items") and not hasattr(values, "iloc")
    if isinstance(values, (str, bytes)) or is_dict:
        raise ConfigurationError(
            f"Records({short_repr(values)}): give an array [n_episodes, n_steps]; "
            "zooming.Records.read reads files, frames and dicts of columns"
        )
    try:
        found = as_floats(values)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"Records: {_first_text(values)}; give an array of numbers "
            "[n_episodes, n_steps], with NaN for missing values"
        ) from error
    if found.ndim not in (1, 2, 3) or not found.size:
        raise ConfigurationError(
            f"Records: values of shape {found.shape}; give [n_episodes, n_steps], "
            "[n_episodes, n_steps, n_columns], or a series [n]"
        )
    bad = np.argwhere(np.isinf(found))
    if len(bad):
        place = ", ".join(map(str, bad[0].tolist()))
        raise ConfigurationError(f"Records: values[{place}] is infinite; give finite numbers")
    if np.isnan(found).all():
        raise ConfigurationError("Records: every value is missing; give at least one number")
    return found


def _first_text(values: Any) -> str:
    """Return a phrase that names the first value that is not a number."""
    try:
        cells = np.asarray(values, dtype=object)
    except ValueError:
        return "the rows have different lengths"
    for place, value in np.ndenumerate(np.atleast_1d(cells)):
        try:
            float(value)
        except (TypeError, ValueError, OverflowError):
            if isinstance(value, (list, tuple)):
                return "the rows have different lengths"
            row, *rest = place
            column = f", column {rest[0]}" if rest else ""
            return f"row {row}{column} is {short_repr(value)}, which is not a number"
    return "the values are not numbers"


def _as_names(names: Any, n: int) -> tuple[str, ...]:
    if names is None:
        return ("noise",) if n == 1 else tuple(f"noise[{k}]" for k in range(n))
    found = tuple(map(str, check_list(names, "names")))
    if len(found) != n:
        raise ConfigurationError(
            f"names={short_repr(names)}: give one name for each of the {n} columns of noise"
        )
    return found


def _as_mask(censored: Any, values: Floats) -> Mask | None:
    if censored is None:
        return None
    if values.shape[2] != 1:
        raise ConfigurationError(
            f"censored= is for one column of noise; these records have {values.shape[2]}"
        )
    found = np.asarray(censored)
    is_mask = found.dtype == bool or np.isin(found, (0, 1)).all()
    if found.size != values.shape[0] * values.shape[1] or not is_mask:
        raise ConfigurationError(
            f"censored has shape {found.shape}; give true or false for each of the values "
            f"{values.shape[:2]}"
        )
    return np.ascontiguousarray(found.reshape(values.shape[:2]).astype(bool))


def _as_context(name: str, given: Any, shape: tuple[int, ...]) -> Floats:
    try:
        found = as_floats(given)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"context {name!r}: {_first_text(given)}; give numbers, and leave out texts"
        ) from error
    if found.size != math.prod(shape):
        raise ConfigurationError(
            f"context {name!r} has shape {found.shape}; give one number for each of the values "
            f"{shape}"
        )
    return found.reshape(shape)
