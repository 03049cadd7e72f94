"""Check the paper's claims about its figures against the runs, and return a verdict on each.

Agents are compared seed by seed. A claim is confirmed if the whole 95 % interval is on its side,
refuted if the whole interval is on the other side, and undecided otherwise. A check is a function
that takes the evidence of a figure, and returns (whether the claim holds, the finding).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zooming.analysis.intervals import Interval, mean_interval
from zooming.plots.curves import Runs
from zooming.validation import Floats

if TYPE_CHECKING:
    from zooming.lab.paper.sweep import Evidence

SHORT = 0.01  # share of the optimum: a closer return is near-optimal, others are suboptimal
MUCH = 2.0  # a larger ratio of balls counts as much fewer
T_95 = 2.16  # quantile of Student's t for 15 problems
_TEXTS = {
    "no-movement": "no movement",
    "median": "the median",
    "net": "the net",
    "adaptive": "the adaptive agent",
}  # the agents of the paper, as they are written in a sentence

Finding = tuple[bool | None, str]


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds (None if undecided), the finding, and its source in the paper."""

    claim: str
    holds: bool | None
    finding: str
    source: str

    def __str__(self) -> str:
        word = {True: "Confirmed", False: "Refuted", None: "Undecided"}[self.holds]
        return f"{word}: {self.claim} {self.finding}"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about a figure: its text, its source, and the check with arguments."""

    text: str
    source: str
    test: Callable[..., Finding]
    arguments: tuple[Any, ...] = ()

    def check(self, evidence: Evidence) -> Verdict:
        """Return the verdict on these runs."""
        return Verdict(self.text, *self.test(evidence, *self.arguments), self.source)


def sign(interval: Interval, level: float = 0.0) -> bool | None:
    """Return True if the interval is above `level`, False if below, None if it contains `level`."""
    return True if interval.low > level else False if interval.high < level else None


def all_of(signs: list[bool | None]) -> bool | None:
    """Return True if all signs are True, False if one is False, otherwise None."""
    return True if all(signs) else False if False in signs else None


# --- claims on returns and balls ------------------------------------------------------------


def beats(evidence: Evidence, other: str = "net") -> Finding:
    """Check: over all episodes, the adaptive agent returns more than another agent."""
    advantage = mean_interval(_per_episode(evidence, "adaptive") - _per_episode(evidence, other))
    finding = f"It returns {_difference_text(advantage)} per episode over all episodes."
    return sign(advantage), finding


def ends_ahead(evidence: Evidence, other: str = "net") -> Finding:
    """Check: in the last tenth of the episodes, the adaptive agent returns more than another."""
    ours, theirs = (final_returns(evidence, name) for name in ("adaptive", other))
    advantage = mean_interval(ours - theirs)
    more = _difference_text(advantage)
    return sign(advantage), f"In the last tenth of the episodes it returns {more} per episode."


def fewer_balls(evidence: Evidence) -> Finding:
    """Check: the adaptive partition has at most half as many balls as the net."""
    ours, theirs = (
        evidence.runs[name].n_balls[:, -1].astype(np.float64) for name in ("adaptive", "net")
    )
    times = mean_interval(theirs / ours)
    finding = (
        f"{ours.mean():,.0f} balls against {theirs.mean():,.0f}: {times.mean:.2f} "
        f"({times.low:.2f} to {times.high:.2f}) times fewer; the claim needs {MUCH:g}."
    )
    return sign(times, MUCH), finding


def is_best(evidence: Evidence, agent: str) -> Finding:
    """Check: a heuristic has the largest return of all agents in the paper."""
    leads = {
        name: mean_interval(_per_episode(evidence, agent) - _per_episode(evidence, name))
        for name in evidence.runs
        if name in _TEXTS and name != agent
    }
    runner_up = min(leads, key=lambda name: leads[name].mean)
    finding = (
        f"It returns {_difference_text(leads[runner_up])} per episode than "
        f"{_TEXTS[runner_up]}, the best of the others."
    )
    return all_of([sign(lead) for lead in leads.values()]), finding


def near_optimal(evidence: Evidence, agent: str) -> Finding:
    """Check: a heuristic is near-optimal in the last tenth of the episodes."""
    best = evidence.optimal.return_
    gap, allowed = mean_interval(best - final_returns(evidence, agent)), SHORT * abs(best)
    finding = (
        f"It is {_interval_text(gap)} below the optimum of {best:.3f}; "
        f"the claim allows {allowed:.3f} (1 %)."
    )
    return sign(Interval(-gap.mean, -gap.high, -gap.low), -allowed), finding


def nobody_is_optimal(evidence: Evidence) -> Finding:
    """Check: every agent of the paper is suboptimal in the last tenth of the episodes."""
    best = evidence.optimal.return_
    gaps = {
        name: mean_interval(best - final_returns(evidence, name))
        for name in evidence.runs
        if name in _TEXTS
    }
    nearest, allowed = min(gaps, key=lambda name: gaps[name].mean), SHORT * abs(best)
    finding = (
        f"Nearest to the optimum of {best:.3f} is {_TEXTS[nearest]}, "
        f"{_interval_text(gaps[nearest])} below; the claim needs more than {allowed:.3f} (1 %)."
    )
    return all_of([sign(gap, allowed) for gap in gaps.values()]), finding


def final_returns(evidence: Evidence, name: str) -> Floats:
    """Return the mean return of each seed over about the last tenth of the episodes."""
    runs = evidence.runs[name]
    first = int(np.argmin(np.abs(runs.episode[:-1] - 0.9 * runs.episode[-1])))
    per_episode: Floats = (runs.total_return[:, -1] - runs.total_return[:, first]) / (
        runs.episode[-1] - runs.episode[first]
    )
    return per_episode


def _per_episode(evidence: Evidence, name: str) -> Floats:
    """Return the mean return of each seed over all episodes."""
    found: Floats = evidence.runs[name].total_return[:, -1] / evidence.episodes
    return found


def growth_exponent(runs: Runs) -> float:
    """Return e such that the mean regret grew like K^e over the last three quarters of K."""
    mean = runs.regret.mean(axis=0)
    first = int(np.argmin(np.abs(runs.episode - runs.episode[-1] / 4)))
    rise = mean[-1] / mean[first] if min(mean[-1], mean[first]) > 0 else math.nan
    return float(math.log(rise) / math.log(runs.episode[-1] / runs.episode[first]))


def _interval_text(interval: Interval) -> str:
    return f"{interval.mean:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _difference_text(interval: Interval) -> str:
    """Return a phrase such as `0.123 (0.100 to 0.146) more`."""
    factor, word = (1.0, "more") if interval.mean >= 0 else (-1.0, "less")
    low, high = sorted((factor * interval.low, factor * interval.high))
    return f"{abs(interval.mean):.3f} ({low:.3f} to {high:.3f}) {word}"


# --- claims on several figures --------------------------------------------------------------------

SHARPNESS, SURVEYS = (1, 10, 50), ("laplace", "quadratic")
_SHARPER = {survey: [f"oil-{survey}-{s}" for s in SHARPNESS] for survey in SURVEYS}
ALL_PROBLEMS = [name for names in _SHARPER.values() for name in names] + [
    f"ambulance-{law}-{weight}"
    for law in ("beta", "uniform", "shifting")
    for weight in ("0", "0.25", "1")
]
Findings = Mapping[str, Mapping[str, Any]]  # by problem


def overall(findings: Iterable[Mapping[str, Any]]) -> list[Verdict]:
    """Return the verdicts on the claims whose figures all have findings."""
    found, verdicts = {one["problem"]: one for one in findings}, []
    for survey, problems in _SHARPER.items():
        if found.keys() >= set(problems):
            text = f"the gap between both agents grows with the sharpness ({survey} survey)."
            verdicts.append(Verdict(text, *_grows(found, problems), "section 1.1"))
    if found.keys() >= set(ALL_PROBLEMS):
        text = "regret scales with the covering of the near-optimal pairs."
        verdicts.append(Verdict(text, *follows_shape(found), "section 4.1"))
    return verdicts


def _grows(found: Findings, problems: list[str]) -> Finding:
    """Check: the gap grows with the sharpness of the survey, from problem to problem."""
    numbers = [Interval(*found[problem]["gap"]) for problem in problems]
    halves = [(one.high - one.low) / 2 for one in numbers]
    grows = []
    for i, k in itertools.pairwise(range(len(numbers))):
        rise, half = numbers[k].mean - numbers[i].mean, math.hypot(halves[k], halves[i])
        grows.append(sign(Interval(rise, rise - half, rise + half)))  # of independent means
    shown = ", ".join(f"{n.mean:.2f} ± {half:.2f}" for n, half in zip(numbers, halves, strict=True))
    finding = f"At lambda = {', '.join(map(str, SHARPNESS))} it is {shown} per episode."
    return all_of(grows), finding


def follows_shape(found: Findings) -> Finding:
    """Check: regret grows faster with the episodes where more pairs are nearly optimal.

    The exponent of the regret is regressed on the zooming dimension. The theorem's exponent for
    dimension d is (d + 1) / (d + 2). The covering dimension, 2 in all problems, predicts one
    exponent for all of them.
    """
    dimension, exponent = (
        np.array([found[problem][name] for problem in ALL_PROBLEMS])
        for name in ("zooming_dimension", "exponent")
    )
    away = dimension - dimension.mean()
    slope = float((away * exponent).sum() / (away**2).sum())
    rest = exponent - exponent.mean() - slope * away
    n = len(rest)
    half = T_95 * math.sqrt((rest**2).sum() / (n - 2) / (away**2).sum())
    finding = (
        f"Over {n} problems of dimension {dimension.min():.2f} to {dimension.max():.2f}, the "
        f"exponent grows by {slope:.2f} ({slope - half:.2f} to {slope + half:.2f}) per "
        f"dimension; it is {exponent.mean():.2f} on average. The covering dimension is 2 "
        "everywhere, so it explains no difference."
    )
    return sign(Interval(slope, slope - half, slope + half)), finding
